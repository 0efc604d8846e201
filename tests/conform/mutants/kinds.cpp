// A good op, pass, frontend and toolchain in one plugin and, with CONFORM_MUTANT=NAME, one that
// does one thing wrong. mutants.py has each name with the check that must catch it.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include <tenon/abi/frontend.h>
#include <tenon/abi/importers.h>
#include <tenon/abi/toolchain.h>
#include <tenon/cpp/op.hpp>
#include <tenon/cpp/pass.hpp>
#include <tenon/cpp/plugin.hpp>

namespace {

using namespace tenon;

bool is(const char* name) {
  const char* mutant = std::getenv("CONFORM_MUTANT");
  return mutant != nullptr && std::strcmp(mutant, name) == 0;
}

// ---- mutant_sum: times (a + b) ----

constexpr tenon_dtypes_t kTypes = TENON_DTYPE_BIT(TENON_F32) | TENON_DTYPE_BIT(TENON_I64);

Status infer(const InferQuery& q) {
  static int calls;
  if (is("infer_crash_rank") && q.rank(0) > 8) std::abort();
  if (is("infer_crash_dim") && q.rank(0) > 0 && q.dim(0, 0).is_constant() &&
      q.raw().operands[0].dims[0] > 1000000)
    std::abort();
  if (is("infer_silent") && q.rank(0) != q.rank(1)) return TENON_INVALID_ARGUMENT;
  if (is("infer_undeclared_label") && q.rank(0) != q.rank(1)) return q.fail("C9", "ranks differ");
  TENON_TRY(q.require_same_shape("C1", 0, 1));
  const int64_t times = q.i64("times");
  if (times < 1 || times > 3) return q.fail("C2", cat("times is ", times));
  Dims dims = q.dims(0);
  if (is("infer_counts") && ++calls % 5 == 0 && !dims.empty()) dims[0] = q.constant(7);
  return q.result(q.dtype(0), dims);
}

Status known(const InferQuery& q, uint32_t, tenon_dim_t* out) {
  const auto a = q.value_of(0), b = q.value_of(1);
  if (!a || !b) return TENON_NOT_FOUND;
  for (size_t i = 0; i < a->size(); ++i)
    out[i] = q.i64("times") * ((*a)[i] + (*b)[i]) + (is("value_of_wrong") ? 1 : 0);
  if (is("value_of_long")) out[a->size()] = 0;
  return {};
}

const std::byte* element(const tenon_array_t& array, std::vector<int64_t>& index) {
  const auto* at = static_cast<const std::byte*>(array.data);
  int64_t dense = array.dtype == TENON_F32 ? 4 : 8;
  for (uint32_t d = array.rank; d-- > 0;) {
    at += index[d] * (is("reference_dense") ? dense : array.strides_bytes[d]);
    dense *= array.dims[d];
  }
  return at;
}

template <class T>
void sum(const tenon_array_t& a, const tenon_array_t& b, const tenon_array_t& out, int64_t times) {
  std::vector<int64_t> index(a.rank);
  int64_t count = 1;
  for (uint32_t d = 0; d < a.rank; ++d) count *= a.dims[d];
  static T scratch[256];
  for (int64_t n = 0; n < count; ++n) {
    T x, y;
    std::memcpy(&x, element(a, index), sizeof x);
    std::memcpy(&y, element(b, index), sizeof y);
    if (is("not_commutative")) y *= 2;
    T z = static_cast<T>(times) * (x + y);
    if (is("reference_wrong_i64") && sizeof(T) == 8) z += 1;
    static_cast<T*>(out.data)[n] = z;
    if (is("reference_touches")) std::memset(const_cast<std::byte*>(element(a, index)), 1, 1);
    if (n < 256) scratch[n] = z;
    for (uint32_t d = a.rank; d-- > 0;) {
      if (++index[d] < a.dims[d]) break;
      index[d] = 0;
    }
  }
  if (is("shared_scratch")) {
    usleep(100);
    for (int64_t n = 0; n < count && n < 256; ++n) static_cast<T*>(out.data)[n] = scratch[n];
    std::memset(scratch, 0, sizeof scratch);
  }
}

Status reference(const Eval& eval) {
  const tenon_eval_t& raw = eval.raw();
  const int64_t times = raw.attrs[0].u.i;
  if (raw.inputs[0].dtype == TENON_F32)
    sum<float>(raw.inputs[0], raw.inputs[1], raw.outputs[0], times);
  else
    sum<int64_t>(raw.inputs[0], raw.inputs[1], raw.outputs[0], times);
  return {};
}

Status decompose(Builder& builder, const Node& node, tenon_value_t* out) {
  if (is("decompose_self"))
    return builder.finish(out, {builder.build("mutant_sum", {node.operand(1), node.operand(0)},
                                              {{"times", node.i64("times")}})});
  if (is("decompose_other_type")) return builder.finish(out, {builder.scalar(TENON_F32, 1)});
  const Value once =
      builder.build("add", {node.operand(0), node.operand(is("decompose_wrong") ? 0 : 1)});
  Value all = once;
  for (int64_t i = 1; i < node.i64("times"); ++i) all = builder.build("add", {all, once});
  return builder.finish(out, {all});
}

Value fold(Builder& builder, const Node& node) {
  const Value b = node.operand(1);
  if (is("fold_endless"))
    return builder.build("mutant_sum", {node.operand(1), node.operand(0)},
                         {{"times", node.i64("times")}});
  if (is("fold_fails")) return builder.build("reshape", {node.operand(0)});
  if (b.view().kind != TENON_VALUE_CONSTANT || node.i64("times") != 1) return {};
  const void* data = nullptr;
  uint64_t size = 0;
  if (graph_api().blob_data(graph_api().self, b.view().blob, &data, &size) != TENON_OK) return {};
  for (uint64_t i = 0; i < size; ++i) {
    if (static_cast<const char*>(data)[i] != 0 && !is("fold_any_constant")) return {};
  }
  return node.operand(0);
}

constexpr OpDraft declare() {
  OpDraft draft = op("mutant_sum", kCompositeElementwise | TENON_TRAIT_COMMUTATIVE);
  draft.summary("times (a + b).")
      .doc("The sum of two tensors, once or up to three times.")
      .operand("a", "one", kTypes, 1)
      .operand("b", "the other, of the same type", kTypes, 1)
      .attr_i64("times", "how often", 1)
      .result("c", "of the same type")
      .constraint("C1", "a and b have equal shapes", "mutant_sum(f32[2], f32[3])")
      .constraint("C2", "times is in [1, 3]", "mutant_sum(f32[n], f32[n]) {times = 4}")
      .example("mutant_sum(f32[2] [1, 2], f32[2] [3, 5]) -> f32[2] [4, 7]")
      .example(
          "mutant_sum(i64[2, 2] [1, 2, 3, 4], i64[2, 2] [4, 3, 2, 1]) {times = 2} -> i64[2, 2] "
          "[10, 10, 10, 10]")
      .infer<infer>()
      .value_of<known>()
      .scalar(scalar::attr(0) * (scalar::arg(0) + scalar::arg(1)))
      .reference<reference>()
      .decompose<decompose>()
      .fold<fold>();
  return draft;
}

tenon_op_def_t the_op;
tenon_constraint_def_t constraints[2];
tenon_str_t examples[2];
tenon_operand_def_t operands[2];
const tenon_op_def_t* const ops[] = {&the_op};
const tenon_ops_t ops_table = {sizeof(tenon_ops_t), nullptr, ops, 1};

void make_op() {
  using Storage = detail::OpStorage<declare>;
  the_op = Storage::kDef;
  std::copy_n(the_op.constraints, 2, constraints);
  std::copy_n(the_op.examples, 2, examples);
  std::copy_n(the_op.operands, 2, operands);
  the_op.constraints = constraints;
  the_op.examples = examples;
  the_op.operands = operands;
  static const uint32_t kWrongProgram[] = {TENON_SCALAR_WORD(TENON_S_ARG, 0),
                                           TENON_SCALAR_WORD(TENON_S_ARG, 1),
                                           TENON_SCALAR_WORD(TENON_S_SUB, 0)};
  if (is("op_no_summary")) the_op.summary = {};
  if (is("op_no_operand_doc")) operands[1].doc = {};
  if (is("op_no_example")) the_op.example_count = 0;
  if (is("op_taken_name")) the_op.name = str("add");
  if (is("op_wrong_example"))
    examples[0] = str("mutant_sum(f32[2] [1, 2], f32[2] [3, 5]) -> f32[2] [4, 8]");
  if (is("op_example_of_another"))
    examples[0] = str("add(f32[2] [1, 2], f32[2] [3, 5]) -> f32[2] [4, 7]");
  if (is("op_unreadable_example")) examples[0] = str("mutant_sum(f32[2] [1, 2], f32[2] [3, 5])");
  if (is("negative_is_fine"))
    constraints[1].negative = str("mutant_sum(f32[2], f32[2]) {times = 3}");
  if (is("negative_breaks_another"))
    constraints[1].negative = str("mutant_sum(f32[2], f32[3]) {times = 4}");
  if (is("negative_unreadable")) constraints[1].negative = str("mutant_sum(f32[2], f3");
  if (is("scalar_wrong")) the_op.scalar = kWrongProgram, the_op.scalar_words = 3;
  if (is("not_commutative")) {
    the_op.scalar_words = 0, the_op.scalar = nullptr, the_op.decompose = nullptr,
    the_op.fold = nullptr, the_op.traits = TENON_TRAIT_PURE | TENON_TRAIT_COMMUTATIVE;
    examples[0] = str("mutant_sum(f32[2] [1, 2], f32[2] [3, 5]) -> f32[2] [7, 12]");
    the_op.example_count = 1;
  }
  if (is("elementwise_without_program")) the_op.scalar_words = 0;
}

// ---- mutant-double: mul(x, 2) becomes add(x, x) ----

bool is_two(const Value& value) {
  if (value.view().kind != TENON_VALUE_CONSTANT || value.dtype() != TENON_F32) return false;
  const void* data = nullptr;
  uint64_t size = 0;
  if (graph_api().blob_data(graph_api().self, value.view().blob, &data, &size) != TENON_OK)
    return false;
  for (uint64_t i = 0; i + 4 <= size; i += 4) {
    float x = 0;
    std::memcpy(&x, static_cast<const char*>(data) + i, 4);
    if (x != 2 && !is("double_any_factor")) return false;
  }
  return true;
}

// Ends: one mul fewer each time.
Status double_it(Builder& builder, const Node& node, std::vector<Value>* out) {
  static std::atomic<int> calls;
  if (is("rewrite_does_nothing")) return {};
  if (is("rewrite_has_moods") && ++calls % 3 == 0) return {};
  if (!is_two(node.operand(1))) return {};
  if (is("double_loses_user")) return *out = {node.operand(0)}, Status();
  *out = {builder.build("add", {node.operand(0), node.operand(0)})};
  return {};
}
Status flip(Builder& builder, const Node& node, std::vector<Value>* out) {
  if (is("rewrite_endless")) *out = {builder.build("add", {node.operand(1), node.operand(0)})};
  return {};
}

// Visits every node.
Status look(tenon_graph_t* graph, const PassContext& context) {
  const Region main = main_region(graph);
  if (is("run_fails_silently")) return TENON_INVALID_ARGUMENT;
  const tenon_region_view_t view = main.view();
  for (uint32_t i = 0; i < view.node_count; ++i) context.count("looked");
  if (is("run_counts_more")) context.count("elsewhere");
  if (is("run_reads_more") && context.i64(9) == 42) return {};
  if (is("run_breaks_order") && view.node_count > 1) {
    const tenon_node_t last = view.nodes[view.node_count - 1], first = view.nodes[0];
    (void)graph_api().node_move(graph_api().self, graph, last, first);
  }
  if (is("run_swaps_operands")) {
    for (uint32_t i = 0; i < view.node_count; ++i) {
      const Node node(graph, view.nodes[i]);
      if (node.op() != "sub") continue;
      const Value a = node.operand(0), b = node.operand(1);
      (void)graph_api().operand_set(graph_api().self, graph, node.id(), 0, b.id());
      (void)graph_api().operand_set(graph_api().self, graph, node.id(), 1, a.id());
    }
  }
  return {};
}

constexpr std::string_view kBefore = R"(tenon.tir 1
graph @g(%x: f32[2]) -> (y: f32[2]) {
  %two = const f32[2] splat 2
  %0 = neg(%x) : f32[2]
  %1 = mul(%0, %two) : f32[2]
  yield %1
}
)";
constexpr std::string_view kAfter = R"(tenon.tir 1
graph @g(%x: f32[2]) -> (y: f32[2]) {
  %0 = neg(%x) : f32[2]
  %1 = add(%0, %0) : f32[2]
  yield %1
}
)";
constexpr std::string_view kSame = R"(tenon.tir 1
graph @g(%x: f32[2], %z: f32[2]) -> (y: f32[2]) {
  %0 = neg(%x) : f32[2]
  %1 = sub(%0, %z) : f32[2]
  yield %1
}
)";
constexpr tenon_rewrite_t kRewrites[] = {rewrite<double_it>("double", "mul"),
                                         rewrite<flip>("flip", "add")};
