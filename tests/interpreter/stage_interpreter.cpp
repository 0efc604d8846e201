#include "tests/interpreter/stage_interpreter.h"

#include <algorithm>
#include <numeric>

#include "tests/interpreter/stage_run.h"

namespace tenon::interpreter {

using kernelgen::Kernel;
using kernelgen::Pass;
using kernelgen::Role;
using kernelgen::Stage;
using kernelgen::StageKind;

namespace {

uint32_t memory_of_buffer(const Kernel& k, uint32_t b) {
  return k.buffers[b].alias_of >= 0 ? static_cast<uint32_t>(k.buffers[b].alias_of) : b;
}

bool contains(std::span<const uint32_t> list, uint32_t x) {
  return std::ranges::find(list, x) != list.end();
}

// By buffer: one of the stages stores to its memory.
std::vector<bool> stored_by(const Kernel& k, std::span<const size_t> stages) {
  std::vector<bool> memory(k.buffers.size()), out(k.buffers.size());
  for (size_t i : stages) {
    for (const kernelgen::View& v : k.stages[i].store) memory[memory_of_buffer(k, v.buffer)] = true;
  }
  for (uint32_t b = 0; b < k.buffers.size(); ++b) out[b] = memory[memory_of_buffer(k, b)];
  return out;
}

// The lead points as numbers, in the order in which they run.
std::vector<int64_t> order_of_points(const Kernel& k, const StageState& state, uint64_t seed) {
  int64_t n = 1;
  for (uint32_t a : k.lead) n *= state.extent_of_axis(a);
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  if (seed == 0) return order;
  uint64_t x = seed * 0x9e3779b97f4a7c15ull + 1;
  for (size_t i = order.size(); i > 1; --i) {
    x = x * 6364136223846793005ull + 1442695040888963407ull;
    std::swap(order[i - 1], order[(x >> 33) % i]);
  }
  return order;
}

std::vector<uint32_t> inner(const Kernel& k, const std::vector<uint32_t>& axes) {
  std::vector<uint32_t> out;
  for (uint32_t a : axes) {
    if (!contains(k.lead, a)) out.push_back(a);
  }
  return out;
}

// Requires that each axis of a stage has one loop and that all lead points run it.
bool axes_fit(const Kernel& k, StageState& state, const Stage& s) {
  std::vector<uint32_t> all;
  bool fit = true;
  for (const auto* list : {&s.space, &s.reduce, &s.fill}) {
    for (uint32_t a : *list) {
      if (contains(all, a)) {
        state.fact("runs along axis i" + std::to_string(a) + " twice");
        fit = false;
      }
      all.push_back(a);
    }
  }
  for (uint32_t a : k.lead) {
    if (contains(s.space, a)) continue;
    state.fact("does not run along the lead axis i" + std::to_string(a));
    fit = false;
  }
  return fit;
}

// Work at each lead point.
class Part {
 public:
  virtual ~Part() = default;
  virtual void run(std::span<const int64_t> lead) = 0;
};

// One stage in loops of its own.
class Alone : public Part {
 public:
  Alone(const Kernel& k, StageState& state, size_t stage, uint32_t partials)
      : state_(state),
        stored_(stored_by(k, {{stage}})),
        run_(state, k, stage, inner(k, k.stages[stage].space), inner(k, k.stages[stage].reduce),
             stored_, partials) {
    if (!run_.why().empty()) state.fact(run_.why());
    ordered_ = k.stages[stage].ordered();
  }
  void run(std::span<const int64_t> lead) override {
    if (!run_.why().empty()) return;
    run_.enter(lead);
    if (!ordered_) state_.begin_loops(&stored_);
    run_.run();
    state_.end_loops();
  }

 private:
  StageState& state_;
  std::vector<bool> stored_;
  StageRun run_;
  bool ordered_ = false;
};

// Stages that share loops: Maps run along the axes of a sum in the same loops.
class Together : public Part {
 public:
  Together(const Kernel& k, StageState& state, const Pass& pass, uint32_t partials)
      : state_(state), pass_(pass), stored_(stored_by(k, pass.stages)) {
    for (size_t i : pass.stages) {
      const bool sums = k.stages[i].kind != StageKind::kMap;
      reduces_ = reduces_ || sums;
      nested_ = nested_ || (sums && !pass.space.empty());
    }
    (nested_ ? outer_ : inner_) = pass.space;
    inner_.insert(inner_.end(), pass.reduce.begin(), pass.reduce.end());
    for (size_t i : pass.stages) {
      const bool sums = k.stages[i].kind != StageKind::kMap;
      std::vector<uint32_t> all = outer_;
      if (!sums) all.insert(all.end(), inner_.begin(), inner_.end());
      runs_.push_back(std::make_unique<StageRun>(
          state, k, i, all, sums ? inner_ : std::vector<uint32_t>{}, stored_, partials));
      if (runs_.back()->why().empty()) continue;
      state.set_stage(i);
      state.fact(runs_.back()->why());
      broken_ = true;
    }
  }

