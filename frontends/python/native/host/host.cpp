#include "frontends/python/native/host/host.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <mutex>
#include <utility>

#include "tenon/abi/inspect.h"
#include "tenon/cpp/record.hpp"

namespace nb = nanobind;

namespace tenon::python {

Tables g_tables;

namespace {

// How many threads are in an operation that polls. Changed with the GIL held.
int g_polling = 0;
// This thread handles a signal inside of the host, so it must not call it.
thread_local bool t_in_poll = false;
bool g_forked = false;
// Threads that gave the GIL back and will want it again.
std::atomic<int> g_away = 0;
constexpr int kEndMs = 10'000;

// ---- Queues ----

struct Message {
  uint32_t level;
  std::string component, text;
};

// Filled by any thread. No thread calls anything while it holds the mutex.
struct Queues {
  std::mutex mutex;
  std::deque<Message> messages;
  std::vector<PyObject*> objects;
  std::atomic<bool> filled = false;
  std::atomic<bool> asked = false;  // the interpreter was asked to empty them
  std::atomic<bool> ended = false;
};
// Never destroyed: threads of the host may write until the process has ended.
Queues& queues() {
  static auto* all = new Queues;
  return *all;
}
std::vector<tenon_tensor_t*> g_dead;  // with the GIL

constexpr size_t kMessagesMax = 10'000;

void wake() {
  Queues& q = queues();
  q.filled = true;
  if (q.asked.exchange(true)) return;
  // If the interpreter's own queue is full, the next call empties ours.
  const auto pending = [](void*) {
    queues().asked = false;
    empty_queues();
    return 0;
  };
  if (Py_AddPendingCall(pending, nullptr) != 0) q.asked = false;
}

void log(void*, uint32_t level, tenon_str_t component, tenon_str_t message) {
  Queues& q = queues();
  if (q.ended) return;
  try {
    std::lock_guard lock(q.mutex);
    if (q.messages.size() >= kMessagesMax) return;
    q.messages.push_back({level, std::string(view(component)), std::string(view(message))});
  } catch (const std::bad_alloc&) {
    return;  // the host cannot take an exception, and a message is not worth more
  }
  wake();
}

void log_lookup(void*, const tenon_cache_lookup_t* lookup) {
  constexpr std::string_view kWhere[] = {" is not in the cache", " is in the cache",
                                         " is in what the installation brings"};
  try {
    std::string line(view(lookup->kind));
    line.append(" ").append(view(lookup->name)).append(kWhere[lookup->found % 3]);
    if (lookup->difference.size != 0) line.append(": ").append(view(lookup->difference));
    log(nullptr, TENON_LOG_INFO, text("cache"), text(line));
  } catch (const std::bad_alloc&) {
    return;
  }
}

nb::object text_object(std::string_view s) {
  return nb::steal(PyUnicode_DecodeUTF8(s.data(), static_cast<Py_ssize_t>(s.size()), "replace"));
}

void give_to_logging(const std::deque<Message>& messages) {
  try {
    const nb::object show = nb::module_::import_("tenon.logs").attr("show");
    for (const Message& m : messages) show(m.level, text_object(m.component), text_object(m.text));
  } catch (nb::python_error& e) {
    e.discard_as_unraisable("tenon: a log message");
  }
}

void release_dead() {
  if (!may_keep_gil()) return;
  for (tenon_tensor_t* tensor : std::exchange(g_dead, {}))
    g_tables.call->tensor_release(g_tables.call->self, tensor);
}

// ---- Failures ----

struct Failure {
  tenon_code_t code = TENON_OK;
  std::string id, message;
  std::vector<std::pair<std::string, std::string>> details;
};
// Of this thread's last piece of work, kept while an operation is left and other slots are called.
thread_local Failure t_failure;
thread_local PyObject* t_exception = nullptr;  // keep_exception

tenon_code_t kept(tenon_code_t code) {
  if (code == TENON_OK) return code;
  auto failure = sized<tenon_failure_t>();
  t_failure = {code, {}, {}, {}};
  if (g_tables.host->last_failure(g_tables.host->self, &failure) != TENON_OK) return code;
  t_failure.id = view(failure.id);
  t_failure.message = view(failure.message);
  for (uint32_t i = 0; i < failure.detail_count; ++i)
    t_failure.details.emplace_back(view(failure.details[i].key), view(failure.details[i].value));
  return code;
}

std::string text_of_code(tenon_code_t code) {
  return "the host gave no reason for its code " + std::to_string(code) + ".";
}

[[noreturn]] void raise_made(tenon_code_t code, std::string_view id, std::string_view message,
                             const nb::dict& details) {
  const nb::object make = nb::module_::import_("tenon._errors").attr("make");
  const nb::object exception = make(code, text_object(id), text_object(message), details);
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception.ptr())), exception.ptr());
  throw nb::python_error();
}