constexpr tenon_str_t kStatistics[] = {str("looked")};
tenon_pass_option_def_t options[] = {{str("limit"), str("not used"), TENON_ATTR_I64, 0, str("4")}};

tenon_pass_def_t double_pass, look_pass;
const tenon_pass_def_t* const passes[] = {&double_pass, &look_pass};
const tenon_passes_t passes_table = {sizeof(tenon_passes_t), nullptr, passes, 2};

void make_passes() {
  double_pass = pass("mutant-double", "Adds instead of doubling.")
                    .describe("x 2 becomes x + x.")
                    .example(kBefore, kAfter)
                    .rewrites(kRewrites)
                    .def;
  look_pass = pass("mutant-look", "Counts nodes.")
                  .describe("Changes nothing.")
                  .example(kSame, kSame)
                  .statistics(kStatistics)
                  .options(options)
                  .run<look>()
                  .def;
  // The second rewrite changes nothing; only mutants have it.
  if (!is("rewrite_endless") && !is("rewrite_never_applied")) double_pass.rewrite_count = 1;
  if (is("pass_no_after")) look_pass.after = {};
  if (is("pass_unreadable")) look_pass.before = str("tenon.tir 1\ngraph");
  if (is("pass_bad_default")) options[0].default_text = str("four");
  if (is("pass_same_name")) look_pass.name = double_pass.name;
}

