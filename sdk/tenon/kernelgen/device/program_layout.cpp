#include "tenon/kernelgen/device/program_layout.h"

#include <algorithm>

#include "tenon/plan/memory_planner.h"

namespace tenon::kernelgen {
namespace {

// SizeProgram saturates, so anything near the limit overflowed.
constexpr int64_t kBytesMax = int64_t{1} << 48;

bool checked_size(int64_t value, uint64_t* out) {
  if (value < 0 || value > kBytesMax) return false;
  *out = static_cast<uint64_t>(value);
  return true;
}

bool lay_launches(const DeviceProgram& program, const std::vector<ProgramStep>& steps,
                  std::span<const int64_t> symbols, ScratchPer scratch, ProgramLayout* out,
                  uint64_t* scratch_max, std::string* why) {
  for (const ProgramStep& step : steps) {
    const ProgramKernel& kernel = program.kernels[step.kernel];
    ProgramLayout::Launch launch;
    for (const SizeProgram& e : step.extents) launch.extents.push_back(e.evaluate(symbols));
    uint64_t range = 0;
    if (!checked_size(kernel.range.evaluate(launch.extents), &range) ||
        !checked_size(kernel.scratch_bytes.evaluate(launch.extents), &launch.scratch_bytes)) {
      return *why = "the launch of " + step.name + " is larger than 2^48", false;
    }
    launch.range = static_cast<int64_t>(range);
    uint64_t all = launch.scratch_bytes;
    if (scratch == ScratchPer::kItem &&
        __builtin_mul_overflow(all, std::max<uint64_t>(range, 1), &all)) {
      return *why = "the scratch memory of " + step.name + " overflows", false;
    }
    *scratch_max = std::max(*scratch_max, all);
    out->launches.push_back(std::move(launch));
  }
  return true;
}

std::vector<plan::Lifetime> temp_lifetimes(const DeviceProgram& program,
                                           const ProgramLayout& layout, uint64_t alignment_bytes,
                                           std::vector<uint32_t>* temps) {
  std::vector<plan::Lifetime> out;
  std::vector<uint32_t> slot(program.buffers.size(), ~0u);
  for (uint32_t s = 0; s < program.steps.size(); ++s) {
    for (uint32_t b : program.steps[s].buffers) {
      if (program.buffers[b].kind != BufferKind::kTemp) continue;
      if (slot[b] == ~0u) {
        slot[b] = static_cast<uint32_t>(out.size());
        temps->push_back(b);
        // The planner places buffers at the ends of others: sizes that are multiples of the
        // alignment give offsets that are.
        const uint64_t size =
            (layout.bytes[b] + alignment_bytes - 1) / alignment_bytes * alignment_bytes;
        out.push_back({size, s, s, plan::kNoAlias});
      }
      out[slot[b]].last_step = s;
    }
  }
  for (const ProgramCheck& check : program.checks) {  // read after the last step
    if (slot[check.buffer] != ~0u)
      out[slot[check.buffer]].last_step = static_cast<uint32_t>(program.steps.size());
  }
  return out;
}

}  // namespace

bool layout_program(const DeviceProgram& program, std::span<const int64_t> symbols,
                    const LayoutOptions& options, ProgramLayout* out, std::string* why) {
  *out = ProgramLayout{};
  if (symbols.size() != program.symbol_count)
    return *why = "the call has another number of symbols", false;
  for (uint32_t i = 0; i < program.buffers.size(); ++i) {
    uint64_t bytes = 0;
    if (!checked_size(program.buffers[i].bytes.evaluate(symbols), &bytes)) {
      return *why = "buffer " + std::to_string(i) +
                    " would take a negative size or more than 2^48 bytes",
             false;
    }
    out->bytes.push_back(bytes);
  }
  out->alias_inputs = alias_inputs(program, out->bytes);
  uint64_t scratch_max = 0;
  if (!lay_launches(program, program.steps, symbols, options.scratch, out, &scratch_max, why))
    return false;
  std::vector<uint32_t> temps;
  const std::vector<plan::Lifetime> lifetimes =
      temp_lifetimes(program, *out, options.alignment_bytes, &temps);
  plan::MemoryPlan memory;
  if (plan::plan_memory(lifetimes, memory) != plan::MemoryError::kNone) {
    return *why = "the intermediate results together overflow", false;
  }
  for (uint32_t c = 0; c < program.checks.size(); ++c) {
    if (program.checks[c].count.evaluate(symbols) == 0) continue;
    out->checks.push_back({c, static_cast<uint64_t>(std::max<int64_t>(
                                  program.checks[c].limit.evaluate(symbols), 0))});
  }
  out->temp_offsets.assign(program.buffers.size(), 0);
  for (size_t i = 0; i < temps.size(); ++i) out->temp_offsets[temps[i]] = memory.offsets[i];
  out->scratch_offset = memory.arena_bytes;
  out->lower_bound_bytes = memory.lower_bound_bytes + scratch_max;
  if (__builtin_add_overflow(memory.arena_bytes, scratch_max, &out->workspace_bytes)) {
    return *why = "the workspace overflows", false;
  }
  return true;
}

std::vector<uint32_t> alias_inputs(const DeviceProgram& program, std::span<const uint64_t> bytes) {
  std::vector<uint32_t> steps_at(program.buffers.size());  // by buffer: how many access it
  for (const ProgramStep& step : program.steps) {
    for (uint32_t b : step.buffers) ++steps_at[b];
  }
  std::vector<uint32_t> out(program.output_count, TENON_NO_ALIAS);
  std::vector<bool> taken(program.input_count), before(program.buffers.size());
  for (const ProgramStep& step : program.steps) {
    for (size_t p = 0; p + 1 < step.in_place.size(); p += 2) {
      const uint32_t to = step.in_place[p], from = step.in_place[p + 1];
      const ProgramBuffer &output = program.buffers[to], &input = program.buffers[from];
      if (output.kind != BufferKind::kOutput || input.kind != BufferKind::kInput) continue;
      // What an earlier step stores in the output would be in the input's place before it is read.
      if (steps_at[from] != 1 || before[to] || taken[input.index]) continue;
      if (bytes[to] == 0 || bytes[to] != bytes[from]) continue;
      // The first of several: what a program changes comes before what it is changed by.
      uint32_t& alias = out[output.index];
      if (alias != TENON_NO_ALIAS && alias < input.index) continue;
      if (alias != TENON_NO_ALIAS) taken[alias] = false;
      alias = input.index;
      taken[input.index] = true;
    }
    for (uint32_t b : step.buffers) before[b] = true;
  }
  return out;
}

bool layout_load_steps(const DeviceProgram& program, const LayoutOptions& options,
                       ProgramLayout* out, std::string* why) {
  *out = ProgramLayout{};
  out->bytes.assign(program.buffers.size(), 0);
  for (uint32_t i = 0; i < program.buffers.size(); ++i) {
    const ProgramBuffer& b = program.buffers[i];
    if (b.kind != BufferKind::kConstant && b.kind != BufferKind::kPersistent) continue;
    if (!checked_size(b.bytes.evaluate({}), &out->bytes[i])) {
      return *why = "buffer " + std::to_string(i) +
                    " would take a negative size or more than 2^48 bytes",
             false;
    }
  }
  out->temp_offsets.assign(program.buffers.size(), 0);
  return lay_launches(program, program.load_steps, {}, options.scratch, out, &out->workspace_bytes,
                      why);
}

tenon_code_t check_found(const DeviceProgram& program, const ProgramLayout::Check& check,
                         uint64_t found, std::string* text) {
  const ProgramCheck& source = program.checks[check.index];
  if (found < check.limit) return TENON_OK;
  if (!source.text.empty()) {
    *text = "T0326: " + source.origins + ": " + source.text;
    return TENON_INVALID_ARGUMENT;
  }
  *text = "T0325: " + source.origins + ": index " + std::to_string(static_cast<int64_t>(found)) +
          " is outside of [0, " + std::to_string(check.limit) + ")";
  return TENON_OUT_OF_RANGE;
}

bool fill_needs(const DeviceProgram& program, const ProgramLayout& layout,
                std::span<const int64_t> symbols, tenon_needs_t* needs) {
  if (needs->output_count != program.output_count) return false;
  for (size_t b = 0; b < program.buffers.size(); ++b) {
    const ProgramBuffer& buffer = program.buffers[b];
    if (buffer.kind != BufferKind::kOutput) continue;
    tenon_output_need_t& need = *tenon_need(needs, buffer.index);
    need.size_bytes_max = layout.bytes[b];
    need.alias_input = layout.alias_inputs[buffer.index];
    for (size_t d = 0; d < buffer.dims.size(); ++d) need.dims[d] = buffer.dims[d].evaluate(symbols);
  }
  needs->workspace_bytes = layout.workspace_bytes;
  needs->lower_bound_bytes = layout.lower_bound_bytes;
  return true;
}

}  // namespace tenon::kernelgen
