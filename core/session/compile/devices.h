// The devices of the process: made once each, shared by all programs.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/dispatch/placement/placement.h"
#include "core/runtime/device/device.h"

namespace tenon::session {

// "cpu", "sim:1"; "cuda#1", to which the vendor gives this number. T0502 for an unknown kind or
// ordinal, with the known names; T0503 if it cannot be used. Loads the plugin; opens nothing.
// Threads: safe.
Result<std::shared_ptr<runtime::Device>> find_device(std::string_view name);

// All devices that enabled plugins provide, loading them. Devices that fail are left out, with a
// warning unless it is the hardware that is absent.
std::vector<std::shared_ptr<runtime::Device>> all_devices();

// Kinds of devices that plugins provide and this machine cannot use, and why.
struct AbsentDevice {
  std::string kind, why;
};
std::vector<AbsentDevice> absent_devices();

// The candidates that a session's options name. device: "sim,cpu"; empty for TENON_DEVICE, else
// every automatic device, placed by cost.
Result<dispatch::Candidates> candidates_for(std::string_view device, bool no_fallback);
// One device, which takes every node, as a target that need not be this machine's. T0502 unless
// `device` names one.
Result<dispatch::Candidates> candidates_for_target(std::string_view device,
                                                   std::string_view target);

// T0513 unless every option is DEVICE.KEY, given once, of a kind of device that may take part; or
// NAME.ops of a candidate, with globs that match an op. The device itself checks KEY and the value
// when it is asked for its claims.
Status check_options(std::span<const std::pair<std::string, std::string>> options,
                     const dispatch::Candidates& candidates);

}  // namespace tenon::session
