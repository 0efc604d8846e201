// One check: a question about a plugin, answered by an Outcome in a process of its own. Every check
// names the requirement of docs/spec/plugin.md that it tests. The lists of checks are tables in
// checks/, which checks/tables.h names.
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
  kSkip,        // cannot be checked here; has the reason
  kNotOffered,  // the plugin lacks the interface or the slot, which is not a fault
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

// Returns `failed(...)` from a check unless `condition` holds.
#define CONFORM_EXPECT(condition, ...)                              \
  do {                                                              \
    if (!(condition)) return ::tenon::conform::failed(__VA_ARGS__); \
  } while (0)
// Returns another's outcome from a check unless that is a pass.
#define CONFORM_TRY(expression)                                                              \
  do {                                                                                       \
    ::tenon::conform::Outcome conform_outcome = (expression);                                \
    if (conform_outcome.verdict != ::tenon::conform::Verdict::kPass) return conform_outcome; \
  } while (0)

struct Check {
  const char* requirement;  // "R-A01"
  const char* name;         // "manifest-json"; unique in its group
  Outcome (*run)(Session& session);
  bool needed = false;  // its group's level requires a pass, not only no failure
};

// "A", its subject, and the level that requires it.
struct Group {
  char letter;
  const char* title;
  int level;
  double limit_seconds;  // time limit of each of its checks
  std::span<const Check> checks;
};
std::span<const Group> groups();
// The group that is reported but never judged: none of its outcomes counts.
inline constexpr char kSpeed = 'L';
// The highest level that any group belongs to, and the highest one whose groups are all
// implemented, which is the highest that can be reached.
int highest_level();
inline constexpr int kWholeLevels = 4;

// "A.manifest-json"
std::string full_name(const Group& group, const Check& check);

}  // namespace tenon::conform
