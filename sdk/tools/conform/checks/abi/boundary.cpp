#include "sdk/tools/conform/checks/abi/boundary.h"

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>
#include <set>

#include <nlohmann/json.hpp>

#include "sdk/tools/conform/fixtures/compile/exercise.h"
#include "sdk/tools/conform/fixtures/device/open_device.h"
#include "sdk/tools/conform/fixtures/graphs/host_graph.h"
#include "sdk/tools/conform/subject/call_hooks.h"
#include "sdk/tools/conform/subject/names.h"
#include "sdk/tools/conform/subject/session.h"

extern char** environ;

namespace tenon::conform {
namespace {

// What the hooks record. Never destroyed: threads of a plugin may outlive the check.
struct Notes {
  std::mutex mutex;
  std::set<std::string> variables, libraries;  // requested by the library itself
  std::set<const void*> lent, freed;
};
Notes& notes() {
  static auto* all = new Notes;
  return *all;
}

Outcome opened(Session& s) {
  if (s.subject().library_path.empty())
    return skipped("there is no library, as A.library-path reports");
  std::string why;
  if (installed_host(&why) == nullptr) return skipped("the installed host does not start: " + why);
  return s.open().verdict == Verdict::kPass
             ? pass()
             : skipped("the library does not open, as A.opens reports");
}

// ---- Variables ----

char* noted_getenv(const char* name) {
  Notes& all = notes();
  std::lock_guard lock(all.mutex);
  all.variables.insert(name);
  const size_t size = std::strlen(name);
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    if (std::strncmp(*entry, name, size) == 0 && (*entry)[size] == '=') return *entry + size + 1;
  }
  return nullptr;
}

// The host's own variables, which every plugin may read.
std::set<std::string> settings_of_host() {
  std::set<std::string> names;
  HostTables host;
  if (find_host(&host).verdict != Verdict::kPass) return names;
  std::string text;
  const tenon_sink_t sink = sink_to(&text);
  constexpr std::string_view kWhat = "settings";
  if (host.session->explain(host.session->self, {kWhat.data(), kWhat.size()}, {nullptr, 0},
                            &sink) != TENON_OK)
    return names;
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object() || !json.contains("settings")) return names;
  for (const auto& setting : json["settings"]) {
    if (setting.is_object()) names.insert(setting.value("name", ""));
  }
  return names;
}

// ---- Libraries ----

// Simulates a machine without these libraries. dlerror reports the reason.
void* refused_dlopen(const char* name, int flags) {
  if (name == nullptr) return ::dlopen(nullptr, flags);
  Notes& all = notes();
  std::lock_guard lock(all.mutex);
  all.libraries.insert(name);
  return ::dlopen("/nonexistent/a library that a conformance check refuses", RTLD_NOW);
}

// Loads the plugin in a process in which it can open no library.
Outcome load_without_libraries(Session& s, std::set<std::string>* by_query) {
  CONFORM_TRY(opened(s));
  if (!hook_calls(s, "dlopen", refused_dlopen)) return not_offered("a library opened at run time");
  s.step("asking the query where no library opens");
  CONFORM_TRY(s.load());
  *by_query = notes().libraries;
  return pass();
}

// ---- Exceptions ----

// The n-th allocation of this thread by `new` fails; 0: none.
thread_local uint64_t t_fails = 0;
thread_local bool t_failed = false;

void* failing_new(size_t size) {
  if (t_fails != 0 && --t_fails == 0) {
    t_failed = true;
    throw std::bad_alloc();
  }
  return ::operator new(size);
}

// Uses the plugin while the n-th allocation fails. Passes with "more" if there were that many.
Outcome with_failing_new(Session& s, uint64_t n) {
  CONFORM_TRY(opened(s));
  bool any = false;
  for (const char* name : {"_Znwm", "_Znam"}) any = hook_calls(s, name, failing_new) || any;
  if (!any) return not_offered("an allocation that throws");
  CONFORM_TRY(s.load());
  t_failed = false;
  t_fails = n;
  try {
    (void)exercise(s);  // a call may fail here
  } catch (...) {
    t_fails = 0;
    return failed("an exception leaves a slot: its {}. allocation by `new` failed", n);
  }
  t_fails = 0;
  return {Verdict::kPass, t_failed ? "more" : ""};
}

// ---- Memory ----

bool is_lent(const void* at) {
  Notes& all = notes();
  std::lock_guard lock(all.mutex);
  if (all.lent.count(at) == 0) return false;
  all.freed.insert(at);
  return true;
}
void noted_free(void* at) {
  if (!is_lent(at)) std::free(at);
}
void* noted_realloc(void* at, size_t size) {
  return is_lent(at) ? std::malloc(size) : std::realloc(at, size);
}
void noted_delete(void* at) {
  if (!is_lent(at)) ::operator delete(at);
}
void noted_sized_delete(void* at, size_t) {
  noted_delete(at);
}

