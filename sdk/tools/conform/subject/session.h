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

// The slots of an interface as the host knows them: offsets of required and optional ones.
struct SlotList {
  std::string id;
  uint32_t size_bytes = 0;
  std::vector<uint32_t> required, optional;
  std::vector<std::string> required_names;  // of `required`, in the same order
};
// For every interface whose table is a head followed by slots; ops and passes are lists and have
// none.
const std::vector<SlotList>& slot_lists();

// Time limit for a fork before it counts as hanging. Far more than any needs, since machines are
// busy.
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

  // Records what is tried next: a crash or a hang is reported with it.
  void step(std::string_view what);

  // Adds something to the report besides the outcome: "kernel add f32 12".
  void note(std::string_view what);

  // Opens the library without querying it. Fails with the linker's reason.
  Outcome open();
  // Opens the library and calls its query with this host, once per process. Skipped if the plugin
  // does not get that far, since other checks report that.
  Outcome load(HostShape shape = {});
  // The same, returning the code of the query. `record()` is what the query made of its output,
  // which was untouched_record() before.
  Outcome ask(HostShape shape, uint32_t max_abi, tenon_code_t* out_code);

  const tenon_plugin_t* record() const { return record_; }
  // The library's handle once it is open, or null.
  void* library() const { return library_; }
  // The host that the plugin was given.
  const tenon_host_t* host() const { return host_; }
  // An interface as the plugin offers it, or null.
  const tenon_interface_t* offered(std::string_view id) const;
  // Its table, full-size, zeroed beyond the plugin's own, with only the first `optional_slots`
  // optional slots kept. Null if it is not offered. Lives as long as the process.
  const void* table(std::string_view id, size_t optional_slots = SIZE_MAX);

  // How a separate process ends: at once, or as programs do, with handlers and static destructors.
  enum class End { kAtOnce, kAsPrograms };
  // Runs `what` in a fork of this process and returns its outcome, text included; a failure, with
  // the last step, if the process dies or gives no answer within kApartSeconds. For actions that
  // can be done once per process, or that may end it.
  Outcome apart(const std::function<Outcome()>& what, End end = End::kAtOnce);

 private:
  Subject subject_;
  Reporter reporter_;
  struct Shared;
  Shared* shared_ = nullptr;  // in a separate process: shared with the process that waits for it
  std::vector<std::string> examples_;
  void* library_ = nullptr;
  const tenon_host_t* host_ = nullptr;
  const tenon_plugin_t* record_ = nullptr;
};

// The value of `record()` before the query, and after a query that kept its output.
const tenon_plugin_t* untouched_record();

std::string_view view(tenon_str_t text);
// "RESOURCE_EXHAUSTED (8)"
std::string code_text(tenon_code_t code);

// Limits: no record or table has more bytes, and no plugin offers more interfaces.
constexpr uint32_t kTableBytesMax = 1u << 16;
constexpr uint64_t kInterfacesMax = 64;
constexpr uint32_t kLastCode = TENON_DEVICE_LOST;  // no code is larger

// Passes if the plugin's record and its list of interfaces can be walked; skipped if they make no
// sense, which B.sizes reports.
Outcome walkable(Session& s);

}  // namespace tenon::conform
