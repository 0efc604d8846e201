// The operation that the calling thread works for: whether it was cancelled, and where progress is
// reported. The session sets it, the thread pool carries it to its workers, and anything below may
// read it.
#pragma once
#include <atomic>
#include <cstdint>
#include <string_view>

#include "core/base/errors/status.h"

namespace tenon {

struct Operation {
  std::atomic<bool> cancel_requested{false};
  // Receives progress of long work; may be null. Threads: called by any thread of the operation.
  void (*progress)(void* self, std::string_view phase, uint64_t done, uint64_t total) = nullptr;
  // Asked now and then on the threads whose scope says so: true cancels the operation. May be null.
  bool (*poll)(void* self) = nullptr;
  void* self = nullptr;  // of both
};

// The calling thread's operation; null outside of any.
Operation* current_operation();

// Sets the calling thread's operation for a scope. The object must outlive the scope and all work
// that its threads do.
class OperationScope {
 public:
  // polls: this thread asks Operation::poll.
  explicit OperationScope(Operation* operation, bool polls = false);
  ~OperationScope();
  OperationScope(const OperationScope&) = delete;
  OperationScope& operator=(const OperationScope&) = delete;

 private:
  Operation* previous_;
  bool previous_polls_;
};

// True if the current operation, or the process (Ctrl-C), was asked to stop. Cost: three loads, and
// a clock where the operation polls.
bool cancelled();

// T0001 if cancelled().
Status check_cancelled();

// Asks everything in the process to stop, or withdraws that. Async-signal-safe.
void request_process_cancel(bool requested = true);

// Calls the operation's progress callback, if there is one.
void report_progress(std::string_view phase, uint64_t done, uint64_t total);

}  // namespace tenon
