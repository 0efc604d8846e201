#include "core/dispatch/placement/claims.h"

#include <fmt/format.h>

#include <tenon/abi/record.h>

#include <algorithm>
#include <cmath>

#include "core/base/errors/failure.h"
#include "core/base/intern.h"
#include "core/base/str.h"
#include "core/dispatch/placement/properties.h"

namespace tenon::dispatch {
namespace {

struct Collector {
  Answers* claims;
  std::vector<bool> live;  // node is in the graph; claims inside regions show passes what to keep
  std::vector<bool> main;  // node is in the main region
  Status bad;              // how the plugin broke the rules
};

tenon_code_t broken(Collector* c, Status why) {
  c->bad = std::move(why);
  return to_abi(c->bad);
}

tenon_code_t take_atomic(Collector* c, const tenon_claim_t& claim) {
  AtomicClaim taken{{claim.nodes, claim.nodes + claim.node_count}, claim.cost_ns, 0};
  std::sort(taken.nodes.begin(), taken.nodes.end());
  if (std::adjacent_find(taken.nodes.begin(), taken.nodes.end()) != taken.nodes.end())
    return broken(c, error(TENON_INTERNAL, "T0512", "an atomic claim names a node twice"));
  for (uint32_t n : taken.nodes) {
    if (n >= c->main.size() || !c->main[n])
      return broken(c, error(TENON_INTERNAL, "T0512",
                             "an atomic claim names node {}, which is not in the main region", n));
  }
  for (uint32_t n : taken.nodes) ++c->claims->together[n];
  c->claims->atomic.push_back(std::move(taken));
  return TENON_OK;
}

tenon_code_t take_claim(void* self, const tenon_claim_t* given) try {
  auto* c = static_cast<Collector*>(self);
  tenon_claim_t claim{};
  if (given == nullptr || tenon_record_take(&claim, sizeof claim, given) != TENON_OK)
    return broken(c, error(TENON_INTERNAL, "T0512", "a claim does not state its size"));
  const auto& [size, flags, nodes, count, reserved, cost_ns] = claim;
  if (count == 0) return TENON_OK;
  if (!std::isfinite(cost_ns) || cost_ns < 0)
    return broken(c, error(TENON_INTERNAL, "T0512", "it claims nodes at a cost of {} ns", cost_ns));
  if (nodes == nullptr || count > c->live.size() || (flags & ~TENON_CLAIM_ATOMIC) != 0)
    return broken(c, error(TENON_INTERNAL, "T0512", "a claim of {} nodes with the flags {:#x}",
                           count, flags));
  if ((flags & TENON_CLAIM_ATOMIC) != 0) return take_atomic(c, claim);
  const double share = cost_ns / count;
  for (uint32_t i = 0; i < count; ++i) {
    if (nodes[i] >= c->live.size())
      return broken(
          c, error(TENON_INTERNAL, "T0512", "it claims node {} of {}", nodes[i], c->live.size()));
    if (!c->live[nodes[i]]) continue;
    double& cost = c->claims->cost_ns[nodes[i]];
    cost = std::min(cost, share);
    c->claims->refusals[nodes[i]] = {};
  }
  return TENON_OK;
} catch (const std::exception&) {
  return TENON_RESOURCE_EXHAUSTED;  // no exception may pass through the plugin's frames
}

tenon_code_t take_refusal(void* self, tenon_node_t node, tenon_code_t code,
                          tenon_str_t reason) try {
  auto* c = static_cast<Collector*>(self);
  if (node >= c->live.size() || !c->live[node] || c->claims->alone(node)) return TENON_OK;
  c->claims->refusals[node] = {code, printable(from_abi_str(reason), 1024)};
  return TENON_OK;
} catch (const std::exception&) {
  return TENON_RESOURCE_EXHAUSTED;
}

bool offered(const std::vector<std::string>& globs, std::string_view op) {
  for (const std::string& glob : globs) {
    if (glob_match(glob, op)) return true;
  }
  return globs.empty();
}

// Removes the atomic claims that `drop` names.
template <typename Drop>
void drop_atomic(Answers* answers, Drop drop) {
  std::erase_if(answers->atomic, [&](const AtomicClaim& claim) {
    if (!drop(claim)) return false;
    for (uint32_t n : claim.nodes) --answers->together[n];
    return true;
  });
}

// A device of concrete sizes does not get nodes with other sizes, whatever it claims.
void refuse_symbolic(const runtime::GraphReader& reader, const tenon_region_view_t& main,
                     Answers* answers) {
  std::vector<bool> symbolic(answers->cost_ns.size(), false);
  for (uint32_t i = 0; i < main.node_count; ++i) {
    const tenon_node_t n = main.nodes[i];
    if (!mentions_symbols(reader, n)) continue;
    symbolic[n] = true;
    answers->cost_ns[n] = kNotClaimed;
    answers->refusals[n] = {TENON_UNIMPLEMENTED,
                            "it takes concrete sizes alone, and a size is not known before a run"};
  }
  drop_atomic(answers, [&](const AtomicClaim& claim) {
    return std::any_of(claim.nodes.begin(), claim.nodes.end(),
                       [&](uint32_t n) { return symbolic[n]; });
  });
}

// The answers of one compiler. live: by node index.
Answers ask(runtime::Device& device, const tenon_compile_api_t* api, const runtime::GraphRef& graph,
            const std::vector<bool>& live, const CompileSettings& settings,
            const std::vector<std::string>& offered_ops) {
  const runtime::GraphReader reader = graph.reader();
  const tenon_region_view_t main = reader.main();
  Answers answers{std::vector<double>(live.size(), kNotClaimed),
                  std::vector<Refusal>(live.size()),
                  {},
                  std::vector<uint32_t>(live.size(), 0)};
  Collector collector{&answers, live, std::vector<bool>(live.size(), false), {}};
  for (uint32_t i = 0; i < main.node_count; ++i) collector.main[main.nodes[i]] = true;
  const tenon_claim_sink_t sink{sizeof(tenon_claim_sink_t), 0, &collector, take_claim,
                                take_refusal};
  const DeviceOptions options(settings, from_abi_str(device.info().kind));
  const bool is_static = (compile_properties(device, api) & TENON_COMPILE_STATIC) != 0;
  Status status;
  {
    auto guard = device.serialise();
    clear_failure();
    status = device.check(
        api->claim(api->self, device.target(), graph.get(), options.record(), &sink), "claim");
  }
  if (!collector.bad.ok()) status = collector.bad;
  if (is_static) refuse_symbolic(reader, main, &answers);
  if (!status.ok()) answers.failure = "claiming failed: " + status.text();
  if (status.error_code() == "T0513") answers.wrong_option = status;
  drop_atomic(&answers, [&](const AtomicClaim& claim) {
    return !status.ok() || !std::all_of(claim.nodes.begin(), claim.nodes.end(), [&](uint32_t n) {
      return offered(offered_ops, sym_text(reader.node(n).op));
    });
  });
  for (uint32_t i = 0; i < main.node_count; ++i) {
    const tenon_node_t n = main.nodes[i];
    if (!offered(offered_ops, sym_text(reader.node(n).op))) {
      answers.cost_ns[n] = kNotClaimed;
      answers.refusals[n] = {TENON_UNIMPLEMENTED,
                             fmt::format("not offered: the option {}.ops names {}", device.name(),
                                         fmt::join(offered_ops, ","))};
    } else if (!status.ok()) {
      answers.cost_ns[n] = kNotClaimed;
      answers.refusals[n] = {status.code(), answers.failure};
    } else if (!answers.alone(n) && answers.refusals[n].reason.empty()) {
      const std::string_view op = sym_text(reader.node(n).op);
      answers.refusals[n] = {TENON_UNIMPLEMENTED,
                             answers.claimed(n)
                                 ? fmt::format("{} only together with other nodes", op)
                                 : fmt::format("no {} here, no reason given", op)};
    }
  }
  return answers;
}

// Merges a kernel set's answers into the device's, node by node.
void merge(const std::string& plugin, uint32_t by, const Answers& set,
           const tenon_region_view_t& main, Claims* claims) {
  for (uint32_t i = 0; i < main.node_count; ++i) {
    const tenon_node_t n = main.nodes[i];
    claims->together[n] += set.together[n];
    if (!set.alone(n)) {
      if (!claims->alone(n))
        claims->refusals[n].reason +=
            fmt::format("; kernels of {}: {}", plugin, set.refusals[n].reason);
      continue;
    }
    const double cost = set.cost_ns[n] + kKernelSetNs;
    if (claims->alone(n) && claims->cost_ns[n] <= cost) continue;
    claims->cost_ns[n] = cost;
    claims->refusals[n] = {};
    claims->by[n] = by;
  }
  for (AtomicClaim claim : set.atomic) {
    claim.cost_ns += kKernelSetNs;
    claim.by = by;
    claims->atomic.push_back(std::move(claim));
  }
}

}  // namespace

DeviceOptions::DeviceOptions(const CompileSettings& settings, std::string_view kind) {
  for (const auto& [key, value] : settings.options) {
    if (key.size() > kind.size() && key.starts_with(kind) && key[kind.size()] == '.')
      pairs_.push_back({to_abi_str(key), to_abi_str(value)});
  }
  record_.size_bytes = sizeof(record_);
  record_.deterministic = settings.deterministic ? 1 : 0;
  record_.options = pairs_.data();
  record_.option_count = static_cast<uint32_t>(pairs_.size());
}

Claims collect_claims(std::shared_ptr<runtime::Device> device, const runtime::GraphRef& graph,
                      const CompileSettings& settings,
                      const std::vector<std::string>& offered_ops) {
  const runtime::GraphReader reader = graph.reader();
  const tenon_region_view_t main = reader.main();
  std::vector<bool> live(reader.whole().node_limit, false);
  for (tenon_node_t n = 0; n < live.size(); ++n) live[n] = reader.node(n).parent != TENON_NONE;

  const runtime::DeviceApis& apis = device->apis();
  Claims claims{ask(*device, apis.compile, graph, live, settings, offered_ops),
                device,
                std::vector<uint32_t>(live.size(), 0),
                {},
                {}};
  const std::vector<runtime::KernelSet> sets = apis.kernel_sets->all();
  for (uint32_t i = 0; i < sets.size(); ++i) {
    if (!sets[i].in_force) continue;
    if (claims.all.empty()) {
      claims.all.push_back(static_cast<const Answers&>(claims));
      claims.asked.push_back(0);
    }
    claims.all.push_back(ask(*device, sets[i].compile, graph, live, settings, offered_ops));
    claims.asked.push_back(i + 1);
    merge(sets[i].plugin, i + 1, claims.all.back(), main, &claims);
  }
  for (uint32_t i = 0; i < main.node_count; ++i) {
    const tenon_node_t n = main.nodes[i];
    if (claims.claimed(n) || !log_enabled("dispatch", LogLevel::kDetail)) continue;
    log_detail("dispatch", "{} refuses node {} ({}): {}", device->name(), n,
               sym_text(reader.node(n).op), claims.refusals[n].reason);
  }
  return claims;
}

std::string ops_text(const runtime::GraphRef& graph, std::span<const tenon_node_t> nodes) {
  constexpr size_t kMost = 6;
  std::string text;
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (i == kMost) return text + fmt::format(" and {} more", nodes.size() - kMost);
    text += i == 0 ? "" : i + 1 == nodes.size() ? " and " : ", ";
    text += printable(sym_text(graph.reader().node(nodes[i]).op));
  }
  return text;
}

void refuse_torn_claims(const runtime::GraphRef& graph, const Edges& edges, Claims* claims) {
  const runtime::GraphReader reader = graph.reader();
  const tenon_region_view_t main = reader.main();
  std::vector<uint32_t> place(reader.whole().node_limit, kUnplaced);
  for (uint32_t i = 0; i < main.node_count; ++i) place[main.nodes[i]] = i;
  drop_atomic(claims, [&](const AtomicClaim& claim) {
    std::vector<uint32_t> places;
    for (uint32_t n : claim.nodes) places.push_back(place[n]);
    std::sort(places.begin(), places.end());
    const std::optional<uint32_t> torn_by = between(edges, places);
    if (!torn_by) return false;
    const std::string why = fmt::format(
        "it takes {} only together, and {} lies on a path from one of them to another",
        ops_text(graph, claim.nodes), printable(sym_text(reader.node(main.nodes[*torn_by]).op)));
    log_detail("dispatch", "{} does not get an atomic claim: {}", claims->device->name(), why);
    for (uint32_t n : claim.nodes) {
      if (!claims->alone(n)) claims->refusals[n] = {TENON_FAILED_PRECONDITION, why};
    }
    return true;
  });
}

}  // namespace tenon::dispatch
