// The tables of checks, one for each group.
#pragma once
#include <initializer_list>
#include <span>
#include <vector>

#include "core/conform/check.h"

namespace tenon::conform {

std::span<const Check> manifest_checks();          // A: group_manifest.cpp, group_packaging.cpp
std::span<const Check> abi_checks();               // B: group_abi.cpp
std::span<const Check> abi_call_checks();         // ...with those of group_abi_calls.cpp
std::span<const Check> device_checks();            // C: group_device.cpp, with...
std::span<const Check> device_copy_checks();      // ...those of group_device_copies.cpp
std::span<const Check> device_leak_checks();       // ...those of group_device_leaks.cpp
std::span<const Check> queue_checks();             // D: group_queue.cpp, with...
std::span<const Check> fence_checks();             // ...those of group_fences.cpp
std::span<const Check> queue_copy_checks();        // ...and of group_queue_copies.cpp
std::span<const Check> compile_checks();           // E: group_compile.cpp, with...
std::span<const Check> claim_checks();            // ...those of group_claims.cpp
std::span<const Check> artifact_checks();         // ...those of group_artifacts.cpp
std::span<const Check> execute_checks();           // ...those of group_execute.cpp, and those of
std::span<const Check> execute_queue_checks();     // ...group_execute_queues.cpp
std::span<const Check> execute_failure_checks();   // ...group_execute_failures.cpp
std::span<const Check> execute_lifetime_checks();  // ...group_execute_lifetimes.cpp
std::span<const Check> execute_profile_checks();   // ...group_execute_profiles.cpp
std::span<const Check> kernel_checks();            // F: group_kernels.cpp, with...
std::span<const Check> kernel_call_checks();       // ...those of group_kernel_calls.cpp
std::span<const Check> fault_checks();             // J: group_faults.cpp
std::span<const Check> kind_checks();              // G: group_kinds.cpp, which puts together
std::span<const Check> op_checks();                // group_ops.cpp, with...
std::span<const Check> op_inference_checks();      // ...group_op_inference.cpp
std::span<const Check> op_meaning_checks();        // ...group_op_meaning.cpp
std::span<const Check> op_value_checks();          // ...group_op_values.cpp
std::span<const Check> pass_checks();              // group_passes.cpp
std::span<const Check> frontend_checks();          // group_frontends.cpp: frontends, toolchains
std::span<const Check> layer_checks();             // group_layers.cpp
std::span<const Check> lifecycle_checks();         // I: group_lifecycle.cpp
std::span<const Check> speed_checks();             // L: group_speed.cpp

// Of a group whose checks stand in several files.
inline std::vector<Check> joined(std::initializer_list<std::span<const Check>> parts) {
  std::vector<Check> all;
  for (std::span<const Check> part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

}  // namespace tenon::conform
