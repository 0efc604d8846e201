// A line on the terminal about work that takes more than a second: what is done, and for how long.
#pragma once
#include <string>
#include <string_view>

namespace tenon::tools {

// Shown from the second second on, while the object lives, and gone after it. Silent where stderr
// is not a terminal, or with TERM=dumb. Not nested. Threads: made and destroyed on one.
class Progress {
 public:
  // what: "compiling net.onnx". Made safe to print.
  explicit Progress(std::string_view what);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Before something else is written to the terminal: removes the line until it is drawn again.
  static void make_way();
};

}  // namespace tenon::tools
