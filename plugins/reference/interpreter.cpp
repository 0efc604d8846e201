#include "interpreter.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "device.h"

namespace tenon::reference {
namespace {

constexpr uint32_t kNever = 0xffffffffu;
// A data-dependent output that may be larger than this gets its buffer when its size is known.
constexpr int64_t kDataDependentBytes = int64_t{1} << 20;

tenon_node_view_t node_view(tenon_graph_t* graph, tenon_node_t node) {
  return Node(graph, node).view();
}
tenon_value_view_t value_view(tenon_graph_t* graph, tenon_value_t value) {
  return Value(graph, value).view();
}

uint64_t now_ns() {
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                   std::chrono::steady_clock::now().time_since_epoch())
                                   .count());
}

uint64_t bytes_of(tenon_dtype_t dtype, std::span<const int64_t> dims) {
  uint64_t bits = dtype_bits(dtype);
  for (int64_t dim : dims) bits *= static_cast<uint64_t>(dim);
  return (bits + 7) / 8;
}

}  // namespace

const tenon_host_registry_t& registry() {
  static const auto* table = context().query<tenon_host_registry_t>(TENON_HOST_REGISTRY_ID);
  return *table;
}

// ---- Loading ----

Status Interpreter::load(const ArtifactView& artifact, std::span<tenon_blob_t* const> constants,
                         std::unique_ptr<Interpreter>* out) {
  const Blob blob = Blob::bytes(artifact.graph.data(), artifact.graph.size());
  if (!blob) return TENON_RESOURCE_EXHAUSTED;
  std::unique_ptr<Interpreter> made(new Interpreter());
  TENON_TRY(made->read(blob.get()));
  if (artifact.ordinals.size() > made->main_.argument_count) {
    return fail(TENON_FAILED_PRECONDITION,
                "The artifact names more constants than its graph has arguments.");
  }
  made->input_count_ = made->main_.argument_count - static_cast<uint32_t>(artifact.ordinals.size());
  for (size_t i = 0; i < artifact.ordinals.size() && !constants.empty(); ++i) {
    tenon_blob_t* constant = constants[artifact.ordinals[i]];
    made->given_.push_back(Blob::retain(constant));
    const tenon_type_t type =
        value_view(made->graph_, made->main_.arguments[made->input_count_ + i]).type;
    const uint64_t size = blob_bytes(constant).size();
    if (size != bytes_of(type.dtype, {type.dims, type.rank})) {
      return fail(TENON_INVALID_ARGUMENT, cat("Constant ", artifact.ordinals[i], " has ", size,
                                              " bytes, which are not those of its type."));
    }
    made->constant_bytes_ += size;
  }
  *out = std::move(made);
  return {};
}

Status Interpreter::read(tenon_blob_t* bytes) {
  const tenon_host_graph_t& api = graph_api();
  TENON_TRY(api.graph_read(api.self, bytes, str("an artifact of the reference device"), nullptr,
                           &graph_));
  api.freeze(api.self, graph_);
  whole_.size_bytes = sizeof whole_;
  main_.size_bytes = sizeof main_;
  TENON_TRY(api.graph_view(api.self, graph_, &whole_));
  TENON_TRY(api.region_view(api.self, graph_, whole_.main, &main_));
  find_last_uses();
  for (tenon_value_t v = 0; v < whole_.value_limit; ++v) {
    const tenon_value_view_t view = value_view(graph_, v);
    if (view.kind == TENON_VALUE_CONSTANT) constant_bytes_ += blob_bytes(view.blob).size();
  }
  return {};
}

Interpreter::~Interpreter() {
  if (graph_ != nullptr) graph_api().release(graph_api().self, graph_);
}

// The operands of a node, and the captures of its regions.
std::vector<tenon_value_t> Interpreter::reads_of(const tenon_node_view_t& node) const {
  std::vector<tenon_value_t> reads(node.operands, node.operands + node.operand_count);
  for (uint32_t i = 0; i < node.region_count; ++i) {
    auto region = sized<tenon_region_view_t>();
    if (graph_api().region_view(graph_api().self, graph_, node.regions[i], &region) != TENON_OK)
      continue;
    reads.insert(reads.end(), region.captures, region.captures + region.capture_count);
  }
  return reads;
}

