// How large the groups of kernels may be on a device: the one place that says so for the devices of
// this SDK.
//
// Each architecture has its known limits. A device whose driver allows less says so in its target,
// "cuda sm_90 threads=128 shared=16384", so that code is made, cached and refused by it. Such a
// text can also be given for a device that is not here (--target "sm_90 threads=128").
//
// Users: plugins/cuda, plugins/intel, plugins/mps, plugins/rocm.
#ifndef TENON_STREAM_GROUP_LIMITS_H_
#define TENON_STREAM_GROUP_LIMITS_H_

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "tenon/cpp/plugin.hpp"
#include "tenon/kernelgen/ir/target.h"

namespace tenon::stream {

struct GroupLimits {
  uint32_t threads = 1024;           // that a group may have
  uint32_t shared_bytes = 48 << 10;  // that they may share
};

// The kernels that are made today gain nothing from larger groups.
constexpr uint32_t kPreferredGroup = 256;

inline uint32_t group_of(const GroupLimits& limits) {
  return std::bit_floor(std::min(kPreferredGroup, std::max(limits.threads, 1u)));
}

inline kernelgen::Target within(kernelgen::Target target, const GroupLimits& limits) {
  target.group = group_of(limits);
  target.shared_bytes = std::max<int64_t>(limits.shared_bytes, 1);  // 0 is none for a Target
  return target;
}

// "sm_90" of "sm_90 threads=128".
inline std::string_view without_limits(std::string_view target) {
  return target.substr(0, std::min(target.find(" threads="), target.find(" shared=")));
}

// Whether what follows the architecture is " threads=N" and " shared=N", in this order, each at
// most once: INVALID_ARGUMENT, with a sentence.
inline Status check_limits(std::string_view device, std::string_view target) {
  std::string_view rest = target.substr(without_limits(target).size());
  for (const auto& [key, least] :
       {std::pair<std::string_view, uint32_t>{" threads=", 1}, {" shared=", 0}}) {
    if (!rest.starts_with(key)) continue;
    rest.remove_prefix(key.size());
    uint32_t value = 0;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
    const std::string_view given = rest.substr(0, rest.find(' '));
    rest.remove_prefix(static_cast<size_t>(end - rest.data()));
    if (error == std::errc() && value >= least && (rest.empty() || rest[0] == ' ')) continue;
    return fail(TENON_INVALID_ARGUMENT,
                cat(device, ": the target ", quoted(target), " has ", key.substr(1), given,
                    ", which is not a number", least == 0 ? "" : " from 1 on"));
  }
  if (rest.empty()) return {};
  return fail(TENON_INVALID_ARGUMENT,
              cat(device, ": the target ", quoted(target), " ends in ", quoted(rest.substr(1)),
                  "; an architecture may be followed by threads=N, then shared=N"));
}

// What a target says, and its architecture's limits for what it does not say.
inline GroupLimits limits_of(std::string_view target, GroupLimits architecture) {
  const auto read = [&](std::string_view key, uint32_t* out) {
    const size_t at = target.find(key);
    if (at == std::string_view::npos) return;
    uint32_t value = 0;
    (void)std::from_chars(target.data() + at + key.size(), target.data() + target.size(), value);
    *out = std::min(*out, value);
  };
  read(" threads=", &architecture.threads);
  read(" shared=", &architecture.shared_bytes);
  return architecture;
}

// What a target adds for a device that allows less than its architecture; mostly nothing.
inline std::string limits_text(const GroupLimits& device, const GroupLimits& architecture) {
  std::string out;
  if (device.threads < architecture.threads) out += cat(" threads=", device.threads);
  if (device.shared_bytes < architecture.shared_bytes) out += cat(" shared=", device.shared_bytes);
  return out;
}

// Whether groups that were made for one device fit into another.
inline bool fits(const GroupLimits& made_for, const GroupLimits& device) {
  return group_of(made_for) <= device.threads && made_for.shared_bytes <= device.shared_bytes;
}

}  // namespace tenon::stream
#endif
