// One manifest and the ordered gates that it has to pass, with a reason for each that it did not.
// `tenon plugins explain` shows this.
#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/file.h"
#include "core/host/discovery/manifest.h"

namespace tenon::host {

enum class Gate : uint8_t {
  kFound,         // a manifest in a trusted place
  kParsed,        // JSON within limits
  kSchema,        // keys of the right types
  kPlatform,      // operating system, processor, libc, sanitizer
  kAbi,           // versions that this host supports
  kDisabled,      // not disabled by name, lock file or AUTOLOAD
  kRequirements,  // what it requires is present
  kProbe,         // a changed library survived a helper process
  kLoaded,        // opened, and exports the one symbol
  kInitialised,   // its query succeeded and its tables are complete
  kSelected,      // something that it provides is in use
  kCount
};
std::string_view gate_name(Gate gate);

enum class Outcome : uint8_t { kNotReached, kPassed, kFailed };

struct GateResult {
  Outcome outcome = Outcome::kNotReached;
  std::string code;     // "P0305"; empty unless failed
  std::string text;     // why, or what was found
  std::string subject;  // the file or variable concerned, if that is not the manifest
};

enum class State : uint8_t {
  kAvailable,  // may be loaded
  kLoading,    // being opened, queried or layered by the thread that holds the host's lock
  kLoaded,
  kOff,     // shadowed or disabled, as requested
  kFailed,  // something is wrong
};
std::string_view state_name(State state);
// True unless it is off or has failed: what it provides is on offer.
inline bool is_usable(State state) {
  return state <= State::kLoaded;
}

struct Plugin;  // plugin_host.h

struct Candidate {
  std::string manifest_path;
  std::string origin;              // "TENON_PLUGIN_ADD", "/etc/tenon/plugins.d"
  bool named_explicitly = false;   // by the program or a variable
  bool in_prefix = false;          // came with this installation: not probed
  Manifest manifest;               // until it is read, the name is the file's
  FileIdentity manifest_identity;  // of the file that was read
  std::string library_path;        // absolute, without links
  std::string locked_sha256;       // digest that the lock file requires of its library; empty: any
  std::string locked_manifest_sha256;  // and of this file
  std::array<GateResult, static_cast<size_t>(Gate::kCount)> gates;
  // Set after the gates that explain it, so that a thread that reads the state may read them
  // without a lock.
  std::atomic<State> state{State::kAvailable};
  Plugin* plugin = nullptr;  // once loaded

  const std::string& name() const { return manifest.name; }
  GateResult& gate(Gate g) { return gates[static_cast<size_t>(g)]; }
  const GateResult& gate(Gate g) const { return gates[static_cast<size_t>(g)]; }
  void pass(Gate g, std::string text = {}) {
    gate(g) = {Outcome::kPassed, {}, std::move(text), {}};
  }
  // Evidence `subject` of the status becomes the gate's subject.
  void fail(Gate g, const Status& why, State to = State::kFailed);
  // The gate that stopped it; null if none did.
  const GateResult* stopped_by(Gate* out_gate = nullptr) const;
  // "P0401: disabled by ..." : code and text of that gate.
  std::string reason() const;
};

}  // namespace tenon::host
