#include "segments.h"

#include <cstring>
#include <exception>

#include "tenon/cpp/dtype.hpp"

namespace tenon::record {
namespace {

std::string hex(const uint64_t (&words)[2]) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (uint64_t word : words) {
    for (int shift = 60; shift >= 0; shift -= 4) text += kDigits[word >> shift & 15];
  }
  return text;
}

constexpr int64_t kSizeMax = int64_t{1} << 40;

struct Bytes {
  std::string text;
  tenon_sink_t sink() { return sink_to(&text); }
};

}  // namespace

std::string last_failure_text() {
  auto failure = sized<tenon_failure_t>();
  const tenon_host_t* host = context().host;
  if (host->last_failure(host->self, &failure) != TENON_OK || failure.code == TENON_OK)
    return "the host does not say why";
  return cat(view(failure.id), ": ", view(failure.message));
}

Status Segments::attach(LayerSubject& subject) {
  plugin_ = subject.plugin();
  TENON_TRY(read_options(subject));
  session_ = context().query<tenon_host_session_t>(TENON_HOST_SESSION_ID);
  files_ = context().query<tenon_host_files_t>(TENON_HOST_FILES_ID);
  if (session_ == nullptr || files_ == nullptr || context().graph == nullptr)
    return subject.refuse("this host offers no sessions, files or graphs");
  device_ = subject.next<tenon_device_api_t>(TENON_DEVICE_ID);
  queue_ = subject.next<tenon_queue_api_t>(TENON_QUEUE_ID);
  compile_ = subject.next<tenon_compile_api_t>(TENON_COMPILE_ID);
  if (device_ == nullptr || compile_ == nullptr) return {};
  table_.compile = layer_slot<&Segments::compile>;
  table_.artifact_release = layer_slot<&Segments::artifact_release>;
  table_.artifact_bytes = layer_slot<&Segments::artifact_bytes>;
  table_.load = layer_slot<&Segments::load>;
  table_.executable_release = layer_slot<&Segments::executable_release>;
  table_.execute = layer_slot<&Segments::execute>;
  subject.put(TENON_COMPILE_ID, &table_, this);
  return {};
}

// ---- From graph to executable ----

// In order of value index, as `load` receives them.
std::vector<std::array<uint64_t, 2>> Segments::constants_of(tenon_graph_t* graph) const {
  const tenon_host_graph_t* host = context().graph;
  std::vector<std::array<uint64_t, 2>> digests;
  auto g = sized<tenon_graph_view_t>();
  if (host->graph_view(host->self, graph, &g) != TENON_OK) return digests;
  for (tenon_value_t v = 0; v < g.value_limit; ++v) {
    auto value = sized<tenon_value_view_t>();
    uint64_t digest[2] = {};
    if (host->value_view(host->self, graph, v, &value) != TENON_OK ||
        value.kind != TENON_VALUE_CONSTANT)
      continue;
    if (host->blob_digest(host->self, value.blob, digest) == TENON_OK)
      digests.push_back({digest[0], digest[1]});
  }
  return digests;
}

// The same bytes with other constants are a different segment.
std::string Segments::key_of(std::string_view bytes,
                             const std::vector<std::array<uint64_t, 2>>& digests) const {
  std::string key(bytes);
  for (const auto& digest : digests)
    key.append(reinterpret_cast<const char*>(digest.data()), sizeof digest);
  return key;
}