// ---- Operations ----

bool is_main_thread() {
  // Set when the module is imported, which may happen on another thread: so asked of Python.
  static const unsigned long id = nb::cast<unsigned long>(
      nb::module_::import_("threading").attr("main_thread")().attr("ident"));
  return PyThread_get_thread_ident() == id;
}

tenon_code_t kept_away(const std::function<tenon_code_t()>& work) {
  tenon_code_t code = TENON_OK;
  away([&] { code = kept(work()); });
  return code;
}

// What a poll needs: the thread's state, which gave the GIL back, and the exception of a handler.
struct Signals {
  PyThreadState* state = nullptr;
  PyObject *type = nullptr, *value = nullptr, *trace = nullptr;
  bool raised() const { return type != nullptr; }
};

uint32_t poll(void* context) {
  auto& signals = *static_cast<Signals*>(context);
  if (signals.raised()) return 1;
  if (signals.state == nullptr || queues().ended) return 0;
  PyEval_RestoreThread(signals.state);
  t_in_poll = true;
  if (PyErr_CheckSignals() != 0) PyErr_Fetch(&signals.type, &signals.value, &signals.trace);
  t_in_poll = false;
  signals.state = PyEval_SaveThread();
  return signals.raised() ? 1 : 0;
}

// What the main thread's work reported last; work of several threads reports.
struct Reported {
  std::mutex mutex;
  Progress progress;
};
Reported& reported() {
  static auto* made = new Reported;
  return *made;
}

void note_progress(void*, tenon_str_t phase, uint64_t done, uint64_t total) {
  Reported& r = reported();
  const std::lock_guard lock(r.mutex);
  r.progress = {std::string(view(phase)), done, total};
}

// The main thread's operation. It is kept, since making one costs more than a call; one that was
// cancelled stays so and is replaced.
class MainOperation {
 public:
  tenon_code_t run(const std::function<tenon_code_t()>& work) {
    if (depth_ != 0) return kept_away(work);
    const tenon_host_operation_t& api = *g_tables.operation;
    if (operation_ == nullptr && open() != TENON_OK) raise_failure(TENON_INTERNAL);
    ++depth_, ++g_polling;
    signals_.state = PyEval_SaveThread();
    tenon_code_t code = api.enter(api.self, operation_);
    if (code == TENON_OK) {
      code = kept(work());
      // The failure of the work is this thread's last one; leaving an operation does not fail.
      (void)api.leave(api.self, operation_);
    }
    PyEval_RestoreThread(std::exchange(signals_.state, nullptr));
    --depth_, --g_polling;
    if (signals_.raised()) handle(code);
    return code;
  }

 private:
  tenon_code_t open() {
    auto options = sized<tenon_operation_options_t>();
    options.context = &signals_;
    options.poll = poll;
    options.progress = note_progress;
    return g_tables.operation->create(g_tables.operation->self, &options, &operation_);
  }
  // A handler raised: its exception counts, also if the work ended before it could be cancelled.
  [[noreturn]] void handle(tenon_code_t) {
    g_tables.operation->release(g_tables.operation->self, std::exchange(operation_, nullptr));
    PyErr_Restore(std::exchange(signals_.type, nullptr), std::exchange(signals_.value, nullptr),
                  std::exchange(signals_.trace, nullptr));
    throw nb::python_error();
  }

