// What the process of a check reports to the runner: lines through a pipe. Each begins with a token
// that the runner made for this process, so that a plugin's own output is not taken for a report.
// What is kept of them is bounded, however much is written.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sdk/tools/conform/runner/check.h"

namespace tenon::conform {

// 32 random hexadecimal digits.
std::string make_token();

// The check's side.
class Reporter {
 public:
  Reporter() = default;  // reports nothing
  Reporter(int descriptor, std::string token) : descriptor_(descriptor), token_(std::move(token)) {}
  // Takes the token from standard input, which is empty afterwards, and moves the pipe from
  // `descriptor` to a number that is not constant. Call it before the plugin is loaded. Without a
  // token it reports nothing.
  static Reporter take(int descriptor);

  bool is_connected() const { return descriptor_ >= 0; }
  void step(std::string_view what) { line("step", what, 400); }
  void note(std::string_view what) { line("note", what, 400); }
  // A process that the check itself started died: its output is part of the outcome.
  void died() { line("died", "", 0); }
  // False if it did not arrive.
  bool result(const Outcome& outcome);

 private:
  bool line(std::string_view word, std::string_view text, size_t most);
  int descriptor_ = -1;
  std::string token_;
};

// The runner's side.
class Answers {
 public:
  explicit Answers(std::string token) : token_(std::move(token)) {}
  void take(std::string_view bytes);
  const std::optional<Outcome>& result() const { return result_; }
  const std::string& last_step() const { return last_step_; }
  const std::vector<std::string>& notes() const { return notes_; }
  bool died() const { return died_; }

 private:
  void take_line(std::string_view line);
  std::string token_, partial_, last_step_;
  bool too_long_ = false, died_ = false;
  std::optional<Outcome> result_;
  std::vector<std::string> notes_;
};

}  // namespace tenon::conform
