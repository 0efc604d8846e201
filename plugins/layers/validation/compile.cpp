// tenon.compile/1: claims, artifacts as bytes, executables and their calls.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <set>

#include "validation.h"

namespace tenon::validation {
namespace {

std::string text(std::string_view what, uint64_t index) {
  return cat(what, " ", index);
}

std::vector<int64_t> values_of(tenon_symbols_t symbols) {
  return symbols.count == 0 ? std::vector<int64_t>()
                            : std::vector<int64_t>(symbols.values, symbols.values + symbols.count);
}

struct Collected {
  std::string bytes;
  tenon_sink_t sink() { return sink_to(&bytes); }
};

// Sits between a plugin and the host's sink of claims. Never freed, because a plugin may call it
// too late.
struct ClaimWatch {
  Report* report;
  const tenon_claim_sink_t* sink;
  bool knows_nodes = false;
  std::set<tenon_node_t> nodes;   // in the main region
  std::set<tenon_node_t> inside;  // in nested regions
  std::atomic<bool> over = false;

  bool stands_in_main(tenon_node_t node) const { return !knows_nodes || nodes.count(node) != 0; }
  bool stands_inside(tenon_node_t node) const { return inside.count(node) != 0; }
  void read(const tenon_host_graph_t* host, tenon_graph_t* graph, tenon_region_t region,
            std::set<tenon_node_t>* into) {
    auto view = sized<tenon_region_view_t>();
    if (host->region_view(host->self, graph, region, &view) != TENON_OK) return;
    into->insert(view.nodes, view.nodes + view.node_count);
    for (uint32_t i = 0; i < view.node_count; ++i) {
      auto node = sized<tenon_node_view_t>();
      if (host->node_view(host->self, graph, view.nodes[i], &node) != TENON_OK) continue;
      for (uint32_t r = 0; r < node.region_count; ++r) read(host, graph, node.regions[r], &inside);
    }
  }
  bool is_over(std::string_view slot) const {
    if (over)
      report->broken("R-E01", "claim", cat("it calls ", slot, " of its sink after it returned"));
    return over;
  }
  static tenon_code_t claim(void* self, const tenon_claim_t* given) {
    auto& w = *static_cast<ClaimWatch*>(self);
    if (w.is_over("claim")) return TENON_FAILED_PRECONDITION;
    tenon_claim_t claim = {};
    if (given == nullptr || tenon_record_take(&claim, sizeof claim, given) != TENON_OK) {
      w.report->broken("R-E02", "claim", "a claim that does not state its size");
      return TENON_INVALID_ARGUMENT;
    }
    const tenon_node_t* nodes = claim.nodes;
    const uint32_t count = claim.node_count;
    const double cost_ns = claim.cost_ns;
    const bool together = count != 1 || (claim.flags & TENON_CLAIM_ATOMIC) != 0;
    std::set<tenon_node_t> seen;
    if ((claim.flags & ~TENON_CLAIM_ATOMIC) != 0)
      w.report->broken("R-E02", "claim", cat("a claim with unknown flags ", claim.flags));
    for (uint32_t i = 0; i < count && nodes != nullptr; ++i) {
      if (!seen.insert(nodes[i]).second)
        w.report->broken("R-E02", "claim", cat("node ", nodes[i], " is twice in one claim"));
      if (w.stands_in_main(nodes[i])) continue;
      if (!w.stands_inside(nodes[i]))
        w.report->broken("R-E02", "claim", cat("node ", nodes[i], " is not in the graph"));
      if (w.stands_inside(nodes[i]) && together)
        w.report->broken(
            "R-E02", "claim",
            cat("node ", nodes[i], " is inside a region and is claimed together with others"));
    }
    if (count == 0 || nodes == nullptr) w.report->broken("R-E02", "claim", "a claim of no nodes");
    if (!std::isfinite(cost_ns) || cost_ns < 0)
      w.report->broken("R-E02", "claim", cat("a cost of ", cost_ns, " ns"));
    return w.sink->claim(w.sink->self, given);
  }
  static tenon_code_t refuse(void* self, tenon_node_t node, tenon_code_t code, tenon_str_t reason) {
    auto& w = *static_cast<ClaimWatch*>(self);
    if (w.is_over("refuse")) return TENON_FAILED_PRECONDITION;
    if (!w.stands_in_main(node) && !w.stands_inside(node))
      w.report->broken("R-E04", "claim",
                       cat("it refuses node ", node, ", which is not in the graph"));
    if (code != TENON_UNIMPLEMENTED)
      w.report->broken(
          "R-E04", "claim",
          cat("it refuses node ", node, " with ", code, ", and not with UNIMPLEMENTED"));
    if (reason.data == nullptr || reason.size == 0)
      w.report->broken("R-E04", "claim", cat("it refuses node ", node, " without a reason"));
    return w.sink->refuse(w.sink->self, node, code, reason);
  }
};

ClaimWatch& new_claim_watch() {
  static std::mutex mutex;
  static auto* kept = new std::vector<std::unique_ptr<ClaimWatch>>();
  const std::lock_guard lock(mutex);
  for (auto& known : *kept) {
    // Reuses only the oldest, long after they ended.
    if (kept->size() < 256 || !known->over) continue;
    known = std::make_unique<ClaimWatch>();
    return *known;
  }
  return *kept->emplace_back(std::make_unique<ClaimWatch>());
}

}  // namespace

void Validator::attach_compile(LayerSubject& subject) {
  if ((compile_ = subject.next<tenon_compile_api_t>(TENON_COMPILE_ID)) == nullptr) return;
  tenon_compile_api_t& t = compile_table_;
  t.claim = layer_slot<&Validator::claim>;
  t.compile = layer_slot<&Validator::compile>;
  t.artifact_release = layer_slot<&Validator::artifact_release>;
  t.artifact_info = layer_slot<&Validator::artifact_info>;
  t.artifact_bytes = layer_slot<&Validator::artifact_bytes>;
  t.fits = layer_slot<&Validator::fits>;
  t.load = layer_slot<&Validator::load>;
  t.executable_release = layer_slot<&Validator::executable_release>;
  t.executable_info = layer_slot<&Validator::executable_info>;
  t.needs = layer_slot<&Validator::needs>;
  t.execute = layer_slot<&Validator::execute>;
  t.dump = layer_slot<&Validator::dump>;
  t.pack = layer_slot<&Validator::pack>;
  t.load_packed = layer_slot<&Validator::load_packed>;
  t.properties = layer_slot<&Validator::properties>;
  subject.put(TENON_COMPILE_ID, &t, this);
}

bool Validator::check_graph(std::string_view slot, tenon_graph_t* graph) {
  if (!need_pointer(slot, graph, "the graph")) return false;
  auto graph_view = sized<tenon_graph_view_t>();
  const tenon_host_graph_t* host = context().graph;
  if (host != nullptr && host->graph_view(host->self, graph, &graph_view) == TENON_OK &&
      graph_view.frozen == 0) {
    broken("R-M15", slot, "the graph is not frozen");
  }
  return true;
}

// ---- Claims and artifacts ----

tenon_code_t Validator::claim(tenon_str_t target, tenon_graph_t* graph,
                              const tenon_compile_options_t* options,
                              const tenon_claim_sink_t* sink) {
  if (!check_graph("claim", graph) || !need_pointer("claim", options, "the options") ||
      !need_pointer("claim", sink, "the sink"))
    return refuse("claim");
  ClaimWatch& watch = new_claim_watch();
  watch.report = report_.get();
  watch.sink = sink;
  auto graph_view = sized<tenon_graph_view_t>();
  const tenon_host_graph_t* host = context().graph;
  if (host != nullptr && host->graph_view(host->self, graph, &graph_view) == TENON_OK) {
    watch.read(host, graph, graph_view.main, &watch.nodes);
    watch.knows_nodes = true;
  }
  const tenon_claim_sink_t outer = {sizeof(tenon_claim_sink_t), 0, &watch, &ClaimWatch::claim,
                                    &ClaimWatch::refuse};
  const tenon_code_t code =
      ask("claim", [&] { return compile_->claim(compile_->self, target, graph, options, &outer); });
  watch.over = true;
  return code;
}

tenon_code_t Validator::compile(tenon_str_t target, tenon_graph_t* graph,
                                const tenon_compile_options_t* options, tenon_artifact_t** out) {
  if (!check_graph("compile", graph) || !need_pointer("compile", out, "out_artifact"))
    return refuse("compile");
  if (options != nullptr && options->option_count != 0 &&
      !need_pointer("compile", options->options, "the array of options"))
    return refuse("compile");
  TENON_TRY(ask_for("compile", out, [&](tenon_artifact_t** o) {
    return compile_->compile(compile_->self, target, graph, options, o);
  }));
  if (const ObjectRef artifact = made("compile", "R-E05", Kind::kArtifact, *out, nullptr))
    artifact->target = view(target);
  return TENON_OK;
}

void Validator::artifact_release(tenon_artifact_t* artifact) {
  const ObjectRef a = need("artifact_release", Kind::kArtifact, artifact);
  if (a == nullptr) return;
  objects_.remove(*a);
  (void)ask("artifact_release",
            [&] { return compile_->artifact_release(compile_->self, artifact), TENON_OK; });
}

tenon_code_t Validator::artifact_info(tenon_artifact_t* artifact, tenon_artifact_info_t* out) {
  if (need("artifact_info", Kind::kArtifact, artifact) == nullptr ||
      !need_pointer("artifact_info", out, "out_info") ||
      !need_size("artifact_info", out->size_bytes, sizeof out->size_bytes, "out_info")) {
    return refuse("artifact_info");
  }
  Guarded<tenon_artifact_info_t> guarded;
  return ask_for_record("artifact_info", out, guarded, [&](tenon_artifact_info_t* o) {
    return compile_->artifact_info(compile_->self, artifact, o);
  });
}

tenon_code_t Validator::artifact_bytes(tenon_artifact_t* artifact, const tenon_sink_t* sink) {
  const ObjectRef a = need("artifact_bytes", Kind::kArtifact, artifact);
  if (a == nullptr || !need_pointer("artifact_bytes", sink, "the sink"))
    return refuse("artifact_bytes");
  Collected first, second;
  tenon_sink_t collect = first.sink();
  TENON_TRY(ask("artifact_bytes",
                [&] { return compile_->artifact_bytes(compile_->self, artifact, &collect); }));
  collect = second.sink();
  const tenon_code_t again = ask("artifact_bytes", [&] {
    return compile_->artifact_bytes(compile_->self, artifact, &collect);
  });
  if (again != TENON_OK || first.bytes != second.bytes)
    broken("R-E06", "artifact_bytes", "two calls give different bytes");
  const tenon_code_t fit = ask("fits", [&] {
    return compile_->fits(compile_->self, str(a->target), first.bytes.data(), first.bytes.size());
  });
  if (fit != TENON_OK)
    broken("R-E07", "fits",
           cat("it gives ", fit, " for bytes that were compiled for ", quoted(a->target)));
  return sink->write(sink->self, first.bytes.data(), first.bytes.size());
}

tenon_code_t Validator::fits(tenon_str_t target, const void* bytes, uint64_t size) {
  if (size != 0 && !need_pointer("fits", bytes, "the bytes")) return refuse("fits");
  const tenon_code_t code =
      ask("fits", [&] { return compile_->fits(compile_->self, target, bytes, size); });
  if (code != TENON_OK && code != TENON_FAILED_PRECONDITION)
    broken("R-E07", "fits",
           cat("it gives ", code, ", which is neither OK nor FAILED_PRECONDITION"));
  return code;
}

tenon_code_t Validator::dump(tenon_artifact_t* artifact, tenon_str_t what,
                             const tenon_sink_t* sink) {
  if (need("dump", Kind::kArtifact, artifact) == nullptr || !need_pointer("dump", sink, "the sink"))
    return refuse("dump");
  return ask("dump", [&] { return compile_->dump(compile_->self, artifact, what, sink); });
}

tenon_code_t Validator::properties(tenon_str_t target, tenon_compile_properties_t* out) {
  if (!need_pointer("properties", out, "out_properties") ||
      !need_size("properties", out->size_bytes, sizeof out->size_bytes, "out_properties"))
    return refuse("properties");
  Guarded<tenon_compile_properties_t> guarded;
  return ask_for_record("properties", out, guarded, [&](tenon_compile_properties_t* o) {
    return compile_->properties(compile_->self, target, o);
  });
}

// ---- Executables ----

bool Validator::need_blobs(std::string_view slot, std::string_view what, tenon_blob_t* const* blobs,
                           uint32_t count) {
  if (count != 0 && !need_pointer(slot, blobs, cat("the array of ", what, "s"))) return false;
  for (uint32_t i = 0; i < count; ++i) {
    if (!need_pointer(slot, blobs[i], text(what, i))) return false;
  }
  return true;
}

tenon_code_t Validator::load(tenon_device_t* device, const void* bytes, uint64_t size,
                             tenon_blob_t* const* constants, uint32_t count,
                             tenon_executable_t** out) {
  const ObjectRef d = need("load", Kind::kDevice, device);
  if (d == nullptr || !need_pointer("load", out, "out_executable")) return refuse("load");
  if (!need_blobs("load", "constant", constants, count)) return refuse("load");
  if (size != 0 && !need_pointer("load", bytes, "the bytes")) return refuse("load");
  const tenon_code_t code = ask_for("load", out, [&](tenon_executable_t** o) {
    return compile_->load(compile_->self, device, bytes, size, constants, count, o);
  });
  note_lost(*d, "load", code);
  if (code == TENON_OK) made("load", "R-E08", Kind::kExecutable, *out, device);
  return code;
}

tenon_code_t Validator::pack(tenon_str_t target, const void* bytes, uint64_t size,
                             tenon_blob_t* const* constants, uint32_t count,
                             const tenon_packed_sink_t* sink) {
  if (!need_pointer("pack", sink, "the sink") ||
      !need_blobs("pack", "constant", constants, count) ||
      (size != 0 && !need_pointer("pack", bytes, "the bytes")))
    return refuse("pack");
  return ask("pack", [&] {
    return compile_->pack(compile_->self, target, bytes, size, constants, count, sink);
  });
}

tenon_code_t Validator::load_packed(tenon_device_t* device, const void* bytes, uint64_t size,
                                    tenon_blob_t* const* packed, uint32_t count,
                                    tenon_executable_t** out) {
  const ObjectRef d = need("load_packed", Kind::kDevice, device);
  if (d == nullptr || !need_pointer("load_packed", out, "out_executable") ||
      !need_blobs("load_packed", "blob", packed, count) ||
      (size != 0 && !need_pointer("load_packed", bytes, "the bytes")))
    return refuse("load_packed");
  const tenon_code_t code = ask_for("load_packed", out, [&](tenon_executable_t** o) {
    return compile_->load_packed(compile_->self, device, bytes, size, packed, count, o);
  });
  note_lost(*d, "load_packed", code);
  if (code == TENON_OK) made("load_packed", "R-E08", Kind::kExecutable, *out, device);
  return code;
}

void Validator::executable_release(tenon_executable_t* executable) {
  const ObjectRef e = need("executable_release", Kind::kExecutable, executable);
  if (e == nullptr) return;
  if (e->running != 0 || in_flight(*e))
    broken("R-M14", "executable_release", "an execution of it is not over");
  objects_.remove(*e);
  (void)ask("executable_release",
            [&] { return compile_->executable_release(compile_->self, executable), TENON_OK; });
}

tenon_code_t Validator::executable_info(tenon_executable_t* executable,
                                        tenon_executable_info_t* out) {
  if (need("executable_info", Kind::kExecutable, executable) == nullptr ||
      !need_pointer("executable_info", out, "out_info") ||
      !need_size("executable_info", out->size_bytes, sizeof out->size_bytes, "out_info")) {
    return refuse("executable_info");
  }
  Guarded<tenon_executable_info_t> guarded;
  return ask_for_record("executable_info", out, guarded, [&](tenon_executable_info_t* o) {
    return compile_->executable_info(compile_->self, executable, o);
  });
}

tenon_code_t Validator::needs(tenon_executable_t* executable, tenon_symbols_t symbols,
                              tenon_needs_t* out) {
  const ObjectRef e = need("needs", Kind::kExecutable, executable);
  if (e == nullptr || !need_pointer("needs", out, "the record")) return refuse("needs");
  if (!need_size("needs", out->size_bytes, offsetof(tenon_needs_t, workspace_bytes), "the record"))
    return refuse("needs");
  if (out->output_count != 0 && !need_pointer("needs", out->outputs, "the array of outputs"))
    return refuse("needs");
  if (symbols.count != 0 && !need_pointer("needs", symbols.values, "the array of symbols"))
    return refuse("needs");
  // The array of outputs, with a guard element after it.
  if (out->output_count != 0 &&
      !need_size("needs", out->need_bytes, sizeof(tenon_output_need_t), "a record of outputs"))
    return refuse("needs");
  // By stride: the records of the host may be longer than those that this layer knows.
  const size_t bytes = size_t{out->need_bytes} * out->output_count;
  std::vector<std::byte> outputs(bytes + out->need_bytes, std::byte{0xa5});
  if (bytes != 0) std::memcpy(outputs.data(), out->outputs, bytes);
  Guarded<tenon_needs_t> guarded;
  guarded.record = whole(*out);
  guarded.record.size_bytes = sizeof guarded.record;
  guarded.record.outputs = reinterpret_cast<tenon_output_need_t*>(outputs.data());
  TENON_TRY(ask("needs", [&] {
    return compile_->needs(compile_->self, executable, symbols, &guarded.record);
  }));
  if (guarded.overrun() ||
      std::any_of(outputs.begin() + static_cast<ptrdiff_t>(bytes), outputs.end(),
                  [](std::byte b) { return b != std::byte{0xa5}; }))
    broken("R-B19", "needs", "it wrote past the caller's records");
  if (bytes != 0) std::memcpy(out->outputs, outputs.data(), bytes);
  KnownNeeds known;
  known.workspace_bytes = guarded.record.workspace_bytes;
  for (uint32_t i = 0; i < out->output_count; ++i)
    known.outputs.push_back({tenon_need(out, i)->size_bytes_max, tenon_need(out, i)->alias_input});
  guarded.record.need_bytes = out->need_bytes;
  guarded.record.outputs = out->outputs;
  (void)tenon_record_give(out, &guarded.record, sizeof guarded.record);
  const std::lock_guard lock(objects_.mutex);
  const auto [before, is_new] = e->needs.try_emplace(values_of(symbols), known);
  if (is_new) return TENON_OK;
  bool equal = before->second.workspace_bytes == known.workspace_bytes &&
               before->second.outputs.size() == known.outputs.size();
  for (size_t i = 0; equal && i < known.outputs.size(); ++i) {
    equal = before->second.outputs[i].size_bytes_max == known.outputs[i].size_bytes_max &&
            before->second.outputs[i].alias_input == known.outputs[i].alias_input;
  }
  if (!equal) broken("R-E10", "needs", "two calls with the same symbols give different results");
  return TENON_OK;
}

bool Validator::check_call(const Object& executable, const tenon_call_t& call,
                           std::vector<Used>* used) {
  constexpr std::string_view kSlot = "execute";
  if (call.input_count != 0 && !need_pointer(kSlot, call.inputs, "the array of inputs"))
    return false;
  if (call.output_count != 0 && !need_pointer(kSlot, call.outputs, "the array of outputs"))
    return false;
  if (call.input_count + call.output_count != 0 &&
      !need_size(kSlot, call.span_bytes, sizeof(tenon_span_t), "a record of inputs and outputs"))
    return false;
  if (call.symbols.count != 0 && !need_pointer(kSlot, call.symbols.values, "the array of symbols"))
    return false;
  if (call.out_symbol_count != 0 &&
      !need_pointer(kSlot, call.out_symbols, "the array of symbols to be filled"))
    return false;
  std::string why;
  const ObjectRef device = objects_.find(Kind::kDevice, executable.device, nullptr, &why);
  const uint64_t alignment = device == nullptr ? 1 : device->alignment;
  std::optional<KnownNeeds> needs;
  {
    const std::lock_guard lock(objects_.mutex);
    if (const auto known = executable.needs.find(values_of(call.symbols));
        known != executable.needs.end())
      needs = known->second;
  }
  if (!needs) broken("R-M16", kSlot, "needs was not called for these symbols");
  if (needs && needs->outputs.size() != call.output_count)
    broken("R-M16", kSlot,
           cat(call.output_count, " outputs, and there are ", needs->outputs.size()));
  struct Range {
    const Object* buffer;
    uint64_t begin, end;
  };
  std::vector<Range> inputs, outputs;
  // Checks that the buffer is alive and on the device, and long enough after its offset.
  auto check_span = [&](const tenon_span_t& span, uint64_t least, const std::string& what,
                        bool writes, std::vector<Range>* ranges) {
    const ObjectRef buffer = need(kSlot, Kind::kBuffer, span.buffer, executable.device);
    if (buffer == nullptr) return false;
    used->push_back({buffer, writes});
    if (call.queue == nullptr) check_waited(kSlot, buffer, writes, what);
    if (span.offset_bytes % alignment != 0)
      broken("R-M16", kSlot,
             cat(what, " has the offset ", span.offset_bytes, ", which is not a multiple of ",
                 alignment));
    // An input without elements is in a buffer without bytes.
    const bool is_empty = !writes && span.offset_bytes == 0 && buffer->size_bytes == 0;
    const bool fits =
        span.offset_bytes <= buffer->size_bytes && least <= buffer->size_bytes - span.offset_bytes;
    if (!fits && !is_empty) {
      broken("R-M16", kSlot,
             cat(what, " has ", buffer->size_bytes, " bytes from offset ", span.offset_bytes,
                 ", and needs ", least));
    }
    if (ranges != nullptr)
      ranges->push_back({buffer.get(), span.offset_bytes, span.offset_bytes + least});
    return true;
  };
  for (uint32_t i = 0; i < call.input_count; ++i) {
    const tenon_span_t& input = *tenon_call_input(&call, i);
    if (!check_span(input, 1, text("input", i), false, &inputs) && input.buffer != nullptr)
      return false;
  }
  for (uint32_t i = 0; i < call.output_count; ++i) {
    const uint64_t least =
        needs && i < needs->outputs.size() ? needs->outputs[i].size_bytes_max : 0;
    const tenon_span_t& output = *tenon_call_output(&call, i);
    if (least == TENON_SIZE_UNKNOWN && output.buffer == nullptr) continue;
    if (!check_span(output, least == TENON_SIZE_UNKNOWN ? 0 : least, text("output", i), true,
                    &outputs))
      return false;
    const Range& out = outputs.back();
    for (size_t k = 0; k < inputs.size(); ++k) {
      const bool offered = needs && i < needs->outputs.size() && needs->outputs[i].alias_input == k;
      if (!offered && inputs[k].buffer == out.buffer && inputs[k].begin >= out.begin &&
          inputs[k].begin < out.end) {
        broken("R-M17", kSlot,
               cat("output ", i, " lies in the memory of input ", k,
                   ", which the plugin did not offer"));
      }
    }
    for (size_t k = 0; k + 1 < outputs.size(); ++k) {
      if (outputs[k].buffer == out.buffer && outputs[k].begin < out.end &&
          out.begin < outputs[k].end)
        broken("R-M17", kSlot, cat("output ", i, " overlaps another"));
    }
  }
  const uint64_t workspace = needs ? needs->workspace_bytes : 0;
  if (call.workspace == nullptr && workspace != 0) {
    broken("R-M16", kSlot, cat("it needs a workspace of ", workspace, " bytes and has none"));
    return false;
  }
  return call.workspace == nullptr || check_span({call.workspace, call.workspace_offset_bytes},
                                                 workspace, "the workspace", true, nullptr);
}

tenon_code_t Validator::execute(tenon_executable_t* executable, const tenon_call_t* given) {
  const ObjectRef e = need("execute", Kind::kExecutable, executable);
  if (e == nullptr || !need_pointer("execute", given, "the call")) return refuse("execute");
  if (!need_size("execute", given->size_bytes, offsetof(tenon_call_t, output_self), "the call"))
    return refuse("execute");
  const tenon_call_t full = whole(*given);
  const tenon_call_t* const call = &full;
  std::vector<Used> used = {{e}};
  if (!check_call(*e, *call, &used)) return refuse("execute");
  ObjectRef q;
  if (call->queue != nullptr) {
    if (queue_ == nullptr) {
      broken("R-M18", "execute", "the device has no queues, and the call names one");
      return refuse("execute");
    }
    q = need("execute", Kind::kQueue, call->queue);
    if (q == nullptr || !check_points("execute", call->waits, call->wait_count, call->signal))
      return refuse("execute");
    if (q->device != e->device)
      broken("R-M18", "execute", "queue and executable are of different devices");
  }
  std::string why;
  const ObjectRef d = objects_.find(Kind::kDevice, e->device, nullptr, &why);
  const Inside inside = enter(d, "execute");
  ++e->running;
  AskedOutput asked{d.get(), full};
  tenon_call_t passed = full;
  if (full.output != nullptr) passed.output_self = &asked, passed.output = AskedOutput::give;
  std::vector<Filled> filled = fill_outputs(*e, full);
  const tenon_code_t code =
      ask("execute", [&] { return compile_->execute(compile_->self, executable, &passed); });
  --e->running;
  if (d != nullptr) note_lost(*d, "execute", code);
  if (code != TENON_OK && q != nullptr) check_unsignalled("R-E16", "execute", call->signal);
  if (code == TENON_OK && q == nullptr) {
    check_filled(*e, filled);
    if (const std::optional<Again> same = again(e, full)) check_again(*same);
  }
  if (code == TENON_OK && q != nullptr) {
    Work work = {.used = std::move(used), .signal = call->signal, .slot = "execute"};
    work.waits = points_of(call->waits, call->wait_count);
    work.filled = std::move(filled);
    work.again = again(e, full);
    submitted(*q, std::move(work));
  }
  return code;
}

}  // namespace tenon::validation
