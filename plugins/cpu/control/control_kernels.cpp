#include "control/control_kernels.h"

namespace tenon::cpu {

void RunKernels::set_sizes(const ControlPart& part, PartState& state) {
  for (size_t i = 0; i < part.symbols.size(); ++i)
    state.symbols[i] = sizes_.symbol(part.symbols[i]);
  tenon_buffer_t* buffer = state.buffers.data();
  for (uint32_t v : part.inputs) (buffer++)->size_bytes = sizes_.bytes(v);
  for (uint32_t v : part.outputs) (buffer++)->size_bytes = sizes_.bytes(v);
}

void RunKernels::prepare(const ControlPart& part, PartState& state) {
  state.buffers.resize(part.inputs.size() + part.outputs.size() + 1);
  for (tenon_buffer_t& buffer : state.buffers) state.spans.push_back({&buffer, 0});
  state.symbols.resize(part.symbols.size());
  state.needs.resize(part.outputs.size());
  set_sizes(part, state);
  state.workspace_bytes = shape_.workspace_bytes[part.artifact];
  state.data_dependent = loaded_.has_data_dependent_sizes(part);
  state.ready = true;
  tenon_call_t& call = state.call;
  call.size_bytes = sizeof call;
  call.input_count = static_cast<uint32_t>(part.inputs.size());
  call.output_count = static_cast<uint32_t>(part.outputs.size());
  call.symbols = {state.symbols.data(), static_cast<uint32_t>(state.symbols.size())};
  call.inputs = state.spans.data();
  call.outputs = state.spans.data() + part.inputs.size();
  call.span_bytes = sizeof(tenon_span_t);
  call.workspace = state.spans.back().buffer;
  call.workspace_offset_bytes = state.spans.back().offset_bytes;
  call.profile = call_.profile;
}

// Learns the sizes that differ each time.
Status RunKernels::learn_sizes(const ControlPart& part, PartState& state) {
  set_sizes(part, state);
  auto needs = sized<tenon_needs_t>();
  needs.output_count = static_cast<uint32_t>(state.needs.size());
  needs.need_bytes = sizeof(tenon_output_need_t);
  needs.outputs = state.needs.data();
  TENON_TRY(loaded_.parts[part.artifact]->needs(state.call.symbols, &needs));
  state.workspace_bytes = needs.workspace_bytes;
  return {};
}

Status RunKernels::run(const ControlPart& part) {
  PartState& state = states_[part.artifact];
  if (!state.ready) prepare(part, state);
  if (state.data_dependent) TENON_TRY(learn_sizes(part, state));
  tenon_buffer_t* buffer = state.buffers.data();
  for (uint32_t v : part.inputs) (buffer++)->data = values_[v];
  for (uint32_t v : part.outputs) {
    TENON_TRY(values_.place(v));
    (buffer++)->data = values_[v];
  }
  Executable& kernels = *loaded_.parts[part.artifact];
  if (state.workspace_bytes == 0) return kernels.execute(state.call);
  ControlArena& arena = values_.arena();
  const ControlArena::Mark mark = arena.mark();
  TENON_TRY(arena.take(state.workspace_bytes, &buffer->data));
  buffer->size_bytes = state.workspace_bytes;
  const Status status = kernels.execute(state.call);
  arena.release(mark);
  return status;
}

}  // namespace tenon::cpu