// ---- .toy: "TOY1", rank, dims of one byte, floats ----

std::string_view bytes_of(const tenon_source_t* source) {
  const void* data = nullptr;
  uint64_t size = 0;
  if (graph_api().blob_data(graph_api().self, source->bytes, &data, &size) != TENON_OK) return {};
  return {static_cast<const char*>(data), size};
}

uint32_t accepts(void*, tenon_str_t name, const void* head, uint64_t size) {
  if (is("accepts_everything")) return 1;
  if (is("accepts_zeros") && size > 0 && *static_cast<const char*>(head) == 0) return 1;
  if (is("accepts_reads_on")) return std::memcmp(head, "TOY1", 4) == 0;
  (void)name;
  if (is("accepts_nothing")) return 0;
  return size >= 4 && std::memcmp(head, "TOY1", 4) == 0 ? 100 : 0;
}

struct Parsed {
  std::vector<int64_t> dims;
  std::string_view data;
};
Status parse(const tenon_source_t* source, Parsed* out) {
  const std::string_view bytes = bytes_of(source);
  if (is("opens_a_file")) {
    const int file = ::open("/etc/hostname", O_RDONLY | O_CLOEXEC);
    if (file >= 0) ::close(file);
  }
  if (is("load_silent") && bytes.substr(0, 4) != "TOY1") return TENON_INVALID_ARGUMENT;
  if (bytes.size() < 5 || bytes.substr(0, 4) != "TOY1")
    return fail(TENON_INVALID_ARGUMENT,
                "T0101: this is not a .toy file: it does not begin with TOY1.");
  const size_t rank = static_cast<unsigned char>(bytes[4]);
  if (is("load_trusts_rank") && rank > 32) std::abort();
  if (rank > 32 || bytes.size() < 5 + rank)
    return fail(TENON_INVALID_ARGUMENT, cat("T0101: a .toy file of rank ", rank, " is cut."));
  uint64_t count = 1;
  for (size_t d = 0; d < rank; ++d) {
    out->dims.push_back(static_cast<unsigned char>(bytes[5 + d]));
    if (__builtin_mul_overflow(count, static_cast<uint64_t>(out->dims.back()), &count))
      count = UINT64_MAX;
  }
  out->data = bytes.substr(5 + rank);
  if (is("load_trusts_size") && count < (1u << 30))
    out->data = {out->data.data(), count * 4};
  else if (out->data.size() / 4 != count || out->data.size() % 4 != 0)
    return fail(TENON_INVALID_ARGUMENT, cat("T0101: a .toy file holds ", out->data.size(),
                                            " bytes for ", count, " elements."));
  return {};
}