// The host's memory that a plugin is lent, and must not read beyond.
template <typename T>
T* lend(size_t count) {
  auto* made = static_cast<T*>(std::calloc(count, sizeof(T)));
  std::lock_guard lock(notes().mutex);
  notes().lent.insert(made);
  return made;
}

// One record at the end of a page that is unmapped when the call is over.
class Page {
 public:
  Page() {
    base_ = static_cast<unsigned char*>(
        ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  }
  bool ok() const { return base_ != MAP_FAILED; }
  void* put(const void* bytes, size_t size) {
    unsigned char* to = base_ + kBytes - (size + 15) / 16 * 16;
    std::memcpy(to, bytes, size);
    return to;
  }
  void take_away() { ::mprotect(base_, kBytes, PROT_NONE); }

 private:
  static constexpr size_t kBytes = 1 << 16;
  unsigned char* base_;
};

}  // namespace

Outcome own_variables(Session& s) {
  CONFORM_TRY(opened(s));
  for (const char* name : {"getenv", "secure_getenv"}) hook_calls(s, name, noted_getenv);
  CONFORM_TRY(s.load());
  (void)exercise(s);
  const std::vector<std::string>& listed = s.subject().manifest.environment;
  const std::set<std::string> of_host = settings_of_host();
  const auto is_listed = [&](const std::string& name) {
    return std::find(listed.begin(), listed.end(), name) != listed.end();
  };
  for (const std::string& name : heard().settings)
    CONFORM_EXPECT(is_listed(name) || of_host.count(name) != 0,
                   "it reads {}, which its manifest does not name under `environment`",
                   quoted(name));
  for (const std::string& name : notes().variables)
    CONFORM_EXPECT(!is_listed(name) && !name.starts_with("TENON_"),
                   "it reads {} with getenv and not with the host's `setting`", quoted(name));
  return pass();
}

Outcome lists_without_libraries(Session& s) {
  std::set<std::string> by_query;
  CONFORM_TRY(load_without_libraries(s, &by_query));
  CONFORM_EXPECT(by_query.empty(), "its query opens {}", quoted(*by_query.begin()));
  const auto* api = static_cast<const tenon_device_api_t*>(s.table(TENON_DEVICE_ID));
  if (api == nullptr || api->count == nullptr || api->info == nullptr)
    return not_offered(TENON_DEVICE_ID);
  s.step("counting devices where no library opens");
  uint32_t count = 0;
  CONFORM_EXPECT(api->count(api->self, &count) == TENON_OK,
                 "without the libraries that it opens, count fails: {}",
                 printable(heard_failure().text));
  for (uint32_t i = 0; i < count; ++i) {
    auto info = sized<tenon_device_info_t>();
    CONFORM_EXPECT(api->info(api->self, i, &info) == TENON_OK,
                   "without the libraries that it opens, info fails: {}",
                   printable(heard_failure().text));
  }
  for (const std::string& name : notes().libraries)
    CONFORM_EXPECT(
        name.find('/') == std::string::npos || name.starts_with(s.subject().library_path.substr(
                                                   0, s.subject().library_path.rfind('/') + 1)),
        "it opens {} by a path outside of its folder", quoted(name));
  return pass();
}

Outcome unavailable(Session& s) {
  std::set<std::string> by_query;
  const tenon_device_api_t* api = nullptr;
  uint32_t count = 0;
  CONFORM_TRY(load_without_libraries(s, &by_query));
  CONFORM_TRY(find_devices(s, &api, &count));
  s.step("open where no library opens");
  tenon_device_t* device = nullptr;
  forget_failure();
  const tenon_code_t code = api->open(api->self, 0, &device);
  CONFORM_EXPECT(code == TENON_OK || code == TENON_UNAVAILABLE,
                 "without the libraries that it opens, open gives {}", code_text(code));
  CONFORM_EXPECT(code == TENON_OK || heard_failure().any,
                 "without the libraries that it opens, open fails without a reason");
  if (code == TENON_OK) (void)api->close(api->self, device);
  return notes().libraries.empty() ? skipped("neither listing nor open opens a library") : pass();
}