Segment* Segments::segment_of(tenon_graph_t* graph) {
  const tenon_host_graph_t* host = context().graph;
  uint64_t hash[2] = {};
  tenon_graph_view_t g = {};
  tenon_region_view_t region = {};
  g.size_bytes = sizeof g;
  region.size_bytes = sizeof region;
  if (host->graph_hash(host->self, graph, hash) != TENON_OK ||
      host->graph_view(host->self, graph, &g) != TENON_OK ||
      host->region_view(host->self, graph, g.main, &region) != TENON_OK) {
    return nullptr;
  }
  std::unique_ptr<Segment>& place = segments_[hex(hash)];
  if (place != nullptr) return place.get();
  place = std::make_unique<Segment>();
  host->retain(host->self, graph);
  place->graph = graph;
  place->hash = hex(hash);
  for (uint32_t i = 0; i < region.argument_count; ++i) {
    auto value = sized<tenon_value_view_t>();
    const bool known = host->value_view(host->self, graph, region.arguments[i], &value) == TENON_OK;
    place->inputs.push_back(
        {known ? std::string(sym_text(value.name)) : std::string(), region.arguments[i]});
  }
  for (uint32_t i = 0; i < region.yield_count; ++i) {
    place->outputs.push_back({region.output_names == nullptr
                                  ? std::string()
                                  : std::string(sym_text(region.output_names[i])),
                              region.yields[i]});
  }
  if (Status status = compiled(*place); !status.ok())
    log("record", TENON_LOG_WARN, plugin_, ": the graph ", file(*place, ".tirb"),
        " is not kept: ", last_failure_text());
  return place.get();
}

tenon_code_t Segments::compile(tenon_str_t target, tenon_graph_t* graph,
                               const tenon_compile_options_t* options, tenon_artifact_t** out) {
  // Before compilation, so that a graph that crashes the compiler is recorded.
  Segment* segment = nullptr;
  {
    const std::lock_guard lock(mutex_);
    segment = segment_of(graph);
  }
  TENON_TRY(compile_->compile(compile_->self, target, graph, options, out));
  const std::lock_guard lock(mutex_);
  artifacts_[*out] = segment;
  return TENON_OK;
}

void Segments::artifact_release(tenon_artifact_t* artifact) {
  {
    const std::lock_guard lock(mutex_);
    artifacts_.erase(artifact);
  }
  compile_->artifact_release(compile_->self, artifact);
}

tenon_code_t Segments::artifact_bytes(tenon_artifact_t* artifact, const tenon_sink_t* sink) {
  Bytes bytes;
  const tenon_sink_t collect = bytes.sink();
  TENON_TRY(compile_->artifact_bytes(compile_->self, artifact, &collect));
  {
    const std::lock_guard lock(mutex_);
    if (Segment* segment = artifacts_[artifact])
      by_bytes_[key_of(bytes.text, constants_of(segment->graph))] = segment;
  }
  return sink->write(sink->self, bytes.text.data(), bytes.text.size());
}

tenon_code_t Segments::load(tenon_device_t* device, const void* bytes, uint64_t size,
                            tenon_blob_t* const* constants, uint32_t count,
                            tenon_executable_t** out) {
  TENON_TRY(compile_->load(compile_->self, device, bytes, size, constants, count, out));
  const tenon_host_graph_t* host = context().graph;
  std::vector<std::array<uint64_t, 2>> digests;
  for (uint32_t i = 0; i < count; ++i) {
    uint64_t digest[2] = {};
    if (host->blob_digest(host->self, constants[i], digest) == TENON_OK)
      digests.push_back({digest[0], digest[1]});
  }
  const std::lock_guard lock(mutex_);
  const auto known = by_bytes_.find(key_of({static_cast<const char*>(bytes), size}, digests));
  if (known != by_bytes_.end()) executables_[*out] = {known->second, device};
  return TENON_OK;
}

void Segments::executable_release(tenon_executable_t* executable) {
  {
    const std::lock_guard lock(mutex_);
    executables_.erase(executable);
  }
  compile_->executable_release(compile_->self, executable);
}

// ---- Executions ----

