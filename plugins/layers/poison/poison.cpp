// The layer `poison`: fills memory with NaN before a device writes its results there, so that
// missing writes become visible.
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <map>
#include <mutex>
#include <vector>

#include "tenon/abi/compile.h"
#include "tenon/abi/copy.h"
#include "tenon/abi/kernels.h"
#include "tenon/abi/queue.h"
#include "tenon/cpp/dtype.hpp"
#include "tenon/cpp/layer.hpp"

namespace tenon::poison {
namespace {

// A NaN as f16 and bf16 and, repeated, as f32 and f64; an unlikely integer, and an invalid
// predicate.
constexpr uint64_t kPattern = 0x7ffd, kByte = 0xfd;

// True while a device requests the buffer of an output. It may then hold locks that a copy needs,
// but none that `map` needs.
thread_local bool t_asked = false;

// What an execution writes, as reported by `needs`.
struct Sizes {
  std::vector<tenon_output_need_t> outputs;  // without dims, which belong to the caller
  uint64_t workspace_bytes = 0;
};
struct Loaded {
  tenon_device_t* device = nullptr;
  std::map<std::vector<int64_t>, Sizes> sizes;  // by symbols
};
struct Kernel {
  tenon_device_t* device = nullptr;
  std::vector<std::pair<tenon_dtype_t, uint32_t>> results;  // element type and rank
};

class Poison {
 public:
  Status attach(LayerSubject& subject);

 private:
  // ---- Slots ----
  tenon_code_t alloc(tenon_device_t* device, uint64_t size, tenon_buffer_t** out);
  tenon_code_t load(tenon_device_t* device, const void* bytes, uint64_t size,
                    tenon_blob_t* const* constants, uint32_t count, tenon_executable_t** out);
  tenon_code_t load_packed(tenon_device_t* device, const void* bytes, uint64_t size,
                           tenon_blob_t* const* packed, uint32_t count, tenon_executable_t** out);
  void executable_release(tenon_executable_t* executable);
  tenon_code_t needs(tenon_executable_t* executable, tenon_symbols_t symbols, tenon_needs_t* out);
  tenon_code_t execute(tenon_executable_t* executable, const tenon_call_t* call);
  tenon_code_t create(tenon_device_t* device, const tenon_kernel_call_t* call,
                      tenon_kernel_t** out);
  void destroy(tenon_kernel_t* kernel);
  tenon_code_t run(tenon_kernel_t* kernel, const tenon_kernel_args_t* args);

  // ---- Filling ----
  // Where and when to fill: at once on a device, or on the queue of a call after its waits.
  struct Place {
    tenon_device_t* device;
    const tenon_call_t* call;  // null, or one with a queue
  };
  Status fill(const Place& place, const tenon_span_t& span, uint64_t size) const;
  Status fill_part(const Place& place, const tenon_span_t& span, uint64_t size, uint64_t pattern,
                   uint32_t width) const;
  Status fill_mapped(tenon_device_t* device, tenon_copy_t copy) const;
  Status fill_call(const Place& place, const tenon_call_t& call, const Sizes& sizes) const;

  // Context of a device's request for the buffer of an output.
  struct Asked {
    const Poison* poison;
    tenon_device_t* device;
    const tenon_call_t* call;
  };
  static tenon_code_t give(void* self, uint32_t index, uint64_t size, tenon_buffer_t** out_buffer,
                           uint64_t* out_offset_bytes);

