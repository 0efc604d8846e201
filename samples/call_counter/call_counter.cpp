// The layer `call_counter`: counts the calls of devices, queues and compilers, by slot, and how
// many of them failed. One template makes the counting function of every slot.
#include <atomic>

#include <tenon/abi/compile.h>
#include <tenon/abi/device.h>
#include <tenon/abi/queue.h>
#include <tenon/cpp/layer.hpp>

// The slots that are counted, each once.
#define DEVICE_SLOTS(DO, Table) \
  DO(Table, open) DO(Table, alloc) DO(Table, free) DO(Table, copy) DO(Table, import)
#define QUEUE_SLOTS(DO, Table) DO(Table, queue_create) DO(Table, copy_async) DO(Table, fence_wait)
#define COMPILE_SLOTS(DO, Table) \
  DO(Table, claim) DO(Table, compile) DO(Table, load) DO(Table, needs) DO(Table, execute)

namespace {

using tenon::Status;

struct Count {
  std::atomic<uint64_t> calls, failures;  // of all plugins, from all threads
};

// Counts a call, and passes it to the same slot of the table below, which is its `self`.
template <auto Slot, class Type = decltype(Slot)>
struct Counting;
template <auto Slot, class Table, class... Args>
struct Counting<Slot, tenon_code_t (*Table::*)(void*, Args...)> {
  static inline Count count;
  static tenon_code_t call(void* self, Args... args) {
    const auto* next = static_cast<const Table*>(self);
    ++count.calls;
    const tenon_code_t code = (next->*Slot)(next->self, args...);
    if (code != TENON_OK) ++count.failures;
    return code;
  }
};

#define COUNT(Table, slot) table->slot = &Counting<&Table::slot>::call;
#define STAND_IN_FRONT(SLOTS, Table, id)                             \
  if (const auto* next = subject.next<Table>(id); next != nullptr) { \
    auto* table = new Table{}; /* lives as long as the process */    \
    SLOTS(COUNT, Table)                                              \
    subject.put(id, table, const_cast<Table*>(next));                \
  }
#define LOG_COUNT(Table, slot) log_count(#slot, Counting<&Table::slot>::count);

struct CallCounter {
  Status attach(tenon::LayerSubject& subject) {
    TENON_TRY(subject.options_done());  // takes none
    STAND_IN_FRONT(DEVICE_SLOTS, tenon_device_api_t, TENON_DEVICE_ID)
    STAND_IN_FRONT(QUEUE_SLOTS, tenon_queue_api_t, TENON_QUEUE_ID)
    STAND_IN_FRONT(COMPILE_SLOTS, tenon_compile_api_t, TENON_COMPILE_ID)
    return {};
  }

  // Once, before the process ends: a line for every slot that was called.
  static Status shutdown() {
    DEVICE_SLOTS(LOG_COUNT, tenon_device_api_t)
    QUEUE_SLOTS(LOG_COUNT, tenon_queue_api_t)
    COMPILE_SLOTS(LOG_COUNT, tenon_compile_api_t)
    return {};
  }
  static void log_count(const char* slot, const Count& count) {
    if (count.calls == 0) return;
    tenon::log("call_counter", TENON_LOG_INFO, slot, ": ", count.calls.load(), " calls, ",
               count.failures.load(), " failed");
  }
};

}  // namespace

TENON_LAYER("call_counter", "0.1.0", CallCounter)
