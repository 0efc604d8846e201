#include "core/base/process/operation.h"

namespace tenon {
namespace {
thread_local Operation* tls_operation = nullptr;
std::atomic<bool> process_cancel{false};
static_assert(std::atomic<bool>::is_always_lock_free, "set from a signal handler");
}  // namespace

Operation* current_operation() {
  return tls_operation;
}

OperationScope::OperationScope(Operation* operation) : previous_(tls_operation) {
  tls_operation = operation;
}
OperationScope::~OperationScope() {
  tls_operation = previous_;
}

bool cancelled() {
  if (process_cancel.load(std::memory_order_relaxed)) return true;
  return tls_operation != nullptr &&
         tls_operation->cancel_requested.load(std::memory_order_relaxed);
}

Status check_cancelled() {
  return cancelled() ? error(TENON_CANCELLED, "T0001", "the operation was cancelled") : Status();
}

void request_process_cancel(bool requested) {
  process_cancel.store(requested, std::memory_order_relaxed);
}

void report_progress(std::string_view phase, uint64_t done, uint64_t total) {
  Operation* operation = tls_operation;
  if (operation != nullptr && operation->progress != nullptr) {
    operation->progress(operation->progress_self, phase, done, total);
  }
}

}  // namespace tenon