Status give_tensor(const tenon_source_t* source, const tenon_file_tensor_sink_t* sink) {
  Parsed parsed;
  TENON_TRY(parse(source, &parsed));
  tenon_file_tensor_t tensor = {};
  tensor.size_bytes = sizeof tensor;
  tensor.dtype = TENON_F32;
  tensor.rank = static_cast<uint32_t>(parsed.dims.size());
  tensor.dims = parsed.dims.data();
  TENON_TRY(graph_api().blob_bytes(graph_api().self, parsed.data.data(), parsed.data.size(),
                                   &tensor.blob));
  const Status status = sink->tensor(sink->self, &tensor);
  graph_api().blob_release(graph_api().self, tensor.blob);
  return status;
}

Status give_graph(const tenon_source_t* source, tenon_graph_t** out) {
  static int calls;
  Parsed parsed;
  const Status parsed_well = parse(source, &parsed);
  if (!parsed_well.ok() && is("load_writes_on_failure")) *out = nullptr;
  TENON_TRY(parsed_well);
  if (is("load_gives_nothing")) return {};
  Graph graph;
  TENON_TRY(Graph::create("toy", &graph));
  const tenon_type_t type = {TENON_F32, TENON_KIND_TENSOR,
                             static_cast<uint32_t>(parsed.dims.size()), parsed.dims.data(), 0};
  tenon_blob_t* blob = nullptr;
  TENON_TRY(
      graph_api().blob_bytes(graph_api().self, parsed.data.data(), parsed.data.size(), &blob));
  tenon_value_t value = 0;
  const Status made = graph_api().constant(graph_api().self, graph.get(), &type, blob, &value);
  graph_api().blob_release(graph_api().self, blob);
  TENON_TRY(made);
  Builder builder(graph.get(), main_region(graph.get()).id());
  Value result(graph.get(), value);
  result = builder.build("neg", {result});
  if (is("load_has_moods") && ++calls % 2 == 0) result = builder.build("neg", {result});
  TENON_TRY(builder.status());
  TENON_TRY(
      yield(main_region(graph.get()), std::vector<Value>{result}, std::vector<std::string>{"y"}));
  graph_api().retain(graph_api().self, graph.get());
  *out = graph.get();
  return {};
}

