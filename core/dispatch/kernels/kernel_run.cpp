// Executions of a KernelProgram.
#include <fmt/format.h>

#include <tenon/cpp/record.hpp>

#include "core/base/errors/failure.h"
#include "core/base/process/activity.h"
#include "core/base/process/operation.h"
#include "core/base/process/thread_pool.h"
#include "core/base/str.h"
#include "core/dispatch/kernels/kernel_program.h"
#include "core/dispatch/kernels/native_order.h"
#include "core/dispatch/kernels/queue_end.h"
#include "core/runtime/run/trace.h"

namespace tenon::dispatch {

using ir::Value;

namespace {

// Buffers, offsets and dims of one side of a call.
struct Side {
  std::vector<tenon_buffer_t*> buffers;
  std::vector<uint64_t> offsets;
  std::vector<std::vector<int64_t>> dims;
  std::vector<const int64_t*> dim_pointers;

  void add(tenon_span_t span, std::vector<int64_t> its_dims) {
    buffers.push_back(span.buffer);
    offsets.push_back(span.offset_bytes);
    dims.push_back(std::move(its_dims));
  }
  void point() {
    for (const auto& d : dims) dim_pointers.push_back(d.data());
  }
};

}  // namespace

struct KernelProgram::Run {
  Side in, out;
  tenon_kernel_args_t args = sized<tenon_kernel_args_t>();

