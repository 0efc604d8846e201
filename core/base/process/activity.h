// What each thread is about to ask of a plugin, so that a crash can be named: "the pass `x` in
// passes.so". A note costs two stores to memory of its own thread, however many threads take notes;
// nothing is written while all goes well (ADR 0041).
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/errors/status.h"

namespace tenon {

struct ThreadNote;

// To be destroyed by the thread that made it, the innermost first.
class Activity {
 public:
  // A crash is reported as "KIND `NAME` in LIBRARY": "the pass `x` in passes.so". `code` is an
  // address in the library of the plugin, such as a function. save: writes what the plugin works on
  // into a file and returns its path; called after a crash, in a forked child. May be null. All
  // must outlive the object.
  Activity(std::string_view kind, std::string_view name, const void* code,
           Result<std::string> (*save)(const void* self) = nullptr, const void* self = nullptr);
  ~Activity();
  Activity(const Activity&) = delete;
  Activity& operator=(const Activity&) = delete;

  // The innermost activity of this thread; else one of another thread, for those that work for
  // another; null outside of any. Allocates nothing.
  static const Activity* current();

  // The text, cut at `size_bytes` and ended by 0; returns its length. Allocates nothing.
  size_t describe(char* text, size_t size_bytes) const;
  Result<std::string> save() const;

 private:
  std::string_view kind_, name_;
  const void* code_;
  Result<std::string> (*save_)(const void* self);
  const void* self_;
  ThreadNote* note_;  // of this thread; null: there was no memory for one
  const Activity* outer_ = nullptr;
};

// Writes `text` into the folder of reproducers (TENON_REPRODUCER_DIR, else `reproducers` in the
// cache folder) as NAME-PID.tir, and its larger constants, if there are any, as NAME-PID.tir.bin.
// Returns the path; T0801 without a folder.
Result<std::string> save_reproducer(std::string_view name, std::string_view text,
                                    std::string_view sidecar);

}  // namespace tenon
