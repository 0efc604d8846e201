#include "core/runtime/run/sizes.h"

#include <algorithm>

#include "core/base/checked.h"
#include "core/base/str.h"
#include "core/ir/dtype.h"

namespace tenon::runtime {

// Inputs with the dims of the run before have its symbols. Ranks are the model's, so a list of all
// dims is enough to compare.
Status Sizes::solve(std::span<const Argument> inputs, std::span<const GivenSize> sizes) {
  std::vector<int64_t>& all = scratch_;
  all.clear();
  for (const Argument& input : inputs)
    all.insert(all.end(), input.array->dims, input.array->dims + input.array->rank);
  std::vector<Shapes::Given> given;
  for (const GivenSize& size : sizes) {
    TENON_ASSIGN_OR_RETURN(const tenon_symbol_t symbol, plan_.shapes.size_symbol(size.name));
    given.push_back({symbol, size.value});
    all.insert(all.end(), {int64_t{symbol}, size.value});
  }
  const bool known = solved_ && all == solved_dims_;
  if (!known) {
    std::vector<std::span<const int64_t>> dims;
    for (const Argument& input : inputs) dims.emplace_back(input.array->dims, input.array->rank);
    solved_ = false;
    TENON_RETURN_IF_ERROR(plan_.shapes.solve(dims, given, plan_.needed, &solved_symbols_));
    solved_dims_ = all;
    solved_ = true;
  }
  if (!known || learned_) bytes_.assign(bytes_.size(), kUnknownBytes);
  symbols_ = solved_symbols_;
  set_.assign(plan_.shapes.symbol_limit(), false);
  learned_ = false;
  return {};
}

Status Sizes::learn(const Step& step, std::span<const int64_t> values) {
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] < 0)
      return error(TENON_INTERNAL, "T0612", "device {} left a data-dependent dim unset",
                   quoted(plan_.devices[step.device]->name()));
    symbols_[step.out_symbols[i]] = values[i];
    set_[step.out_symbols[i]] = true;
  }
  bytes_.assign(bytes_.size(), kUnknownBytes);
  learned_ = true;
  // Later steps rely on the assertions about these sizes.
  return plan_.shapes.check_set(step.out_symbols, set_, symbols_);
}

Result<uint64_t> Sizes::bytes_of(uint32_t slot) {
  if (bytes_[slot] == kUnknownBytes) {
    TENON_RETURN_IF_ERROR(dims_of(slot, &scratch_));
    TENON_ASSIGN_OR_RETURN(const uint64_t count, element_count(scratch_));
    TENON_ASSIGN_OR_RETURN(bytes_[slot],
                           packed_bytes(count, ir::dtype_bits(plan_.slots[slot].dtype)));
  }
  return bytes_[slot];
}

// Those of the run before, without asking, where its sizes are these.
Result<const Sizes::OfStep*> Sizes::of(const Step& step) {
  OfStep& last = steps_[step.executable];
  const auto value = [this](tenon_symbol_t symbol) { return symbols_[symbol]; };
  if (last.needs == nullptr || !std::ranges::equal(last.symbols, step.symbols, {}, {}, value)) {
    last.needs = nullptr;
    last.symbols.clear();
    for (const tenon_symbol_t symbol : step.symbols) last.symbols.push_back(value(symbol));
    TENON_ASSIGN_OR_RETURN(last.needs, plan_.executables[step.executable]->needs(last.symbols));
  }
  return &last;
}

}  // namespace tenon::runtime