std::optional<Array> Segments::read(const Segment& segment, tenon_value_t value,
                                    tenon_device_t* device, const tenon_span_t& span,
                                    const tenon_symbols_t& symbols) const {
  const tenon_host_graph_t* host = context().graph;
  tenon_value_view_t v = {};
  tenon_graph_view_t g = {};
  tenon_region_view_t region = {};
  v.size_bytes = sizeof v;
  g.size_bytes = sizeof g;
  region.size_bytes = sizeof region;
  if (span.buffer == nullptr ||
      host->value_view(host->self, segment.graph, value, &v) != TENON_OK ||
      v.type.kind != TENON_KIND_TENSOR ||
      host->graph_view(host->self, segment.graph, &g) != TENON_OK ||
      host->region_view(host->self, segment.graph, g.main, &region) != TENON_OK) {
    return std::nullopt;
  }
  // If two values of the data-dependent symbols give different extents, the dim depends on the run.
  std::vector<int64_t> ones(g.symbol_limit, 1), twos(g.symbol_limit, 2);
  for (uint32_t i = 0; i < symbols.count && i < region.symbol_count; ++i)
    ones[region.symbols[i]] = twos[region.symbols[i]] = symbols.values[i];
  Array array;
  array.dtype = v.type.dtype;
  int64_t count = 1;
  for (uint32_t i = 0; i < v.type.rank; ++i) {
    int64_t a = 0, b = 0;
    if (host->dim_evaluate(host->self, segment.graph, v.type.dims[i], ones.data(), g.symbol_limit,
                           &a) != TENON_OK ||
        host->dim_evaluate(host->self, segment.graph, v.type.dims[i], twos.data(), g.symbol_limit,
                           &b) != TENON_OK ||
        a != b || a < 0) {
      return std::nullopt;
    }
    if (__builtin_mul_overflow(count, a, &count) || count > kSizeMax) return std::nullopt;
    array.dims.push_back(a);
  }
  const uint64_t bits = dtype_bits(array.dtype);
  array.bytes.resize((static_cast<uint64_t>(count) * bits + 7) / 8);
  if (array.bytes.empty()) return array;
  auto copy = sized<tenon_copy_t>();
  copy.direction = TENON_COPY_DEVICE_TO_HOST;
  copy.from = span.buffer;
  copy.from_offset_bytes = span.offset_bytes;
  copy.length_bytes = array.bytes.size();
  copy.host_to = array.bytes.data();
  if (device_->copy(device_->self, device, &copy) != TENON_OK) return std::nullopt;
  return array;
}

// A call without a queue is complete when it returns, and its caller has waited for its inputs.
void Segments::await_work(const tenon_call_t& call, tenon_device_t* device) const {
  tenon_buffer_t* const any = any_buffer(call);
  if (call.queue != nullptr && queue_ != nullptr && any != nullptr)
    (void)await_queue(*queue_, device, call.queue, any).code();
}

// Made by what the call waits for, or by what is before it on its queue.
void Segments::await_inputs(const tenon_call_t& call, tenon_device_t* device) const {
  for (uint32_t i = 0; queue_ != nullptr && i < call.wait_count; ++i) {
    const tenon_fence_point_t& point = call.waits[i];
    if (point.fence != nullptr)
      (void)queue_->fence_wait(queue_->self, point.fence, point.value, UINT64_MAX);
  }
  await_work(call, device);
}

tenon_code_t Segments::execute(tenon_executable_t* executable, const tenon_call_t* call) {
  Segment* segment = nullptr;
  tenon_device_t* device = nullptr;
  uint64_t number = 0;
  {
    const std::lock_guard lock(mutex_);
    if (const auto known = executables_.find(executable); known != executables_.end()) {
      segment = known->second.segment;
      device = known->second.device;
      number = segment->runs++;
    }
  }
  if (segment == nullptr || !wants(*segment, number))
    return compile_->execute(compile_->self, executable, call);
  std::vector<std::optional<Array>> inputs, outputs;
  await_inputs(*call, device);
  for (uint32_t i = 0; i < call->input_count && i < segment->inputs.size(); ++i) {
    inputs.push_back(read(*segment, segment->inputs[i].value, device, *tenon_call_input(call, i),
                          call->symbols));
  }
  const tenon_code_t code = compile_->execute(compile_->self, executable, call);
  if (code == TENON_OK) await_work(*call, device);
  for (uint32_t i = 0; code == TENON_OK && i < call->output_count && i < segment->outputs.size();
       ++i) {
    outputs.push_back(read(*segment, segment->outputs[i].value, device, *tenon_call_output(call, i),
                           call->symbols));
  }
  executed(*segment, number, inputs, outputs, code);
  return code;
}

}  // namespace tenon::record
