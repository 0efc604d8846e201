#include "sdk/tools/tenon/execution/inputs.h"

#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <set>

#include <tenon/cpp/dtype.hpp>

#include "sdk/tools/tenon/console/console.h"
#include "sdk/tools/tenon/execution/size_rules.h"

namespace tenon::tools {
namespace {

// One size per symbol of the main region; absent until a file or --dim sets it.
struct Symbol {
  std::string name;
  tenon_symbol_view_t view = {};
  std::optional<int64_t> value;
  std::string decided_by;
};

class Gather {
 public:
  Gather(const Host& host, const Signature& signature, const RunOptions& options, bool random,
         Inputs& inputs)
      : host_(host),
        options_(options),
        random_(random),
        inputs_(inputs),
        graph_(signature.graph),
        info_(signature.info),
        fixed_(signature.fixed_dims) {}

  // The dims of --dim alone, against what the model needs of them.
  int dims_alone() {
    if (int s = look()) return s;
    for (const std::string& text : options_.dims) {
      if (int s = set_dim(text)) return s;
    }
    return check_sizes(
        SizeRules(host_, graph_.get(), static_cast<uint32_t>(symbol_values_.size())));
  }

  int all() {
    if (int s = look()) return s;
    for (const std::string& text : options_.inputs) {
      if (int s = read_input(text)) return s;
    }
    for (const std::string& text : options_.dims) {
      if (int s = set_dim(text)) return s;
    }
    const SizeRules rules(host_, graph_.get(), static_cast<uint32_t>(symbol_values_.size()));
    choose_sizes(rules);
    if (int s = check_sizes(rules)) return s;
    if (int s = fill_missing()) return s;
    return list_sizes();
  }

 private:
  const tenon_host_graph_t& api() const { return *host_.graph; }

  int look() {
    auto view = sized<tenon_graph_view_t>();
    tenon_code_t code = api().graph_view(api().self, graph_.get(), &view);
    main_.size_bytes = sizeof main_;
    if (code == TENON_OK) code = api().region_view(api().self, graph_.get(), view.main, &main_);
    symbol_values_.assign(view.symbol_limit, 0);
    for (uint32_t i = 0; code == TENON_OK && i < main_.symbol_count; ++i) {
      Symbol symbol;
      symbol.view.size_bytes = sizeof symbol.view;
      code = api().symbol_view(api().self, graph_.get(), main_.symbols[i], &symbol.view);
      if (code != TENON_OK) break;
      symbol.name = view_of(symbol.view.name);
      if (symbol.view.lo == symbol.view.hi) symbol.value = symbol.view.lo;
      symbols_.emplace(main_.symbols[i], std::move(symbol));
    }
    return code == TENON_OK ? kOk : report(host_, code);
  }
  std::string view_of(tenon_sym_t sym) const {
    return std::string(view(host_.host->sym_text(host_.host->self, sym)));
  }

  std::vector<std::string> port_names() const {
    std::vector<std::string> names;
    for (uint32_t i = 0; i < info_.input_count; ++i) names.emplace_back(view(info_.inputs[i].name));
    return names;
  }
  const Input* given(std::string_view name) const {
    for (const auto& input : inputs_) {
      if (input->name == name) return input.get();
    }
    return nullptr;
  }

  int read_input(const std::string& text) {
    const auto names = port_names();
    const size_t equals = text.find('=');
    std::string name = text.substr(0, equals),
                file = equals == std::string::npos ? text : text.substr(equals + 1);
    if (equals == std::string::npos) {
      if (names.size() != 1) {
        return fail(kUsage, "T0005", fmt::format("--input {} names no input.", in_quotes(text)),
                    "Write --input NAME=FILE with one of: " + list_names(names));
      }
      name = names[0];
    }
    const auto found = std::find(names.begin(), names.end(), name);
    if (found == names.end()) {
      return fail(
          kUsage, "T0005",
          fmt::format("{} has no input {}{}", in_quotes(options_.model), in_quotes(name),
                      did_you_mean(name, names)),
          names.empty() ? "The model has no inputs." : "Its inputs are: " + list_names(names));
    }
    if (given(name) != nullptr) {
      return fail(kUsage, "T0005", fmt::format("the input {} is given twice.", in_quotes(name)));
    }
    auto input = std::make_unique<Input>(host_, name);
    input->file = file;
    if (int s = read_file(file, *input)) return s;
    const uint32_t index = static_cast<uint32_t>(found - names.begin());
    if (int s = learn_dims(index, *input)) return s;
    inputs_.push_back(std::move(input));
    return kOk;
  }

