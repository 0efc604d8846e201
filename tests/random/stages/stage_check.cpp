#include "tests/random/stages/stage_check.h"

#include <algorithm>
#include <optional>

#include <tenon/kernelgen/fuse/fuse.h>
#include <tenon/kernelgen/fuse/fuse_internal.h>
#include <tenon/kernelgen/fuse/layout.h>
#include <tenon/kernelgen/fuse/load_time.h>
#include <tenon/kernelgen/fuse/pack.h>
#include <tenon/cpp/session.hpp>

#include "tests/random/stages/kernel_check.h"

namespace tenon::random_tests {

namespace kg = kernelgen;

namespace {

struct NamedTarget {
  std::string_view name;
  kg::Target target;
};

std::vector<NamedTarget> all_targets() {
  return {
      {"avx512", kg::Target::avx512()},           {"avx512_bf16", kg::Target::avx512_bf16()},
      {"avx512_vnni", kg::Target::avx512_vnni()}, {"avx2", kg::Target::avx2()},
      {"avx2_vnni", kg::Target::avx2_vnni()},     {"baseline", kg::Target::baseline()},
      {"generic", kg::Target::generic()},         {"scalar", kg::Target::scalar()},
      {"opencl", kg::Target::opencl(true)},       {"opencl_group", kg::Target::opencl(true, 16)}};
}

// Lowers thresholds for large tensors so that small ones reach them, in every other round of the
// targets.
void make_thresholds_small(kg::Target* t) {
  t->part_bytes = 0;
  t->huge_row = 12;
  t->row_chunk = 4;
}

std::string name_of(const kg::Target& t) {
  if (t.dialect == kg::Dialect::kOpenCl) return t.group == 0 ? "opencl" : "opencl_group";
  return t.bf16 ? "avx512_bf16" : t.byte_quads ? t.isa + "_vnni" : t.isa;
}

// The steps of the whole program for one target, as move_to_load() performs them.
class ProgramSteps {
 public:
  ProgramSteps(ProgramCheck* check, kg::Kernel* program, kg::Verifier* verifier)
      : check_(*check), program_(*program), verifier_(verifier) {}

  std::string run(const kg::Target& target) {
    step("keep_what_pays", [&] { kg::keep_what_pays(program_); });
    inline_maps();
    step("choose_layouts", [&] { kg::choose_layouts(program_, target); });
    step("split_reductions", [&] { kg::split_reductions(program_, target); });
    step("place_parts", [&] { kg::place_parts(program_, target); });
    step("keep_the_rest", [&] { kg::keep_the_rest(program_); });
    step("pack_constants", [&] { kg::pack_constants(program_, target); });
    return wrong_;
  }

 private:
  template <class F>
  void step(const char* name, F change) {
    if (!wrong_.empty()) return;
    change();
    if (verifier_ != nullptr && !verifier_->program(program_, name))
      wrong_ = "the verifier says: " + verifier_->notes.back();
    if (wrong_.empty()) wrong_ = check_.step(name, program_);
  }

  // Places stores first; which of the two was wrong is found out only on failure.
  void inline_maps() {
    const size_t before = program_.stages.size();
    const std::vector<kg::Stage> stages = program_.stages;
    const std::vector<kg::Buffer> buffers = program_.buffers;
    step("inline_maps", [&] { kg::inline_maps(program_); });
    if (wrong_.empty() || before == 0) return;
    kg::Kernel placed = program_;
    placed.stages = stages;
    placed.buffers = buffers;
    kg::place_stores(placed);
    const std::string earlier = check_.step("place_stores", placed);
    if (!earlier.empty()) wrong_ = earlier;
  }

