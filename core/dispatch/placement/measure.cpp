#include "core/dispatch/placement/measure.h"

#include <fmt/format.h>

#include <tenon/cpp/record.hpp>

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>

#include "core/base/cache.h"
#include "core/base/errors/failure.h"
#include "core/base/errors/guard.h"
#include "core/base/limits.h"
#include "core/base/process/log.h"
#include "core/base/process/operation.h"
#include "core/base/process/thread_pool.h"
#include "core/base/str.h"
#include "core/dispatch/placement/extract.h"
#include "core/dispatch/placement/placement.h"
#include "core/ir/dtype.h"
#include "core/ir/form.h"
#include "core/runtime/device/executable.h"
#include "core/runtime/device/queue.h"
#include "core/runtime/run/trace.h"

namespace tenon::dispatch {
namespace {

using ir::Graph;
using ir::Node;
using ir::Value;

constexpr uint64_t kMeasureNs = 20'000'000;  // of one part by one compiler
constexpr int kRunsMin = 3, kRunsMax = 200;
constexpr std::string_view kCacheKind = "measured";
constexpr uint64_t kConstantBytesMax = 64;  // the values of larger constants change no time

// Results of the nodes that something else reads.
std::vector<Value> outputs_of(const Graph& graph, std::span<const Node> nodes) {
  const auto inside = [&](Node n) {
    return std::find(nodes.begin(), nodes.end(), n) != nodes.end();
  };
  std::vector<bool> read(graph.value_limit(), false);
  for (Node n : graph.nodes(graph.main())) {
    if (inside(n)) continue;
    for (Value v : reads_of(graph, n)) read[v] = true;
  }
  for (Value v : graph.region(graph.main()).yields) read[v] = true;
  std::vector<Value> outputs;
  for (Node n : nodes) {
    for (Value v : graph.results(n)) {
      if (read[v]) outputs.push_back(v);
    }
  }
  return outputs;
}

// Device memory of one run, with inputs that no element type takes for special values.
class Arrays {
 public:
  explicit Arrays(std::shared_ptr<runtime::Device> device) : device_(std::move(device)) {}
  Status add(uint64_t bytes, bool fill, std::vector<tenon_span_t>* spans) {
    TENON_ASSIGN_OR_RETURN(runtime::Buffer buffer,
                           runtime::Buffer::allocate(device_, std::max<uint64_t>(bytes, 1)));
    if (fill && bytes != 0) {
      constexpr unsigned char kByte = 0x3c;  // 0.01 as f32 and bf16, 1.06 as f16, 60 as an integer
      const std::vector<unsigned char> data(bytes, kByte);
      auto copy = sized<tenon_copy_t>();
      copy.direction = TENON_COPY_HOST_TO_DEVICE;
      copy.to = buffer.handle();
      copy.length_bytes = bytes;
      copy.host_from = data.data();
      TENON_RETURN_IF_ERROR(device_->copy(copy));
    }
    spans->push_back({buffer.handle(), 0});
    buffers_.push_back(std::move(buffer));
    return {};
  }

 private:
  std::shared_ptr<runtime::Device> device_;
  std::vector<runtime::Buffer> buffers_;
};

class Meter {
 public:
  Meter(const Graph& graph, const CompileSettings& settings, const Claims& claims)
      : graph_(graph), settings_(settings), device_(claims.device) {}

  // The time of one run of these nodes by a compiler of the device; none if it cannot be measured.
  std::optional<double> time_of(std::span<const Node> nodes, uint32_t by) {
    Result<double> time = measured(nodes, by);
    if (time.ok()) return *time;
    log_detail("dispatch", "{} by {} is not measured: {}", graph_.op_name(nodes[0]),
               device_->apis().compiler_plugin(by), time.status().text());
    return std::nullopt;
  }

 private:
  Result<double> measured(std::span<const Node> nodes, uint32_t by) {
    std::vector<Node> in_order;
    for (Node n : graph_.nodes(graph_.main())) {
      if (std::find(nodes.begin(), nodes.end(), n) != nodes.end()) in_order.push_back(n);
    }
    TENON_ASSIGN_OR_RETURN(const Subgraph part,
                           extract(graph_, in_order, outputs_of(graph_, in_order), "measured"));
    if (!part.symbols.empty() || !part.out_symbols.empty())
      return error(TENON_UNIMPLEMENTED, "T0506", "its sizes are known only in a run");
    TENON_ASSIGN_OR_RETURN(const std::string key, key_of(*part.graph, by));
    if (const auto known = find(key)) return *known;
    TENON_ASSIGN_OR_RETURN(const double time, run(*part.graph, by));
    (void)Cache::process().put(kCacheKind, std::as_bytes(std::span(key)),
                               std::as_bytes(std::span(&time, 1)));
    return time;
  }

