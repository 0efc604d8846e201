// tenon.kernels/1: kernels of single ops.
#include <cmath>

#include "validation.h"

namespace tenon::validation {

void Validator::attach_kernels(LayerSubject& subject) {
  // Devices and buffers of another plugin are not known here.
  if (device_ == nullptr) return;
  if ((kernels_ = subject.next<tenon_kernels_api_t>(TENON_KERNELS_ID)) == nullptr) return;
  tenon_kernels_api_t& t = kernels_table_;
  t.query = layer_slot<&Validator::query>;
  t.create = layer_slot<&Validator::create>;
  t.destroy = layer_slot<&Validator::destroy>;
  t.run = layer_slot<&Validator::run>;
  t.prepack = layer_slot<&Validator::prepack>;
  t.save = layer_slot<&Validator::save>;
  t.restore = layer_slot<&Validator::restore>;
  subject.put(TENON_KERNELS_ID, &t, this);
}

tenon_code_t Validator::query(tenon_str_t target, const tenon_kernel_call_t* call,
                              tenon_kernel_candidate_t* out) {
  if (!need_pointer("query", call, "the call") || !need_pointer("query", out, "out_candidate"))
    return refuse("query");
  if (!need_size("query", call->size_bytes, sizeof *call, "the call") ||
      !check_graph("query", call->graph))
    return refuse("query");
  if (!need_size("query", out->size_bytes, sizeof out->size_bytes, "out_candidate"))
    return refuse("query");
  Guarded<tenon_kernel_candidate_t> guarded;
  TENON_TRY(ask_for_record("query", out, guarded, [&](tenon_kernel_candidate_t* o) {
    return kernels_->query(kernels_->self, target, call, o);
  }));
  const tenon_kernel_candidate_t& made = guarded.record;
  if (made.name.data == nullptr || made.name.size == 0)
    broken("R-F01", "query", "a candidate without a name");
  if (made.part_count == 0) broken("R-F01", "query", "a candidate of no parts");
  if (!std::isfinite(made.cost_ns) || made.cost_ns < 0)
    broken("R-F01", "query", "a cost that is not a finite number >= 0");
  if (made.epilogue_taken > call->epilogue_count)
    broken(
        "R-F01", "query",
        cat("it takes ", made.epilogue_taken, " nodes of an epilogue of ", call->epilogue_count));
  return TENON_OK;
}

tenon_code_t Validator::create(tenon_device_t* device, const tenon_kernel_call_t* call,
                               tenon_kernel_t** out) {
  const ObjectRef d = need("create", Kind::kDevice, device);
  if (d == nullptr || !need_pointer("create", call, "the call") ||
      !need_pointer("create", out, "out_kernel"))
    return refuse("create");
  const tenon_code_t code = ask_for("create", out, [&](tenon_kernel_t** o) {
    return kernels_->create(kernels_->self, device, call, o);
  });
  note_lost(*d, "create", code);
  if (code == TENON_OK) made("create", "R-F02", Kind::kKernel, *out, device);
  return code;
}

tenon_code_t Validator::restore(tenon_device_t* device, const void* bytes, uint64_t size,
                                tenon_kernel_t** out) {
  const ObjectRef d = need("restore", Kind::kDevice, device);
  if (d == nullptr || !need_pointer("restore", out, "out_kernel")) return refuse("restore");
  if (size != 0 && !need_pointer("restore", bytes, "the bytes")) return refuse("restore");
  const tenon_code_t code = ask_for("restore", out, [&](tenon_kernel_t** o) {
    return kernels_->restore(kernels_->self, device, bytes, size, o);
  });
  note_lost(*d, "restore", code);
  if (code == TENON_OK) made("restore", "R-F12", Kind::kKernel, *out, device);
  return code;
}

void Validator::destroy(tenon_kernel_t* kernel) {
  const ObjectRef k = need("destroy", Kind::kKernel, kernel);
  if (k == nullptr) return;
  if (k->running != 0) broken("R-M14", "destroy", "a run of the kernel is not over");
  objects_.remove(*k);
  (void)ask("destroy", [&] { return kernels_->destroy(kernels_->self, kernel), TENON_OK; });
}

tenon_code_t Validator::prepack(tenon_kernel_t* kernel, uint32_t operand, const void* data,
                                uint64_t size, const tenon_sink_t* sink) {
  if (need("prepack", Kind::kKernel, kernel) == nullptr ||
      !need_pointer("prepack", sink, "the sink"))
    return refuse("prepack");
  return ask("prepack",
             [&] { return kernels_->prepack(kernels_->self, kernel, operand, data, size, sink); });
}

tenon_code_t Validator::save(tenon_kernel_t* kernel, const tenon_sink_t* sink) {
  if (need("save", Kind::kKernel, kernel) == nullptr || !need_pointer("save", sink, "the sink"))
    return refuse("save");
  return ask("save", [&] { return kernels_->save(kernels_->self, kernel, sink); });
}

tenon_code_t Validator::run(tenon_kernel_t* kernel, const tenon_kernel_args_t* args) {
  const ObjectRef k = need("run", Kind::kKernel, kernel);
  if (k == nullptr || !need_pointer("run", args, "the arguments")) return refuse("run");
  if (!need_size("run", args->size_bytes, sizeof *args, "the arguments")) return refuse("run");
  if (args->part_index >= args->part_count)
    broken("R-M16", "run", cat("part ", args->part_index, " of ", args->part_count));
  if (args->input_count != 0 &&
      (!need_pointer("run", args->inputs, "the array of inputs") ||
       !need_pointer("run", args->input_offsets_bytes, "the array of offsets"))) {
    return refuse("run");
  }
  if (args->output_count != 0 &&
      (!need_pointer("run", args->outputs, "the array of outputs") ||
       !need_pointer("run", args->output_offsets_bytes, "the array of offsets"))) {
    return refuse("run");
  }
  std::vector<Used> used = {{k}};
  ObjectRef q;
  if (args->queue != nullptr && !check_queue(*k, *args, &q)) return refuse("run");
  if (args->workspace != nullptr) {
    const ObjectRef w = need("run", Kind::kBuffer, args->workspace, k->device);
    if (w == nullptr) return refuse("run");
    used.push_back({w, true});
    if (args->workspace_offset_bytes > w->size_bytes)
      broken("R-M16", "run", "the workspace begins past the end of its buffer");
  }
  for (uint32_t i = 0; i < args->input_count + args->output_count; ++i) {
    const bool is_input = i < args->input_count;
    const uint32_t n = is_input ? i : i - args->input_count;
    const tenon_buffer_t* buffer = is_input ? args->inputs[n] : args->outputs[n];
    const uint64_t offset = is_input ? args->input_offsets_bytes[n] : args->output_offsets_bytes[n];
    if (is_input && buffer == nullptr) continue;  // an absent operand
    const ObjectRef b = need("run", Kind::kBuffer, buffer, k->device);
    if (b == nullptr) return refuse("run");
    used.push_back({b, !is_input});
    if (q == nullptr) check_waited("run", b, !is_input, cat(is_input ? "input " : "output ", n));
    if (offset > b->size_bytes)
      broken("R-M16", "run",
             cat(is_input ? "input " : "output ", n, " begins past the end of its buffer"));
  }
  std::string why;
  const ObjectRef d = objects_.find(Kind::kDevice, k->device, nullptr, &why);
  const Inside inside = enter(d, "run");
  ++k->running;
  const tenon_code_t code = ask("run", [&] { return kernels_->run(kernels_->self, kernel, args); });
  --k->running;
  if (d != nullptr) note_lost(*d, "run", code);
  if (code != TENON_OK && q != nullptr) check_unsignalled("R-E16", "run", args->signal);
  if (code == TENON_OK && q != nullptr) {
    Work work = {.used = std::move(used), .signal = args->signal, .slot = "run"};
    work.waits = points_of(args->waits, args->wait_count);
    submitted(*q, std::move(work));
  }
  return code;
}

bool Validator::check_queue(const Object& kernel, const tenon_kernel_args_t& args,
                            ObjectRef* out_queue) {
  if ((kernels_->flags & TENON_KERNELS_ON_QUEUE) == 0 || queue_ == nullptr) {
    broken("R-M18", "run", "these kernels use no queue, and the call names one");
    return false;
  }
  *out_queue = need("run", Kind::kQueue, args.queue);
  if (*out_queue == nullptr || !check_points("run", args.waits, args.wait_count, args.signal))
    return false;
  if ((*out_queue)->device != kernel.device)
    broken("R-M18", "run", "queue and kernel are of different devices");
  return true;
}

}  // namespace tenon::validation
