#include "sdk/tools/tenon/host/crash.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <tenon/abi/inspect.h>
#include <time.h>
#include <unistd.h>

#include <atomic>

#include "sdk/tools/tenon/console/console.h"

namespace tenon::tools {
namespace {

constexpr int kSignals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};
constexpr unsigned kSaveSeconds = 20;
constexpr uint32_t kPathBytes = 4096;
constexpr size_t kStackBytes = 64 << 10;

const tenon_host_inspect_t* g_inspect = nullptr;
char* g_path = nullptr;           // shared with the child that saves
std::atomic<pid_t> g_crashed{0};  // the thread that crashed first

const char* name_of(int signal) {
  switch (signal) {
    case SIGSEGV:
      return "SIGSEGV, an access to memory that is not there";
    case SIGBUS:
      return "SIGBUS, an access to memory that cannot be reached";
    case SIGILL:
      return "SIGILL, an instruction that this processor does not have";
    case SIGFPE:
      return "SIGFPE, a division by zero";
    default:
      return "SIGABRT, it gave up";
  }
}

void say(const char* text) {
  if (write(STDERR_FILENO, text, strlen(text)) < 0) return;
}

// In a child: its memory is a copy, so that whatever goes wrong there does no harm.
void save() {
  const pid_t child = fork();
  if (child == 0) {
    for (const int s : kSignals) signal(s, SIG_DFL);
    alarm(kSaveSeconds);
    _exit(g_inspect->crash_save(g_inspect->self, g_path, kPathBytes) == TENON_OK ? 0 : 1);
  }
  if (child < 0) return;
  // The fork itself may hang on a lock in the child, before its alarm is set.
  for (unsigned i = 0; i < (kSaveSeconds + 2) * 100; ++i) {
    int status = 0;
    if (waitpid(child, &status, WNOHANG) == child) {
      if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) g_path[0] = 0;
      return;
    }
    const timespec pause = {0, 10000000};
    nanosleep(&pause, nullptr);
  }
  kill(child, SIGKILL);
  g_path[0] = 0;
}

void handle(int signal, siginfo_t*, void*) {
  // A second thread that crashes waits for the end; a crash in here ends at once.
  pid_t first = 0;
  if (!g_crashed.compare_exchange_strong(first, gettid())) {
    if (first == gettid()) _exit(kDevice);
    for (;;) pause();
  }
  char what[512];
  const uint32_t known = g_inspect->crash_describe(g_inspect->self, what, sizeof what);
  say("tenon: error: T0650: ");
  say(known > 0 ? what : "the command");
  say(" crashed with ");
  say(name_of(signal));
  say(".\n");
  if (known > 0) {
    save();
    if (g_path[0] != 0) {
      say("  reproducer: ");
      say(g_path);
      say("\n");
    }
  }
  _exit(kDevice);
}

}  // namespace

void on_crash(const Host& host) {
  const void* table = nullptr;
  if (host.host->query(host.host->self, str(TENON_HOST_INSPECT_ID), 0, &table) != TENON_OK) return;
  g_inspect = static_cast<const tenon_host_inspect_t*>(table);
  void* shared =
      mmap(nullptr, kPathBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  // A stack of its own: a recursion without end has used up the other one.
  static char stack[kStackBytes];
  const stack_t own = {stack, 0, sizeof stack};
  if (shared == MAP_FAILED || sigaltstack(&own, nullptr) != 0) return;
  g_path = static_cast<char*>(shared);
  for (const int s : kSignals) {
    struct sigaction old = {}, action = {};
    if (sigaction(s, nullptr, &old) != 0 || old.sa_handler != SIG_DFL) continue;
    action.sa_sigaction = handle;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigaction(s, &action, nullptr);
  }
}

}  // namespace tenon::tools
