#include "sdk/tools/tenon/console/progress.h"

#include <fmt/core.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "sdk/tools/tenon/console/console.h"

namespace tenon::tools {
namespace {

using namespace std::chrono_literals;

// The line, drawn by a thread that waits most of the time.
class Line {
 public:
  void show(std::string what) {
    what_ = std::move(what);
    over_ = false;
    thread_ = std::thread([this] { draw(); });
  }
  void end() {
    if (!thread_.joinable()) return;
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
    }
    changed_.notify_all();
    thread_.join();
    clear();
  }
  void clear() {
    const std::lock_guard lock(mutex_);
    if (drawn_) print("\r\033[K");
    drawn_ = false;
  }

 private:
  static void print(std::string_view text) {
    if (write(STDERR_FILENO, text.data(), text.size()) < 0) return;  // it is only a line of talk
  }
  void draw() {
    const auto start = std::chrono::steady_clock::now();
    std::unique_lock lock(mutex_);
    while (!changed_.wait_for(lock, 1s, [this] { return over_; })) {
      const auto seconds =
          std::chrono::duration_cast<std::chrono::seconds>(std::chrono::steady_clock::now() - start)
              .count();
      print(fmt::format("\r\033[K{} ... {} s", what_, seconds));
      drawn_ = true;
    }
  }

  std::string what_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::thread thread_;
  bool over_ = false, drawn_ = false;
};

Line& line() {
  static auto* line = new Line;  // never destroyed: messages at exit ask for it
  return *line;
}

bool on_terminal() {
  const char* term = getenv("TERM");
  return isatty(STDERR_FILENO) == 1 && term != nullptr && strcmp(term, "dumb") != 0;
}

}  // namespace

Progress::Progress(std::string_view what) {
  if (on_terminal()) line().show(safe(what, 60));
}

Progress::~Progress() {
  line().end();
}

void Progress::make_way() {
  line().clear();
}

}  // namespace tenon::tools
