#include "sdk/tools/conform/subject/session.h"

#include <dlfcn.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <new>

#include <tenon/cpp/interfaces.hpp>

#include "sdk/tools/conform/subject/names.h"

namespace tenon::conform {
namespace {

// For tables that are a head (size_bytes, self, texts) followed by slots only: takes every pointer
// from the first required slot on.
SlotList slots_of(const interfaces::InterfaceInfo& info) {
  SlotList list{std::string(info.id), info.size_bytes, {}, {}, {}};
  for (const interfaces::RequiredSlot& slot : info.required) {
    list.required.push_back(slot.offset);
    list.required_names.emplace_back(slot.name);
  }
  if (list.required.empty()) return list;
  const uint32_t last = *std::max_element(list.required.begin(), list.required.end());
  for (uint32_t at = last + sizeof(void*); at + sizeof(void*) <= info.size_bytes;
       at += sizeof(void*))
    list.optional.push_back(at);
  return list;
}

}  // namespace

const std::vector<SlotList>& slot_lists() {
  static const auto* lists = [] {
    auto* made = new std::vector<SlotList>;
    for (const interfaces::InterfaceInfo& info : interfaces::known_interfaces())
      made->push_back(slots_of(info));
    return made;
  }();
  return *lists;
}

const tenon_plugin_t* untouched_record() {
  static const tenon_plugin_t record = {};
  return &record;
}

std::string_view view(tenon_str_t text) {
  return text.data == nullptr ? std::string_view() : std::string_view(text.data, text.size);
}

std::string code_text(tenon_code_t code) {
  // A number that base.h lacks is reported as such, with its bytes.
  return code <= TENON_DEVICE_LOST
             ? fmt::format("{} ({})", code_name(code), code)
             : fmt::format("{} ({:#x}), which is not a code of base.h", code, code);
}

// What a separate process reports to the one that waits for it. In shared memory, since a plugin
// may close a pipe or write to it.
struct Session::Shared {
  bool answered;
  Verdict verdict;
  char text[4096], step[512];
};

namespace {

template <size_t kSize>
void put_text(char (&to)[kSize], std::string_view text) {
  const size_t size = std::min(text.size(), kSize - 1);
  std::memcpy(to, text.data(), size);
  to[size] = '\0';
}

}  // namespace

void Session::step(std::string_view what) {
  reporter_.step(what);
  if (shared_ != nullptr) put_text(shared_->step, what);
}

void Session::note(std::string_view what) {
  reporter_.note(what);
}

Outcome Session::open() {
  if (library_ != nullptr) return pass();
  if (subject_.library_path.empty()) return skipped("there is no library to open");
  step("opening the library");
  library_ = ::dlopen(subject_.library_path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library_ != nullptr) return pass();
  const char* why = ::dlerror();
  return failed("the library cannot be opened: {}",
                printable(why == nullptr ? "no reason given" : why, 1024));
}

Outcome Session::ask(HostShape shape, uint32_t max_abi, tenon_code_t* out_code) {
  Outcome opened = open();
  if (opened.verdict != Verdict::kPass)
    return skipped("the library does not open, as A.opens reports");
  auto query = reinterpret_cast<tenon_plugin_query_t>(::dlsym(library_, "tenon_plugin_query"));
  if (query == nullptr)
    return skipped("the library has no tenon_plugin_query, as A.exports reports");
  std::string why;
  const tenon_host_t* installed = installed_host(&why);
  if (installed == nullptr) return skipped("the installed host does not start: " + why);
  host_ = fake_host(installed, std::move(shape));
  step("asking tenon_plugin_query");
  forget_failure();
  record_ = untouched_record();
  *out_code = query(max_abi, host_, &record_);
  return pass();
}

Outcome Session::load(HostShape shape) {
  if (record_ != nullptr) return pass();
  tenon_code_t code = TENON_OK;
  CONFORM_TRY(ask(std::move(shape), TENON_ABI_VERSION, &code));
  if (code != TENON_OK) {
    record_ = nullptr;
    return skipped(
        fmt::format("the plugin refuses on this machine: {}", printable(heard_failure().text)));
  }
  if (record_ == untouched_record()) record_ = nullptr;
  if (record_ == nullptr) return skipped("the query gives no record, as B.query reports");
  return pass();
}

const tenon_interface_t* Session::offered(std::string_view id) const {
  for (uint64_t i = 0; record_ != nullptr && i < record_->interface_count; ++i) {
    if (view(record_->interfaces[i].id) == id) return &record_->interfaces[i];
  }
  return nullptr;
}

const void* Session::table(std::string_view id, size_t optional_slots) {
  const tenon_interface_t* interface = offered(id);
  if (interface == nullptr || interface->table == nullptr) return nullptr;
  for (const SlotList& list : slot_lists()) {
    if (list.id != id) continue;
    uint32_t size = 0;
    std::memcpy(&size, interface->table, sizeof(size));
    auto* full = static_cast<char*>(::operator new(list.size_bytes, std::align_val_t{16}));
    std::memset(full, 0, list.size_bytes);
    std::memcpy(full, interface->table, std::min(size, list.size_bytes));
    std::memcpy(full, &list.size_bytes, sizeof(list.size_bytes));
    for (size_t i = optional_slots; i < list.optional.size(); ++i)
      std::memset(full + list.optional[i], 0, sizeof(void*));
    return full;
  }
  return interface->table;
}

Outcome Session::apart(const std::function<Outcome()>& what, End end) {
  void* memory =
      ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return skipped("no memory for a process apart");
  auto* shared = new (memory) Shared{};
  const pid_t child = ::fork();
  if (child < 0) return ::munmap(memory, sizeof(Shared)), skipped("no process apart");
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::alarm(kApartSeconds);
    shared_ = shared;
    const Outcome outcome = what();
    put_text(shared->text, outcome.text);
    shared->verdict = outcome.verdict;
    shared->answered = true;
    if (end == End::kAsPrograms) std::exit(0);
    ::_exit(0);
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  Outcome outcome = {shared->verdict, shared->text};
  const bool answered = shared->answered;
  const std::string last = shared->step[0] == '\0'
                               ? ""
                               : fmt::format(" while {}", static_cast<const char*>(shared->step));
  ::munmap(memory, sizeof(Shared));
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
    return failed("no answer within {} s{}", kApartSeconds, last);
  if (WIFSIGNALED(status)) {
    reporter_.died();
    return failed("the process ended with signal {} ({}){}", WTERMSIG(status),
                  ::strsignal(WTERMSIG(status)), last);
  }
  if (!answered) {
    reporter_.died();
    return failed("the process ended with status {} in the middle{}", WEXITSTATUS(status), last);
  }
  return outcome;
}

Outcome walkable(Session& s) {
  CONFORM_TRY(s.load());
  if (s.record()->size_bytes < sizeof(tenon_plugin_t) || s.record()->size_bytes > kTableBytesMax ||
      (s.record()->interface_count != 0 &&
       s.record()->interface_bytes != sizeof(tenon_interface_t)) ||
      s.record()->interface_count > kInterfacesMax ||
      (s.record()->interface_count != 0 && s.record()->interfaces == nullptr)) {
    return skipped("the record makes no sense, as B.sizes reports");
  }
  return pass();
}

}  // namespace tenon::conform