  Result<std::string> key_of(const Graph& part, uint32_t by) const {
    TENON_ASSIGN_OR_RETURN(const ir::Digest form, ir::form_hash(part, kConstantBytesMax));
    std::string key =
        fmt::format("{} {} {} {} {}\n", device_->apis().compiler_plugin(by),
                    device_->apis().compiler_version(by), from_abi_str(device_->target()),
                    thread_count(), settings_.deterministic);
    for (const auto& [name, value] : settings_.options) key += name + "=" + value + "\n";
    return key.append(reinterpret_cast<const char*>(&form), sizeof form);
  }

  static std::optional<double> find(const std::string& key) {
    const Result<CacheEntry> entry =
        Cache::process().get(kCacheKind, std::as_bytes(std::span(key)));
    double time = 0;
    if (!entry.ok() || entry->bytes.size() != sizeof time) return std::nullopt;
    std::memcpy(&time, entry->bytes.data(), sizeof time);
    return time;
  }

  Result<double> run(const Graph& part, uint32_t by) {
    TENON_ASSIGN_OR_RETURN(const auto executable, load(part, by));
    TENON_ASSIGN_OR_RETURN(const auto needs, executable->needs({}));
    Arrays arrays(device_);
    std::vector<tenon_span_t> inputs, outputs, workspace;
    for (Value v : part.region(part.main()).arguments) {
      const uint64_t bytes = static_cast<uint64_t>(likely_bytes(part, v, {}));
      TENON_RETURN_IF_ERROR(arrays.add(bytes, true, &inputs));
    }
    for (const auto& output : needs->outputs)
      TENON_RETURN_IF_ERROR(arrays.add(output.size_bytes, false, &outputs));
    if (needs->workspace_bytes != 0)
      TENON_RETURN_IF_ERROR(arrays.add(needs->workspace_bytes, false, &workspace));
    auto call = sized<tenon_call_t>();
    call.input_count = static_cast<uint32_t>(inputs.size());
    call.output_count = static_cast<uint32_t>(outputs.size());
    call.inputs = inputs.data();
    call.outputs = outputs.data();
    call.span_bytes = sizeof(tenon_span_t);
    if (!workspace.empty()) {
      call.workspace = workspace[0].buffer;
      call.workspace_offset_bytes = workspace[0].offset_bytes;
    }
    std::unique_ptr<runtime::Queue> queue;  // ends before the arrays
    if (executable->on_queue()) {
      TENON_ASSIGN_OR_RETURN(queue, runtime::Queue::create(device_));
      call.queue = queue->handle();
    }
    return best_of(*executable, call, queue.get());
  }

  // Returns when the work is done.
  static Status run_once(runtime::Executable& executable, tenon_call_t call,
                         runtime::Queue* queue) {
    if (queue == nullptr) return executable.execute(call);
    call.signal = queue->next_signal();
    Status status = executable.execute(call);
    if (!status.ok()) {
      queue->refused();
      return status;
    }
    const uint64_t begin = runtime::now_ns();
    for (;;) {
      TENON_ASSIGN_OR_RETURN(const bool done, queue->poll(queue->submitted()));
      if (done) return {};
      if ((runtime::now_ns() - begin) / 1'000'000'000 < limit(Limit::kDeviceWaitSeconds)) continue;
      queue->device().abandon();
      return error(TENON_DEVICE_LOST, "T0618", "device {} did not finish what was measured",
                   quoted(queue->device().name()));
    }
  }

  static Result<double> best_of(runtime::Executable& executable, const tenon_call_t& call,
                                runtime::Queue* queue) {
    TENON_RETURN_IF_ERROR(run_once(executable, call, queue));  // warms up
    double best = kNotClaimed;
    const uint64_t begin = runtime::now_ns();
    for (int i = 0; i < kRunsMax; ++i) {
      const uint64_t at = runtime::now_ns();
      if (i >= kRunsMin && at - begin > kMeasureNs) break;
      TENON_RETURN_IF_ERROR(check_cancelled());
      TENON_RETURN_IF_ERROR(run_once(executable, call, queue));
      best = std::min(best, static_cast<double>(runtime::now_ns() - at));
    }
    return best;
  }

  Result<std::unique_ptr<runtime::Executable>> load(const Graph& part, uint32_t by) {
    const tenon_compile_api_t* api = device_->apis().compiler(by);
    const DeviceOptions options(settings_, from_abi_str(device_->info().kind));
    std::string bytes;
    const tenon_sink_t sink = sink_into(bytes);
    {
      auto guard = device_->serialise();
      clear_failure();
      tenon_artifact_t* artifact = nullptr;
      TENON_RETURN_IF_ERROR(
          device_->check(api->compile(api->self, device_->target(), const_cast<Graph&>(part).abi(),
                                      options.record(), &artifact),
                         "compile"));
      if (artifact == nullptr)
        return error(TENON_INTERNAL, "T0505", "device {} compiled to nothing",
                     quoted(device_->name()));
      const tenon_code_t code = api->artifact_bytes(api->self, artifact, &sink);
      api->artifact_release(api->self, artifact);
      TENON_RETURN_IF_ERROR(device_->check(code, "artifact_bytes"));
    }
    std::vector<tenon_blob_t*> constants;
    for (Value v = 0; v < part.value_limit(); ++v) {
      if (part.value(v).kind == TENON_VALUE_CONSTANT)
        constants.push_back(part.value(v).blob->abi());
    }
    std::vector<uint32_t> ranks;
    for (Value v : part.region(part.main()).yields) ranks.push_back(part.type(v).rank);
    return runtime::Executable::load(device_, std::as_bytes(std::span(bytes)),
                                     {constants, ranks, by});
  }

  const Graph& graph_;
  const CompileSettings& settings_;
  const std::shared_ptr<runtime::Device> device_;
};

// The measured costs of a device, put together from those of parts.
class Costs {
 public:
  Costs(const Graph& graph, const CompileSettings& settings, Claims* claims)
      : claims_(*claims), meter_(graph, settings, *claims), own_(claims->all.front()) {}

