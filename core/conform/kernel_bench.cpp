#include "core/conform/kernel_bench.h"

#include <algorithm>

#include "core/base/str.h"
#include "core/conform/session.h"

namespace tenon::conform {
namespace {
constexpr uint64_t kGuardBytes = 256;
}

KernelCall::KernelCall(const Part& part, uint32_t epilogue) : part_(part) {
  const tenon_node_view_t anchor = part.node(part.nodes()[0]);
  for (uint32_t i = 0; i < anchor.operand_count; ++i) {
    tenon_kernel_operand_t operand = {};
    if (anchor.operands[i] != TENON_NONE) {
      const tenon_value_view_t value = part.value(anchor.operands[i]);
      operand.type = value.type;
      operand.constant = value.kind == TENON_VALUE_CONSTANT ? 1 : 0;
    }
    operands_.push_back(operand);
  }
  const tenon_node_view_t last = part.node(part.nodes()[epilogue]);
  for (uint32_t i = 0; i < last.result_count; ++i)
    results_.push_back(part.value(last.results[i]).type);
  call_.size_bytes = sizeof(call_);
  call_.anchor = part.nodes()[0];
  call_.graph = part.graph();
  call_.epilogue = part.nodes().data() + 1;
  call_.epilogue_count = epilogue;
  call_.operand_count = static_cast<uint32_t>(operands_.size());
  call_.operands = operands_.data();
  call_.result_count = static_cast<uint32_t>(results_.size());
  call_.results = results_.data();
}

Outcome KernelBench::open() {
  const tenon_device_api_t* devices = nullptr;
  uint32_t count = 0;
  CONFORM_TRY(session_.load());
  kernels_ = static_cast<const tenon_kernels_api_t*>(session_.table(TENON_KERNELS_ID));
  if (kernels_ == nullptr) return not_offered(TENON_KERNELS_ID);
  CONFORM_TRY(find_devices(session_, &devices, &count));
  CONFORM_TRY(find_api(&api_));
  info_.size_bytes = sizeof(info_);
  if (devices->info(devices->self, 0, &info_) != TENON_OK)
    return skipped("info fails, as C.info tells");
  if (view(info_.kind) != view(kernels_->device_kind))
    return skipped("its kernels are of another plugin's device");
  device_ = std::make_unique<OpenDevice>(devices, 0);
  return device_->open();
}

tenon_code_t KernelBench::query(const KernelCall& call, tenon_kernel_candidate_t* out) {
  *out = {};
  out->size_bytes = sizeof(*out);
  forget_failure();
  return kernels_->query(kernels_->self, info_.target, &call.call(), out);
}

KernelRun::~KernelRun() {
  for (tenon_buffer_t* buffer : buffers_) (void)bench_.device().free(buffer);
}

Outcome KernelRun::make_room(uint64_t size_bytes, Room* out) {
  const uint64_t whole = guard_ + size_bytes + kGuardBytes;
  CONFORM_TRY(bench_.device().alloc(whole, &out->buffer));
  buffers_.push_back(out->buffer);
  out->size_bytes = size_bytes;
  return bench_.device().write(out->buffer, Bytes(whole, filler_));
}

Outcome KernelRun::prepare(const std::vector<Named>& inputs,
                           const tenon_kernel_candidate_t& candidate, unsigned char filler) {
  input_values_ = inputs;
  filler_ = filler;
  const uint64_t align = std::max<uint64_t>(bench_.alignment(), 1);
  guard_ = (kGuardBytes + align - 1) / align * align;
  // In the order of the anchor's operands, which may name one argument twice.
  const tenon_node_view_t anchor = part_.node(part_.nodes()[0]);
  std::vector<Named> operands;
  for (uint32_t i = 0; i < anchor.operand_count; ++i) {
    if (anchor.operands[i] == TENON_NONE) continue;
    const uint32_t index = part_.value(anchor.operands[i]).index;
    Room room;
    const uint64_t size = inputs[index].tensor.size_bytes();
    CONFORM_TRY(make_room(size, &room));
    const tenon_code_t code =
        bench_.device().to_device(room.buffer, guard_, inputs[index].bytes.data(), size);
    CONFORM_EXPECT(code == TENON_OK, "a copy of an input gives {}", code_text(code));
    inputs_.push_back(room);
    input_dims_.push_back(inputs[index].tensor.dims);
    operands.push_back(inputs[index]);
  }
  input_values_ = std::move(operands);
  for (uint32_t i = 0; i < part_.main().yield_count; ++i) {
    tools::Dense tensor;
    tensor.dtype = part_.value(part_.main().yields[i]).type.dtype;
    tensor.dims = part_.dims_of(part_.main().yields[i], {}).value_or(std::vector<int64_t>());
    Room room;
    CONFORM_TRY(make_room(tensor.size_bytes(), &room));
    outputs_.push_back(room);
    output_dims_.push_back(tensor.dims);
  }
  const uint64_t bytes = candidate.workspace_bytes;
  if (bytes == 0) return pass();
  // The workspace of a call has no offset: a guard stands behind it alone.
  CONFORM_TRY(bench_.device().alloc(bytes + kGuardBytes, &workspace_.buffer));
  buffers_.push_back(workspace_.buffer);
  workspace_.size_bytes = bytes;
  return bench_.device().write(workspace_.buffer, Bytes(bytes + kGuardBytes, filler_));
}

tenon_code_t KernelRun::run(tenon_kernel_t* kernel, uint32_t index, uint32_t count) {
  std::vector<const tenon_buffer_t*> inputs;
  std::vector<tenon_buffer_t*> outputs;
  std::vector<const int64_t*> input_dims, output_dims;
  for (const Room& room : inputs_) inputs.push_back(room.buffer);
  for (const Room& room : outputs_) outputs.push_back(room.buffer);
  for (const auto& dims : input_dims_) input_dims.push_back(dims.data());
  for (const auto& dims : output_dims_) output_dims.push_back(dims.data());
  const std::vector<uint64_t> input_offsets(inputs.size(), guard_),
      output_offsets(outputs.size(), guard_);
  tenon_kernel_args_t args = {};
  args.size_bytes = sizeof(args);
  args.input_count = static_cast<uint32_t>(inputs.size());
  args.output_count = static_cast<uint32_t>(outputs.size());
  args.part_index = index;
  args.part_count = count;
  args.inputs = inputs.data();
  args.outputs = outputs.data();
  args.input_offsets_bytes = input_offsets.data();
  args.output_offsets_bytes = output_offsets.data();
  args.input_dims = input_dims.data();
  args.output_dims = output_dims.data();
  args.workspace = workspace_.buffer;
  const tenon_kernels_api_t& k = bench_.kernels();
  return k.run(k.self, kernel, &args);
}

Outcome KernelRun::outputs(std::vector<Named>* out) {
  out->clear();
  for (uint32_t i = 0; i < outputs_.size(); ++i) {
    Named& made = out->emplace_back();
    made.tensor.dtype = part_.value(part_.main().yields[i]).type.dtype;
    made.tensor.dims = output_dims_[i];
    made.bytes.resize(std::max<uint64_t>(outputs_[i].size_bytes, 1));
    const tenon_code_t code = bench_.device().to_host(made.bytes.data(), outputs_[i].buffer, guard_,
                                                      outputs_[i].size_bytes);
    CONFORM_EXPECT(code == TENON_OK, "a copy of output {} gives {}", i, code_text(code));
  }
  for (Named& made : *out) made.tensor.data = made.bytes.data();
  return pass();
}

Outcome KernelRun::guarded(const Room& room, std::string_view what, Bytes* inside) {
  Bytes all(guard_ + room.size_bytes + kGuardBytes);
  CONFORM_TRY(bench_.device().read(room.buffer, &all));
  for (uint64_t i = 0; i < all.size(); ++i) {
    if (i >= guard_ && i < guard_ + room.size_bytes) continue;
    CONFORM_EXPECT(all[i] == filler_, "run writes {} bytes {} {}",
                   i < guard_ ? guard_ - i : i - guard_ - room.size_bytes + 1,
                   i < guard_ ? "before" : "behind", what);
  }
  inside->assign(all.begin() + static_cast<ptrdiff_t>(guard_),
                 all.begin() + static_cast<ptrdiff_t>(guard_ + room.size_bytes));
  return pass();
}

Outcome KernelRun::kept_all() {
  Bytes inside;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    CONFORM_TRY(guarded(inputs_[i], fmt::format("input {}", i), &inside));
    Bytes before = input_values_[i].bytes;
    before.resize(inputs_[i].size_bytes);
    const std::string difference = first_difference(inside, before);
    CONFORM_EXPECT(difference.empty(), "run writes input {}: {}", i, difference);
  }
  for (size_t i = 0; i < outputs_.size(); ++i)
    CONFORM_TRY(guarded(outputs_[i], fmt::format("output {}", i), &inside));
  if (workspace_.buffer == nullptr) return pass();
  Bytes all(workspace_.size_bytes + kGuardBytes);
  CONFORM_TRY(bench_.device().read(workspace_.buffer, &all));
  for (uint64_t i = workspace_.size_bytes; i < all.size(); ++i)
    CONFORM_EXPECT(all[i] == filler_, "run writes {} bytes behind its workspace",
                   i - workspace_.size_bytes + 1);
  return pass();
}

}  // namespace tenon::conform
