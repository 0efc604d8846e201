#include "core/session/compile/variants.h"

#include <algorithm>
#include <cstring>

#include <fmt/ranges.h>

#include "core/base/checked.h"
#include "core/base/errors/failure.h"
#include "core/base/process/log.h"
#include "core/base/str.h"
#include "core/dispatch/placement/properties.h"
#include "core/host/host_interfaces.h"
#include "core/ir/dtype.h"
#include "core/runtime/values/arrays.h"
#include "core/runtime/values/views.h"
#include "core/session/compile/devices.h"
#include "core/session/compile/sizes.h"

namespace tenon::session {
namespace {

constexpr size_t kShownValues = 16;
constexpr size_t kMostByDefault = 8;
constexpr size_t kCasesMost = 64;  // of sizes, for one variant
constexpr const char* kMostSetting = "TENON_VARIANTS_KEPT";

// How many programs of one model are kept.
size_t most_variants() {
  uint64_t number = 0;
  return parse_u64(host::setting(kMostSetting), &number) && number != 0 ? number : kMostByDefault;
}

void append(const void* data, size_t size, std::string* out) {
  out->append(static_cast<const char*>(data), size);
}

// Dims and bytes of the inputs, by shape after the dims of all. False if there is no memory for
// them, which then counts as different values.
bool key_of(std::span<const tenon_array_t* const> arrays, std::span<const uint32_t> inputs,
            bool by_shape, std::string* out) {
  out->clear();
  for (const tenon_array_t* array : arrays) {
    if (by_shape) append(array->dims, array->rank * sizeof(int64_t), out);
  }
  for (uint32_t i : inputs) {
    const tenon_array_t& array = *arrays[i];
    append(array.dims, array.rank * sizeof(int64_t), out);
    const Result<uint64_t> count = element_count({array.dims, array.rank});
    if (!count.ok() || *count > Model::kValuesMax)
      return false;  // no variant has so many; do not copy them
    if (*count == 0) continue;
    if (runtime::is_dense(array)) {
      append(array.data, (*count * ir::dtype_bits(array.dtype) + 7) / 8, out);
    } else {
      const size_t at = out->size();
      out->resize(at + *count * ir::dtype_bits(array.dtype) / 8);
      runtime::pack(array, reinterpret_cast<std::byte*>(out->data() + at));
    }
  }
  return true;
}

// "[2, 3, ...]" for integers; other types only by name.
std::string values_text(const tenon_array_t& array) {
  const Result<uint64_t> count = element_count({array.dims, array.rank});
  if (!count.ok() ||
      (array.dtype != TENON_I64 && array.dtype != TENON_I32 && array.dtype != TENON_F32)) {
    return fmt::format("{} numbers of {}", count.ok() ? *count : 0, ir::dtype_name(array.dtype));
  }
  Result<std::vector<std::byte>> bytes = runtime::dense_bytes(array);
  if (!bytes.ok()) return "?";
  std::string text = "[";
  for (uint64_t i = 0; i < *count; ++i) {
    if (i != 0) text += ", ";
    if (i == kShownValues) return text + "...]";
    if (array.dtype == TENON_I64) {
      int64_t v = 0;
      std::memcpy(&v, bytes->data() + i * sizeof(v), sizeof(v));
      text += std::to_string(v);
    } else if (array.dtype == TENON_I32) {
      int32_t v = 0;
      std::memcpy(&v, bytes->data() + i * sizeof(v), sizeof(v));
      text += std::to_string(v);
    } else {
      float v = 0;
      std::memcpy(&v, bytes->data() + i * sizeof(v), sizeof(v));
      text += fmt::format("{}", v);
    }
  }
  return text + "]";
}

// Whether an input's type has symbolic sizes.
bool is_symbolic(const ir::Graph& graph, uint32_t input) {
  const tenon_type_t& type = graph.type(graph.region(graph.main()).arguments[input]);
  return std::any_of(type.dims, type.dims + type.rank, [](tenon_dim_t d) { return d < 0; });
}

}  // namespace

bool Variant::serves(std::span<const tenon_array_t* const> arrays, std::string* scratch) const {
  if (general() || !key_of(arrays, inputs, by_shape, scratch) || *scratch != key) return false;
  return std::ranges::all_of(cases, [&](const AnsweredCase& answered) {
    const Result<int64_t> value = answered.asked->evaluate_case(arrays);
    return value.ok() && *value == answered.value;
  });
}

Variants::Variants(std::shared_ptr<const Model> model, CompileOptions options, bool by_shape)
    : model_(std::move(model)),
      options_(std::move(options)),
      by_shape_(by_shape),
      most_(most_variants()),
      no_general_(model_->only_by_value()) {
  if (by_shape_ && no_general_.empty()) no_general_ = "a device takes concrete sizes alone";
  for (const ValueInput& input : model_->value_inputs()) inputs_.push_back(input.index);
}

std::string_view Variants::input_name(uint32_t index) const {
  return model_->shapes().inputs()[index].name;
}

Result<std::shared_ptr<Variant>> Variants::choose(std::span<const tenon_array_t* const> arrays,
                                                  bool by_value) {
  for (;;) {
    TENON_ASSIGN_OR_RETURN(std::shared_ptr<Variant> picked, pick(arrays, by_value));
    Result<std::shared_ptr<Variant>> result = compiled(picked, arrays);
    if (!result.ok() && picked->general() && result.status().code() != TENON_CANCELLED) {
      // Its devices do not take it; they may take a variant by value.
      std::lock_guard lock(mutex_);
      no_general_ = result.status().text();
      continue;
    }
    TENON_ASSIGN_OR_RETURN(std::shared_ptr<Variant> chosen, std::move(result));
    // While another thread compiled it, the values of more inputs may have turned out to matter.
    std::string scratch;
    if (chosen->general() || chosen->serves(arrays, &scratch)) return chosen;
  }
}

Result<std::shared_ptr<Variant>> Variants::pick(std::span<const tenon_array_t* const> arrays,
                                                bool by_value) {
  std::lock_guard lock(mutex_);
  std::string scratch;
  for (auto it = variants_.begin(); it != variants_.end(); ++it) {
    if (!(*it)->serves(arrays, &scratch)) continue;
    variants_.splice(variants_.begin(), variants_, it);
    repeated();
    return *it;
  }
  const uint32_t in_a_row = new_in_a_row_.fetch_add(1, std::memory_order_relaxed) + 1;
  const bool many = variants_.size() >= most_ || in_a_row > kNewMost;
  if (!many || by_value || !no_general_.empty()) {
    TENON_RETURN_IF_ERROR(check(arrays, inputs_));  // before existing variants make room
    if (by_shape_) TENON_RETURN_IF_ERROR(check_sizes(arrays, {}));
    return add(arrays, inputs_);
  }
  if (general_ == nullptr) general_ = std::make_shared<Variant>();
  return general_;
}

// Called with the lock held.
std::shared_ptr<Variant> Variants::add(std::span<const tenon_array_t* const> arrays,
                                       std::span<const uint32_t> inputs) {
  auto variant = std::make_shared<Variant>();
  variant->inputs.assign(inputs.begin(), inputs.end());
  variant->by_shape = by_shape_;
  variant->by_case = model_->size_case().has_value();
  (void)key_of(arrays, inputs, by_shape_, &variant->key);
  for (uint32_t i = 0; by_shape_ && i < arrays.size(); ++i) {
    if (is_symbolic(*model_->graph(), i))
      variant->text +=
          fmt::format("{}{} of [{}]", variant->text.empty() ? "" : ", ", printable(input_name(i)),
                      fmt::join(arrays[i]->dims, arrays[i]->dims + arrays[i]->rank, ", "));
  }
  for (uint32_t i : inputs) {
    variant->text += fmt::format("{}{} = {}", variant->text.empty() ? "" : ", ",
                                 printable(input_name(i)), values_text(*arrays[i]));
  }
  variants_.push_front(variant);
  if (variants_.size() > most_) {
    variants_.pop_back();
    if (dropped_++ == 0) {
      log_warning(
          "session",
          "{} ran with more than {} tuples of {}: the programs of the oldest are dropped, and "
          "compiled again when they come back; {}=N keeps N of them",
          quoted(model_->graph()->name()), most_, by_shape_ ? "sizes" : "values", kMostSetting);
    }
  }
  return variant;
}

Status Variants::check_sizes(std::span<const tenon_array_t* const> arrays,
                             std::span<const runtime::GivenSize> sizes) const {
  std::vector<std::span<const int64_t>> dims;
  for (const tenon_array_t* array : arrays) dims.emplace_back(array->dims, array->rank);
  std::vector<runtime::Shapes::Given> given;
  for (const runtime::GivenSize& size : sizes) {
    TENON_ASSIGN_OR_RETURN(const tenon_symbol_t symbol, shapes().size_symbol(size.name));
    given.push_back({symbol, size.value});
  }
  std::vector<int64_t> symbols;
  return shapes().solve(dims, given, {}, &symbols);
}

Result<std::vector<runtime::GivenSize>> Variants::sizes_for(
    const Variant& variant, std::span<const tenon_array_t* const> arrays,
    std::span<const runtime::GivenSize> sizes) const {
  std::vector<runtime::GivenSize> left(sizes.begin(), sizes.end());
  if (!by_shape_ || sizes.empty()) return left;
  TENON_RETURN_IF_ERROR(check_sizes(arrays, sizes));
  const runtime::Shapes& known = variant.program->plan()->shapes;
  std::erase_if(left, [&](const auto& size) { return !known.size_symbol(size.name).ok(); });
  return left;
}

Status Variants::check(std::span<const tenon_array_t* const> arrays,
                       std::span<const uint32_t> inputs) const {
  for (uint32_t i : inputs) {
    TENON_ASSIGN_OR_RETURN(const uint64_t count, element_count({arrays[i]->dims, arrays[i]->rank}));
    if (count <= Model::kValuesMax) continue;
    std::string why;
    for (const ValueInput& input : model_->value_inputs())
      why += input.index == i ? ": " + input.why : "";
    return error(
        TENON_INVALID_ARGUMENT, "T0619",
        "sizes, axes or counts of the model follow from the values of input {}{}; it has {} of "
        "them, and at most {} are compared at every run",
        quoted(input_name(i)), printable(why), count, Model::kValuesMax);
  }
  return {};
}

// Waits for another thread that compiles the same one.
Result<std::shared_ptr<Variant>> Variants::compiled(std::shared_ptr<Variant> variant,
                                                    std::span<const tenon_array_t* const> arrays) {
  {
    std::lock_guard lock(variant->compiling);
    if (variant->program == nullptr) {
      Status status = compile(variant.get(), arrays);
      if (!status.ok()) {
        forget(variant);
        return status;
      }
    }
  }
  variant->runs.fetch_add(1, std::memory_order_relaxed);
  return variant;
}

// A frontend that is given values returns the same model: callers pass arrays for the first one.
static Status check_ports(const Model& first, const Model& again) {
  const auto same = [](const std::vector<runtime::Port>& a, const std::vector<runtime::Port>& b) {
    return std::ranges::equal(a, b, [](const runtime::Port& x, const runtime::Port& y) {
      return x.dtype == y.dtype && x.name == y.name;
    });
  };
  if (same(first.shapes().inputs(), again.shapes().inputs()) &&
      same(first.shapes().outputs(), again.shapes().outputs()))
    return {};
  return error(TENON_INTERNAL, "T0792",
               "the frontend gave a model with other inputs or outputs when it was given values");
}

void Variants::forget(const std::shared_ptr<Variant>& variant) {
  std::lock_guard lock(mutex_);
  variants_.remove(variant);
  if (general_ == variant) general_.reset();
}

// The graph for the variant's values, at its sizes where a device wants them.
Status Variants::compile_at(const Model& model, std::span<const tenon_array_t* const> arrays,
                            Variant* variant) const {
  if (!by_shape_) {
    TENON_ASSIGN_OR_RETURN(variant->program, Program::compile(*model.graph(), options_), "with {}",
                           variant->text);
    return {};
  }
  TENON_ASSIGN_OR_RETURN(const ir::Ref<ir::Graph> concrete,
                         at_sizes(*model.graph(), model.shapes(), arrays), "with {}",
                         variant->text);
  TENON_ASSIGN_OR_RETURN(variant->program, Program::compile(*concrete, options_), "with {}",
                         variant->text);
  return {};
}

// The inputs whose values matter grow by those that a load asked for. The frontend may ask for
// other cases once it knows the values, so it is asked again.
Status Variants::ask_values(const Model& loaded, std::span<const tenon_array_t* const> arrays,
                            Variant* variant) {
  std::vector<uint32_t> inputs = variant->inputs;
  for (const ValueInput& more : loaded.value_inputs()) {
    if (std::find(inputs.begin(), inputs.end(), more.index) == inputs.end())
      inputs.push_back(more.index);
  }
  if (inputs.size() == variant->inputs.size()) {
    return error(TENON_INTERNAL, "T0792",
                 "the frontend asks again for the values of inputs that it was given: {}",
                 loaded.only_by_value());
  }
  TENON_RETURN_IF_ERROR(check(arrays, inputs));
  std::lock_guard lock(mutex_);
  variant->inputs = inputs;
  variant->cases.clear();
  (void)key_of(arrays, inputs, by_shape_, &variant->key);
  inputs_ = std::move(inputs);
  return {};
}

Status Variants::ask_case(std::shared_ptr<const Model> loaded,
                          std::span<const tenon_array_t* const> arrays, Variant* variant) {
  TENON_ASSIGN_OR_RETURN(const int64_t value, loaded->evaluate_case(arrays));
  if (variant->cases.size() == kCasesMost) {
    return error(TENON_INTERNAL, "T0792", "the frontend asks for more than {} cases of sizes: {}",
                 kCasesMost, loaded->size_case()->why);
  }
  std::lock_guard lock(mutex_);
  variant->cases.push_back({std::move(loaded), value});
  return {};
}

// What the variant is for, with the cases of its sizes, for messages.
static std::string with_cases(const Variant& variant) {
  std::string text = variant.text;
  for (const AnsweredCase& answered : variant.cases) {
    text += fmt::format("{}{} being {}", text.empty() ? "" : ", ", answered.asked->size_case()->why,
                        answered.value);
  }
  return text;
}

// The model for the variant's values and sizes. With some of them known, more may turn out to
// matter, and are asked for.
Result<std::shared_ptr<const Model>> Variants::specialised(
    Variant* variant, std::span<const tenon_array_t* const> arrays) {
  std::shared_ptr<const Model> model = model_;
  for (bool first = true;; first = false) {
    if (!first || !variant->inputs.empty()) {
      std::vector<std::string> names;
      std::vector<const tenon_array_t*> values;
      std::vector<int64_t> cases;
      for (uint32_t i : variant->inputs) {
        names.emplace_back(input_name(i));
        values.push_back(arrays[i]);
      }
      for (const AnsweredCase& answered : variant->cases) cases.push_back(answered.value);
      TENON_ASSIGN_OR_RETURN(model, model_->by_value(names, values, cases), "with {}",
                             with_cases(*variant));
      TENON_RETURN_IF_ERROR(check_ports(*model_, *model), "with {}", with_cases(*variant));
    }
    if (model->only_by_value().empty()) return model;
    if (model->size_case()) {
      TENON_RETURN_IF_ERROR(ask_case(model, arrays, variant));
    } else {
      TENON_RETURN_IF_ERROR(ask_values(*model, arrays, variant));
    }
  }
}

Status Variants::compile(Variant* variant, std::span<const tenon_array_t* const> arrays) {
  if (variant->general()) {
    TENON_ASSIGN_OR_RETURN(variant->program, Program::compile(*model_->graph(), options_));
  } else {
    TENON_ASSIGN_OR_RETURN(const std::shared_ptr<const Model> model, specialised(variant, arrays));
    variant->text = with_cases(*variant);
    TENON_RETURN_IF_ERROR(compile_at(*model, arrays, variant));
  }
  std::lock_guard lock(mutex_);
  ++compiled_;
  return {};
}

std::vector<std::shared_ptr<Variant>> Variants::all() const {
  std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<Variant>> out;
  const auto take = [&out](const std::shared_ptr<Variant>& v) {
    if (v == nullptr) return;
    const std::unique_lock compiling(v->compiling, std::try_to_lock);
    if (compiling && v->program != nullptr) out.push_back(v);
  };
  for (const auto& variant : variants_) take(variant);
  take(general_);
  return out;
}

std::string Variants::json() const {
  std::string inputs, rows;
  for (const ValueInput& input : model_->value_inputs()) {
    inputs += fmt::format("{}{{\"input\":{},\"why\":{}}}", inputs.empty() ? "" : ",",
                          json_quoted(input.name), json_quoted(input.why));
  }
  for (const auto& variant : all()) {
    rows +=
        fmt::format("{}{{\"for\":{},\"runs\":{},\"compile_ms\":{:.3f}}}", rows.empty() ? "" : ",",
                    json_quoted(variant->general() ? "all other values" : variant->text),
                    variant->runs.load(), variant->program->compile_ms());
  }
  std::lock_guard lock(mutex_);
  return fmt::format(
      "{{\"inputs\":[{}],\"most\":{},\"compiled\":{},\"dropped\":{},\"general\":{},\"why_not_"
      "general\":{},\"variants\":[{}]}}",
      inputs, most_, compiled_, dropped_, no_general_.empty(), json_quoted(no_general_), rows);
}

// Whether the model has symbolic sizes, and a device that may take part takes concrete ones alone.
static Result<bool> wants_sizes(const Model& model, const CompileOptions& options) {
  const ir::Graph& graph = *model.graph();
  if (graph.region(graph.main()).symbols.empty()) return false;
  TENON_ASSIGN_OR_RETURN(const dispatch::Candidates candidates,
                         candidates_for(options.device, options.no_fallback));
  for (const auto& device : candidates.devices) {
    if ((dispatch::compile_properties(*device) & TENON_COMPILE_STATIC) != 0) return true;
  }
  return false;
}

Result<AnyProgram> compile_model(std::shared_ptr<const Model> model,
                                 const CompileOptions& options) {
  TENON_ASSIGN_OR_RETURN(const bool by_shape, wants_sizes(*model, options));
  if (model->value_inputs().empty() && !model->size_case() && !by_shape) {
    TENON_ASSIGN_OR_RETURN(AnyProgram program, Program::compile(*model->graph(), options));
    return program;
  }
  // Errors of the options are reported now.
  TENON_ASSIGN_OR_RETURN(const dispatch::Candidates candidates,
                         candidates_for(options.device, options.no_fallback));
  TENON_RETURN_IF_ERROR(check_options(options.options, candidates));
  return AnyProgram(std::make_shared<Variants>(std::move(model), options, by_shape));
}

}  // namespace tenon::session