Outcome no_exceptions(Session& s) {
  constexpr uint64_t kMost = 400;
  uint64_t tried = 0;
  for (uint64_t n = 1; n <= kMost; n += 1 + n / 8) {
    s.step(fmt::format("using it while its {}. allocation by `new` fails", n));
    const Outcome outcome = s.apart([&] { return with_failing_new(s, n); });
    CONFORM_TRY(outcome);
    if (outcome.text.empty()) break;
    ++tried;
  }
  return tried == 0 ? skipped("what is used of it allocates nothing by `new`") : pass();
}

Outcome frees_its_own(Session& s) {
  CONFORM_TRY(opened(s));
  hook_calls(s, "free", noted_free);
  hook_calls(s, "realloc", noted_realloc);
  for (const char* name : {"_ZdlPv", "_ZdaPv"}) hook_calls(s, name, noted_delete);
  for (const char* name : {"_ZdlPvm", "_ZdaPvm"}) hook_calls(s, name, noted_sized_delete);
  const tenon_device_api_t* api = nullptr;
  uint32_t count = 0;
  CONFORM_TRY(find_devices(s, &api, &count));
  OpenDevice device(api, 0);
  tenon_buffer_t* buffer = nullptr;
  CONFORM_TRY(device.open());
  CONFORM_TRY(device.alloc(256, &buffer));
  s.step("copies from and to memory that is the host's");
  for (uint32_t direction : {TENON_COPY_HOST_TO_DEVICE, TENON_COPY_DEVICE_TO_HOST}) {
    auto* copy = lend<tenon_copy_t>(1);
    auto* bytes = lend<unsigned char>(256);
    *copy = copy_record(direction, 256);
    copy->host_from = direction == TENON_COPY_HOST_TO_DEVICE ? bytes : nullptr;
    copy->host_to = direction == TENON_COPY_HOST_TO_DEVICE ? nullptr : bytes;
    (direction == TENON_COPY_HOST_TO_DEVICE ? copy->to : copy->from) = buffer;
    CONFORM_EXPECT(api->copy(api->self, device.device(), copy) == TENON_OK, "a copy fails");
  }
  auto* info = lend<tenon_device_info_t>(1);
  info->size_bytes = sizeof(*info);
  CONFORM_EXPECT(api->info(api->self, 0, info) == TENON_OK, "info fails");
  CONFORM_TRY(device.close());
  CONFORM_EXPECT(notes().freed.empty(), "it frees memory that it was given");
  return pass();
}

Outcome keeps_no_pointers(Session& s) {
  constexpr uint64_t kLength = 512;
  const tenon_device_api_t* api = nullptr;
  uint32_t count = 0;
  CONFORM_TRY(find_devices(s, &api, &count));
  auto* device = new OpenDevice(api, 0);
  tenon_buffer_t *a = nullptr, *b = nullptr;
  CONFORM_TRY(device->open());
  CONFORM_TRY(device->alloc(kLength, &a));
  CONFORM_TRY(device->alloc(kLength, &b));
  const Bytes bytes = pattern_bytes(kLength, 5);
  for (uint32_t direction = TENON_COPY_HOST_TO_DEVICE; direction <= TENON_COPY_FILL; ++direction) {
    s.step("using it while what it was given before is gone");
    Page record, memory, info_page;
    if (!record.ok() || !memory.ok() || !info_page.ok()) return skipped("no memory for pages");
    tenon_copy_t copy = copy_record(direction, kLength);
    void* host = memory.put(bytes.data(), bytes.size());
    const bool from_host = direction == TENON_COPY_HOST_TO_DEVICE,
               to_host = direction == TENON_COPY_DEVICE_TO_HOST;
    if (from_host) copy.host_from = host;
    if (to_host) copy.host_to = host;
    if (!from_host && direction != TENON_COPY_FILL) copy.from = a;
    if (!to_host) copy.to = from_host ? a : b;
    if (direction == TENON_COPY_FILL) copy.pattern = 7, copy.pattern_bytes = 1;
    CONFORM_EXPECT(
        api->copy(api->self, device->device(),
                  static_cast<tenon_copy_t*>(record.put(&copy, sizeof(copy)))) == TENON_OK,
        "a copy fails");
    record.take_away();
    memory.take_away();
    auto info = sized<tenon_device_info_t>();
    CONFORM_EXPECT(api->info(api->self, 0,
                             static_cast<tenon_device_info_t*>(
                                 info_page.put(&info, sizeof(info)))) == TENON_OK,
                   "info fails");
    info_page.take_away();
    CONFORM_TRY(device->holds(a, bytes, "a buffer, after other copies"));
  }
  CONFORM_TRY(device->holds(b, Bytes(kLength, 7), "a buffer that was filled last"));
  CONFORM_TRY(device->close());
  delete device;
  return pass();
}

}  // namespace tenon::conform
