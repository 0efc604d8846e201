// Reports on a program: placement as JSON, the one-line summary, dumps.
#include <algorithm>
#include <map>

#include "core/base/errors/guard.h"
#include "core/base/str.h"
#include "core/ir/serial/serial.h"
#include "core/session/compile/program.h"
#include "core/session/compile/variants.h"

namespace tenon::session {

using ir::Node;

namespace {

constexpr size_t kOpsInSummary = 4;

std::string refusals_json(const dispatch::Placement& placement, Node n) {
  std::string out;
  for (size_t d = 0; d < placement.asked.size(); ++d) {
    const dispatch::Claims& claims = placement.asked[d];
    const bool taken = placement.at[n] == d && placement.claim[n] != dispatch::kAlone;
    if (claims.alone(n) || taken) continue;
    const dispatch::Refusal& refusal = claims.refusals[n];
    out +=
        fmt::format("{}{{\"device\":{},\"code\":{},\"reason\":{}", out.empty() ? "" : ",",
                    json_quoted(claims.device->name()), refusal.code, json_quoted(refusal.reason));
    if (!refusal.composite.empty())
      out += fmt::format(",\"of\":{},\"here\":{}", json_quoted(refusal.composite),
                         json_quoted(refusal.reason_here));
    out += "}";
  }
  return out;
}

// ",\"claim\":2" for a node of an atomic claim.
std::string claim_json(const dispatch::Placement& placement, Node n) {
  return placement.claim[n] == dispatch::kAlone ? std::string()
                                                : fmt::format(",\"claim\":{}", placement.claim[n]);
}

// "sim takes none of 3 nodes: add: no f64 here" for devices that the user named, that refused a
// node and took none.
std::string idle_devices(const dispatch::Placement& placement, const ir::Graph& graph) {
  std::string text;
  const std::span<const Node> nodes = graph.nodes(graph.main());
  for (size_t d = 0; d < placement.named; ++d) {
    const bool took =
        std::any_of(nodes.begin(), nodes.end(), [&](Node n) { return placement.at[n] == d; });
    const auto refused = std::find_if(nodes.begin(), nodes.end(), [&](Node n) {
      return !placement.asked[d].refusals[n].reason.empty();
    });
    if (took || refused == nodes.end()) continue;
    const dispatch::Refusal& refusal = placement.asked[d].refusals[*refused];
    text += fmt::format("{}{} takes none of {} nodes: {}: {}", text.empty() ? "" : "; ",
                        placement.asked[d].device->name(), nodes.size(),
                        printable(refusal.composite.empty() ? graph.op_name(*refused)
                                                            : std::string_view(refusal.composite)),
                        printable(refusal.reason));
  }
  return text;
}

// What one compiler of a device said of a node by itself.
std::string alone_json(const dispatch::Claims& claims, size_t i, Node n, bool taken) {
  const dispatch::Answers& answers = claims.all[i];
  std::string text = fmt::format(
      "{{\"plugin\":{},", json_quoted(claims.device->apis().compiler_plugin(claims.asked[i])));
  if (!answers.alone(n))
    return text + fmt::format("\"reason\":{}}}", json_quoted(answers.refusals[n].reason));
  return text + fmt::format("\"cost_ns\":{:.0f},\"taken\":{}}}",
                            answers.cost_ns[n] + (i == 0 ? 0 : dispatch::kKernelSetNs), taken);
}

// A claim of a kernel set for a node with others, and what the device itself would take for them.
std::string together_json(const dispatch::Claims& claims, const dispatch::AtomicClaim& claim,
                          const ir::Graph& graph, Node n, bool taken) {
  std::string with;
  double own = 0;
  for (Node other : graph.nodes(graph.main())) {
    if (std::find(claim.nodes.begin(), claim.nodes.end(), other) == claim.nodes.end()) continue;
    own += claims.all.front().cost_ns[other];
    if (other != n)
      with += fmt::format("{}{}", with.empty() ? "" : ", ", printable(graph.op_name(other)));
  }
  std::string text = fmt::format("{{\"plugin\":{},\"with\":{},\"cost_ns\":{:.0f},\"taken\":{}",
                                 json_quoted(claims.device->apis().compiler_plugin(claim.by)),
                                 json_quoted(with), claim.cost_ns, taken);
  if (own != dispatch::kNotClaimed) text += fmt::format(",\"own_cost_ns\":{:.0f}", own);
  return text + "}";
}

// Which kernel set of its device runs a node, and what every kernel set for that device answered;
// empty if there are no sets.
std::string kernel_sets_json(const dispatch::Placement& placement, const ir::Graph& graph, Node n) {
  const dispatch::Claims& claims = placement.asked[placement.at[n]];
  if (claims.all.empty()) return "";
  const uint32_t segment = placement.claim[n];
  const bool alone = segment == dispatch::kAlone;
  const uint32_t by = alone ? claims.by[n] : placement.segments[segment].by;
  std::string answers;
  for (size_t i = 0; i < claims.all.size(); ++i)
    answers += (i == 0 ? "" : ",") + alone_json(claims, i, n, alone && claims.asked[i] == by);
  for (const dispatch::AtomicClaim& claim : claims.atomic) {
    if (std::find(claim.nodes.begin(), claim.nodes.end(), n) == claim.nodes.end()) continue;
    // A claim has its nodes by index, a segment in their order.
    const bool taken = !alone && claim.by == by &&
                       std::is_permutation(claim.nodes.begin(), claim.nodes.end(),
                                           placement.segments[segment].nodes.begin(),
                                           placement.segments[segment].nodes.end());
    answers += "," + together_json(claims, claim, graph, n, taken);
  }
  return fmt::format(",\"by\":{},\"measured\":{},\"candidates\":[{}]",
                     json_quoted(claims.device->apis().compiler_plugin(by)), claims.measured,
                     answers);
}

}  // namespace

tenon_program_info_t Program::info() const {
  tenon_program_info_t info{};
  info.node_count = packaged_ != nullptr ? packaged_->node_count : graph_->live_node_count();
  info.device_count = static_cast<uint32_t>(plan_->devices.size());
  info.compile_ms = compile_ms_;
  info.load_ms = load_ms_;
  for (const CompiledSegment& segment : segments_) {
    info.kernels_compiled += segment.info.kernels_compiled;
    info.kernels_from_cache += segment.info.kernels_from_cache;
    info.code_bytes += segment.info.code_bytes;
  }
  const std::shared_ptr<Loading> loaded = loadings_ == nullptr ? nullptr : loadings_->last();
  for (const auto& executable : (loaded == nullptr ? plan_ : loaded->plan)->executables) {
    if (executable == nullptr) continue;
    info.kernel_count += executable->info().kernel_count;
    info.constant_bytes += executable->info().constant_bytes;
  }
  info.copy_count = copies_.size();
  if (packaged_ != nullptr) {
    info.copy_count = packaged_->copy_count;
    info.code_bytes = packaged_->code_bytes;
  }
  return info;
}

// In the order of segments; what several segments make is counted once.
std::vector<Node> Program::nodes_on(uint32_t device) const {
  std::vector<Node> nodes;
  std::vector<bool> counted(graph_->node_limit(), false);
  for (const CompiledSegment& segment : segments_) {
    if (segment.device != device) continue;
    for (Node n : segment.nodes) {
      if (!counted[n]) nodes.push_back(n);
      counted[n] = true;
    }
  }
  return nodes;
}

std::string Program::placement_json(std::string_view more) const {
  if (packaged_ != nullptr) return packaged_->placement;
  std::map<std::string, std::array<double, 2>> bytes;  // in, out
  std::string copies;
  for (const CopyRecord& copy : copies_) {
    bytes[copy.to][0] += copy.bytes;
    bytes[copy.from][1] += copy.bytes;
    copies += fmt::format("{}{{\"value\":{},\"from\":{},\"to\":{},\"bytes\":{:.0f}}}",
                          copies.empty() ? "" : ",", copy.value, json_quoted(copy.from),
                          json_quoted(copy.to), copy.bytes);
  }
  std::string devices;
  for (size_t d = 0; d < plan_->devices.size(); ++d) {
    const size_t nodes = nodes_on(static_cast<uint32_t>(d)).size();
    const std::string& name = plan_->devices[d]->name();
    devices +=
        fmt::format("{}{{\"device\":{},\"nodes\":{},\"bytes_in\":{:.0f},\"bytes_out\":{:.0f}}}",
                    d == 0 ? "" : ",", json_quoted(name), nodes, bytes[name][0], bytes[name][1]);
  }
  std::string nodes;
  for (Node n : graph_->nodes(graph_->main())) {
    nodes += fmt::format(
        "{}\n{{\"node\":{},\"op\":{},\"device\":{},\"origins\":{},\"refusals\":[{}]{}{}}}",
        nodes.empty() ? "" : ",", n, json_quoted(graph_->op_name(n)),
        json_quoted(placement_.asked[placement_.at[n]].device->name()),
        json_quoted(graph_->node(n).loc == 0 ? "" : graph_->loc_text(graph_->node(n).loc)),
        refusals_json(placement_, n), claim_json(placement_, n),
        kernel_sets_json(placement_, graph(), n));
  }
  return fmt::format("{{\"schema\":1,\"devices\":[{}],\"nodes\":[{}],\"copies\":[{}]{}}}\n",
                     devices, nodes, copies, more);
}

// "12 of 340 nodes on cpu: add, sort (sim: no sort here)". Names the devices that took fewer nodes,
// and named devices that took none.
std::string Program::placement_summary() const {
  if (packaged_ != nullptr) return packaged_->summary;
  const std::string idle = idle_devices(placement_, *graph_);
  if (plan_->devices.size() < 2) return idle.empty() ? "" : idle + "\n";
  const size_t total = graph_->nodes(graph_->main()).size();
  std::vector<size_t> counts;
  for (uint32_t d = 0; d < plan_->devices.size(); ++d) counts.push_back(nodes_on(d).size());
  // The device that was asked first is the norm; the others are named.
  std::string text;
  for (size_t d = 0; d < counts.size(); ++d) {
    const std::string& name = plan_->devices[d]->name();
    if (name == placement_.asked[0].device->name()) continue;
    std::map<std::string, size_t> ops;
    std::string reason;
    for (Node n : nodes_on(static_cast<uint32_t>(d))) {
      ++ops[std::string(graph_->op_name(n))];
      const dispatch::Refusal& refusal = placement_.asked[0].refusals[n];
      if (reason.empty() && !refusal.reason.empty()) reason = refusal.reason;
    }
    text +=
        fmt::format("{}{} of {} nodes on {}: ", text.empty() ? "" : "; ", counts[d], total, name);
    size_t shown = 0;
    for (const auto& [op, count] : ops) {
      if (++shown <= kOpsInSummary) text += (shown == 1 ? "" : ", ") + printable(op);
    }
    if (ops.size() > kOpsInSummary) text += fmt::format(" and {} more", ops.size() - kOpsInSummary);
    if (!reason.empty())
      text += fmt::format(" ({}: {})", placement_.asked[0].device->name(), printable(reason));
  }
  if (!idle.empty()) text += (text.empty() ? "" : "; ") + idle;
  return text + "\n";
}

Result<std::string> Program::dump(std::string_view what) const {
  if (packaged_ != nullptr) {
    return error(TENON_NOT_FOUND, "T0508",
                 "a program from a package has no {}; it was compiled before", quoted(what));
  }
  if (what == "graph") {
    TENON_ASSIGN_OR_RETURN(ir::TextForm form, ir::write_text(*graph_));
    return std::move(form.text);
  }
  if (what == "partition") {
    std::string text;
    for (size_t i = 0; i < segments_.size(); ++i) {
      TENON_ASSIGN_OR_RETURN(const ir::TextForm form, ir::write_text(*segments_[i].subgraph.graph));
      text += fmt::format("// segment {} on {}: {} nodes\n{}\n", i, segments_[i].owner->name(),
                          segments_[i].nodes.size(), form.text);
    }
    return text;
  }
  if (what == "report") return report_json();
  const size_t slash = what.find('/');
  if (slash != std::string_view::npos)
    return dump_device(what.substr(0, slash), what.substr(slash + 1));
  return error(
      TENON_NOT_FOUND, "T0508",
      "a program has no part {}; it has `graph`, `partition`, `report` and, for each device, "
      "`DEVICE/stages`, `DEVICE/loops`, `DEVICE/source`, `DEVICE/kernels`, `DEVICE/plan` and "
      "`DEVICE/asm` as far as the device knows "
      "them",
      quoted(what));
}

Result<std::string> Program::dump_device(std::string_view device, std::string_view what) const {
  std::string out;
  const tenon_sink_t sink = sink_into(out);
  bool found = false;
  for (const CompiledSegment& segment : segments_) {
    if (segment.owner->name() != device) continue;
    found = true;
    if (segment.by != 0) continue;  // another plugin's kernels: nothing was generated
    const tenon_compile_api_t* api = segment.compiler();
    if (api->dump == nullptr)
      return error(TENON_NOT_FOUND, "T0508", "device {} shows nothing of what it makes",
                   quoted(device));
    clear_failure();
    const tenon_code_t code = api->dump(api->self, segment.artifact, to_abi_str(what), &sink);
    if (code != TENON_OK) {
      const Status why = from_abi(code, fmt::format("device {}: dump", quoted(device)));
      return error(code, "T0508", "device {} has no {}: {}", quoted(device), quoted(what),
                   why.message());
    }
  }
  if (found) return out;
  std::string names;
  for (const auto& d : plan_->devices) names += (names.empty() ? "" : ", ") + d->name();
  return error(TENON_NOT_FOUND, "T0508", "device {} takes no part in this program; these do: {}",
               quoted(device), names);
}

// ---- Programs by value: those that were compiled, the one that ran last first ----

tenon_program_info_t Variants::info() const {
  tenon_program_info_t info{};
  info.node_count = model_->graph()->live_node_count();
  for (const auto& variant : all()) {
    const tenon_program_info_t one = variant->program->info();
    info.device_count = std::max(info.device_count, one.device_count);
    info.compile_ms += one.compile_ms;
    info.load_ms += one.load_ms;
    info.kernels_compiled += one.kernels_compiled;
    info.kernels_from_cache += one.kernels_from_cache;
    info.kernel_count += one.kernel_count;
    info.code_bytes += one.code_bytes;
    info.constant_bytes += one.constant_bytes;
    info.copy_count += one.copy_count;
  }
  return info;
}

std::string Variants::placement_json() const {
  const std::string more = ",\"by_value\":" + json();
  const std::vector<std::shared_ptr<Variant>> compiled = all();
  if (compiled.empty())
    return fmt::format("{{\"schema\":1,\"devices\":[],\"nodes\":[],\"copies\":[]{}}}\n", more);
  return compiled.front()->program->placement_json(more);
}

std::string Variants::placement_summary() const {
  const std::vector<std::shared_ptr<Variant>> compiled = all();
  return compiled.empty() ? "" : compiled.front()->program->placement_summary();
}

Result<std::string> Variants::dump(std::string_view what) const {
  if (what == "graph") {
    TENON_ASSIGN_OR_RETURN(ir::TextForm form, ir::write_text(*model_->graph()));
    return std::move(form.text);
  }
  const std::vector<std::shared_ptr<Variant>> compiled = all();
  if (!compiled.empty()) return compiled.front()->program->dump(what);
  return error(TENON_NOT_FOUND, "T0508",
               "a program whose shapes follow from the values of inputs has no {} before it ran; "
               "it has `graph`",
               quoted(what));
}

}  // namespace tenon::session