  // Reads the tensor of that name, or the only one.
  int read_file(const std::string& file, Input& input) {
    struct Found {
      const std::string& wanted;
      Input& input;
      std::vector<std::string> names;
      bool exact = false;
      int status = kOk;
    } found{input.name, input, {}};
    const tenon_file_tensor_sink_t sink = {
        sizeof sink, 0, &found, [](void* self, const tenon_file_tensor_t* tensor) -> tenon_code_t {
          auto& f = *static_cast<Found*>(self);
          const std::string_view name = view(tensor->name);
          const bool exact = name == f.wanted;
          if (exact || f.names.empty()) f.status = f.input.keep(*tensor);
          f.exact = f.exact || exact;
          f.names.emplace_back(name);
          return f.status == kOk ? TENON_OK : TENON_ABORTED;
        }};
    const tenon_code_t code = host_.session->tensors_read(host_.session->self, str(file), &sink);
    if (found.status != kOk) return found.status;
    if (code != TENON_OK) return report(host_, code);
    if (found.names.empty()) {
      return fail(kUsage, "T0005", fmt::format("the file {} holds no tensor.", in_quotes(file)));
    }
    if (!found.exact && found.names.size() > 1) {
      return fail(kUsage, "T0005",
                  fmt::format("the file {} holds {} tensors, and none is named {}.",
                              in_quotes(file), found.names.size(), in_quotes(input.name)),
                  "It has: " + list_names(found.names));
    }
    return kOk;
  }

  // A file sets the dims that are a bare symbol. Everything else is checked when the input is
  // bound.
  int learn_dims(uint32_t index, const Input& input) {
    if (index >= main_.argument_count) return kOk;
    auto value = sized<tenon_value_view_t>();
    if (tenon_code_t code =
            api().value_view(api().self, graph_.get(), main_.arguments[index], &value)) {
      return report(host_, code);
    }
    if (value.type.rank != input.tensor.dims.size()) return kOk;
    for (uint32_t d = 0; d < value.type.rank; ++d) {
      for (auto& [number, symbol] : symbols_) {
        if (value.type.dims[d] >= 0 || symbol.view.dim != value.type.dims[d] || symbol.value)
          continue;
        symbol.value = input.tensor.dims[d];
        symbol.decided_by = input.name;
      }
    }
    return kOk;
  }

  int set_dim(const std::string& text) {
    std::string name;
    int64_t size = 0;
    if (int s = parse_dim(text, name, size)) return s;
    std::vector<std::string> names;
    // The frontend fixed it when the model was loaded.
    if (std::ranges::find(fixed_, name) != fixed_.end()) return kOk;
    for (auto& [number, symbol] : symbols_) {
      names.push_back(symbol.name);
      if (symbol.name == name) return decide(symbol, size);
    }
    return fail(kUsage, "T0006",
                fmt::format("{} has no symbolic dim {}{}", in_quotes(options_.model),
                            in_quotes(name), did_you_mean(name, names)),
                names.empty() ? "All its dims are constant."
                              : "Its symbolic dims are: " + list_names(names));
  }

  int decide(Symbol& symbol, int64_t size) {
    if (symbol.value && *symbol.value != size) {
      return fail(
          kUsage, "T0006",
          fmt::format(
              "the dim {} is {}{}, but --dim says {}.", in_quotes(symbol.name), *symbol.value,
              symbol.decided_by.empty() ? "" : " by the input " + in_quotes(symbol.decided_by),
              size));
    }
    if (size < symbol.view.lo || size > symbol.view.hi ||
        size % std::max<int64_t>(symbol.view.multiple_of, 1) != 0) {
      std::string rule = fmt::format("at least {}", symbol.view.lo);
      if (symbol.view.hi != INT64_MAX) rule += fmt::format(", at most {}", symbol.view.hi);
      if (symbol.view.multiple_of > 1)
        rule += fmt::format(", a multiple of {}", symbol.view.multiple_of);
      return fail(
          kUsage, "T0006",
          fmt::format("the dim {} cannot be {}: it is {}.", in_quotes(symbol.name), size, rule));
    }
    symbol.value = size;
    symbol.decided_by = "--dim";
    return kOk;
  }