void Interpreter::find_last_uses() {
  last_use_.assign(whole_.value_limit, kNever);
  std::vector<bool> mentioned(whole_.symbol_limit, false);
  for (uint32_t i = 0; i < main_.node_count; ++i) {
    const tenon_node_view_t node = node_view(graph_, main_.nodes[i]);
    for (tenon_value_t v : reads_of(node)) {
      if (v != TENON_NONE) last_use_[v] = i;
    }
  }
  for (uint32_t i = 0; i < main_.yield_count; ++i) {
    last_use_[main_.yields[i]] = kNever;
    const tenon_value_view_t view = value_view(graph_, main_.yields[i]);
    for (tenon_symbol_t s : TypeView(graph_, view.type).symbols()) mentioned[s] = true;
  }
  for (uint32_t i = 0; i < main_.node_count; ++i) {
    const tenon_node_view_t node = node_view(graph_, main_.nodes[i]);
    for (uint32_t s = 0; s < node.symbol_count; ++s) {
      if (mentioned[node.symbols[s]]) out_symbols_.push_back(node.symbols[s]);
    }
  }
}

// ---- Sizes ----

std::vector<int64_t> Interpreter::symbol_values(tenon_symbols_t symbols) const {
  std::vector<int64_t> values(whole_.symbol_limit, 0);
  for (uint32_t i = 0; i < main_.symbol_count && i < symbols.count; ++i)
    values[main_.symbols[i]] = symbols.values[i];
  return values;
}

Status Interpreter::dims_of(const tenon_type_t& type, const std::vector<int64_t>& symbols,
                            std::vector<int64_t>* out) const {
  out->resize(type.rank);
  for (uint32_t i = 0; i < type.rank; ++i) {
    TENON_TRY(graph_api().dim_evaluate(graph_api().self, graph_, type.dims[i], symbols.data(),
                                       static_cast<uint32_t>(symbols.size()), &(*out)[i]));
  }
  return {};
}

bool Interpreter::mentions(const tenon_type_t& type, const std::vector<bool>& symbols) const {
  const std::vector<tenon_symbol_t> mentioned = TypeView(graph_, type).symbols();
  return std::any_of(mentioned.begin(), mentioned.end(),
                     [&](tenon_symbol_t s) { return symbols[s]; });
}

// Whether such symbols occur in a dim that is more than one symbol: the largest symbols then need
// not give the largest size.
bool Interpreter::mixes(const tenon_type_t& type, const std::vector<bool>& symbols) const {
  for (uint32_t i = 0; i < type.rank; ++i) {
    auto view = sized<tenon_dim_view_t>();
    const bool plain =
        type.dims[i] >= 0 ||
        (graph_api().dim_view(graph_api().self, graph_, type.dims[i], &view) == TENON_OK &&
         view.op == TENON_DIM_SYMBOL);
    tenon_type_t one{};
    one.rank = 1;
    one.dims = &type.dims[i];
    if (!plain && mentions(one, symbols)) return true;
  }
  return false;
}

// By symbol: known only in a run.
std::vector<bool> Interpreter::data_dependent_symbols() const {
  std::vector<bool> data_dependent(whole_.symbol_limit, false);
  for (tenon_symbol_t s : out_symbols_) data_dependent[s] = true;
  return data_dependent;
}

Status Interpreter::needs(tenon_symbols_t symbols, tenon_needs_t* out) const {
  if (symbols.count != main_.symbol_count || out->output_count != main_.yield_count) {
    return fail(TENON_INVALID_ARGUMENT, cat("The graph has ", main_.symbol_count, " symbols and ",
                                            main_.yield_count, " outputs; sizes were asked for ",
                                            symbols.count, " and ", out->output_count, "."));
  }
  std::vector<int64_t> values = symbol_values(symbols);
  const std::vector<bool> data_dependent = data_dependent_symbols();
  std::vector<bool> unbounded(whole_.symbol_limit, false);
  for (tenon_symbol_t s : out_symbols_) {
    auto view = sized<tenon_symbol_view_t>();
    TENON_TRY(graph_api().symbol_view(graph_api().self, graph_, s, &view));
    unbounded[s] = view.hi > kDataDependentBytes;
    values[s] = unbounded[s] ? 0 : view.hi;
  }
  for (uint32_t i = 0; i < main_.yield_count; ++i) {
    const tenon_value_view_t value = value_view(graph_, main_.yields[i]);
    std::vector<int64_t> dims;
    TENON_TRY(dims_of(value.type, values, &dims));
    std::copy(dims.begin(), dims.end(), tenon_need(out, i)->dims);
    const uint64_t bytes = bytes_of(value.type.dtype, dims);
    const bool is_data_dependent = mentions(value.type, unbounded) ||
                                   mixes(value.type, data_dependent) ||
                                   (bytes > static_cast<uint64_t>(kDataDependentBytes) &&
                                    mentions(value.type, data_dependent));
    tenon_need(out, i)->size_bytes_max = is_data_dependent ? TENON_SIZE_UNKNOWN : bytes;
    tenon_need(out, i)->alias_input = TENON_NO_ALIAS;
  }
  out->workspace_bytes = 0;  // intermediate arrays are allocated by the host
  out->lower_bound_bytes = 0;
  return {};
}

