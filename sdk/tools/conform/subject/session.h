// What a check works with: the plugin as files, the plugin loaded under a host, and its tables as
// this host sees them. Lives in the process of one check.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <tenon/abi/device.h>
#include <tenon/cpp/record.hpp>

#include "sdk/tools/conform/runner/answers.h"
#include "sdk/tools/conform/runner/check.h"
#include "sdk/tools/conform/subject/fake_host.h"
#include "sdk/tools/conform/subject/subject.h"

namespace tenon::conform {

// The slots of an interface as the host knows them: offsets of required and of optional ones.
struct SlotList {
  std::string id;
  uint32_t size_bytes = 0;
  std::vector<uint32_t> required, optional;
  std::vector<std::string> required_names;  // of `required`, in its order
};
// Of every interface whose table consists of slots behind its head; ops and passes are lists and
// have none.
const std::vector<SlotList>& slot_lists();

// What a fork may take before it counts as hanging. Much more than any needs: machines are busy.
constexpr unsigned kApartSeconds = 60;

class Session {
 public:
  // examples: files of its format, for frontends; models, for kernel sets.
  Session(Subject subject, Reporter reporter, std::vector<std::string> examples = {})
      : subject_(std::move(subject)),
        reporter_(std::move(reporter)),
        examples_(std::move(examples)) {}

  Reporter& reporter() { return reporter_; }

  const Subject& subject() const { return subject_; }
  const std::vector<std::string>& examples() const { return examples_; }

  // Tells what is tried next: a crash or a hang is reported with it.
  void step(std::string_view what);

  // Something for the report beside the outcome: "kernel add f32 12".
  void note(std::string_view what);

  // Opens the library alone. Failed with the linker's reason.
  Outcome open();
  // Opens and asks the query with this host, once per process. Skipped when the plugin does not get
  // so far, since the checks that are about it report that.
  Outcome load(HostShape shape = {});
  // The same, with the code that the query gave. `record()` is what the query made of its output,
  // untouched_record() at first.
  Outcome ask(HostShape shape, uint32_t max_abi, tenon_code_t* out_code);

  const tenon_plugin_t* record() const { return record_; }
  // Its handle once it is open, or null.
  void* library() const { return library_; }
  // The host that the plugin was given.
  const tenon_host_t* host() const { return host_; }
  // An interface as the plugin has it, or null.
  const tenon_interface_t* offered(std::string_view id) const;
  // Its table, full-size and zeroed where the plugin has none, with only the first `optional_slots`
  // optional ones kept. Null when it is not offered. Lives as long as the process.
  const void* table(std::string_view id, size_t optional_slots = SIZE_MAX);

  // How a process apart ends: at once, or as programs do, with handlers and static destructors.
  enum class End { kAtOnce, kAsPrograms };
  // Runs `what` in a fork of this process, and gives its outcome, text included; a failure, with
  // the last step, when the process dies or gives no answer within kApartSeconds. For what can be
  // done once per process, and for what may end one.
  Outcome apart(const std::function<Outcome()>& what, End end = End::kAtOnce);

 private:
  Subject subject_;
  Reporter reporter_;
  struct Shared;
  Shared* shared_ = nullptr;  // in a process apart, with the one that waits for it
  std::vector<std::string> examples_;
  void* library_ = nullptr;
  const tenon_host_t* host_ = nullptr;
  const tenon_plugin_t* record_ = nullptr;
};

// What `record()` is before the query and after one that kept its output.
const tenon_plugin_t* untouched_record();

std::string_view view(tenon_str_t text);
// "RESOURCE_EXHAUSTED (8)"
std::string code_text(tenon_code_t code);

// More bytes than these no record or table has, and more interfaces no plugin offers.
constexpr uint32_t kTableBytesMax = 1u << 16;
constexpr uint64_t kInterfacesMax = 64;
constexpr uint32_t kLastCode = TENON_DEVICE_LOST;  // no code is larger

// Passes when the plugin's record and its list of interfaces can be walked; skips where they make
// no sense, which B.sizes tells.
Outcome walkable(Session& s);

}  // namespace tenon::conform
