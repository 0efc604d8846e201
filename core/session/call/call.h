// One call of a program with arrays by position: tenon.host.call/1.
//
// Threads: safe.
#pragma once
#include <memory>
#include <span>
#include <vector>

#include <tenon/abi/call.h>
#include <tenon/abi/operation.h>

#include "core/runtime/run/run.h"
#include "core/session/compile/variants.h"

namespace tenon::session {

// An output of a call: memory of the caller, or none when the host is to give a tensor.
struct CallOutput {
  const tenon_array_t* given = nullptr;
  bool stays = false;                       // it need not be on the host
  bool in_place = false;                    // given: it may replace an input while that is read
  std::shared_ptr<runtime::Tensor> tensor;  // filled where nothing is given
};

struct CallStatistics {
  uint64_t repacked_bytes = 0, transferred_bytes = 0, copied_out_bytes = 0;
};

// T0601 for another number of inputs or outputs than the model has.
Status check_counts(const AnyProgram& program, size_t inputs, size_t outputs);
// Runs to the end. T0601 for another number of inputs or outputs; what Binding::bind_input and
// Binding::run fail with; T0620 for an output that does not fit; T0621 for a tensor that was given
// up, or cannot be; what Runner::run says of natives. On failure no output is given; memory for
// outputs may have been written.
Status call(const AnyProgram& program, std::span<const runtime::Argument> inputs,
            std::span<const runtime::GivenSize> sizes, const runtime::Natives& natives,
            std::span<CallOutput> outputs, CallStatistics* statistics);

const tenon_host_call_t* host_call_table();
const tenon_host_operation_t* host_operation_table();
// tenon_host_call_t::call.
Status run_call(tenon_program_t* program, tenon_program_call_t* record);
void add_tensor_slots(tenon_host_call_t* table);
// A tensor's type and dims, borrowed from it, with this data.
tenon_array_t array_of(const runtime::Tensor& tensor, const void* data);

}  // namespace tenon::session
