#include "sdk/tools/conform/subject/fake_host.h"

#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include <tenon/abi/compile.h>
#include <tenon/abi/session.h>
#include <tenon/cpp/record.hpp>

#include "sdk/tools/conform/subject/names.h"

namespace tenon::conform {
namespace {

constexpr size_t kUnknownSlots = 32;

#include "sdk/tools/conform/subject/abi_history.inc"

const tenon_host_t* g_installed = nullptr;
HostShape g_shape;
Heard g_heard;
std::mutex g_mutex;
thread_local HeardFailure t_failure;

// The calling thread's last failure is set to this, so that a new failure can be recognised.
constexpr std::string_view kForgotten = "tenon-conform: nothing failed yet";

struct Watch {
  bool on = false;
  uint64_t cancel_at = 0;
  std::function<void()> cancel;
  double last = 0, cancelled_at = 0;
  Polls polls;
};
Watch g_watch;

double processor_seconds() {
  timespec now = {};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

uint32_t stand_cancelled(void* self) {
  const uint32_t answer = g_installed->cancelled(self);
  std::lock_guard lock(g_mutex);
  if (!g_watch.on) return answer;
  const double now = processor_seconds();
  Polls& polls = g_watch.polls;
  polls.spent(now - g_watch.last);
  g_watch.last = now;
  ++polls.count;
  const bool is_it = g_watch.cancel_at != 0 && polls.count == g_watch.cancel_at;
  if (is_it) g_watch.cancel();
  const bool yes = answer != 0 || is_it;
  if (yes && !polls.cancelled) g_watch.cancelled_at = now;
  polls.cancelled = polls.cancelled || yes;
  return yes ? 1 : 0;
}

std::atomic<bool> g_constants_late = false;
const tenon_host_graph_t* g_graphs = nullptr;

tenon_code_t stand_blob_data(void* self, tenon_blob_t* blob, const void** out_data,
                             uint64_t* out_size_bytes) {
  const void* data = nullptr;
  uint64_t size = 0;
  const tenon_code_t code = g_graphs->blob_data(self, blob, &data, &size);
  if (code != TENON_OK) return code;
  if (g_constants_late && size > TENON_COMPILE_EARLY_BYTES) {
    constexpr std::string_view kText =
        "T0695: a conformance check gives the value of this constant at load";
    return g_installed->fail(g_installed->self, TENON_FAILED_PRECONDITION,
                             {kText.data(), kText.size()}, nullptr, 0);
  }
  *out_data = data;
  *out_size_bytes = size;
  return TENON_OK;
}

// A slot that no present plugin can know.
void unknown_slot() {
  std::fputs("tenon-conform: the plugin called a slot of the host that it cannot know\n", stderr);
  std::abort();
}

// A copy of a table whose last byte is the last of its page.
void* guarded_copy(const void* table, uint32_t size_bytes, bool longer) {
  const size_t page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  const size_t size = size_bytes + (longer ? kUnknownSlots * sizeof(void*) : 0);
  const size_t room = (size + page - 1) / page * page;
  void* base =
      ::mmap(nullptr, room + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED) std::abort();
  ::mprotect(static_cast<char*>(base) + room, page, PROT_NONE);
  char* copy = static_cast<char*>(base) + (room - size) / 16 * 16;
  std::memcpy(copy, table, size_bytes);
  for (size_t at = size_bytes; at < size; at += sizeof(void*)) {
    void (*slot)() = unknown_slot;
    std::memcpy(copy + at, &slot, sizeof(slot));
  }
  const auto says = static_cast<uint32_t>(size);
  std::memcpy(copy, &says, sizeof(says));
  return copy;
}

void hear(std::vector<std::string>& names, const std::string& name) {
  if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
}

tenon_str_t stand_setting(void* self, tenon_str_t name) {
  {
    std::lock_guard lock(g_mutex);
    hear(g_heard.settings, std::string(name.data, name.size));
  }
  return g_installed->setting(self, name);
}

tenon_code_t stand_query(void* self, tenon_str_t id, uint32_t minor, const void** out_table) {
  const std::string name(id.data, id.size);
  std::lock_guard lock(g_mutex);
  hear(g_heard.asked, name);
  const bool unknown_then = g_shape.layout != nullptr && name.starts_with("tenon.host.") &&
                            g_shape.layout->size_of(name) == 0;
  if (name == g_shape.missing || unknown_then) {
    constexpr std::string_view kText =
        "this host lacks the interface: a conformance check asks what the plugin does then";
    return g_installed->fail(self, TENON_NOT_FOUND, {kText.data(), kText.size()}, nullptr, 0);
  }
  const void* table = nullptr;
  if (const tenon_code_t code = g_installed->query(self, id, minor, &table); code != TENON_OK)
    return code;
  static auto* copies = new std::map<std::string, const void*>;
  const void*& copy = (*copies)[name];
  if (copy == nullptr) {
    uint32_t size = 0;
    std::memcpy(&size, table, sizeof(size));
    if (g_shape.layout != nullptr && g_shape.layout->size_of(name) != 0)
      size = std::min(size, g_shape.layout->size_of(name));
    tenon_host_graph_t graphs;
    if (name == TENON_HOST_GRAPH_ID && size == sizeof graphs) {
      g_graphs = static_cast<const tenon_host_graph_t*>(table);
      graphs = *g_graphs;
      graphs.blob_data = stand_blob_data;
      table = &graphs;
    }
    copy = guarded_copy(table, size, g_shape.longer);
  }
  *out_table = copy;
  return TENON_OK;
}

}  // namespace

uint32_t grown_record_bytes() {
  return g_shape.grown_record_bytes;
}

const tenon_host_t* installed_host(std::string* out_why) {
  const tenon_host_t* host = nullptr;
  if (tenon_host_open(TENON_ABI_VERSION, nullptr, &host) == TENON_OK) return g_installed = host;
  auto failure = sized<tenon_failure_t>();
  host->last_failure(host->self, &failure);
  *out_why = std::string(failure.message.data, failure.message.size);
  return nullptr;
}

const tenon_host_t* fake_host(const tenon_host_t* installed, HostShape shape) {
  g_installed = installed;
  g_shape = std::move(shape);
  tenon_host_t table = *installed;
  table.abi = g_shape.abi;
  table.query = stand_query;
  table.cancelled = stand_cancelled;
  table.setting = stand_setting;
  uint32_t size = sizeof(table);
  if (g_shape.layout != nullptr) size = std::min(size, g_shape.layout->size_of(TENON_HOST_ID));
  return static_cast<const tenon_host_t*>(guarded_copy(&table, size, g_shape.longer));
}

void constants_come_late(bool on) {
  g_constants_late = on;
}

void watch_polls(uint64_t cancel_at, std::function<void()> cancel) {
  std::lock_guard lock(g_mutex);
  g_watch = {true, cancel_at, std::move(cancel), processor_seconds(), 0, {}};
}

Polls end_of_watch() {
  std::lock_guard lock(g_mutex);
  const double now = processor_seconds();
  Polls polls = g_watch.polls;
  polls.spent(now - g_watch.last);
  if (polls.cancelled) polls.seconds_after = now - g_watch.cancelled_at;
  g_watch.on = false;
  return polls;
}

std::span<const AbiLayout> abi_layouts() {
  return kLayouts;
}

const Heard& heard() {
  return g_heard;
}
const HeardFailure& heard_failure() {
  t_failure = {};
  auto failure = sized<tenon_failure_t>();
  if (g_installed == nullptr || g_installed->last_failure(g_installed->self, &failure) != TENON_OK)
    return t_failure;
  const std::string_view text = failure.message.data == nullptr
                                    ? ""
                                    : std::string_view(failure.message.data, failure.message.size);
  if (failure.code != TENON_OK && text != kForgotten)
    t_failure = {true, failure.code, std::string(text)};
  return t_failure;
}

void forget_failure() {
  if (g_installed != nullptr)
    g_installed->fail(g_installed->self, TENON_UNKNOWN, {kForgotten.data(), kForgotten.size()},
                      nullptr, 0);
}

}  // namespace tenon::conform
