#include "core/session/compile/loading.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "core/base/str.h"
#include "core/runtime/values/arrays.h"
#include "core/session/compile/program.h"

namespace tenon::session {
namespace {

using runtime::Argument;
using runtime::Tensor;

// An array has no identity, so its elements are copied: the caller may change them after the call.
Result<std::shared_ptr<Tensor>> copy_of(const tenon_array_t& array) {
  TENON_ASSIGN_OR_RETURN(std::vector<std::byte> dense, runtime::dense_bytes(array));
  auto bytes = std::make_shared<std::vector<std::byte>>(std::move(dense));
  std::shared_ptr<void> memory(bytes, bytes->data());
  return std::make_shared<Tensor>(array.dtype,
                                  std::vector<int64_t>(array.dims, array.dims + array.rank),
                                  bytes->size(), std::move(memory), true);
}

Result<std::shared_ptr<Tensor>> value_of(const Argument& given, uint32_t input) {
  if (given.donated) {
    return error(TENON_INVALID_ARGUMENT, "T0696",
                 "input {} was compiled as one that rarely changes, and is donated", input);
  }
  if (given.tensor == nullptr) return copy_of(*given.array);
  TENON_RETURN_IF_ERROR(given.tensor->check_there());
  return given.tensor->shared_from_this();
}

// Retains the blobs, as long as an executable is loaded.
using Blobs = std::vector<ir::Ref<ir::Blob>>;

Result<ir::Ref<ir::Blob>> blob_of(const std::shared_ptr<Tensor>& tensor) {
  TENON_ASSIGN_OR_RETURN(const void* const data, tensor->fetch());
  return ir::blob_borrowed(data, tensor->size_bytes(), tensor);
}

}  // namespace

Loadings::Loadings(std::shared_ptr<const runtime::Plan> plan, std::vector<LateConstant> constants)
    : plan_(std::move(plan)), constants_(std::move(constants)) {
  for (const LateConstant& late : constants_) inputs_.push_back(late.input);
  std::ranges::sort(inputs_);
  inputs_.erase(std::ranges::unique(inputs_).begin(), inputs_.end());
}

Loadings::~Loadings() {
  delete last_.load(std::memory_order_acquire);
}

// A reader counts itself before it looks. So it sees what is there now, or is seen by who replaced
// that; both are sequentially consistent for this.
std::shared_ptr<Loading> Loadings::last() const {
  readers_.fetch_add(1);
  const std::shared_ptr<Loading>* const last = last_.load();
  std::shared_ptr<Loading> copy = last == nullptr ? nullptr : *last;
  readers_.fetch_sub(1);
  return copy;
}

std::unique_ptr<const std::shared_ptr<Loading>> Loadings::replace_last(
    std::shared_ptr<Loading> made) {
  std::unique_ptr<const std::shared_ptr<Loading>> old(
      last_.exchange(new std::shared_ptr<Loading>(std::move(made))));
  // They copy a pointer, but one may be interrupted by a thread of a higher priority, as this.
  for (int turn = 0; readers_.load() != 0; ++turn) {
    if (turn < 100)
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  return old;
}

bool Loadings::serves(const Loading& loading, std::span<const Argument> inputs) const {
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const Argument& given = inputs[inputs_[i]];
    if (given.donated || given.tensor == nullptr || given.tensor != loading.tensors[i].get())
      return false;
  }
  return true;
}

Result<std::shared_ptr<Loading>> Loadings::choose(std::span<const CompiledSegment> segments,
                                                  std::span<const Argument> inputs,
                                                  uint64_t* out_packed_bytes) {
  if (auto known = last(); known != nullptr && serves(*known, inputs)) return known;
  // Ends outside of the lock: its tensors may be memory of the caller's, whose functions are
  // called.
  std::unique_ptr<const std::shared_ptr<Loading>> old;
  const std::lock_guard lock(loading_);
  if (auto known = last(); known != nullptr && serves(*known, inputs)) return known;
  std::vector<std::shared_ptr<Tensor>> tensors;
  bool lasting = true;
  for (const uint32_t input : inputs_) {
    TENON_ASSIGN_OR_RETURN(tensors.emplace_back(), value_of(inputs[input], input));
    *out_packed_bytes += tensors.back()->size_bytes();
    lasting = lasting && inputs[input].tensor != nullptr;
  }
  TENON_ASSIGN_OR_RETURN(std::shared_ptr<Loading> made, load(segments, std::move(tensors)));
  if (lasting) old = replace_last(made);  // an array comes once; what tensors need stays
  return made;
}

Result<std::shared_ptr<Loading>> Loadings::load(std::span<const CompiledSegment> segments,
                                                std::vector<std::shared_ptr<Tensor>> tensors) {
  auto plan = std::make_shared<runtime::Plan>(*plan_);
  for (size_t i = 0; i < constants_.size();) {
    const uint32_t s = constants_[i].segment;
    const CompiledSegment& segment = segments[s];
    std::vector<tenon_blob_t*> constants = segment.constants;
    Blobs blobs;
    for (; i < constants_.size() && constants_[i].segment == s; ++i) {
      const auto at = std::ranges::lower_bound(inputs_, constants_[i].input);
      TENON_ASSIGN_OR_RETURN(blobs.emplace_back(),
                             blob_of(tensors[static_cast<size_t>(at - inputs_.begin())]));
      constants[constants_[i].constant] = blobs.back()->abi();
    }
    TENON_ASSIGN_OR_RETURN(
        plan->executables[s],
        runtime::Executable::load(segment.owner, std::as_bytes(std::span(segment.bytes)),
                                  {constants, segment.output_ranks, segment.by}),
        "loading for new values of inputs");
  }
  return std::make_shared<Loading>(std::move(tensors), std::move(plan));
}

}  // namespace tenon::session