Status put_tensor(const tenon_file_tensor_t* tensor, const tenon_sink_t* sink) {
  if (tensor->dtype != TENON_F32)
    return fail(TENON_UNIMPLEMENTED, "T0102: a .toy file holds f32 alone.");
  std::string text = "TOY1";
  text += static_cast<char>(tensor->rank);
  for (uint32_t d = 0; d < tensor->rank; ++d) {
    if (tensor->dims[d] > 255)
      return fail(TENON_UNIMPLEMENTED, "T0102: a dim of a .toy file is at most 255.");
    text += static_cast<char>(tensor->dims[is("write_swaps_dims") ? tensor->rank - 1 - d : d]);
  }
  const void* data = nullptr;
  uint64_t size = 0;
  TENON_TRY(graph_api().blob_data(graph_api().self, tensor->blob, &data, &size));
  text.append(static_cast<const char*>(data), size);
  if (is("write_loses_last") && size >= 8)
    std::memcpy(text.data() + text.size() - 4, text.data() + text.size() - 8, 4);
  return sink->write(sink->self, text.data(), text.size());
}

// Without a handler, so bad_alloc reaches the host.
tenon_code_t unguarded(void*, const tenon_file_tensor_t* tensor, const tenon_sink_t* sink) {
  void* more = ::operator new(64);
  const Status status = put_tensor(tensor, sink);
  ::operator delete(more);
  return Status(status).code();
}

template <auto Function, class... Args>
tenon_code_t slot(void*, Args... args) {
  return detail::guarded(context().host, [&]() -> Status { return Function(args...); });
}
tenon_frontend_api_t frontend = {
    sizeof frontend,
    nullptr,
    str("mutant-toy"),
    str(".toy"),
    accepts,
    slot<give_graph, const tenon_source_t*, tenon_graph_t**>,
    slot<give_tensor, const tenon_source_t*, const tenon_file_tensor_sink_t*>,
    slot<put_tensor, const tenon_file_tensor_t*, const tenon_sink_t*>};

// ---- A toolchain for texts that begin with "ok" ----