  tenon_operation_t* operation_ = nullptr;
  Signals signals_;
  int depth_ = 0;
};

tenon_code_t on_main_thread(const std::function<tenon_code_t()>& work) {
  static auto* operation = new MainOperation;  // lives as long as the process
  return operation->run(work);
}

void refuse_wrong_places() {
  if (g_tables.host == nullptr) nb::module_::import_("tenon._host").attr("open")();
  if (!g_forked && queues().ended && !is_main_thread()) away([] {});
  if (t_in_poll) {
    raise_usage(TENON_FAILED_PRECONDITION, "T0622",
                "a signal handler called Tenon while Tenon was working. Set a flag in the handler, "
                "and call Tenon after it.");
  }
  if (g_forked) {
    raise_usage(TENON_FAILED_PRECONDITION, "T0625",
                "this process was forked from one that had used Tenon, whose threads and locks are "
                "not here. Start it with multiprocessing's \"spawn\" or \"forkserver\".");
  }
}

}  // namespace

void empty_queues() {
  Queues& q = queues();
  if (!g_dead.empty()) release_dead();
  if (!q.filled.load(std::memory_order_relaxed) || q.ended) return;
  std::deque<Message> messages;
  std::vector<PyObject*> objects;
  {
    std::lock_guard lock(q.mutex);
    q.filled = false;
    messages.swap(q.messages);
    objects.swap(q.objects);
  }
  // Handlers of exceptions that are on their way stay as they are.
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  for (PyObject* object : objects) Py_DECREF(object);
  if (!messages.empty()) give_to_logging(messages);
  PyErr_Restore(type, value, trace);
}

void away(const std::function<void()>& work) {
  const bool is_main = is_main_thread();
  ++g_away;
  PyThreadState* state = PyEval_SaveThread();
  work();
  // While the interpreter ends, it would end this thread inside of PyEval_RestoreThread, whatever
  // C++ is on its stack. So such a thread sleeps until the process is gone.
  if (queues().ended && !is_main) {
    --g_away;
    for (;;) ::pause();
  }
  PyEval_RestoreThread(state);
  --g_away;
}

bool interpreter_ended() {
  return queues().ended;
}

void let_go(const std::function<void()>& release) {
  if (!g_forked && Py_IsInitialized() != 0) away(release);
}

void end_queues() {
  queues().ended = true;
  if (g_tables.host == nullptr || g_forked) return;
  const tenon_host_session_t& session = *g_tables.session;
  PyThreadState* state = PyEval_SaveThread();
  session.cancel(session.self, 1);
  for (int i = 0; g_away != 0 && i < kEndMs; ++i) ::usleep(1000);
  session.cancel(session.self, 0);
  PyEval_RestoreThread(state);
}

void drop_later(PyObject* object) {
  Queues& q = queues();
  if (q.ended) return;  // the interpreter's memory goes with the process
  {
    std::lock_guard lock(q.mutex);
    q.objects.push_back(object);
  }
  wake();
}

ThreadLimit::ThreadLimit(uint32_t count) : set_(count != 0) {
  if (set_) before_ = g_tables.threads->limit(g_tables.threads->self, count);
}

ThreadLimit::~ThreadLimit() {
  if (set_) g_tables.threads->limit(g_tables.threads->self, before_);
}

bool may_keep_gil() {
  return g_polling == 0 && !g_forked;
}

void release_tensor(tenon_tensor_t* tensor) {
  if (tensor == nullptr || g_forked || queues().ended) return;
  if (may_keep_gil()) {
    g_tables.call->tensor_release(g_tables.call->self, tensor);
  } else {
    g_dead.push_back(tensor);
  }
}

tenon_code_t without_gil(const std::function<tenon_code_t()>& work) {
  refuse_wrong_places();
  tenon_code_t code;
  if (is_main_thread()) {
    code = on_main_thread(work);
  } else {
    code = kept_away(work);
  }
  empty_queues();
  return code;
}

void ask(const std::function<tenon_code_t()>& work) {
  if (const tenon_code_t code = without_gil(work); code != TENON_OK) raise_failure(code);
}

