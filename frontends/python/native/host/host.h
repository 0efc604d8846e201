// The tables of the host, its failures as Python exceptions, and the rules of locks (ADR 0033):
// when the GIL is kept, where log messages go, who releases what dies at the wrong moment.
#ifndef FRONTENDS_PYTHON_NATIVE_HOST_HOST_H_
#define FRONTENDS_PYTHON_NATIVE_HOST_HOST_H_

#include <nanobind/nanobind.h>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/abi/call.h"
#include "tenon/abi/host.h"
#include "tenon/abi/operation.h"
#include "tenon/abi/package.h"

namespace tenon::python {

// Set once by open_host; afterwards read by all threads.
struct Tables {
  const tenon_host_t* host = nullptr;
  const tenon_host_graph_t* graph = nullptr;
  const tenon_host_session_t* session = nullptr;
  const tenon_host_call_t* call = nullptr;
  const tenon_host_operation_t* operation = nullptr;
  const tenon_host_package_t* package = nullptr;
  const tenon_host_threads_t* threads = nullptr;
};
extern Tables g_tables;

// Starts the host of the process, or finds it. `paths`: folders and manifests to search first.
// Raises tenon.Error.
void open_host(const std::vector<std::string>& paths);

// How far the main thread's last long work is: ("kernels", 3, 12). Total 0: unknown.
struct Progress {
  std::string phase;
  uint64_t done = 0, total = 0;
};
Progress last_progress();

// The plugins of the host and what they provide. Raises tenon.Error.
const tenon_host_registry_t& registry();

// The measured peak rates of the processor, as JSON, by which the page of a report judges kernels.
// Empty where no plugin offers a toolchain. Takes half a second. Raises tenon.Error.
std::string measure_peaks();

// From now on logs each lookup in the cache on disk, as component "cache". At most once in a
// process.
void watch_cache();

// Raises the thread's last failure of the host as a tenon.Error: always throws. An exception that a
// signal handler raised while the host worked goes first.
[[noreturn]] void raise_failure(tenon_code_t code);

// An exception that ended a function of Python which the host called, such as KeyboardInterrupt. If
// this thread's next failure is CANCELLED, raise_failure raises it instead. Takes the reference.
void keep_exception(PyObject* exception);

// Raises a tenon.Error for a mistake in the user's call: `id` is its stable code.
[[noreturn]] void raise_usage(tenon_code_t code, std::string_view id, const std::string& message);

// ---- Locks ----

// Runs work without the GIL, and nothing else. While the interpreter ends, a thread that is not the
// main one does not come back.
void away(const std::function<void()>& work);

// Gives an object of the host back, from a destructor: without the GIL, since it may wait. Not in a
// forked process, where locks may be held for ever, nor after the interpreter: memory goes with the
// process.
void let_go(const std::function<void()>& release);

// Runs work that calls the host, without the GIL. On Python's main thread it belongs to an
// operation whose poll handles signals, so that Ctrl-C ends it. Empties the queues afterwards.
// Returns the work's code. Not from a signal handler: raises tenon.Error.
tenon_code_t without_gil(const std::function<tenon_code_t()>& work);

// The same, and raises what failed.
void ask(const std::function<tenon_code_t()>& work);

// True if a slot may be called with the GIL held: no thread is in an operation that polls.
bool may_keep_gil();

// At most so many threads compute what this thread asks of the host; 0 changes nothing.
class ThreadLimit {
 public:
  explicit ThreadLimit(uint32_t count);
  ThreadLimit(const ThreadLimit&) = delete;
  ThreadLimit& operator=(const ThreadLimit&) = delete;
  ~ThreadLimit();

 private:
  const bool set_;
  uint32_t before_ = 0;
};

// Releases a tensor now, or later if a thread that polls could wait for the GIL. With the GIL.
void release_tensor(tenon_tensor_t* tensor);

// Drops a reference to a Python object later, from any thread, without the GIL.
void drop_later(PyObject* object);

// True once the interpreter ends: Python must not be called any more.
bool interpreter_ended();

// Empties the queues: log messages go to `logging`, dead tensors and references are released. With
// the GIL. Cheap if there is nothing.
void empty_queues();

// The interpreter ends: stops what other threads do in the host and waits for them; from now on
// messages are dropped and nothing is released.
void end_queues();

// Appends what it gets to a std::string.
tenon_sink_t sink_to(std::string* out);

inline tenon_str_t text(std::string_view s) {
  return {s.data(), s.size()};
}
inline std::string_view view(tenon_str_t s) {
  return s.size == 0 ? std::string_view() : std::string_view(s.data, s.size);
}

}  // namespace tenon::python

#endif
