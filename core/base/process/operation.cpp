#include "core/base/process/operation.h"

#include <ctime>

namespace tenon {
namespace {
thread_local Operation* tls_operation = nullptr;
thread_local bool tls_polls = false;
thread_local uint64_t tls_polled_ns = 0;
constexpr uint64_t kPollEveryNs = 10'000'000;
std::atomic<bool> process_cancel{false};
static_assert(std::atomic<bool>::is_always_lock_free, "set from a signal handler");

uint64_t coarse_now_ns() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

void poll(Operation& operation) {
  const uint64_t now = coarse_now_ns();
  if (now - tls_polled_ns < kPollEveryNs) return;
  tls_polled_ns = now;
  tls_polls = false;  // whatever it does, it is not asked again meanwhile
  const bool stop = operation.poll(operation.self);
  tls_polls = true;
  if (stop) operation.cancel_requested.store(true, std::memory_order_relaxed);
}

}  // namespace

Operation* current_operation() {
  return tls_operation;
}

OperationScope::OperationScope(Operation* operation, bool polls)
    : previous_(tls_operation), previous_polls_(tls_polls) {
  tls_operation = operation;
  tls_polls = polls && operation != nullptr && operation->poll != nullptr;
}
OperationScope::~OperationScope() {
  tls_operation = previous_;
  tls_polls = previous_polls_;
}

bool cancelled() {
  if (process_cancel.load(std::memory_order_relaxed)) return true;
  if (tls_operation == nullptr) return false;
  if (tls_polls) poll(*tls_operation);
  return tls_operation->cancel_requested.load(std::memory_order_relaxed);
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
    operation->progress(operation->self, phase, done, total);
  }
}

}  // namespace tenon
