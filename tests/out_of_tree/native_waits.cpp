// Work of samples/opencl that waits for other work of the device waits in the driver: it is there
// before what it waits for is done, nothing is held back, and no thread of the host waits for it.
// opencl.sh compiles this with the sample's sources.
#include <dirent.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "device.h"
#include "tenon/cpp/plugin.hpp"

namespace {

using namespace opencl_sample;

#define EXPECT(condition)                                                          \
  do {                                                                             \
    if (!(condition)) {                                                            \
      std::fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
      std::exit(1);                                                                \
    }                                                                              \
  } while (0)
#define OK(call) EXPECT((call) == TENON_OK)

constexpr uint64_t kBytes = 4096;
const tenon_device_api_t& d = kDeviceTable;
const tenon_queue_api_t& q = kQueueTable;
const tenon_exchange_api_t& x = kExchangeTable;

size_t threads() {
  DIR* tasks = ::opendir("/proc/self/task");
  size_t count = 0;
  while (::readdir(tasks) != nullptr) ++count;
  ::closedir(tasks);
  return count;
}

tenon_copy_t fill(tenon_buffer_t* to, uint64_t pattern) {
  tenon_copy_t copy = {};
  copy.size_bytes = sizeof copy;
  copy.direction = TENON_COPY_FILL;
  copy.to = to;
  copy.length_bytes = kBytes;
  copy.pattern = pattern;
  copy.pattern_bytes = 1;
  return copy;
}
tenon_copy_t across(tenon_buffer_t* to, tenon_buffer_t* from) {
  tenon_copy_t copy = {};
  copy.size_bytes = sizeof copy;
  copy.direction = TENON_COPY_DEVICE_TO_DEVICE;
  copy.to = to;
  copy.from = from;
  copy.length_bytes = kBytes;
  return copy;
}

// Whether all that was submitted to the queue is with the driver.
bool all_there(tenon_queue_t* queue) {
  tenon_native_handle_t native = {};
  native.size_bytes = sizeof native;
  constexpr char kKind[] = "opencl.queue";
  OK(x.export_queue(x.self, queue, {kKind, sizeof kKind - 1}, &native));
  return (native.flags & TENON_NATIVE_ALL_THERE) != 0;
}

uint64_t now(tenon_fence_t* fence) {
  uint64_t value = 0;
  OK(q.fence_query(q.self, fence, &value));
  return value;
}

// A stream from outside, which does nothing before `gate` is set. The driver has begun the work
// that follows, which ends when this test wants it to.
struct GatedStream {
  const Functions& cl;
  cl_command_queue stream;
  cl_event gate;
  explicit GatedStream(Device& device) : cl(*device.cl) {
    cl_int code = CL_SUCCESS;
    stream = cl.clCreateCommandQueue(device.context, device.found->id, 0, &code);
    EXPECT(code == CL_SUCCESS);
    gate = cl.clCreateUserEvent(device.context, &code);
    EXPECT(code == CL_SUCCESS);
    EXPECT(cl.clEnqueueBarrierWithWaitList(stream, 1, &gate, nullptr) == CL_SUCCESS);
    EXPECT(cl.clFlush(stream) == CL_SUCCESS);
  }
  ~GatedStream() {
    cl.clReleaseEvent(gate);
    cl.clReleaseCommandQueue(stream);
  }
  void open() { EXPECT(cl.clSetUserEventStatus(gate, CL_COMPLETE) == CL_SUCCESS); }
};

struct Fixture {
  tenon_device_t* device = nullptr;
  tenon_buffer_t *a = nullptr, *b = nullptr;
  tenon_fence_t *first = nullptr, *second = nullptr, *host = nullptr;
  tenon_queue_t *one = nullptr, *two = nullptr;

