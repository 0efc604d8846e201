// What each thread is about to ask of a plugin, so that a crash can be named: "the pass `x` in
// passes.so". The notes cost a few stores; nothing is written while all goes well (ADR 0041).
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

#include "core/base/errors/status.h"

namespace tenon {

class Activity {
 public:
  // `what` is printed: "the pass `x`". `code` is any function of the plugin; its library is named.
  // save: writes what the plugin works on into a file and returns its path; called after a crash,
  // in a forked child. May be null. All must outlive the object.
  Activity(std::string what, const void* code, Result<std::string> (*save)(const void* self),
           const void* self);
  ~Activity();
  Activity(const Activity&) = delete;
  Activity& operator=(const Activity&) = delete;

  // The innermost activity of this thread; else the latest of the process, for pool threads that
  // work for another; null outside of any.
  static const Activity* current();

  const char* text() const { return text_; }  // ends with 0
  Result<std::string> save() const;

 private:
  char text_[256];
  Result<std::string> (*save_)(const void* self);
  const void* self_;
  const Activity* outer_;
};

// Writes `text` into the folder of reproducers (TENON_REPRODUCER_DIR, else `reproducers` in the
// cache folder) as NAME-PID.tir. Returns the path; T0801 without a folder.
Result<std::string> save_reproducer(std::string_view name, std::string_view text);

}  // namespace tenon
