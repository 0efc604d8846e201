// A call on a thread of its own.
#ifndef FRONTENDS_PYTHON_NATIVE_PROGRAM_BACKGROUND_H_
#define FRONTENDS_PYTHON_NATIVE_PROGRAM_BACKGROUND_H_

#include <nanobind/nanobind.h>

#include <atomic>
#include <memory>
#include <mutex>

#include "frontends/python/native/program/program.h"
#include "tenon/abi/operation.h"

namespace tenon::python {

// Begins when it is made. One that dies earlier than its call cancels it, and waits.
class Run {
 public:
  Run(nanobind::object program, nanobind::args values, nanobind::kwargs names);
  Run(const Run&) = delete;
  ~Run();

  bool done() const { return done_ || taken(); }  // the host may report it after a thread went on
  void cancel();                                  // nothing once it has ended
  // Waits: for ever if the number is negative. Raises TimeoutError. Any number of threads may wait.
  nanobind::object result(double timeout_seconds);
  // For Python's collector: what is held, and that it is let go; a call in flight is cancelled.
  int visit(visitproc visit, void* arg) const;
  void clear();

 private:
  bool wait(double seconds);
  bool taken() const { return results_.is_valid() || failure_.is_valid(); }
  void take(tenon_code_t code);
  void end();
  [[noreturn]] void fail() const;

  nanobind::object object_;
  Program* program_;
  nanobind::args values_;  // the call borrows from them
  nanobind::kwargs names_;
  std::unique_ptr<Call> call_;              // until its results are taken
  tenon_operation_t* operation_ = nullptr;  // until then: it has a thread of the system
  std::timed_mutex waiting_;
  std::atomic<bool> done_ = false;
  nanobind::object results_;
  nanobind::object failure_;  // never raised itself, so it has no traceback, which has frames
};

void bind_background(nanobind::module_& module);

}  // namespace tenon::python

#endif