void keep_exception(PyObject* exception) {
  Py_XDECREF(std::exchange(t_exception, exception));
}

void raise_failure(tenon_code_t code) {
  // end_queues cancels what threads do. They end with the process: an exception would be printed
  // while the interpreter goes.
  if (code == TENON_CANCELLED && !g_forked && queues().ended && !is_main_thread()) away([] {});
  if (PyObject* kept = std::exchange(t_exception, nullptr); kept != nullptr) {
    if (code == TENON_CANCELLED) PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(kept)), kept);
    Py_DECREF(kept);
    if (code == TENON_CANCELLED) throw nb::python_error();
  }
  if (t_failure.code != code && g_tables.host != nullptr) (void)kept(code);
  const Failure failure = std::exchange(t_failure, {});
  nb::dict details;
  for (const auto& [key, value] : failure.details) details[text_object(key)] = text_object(value);
  empty_queues();
  raise_made(code, failure.id.empty() ? "T0002" : failure.id,
             failure.message.empty() ? text_of_code(code) : failure.message, details);
}

void raise_usage(tenon_code_t code, std::string_view id, const std::string& message) {
  raise_made(code, id, message, nb::dict());
}

void open_host(const std::vector<std::string>& paths) {
  if (g_tables.host != nullptr) return;
  std::vector<tenon_str_t> list;
  for (const std::string& path : paths) list.push_back(text(path));
  auto options = sized<tenon_host_options_t>();
  options.plugin_paths = list.data();
  options.plugin_path_count = list.size();
  options.log = log;
  const tenon_host_t* host = nullptr;
  tenon_code_t code;
  away([&] { code = tenon_host_open(TENON_ABI_VERSION, &options, &host); });
  Tables tables;
  tables.host = host;
  const auto find = [&](auto** out, std::string_view id, uint32_t minor = 0) {
    const void* table = nullptr;
    if (code == TENON_OK) code = host->query(host->self, text(id), minor, &table);
    *out = static_cast<std::remove_reference_t<decltype(*out)>>(table);
  };
  find(&tables.graph, TENON_HOST_GRAPH_ID);
  find(&tables.session, TENON_HOST_SESSION_ID);
  find(&tables.call, TENON_HOST_CALL_ID);
  find(&tables.operation, TENON_HOST_OPERATION_ID);
  find(&tables.threads, TENON_HOST_THREADS_ID, 1);
  find(&tables.package, TENON_HOST_PACKAGE_ID);
  if (code != TENON_OK) {
    g_tables.host = host;  // for its reason
    try {
      raise_failure(code);
    } catch (...) {
      g_tables.host = nullptr;
      throw;
    }
  }
  g_tables = tables;
  (void)::pthread_atfork(nullptr, nullptr, [] {
    g_forked = true;
    queues().ended = true;  // another thread may have held its mutex
  });
  empty_queues();
}

const tenon_host_registry_t& registry() {
  const void* table = nullptr;
  ask([&] {
    return g_tables.host->query(g_tables.host->self, text(TENON_HOST_REGISTRY_ID), 0, &table);
  });
  return *static_cast<const tenon_host_registry_t*>(table);
}

Progress last_progress() {
  Reported& r = reported();
  const std::lock_guard lock(r.mutex);
  return r.progress;
}

void watch_cache() {
  ask([&] {
    const void* table = nullptr;
    const tenon_code_t code =
        g_tables.host->query(g_tables.host->self, text(TENON_HOST_INSPECT_ID), 0, &table);
    const auto* inspect = static_cast<const tenon_host_inspect_t*>(table);
    if (code != TENON_OK) return code;
    auto sink = sized<tenon_cache_lookup_sink_t>();
    sink.lookup = log_lookup;
    return inspect->cache_watch(inspect->self, &sink);
  });
}

tenon_sink_t sink_to(std::string* out) {
  return {out, [](void* self, const void* data, uint64_t size) -> tenon_code_t {
            static_cast<std::string*>(self)->append(static_cast<const char*>(data), size);
            return TENON_OK;
          }};
}

}  // namespace tenon::python
