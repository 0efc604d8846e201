#include "toolchain/compiler_process.h"

#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tenon/cpp/status.hpp"

extern char** environ;

namespace tenon::cpu {
namespace {

constexpr int kTimeoutMs = 60000;
constexpr size_t kMaxStderr = 4000;

class MemoryFile {
 public:
  explicit MemoryFile(const char* name) : fd_(memfd_create(name, MFD_CLOEXEC)) {}
  ~MemoryFile() {
    if (fd_ >= 0) {
      close(fd_);
    }
  }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  int fd() const { return fd_; }

  bool write_all(const void* data, size_t size) const {
    const char* bytes = static_cast<const char*>(data);
    while (size > 0) {
      const ssize_t n = write(fd_, bytes, size);
      if (n <= 0) {
        return false;
      }
      bytes += n;
      size -= static_cast<size_t>(n);
    }
    return true;
  }
  bool rewind() const { return lseek(fd_, 0, SEEK_SET) == 0; }
  std::string contents() const {
    struct stat info;
    std::string out;
    if (fstat(fd_, &info) == 0 && info.st_size > 0) {
      out.resize(static_cast<size_t>(info.st_size));
      size_t done = 0;
      ssize_t n = 0;
      while (done < out.size() &&
             (n = pread(fd_, out.data() + done, out.size() - done, static_cast<off_t>(done))) > 0) {
        done += static_cast<size_t>(n);
      }
      out.resize(done);
    }
    return out;
  }

 private:
  int fd_;
};

BuildResult failure(tenon_code_t code, std::string message) {
  return {code, {}, std::move(message)};
}

int spawn(const std::string& program, const std::string& library, const MemoryFile& in,
          const MemoryFile& out, const MemoryFile& err, pid_t& pid) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in.fd(), 0);
  posix_spawn_file_actions_adddup2(&actions, out.fd(), 1);
  posix_spawn_file_actions_adddup2(&actions, err.fd(), 2);
  char* argv[] = {const_cast<char*>(program.c_str()), const_cast<char*>(library.c_str()), nullptr};
  const int error = posix_spawn(&pid, program.c_str(), &actions, nullptr, argv, environ);
  posix_spawn_file_actions_destroy(&actions);
  return error;
}

// Waits for the child; false when it took too long and was killed.
bool wait_for(pid_t pid, int& status) {
  bool in_time = true;
  const int fd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  if (fd >= 0) {
    pollfd poller = {fd, POLLIN, 0};
    int ready = 0;
    while ((ready = poll(&poller, 1, kTimeoutMs)) < 0 && errno == EINTR) {
    }
    if (ready == 0) {
      in_time = false;
      kill(pid, SIGKILL);
    }
    close(fd);
  }
  // Without pidfds (before Linux 5.3) the child's own limit on processor time ends it.
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return in_time;
}

BuildResult parse_answer(const std::string& answer) {
  ProcessAnswer head;
  if (answer.size() < sizeof head) {
    return failure(TENON_ABORTED, "The isolated compiler gave no answer.");
  }
  memcpy(&head, answer.data(), sizeof head);
  const uint64_t rest = answer.size() - sizeof head;
  if (head.magic != kProcessMagic || head.message_bytes > rest ||
      head.output_bytes != rest - head.message_bytes) {
    return failure(TENON_ABORTED, "The isolated compiler's answer is malformed.");
  }
  BuildResult result;
  result.code = head.code == TENON_CLANG_OK ? TENON_OK : TENON_INVALID_ARGUMENT;
  result.messages = answer.substr(sizeof head, head.message_bytes);
  result.bytes = answer.substr(sizeof head + head.message_bytes);
  return result;
}

}  // namespace

BuildResult build_in_process_of_its_own(const std::string& folder, const BuildRequest& request) {
  MemoryFile in("tenon-cc-request"), out("tenon-cc-answer"), err("tenon-cc-errors");
  const ProcessRequest head = {kProcessMagic,
                               request.dialect,
                               request.output,
                               request.opt_level,
                               static_cast<uint32_t>(request.isa),
                               0,
                               request.text.size()};
  if (out.fd() < 0 || err.fd() < 0 || !in.write_all(&head, sizeof head) ||
      !in.write_all(request.text.data(), request.text.size()) || !in.rewind()) {
    return failure(TENON_RESOURCE_EXHAUSTED, "There is no memory to pass text to the compiler.");
  }
  const std::string program = folder + "/tenon-cc";
  pid_t pid = 0;
  if (const int error = spawn(program, folder + "/libtenon-clang.so", in, out, err, pid)) {
    return failure(TENON_UNAVAILABLE,
                   cat("The isolated compiler ", program, " cannot be started: ", strerror(error),
                       ". Install it (of wheels: pip install tenon-codegen)."));
  }
  int status = 0;
  if (!wait_for(pid, status)) {
    return failure(TENON_DEADLINE_EXCEEDED,
                   "The isolated compiler took longer than 60 s and was stopped.");
  }
  if (WIFSIGNALED(status)) {
    return failure(
        TENON_ABORTED,
        cat("The compiler died of signal ", WTERMSIG(status), " (", strsignal(WTERMSIG(status)),
            ") on this text. Its last words: ", err.contents().substr(0, kMaxStderr)));
  }
  if (WEXITSTATUS(status) != 0) {
    return failure(TENON_ABORTED,
                   cat("The isolated compiler ended with status ", WEXITSTATUS(status), ": ",
                       err.contents().substr(0, kMaxStderr)));
  }
  return parse_answer(out.contents());
}

}  // namespace tenon::cpu