  // Sizes that are no dim of an input.
  int list_sizes() {
    std::set<tenon_dim_t> dims;
    for (uint32_t i = 0; i < main_.argument_count; ++i) {
      auto value = sized<tenon_value_view_t>();
      if (tenon_code_t code =
              api().value_view(api().self, graph_.get(), main_.arguments[i], &value)) {
        return report(host_, code);
      }
      dims.insert(value.type.dims, value.type.dims + value.type.rank);
    }
    for (const auto& [number, symbol] : symbols_) {
      if (symbol.value && !dims.contains(symbol.view.dim))
        inputs_.sizes.emplace_back(symbol.name, *symbol.value);
    }
    return kOk;
  }

  // Sizes of random inputs that the user did not give: likely ones that satisfy the model.
  void choose_sizes(const SizeRules& rules) {
    if (!random_ || inputs_.size() == info_.input_count) return;
    SizeRules::Sizes sizes;
    std::vector<tenon_symbol_t> free;
    for (const auto& [number, symbol] : symbols_) {
      sizes[number] = symbol.value ? *symbol.value : likely_size(symbol.view);
      if (!symbol.value) free.push_back(number);
    }
    rules.choose(free, &sizes);
    for (const tenon_symbol_t number : free) {
      Symbol& symbol = symbols_.at(number);
      symbol.value = sizes[number];
      assumed_ +=
          fmt::format("{}{}={}", assumed_.empty() ? "" : ", ", safe(symbol.name), *symbol.value);
    }
  }

  // Before anything is compiled: a size that the model cannot take is explained in words.
  int check_sizes(const SizeRules& rules) {
    SizeRules::Sizes sizes;
    for (const auto& [number, symbol] : symbols_) {
      if (symbol.value) sizes[number] = *symbol.value;
    }
    const auto broken = rules.broken(sizes);
    if (!broken) return kOk;
    const Symbol& symbol = symbols_.at(broken->symbol);
    std::string by;
    if (symbol.decided_by == "--dim")
      by = " by --dim";
    else if (!symbol.decided_by.empty())
      by = " by the input " + in_quotes(symbol.decided_by);
    return fail(
        kUsage, "T0607",
        fmt::format("the dim {} must be {}, and is {}{}{}.", in_quotes(symbol.name), broken->rule,
                    broken->size, by, broken->place.empty() ? "" : ", at " + broken->place));
  }

  int fill_missing() {
    std::vector<uint32_t> missing;
    std::vector<std::string> names;
    for (uint32_t i = 0; i < info_.input_count; ++i) {
      if (given(view(info_.inputs[i].name)) != nullptr) continue;
      missing.push_back(i);
      names.emplace_back(view(info_.inputs[i].name));
    }
    if (missing.empty()) return kOk;
    if (!random_) {
      return fail(
          kUsage, "T0005",
          fmt::format("{} given no value: {}.",
                      missing.size() == 1 ? "an input was" : "inputs were", list_names(names)),
          "Give --input NAME=FILE for each, or --seed N for random values.");
    }
    for (auto& [number, symbol] : symbols_) {
      if (number < symbol_values_.size()) symbol_values_[number] = *symbol.value;
    }
    if (!assumed_.empty())
      talk("tenon: random inputs with {}; --dim NAME=N sets another size\n", assumed_);
    for (const uint32_t index : missing) {
      if (int s = make_random(index)) return s;
    }
    return kOk;
  }

  // The hint, or the smallest allowed size of at least 1.
  static int64_t likely_size(const tenon_symbol_view_t& symbol) {
    if (symbol.hint >= 0) return symbol.hint;
    const int64_t step = std::max<int64_t>(symbol.multiple_of, 1);
    const int64_t least = std::min(std::max<int64_t>(symbol.lo, 1), symbol.hi);
    return std::min((least + step - 1) / step * step, symbol.hi);
  }

  int make_random(uint32_t index) {
    auto value = sized<tenon_value_view_t>();
    tenon_code_t code = api().value_view(api().self, graph_.get(), main_.arguments[index], &value);
    std::vector<int64_t> dims(value.type.rank);
    for (uint32_t d = 0; code == TENON_OK && d < value.type.rank; ++d) {
      code = api().dim_evaluate(api().self, graph_.get(), value.type.dims[d], symbol_values_.data(),
                                static_cast<uint32_t>(symbol_values_.size()), &dims[d]);
    }
    if (code != TENON_OK) return report(host_, code);
    auto input = std::make_unique<Input>(host_, std::string(view(info_.inputs[index].name)));
    if (int s = input->randomize(value.type.dtype, std::move(dims), options_.seed, index)) return s;
    inputs_.push_back(std::move(input));
    return kOk;
  }

