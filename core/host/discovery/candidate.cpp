#include "core/host/discovery/candidate.h"

namespace tenon::host {

std::string_view gate_name(Gate gate) {
  static constexpr std::string_view kNames[] = {"found",  "parsed",      "schema",       "platform",
                                                "abi",    "disabled",    "requirements", "probe",
                                                "loaded", "initialised", "selected"};
  return kNames[static_cast<size_t>(gate)];
}

std::string_view state_name(State state) {
  static constexpr std::string_view kNames[] = {"available", "loading", "loaded", "off", "failed"};
  return kNames[static_cast<size_t>(state)];
}

void Candidate::fail(Gate g, const Status& why, State to) {
  std::string text(why.message());
  gate(g) = {Outcome::kFailed, std::string(why.error_code()), std::move(text),
             std::string(why.evidence_value("subject"))};
  state = to;
}

const GateResult* Candidate::stopped_by(Gate* out_gate) const {
  for (size_t i = 0; i < gates.size(); ++i) {
    if (gates[i].outcome != Outcome::kFailed) continue;
    if (out_gate != nullptr) *out_gate = static_cast<Gate>(i);
    return &gates[i];
  }
  return nullptr;
}

std::string Candidate::reason() const {
  const GateResult* result = stopped_by();
  if (result == nullptr) return {};
  return result->code.empty() ? result->text : result->code + ": " + result->text;
}

}  // namespace tenon::host
