#include "core/conform/compile_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "core/base/str.h"
#include "core/conform/session.h"

namespace tenon::conform {
namespace {

constexpr uint64_t kGuardBytes = 256;

tenon_code_t append_bytes(void* self, const void* data, uint64_t size) {
  const auto* bytes = static_cast<const unsigned char*>(data);
  auto* to = static_cast<Bytes*>(self);
  to->insert(to->end(), bytes, bytes + size);
  return TENON_OK;
}

// What a claim's sink writes into. Never freed: a sink that is called too late must not be a crash
// of ours.
struct Listener {
  Claims claims;
};

tenon_code_t heard_claim(void* self, const tenon_node_t* nodes, uint32_t count, double cost) {
  static_cast<Listener*>(self)->claims.claims.push_back({{nodes, nodes + count}, cost});
  return TENON_OK;
}

tenon_code_t heard_refusal(void* self, tenon_node_t node, tenon_code_t code, tenon_str_t reason) {
  static_cast<Listener*>(self)->claims.refusals.push_back({node, code, std::string(view(reason))});
  return TENON_OK;
}

}  // namespace

// ---- Graphs
// ---------------------------------------------------------------------------------------------

Outcome Part::read(const Api& api, const std::string& text, std::unique_ptr<Part>* out) {
  tenon_blob_t* blob = nullptr;
  tenon_graph_t* graph = nullptr;
  if (api.graph->blob_bytes(api.graph->self, text.data(), text.size(), &blob) != TENON_OK)
    return skipped("no memory for a graph");
  const tenon_code_t code =
      api.graph->graph_read(api.graph->self, blob, {"a check", 7}, nullptr, &graph);
  api.graph->blob_release(api.graph->self, blob);
  if (code != TENON_OK) return skipped("this host does not read the graph: " + last_failure(api));
  *out = std::make_unique<Part>(api, graph);
  return pass();
}

Part::Part(const Api& api, tenon_graph_t* graph) : api_(api), graph_(graph) {
  api_.graph->freeze(api_.graph->self, graph_);
  whole_.size_bytes = sizeof(whole_);
  main_.size_bytes = sizeof(main_);
  (void)api_.graph->graph_view(api_.graph->self, graph_, &whole_);
  (void)api_.graph->region_view(api_.graph->self, graph_, whole_.main, &main_);
}

Part::~Part() {
  api_.graph->release(api_.graph->self, graph_);
}

tenon_node_view_t Part::node(tenon_node_t node) const {
  tenon_node_view_t out = {};
  out.size_bytes = sizeof(out);
  (void)api_.graph->node_view(api_.graph->self, graph_, node, &out);
  return out;
}

tenon_value_view_t Part::value(tenon_value_t value) const {
  tenon_value_view_t out = {};
  out.size_bytes = sizeof(out);
  (void)api_.graph->value_view(api_.graph->self, graph_, value, &out);
  return out;
}

std::string Part::op_of(tenon_node_t at) const {
  return std::string(view(api_.host->sym_text(api_.host->self, node(at).op)));
}

std::vector<tenon_blob_t*> Part::constants() const {
  std::vector<tenon_blob_t*> out;
  for (tenon_value_t v = 0; v < whole_.value_limit; ++v) {
    const tenon_value_view_t seen = value(v);
    if (seen.kind == TENON_VALUE_CONSTANT) out.push_back(seen.blob);
  }
  return out;
}

std::optional<std::vector<int64_t>> Part::dims_of(tenon_value_t v,
                                                  std::span<const int64_t> symbols) const {
  const tenon_value_view_t seen = value(v);
  std::vector<int64_t> values(whole_.symbol_limit, -1), dims(seen.type.rank);
  for (uint32_t i = 0; i < main_.symbol_count && i < symbols.size(); ++i)
    values[main_.symbols[i]] = symbols[i];
  for (uint32_t i = 0; i < seen.type.rank; ++i) {
    const tenon_code_t code =
        api_.graph->dim_evaluate(api_.graph->self, graph_, seen.type.dims[i], values.data(),
                                 static_cast<uint32_t>(values.size()), &dims[i]);
    if (code != TENON_OK || dims[i] < 0) return std::nullopt;
  }
  return dims;
}

std::vector<Named> Part::inputs(std::span<const int64_t> symbols, const Fill& fill) const {
  std::vector<Named> out(main_.argument_count);
  for (uint32_t i = 0; i < main_.argument_count; ++i) {
    out[i].tensor.dtype = value(main_.arguments[i]).type.dtype;
    out[i].tensor.dims = dims_of(main_.arguments[i], symbols).value_or(std::vector<int64_t>());
    out[i].bytes.resize(std::max<uint64_t>(out[i].tensor.size_bytes(), 1));
    fill(out[i].tensor.dtype, i, out[i].tensor.count(), out[i].bytes.data());
    out[i].tensor.data = out[i].bytes.data();
  }
  return out;
}

Outcome Part::expected(const std::vector<Named>& inputs, std::vector<Named>* out) const {
  Program program(api_);
  if (program.compile(graph_, kReference) != TENON_OK)
    return skipped("the reference does not take the graph: " + last_failure(api_));
  const tenon_model_info_t info = program.info();
  std::vector<Named> named = inputs;
  for (size_t i = 0; i < named.size() && i < info.input_count; ++i)
    named[i].name = std::string(view(info.inputs[i].name));
  std::string why;
  out->clear();
  if (!run_program(program, named, out, &why))
    return skipped("the reference does not run the graph: " + why);
  return pass();
}

std::string Part::text() const {
  Bytes bytes;
  const tenon_sink_t sink = {&bytes, append_bytes};
  (void)api_.graph->graph_write(api_.graph->self, graph_, TENON_FORMAT_BINARY, &sink);
  return {bytes.begin(), bytes.end()};
}

Outcome cut_out(const Part& from, std::span<const tenon_node_t> nodes, std::unique_ptr<Part>* out) {
  const Api& api = from.api();
  const void* table = nullptr;
  constexpr std::string_view kId = TENON_HOST_EXTRACT_ID;
  if (api.host->query(api.host->self, {kId.data(), kId.size()}, 0, &table) != TENON_OK)
    return skipped("this host does not cut graphs");
  const auto* cutter = static_cast<const tenon_host_extract_t*>(table);
  // What is used behind the nodes, or yielded.
  std::vector<tenon_value_t> yields;
  for (tenon_node_t n : nodes) {
    const tenon_node_view_t seen = from.node(n);
    for (uint32_t r = 0; r < seen.result_count; ++r) {
      const tenon_use_t* uses = nullptr;
      uint32_t count = 0;
      (void)api.graph->value_uses(api.graph->self, from.graph(), seen.results[r], &uses, &count);
      const bool outside = count == 0 || std::any_of(uses, uses + count, [&](const tenon_use_t& u) {
                             return u.node == TENON_NONE ||
                                    std::find(nodes.begin(), nodes.end(), u.node) == nodes.end();
                           });
      if (outside) yields.push_back(seen.results[r]);
    }
  }
  tenon_extract_spec_t spec = {};
  spec.size_bytes = sizeof(spec);
  spec.nodes = nodes.data();
  spec.node_count = static_cast<uint32_t>(nodes.size());
  spec.yields = yields.data();
  spec.yield_count = static_cast<uint32_t>(yields.size());
  spec.name = {"part", 4};
  tenon_extracted_t extracted = {};
  extracted.size_bytes = sizeof(extracted);
  if (cutter->extract(cutter->self, from.graph(), &spec, &extracted) != TENON_OK)
    return skipped("this host does not cut the graph: " + last_failure(api));
  api.graph->retain(api.graph->self, extracted.graph);
  *out = std::make_unique<Part>(api, extracted.graph);
  cutter->release(cutter->self, &extracted);
  return pass();
}

bool Claims::takes(tenon_node_t node) const {
  return std::any_of(claims.begin(), claims.end(), [&](const Claim& c) {
    return std::find(c.nodes.begin(), c.nodes.end(), node) != c.nodes.end();
  });
}

// ---- Compiling
// ---------------------------------------------------------------------------------------------

Compiled::~Compiled() {
  release_executable();
  release_artifact();
}

void Compiled::release_artifact() {
  if (artifact != nullptr) api->artifact_release(api->self, artifact);
  artifact = nullptr;
}

void Compiled::release_executable() {
  if (executable != nullptr) api->executable_release(api->self, executable);
  executable = nullptr;
}

Outcome CompileBench::find(size_t optional_slots) {
  CONFORM_TRY(find_devices(session_, &devices_, &device_count_));
  CONFORM_TRY(find_api(&api_));
  compiler_ =
      static_cast<const tenon_compile_api_t*>(session_.table(TENON_COMPILE_ID, optional_slots));
  queues_ = static_cast<const tenon_queue_api_t*>(session_.table(TENON_QUEUE_ID));
  if (compiler_ == nullptr) return not_offered(TENON_COMPILE_ID);
  for (const SlotList& list : slot_lists()) {
    if (list.id != TENON_COMPILE_ID) continue;
    for (uint32_t offset : list.required) {
      void* slot = nullptr;
      std::memcpy(&slot, reinterpret_cast<const char*>(compiler_) + offset, sizeof(slot));
      if (slot == nullptr) return skipped("a required slot is null, as B.required-slots tells");
    }
  }
  info_.size_bytes = sizeof(info_);
  if (devices_->info(devices_->self, 0, &info_) != TENON_OK)
    return skipped("info fails, as C.info tells");
  return pass();
}

Outcome CompileBench::open(uint32_t ordinal, OpenDevice** out) {
  std::unique_ptr<OpenDevice>& device = open_[ordinal];
  if (device == nullptr) {
    device = std::make_unique<OpenDevice>(devices_, ordinal);
    CONFORM_TRY(device->open());
  }
  *out = device.get();
  return pass();
}

Outcome CompileBench::claim(const Part& part, Claims* out) {
  auto* listener = new Listener;
  const tenon_claim_sink_t sink = {listener, heard_claim, heard_refusal};
  session_.step("claim");
  forget_failure();
  const tenon_code_t code = compiler_->claim(compiler_->self, target(), part.graph(), &sink);
  CONFORM_EXPECT(code == TENON_OK, "claim gives {}{}", code_text(code), said());
  *out = listener->claims;
  return pass();
}

Outcome CompileBench::taken(const std::string& text, std::unique_ptr<Part>* out) {
  CONFORM_TRY(Part::read(api_, text, out));
  Claims claims;
  CONFORM_TRY(claim(**out, &claims));
  for (tenon_node_t node : (*out)->nodes()) {
    if (!claims.takes(node))
      return skipped(fmt::format("the device does not take {} here", (*out)->op_of(node)));
  }
  return pass();
}

Outcome CompileBench::ready(const std::string& text, OpenDevice** device,
                            std::unique_ptr<Part>* part) {
  CONFORM_TRY(find());
  CONFORM_TRY(open(0, device));
  return taken(text, part);
}

tenon_code_t CompileBench::compile_code(const Part& part, tenon_artifact_t** out) {
  forget_failure();
  tenon_compile_options_t options = {};
  options.size_bytes = sizeof(options);
  return compiler_->compile(compiler_->self, target(), part.graph(), &options, out);
}

Outcome CompileBench::bytes_of(tenon_artifact_t* artifact, Bytes* out) {
  out->clear();
  const tenon_sink_t sink = {out, append_bytes};
  forget_failure();
  const tenon_code_t code = compiler_->artifact_bytes(compiler_->self, artifact, &sink);
  CONFORM_EXPECT(code == TENON_OK, "artifact_bytes gives {}{}", code_text(code), said());
  return pass();
}

Outcome CompileBench::compile(const Part& part, Compiled* out) {
  session_.step(fmt::format("compiling {} nodes from {}", part.nodes().size(),
                            part.nodes().empty() ? "none" : part.op_of(part.nodes()[0])));
  out->api = compiler_;
  const tenon_code_t code = compile_code(part, &out->artifact);
  CONFORM_EXPECT(code == TENON_OK, "compile of {} claimed nodes gives {}{}", part.nodes().size(),
                 code_text(code), said());
  CONFORM_EXPECT(out->artifact != nullptr, "compile gives OK and no artifact");
  return bytes_of(out->artifact, &out->bytes);
}

tenon_code_t CompileBench::load_code(OpenDevice& device, const Bytes& bytes,
                                     std::span<tenon_blob_t* const> constants,
                                     tenon_executable_t** out) {
  forget_failure();
  return compiler_->load(compiler_->self, device.device(), bytes.data(), bytes.size(),
                         constants.data(), static_cast<uint32_t>(constants.size()), out);
}

Outcome CompileBench::load(OpenDevice& device, const Part& part, Compiled* out) {
  if (out->artifact == nullptr) CONFORM_TRY(compile(part, out));
  session_.step("load");
  const std::vector<tenon_blob_t*> constants = part.constants();
  const tenon_code_t code = load_code(device, out->bytes, constants, &out->executable);
  CONFORM_EXPECT(code == TENON_OK, "load of what compile made gives {}{}", code_text(code), said());
  CONFORM_EXPECT(out->executable != nullptr, "load gives OK and no executable");
  return pass();
}

// ---- Running
// ---------------------------------------------------------------------------------------------

tenon_code_t needs_code(const CompileBench& bench, tenon_executable_t* executable, const Part& part,
                        std::span<const int64_t> symbols, Needs* out) {
  const uint32_t count = part.main().yield_count;
  out->outputs.assign(count, {});
  out->dims.resize(count);
  for (uint32_t i = 0; i < count; ++i) {
    out->dims[i].assign(part.value(part.main().yields[i]).type.rank, -7);
    out->outputs[i] = {~uint64_t{0} - 1, out->dims[i].data(), TENON_NO_ALIAS};
  }
  out->needs = {};
  out->needs.size_bytes = sizeof(out->needs);
  out->needs.output_count = count;
  out->needs.outputs = out->outputs.data();
  forget_failure();
  const tenon_compile_api_t& c = bench.compiler();
  return c.needs(c.self, executable, {symbols.data(), static_cast<uint32_t>(symbols.size())},
                 &out->needs);
}

Outcome sound_needs(const Part& part, const Needs& needs) {
  for (size_t i = 0; i < needs.outputs.size(); ++i) {
    const uint64_t size = needs.outputs[i].size_bytes_max;
    if (size == TENON_SIZE_UNKNOWN) continue;
    CONFORM_EXPECT(size < uint64_t{1} << 40, "needs says that output {} has {} bytes", i, size);
    const auto dims_text = [&] { return fmt::format("[{}]", fmt::join(needs.dims[i], ", ")); };
    uint64_t elements = 1;
    bool empty = false;
    for (int64_t dim : needs.dims[i]) {
      CONFORM_EXPECT(dim >= 0, "needs says that output {} is {}", i, dims_text());
      empty |= dim == 0;
    }
    for (int64_t dim : needs.dims[i]) {
      const auto wide = static_cast<uint64_t>(dim);
      CONFORM_EXPECT(empty || wide <= size, "needs says that output {} is {} in {} bytes", i, dims_text(), size);
      elements = empty ? 0 : elements * wide;
      CONFORM_EXPECT(elements <= size * 8, "needs says that output {} is {} in {} bytes", i, dims_text(), size);
    }
    tools::Dense tensor;
    tensor.dtype = part.value(part.main().yields[i]).type.dtype;
    tensor.dims = needs.dims[i];
    CONFORM_EXPECT(tensor.size_bytes() <= size, "needs says that output {} is {} in {} bytes", i, dims_text(), size);
  }
  return pass();
}

Execution::~Execution() {
  for (tenon_buffer_t* buffer : buffers_) (void)device_.free(buffer);
}

Outcome Execution::make_room(uint64_t size_bytes, Room* out) {
  const uint64_t whole = guard_ + size_bytes + kGuardBytes;
  CONFORM_TRY(device_.alloc(whole, &out->buffer));
  buffers_.push_back(out->buffer);
  out->size_bytes = size_bytes;
  return device_.write(out->buffer, Bytes(whole, filler_));
}

Outcome Execution::prepare(const std::vector<Named>& inputs, unsigned char filler,
                           uint32_t shared_output, uint32_t shared_input) {
  input_values_ = inputs;
  filler_ = filler;
  shared_output_ = shared_output;
  shared_input_ = shared_input;
  const uint64_t align = std::max<uint64_t>(bench_.info().alignment_bytes, 1);
  guard_ = (kGuardBytes + align - 1) / align * align;
  const tenon_code_t code = needs_code(bench_, executable_, part_, symbols_, &needs_);
  CONFORM_EXPECT(code == TENON_OK, "needs gives {}{}", code_text(code), said());
  CONFORM_TRY(sound_needs(part_, needs_));
  for (const Named& input : inputs) {
    if (inputs_together_ && !inputs_.empty()) {
      inputs_.push_back(inputs_[0]);
      input_spans_.push_back(input_spans_[0]);
      continue;
    }
    Room room;
    const uint64_t size = input.tensor.size_bytes();
    CONFORM_TRY(make_room(size, &room));
    const tenon_code_t copied = device_.to_device(room.buffer, guard_, input.bytes.data(), size);
    CONFORM_EXPECT(copied == TENON_OK, "a copy of an input gives {}", code_text(copied));
    inputs_.push_back(room);
    input_spans_.push_back(room.span(guard_));
  }
  for (uint32_t i = 0; i < needs_.outputs.size(); ++i) {
    const uint64_t size = needs_.outputs[i].size_bytes_max;
    if (size == TENON_SIZE_UNKNOWN) return skipped("an output has a size that only the run tells");
    Room room;
    if (i == shared_output) {
      room = inputs_[shared_input];
    } else {
      CONFORM_TRY(make_room(size, &room));
    }
    outputs_.push_back(room);
    output_spans_.push_back(room.span(guard_));
  }
  const uint64_t workspace = needs_.needs.workspace_bytes;
  CONFORM_EXPECT(workspace < uint64_t{1} << 40, "needs says that the workspace has {} bytes",
                 workspace);
  return workspace == 0 ? pass() : make_room(workspace, &workspace_);
}

tenon_call_t Execution::call() const {
  tenon_call_t call = {};
  call.size_bytes = sizeof(call);
  call.input_count = static_cast<uint32_t>(input_spans_.size());
  call.output_count = static_cast<uint32_t>(output_spans_.size());
  call.symbols = {symbols_.data(), static_cast<uint32_t>(symbols_.size())};
  call.inputs = input_spans_.data();
  call.outputs = output_spans_.data();
  if (workspace_.buffer != nullptr) call.workspace = workspace_.span(guard_);
  return call;
}

tenon_code_t Execution::run_code() const {
  const tenon_call_t made = call();
  forget_failure();
  const tenon_compile_api_t& c = bench_.compiler();
  return c.execute(c.self, executable_, &made);
}

Outcome Execution::run() const {
  const tenon_code_t code = run_code();
  CONFORM_EXPECT(code == TENON_OK, "execute gives {}{}", code_text(code), said());
  return pass();
}

Outcome Execution::outputs(std::vector<Named>* out) {
  out->clear();
  for (uint32_t i = 0; i < outputs_.size(); ++i) {
    Named& made = out->emplace_back();
    made.name = fmt::format("{}", i);
    made.tensor.dtype = part_.value(part_.main().yields[i]).type.dtype;
    made.tensor.dims = needs_.dims[i];
    made.bytes.resize(std::max<uint64_t>(made.tensor.size_bytes(), 1));
    const uint64_t size = std::min(made.tensor.size_bytes(), outputs_[i].size_bytes);
    const tenon_code_t code = device_.to_host(made.bytes.data(), outputs_[i].buffer, guard_, size);
    CONFORM_EXPECT(code == TENON_OK, "a copy of output {} gives {}", i, code_text(code));
  }
  for (Named& made : *out) made.tensor.data = made.bytes.data();
  return pass();
}

Outcome Execution::guarded(const Room& room, std::string_view what, Bytes* inside) {
  Bytes all(guard_ + room.size_bytes + kGuardBytes);
  CONFORM_TRY(device_.read(room.buffer, &all));
  for (uint64_t i = 0; i < all.size(); ++i) {
    if (i >= guard_ && i < guard_ + room.size_bytes) continue;
    CONFORM_EXPECT(all[i] == filler_, "execute writes {} bytes {} {}",
                   i < guard_ ? guard_ - i : i - guard_ - room.size_bytes + 1,
                   i < guard_ ? "before" : "behind", what);
  }
  inside->assign(all.begin() + static_cast<ptrdiff_t>(guard_),
                 all.begin() + static_cast<ptrdiff_t>(guard_ + room.size_bytes));
  return pass();
}

Outcome Execution::kept_all() {
  Bytes inside;
  for (uint32_t i = 0; i < inputs_.size(); ++i) {
    CONFORM_TRY(guarded(inputs_[i], fmt::format("input {}", i), &inside));
    if (i == shared_input_) continue;
    Bytes before = input_values_[i].bytes;
    before.resize(input_values_[i].tensor.size_bytes());
    const std::string difference = first_difference(inside, before);
    CONFORM_EXPECT(difference.empty(), "execute writes input {}: {}", i, difference);
  }
  for (uint32_t i = 0; i < outputs_.size(); ++i) {
    if (i != shared_output_)
      CONFORM_TRY(guarded(outputs_[i], fmt::format("output {}", i), &inside));
  }
  return workspace_.buffer == nullptr ? pass() : guarded(workspace_, "the workspace", &inside);
}

Outcome same_tensors(const std::vector<Named>& got, const std::vector<Named>& expected,
                     std::string_view what) {
  CONFORM_EXPECT(got.size() == expected.size(),
                 "{}: there are {} outputs, and the reference has {}", what, got.size(),
                 expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    CONFORM_EXPECT(got[i].tensor.dims == expected[i].tensor.dims,
                   "{}: output {} is {} and the reference says {}", what, i,
                   tools::type_text(got[i].tensor), tools::type_text(expected[i].tensor));
    const tools::Comparison compared = tools::compare(
        got[i].tensor, expected[i].tensor, tools::default_tolerance(expected[i].tensor.dtype));
    CONFORM_EXPECT(compared.ok, "{}: element {} of output {} is {} and the reference says {}", what,
                   tools::index_text(expected[i].tensor.dims, compared.worst), i,
                   tools::element_text(got[i].tensor, compared.worst),
                   tools::element_text(expected[i].tensor, compared.worst));
  }
  return pass();
}

Outcome same_bits(const std::vector<Named>& got, const std::vector<Named>& expected,
                  std::string_view what) {
  for (size_t i = 0; i < got.size() && i < expected.size(); ++i) {
    const std::string difference = first_difference(got[i].bytes, expected[i].bytes);
    CONFORM_EXPECT(difference.empty(), "{}: output {}: {}", what, i, difference);
  }
  return pass();
}

void fill_normal(tenon_dtype_t dtype, uint64_t stream, int64_t count, unsigned char* bytes) {
  tools::fill_random(dtype, 7, stream, count, bytes);
}

}  // namespace tenon::conform