  const Host& host_;
  const RunOptions& options_;
  bool random_;
  Inputs& inputs_;
  const Graph& graph_;
  const tenon_model_info_t& info_;
  const std::vector<std::string>& fixed_;
  tenon_region_view_t main_ = {};
  std::map<uint32_t, Symbol> symbols_;
  std::vector<int64_t> symbol_values_;
  std::string assumed_;  // "n=1, m=32"
};

}  // namespace

Input::~Input() {
  if (blob_ != nullptr) host_->graph->blob_release(host_->graph->self, blob_);
  free(memory_);
}

int Input::keep(const tenon_file_tensor_t& from) {
  const void* data = nullptr;
  uint64_t size = 0;
  if (tenon_code_t code = host_->graph->blob_data(host_->graph->self, from.blob, &data, &size)) {
    return report(*host_, code);
  }
  host_->graph->blob_retain(host_->graph->self, from.blob);
  if (blob_ != nullptr) host_->graph->blob_release(host_->graph->self, blob_);
  blob_ = from.blob;
  tensor = {from.dtype, std::vector<int64_t>(from.dims, from.dims + from.rank),
            static_cast<const unsigned char*>(data)};
  return kOk;
}

int Input::randomize(tenon_dtype_t dtype, std::vector<int64_t> dims, uint64_t seed,
                     uint64_t stream) {
  int64_t count = 1, bits = 0;
  bool overflow = false;
  for (const int64_t dim : dims) overflow |= dim < 0 || __builtin_mul_overflow(count, dim, &count);
  overflow |= __builtin_mul_overflow(count, static_cast<int64_t>(dtype_bits(dtype)), &bits);
  const int64_t physical = static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
  tensor = {dtype, std::move(dims), nullptr};
  if (dtype_bits(dtype) == 0) {
    return fail(
        kUsage, "T0005",
        fmt::format("the input {} is not a tensor, so it cannot be random.", in_quotes(name)));
  }
  // Allocating more than the machine has would end the process rather than the command.
  if (!overflow && bits / 8 <= physical) memory_ = malloc(static_cast<size_t>(bits / 8 + 8));
  if (memory_ == nullptr) {
    return fail(kUsage, "T0111",
                fmt::format("random values for the input {} of type {} exceed the limit of this "
                            "machine's memory, {} "
                            "bytes.",
                            in_quotes(name), type_text(tensor), physical));
  }
  tensor.data = static_cast<const unsigned char*>(memory_);
  fill_random(dtype, seed, stream, count, static_cast<unsigned char*>(memory_));
  return kOk;
}

int parse_dim(const std::string& text, std::string& name, int64_t& size) {
  const size_t equals = text.find('=');
  const char* begin = text.data() + (equals == std::string::npos ? text.size() : equals + 1);
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(begin, end, size);
  if (equals == std::string::npos || error != std::errc() || rest != end || begin == end ||
      size < 0) {
    return fail(
        kUsage, "T0006",
        fmt::format("--dim {} is not NAME=N with a whole N of at least 0.", in_quotes(text)));
  }
  name = text.substr(0, equals);
  return kOk;
}

int signature_of(const Host& host, const Model& model, Signature& out) {
  tenon_code_t code = host.session->model_info(host.session->self, model.get(), &out.info);
  if (code == TENON_OK)
    code = host.session->model_graph(host.session->self, model.get(), out.graph.out());
  return code == TENON_OK ? kOk : report(host, code);
}

int signature_of(const Host& host, const Program& program, Signature& out) {
  tenon_code_t code = host.packages->ports(host.packages->self, program.get(), &out.info);
  if (code == TENON_OK)
    code = host.packages->signature(host.packages->self, program.get(), out.graph.out());
  return code == TENON_OK ? kOk : report(host, code);
}

int check_dims(const Host& host, const Signature& signature, const RunOptions& options) {
  Inputs none;
  return Gather(host, signature, options, false, none).dims_alone();
}

int gather_inputs(const Host& host, const Signature& signature, const RunOptions& options,
                  bool random, Inputs& inputs) {
  return Gather(host, signature, options, random, inputs).all();
}

}  // namespace tenon::tools
