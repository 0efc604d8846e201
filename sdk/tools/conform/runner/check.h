// One check: a question put to a plugin in a process of its own, answered by an Outcome. Every
// check names the requirement of docs/spec/plugin.md that it tests; the lists of checks are tables
// in checks/, which checks/tables.h names.
#pragma once
#include <fmt/core.h>

#include <span>
#include <string>
#include <string_view>

namespace tenon::conform {

class Session;

enum class Verdict {
  kPass,
  kFail,
  kSkip,        // cannot be tried here; with the reason
  kNotOffered,  // the plugin lacks the interface or the slot: no fault
};
std::string_view verdict_name(Verdict verdict);

struct Outcome {
  Verdict verdict = Verdict::kPass;
  std::string text;  // what was seen and what was expected; empty for a pass
};

inline Outcome pass() {
  return {};
}
template <typename... Args>
Outcome failed(fmt::format_string<Args...> format, Args&&... args) {
  return {Verdict::kFail, fmt::format(format, std::forward<Args>(args)...)};
}
inline Outcome skipped(std::string why) {
  return {Verdict::kSkip, std::move(why)};
}
inline Outcome not_offered(std::string what) {
  return {Verdict::kNotOffered, std::move(what)};
}

// Leaves a check with `failed(...)` unless `condition` holds.
#define CONFORM_EXPECT(condition, ...)                              \
  do {                                                              \
    if (!(condition)) return ::tenon::conform::failed(__VA_ARGS__); \
  } while (0)
// Leaves a check with another's outcome unless that is a pass.
#define CONFORM_TRY(expression)                                                              \
  do {                                                                                       \
    ::tenon::conform::Outcome conform_outcome = (expression);                                \
    if (conform_outcome.verdict != ::tenon::conform::Verdict::kPass) return conform_outcome; \
  } while (0)

struct Check {
  const char* requirement;  // "R-A01"
  const char* name;         // "manifest-json"; unique in its group
  Outcome (*run)(Session& session);
  bool needed = false;  // its group's level needs a pass, where others need no more than no failure
};

// "A" and what it is about, with the level that needs it.
struct Group {
  char letter;
  const char* title;
  int level;
  double limit_seconds;  // that one of its checks may take
  std::span<const Check> checks;
};
std::span<const Group> groups();
// The group that is told and never judged: no outcome of it counts.
inline constexpr char kSpeed = 'L';
// The highest level that any group stands for, and the highest whose groups are all here, which
// alone can be reached.
int highest_level();
inline constexpr int kWholeLevels = 4;

// "A.manifest-json"
std::string full_name(const Group& group, const Check& check);

}  // namespace tenon::conform