// ---- Running ----

struct Interpreter::Values {
  explicit Values(uint32_t count) : arrays(count), shapes(count), owned(count, false) {}
  ~Values() {
    for (size_t v = 0; v < arrays.size(); ++v) drop(v);
  }
  void drop(size_t v) {
    if (owned[v]) registry().array_free(registry().self, &arrays[v]);
    owned[v] = false;
    arrays[v] = {};
  }
  // Binds a value to a dense array in memory that is not owned.
  void put(tenon_value_t v, tenon_dtype_t dtype, const std::vector<int64_t>& dims, void* data) {
    const size_t rank = dims.size();
    shapes[v] = dims;
    shapes[v].resize(rank * 2);
    int64_t stride = dtype_bits(dtype) / 8;
    for (size_t i = rank; i-- > 0; stride *= std::max<int64_t>(dims[i], 1))
      shapes[v][rank + i] = stride;
    arrays[v] = {};
    arrays[v].size_bytes = sizeof(tenon_array_t);
    arrays[v].dtype = dtype;
    arrays[v].rank = static_cast<uint32_t>(rank);
    arrays[v].data = data;
    arrays[v].dims = shapes[v].data();
    arrays[v].strides_bytes = shapes[v].data() + rank;
  }
  std::vector<tenon_array_t> arrays;
  std::vector<std::vector<int64_t>> shapes;  // dims, then strides
  std::vector<bool> owned;
};

namespace {
void* data_of(const tenon_span_t& span) {
  return buffer_of(span.buffer)->data + span.offset_bytes;
}
}  // namespace

Status Interpreter::check_call(const tenon_call_t& call) const {
  if (call.input_count == input_count_ && call.output_count == main_.yield_count &&
      call.symbols.count == main_.symbol_count)
    return {};
  return fail(TENON_INVALID_ARGUMENT,
              cat("The graph has ", input_count_, " inputs, ", main_.yield_count, " outputs and ",
                  main_.symbol_count, " symbols; the call has ", call.input_count, ", ",
                  call.output_count, " and ", call.symbols.count, "."));
}