  ProgramCheck& check_;
  kg::Kernel& program_;
  kg::Verifier* verifier_;
  std::string wrong_;
};

// Empty if passes fail, for example without their plugin.
Graph after_passes(tenon_graph_t* graph) {
  const auto* session = context().query<tenon_host_session_t>(TENON_HOST_SESSION_ID);
  tenon_graph_t* clone = nullptr;
  if (session == nullptr || graph_api().clone(graph_api().self, graph, &clone) != TENON_OK)
    return {};
  Graph out(clone);
  if (session->passes_run(session->self, clone, str("standard"), str(""), 0, nullptr, nullptr) !=
      TENON_OK)
    return {};
  return out;
}

std::vector<bool> overlaid_buffers(const kg::Kernel& program) {
  std::vector<bool> out(program.buffers.size());
  for (const kg::Stage& s : program.stages) {
    for (const kg::View& v : s.store) out[v.buffer] = out[v.buffer] || s.overlay;
  }
  return out;
}

std::vector<bool> joined_buffers(const kg::Kernel& program) {
  std::vector<bool> once(program.buffers.size()), out(program.buffers.size());
  for (const kg::Stage& s : program.stages) {
    for (const kg::View& v : s.store) (once[v.buffer] ? out : once)[v.buffer] = true;
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

Status find_host_tables(kg::HostTables* out) {
  return Status(kg::open_host_tables(context().host, out));
}

std::string StageCheck::operator()(const Generated& generated) {
  ++statistics_.graphs;
  kg::Lowered lowered;
  std::string why;
  Graph decomposed;
  tenon_graph_t* graph = generated.graph.get();
  if (!kg::lower_graph(host_, graph, &lowered, &why)) {
    // Ops that no device has code for are decomposed first, as in a session.
    decomposed = after_passes(graph);
    graph = decomposed.get();
    if (graph == nullptr) return "passes: " + failure_text();
    if (!kg::lower_graph(host_, graph, &lowered, &why)) {
      ++statistics_.left_out[why];
      return "";
    }
  }
  ProgramCheck lowered_check(generated, host_, graph, lowered);
  std::string wrong = lowered_check.step("lower", lowered.program);
  if (!wrong.empty()) return wrong;
  const size_t count = std::min<size_t>(options_.targets_per_graph, options_.targets.size());
  for (size_t n = 0; n < count; ++n) {
    const uint64_t number = generated.seed + n;
    kg::Target target = options_.targets[number % options_.targets.size()];
    if (number / options_.targets.size() % 2 == 1) make_thresholds_small(&target);
    ProgramCheck check = lowered_check;
    wrong =
        on_target(generated, target, graph, n + 1 < count ? lowered : std::move(lowered), &check);
    if (!wrong.empty()) return name_of(target) + ", " + wrong;
  }
  return "";
}

std::string StageCheck::on_target(const Generated& generated, const kg::Target& target,
                                  tenon_graph_t* graph, kg::Lowered lowered, ProgramCheck* check) {
  std::optional<kg::Verifier> verifier;
  if (options_.verify) verifier.emplace(kg::Verifier::kThorough);
  kg::Verifier* const verifies = verifier ? &*verifier : nullptr;
  std::string wrong = ProgramSteps(check, &lowered.program, verifies).run(target), why;
  if (!wrong.empty()) return options_.texts ? wrong + "\n" + kg::to_text(lowered.program) : wrong;
  kg::BuiltProgram built;
  std::vector<bool> overlaid = overlaid_buffers(lowered.program),
                    joined = joined_buffers(lowered.program);
  if (!kg::build_kernels(host_, graph, std::move(lowered), target, verifies, &built, &why))
    return "build_kernels: " + why;
  if (verifier && !verifier->notes.empty()) return "the verifier says: " + verifier->notes.front();
  const bool trees = options_.trees_every != 0 && generated.seed % options_.trees_every == 0;
  KernelCheck kernels(&built, target, std::move(overlaid), std::move(joined), generated.seed, trees,
                      options_.texts, &statistics_);
  for (size_t b = 0; b < generated.bindings.size() && wrong.empty(); ++b)
    wrong = kernels.run(*check, b);
  return wrong;
}

}  // namespace tenon::random_tests
