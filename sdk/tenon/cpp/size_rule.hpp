// What a rule about one size means, in words. Models state such rules as relations between
// computed dims; "a multiple of 32" says more than the formula. The core and the tools use it.
#ifndef TENON_CPP_SIZE_RULE_HPP_
#define TENON_CPP_SIZE_RULE_HPP_

#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

namespace tenon::size_rule {

inline constexpr int64_t kMost = 4096;  // sizes from 1 on that are tried

// The sizes up to kMost that `allowed(size)` takes, in order.
template <class Allowed>
std::vector<int64_t> sizes(Allowed allowed) {
  std::vector<int64_t> out;
  for (int64_t size = 1; size <= kMost; ++size) {
    if (allowed(size)) out.push_back(size);
  }
  return out;
}

// "a multiple of 32, or one of some sizes in between": where all multiples of a power of 2 are
// allowed, as where sizes are halved and rounded up several times. Empty if there is no such power.
inline std::string mixed_words(const std::vector<int64_t>& allowed) {
  std::vector<bool> takes(kMost + 1);
  for (const int64_t size : allowed) takes[static_cast<size_t>(size)] = true;
  for (int64_t step = 2; step <= kMost / 8; step *= 2) {
    bool all = true;
    for (int64_t at = step; at <= kMost; at += step) all = all && takes[static_cast<size_t>(at)];
    if (all) return "a multiple of " + std::to_string(step) + ", or one of some sizes in between";
  }
  return {};
}

// "a multiple of 32", "at least 3 and at most 7", "8". Empty if no such words say it.
inline std::string words(const std::vector<int64_t>& allowed) {
  if (allowed.empty() || allowed.size() == static_cast<size_t>(kMost)) return {};
  const int64_t least = allowed.front(), most = allowed.back();
  if (allowed.size() == 1) return std::to_string(least);
  int64_t step = 0;
  for (size_t i = 1; i < allowed.size(); ++i) step = std::gcd(step, allowed[i] - allowed[i - 1]);
  if (static_cast<int64_t>(allowed.size()) != (most - least) / step + 1)
    return mixed_words(allowed);
  const bool multiple = step > 1 && least % step == 0;
  std::string out;
  if (multiple) out = "a multiple of " + std::to_string(step);
  if (step > 1 && !multiple)
    out = std::to_string(least) + ", or more by a multiple of " + std::to_string(step);
  const auto add = [&](const char* text, int64_t size) {
    out += (out.empty() ? "" : " and ") + std::string(text) + std::to_string(size);
  };
  if (step == 1 || (multiple && least > step)) add("at least ", least);
  if (most <= kMost - step) add("at most ", most);
  return out;
}

}  // namespace tenon::size_rule

#endif  // TENON_CPP_SIZE_RULE_HPP_