Status Interpreter::execute(const tenon_call_t& call) const {
  TENON_TRY(check_call(call));
  std::vector<int64_t> symbols = symbol_values(call.symbols);
  Values values(whole_.value_limit);
  for (uint32_t i = 0; i < main_.argument_count; ++i) {
    const tenon_value_view_t view = value_view(graph_, main_.arguments[i]);
    std::vector<int64_t> dims;
    TENON_TRY(dims_of(view.type, symbols, &dims));
    void* data = i < input_count_
                     ? data_of(*tenon_call_input(&call, i))
                     : const_cast<std::byte*>(blob_bytes(given_[i - input_count_].get()).data());
    values.put(main_.arguments[i], view.type.dtype, dims, data);
  }
  for (tenon_value_t v = 0; v < whole_.value_limit; ++v) {
    const tenon_value_view_t view = value_view(graph_, v);
    if (view.kind != TENON_VALUE_CONSTANT) continue;
    const std::span<const std::byte> bytes = blob_bytes(view.blob);
    values.put(v, view.type.dtype, {view.type.dims, view.type.dims + view.type.rank},
               const_cast<std::byte*>(bytes.data()));
  }
  for (uint32_t i = 0; i < main_.node_count; ++i) {
    if (cancelled()) return fail(TENON_CANCELLED, "T0001: The run was cancelled.");
    TENON_TRY(run_node(i, &symbols, &values, call.profile));
  }
  for (uint32_t i = 0; i < main_.yield_count; ++i) {
    const tenon_array_t& array = values.arrays[main_.yields[i]];
    const uint64_t bytes = bytes_of(array.dtype, {array.dims, array.rank});
    tenon_span_t span = *tenon_call_output(&call, i);
    if (span.buffer == nullptr && call.output != nullptr)
      TENON_TRY(call.output(call.output_self, i, bytes, &span.buffer, &span.offset_bytes));
    if (span.buffer == nullptr) return fail(TENON_INTERNAL, cat("Output ", i, " has no buffer."));
    const uint64_t room = buffer_of(span.buffer)->size_bytes;
    if (span.offset_bytes > room || bytes > room - span.offset_bytes) {
      return fail(TENON_INTERNAL,
                  cat("Output ", i, " has ", bytes, " bytes, more than its buffer."));
    }
    if (bytes != 0)
      std::memcpy(buffer_of(span.buffer)->data + span.offset_bytes, array.data, bytes);
  }
  for (uint32_t i = 0; i < call.out_symbol_count && i < out_symbols_.size(); ++i)
    call.out_symbols[i] = symbols[out_symbols_[i]];
  return {};
}

Status Interpreter::run_node(uint32_t position, std::vector<int64_t>* symbols, Values* values,
                             const tenon_profile_sink_t* profile) const {
  const tenon_node_view_t node = node_view(graph_, main_.nodes[position]);
  std::vector<tenon_array_t> inputs, outputs(node.result_count, sized<tenon_array_t>());
  for (tenon_value_t v : reads_of(node))
    inputs.push_back(v == TENON_NONE ? sized<tenon_array_t>() : values->arrays[v]);
  const uint64_t begin = profile != nullptr ? now_ns() : 0;
  TENON_TRY(registry().evaluate(registry().self, graph_, main_.nodes[position], symbols->data(),
                                static_cast<uint32_t>(symbols->size()), inputs.data(),
                                static_cast<uint32_t>(inputs.size()), outputs.data(),
                                node.result_count));
  if (profile != nullptr) {
    std::string origins;
    const tenon_sink_t sink = sink_to(&origins);
    if (node.loc != 0) (void)graph_api().loc_text(graph_api().self, graph_, node.loc, &sink);
    auto event = sized<tenon_profile_event_t>();
    event.name = str(sym_text(node.op));
    event.origins = str(origins);
    event.begin_ns = begin;
    event.end_ns = now_ns();
    profile->event(profile->self, &event);
  }
  for (uint32_t i = 0; i < node.result_count; ++i) {
    values->arrays[node.results[i]] = outputs[i];
    values->owned[node.results[i]] = true;
  }
  TENON_TRY(bind_symbols(node, outputs, symbols));
  for (tenon_value_t v : reads_of(node)) {
    if (v != TENON_NONE && last_use_[v] == position) values->drop(v);
  }
  for (uint32_t i = 0; i < node.result_count; ++i) {
    const bool yielded = std::find(main_.yields, main_.yields + main_.yield_count,
                                   node.results[i]) != main_.yields + main_.yield_count;
    if (last_use_[node.results[i]] == kNever && !yielded) values->drop(node.results[i]);
  }
  return {};
}

// A symbol that the node defines gets its value from the node's results.
Status Interpreter::bind_symbols(const tenon_node_view_t& node,
                                 std::span<const tenon_array_t> results,
                                 std::vector<int64_t>* symbols) const {
  for (uint32_t s = 0; s < node.symbol_count; ++s) {
    auto view = sized<tenon_symbol_view_t>();
    TENON_TRY(graph_api().symbol_view(graph_api().self, graph_, node.symbols[s], &view));
    for (uint32_t r = 0; r < node.result_count; ++r) {
      const tenon_type_t type = value_view(graph_, node.results[r]).type;
      for (uint32_t d = 0; d < type.rank; ++d) {
        if (type.dims[d] == view.dim) (*symbols)[node.symbols[s]] = results[r].dims[d];
      }
    }
  }
  return {};
}

}  // namespace tenon::reference