  const tenon_device_api_t* device_ = nullptr;
  const tenon_queue_api_t* queue_ = nullptr;
  const tenon_compile_api_t* compile_ = nullptr;
  const tenon_kernels_api_t* kernels_ = nullptr;
  tenon_device_api_t device_table_ = {};
  tenon_compile_api_t compile_table_ = {};
  tenon_kernels_api_t kernels_table_ = {};
  std::mutex mutex_;
  std::map<const tenon_executable_t*, Loaded> executables_;
  std::map<const tenon_kernel_t*, Kernel> of_kernels_;
};

Status Poison::attach(LayerSubject& subject) {
  TENON_TRY(subject.options_done());
  device_ = subject.next<tenon_device_api_t>(TENON_DEVICE_ID);
  queue_ = subject.next<tenon_queue_api_t>(TENON_QUEUE_ID);
  compile_ = subject.next<tenon_compile_api_t>(TENON_COMPILE_ID);
  kernels_ = subject.next<tenon_kernels_api_t>(TENON_KERNELS_ID);
  if (device_ == nullptr)
    return {};  // a frontend, a toolchain, or kernels for another plugin's device
  device_table_.alloc = layer_slot<&Poison::alloc>;
  subject.put(TENON_DEVICE_ID, &device_table_, this);
  compile_table_.load = layer_slot<&Poison::load>;
  compile_table_.load_packed = layer_slot<&Poison::load_packed>;
  compile_table_.executable_release = layer_slot<&Poison::executable_release>;
  compile_table_.needs = layer_slot<&Poison::needs>;
  compile_table_.execute = layer_slot<&Poison::execute>;
  if (compile_ != nullptr) subject.put(TENON_COMPILE_ID, &compile_table_, this);
  kernels_table_.create = layer_slot<&Poison::create>;
  kernels_table_.destroy = layer_slot<&Poison::destroy>;
  kernels_table_.run = layer_slot<&Poison::run>;
  if (kernels_ != nullptr) subject.put(TENON_KERNELS_ID, &kernels_table_, this);
  return {};
}

// ---- Filling ----

Status Poison::fill_mapped(tenon_device_t* device, tenon_copy_t copy) const {
  void* data = nullptr;
  if (device_->map == nullptr) return {};
  const tenon_code_t code = device_->map(device_->self, device, copy.to, &data);
  if (code == TENON_UNIMPLEMENTED)
    return {};  // memory that cannot be accessed while the device holds its locks
  TENON_TRY(code);
  tenon_copy_perform(&copy, nullptr, data);
  return {};
}

Status Poison::fill_part(const Place& place, const tenon_span_t& span, uint64_t size,
                         uint64_t pattern, uint32_t width) const {
  auto copy = sized<tenon_copy_t>();
  copy.direction = TENON_COPY_FILL;
  copy.to = span.buffer;
  copy.to_offset_bytes = span.offset_bytes;
  copy.length_bytes = size;
  copy.pattern = pattern;
  copy.pattern_bytes = width;
  if (size == 0) return {};
  if (place.call != nullptr) {
    // Each copy has all waits, because the queue continues after a copy whose wait failed.
    return queue_->copy_async(queue_->self, place.call->queue, &copy, place.call->waits,
                              place.call->wait_count, {});
  }
  return t_asked ? fill_mapped(place.device, copy)
                 : Status(device_->copy(device_->self, place.device, &copy));
}

Status Poison::fill(const Place& place, const tenon_span_t& span, uint64_t size) const {
  if (span.buffer == nullptr) return {};
  TENON_TRY(fill_part(place, span, size / 2 * 2, kPattern, 2));
  return fill_part(place, {span.buffer, span.offset_bytes + size / 2 * 2}, size % 2, kByte, 1);
}

tenon_code_t Poison::alloc(tenon_device_t* device, uint64_t size, tenon_buffer_t** out) {
  TENON_TRY(device_->alloc(device_->self, device, size, out));
  const Status filled = fill({device, nullptr}, {*out, 0}, size);
  if (filled.ok()) return TENON_OK;
  (void)device_->free(device_->self, device, *out);
  *out = nullptr;
  return filled.code();
}

// ---- Executables ----

std::vector<int64_t> values_of(const tenon_symbols_t& symbols) {
  return {symbols.values, symbols.values + symbols.count};
}

tenon_code_t Poison::load(tenon_device_t* device, const void* bytes, uint64_t size,
                          tenon_blob_t* const* constants, uint32_t count,
                          tenon_executable_t** out) {
  TENON_TRY(compile_->load(compile_->self, device, bytes, size, constants, count, out));
  const std::lock_guard lock(mutex_);
  executables_[*out].device = device;
  return TENON_OK;
}

tenon_code_t Poison::load_packed(tenon_device_t* device, const void* bytes, uint64_t size,
                                 tenon_blob_t* const* packed, uint32_t count,
                                 tenon_executable_t** out) {
  TENON_TRY(compile_->load_packed(compile_->self, device, bytes, size, packed, count, out));
  const std::lock_guard lock(mutex_);
  executables_[*out].device = device;
  return TENON_OK;
}

void Poison::executable_release(tenon_executable_t* executable) {
  {
    const std::lock_guard lock(mutex_);
    executables_.erase(executable);
  }
  compile_->executable_release(compile_->self, executable);
}

tenon_code_t Poison::needs(tenon_executable_t* executable, tenon_symbols_t symbols,
                           tenon_needs_t* out) {
  TENON_TRY(compile_->needs(compile_->self, executable, symbols, out));
  Sizes sizes;
  sizes.outputs.resize(out->output_count);
  for (uint32_t i = 0; i < out->output_count; ++i)
    tenon_record_read(&sizes.outputs[i], sizeof(tenon_output_need_t), out->outputs, i,
                      out->need_bytes);
  sizes.workspace_bytes = out->workspace_bytes;
  const std::lock_guard lock(mutex_);
  executables_[executable].sizes[values_of(symbols)] = std::move(sizes);
  return TENON_OK;
}

Status Poison::fill_call(const Place& place, const tenon_call_t& call, const Sizes& sizes) const {
  for (uint32_t i = 0; i < call.output_count && i < sizes.outputs.size(); ++i) {
    const tenon_output_need_t& need = sizes.outputs[i];
    const tenon_span_t& out = *tenon_call_output(&call, i);
    const bool shared = need.alias_input < call.input_count &&
                        tenon_call_input(&call, need.alias_input)->buffer == out.buffer;
    if (need.size_bytes_max != TENON_SIZE_UNKNOWN && !shared)
      TENON_TRY(fill(place, out, need.size_bytes_max));
  }
  return fill(place, {call.workspace, call.workspace_offset_bytes}, sizes.workspace_bytes);
}

tenon_code_t Poison::give(void* self, uint32_t index, uint64_t size, tenon_buffer_t** out_buffer,
                          uint64_t* out_offset_bytes) {
  const Asked& asked = *static_cast<const Asked*>(self);
  t_asked = true;
  tenon_span_t given = {};
  tenon_code_t code =
      asked.call->output(asked.call->output_self, index, size, &given.buffer, &given.offset_bytes);
  if (code == TENON_OK) code = asked.poison->fill({asked.device, nullptr}, given, size).code();
  if (code == TENON_OK) *out_buffer = given.buffer, *out_offset_bytes = given.offset_bytes;
  t_asked = false;
  return code;
}

tenon_code_t Poison::execute(tenon_executable_t* executable, const tenon_call_t* given) {
  tenon_call_t call = {};
  std::memcpy(&call, given, std::min<uint64_t>(given->size_bytes, sizeof call));
  call.size_bytes = sizeof call;
  tenon_device_t* device = nullptr;
  Sizes sizes;
  {
    const std::lock_guard lock(mutex_);
    const Loaded& loaded = executables_[executable];
    device = loaded.device;
    if (const auto known = loaded.sizes.find(values_of(call.symbols)); known != loaded.sizes.end())
      sizes = known->second;
  }
  const Place place = {device, call.queue != nullptr ? &call : nullptr};
  if (const Status filled = fill_call(place, call, sizes); !filled.ok()) {
    // Nothing of a refused call may be in flight.
    if (call.queue != nullptr)
      (void)await_queue(*queue_, device, call.queue, any_buffer(call)).code();
    return filled.code();
  }
  const tenon_call_t above = call;
  Asked asked = {this, device, &above};
  if (call.output != nullptr) {
    call.output_self = &asked;
    call.output = give;
  }
  return compile_->execute(compile_->self, executable, &call);
}

// ---- Kernels ----

tenon_code_t Poison::create(tenon_device_t* device, const tenon_kernel_call_t* call,
                            tenon_kernel_t** out) {
  TENON_TRY(kernels_->create(kernels_->self, device, call, out));
  Kernel kernel;
  kernel.device = device;
  for (uint32_t i = 0; i < call->result_count; ++i)
    kernel.results.emplace_back(call->results[i].dtype, call->results[i].rank);
  const std::lock_guard lock(mutex_);
  of_kernels_[*out] = std::move(kernel);
  return TENON_OK;
}

void Poison::destroy(tenon_kernel_t* kernel) {
  {
    const std::lock_guard lock(mutex_);
    of_kernels_.erase(kernel);
  }
  kernels_->destroy(kernels_->self, kernel);
}

tenon_code_t Poison::run(tenon_kernel_t* kernel, const tenon_kernel_args_t* args) {
  Kernel known;
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = of_kernels_.find(kernel); found != of_kernels_.end())
      known = found->second;
  }
  // Parts may run at once, so no part is the first.
  const size_t count =
      args->part_count == 1 ? std::min<size_t>(known.results.size(), args->output_count) : 0;
  for (size_t i = 0; i < count; ++i) {
    const auto [dtype, rank] = known.results[i];
    uint64_t elements = 1;
    for (uint32_t d = 0; d < rank; ++d) elements *= static_cast<uint64_t>(args->output_dims[i][d]);
    const tenon_span_t span = {args->outputs[i], args->output_offsets_bytes[i]};
    TENON_TRY(fill({known.device, nullptr}, span, (elements * dtype_bits(dtype) + 7) / 8));
  }
  return kernels_->run(kernels_->self, kernel, args);
}

}  // namespace
}  // namespace tenon::poison

TENON_LAYER("poison", "0.1.0", tenon::poison::Poison)