tenon_code_t build(void*, tenon_str_t, tenon_str_t dialect, tenon_str_t text,
                   const tenon_toolchain_options_t*, const tenon_sink_t* object,
                   const tenon_sink_t*) {
  if (view(dialect) != "mutant-c" && !is("builds_any_dialect"))
    return fail(TENON_UNIMPLEMENTED, "T0103: only mutant-c is built.").code();
  if (!view(text).starts_with("ok") && is("build_other_code"))
    return fail(TENON_INTERNAL, "T0103: it broke.").code();
  if (!view(text).starts_with("ok") && is("build_leaves_object"))
    (void)object->write(object->self, "OBJ", 3);
  if (!view(text).starts_with("ok") && !is("builds_anything") && !is("builds_any_dialect"))
    return fail(TENON_INVALID_ARGUMENT, "T0103: mutant-c begins with ok.").code();
  return object->write(object->self, "OBJ", 3);
}
int module_object;
tenon_code_t load(void*, const void* bytes, uint64_t size, tenon_module_t** out) {
  if (is("load_module_writes_on_failure")) *out = nullptr;
  const bool known = size >= 3 && std::memcmp(bytes, "OBJ", 3) == 0;
  if (is("loads_anything") || known)
    return *out = reinterpret_cast<tenon_module_t*>(&module_object), TENON_OK;
  return fail(TENON_INVALID_ARGUMENT, "T0104: this is not an object of mutant-c.").code();
}
tenon_code_t symbol(void*, tenon_module_t*, tenon_str_t, void**) {
  return fail(TENON_NOT_FOUND, "T0105: it has no symbols.").code();
}
void release(void*, tenon_module_t*) {}
const tenon_toolchain_api_t toolchain = {
    sizeof toolchain, nullptr, str("mutant-tc"), str("mutant-c"), str("1"), build, load,
    symbol,           release};

// ---- Importers: Twice(x), which takes no attribute; since version 3 it gives x, too ----

Status twice(const tenon_import_t& node, tenon_value_t* out, uint32_t results) {
  const bool fits = node.operand_count == 1 && node.operands[0] != TENON_NONE &&
                    node.attr_count == 0 && node.result_count <= results;
  if (is("importer_sets_on_failure")) out[0] = 0;
  if (is("importer_fails_silently") && !fits) return TENON_INVALID_ARGUMENT;
  if (!fits && !is("importer_needs_operands"))
    return fail(TENON_INVALID_ARGUMENT, "Twice takes one input, and no attribute");
  Builder b(*node.builder);
  const Value x(b.graph(), node.operands[0]);
  if (!is_in(x.dtype(), kNumber)) return fail(TENON_INVALID_ARGUMENT, "Twice takes numbers");
  static int calls;
  const bool other_way = is("importer_has_moods") && ++calls % 2 == 0;
  const Value sum = other_way ? b.build("mul", {x, x}) : b.build("add", {x, x});
  if (is("importer_gives_any_value")) return out[0] = 1000, Status();
  if (is("importer_gives_more")) out[node.result_count] = TENON_NONE;
  TENON_TRY(b.finish(out, {sum}));
  if (node.result_count == 2) out[1] = x.id();
  return {};
}
Status twice_1(void*, const tenon_import_t* node, tenon_value_t* out) {
  return twice(*node, out, 1);
}
Status twice_3(void*, const tenon_import_t* node, tenon_value_t* out) {
  return twice(*node, out, 2);
}
tenon_importer_t importers[] = {{str("Twice"), 1, 0, nullptr, entry<twice_1>},
                                {str("Twice"), 3, 0, nullptr, entry<twice_3>}};
tenon_importers_t importers_table = {sizeof importers_table, sizeof importers[0], str("onnx"),
                                     str("org.mutant"),      importers,           2};

Status make() {
  make_op();
  if (is("importer_twice")) importers[1].since = 1;
  if (is("importers_of_nothing")) importers_table.importer_count = 0;
  make_passes();
  if (is("lets_exceptions_out")) frontend.write_tensor = unguarded;
  if (is("extension_without_dot")) frontend.extensions = str("toy");
  return {};
}

const tenon_interface_t kInterfaces[] = {
    offer(TENON_OPS_ID, ops_table), offer(TENON_PASS_ID, passes_table),
    offer(TENON_FRONTEND_ID, frontend), offer(TENON_TOOLCHAIN_ID, toolchain),
    offer(TENON_IMPORTERS_ID, importers_table)};

}  // namespace

TENON_PLUGIN("mutant_kinds", "0.1.0", kInterfaces, make)
