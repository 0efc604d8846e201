// The process of one check, seen from the runner, which bounds what the plugin does in it. A check
// ends when its process does, even if another process holds its pipes, or when the runner ends it.
// Whatever it started ends with it, and its output costs the runner a bounded amount of memory.
#pragma once
#include <poll.h>
#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "sdk/tools/conform/runner/answers.h"
#include "sdk/tools/conform/runner/check.h"
#include "sdk/tools/conform/subject/names.h"

namespace tenon::conform {

class CheckProcess {
 public:
  // Starts this program again as `--child MANIFEST NAME EXAMPLES...`. Fails if the runner is out of
  // descriptors or processes, which is not the plugin's fault.
  static Result<std::unique_ptr<CheckProcess>> start(const std::string& manifest_path,
                                                     const std::string& name,
                                                     const std::vector<std::string>& examples);
  CheckProcess(const CheckProcess&) = delete;
  ~CheckProcess();

  // The descriptors that show when advance() has something to do.
  void add_polls(std::vector<pollfd>* polls) const;
  // Reads what has arrived; true once the process has ended.
  bool advance();
  // Ends it if it is still running, with everything that it started, and returns the outcome.
  // timed_out: the seconds after which it is ended, or negative.
  Outcome finish(double timed_out);
  const std::vector<std::string>& notes() const { return answers_.notes(); }

 private:
  explicit CheckProcess(std::string token) : answers_(std::move(token)) {}
  bool has_ended();
  void read_all();
  void end_group();
  std::string context() const;
  Outcome outcome() const;

  Answers answers_;
  std::string output_;  // its beginning
  pid_t process_ = -1;
  int process_descriptor_ = -1, answer_ = -1, output_end_ = -1;
  int status_ = 0;
  bool reaped_ = false;
};

// Makes a signal that ends the runner end the checks' processes too. Call once, before the first is
// started.
void end_checks_with_runner();
// Ends processes that checks have left running. Call when no check is running.
void end_orphans();

// The check's side: makes it end when the runner does.
void end_with_parent();

}  // namespace tenon::conform