  void point() {
    in.point();
    out.point();
    args.input_count = static_cast<uint32_t>(in.buffers.size());
    args.output_count = static_cast<uint32_t>(out.buffers.size());
    args.inputs = in.buffers.data();
    args.outputs = out.buffers.data();
    args.input_offsets_bytes = in.offsets.data();
    args.output_offsets_bytes = out.offsets.data();
    args.input_dims = in.dim_pointers.data();
    args.output_dims = out.dim_pointers.data();
  }
  // first, last: of the execution.
  void order(const Submission& all, bool first, bool last) {
    args.native_queue = all.stream;
    if (all.stream != nullptr) return;
    args.queue = all.call.queue;
    if (first) args.waits = all.call.waits, args.wait_count = all.call.wait_count;
    if (last) args.signal = all.call.signal;
  }
};

Status KernelProgram::execute(const tenon_call_t& call) const {
  Places places;
  Submission all{call, places};
  TENON_RETURN_IF_ERROR(places_of(call, &places, &all.scratch));
  if (launches_.empty()) return signal_alone(call);
  Status status = is_native(set_) && call.queue != nullptr ? run_native(all) : run_all(all);
  if (status.ok() || !all.begun || call.queue == nullptr) return status;
  // Nothing of a failed execution may be in flight.
  Status ended = end_submitted(*set_.queue, device_, call.queue, places.begin()->second.buffer);
  return ended.ok() ? std::move(status) : std::move(ended);
}

// No kernel, so nothing to submit: the host waits and signals.
Status KernelProgram::signal_alone(const tenon_call_t& call) const {
  if (call.queue == nullptr) return {};
  const tenon_queue_api_t& q = *set_.queue;
  for (uint32_t i = 0; i < call.wait_count; ++i) {
    if (call.waits[i].fence == nullptr) continue;
    TENON_RETURN_IF_ERROR(await_point(q, call.waits[i], false));
  }
  if (call.signal.fence == nullptr) return {};
  clear_failure();
  return from_abi(q.fence_signal(q.self, call.signal.fence, call.signal.value), "fence_signal");
}

Status KernelProgram::run_all(Submission& all) const {
  for (uint32_t i = 0; i < launches_.size(); ++i) {
    TENON_RETURN_IF_ERROR(check_cancelled());
    TENON_RETURN_IF_ERROR(run(launches_[i], all, i));
  }
  return {};
}

Status KernelProgram::run_native(Submission& all) const {
  tenon_native_handle_t stream{};
  const tenon_call_t& call = all.call;
  tenon_buffer_t* const any = all.places.begin()->second.buffer;
  TENON_RETURN_IF_ERROR(
      begin_native(set_, device_, call.queue, any, {call.waits, call.wait_count}, &stream));
  all.stream = &stream;
  TENON_RETURN_IF_ERROR(run_all(all));
  return end_native(set_, call.queue, any, call.signal);
}

Status KernelProgram::run(const Launch& launch, Submission& all, uint32_t order) const {
  const tenon_call_t& call = all.call;
  const Places& places = all.places;
  const std::span<const int64_t> symbols(call.symbols.values, call.symbols.count);
  Run run;
  for (size_t i = 0; i < launch.operands.size(); ++i) {
    const Value v = launch.operands[i];
    const auto it = v == ir::kNone ? places.end() : places.find(v);
    tenon_span_t span = it == places.end() ? tenon_span_t{} : it->second;
    if (const auto packed = launch.packed.find(i); packed != launch.packed.end())
      span = {packed->second.handle(), 0};
    if (v != ir::kNone && span.buffer == nullptr)
      return error(TENON_INTERNAL, "T0612", "operand {} of kernel {} was not made before it", i,
                   quoted(launch.name));
    std::vector<int64_t> dims;
    if (v != ir::kNone) TENON_RETURN_IF_ERROR(dims_of(v, symbols, &dims));
    run.in.add(span, std::move(dims));
  }
  for (Value v : graph_->results(launch.nodes.back())) {
    std::vector<int64_t> dims;
    TENON_RETURN_IF_ERROR(dims_of(v, symbols, &dims));
    run.out.add(places.at(v), std::move(dims));
  }
  run.point();
  run.args.part_count = launch.part_count;
  run.args.workspace = launch.workspace_bytes == 0 ? nullptr : call.workspace;
  run.args.workspace_offset_bytes = all.scratch;
  run.order(all, order == 0, order + 1 == launches_.size());
  const uint64_t begin = call.profile != nullptr ? runtime::now_ns() : 0;
  TENON_RETURN_IF_ERROR(run_parts(launch, run.args, &all.begun));
  if (call.profile != nullptr) {
    const ir::Loc loc = graph_->node(launch.nodes.front()).loc;
    const std::string origins = loc == 0 ? "" : graph_->loc_text(loc);
    auto event = sized<tenon_profile_event_t>();
    event.name = to_abi_str(launch.name);
    event.origins = to_abi_str(origins);
    event.begin_ns = begin;
    event.end_ns = runtime::now_ns();
    call.profile->event(call.profile->self, &event);
  }
  return {};
}

// On a queue in order: the first part waits, the last signals. Else on the host's threads.
Status KernelProgram::run_parts(const Launch& launch, const tenon_kernel_args_t& args,
                                bool* submitted) const {
  const auto run_part = [&](uint32_t index) {
    tenon_kernel_args_t part = args;
    part.part_index = index;
    if (index != 0) part.waits = nullptr, part.wait_count = 0;
    if (index + 1 != launch.part_count) part.signal = {};
    return set_.kernels->run(set_.kernels->self, launch.kernel, &part);
  };
  clear_failure();
  const Activity activity("a kernel of the plugin", set_.plugin,
                          reinterpret_cast<const void*>(set_.kernels->run));
  tenon_code_t code = TENON_OK;
  if (args.queue == nullptr && args.native_queue == nullptr && parts_at_once_ &&
      launch.part_count > 1) {
    code = parallel_for(launch.part_count, 1, [&](uint32_t, int64_t begin, int64_t end) {
      tenon_code_t first = TENON_OK;
      for (int64_t i = begin; i < end && first == TENON_OK; ++i)
        first = run_part(static_cast<uint32_t>(i));
      return first;
    });
  } else {
    for (uint32_t i = 0; i < launch.part_count && code == TENON_OK; ++i) {
      code = run_part(i);
      *submitted |= code == TENON_OK;
    }
  }
  return from_abi(code,
                  fmt::format("kernel {} of plugin {}", quoted(launch.name), quoted(set_.plugin)));
}

}  // namespace tenon::dispatch
