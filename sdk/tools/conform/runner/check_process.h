// The process of one check, as the runner sees it. What the plugin does in there is bounded here:
// it ends when the process does, whoever else holds its pipes, or when it is told to; what it
// started ends with it; what it writes costs the runner no memory.
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
  // Starts this program again as `--child MANIFEST NAME EXAMPLES...`. Fails where the runner has no
  // descriptor or process left, which is nothing of the plugin's.
  static Result<std::unique_ptr<CheckProcess>> start(const std::string& manifest_path,
                                                     const std::string& name,
                                                     const std::vector<std::string>& examples);
  CheckProcess(const CheckProcess&) = delete;
  ~CheckProcess();

  // What tells that advance() has something to do.
  void add_polls(std::vector<pollfd>* polls) const;
  // Reads what came; true once the process has ended.
  bool advance();
  // Ends it where it has not ended, with all that it started, and says what came of it.
  // timed_out: after so many seconds, or negative.
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

// Processes of checks end when the runner is ended by a signal. Once, before the first is started.
void end_checks_with_runner();
// Ends what processes of checks have left behind; when none of them runs.
void end_orphans();

// The side of the check: it ends when the runner does.
void end_with_parent();

}  // namespace tenon::conform