  Fixture() {
    OK(d.open(d.self, 0, &device));
    OK(d.alloc(d.self, device, kBytes, &a));
    OK(d.alloc(d.self, device, kBytes, &b));
    for (tenon_fence_t** fence : {&first, &second, &host})
      OK(q.fence_create(q.self, device, 0, fence));
    OK(q.queue_create(q.self, device, &two));
  }
  void import(cl_command_queue stream) {
    constexpr char kKind[] = "opencl.queue";
    tenon_native_handle_t native = {};
    native.size_bytes = sizeof native;
    native.kind = {kKind, sizeof kKind - 1};
    native.handle = reinterpret_cast<uintptr_t>(stream);
    OK(x.import_queue(x.self, device, &native, &one));
  }
  void submit(tenon_queue_t* to, const tenon_copy_t& copy, tenon_fence_point_t wait,
              tenon_fence_point_t signal) const {
    OK(q.copy_async(q.self, to, &copy, &wait, 1, signal));
  }
  bool holds(tenon_buffer_t* buffer, unsigned char value) const {
    std::vector<unsigned char> bytes(kBytes);
    tenon_copy_t copy = {};
    copy.size_bytes = sizeof copy;
    copy.direction = TENON_COPY_DEVICE_TO_HOST;
    copy.from = buffer;
    copy.length_bytes = kBytes;
    copy.host_to = bytes.data();
    OK(d.copy(d.self, device, &copy));
    return bytes == std::vector<unsigned char>(kBytes, value);
  }
  void end() {
    OK(q.queue_destroy(q.self, one));
    OK(q.queue_destroy(q.self, two));
    for (tenon_fence_t* fence : {first, second, host}) OK(q.fence_destroy(q.self, fence));
    OK(d.free(d.self, device, a));
    OK(d.free(d.self, device, b));
    OK(d.close(d.self, device));
  }
};

// Much work, each waiting for the one before on the other queue, all of it with the driver at once.
void native_waits() {
  constexpr uint64_t kRounds = 50;
  Fixture f;
  GatedStream gated(*device_of(f.device));
  f.import(gated.stream);
  f.submit(f.one, fill(f.a, 0x10), {}, {f.first, 1});
  const size_t before = threads();
  for (uint64_t i = 1; i <= kRounds; ++i) {
    f.submit(f.two, across(f.b, f.a), {f.first, i}, {f.second, i});
    f.submit(f.one, fill(f.a, 0x10 + i), {f.second, i}, {f.first, i + 1});
  }
  EXPECT(all_there(f.one) && all_there(f.two));
  EXPECT(now(f.first) == 0 && now(f.second) == 0);
  EXPECT(threads() == before);
  gated.open();
  OK(q.fence_wait(q.self, f.first, kRounds + 1, UINT64_MAX));
  EXPECT(now(f.second) == kRounds);
  EXPECT(f.holds(f.b, 0x10 + kRounds - 1) && f.holds(f.a, 0x10 + kRounds));
  f.end();
}

// What the host is to signal is held back, as is what waits for it; the driver knows neither.
void waits_for_the_host() {
  Fixture f;
  GatedStream gated(*device_of(f.device));
  f.import(gated.stream);
  gated.open();
  f.submit(f.one, fill(f.a, 0x21), {f.host, 1}, {f.first, 1});
  f.submit(f.two, across(f.b, f.a), {f.first, 1}, {f.second, 1});
  EXPECT(!all_there(f.one) && !all_there(f.two));
  EXPECT(now(f.second) == 0);
  OK(q.fence_signal(q.self, f.host, 1));
  OK(q.fence_wait(q.self, f.second, 1, UINT64_MAX));
  EXPECT(f.holds(f.b, 0x21));
  f.end();
}

}  // namespace

int main() {
  // A host that has no settings, and nothing else.
  tenon_host_t host = {};
  host.size_bytes = sizeof host;
  host.query = [](void*, tenon_str_t, uint32_t, const void**) -> tenon_code_t {
    return TENON_UNIMPLEMENTED;
  };
  host.fail = [](void*, tenon_code_t code, tenon_str_t, const tenon_key_value_t*, uint32_t) {
    return code;
  };
  host.setting = [](void*, tenon_str_t) -> tenon_str_t { return {"", 0}; };
  tenon::attach(&host);
  uint32_t count = 0;
  OK(d.count(d.self, &count));
  EXPECT(count != 0);
  native_waits();
  waits_for_the_host();
  std::puts("waits in the driver");
}
