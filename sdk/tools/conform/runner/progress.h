// A line on the terminal while checks run: how many are done, how many failed, and what runs.
#pragma once
#include <cstddef>
#include <string_view>

namespace tenon::conform {

// Silent where stderr is not a terminal, or with TERM=dumb. Gone when the object is. Threads: one.
class Progress {
 public:
  explicit Progress(size_t checks);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // A check begins, by its full name, or has ended.
  void began(std::string_view name);
  void ended(bool failed);

 private:
  const size_t checks_;
  const bool shown_;
  size_t ended_ = 0, failed_ = 0;
};

}  // namespace tenon::conform
