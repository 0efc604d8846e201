#include "tests/random/stage_check.h"

#include <algorithm>

#include <tenon/cpp/session.hpp>
#include <tenon/kernelgen/fuse.h>
#include <tenon/kernelgen/fuse_internal.h>
#include <tenon/kernelgen/layout.h>
#include <tenon/kernelgen/load_time.h>
#include <tenon/kernelgen/pack.h>

#include "tests/random/kernel_check.h"

namespace tenon::random_tests {

namespace kg = kernelgen;

namespace {

struct NamedTarget {
  std::string_view name;
  kg::Target target;
};

std::vector<NamedTarget> all_targets() {
  return {{"avx512", kg::Target::avx512()},     {"avx512_bf16", kg::Target::avx512_bf16()}, {"avx2", kg::Target::avx2()},
          {"baseline", kg::Target::baseline()}, {"generic", kg::Target::generic()},         {"scalar", kg::Target::scalar()},
          {"opencl", kg::Target::opencl(true)}, {"opencl_group", kg::Target::opencl(true, 16)}};
}

std::string name_of(const kg::Target& t) {
  if (t.dialect == kg::Dialect::kOpenCl) return t.group == 0 ? "opencl" : "opencl_group";
  return t.bf16 ? "avx512_bf16" : t.isa;
}

// Steps of the whole program for one target, as move_to_load() takes them.
std::string program_steps(ProgramCheck* check, kg::Kernel* program, const kg::Target& target) {
  std::string wrong;
  const auto step = [&](const char* name, auto run) {
    if (!wrong.empty()) return;
    run();
    wrong = check->step(name, *program);
  };
  step("keep_what_pays", [&] { kg::keep_what_pays(*program); });
  kg::Kernel placed = *program;  // inline_maps takes this step itself
  kg::place_stores(placed);
  if (wrong.empty()) wrong = check->step("place_stores", placed);
  step("inline_maps", [&] { kg::inline_maps(*program); });
  step("choose_layouts", [&] { kg::choose_layouts(*program, target); });
  step("split_reductions", [&] { kg::split_reductions(*program); });
  step("place_parts", [&] { kg::place_parts(*program); });
  step("keep_the_rest", [&] { kg::keep_the_rest(*program); });
  step("pack_constants", [&] { kg::pack_constants(*program, target); });
  return wrong;
}

// Empty when passes fail.
Graph after_passes(tenon_graph_t* graph) {
  const auto* session = context().query<tenon_host_session_t>(TENON_HOST_SESSION_ID);
  tenon_graph_t* clone = nullptr;
  if (session == nullptr || graph_api().clone(graph_api().self, graph, &clone) != TENON_OK) return {};
  Graph out(clone);
  if (session->passes_run(session->self, clone, str("standard"), str(""), 0, nullptr, nullptr) != TENON_OK) return {};
  return out;
}

std::vector<bool> overlaid_buffers(const kg::Kernel& program) {
  std::vector<bool> out(program.buffers.size());
  for (const kg::Stage& s : program.stages) {
    for (const kg::View& v : s.store) out[v.buffer] = out[v.buffer] || s.overlay;
  }
  return out;
}

}  // namespace

bool choose_targets(std::string_view names, std::vector<kg::Target>* out) {
  const std::vector<NamedTarget> all = all_targets();
  for (size_t at = 0; at < names.size();) {
    const size_t comma = std::min(names.find(',', at), names.size());
    const auto found = std::ranges::find(all, names.substr(at, comma - at), &NamedTarget::name);
    if (found == all.end()) return false;
    out->push_back(found->target);
    at = comma + 1;
  }
  for (const NamedTarget& t : all) {
    if (names.empty()) out->push_back(t.target);
  }
  return true;
}

std::string target_names() {
  std::string out;
  for (const NamedTarget& t : all_targets()) out += (out.empty() ? "" : ", ") + std::string(t.name);
  return out;
}

Status open_lift_host(kg::LiftHost* out) { return Status(kg::lift_host(context().host, out)); }

std::string StageCheck::operator()(const Generated& generated) {
  ++statistics_.graphs;
  kg::Lifted lifted;
  std::string why;
  Graph decomposed;
  tenon_graph_t* graph = generated.graph.get();
  if (!kg::lift(host_, graph, &lifted, &why)) {
    // Ops that no device has code for are taken apart first, as a session does it.
    decomposed = after_passes(graph);
    graph = decomposed.get();
    why.clear();
    if (graph == nullptr || !kg::lift(host_, graph, &lifted, &why)) {
      ++statistics_.left_out[why];
      return "";
    }
  }
  ProgramCheck lifted_check(generated, host_, graph, lifted);
  std::string wrong = lifted_check.step("lift", lifted.program);
  if (!wrong.empty()) return wrong;
  const bool trees = options_.trees_every != 0 && generated.seed % options_.trees_every == 0;
  for (uint32_t n = 0; n < std::min<size_t>(options_.targets_per_graph, options_.targets.size()); ++n) {
    const kg::Target& target = options_.targets[(generated.seed + n) % options_.targets.size()];
    ProgramCheck check = lifted_check;
    kg::Kernel program = lifted.program;
    wrong = program_steps(&check, &program, target);
    kg::BuiltProgram built;
    if (wrong.empty() && !kg::build_program(host_, graph, target, &built, &why)) wrong = "build_program: " + why;
    if (wrong.empty()) {
      KernelCheck kernels(&built, target, overlaid_buffers(program), generated.seed, trees, options_.texts, &statistics_);
      for (size_t b = 0; b < generated.bindings.size() && wrong.empty(); ++b) wrong = kernels.run(check, b);
    } else if (options_.texts) {
      wrong += "\n" + kg::to_text(program);
    }
    if (!wrong.empty()) return name_of(target) + ", " + wrong;
  }
  return "";
}

}  // namespace tenon::random_tests
