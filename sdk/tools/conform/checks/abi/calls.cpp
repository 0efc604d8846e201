// Group B: what failing calls must do, and what calls that fill records must do.
#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tenon/abi/compile.h>
#include <tenon/abi/toolchain.h>

#include "sdk/tools/conform/checks/tables.h"
#include "sdk/tools/conform/fixtures/compile/compile_fixture.h"
#include "sdk/tools/conform/fixtures/compile/compile_graphs.h"
#include "sdk/tools/conform/fixtures/device/open_device.h"
#include "sdk/tools/conform/fixtures/device/open_queue.h"
#include "sdk/tools/conform/subject/names.h"
#include "sdk/tools/conform/subject/session.h"

namespace tenon::conform {
namespace {

// A call that has to fail, with what is judged: code, reason, outputs.
struct Provoked {
  std::string what;
  tenon_code_t code = TENON_OK;
  HeardFailure heard;
  bool outputs_kept = true;
};

template <typename Call>
Provoked provoke(Session& s, std::string what, Call call) {
  s.step(what);
  forget_failure();
  Provoked provoked{std::move(what), TENON_OK, {}, true};
  provoked.code = call(&provoked.outputs_kept);
  provoked.heard = heard_failure();
  return provoked;
}

void provoke_device(Session& s, std::vector<Provoked>& all) {
  const tenon_device_api_t* api = nullptr;
  uint32_t count = 0;
  if (find_devices(s, &api, &count).verdict != Verdict::kPass) return;
  all.push_back(provoke(s, "info beyond the last device", [&](bool* kept) {
    tenon_device_info_t info, before;
    std::memset(&info, 0x5a, sizeof(info));
    info.size_bytes = sizeof(info);
    before = info;
    const tenon_code_t code = api->info(api->self, count, &info);
    *kept = std::memcmp(&info, &before, sizeof(info)) == 0;
    return code;
  }));
  all.push_back(provoke(s, "open beyond the last device", [&](bool* kept) {
    auto* const mark = reinterpret_cast<tenon_device_t*>(&all);
    tenon_device_t* device = mark;
    const tenon_code_t code = api->open(api->self, count, &device);
    *kept = device == mark;
    return code;
  }));
  static auto* device = new OpenDevice(api, 0);  // stays open: the process ends soon
  tenon_buffer_t* buffer = nullptr;
  if (device->open().verdict != Verdict::kPass ||
      device->alloc(256, &buffer).verdict != Verdict::kPass)
    return;
  all.push_back(provoke(s, "alloc of nearly 2^64 bytes", [&](bool* kept) {
    auto* const mark = reinterpret_cast<tenon_buffer_t*>(&all);
    tenon_buffer_t* out = mark;
    const tenon_code_t code = api->alloc(api->self, device->device(), UINT64_MAX - 8, &out);
    *kept = out == mark;
    return code;
  }));
  all.push_back(provoke(s, "a copy that leaves its buffer", [&](bool* kept) {
    Bytes bytes(512, 0x5a);
    const tenon_code_t code = device->to_host(bytes.data(), buffer, 1, 256);
    *kept = bytes == Bytes(512, 0x5a);
    return code;
  }));
  all.push_back(provoke(s, "a fill with a pattern of 3 bytes",
                        [&](bool*) { return device->fill(buffer, 0, 255, 1, 3); }));
}

// A query of a fence whose work failed. Left out if no work fails, as on a device that checks
// ranges at submission.
void provoke_queue(Session& s, std::vector<Provoked>& all) {
  constexpr uint64_t kBytes = 64, kMark = 0x5a5a5a5a5a5a5a5a;
  const tenon_device_api_t* api = nullptr;
  const tenon_queue_api_t* queues = nullptr;
  uint32_t count = 0;
  if (find_devices(s, &api, &count).verdict != Verdict::kPass ||
      find_queues(s, &queues).verdict != Verdict::kPass)
    return;
  static auto* d = new OpenQueues(api, queues, 0);  // stays open: the process ends soon
  tenon_queue_t* queue = nullptr;
  tenon_fence_t* fence = nullptr;
  tenon_buffer_t *from = nullptr, *to = nullptr;
  s.step("work that fails");
  if (d->open().verdict != Verdict::kPass || d->queue(&queue).verdict != Verdict::kPass ||
      d->fence(0, &fence).verdict != Verdict::kPass ||
      d->memory().alloc(kBytes, &from).verdict != Verdict::kPass ||
      d->memory().alloc(kBytes, &to).verdict != Verdict::kPass ||
      d->submit_code(queue, async_between(to, kBytes - 8, from, 0, 16), {}, {fence, 1}) != TENON_OK)
    return;
  (void)d->wait_code(fence, 1, kPatienceNs);
  all.push_back(provoke(s, "fence_query of a fence whose work failed", [&](bool* kept) {
    uint64_t value = kMark;
    const tenon_code_t code = queues->fence_query(queues->self, fence, &value);
    *kept = value == kMark;
    return code;
  }));
}

// Sizes for another number of symbols than the graph has.
void provoke_needs(Session& s, std::vector<Provoked>& all) {
  static auto* fixture = new CompileFixture(s);  // stays open: the process ends soon
  static auto* compiled = new Compiled;
  static auto* part = new std::unique_ptr<Part>;
  OpenDevice* device = nullptr;
  if (fixture->ready(pair_graph(), &device, part).verdict != Verdict::kPass ||
      fixture->load(*device, **part, compiled).verdict != Verdict::kPass)
    return;
  all.push_back(provoke(s, "needs with a symbol for a graph that has none", [&](bool* kept) {
    const int64_t symbol = 3;
    int64_t dims[TENON_RANK_MAX];
    std::fill_n(dims, TENON_RANK_MAX, -7);
    tenon_output_need_t output = {77, dims, 78};
    tenon_needs_t record = {sizeof(record), 1, sizeof output, 0, &output, 79, 80};
    const tenon_needs_t before = record;
    const tenon_compile_api_t& c = fixture->compiler();
    const tenon_code_t code = c.needs(c.self, compiled->executable, {&symbol, 1}, &record);
    *kept = std::memcmp(&record, &before, sizeof(record)) == 0 && output.size_bytes_max == 77 &&
            output.dims == dims && output.alias_input == 78 &&
            std::all_of(dims, dims + TENON_RANK_MAX, [](int64_t dim) { return dim == -7; });
    return code;
  }));
}

tenon_code_t swallow(void*, const void*, uint64_t) {
  return TENON_OK;
}

void provoke_others(Session& s, std::vector<Provoked>& all) {
  static constexpr std::string_view kGarbage = "no such thing, and no code either";
  const tenon_sink_t sink = {nullptr, swallow};
  if (const auto* toolchain =
          static_cast<const tenon_toolchain_api_t*>(s.table(TENON_TOOLCHAIN_ID));
      toolchain != nullptr && toolchain->build != nullptr) {
    all.push_back(provoke(s, "a build in a dialect that does not exist", [&](bool*) {
      auto options = sized<tenon_toolchain_options_t>();
      return toolchain->build(toolchain->self, {nullptr, 0}, {"nonesuch", 8},
                              {kGarbage.data(), kGarbage.size()}, &options, &sink, &sink);
    }));
  }
  if (const auto* compile = static_cast<const tenon_compile_api_t*>(s.table(TENON_COMPILE_ID));
      compile != nullptr && compile->fits != nullptr) {
    all.push_back(provoke(s, "fits of bytes that are not an artifact", [&](bool*) {
      return compile->fits(compile->self, {"", 0}, kGarbage.data(), kGarbage.size());
    }));
  }
}

Outcome provoked_all(Session& s, std::vector<Provoked>* all) {
  CONFORM_TRY(walkable(s));
  provoke_device(s, *all);
  provoke_queue(s, *all);
  provoke_needs(s, *all);
  provoke_others(s, *all);
  return all->empty() ? skipped("it offers no call that is sure to fail") : pass();
}

Outcome failures_say_why(Session& s) {
  std::vector<Provoked> all;
  CONFORM_TRY(provoked_all(s, &all));
  for (const Provoked& p : all) {
    if (p.code == TENON_OK) continue;  // another check decides whether it must fail
    CONFORM_EXPECT(p.code <= kLastCode, "{} gives the code {}, which does not exist", p.what,
                   p.code);
    CONFORM_EXPECT(p.heard.any, "{} gives {} and does not call the host's fail", p.what,
                   code_text(p.code));
    CONFORM_EXPECT(p.heard.code == p.code, "{} gives {} and reported {} to the host", p.what,
                   code_text(p.code), code_text(p.heard.code));
    CONFORM_EXPECT(!trim(p.heard.text).empty(), "{} gives {} and an empty text", p.what,
                   code_text(p.code));
  }
  return pass();
}

Outcome failures_keep_outputs(Session& s) {
  std::vector<Provoked> all;
  CONFORM_TRY(provoked_all(s, &all));
  for (const Provoked& p : all)
    CONFORM_EXPECT(p.code == TENON_OK || p.outputs_kept, "{} gives {} and changes its output",
                   p.what, code_text(p.code));
  return pass();
}

// A record that a call fills, as bytes.
struct Filled {
  std::string_view name;
  uint32_t whole, less;  // bytes of the type, and the offset of its last field
  std::function<tenon_code_t(void* record)> call;
  Bytes begin = {};  // what the caller sets in it, besides size_bytes
};

// Makes the call with a record of `size` bytes that ends at the end of a writable page, and checks
// the bytes before it. base: that page, followed by a protected one. If the record is longer than
// its type, its tail must stay unchanged and its size must become that of the type.
Outcome record_at_page_end(const Filled& f, unsigned char* base, size_t page_bytes, uint32_t size) {
  std::memset(base, 0x5a, page_bytes);
  const uint32_t known = std::min(size, f.whole);
  unsigned char* const record = base + page_bytes - size;
  std::memset(record, 0, known);
  std::copy(f.begin.begin(), f.begin.end(), record);
  std::memcpy(record, &size, sizeof(size));
  forget_failure();
  const tenon_code_t code = f.call(record);
  CONFORM_EXPECT(code == TENON_OK, "{} with a record of {} bytes gives {}{}", f.name, size,
                 code_text(code), said());
  const auto untouched = [](unsigned char byte) { return byte == 0x5a; };
  CONFORM_EXPECT(std::all_of(base, record, untouched),
                 "{} writes before the record that it is given", f.name);
  CONFORM_EXPECT(std::all_of(record + known, base + page_bytes, untouched),
                 "{} writes past the {} bytes that it knows of a record of {}", f.name, known,
                 size);
  uint32_t stated = 0;
  std::memcpy(&stated, record, sizeof(stated));
  CONFORM_EXPECT(stated == known,
                 "{} says that the record has {} bytes, of which the caller has {} and the type {}",
                 f.name, stated, size, f.whole);
  return pass();
}

template <typename Record>
Filled filled(std::string_view name, size_t less, std::function<tenon_code_t(Record*)> call) {
  return {name, sizeof(Record), static_cast<uint32_t>(less),
          [call = std::move(call)](void* record) { return call(static_cast<Record*>(record)); }};
}

// A host of the same version may have a record that ends earlier than the plugin's, or later.
Outcome borders_of(Session& s, const Filled& f) {
  constexpr size_t kPage = 1 << 16;
  auto* base = static_cast<unsigned char*>(
      ::mmap(nullptr, 2 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  if (base == MAP_FAILED) return skipped("no memory for a guarded record");
  ::mprotect(base + kPage, kPage, PROT_NONE);
  for (uint32_t size : {f.whole, f.less, f.whole + 24}) {
    s.step(fmt::format("{} with a record of {} bytes at the end of a page", f.name, size));
    CONFORM_TRY(record_at_page_end(f, base, kPage, size));
  }
  ::munmap(base, 2 * kPage);
  return pass();
}

// The same for the records of compiled code.
Outcome borders_of_compiled(Session& s) {
  CompileFixture fixture(s);
  OpenDevice* device = nullptr;
  std::unique_ptr<Part> part;
  Compiled compiled;
  if (fixture.ready(pair_graph(), &device, &part).verdict != Verdict::kPass ||
      fixture.load(*device, *part, &compiled).verdict != Verdict::kPass)
    return pass();  // it compiles nothing, or group E reports it
  const tenon_compile_api_t& c = fixture.compiler();
  CONFORM_TRY(borders_of(
      s, filled<tenon_artifact_info_t>("artifact_info", offsetof(tenon_artifact_info_t, code_bytes),
                                       [&](tenon_artifact_info_t* out) {
                                         return c.artifact_info(c.self, compiled.artifact, out);
                                       })));
  CONFORM_TRY(
      borders_of(s, filled<tenon_executable_info_t>(
                        "executable_info", offsetof(tenon_executable_info_t, constant_bytes),
                        [&](tenon_executable_info_t* out) {
                          return c.executable_info(c.self, compiled.executable, out);
                        })));
  int64_t dims[TENON_RANK_MAX] = {};
  tenon_output_need_t output = {0, dims, TENON_NO_ALIAS};
  tenon_needs_t asked = {};
  asked.output_count = 1;
  asked.need_bytes = sizeof output;
  asked.outputs = &output;
  Filled needs = filled<tenon_needs_t>(
      "needs", offsetof(tenon_needs_t, lower_bound_bytes),
      [&](tenon_needs_t* out) { return c.needs(c.self, compiled.executable, {nullptr, 0}, out); });
  const auto* bytes = reinterpret_cast<const unsigned char*>(&asked);
  needs.begin.assign(bytes, bytes + offsetof(tenon_needs_t, workspace_bytes));
  return borders_of(s, needs);
}

Outcome record_ends(Session& s) {
  const tenon_device_api_t* api = nullptr;
  uint32_t count = 0;
  CONFORM_TRY(find_devices(s, &api, &count));
  CONFORM_TRY(
      borders_of(s, filled<tenon_device_info_t>(
                        "info of device 0", offsetof(tenon_device_info_t, copy_latency_ns),
                        [&](tenon_device_info_t* out) { return api->info(api->self, 0, out); })));
  return borders_of_compiled(s);
}

// The first handles of each kind: a plugin that counts handles from 0 returns null here.
Outcome handles(Session& s) {
  const tenon_device_api_t* api = nullptr;
  const tenon_queue_api_t* queues = nullptr;
  uint32_t count = 0;
  CONFORM_TRY(find_devices(s, &api, &count));
  tenon_device_t* device = nullptr;
  s.step("open, alloc, queue_create and fence_create");
  if (api->open(api->self, 0, &device) != TENON_OK)
    return skipped("the device does not open, as group C reports");
  CONFORM_EXPECT(device != nullptr, "open gives OK and null");
  tenon_buffer_t* buffer = nullptr;
  CONFORM_EXPECT(api->alloc(api->self, device, 64, &buffer) != TENON_OK || buffer != nullptr,
                 "alloc gives OK and null");
  if (find_queues(s, &queues).verdict != Verdict::kPass) return pass();
  tenon_queue_t* queue = nullptr;
  tenon_fence_t* fence = nullptr;
  CONFORM_EXPECT(queues->queue_create(queues->self, device, &queue) != TENON_OK || queue != nullptr,
                 "queue_create gives OK and null");
  CONFORM_EXPECT(
      queues->fence_create(queues->self, device, 0, &fence) != TENON_OK || fence != nullptr,
      "fence_create gives OK and null");
  return pass();
}

constexpr Check kChecks[] = {
    {"R-B17", "error-text", failures_say_why},
    {"R-B18", "error-outputs", failures_keep_outputs},
    {"R-B19", "record-ends", record_ends},
    {"R-B30", "handles", handles},
};

}  // namespace

std::span<const Check> abi_call_checks() {
  return kChecks;
}

}  // namespace tenon::conform