  void run(std::span<const int64_t> lead) override {
    if (broken_ || !any(outer_)) return;
    state_.begin_loops(&stored_);
    for (size_t n = 0; n < runs_.size(); ++n) {
      if (any(inner_) || sums(n)) runs_[n]->enter(lead);
    }
    std::vector<StageCode*> outer, points;
    for (size_t n = 0; n < runs_.size(); ++n) {
      StageCode* code = sums(n) ? runs_[n]->steps() : runs_[n]->values();
      points.push_back(code);
      if (any(inner_)) outer.push_back(code);
      if (sums(n)) outer.push_back(runs_[n]->finals());
    }
    nest(state_, outer_, 0, outer, [&] {
      if (nested_) state_.begin_moment();
      each_sum([](StageRun& run) { run.begin_sum(); });
      nest(state_, inner_, outer_.size(), points, [&] { point(); });
      if (!nested_ && reduces_) state_.begin_moment();
      each_sum([](StageRun& run) { run.end_sum(); });
    });
    state_.end_loops();
  }

 private:
  bool sums(size_t n) const { return runs_[n]->stage().kind != StageKind::kMap; }
  bool any(std::span<const uint32_t> axes) const {
    return std::ranges::all_of(axes, [&](uint32_t a) { return state_.extent_of_axis(a) > 0; });
  }
  template <class F>
  void each_sum(F f) {
    for (size_t n = 0; n < runs_.size(); ++n) {
      if (!sums(n)) continue;
      state_.set_stage(pass_.stages[n]);
      f(*runs_[n]);
    }
  }
  void point() {
    if (!nested_) state_.begin_moment();
    for (size_t n = 0; n < runs_.size(); ++n) {
      state_.set_stage(pass_.stages[n]);
      sums(n) ? runs_[n]->step_point() : runs_[n]->map_point();
    }
  }

  StageState& state_;
  const Pass& pass_;
  std::vector<bool> stored_;
  std::vector<uint32_t> outer_, inner_;
  std::vector<std::unique_ptr<StageRun>> runs_;
  bool reduces_ = false, nested_ = false, broken_ = false;
};

void run_points(const Kernel& k, StageState& state, const RunOptions& options,
                std::span<const std::unique_ptr<Part>> parts) {
  std::vector<int64_t> lead(k.lead.size());
  for (int64_t number : order_of_points(k, state, options.order)) {
    int64_t rest = number;
    for (size_t i = k.lead.size(); i-- > 0;) {
      const int64_t n = state.extent_of_axis(k.lead[i]);
      lead[i] = rest % n;
      rest /= n;
    }
    state.begin_point();
    for (const auto& part : parts) part->run(lead);
    if (state.stop()) return;
  }
}

bool all_axes_fit(const Kernel& k, StageState& state) {
  bool fit = true;
  for (size_t i = 0; i < k.stages.size(); ++i) {
    state.set_stage(i);
    fit = axes_fit(k, state, k.stages[i]) && fit;
  }
  return fit;
}

}  // namespace

int64_t element_count(const Kernel& kernel, uint32_t buffer, std::span<const int64_t> extents) {
  int64_t n = 1;
  for (ExprId d : kernel.buffers[buffer].dims) n *= kernel.pool.evaluate(d, extents);
  return n;
}

std::vector<Memory> memory_of_program(const Kernel& program, std::span<const int64_t> extents) {
  std::vector<Memory> out;
  for (uint32_t b = 0; b < program.buffers.size(); ++b) {
    const bool own = program.buffers[b].role == Role::kTemp;
    out.push_back(
        Memory::unwritten(program.buffers[b].type, own ? 0 : element_count(program, b, extents)));
  }
  return out;
}

std::vector<Place> places_of_program(const Kernel& program, std::vector<Memory>* memory) {
  std::vector<Place> out(program.buffers.size());
  for (uint32_t b = 0; b < out.size(); ++b) {
    out[b].name = name_of_buffer(b);
    if (program.buffers[b].role != Role::kTemp) out[b].memory = &(*memory)[b];
  }
  return out;
}

void run_stages(const Kernel& kernel, std::span<const int64_t> extents,
                std::span<const Place> places, const RunOptions& options, Report* report) {
  StageState state(kernel, extents, places, options, nullptr, report);
  if (!all_axes_fit(kernel, state)) return;
  std::vector<std::unique_ptr<Part>> parts;
  for (size_t i = 0; i < kernel.stages.size(); ++i) {
    state.set_stage(i);
    parts.push_back(std::make_unique<Alone>(kernel, state, i, options.partials));
  }
  run_points(kernel, state, options, parts);
}

void run_prepared(const kernelgen::Prepared& prepared, std::span<const int64_t> extents,
                  std::span<const Place> places, const RunOptions& options, Report* report) {
  const Kernel& k = prepared.kernel;
  std::vector<int64_t> temp_elements;
  for (ExprId e : prepared.temp_elements)
    temp_elements.push_back(e == kNone ? -1 : k.pool.evaluate(e, extents));
  StageState state(k, extents, places, options, &temp_elements, report);
  if (!all_axes_fit(k, state)) return;
  std::vector<std::unique_ptr<Part>> parts;
  for (const Pass& pass : prepared.passes) {
    if (pass.stages.size() > 1)
      parts.push_back(std::make_unique<Together>(k, state, pass, options.partials));
    else
      parts.push_back(std::make_unique<Alone>(k, state, pass.stages[0], options.partials));
  }
  for (size_t i = 0; prepared.passes.empty() && i < k.stages.size(); ++i) {
    parts.push_back(std::make_unique<Alone>(k, state, i, options.partials));
  }
  run_points(k, state, options, parts);
}

}  // namespace tenon::interpreter
