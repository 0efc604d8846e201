// The tables of checks, one per group.
#pragma once
#include <initializer_list>
#include <span>
#include <vector>

#include "sdk/tools/conform/runner/check.h"

namespace tenon::conform {

// A, manifest/
std::span<const Check> manifest_checks();  // includes those of packaging.h
// B, abi/
std::span<const Check> abi_checks();  // record.cpp, including those of calls.cpp
std::span<const Check> abi_call_checks();
// C, device/
std::span<const Check> device_checks();  // memory.cpp, including those of its folder
std::span<const Check> device_copy_checks();
std::span<const Check> device_leak_checks();
std::span<const Check> device_others_memory_checks();
// D, queue/
std::span<const Check> queue_checks();  // queues.cpp, including those of fences.cpp and copies.cpp
std::span<const Check> fence_checks();
std::span<const Check> queue_copy_checks();
std::span<const Check> queue_native_checks();
// E, compile/
std::span<const Check> compile_checks();  // compile.cpp, including those of every other file there
std::span<const Check> pattern_checks();
std::span<const Check> claim_checks();
std::span<const Check> artifact_checks();
std::span<const Check> packed_checks();
std::span<const Check> packed_refusal_checks();
std::span<const Check> execute_checks();
std::span<const Check> execute_queue_checks();
std::span<const Check> execute_failure_checks();
std::span<const Check> execute_lifetime_checks();
std::span<const Check> execute_profile_checks();
// F, kernels/
std::span<const Check> kernel_checks();  // values.cpp, including those of calls.cpp
std::span<const Check> kernel_call_checks();
std::span<const Check> kernel_epilogue_checks();
std::span<const Check> kernel_queue_checks();
// G: kinds.cpp combines those of ops/, passes/, frontends/, layers/ and engines/
std::span<const Check> kind_checks();
std::span<const Check> op_checks();  // declarations.cpp, including those of every other file there
std::span<const Check> op_inference_checks();
std::span<const Check> op_meaning_checks();
std::span<const Check> op_value_checks();
std::span<const Check> pass_checks();
std::span<const Check> frontend_checks();  // frontends and toolchains
std::span<const Check> importer_checks();
std::span<const Check> layer_checks();
std::span<const Check> engine_checks();  // engines.cpp, including those of transfers.cpp
std::span<const Check> engine_transfer_checks();
// I, J and L apply to plugins of every kind
std::span<const Check> lifecycle_checks();
std::span<const Check> fault_checks();
std::span<const Check> speed_checks();

// For a group whose checks are in several files.
inline std::vector<Check> joined(std::initializer_list<std::span<const Check>> parts) {
  std::vector<Check> all;
  for (std::span<const Check> part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

}  // namespace tenon::conform
