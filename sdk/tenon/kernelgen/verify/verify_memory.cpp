#include "tenon/kernelgen/verify/verify_memory.h"

#include <algorithm>

#include "tenon/kernelgen/ir/general.h"
#include "tenon/kernelgen/verify/memory_trace.h"

namespace tenon::kernelgen {
namespace {

// Small numbers in place of sizes, within what is known about them. The first tuple has different
// numbers, so that axes are not confused with each other; the second has the least ones.
std::vector<std::vector<int64_t>> small_sizes(const Pool& p) {
  static constexpr int64_t kNumbers[] = {3, 5, 2, 4, 7, 6};
  std::vector<std::vector<int64_t>> out(2);
  for (size_t i = 0; i < p.extents().size(); ++i) {
    const Extent& x = p.extents()[i];
    const auto fit = [&](int64_t n) {
      const int64_t of = std::max<int64_t>(1, x.multiple_of), least = std::max<int64_t>(x.lo, 0);
      const int64_t up = n > (INT64_MAX - of) ? n : (std::max(n, least) + of - 1) / of * of;
      return up <= x.hi ? up : x.hi;
    };
    out[0].push_back(fit(kNumbers[i % std::size(kNumbers)]));
    out[1].push_back(fit(std::max<int64_t>(x.lo, 1)));
  }
  if (p.extents().empty()) out.resize(1);
  return out;
}

bool one_loop_each(const Kernel& k, std::string* why) {
  for (size_t i = 0; i < k.stages.size(); ++i) {
    const Stage& s = k.stages[i];
    std::vector<uint32_t> axes;
    for (const auto* list : {&s.space, &s.reduce, &s.fill})
      axes.insert(axes.end(), list->begin(), list->end());
    std::ranges::sort(axes);
    const auto twice = std::ranges::adjacent_find(axes);
    if (twice != axes.end())
      return *why = "stage " + std::to_string(i) + ": runs twice along i" + std::to_string(*twice),
             false;
    for (uint32_t a : axes) {
      std::vector<ExprId> loads;
      k.pool.loads(k.pool.axes()[a].extent, &loads);
      if (!loads.empty())
        return *why = "stage " + std::to_string(i) + ": data decides how often it runs along i" +
                      std::to_string(a),
               false;
    }
    for (uint32_t lead : k.lead) {
      if (std::ranges::find(s.space, lead) != s.space.end()) continue;
      return *why = "stage " + std::to_string(i) + ": does not run along the lead axis i" +
                    std::to_string(lead),
             false;
    }
  }
  return true;
}

Traced trace(const Kernel& k, bool prepared, const TraceOptions& options, std::string* why) {
  const Traced as_stages = trace_kernel(k, options, why);
  if (as_stages == Traced::kWrong || !prepared) return as_stages;
  const Prepared loops = prepare(k);
  if (!one_loop_each(loops.kernel, why)) return Traced::kWrong;
  for (bool by_stage : {false, true}) {
    if (trace_prepared(loops, options, by_stage, why) == Traced::kWrong) return Traced::kWrong;
  }
  return as_stages;
}

}  // namespace

std::optional<Verifier> verifier_for(size_t stages, std::string_view setting) {
  constexpr size_t kSmallProgram = 64;
  if (setting == "1" || setting == kVerifyStrictly) return Verifier(Verifier::kThorough);
  if (setting == "0" || stages >= kSmallProgram) return std::nullopt;
  return Verifier(Verifier::kQuick);
}

bool Verifier::holds(const Kernel& k, bool prepared, const std::vector<bool>& shared,
                     std::string* why) const {
  if (!verify(k, why) || !one_loop_each(k, why)) return false;
  bool traced = true;
  for (const std::vector<int64_t>& sizes : small_sizes(k.pool)) {
    const Traced found = trace(
        k, prepared,
        {sizes, most_steps_, k.pool.extents().empty() ? Sizes::kReal : Sizes::kSymbolic, shared},
        why);
    if (found == Traced::kWrong) return false;
    traced = traced && found == Traced::kRight;
  }
  if (traced) return true;
  if (!verify_accesses(k, shared, why)) return false;
  General general;
  if (!prepared || !generalise(k, &general)) return true;
  std::vector<bool> also_shared;
  for (uint32_t origin : general.kernel.buffer_origin)
    also_shared.push_back(origin < shared.size() && shared[origin]);
  for (const std::vector<int64_t>& sizes : small_sizes(general.kernel.pool)) {
    if (trace(general.kernel, true, {sizes, most_steps_, Sizes::kUnrelated, also_shared}, why) !=
        Traced::kWrong)
      continue;
    *why += " (in its form for any sizes)";
    return false;
  }
  return true;
}

bool Verifier::program(const Kernel& program, std::string_view step) {
  std::string why;
  if (program.stages.empty() || holds(program, false, {}, &why)) return true;
  notes.push_back("after " + std::string(step) + ": " + why);
  return false;
}

bool Verifier::order(const Kernel& program, const std::vector<size_t>& group_of) {
  std::string why;
  if (verify_order(program, group_of, &why)) return true;
  notes.push_back("after splitting: " + why);
  return false;
}

bool Verifier::kernel(const Kernel& kernel, const std::vector<bool>& shared) {
  std::string why;
  const bool alone = std::ranges::none_of(shared, [](bool s) { return s; });
  const uint64_t hash = alone ? structural_hash(kernel).lo : 0;
  if (alone && seen_.contains(hash)) return true;
  if (holds(kernel, true, shared, &why)) {
    if (alone) seen_.insert(hash);
    return true;
  }
  notes.push_back("a kernel of " + std::to_string(kernel.stages.size()) + " stages: " + why);
  return false;
}

}  // namespace tenon::kernelgen
