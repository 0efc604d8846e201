// The C table of operations: tenon.host.operation/1.
#include "core/base/process/operation.h"

#include <tenon/abi/operation.h>

#include "core/base/process/thread_pool.h"
#include "core/session/api/handles.h"
#include "core/session/call/background.h"
#include "core/session/call/call.h"

namespace tenon::session {
namespace {

struct OperationState {
  Operation operation;
  tenon_operation_options_t options{};
  Background background;  // last: its work uses the others
};

}  // namespace
}  // namespace tenon::session

struct tenon_operation_t : tenon::session::HandleHead {
  static constexpr auto kKind = tenon::session::HandleKind::kOperation;
  using HandleHead::HandleHead;
  std::unique_ptr<tenon::session::OperationState> state;
  void clear() { state.reset(); }
};

namespace tenon::session {
namespace {

constexpr uint64_t kPollEveryNs = 10'000'000;

bool poll(void* self) {
  const tenon_operation_options_t& options = static_cast<OperationState*>(self)->options;
  return options.poll(options.context) != 0;
}

void progress(void* self, std::string_view phase, uint64_t done, uint64_t total) {
  const tenon_operation_options_t& options = static_cast<OperationState*>(self)->options;
  options.progress(options.context, to_abi_str(phase), done, total);
}

tenon_code_t create(void*, const tenon_operation_options_t* options, tenon_operation_t** out) {
  return slot([&]() -> Status {
    TENON_REQUIRE(out, "output");
    auto made = std::make_unique<OperationState>();
    if (options != nullptr) {
      TENON_ASSIGN_OR_RETURN(made->options, prefix_of(options));
    }
    if (made->options.poll != nullptr) made->operation.poll = poll;
    if (made->options.progress != nullptr) made->operation.progress = progress;
    made->operation.self = made.get();
    HandlePtr<tenon_operation_t> handle = new_handle<tenon_operation_t>();
    handle->state = std::move(made);
    *out = handle.release();
    return {};
  });
}

void release(void*, tenon_operation_t* operation) {
  if (in_use(operation)) {
    if (operation->state->background.of_parent()) {
      (void)operation->state.release();  // it stays in memory: see Background
    } else {
      operation->state->background.settle();  // meanwhile another thread may cancel it
    }
  }
  release_handle(operation);
}

void cancel_state(OperationState& state) {
  state.operation.cancel_requested.store(true, std::memory_order_relaxed);
}

// Does nothing for a released one: a signal handler cannot report anything.
void cancel(void*, tenon_operation_t* operation) {
  if (in_use(operation)) cancel_state(*operation->state);
}

// What this thread has entered, the last one at the end.
std::vector<std::unique_ptr<OperationScope>>& entered() {
  thread_local std::vector<std::unique_ptr<OperationScope>> scopes;
  return scopes;
}

tenon_code_t enter(void*, tenon_operation_t* operation) {
  return slot([&]() -> Status {
    TENON_REQUIRE_HANDLE(operation);
    entered().reserve(entered().size() + 1);
    entered().push_back(std::make_unique<OperationScope>(&operation->state->operation, true));
    return {};
  });
}

tenon_code_t leave(void*, tenon_operation_t* operation) {
  return slot([&]() -> Status {
    TENON_REQUIRE_HANDLE(operation);
    if (entered().empty() || current_operation() != &operation->state->operation) {
      return error(
          TENON_FAILED_PRECONDITION, "T0622",
          "this thread did not enter the operation that it leaves, or not as the last one");
    }
    entered().pop_back();
    return {};
  });
}

tenon_code_t start_call(void*, tenon_program_t* program, tenon_program_call_t* record,
                        tenon_operation_t* operation) {
  return slot([&]() -> Status {
    TENON_REQUIRE_HANDLE(program);
    TENON_REQUIRE(record, "record");
    TENON_REQUIRE_HANDLE(operation);
    OperationState& state = *operation->state;
    return state.background.start(
        [program, record, &state, limit = thread_limit()] {
          const OperationScope scope(&state.operation);
          const ThreadLimit threads(limit);
          Status result;
          const tenon_code_t thrown = guarded([&]() -> tenon_code_t {
            result = run_call(program, record);
            return TENON_OK;
          });
          return thrown == TENON_OK ? result : from_abi(thrown, "in the background");
        },
        [&options = state.options](tenon_code_t code) {
          if (options.done != nullptr) options.done(options.context, code);
        });
  });
}

tenon_code_t wait(void*, tenon_operation_t* operation, uint64_t timeout_ns) {
  return slot([&]() -> Status {
    TENON_REQUIRE_HANDLE(operation);
    OperationState& state = *operation->state;
    if (state.options.poll == nullptr) return state.background.wait(timeout_ns);
    for (uint64_t left_ns = timeout_ns;;) {
      const uint64_t slice_ns = std::min(left_ns, kPollEveryNs);
      Status status = state.background.wait(slice_ns);
      if (left_ns != UINT64_MAX) left_ns -= slice_ns;
      if (status.code() != TENON_DEADLINE_EXCEEDED || left_ns == 0) return status;
      if (poll(&state)) cancel_state(state);
    }
  });
}

}  // namespace

const tenon_host_operation_t* host_operation_table() {
  static const tenon_host_operation_t table = {sizeof(tenon_host_operation_t),
                                               nullptr,
                                               create,
                                               release,
                                               cancel,
                                               enter,
                                               leave,
                                               start_call,
                                               wait};
  return &table;
}

}  // namespace tenon::session