  Status measure(std::span<const Node> main) {
    for (Node n : main) {
      TENON_RETURN_IF_ERROR(check_cancelled());
      measure_alone(n);
    }
    for (AtomicClaim& claim : claims_.atomic) {
      TENON_RETURN_IF_ERROR(check_cancelled());
      if (claim.by != 0) measure_together(&claim);
    }
    return {};
  }

 private:
  // A node that a set takes by itself is measured for both sides.
  void measure_alone(Node n) {
    bool wanted = false;
    for (size_t i = 1; i < claims_.all.size(); ++i) wanted |= claims_.all[i].alone(n);
    if (!wanted || !own_.alone(n)) return;
    const std::optional<double> own = meter_.time_of({&n, 1}, 0);
    if (!own) return;
    own_.cost_ns[n] = *own;
    set(n, *own, 0);
    for (size_t i = 1; i < claims_.all.size(); ++i) {
      Answers& answers = claims_.all[i];
      if (!answers.alone(n)) continue;
      const std::optional<double> theirs = meter_.time_of({&n, 1}, claims_.asked[i]);
      if (!theirs) continue;
      answers.cost_ns[n] = *theirs;
      if (*theirs + kKernelSetNs < claims_.cost_ns[n])
        set(n, *theirs + kKernelSetNs, claims_.asked[i]);
    }
  }
  void set(Node n, double cost, uint32_t by) {
    claims_.cost_ns[n] = cost;
    claims_.by[n] = by;
    claims_.measured = true;
  }

  // Either side is to take the whole: what the device's own code takes for it is that of its
  // dearest node, and the rest is shared by the others, which cost next to nothing where they are
  // fused.
  void measure_together(AtomicClaim* claim) {
    if (const auto theirs = meter_.time_of(claim->nodes, claim->by)) {
      claim->cost_ns = *theirs + kKernelSetNs;
      claims_.measured = true;
    }
    if (!std::all_of(claim->nodes.begin(), claim->nodes.end(),
                     [&](Node n) { return own_.alone(n); }))
      return;
    const std::optional<double> own = meter_.time_of(claim->nodes, 0);
    if (!own) return;
    const Node anchor =
        *std::max_element(claim->nodes.begin(), claim->nodes.end(),
                          [&](Node a, Node b) { return own_.cost_ns[a] < own_.cost_ns[b]; });
    const double head = std::min(own_.cost_ns[anchor], *own);
    const double rest = (*own - head) / std::max<double>(1, claim->nodes.size() - 1.0);
    for (Node n : claim->nodes) {
      own_.cost_ns[n] = n == anchor ? head : rest;
      set(n, own_.cost_ns[n], 0);
    }
  }

  Claims& claims_;
  Meter meter_;
  Answers& own_;
};

}  // namespace

Status measure_claims(const ir::Graph& graph, const CompileSettings& settings, Claims* claims) {
  if (claims->all.size() < 2) return {};  // no kernel set to compare with
  return Costs(graph, settings, claims).measure(graph.nodes(graph.main()));
}

}  // namespace tenon::dispatch
