#include "plugins/sim/device/injection.h"

#include <charconv>
#include <optional>

#include "tenon/cpp/plugin.hpp"

namespace tenon::sim {
namespace {

constexpr std::string_view kFaults = "TENON_SIM_FAULTS", kLatency = "TENON_SIM_LATENCY";
constexpr std::string_view kEvents[kEventCount] = {"alloc", "copy",  "launch",
                                                   "fence", "stall", "lost"};
constexpr uint64_t kLatencyMaxUs = 60'000'000;

std::optional<uint64_t> number(std::string_view text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// Calls `visit(name, value)` for every NAME=VALUE; false at the first item that is malformed or
// that `visit` refuses.
template <class Visit>
bool each_pair(std::string_view variable, std::string_view text, std::string* why, Visit&& visit) {
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    const std::string_view item = text.substr(0, comma);
    text.remove_prefix(std::min(comma + 1, text.size()));
    const size_t equals = item.find('=');
    if (equals != std::string_view::npos && visit(item.substr(0, equals), item.substr(equals + 1)))
      continue;
    *why = cat("sim: ", quoted(item), " in ", variable, " is not valid; see plugins/sim/README.md");
    return false;
  }
  return true;
}

}  // namespace

bool Injection::read_faults(std::string_view text, std::string* why) {
  rules_ = {};
  return each_pair(kFaults, text, why, [this](std::string_view name, std::string_view value) {
    if (const size_t slash = name.find('/'); slash != std::string_view::npos) {
      const std::optional<uint64_t> ordinal = number(name.substr(0, slash));
      if (!ordinal) return false;
      name.remove_prefix(slash + 1);
      if (*ordinal != ordinal_) return true;
    }
    const bool onwards = value.ends_with('+');
    const std::optional<uint64_t> at = number(value.substr(0, value.size() - (onwards ? 1 : 0)));
    for (size_t e = 0; e < kEventCount && at && *at != 0; ++e) {
      if (name != kEvents[e]) continue;
      rules_[e] = {*at, 0, onwards};
      return true;
    }
    return false;
  });
}

bool Injection::read_latency(std::string_view text, std::string* why) {
  copy_ = launch_ = {};
  seed_ = 1;
  return each_pair(kLatency, text, why, [this](std::string_view name, std::string_view value) {
    const size_t dash = value.find('-');
    const std::optional<uint64_t> low = number(value.substr(0, dash));
    const std::optional<uint64_t> high =
        dash == std::string_view::npos ? low : number(value.substr(dash + 1));
    if (!low || !high || *high < *low) return false;
    if (name == "seed") return seed_ = *low, dash == std::string_view::npos;
    if (*high > kLatencyMaxUs) return false;
    if (name == "copy") return copy_ = {*low, *high}, true;
    if (name == "launch") return launch_ = {*low, *high}, true;
    return false;
  });
}

bool Injection::refresh(std::string* why) {
  bool good = true;
  if (const std::string_view text = setting(kFaults); text != faults_text_) {
    faults_text_ = text;
    good = read_faults(text, why);
    if (!good) rules_ = {};
  }
  if (const std::string_view text = setting(kLatency); text != latency_text_) {
    latency_text_ = text;
    if (!read_latency(text, why)) copy_ = launch_ = {}, good = false;
  }
  if (!good) log("sim", TENON_LOG_WARN, *why);
  return good;
}

Status Injection::check() {
  const std::lock_guard lock(mutex_);
  std::string why;
  faults_text_.clear();
  latency_text_.clear();
  return refresh(&why) ? Status() : fail(TENON_INVALID_ARGUMENT, why);
}

bool Injection::strikes(Event event) {
  const std::lock_guard lock(mutex_);
  std::string why;
  refresh(&why);
  Rule& rule = rules_[static_cast<size_t>(event)];
  if (rule.at == 0) return false;
  ++rule.seen;
  return rule.onwards ? rule.seen >= rule.at : rule.seen == rule.at;
}

uint64_t Injection::latency_us(Event event, uint64_t* state) {
  const std::lock_guard lock(mutex_);
  std::string why;
  refresh(&why);
  const Range& range = event == Event::kCopy ? copy_ : launch_;
  if (range.high == 0) return 0;
  // splitmix64: one addition per number, and every seed is good.
  if (*state == 0) *state = seed_;
  uint64_t z = *state += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return range.low + (z ^ (z >> 31)) % (range.high - range.low + 1);
}

}  // namespace tenon::sim
