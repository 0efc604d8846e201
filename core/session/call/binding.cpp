#include "core/session/call/binding.h"

#include <tenon/cpp/record.hpp>

#include <algorithm>

#include "core/base/process/float_state.h"
#include "core/base/str.h"
#include "core/ir/dtype.h"

namespace tenon::session {
namespace {

std::vector<std::string> names_of(std::span<const runtime::Port> ports) {
  std::vector<std::string> names;
  for (const runtime::Port& port : ports) names.push_back(port.name);
  return names;
}

Status unknown_port(std::string_view what, std::string_view name,
                    std::span<const runtime::Port> ports) {
  const std::vector<std::string> names = names_of(ports);
  return error(TENON_NOT_FOUND, "T0602", "there is no {} {}{} ({}s: {})", what, quoted(name),
               did_you_mean(name, names), what, names.empty() ? "none" : join_names(names));
}

}  // namespace

Binding::Binding(AnyProgram program)
    : program_(std::move(program)),
      shapes_(std::visit([](const auto& p) -> const runtime::Shapes& { return p->shapes(); },
                         program_)),
      inputs_(shapes_.inputs().size()) {
  const auto* planned = std::get_if<std::shared_ptr<Program>>(&program_);
  if (planned == nullptr) return;
  chosen_.push_back({nullptr, std::make_unique<runtime::Runner>((*planned)->plan())});
  runner_ = chosen_[0].runner.get();
}
Binding::~Binding() = default;

// Symbols that two inputs share must agree: reported when the second is bound, not at the run.
Status Binding::check_against_bound(size_t index, const tenon_array_t& array) const {
  const std::vector<runtime::Port>& ports = shapes_.inputs();
  for (uint32_t i = 0; i < array.rank; ++i) {
    const auto known = places_.find(ports[index].dims[i]);
    if (known == places_.end()) continue;
    const auto [other, j] = known->second;
    if (inputs_[other].dims[j] == array.dims[i]) continue;
    return error(TENON_INVALID_ARGUMENT, "T0606",
                 "dim {} of input {} is {}, expected {}: it is `{}`, as dim {} of input {}", i,
                 quoted(ports[index].name), array.dims[i], inputs_[other].dims[j],
                 ports[index].dim_texts[i], j, quoted(ports[other].name));
  }
  return {};
}

void Binding::note_places(size_t index) {
  const std::vector<tenon_dim_t>& dims = shapes_.inputs()[index].dims;
  for (uint32_t i = 0; i < dims.size(); ++i) {
    if (dims[i] < 0) places_.try_emplace(dims[i], index, i);
  }
}

// Other inputs may share sizes that were noted for this one, so theirs are noted again.
void Binding::unbind(size_t index) {
  inputs_[index].bound = false;
  if (std::none_of(places_.begin(), places_.end(),
                   [&](const auto& known) { return known.second.first == index; }))
    return;
  places_.clear();
  for (size_t other = 0; other < inputs_.size(); ++other) {
    if (inputs_[other].bound) note_places(other);
  }
}

Status Binding::bind_input(std::string_view name, const tenon_array_t& array) {
  const std::optional<uint32_t> place = shapes_.input(name);
  if (!place) return unknown_port("input", name, shapes_.inputs());
  TENON_RETURN_IF_ERROR(shapes_.check_input(*place, array));
  // Another array of the same input replaces the one before, so that a whole new set of sizes can
  // be bound in turn.
  Input& input = inputs_[*place];
  if (input.bound && !ran_) unbind(*place);
  input.bound = false;
  TENON_RETURN_IF_ERROR(ran_ ? Status() : check_against_bound(*place, array));
  input.dims.assign(array.dims, array.dims + array.rank);
  input.strides.clear();
  if (array.strides_bytes != nullptr)
    input.strides.assign(array.strides_bytes, array.strides_bytes + array.rank);
  input.array = array;
  input.array.dims = input.dims.data();
  input.array.strides_bytes = input.strides.empty() ? nullptr : input.strides.data();
  input.bound = true;
  if (!ran_) note_places(*place);
  return {};
}

// As the run before, if the arrays have its types.
std::optional<Status> Binding::run_again() {
  runtime::Repeat* const repeat = runner_ == nullptr ? nullptr : runner_->repeat();
  const auto* const program = std::get_if<std::shared_ptr<Program>>(&program_);
  if (repeat == nullptr || !repeat->ready() || program == nullptr) return std::nullopt;
  if ((*program)->loadings() != nullptr || !sizes_.empty()) return std::nullopt;
  for (uint32_t i = 0; i < inputs_.size(); ++i) {
    if (inputs_[i].bound && repeat->take(i, inputs_[i].array)) continue;
    repeat->forget();
    return std::nullopt;
  }
  const FloatScope floats(region_float_control());
  return runner_->run_again(timed_);
}

Status Binding::run() {
  if (std::optional<Status> status = run_again()) return std::move(*status);
  std::vector<std::string> missing;
  std::vector<const tenon_array_t*> arrays;
  const std::vector<runtime::Port>& ports = shapes_.inputs();
  for (size_t i = 0; i < inputs_.size(); ++i) {
    arrays.push_back(&inputs_[i].array);
    if (!inputs_[i].bound) {
      missing.push_back(fmt::format("{}: {}[{}]", quoted(ports[i].name),
                                    ir::dtype_name(ports[i].dtype),
                                    join_names(ports[i].dim_texts)));
    }
  }
  if (!missing.empty()) {
    return error(TENON_INVALID_ARGUMENT, "T0601", "{} of {} inputs are not bound: {}",
                 missing.size(), inputs_.size(), join_names(missing));
  }
  ran_ = true;
  // Whatever rounding mode the caller has set, results are those of IEEE 754's defaults; the
  // caller's state is restored.
  const FloatScope floats(region_float_control());
  const auto* variants = std::get_if<std::shared_ptr<Variants>>(&program_);
  return variants == nullptr ? run_with(arrays, sizes_) : run_variant(**variants, arrays);
}

Status Binding::run_with(std::span<const tenon_array_t* const> arrays,
                         std::span<const runtime::GivenSize> sizes) {
  arguments_.clear();
  for (const tenon_array_t* array : arrays) arguments_.push_back({array});
  TENON_RETURN_IF_ERROR(load());
  return runner_->run(arguments_, {}, sizes);
}

// Arrays have no identity, so what was loaded for the last run serves no other.
Status Binding::load() {
  Chosen& chosen = chosen_[0];
  const Program& program = chosen.variant != nullptr
                               ? *chosen.variant->program
                               : *std::get<std::shared_ptr<Program>>(program_);
  if (program.loadings() == nullptr) return {};
  uint64_t packed_bytes = 0;
  TENON_ASSIGN_OR_RETURN(const std::shared_ptr<Loading> loading,
                         program.loadings()->choose(program.segments(), arguments_, &packed_bytes));
  chosen.runner = std::make_unique<runtime::Runner>(loading->plan);
  chosen.runner->set_trace(profile_ ? trace_ : nullptr);
  runner_ = chosen.runner.get();
  return {};
}

Status Binding::bind_size(std::string_view name, int64_t value) {
  TENON_RETURN_IF_ERROR(shapes_.size_symbol(name).status());
  given_sizes_.insert_or_assign(std::string(name), value);
  sizes_.clear();
  for (const auto& [given, size] : given_sizes_) sizes_.push_back({given, size});
  return {};
}

// With the variant that was chosen last.
Status Binding::run_chosen(const Variants& variants, std::span<const tenon_array_t* const> arrays) {
  if (sizes_.empty()) return run_with(arrays, sizes_);
  TENON_ASSIGN_OR_RETURN(const std::vector<runtime::GivenSize> sizes,
                         variants.sizes_for(*chosen_[0].variant, arrays, sizes_));
  return run_with(arrays, sizes);
}

// The general variant has a smaller reach than those by value: sizes that it refuses (-1, or 0 as
// "keep") may mean something to them.
Status Binding::run_variant(Variants& variants, std::span<const tenon_array_t* const> arrays) {
  if (!chosen_.empty() && chosen_[0].variant->serves(arrays, &scratch_)) {
    variants.repeated();
    chosen_[0].variant->runs.fetch_add(1, std::memory_order_relaxed);
    runner_ = chosen_[0].runner.get();
    return run_chosen(variants, arrays);
  }
  runner_ = nullptr;
  TENON_ASSIGN_OR_RETURN(std::shared_ptr<Variant> variant, variants.choose(arrays, false));
  const bool general = variant->general();
  runner_ = runner_of(std::move(variant));
  Status status = run_chosen(variants, arrays);
  const bool refused =
      status.code() == TENON_INVALID_ARGUMENT || status.code() == TENON_OUT_OF_RANGE;
  if (!general || status.ok() || !refused) return status;
  runner_ = nullptr;
  TENON_ASSIGN_OR_RETURN(variant, variants.choose(arrays, true));
  runner_ = runner_of(std::move(variant));
  return run_chosen(variants, arrays);
}

runtime::Runner* Binding::runner_of(std::shared_ptr<Variant> variant) {
  const auto at = std::find_if(chosen_.begin(), chosen_.end(),
                               [&](const Chosen& c) { return c.variant == variant; });
  if (at == chosen_.end()) {
    if (chosen_.size() == kRunnersMost) chosen_.pop_back();
    auto runner = std::make_unique<runtime::Runner>(variant->program->plan());
    runner->set_trace(profile_ ? trace_ : nullptr);
    chosen_.insert(chosen_.begin(), Chosen{std::move(variant), std::move(runner)});
  } else {
    std::rotate(chosen_.begin(), at, at + 1);
  }
  return chosen_[0].runner.get();
}

Status Binding::output(std::string_view name, tenon_array_t* out) const {
  const std::vector<runtime::Port>& ports = shapes_.outputs();
  const std::optional<uint32_t> place = shapes_.output(name);
  if (!place) return unknown_port("output", name, ports);
  if (runner_ == nullptr || runner_->outputs().size() != ports.size()) {
    return error(TENON_FAILED_PRECONDITION, "T0614",
                 "output {} has no value yet: the program has not run, or its run failed",
                 quoted(name));
  }
  const runtime::OutputArray& array = runner_->outputs()[*place];
  *out = {};
  out->size_bytes = sizeof(*out);
  out->dtype = array.dtype;
  out->rank = static_cast<uint32_t>(array.dims.size());
  out->data = const_cast<void*>(array.data);
  out->dims = array.dims.data();
  return {};
}

tenon_run_info_t Binding::run_info() {
  timed_ = true;
  auto info = sized<tenon_run_info_t>();
  if (runner_ == nullptr) return info;
  const runtime::RunStatistics& s = runner_->statistics();
  info.arena_bytes = s.arena_bytes;
  info.arena_lower_bound_bytes = s.arena_lower_bound_bytes;
  info.transferred_bytes = s.transferred_bytes;
  info.run_ms = s.run_ms;
  info.direct_bytes = s.direct_bytes;
  info.filled_bytes = s.filled_bytes;
  return info;
}

void Binding::enable_profile(bool on) {
  if (on) trace_->clear();
  profile_ = on;
  for (const Chosen& chosen : chosen_) chosen.runner->set_trace(on ? trace_ : nullptr);
}

}  // namespace tenon::session
