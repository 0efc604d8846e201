// A timeline in Chrome's JSON, which Perfetto reads. Events go to a file next to the requested one,
// which is renamed when it is complete.
#ifndef TENON_PLUGINS_LAYERS_TRACE_WRITER_H_
#define TENON_PLUGINS_LAYERS_TRACE_WRITER_H_

#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>

#include "tenon/cpp/plugin.hpp"

namespace tenon::trace {

uint64_t now_ns();  // of a steady clock

struct Event {
  std::string_view name, interface, plugin, device;
  uint64_t begin_ns, end_ns;
  uint64_t bytes;  // 0: unknown
  tenon_code_t code;
};

// Count and total time of each call, printed when no file is requested. Threads: safe.
class Totals {
 public:
  static void add(const Event& event);
  static void print();  // once, the costliest first
};

// Threads: safe.
class Writer {
 public:
  // The open writer of a path, which lives as long as the process. Refuses a file that cannot be
  // written, and a link in its place.
  static Status at(std::string_view path, bool flush, Writer** out);
  void add(const Event& event);
  // Completes all files and renames them.
  static Status finish_all();

 private:
  Writer(std::string path, bool flush) : path_(std::move(path)), flush_(flush) {}
  Status open();
  Status finish();
  void drain();  // under the lock
  uint32_t thread_number();

  const std::string path_;
  const bool flush_;
  const uint64_t start_ns_ = now_ns();
  std::string part_, text_;
  std::mutex mutex_;
  int file_ = -1;
  bool failed_ = false;
};

}  // namespace tenon::trace

#endif
