#include "tests/interpreter/stage_run.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace tenon::interpreter {

using kernelgen::Kernel;
using kernelgen::StageKind;
using kernelgen::View;

namespace {

std::vector<uint32_t> joined(std::vector<uint32_t> a, std::span<const uint32_t> b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

std::vector<const View*> pointers(const std::vector<View>& views) {
  std::vector<const View*> out;
  for (const View& v : views) out.push_back(&v);
  return out;
}

}  // namespace

StageRun::StageRun(StageState& state, const Kernel& kernel, size_t stage,
                   std::vector<uint32_t> space, std::vector<uint32_t> reduce,
                   const std::vector<bool>& stored, uint32_t partials)
    : state_(state),
      k_(kernel),
      s_(kernel.stages[stage]),
      ordinal_(stage),
      space_(std::move(space)),
      reduce_(std::move(reduce)),
      partial_count_(std::max(1u, partials)) {
  for (uint32_t a : s_.fill) fill_.push_back(a);
  // One part may be empty; more empty parts would show nothing.
  int64_t steps = 1;
  for (uint32_t a : reduce_) steps = std::min<int64_t>(partials, steps * state.extent_of_axis(a));
  partial_count_ = static_cast<uint32_t>(std::clamp<int64_t>(steps + 1, 1, partial_count_));
  stored_ = &stored;
  make_all(stored);
  stored_ = nullptr;
}

void StageRun::make(StageCode* code, std::vector<uint32_t> loops, std::vector<ExprId> results,
                    std::vector<const View*> views) {
  std::string why;
  CodeRequest request{k_.lead, loops, std::move(results), std::move(views), stored_};
  if (!make_code(k_, request, code, &why) && why_.empty()) why_ = why;
  if (!why_.empty()) return;
  for (const auto& [ordinal, r] : code->extents) code->registers[r].i = state_.extents()[ordinal];
  execute(state_, *code, kOnce);
  made_.push_back(code);
}

void StageRun::make_all(const std::vector<bool>&) {
  const std::vector<uint32_t> points = joined(space_, reduce_);
  const auto stores = pointers(s_.store);
  switch (s_.kind) {
    case StageKind::kMap:
      make(&value_, space_, s_.value, stores);
      break;
    case StageKind::kReduce:
      make(&init_, {}, s_.init, {});
      make(&step_, points, s_.step, {});
      make(&merge_, {}, s_.merge, {});
      make(&final_, space_, s_.final, stores);
      break;
    case StageKind::kContract:
      make(&step_, points, {s_.a, s_.b}, {});
      make(&final_, space_, s_.final, stores);
      break;
    case StageKind::kScan:
      make(&init_, {}, s_.init, {});
      make(&step_, points, s_.step, {});
      make(&final_, points, s_.final, stores);
      break;
    case StageKind::kScatter:
      make(&fill_code_, joined(space_, fill_), s_.init, {&s_.store[0]});
      make(&place_, points, {}, {&s_.store[1]});
      make(&step_, points, s_.step, {});
      break;
    case StageKind::kSort:
      make(&step_, points, s_.step, {});
      make(&value_, joined(joined(space_, fill_), reduce_), s_.value, stores);
      break;
    case StageKind::kAttention:
      make(&dot_, joined(points, fill_), {s_.a, s_.b}, {});
      make(&step_, points, {s_.step[0], s_.value[0]}, {});
      make(&final_, space_, s_.final, stores);
      break;
  }
}

void StageRun::enter(std::span<const int64_t> lead_values) {
  state_.set_stage(ordinal_);
  for (StageCode* c : made_) {
    for (size_t i = 0; i < k_.lead.size(); ++i) c->registers[c->lead[i]].i = lead_values[i];
    if (kPerPoint < innermost(*c)) execute(state_, *c, kPerPoint);
  }
}

bool StageRun::any(std::span<const uint32_t> axes) const {
  return std::ranges::all_of(axes, [&](uint32_t a) { return state_.extent_of_axis(a) > 0; });
}

const StageRun::Values& StageRun::compute(StageCode& code, std::span<const Reg> states) {
  for (const auto& [ordinal, r] : code.states) code.registers[r] = states[ordinal];
  execute(state_, code, innermost(code));
  results_.clear();
  for (R r : code.results) results_.push_back(code.registers[r]);
  return results_;
}

void StageRun::store_all(const StageCode& code, size_t count) {
  for (size_t i = 0; i < count; ++i)
    state_.store(code.views[i], code.registers.data(), code.registers[code.results[i]], s_.overlay);
}

void StageRun::run() {
  state_.set_stage(ordinal_);
  switch (s_.kind) {
    case StageKind::kMap:
      return map();
    case StageKind::kReduce:
    case StageKind::kContract:
      return sum();
    case StageKind::kScan:
      return scan();
    case StageKind::kScatter:
      return scatter();
    case StageKind::kSort:
      return sort();
    case StageKind::kAttention:
      return attention();
  }
}

void StageRun::map_point() {
  execute(state_, value_, innermost(value_));
  store_all(value_, s_.store.size());
}

void StageRun::map() {
  StageCode* const codes[] = {&value_};
  nest(state_, space_, 0, codes, [&] {
    state_.begin_moment();
    map_point();
  });
}

void StageRun::begin_sum() {
  next_partial_ = 0;
  if (s_.kind == StageKind::kContract) {
    partials_.assign(1, Values{Reg{.i = 0}});
    if (kernelgen::is_float(k_.pool.type(s_.a))) partials_[0][0].f = 0;
    return;
  }
  const Values& init = compute(init_, {});
  partials_.resize(partial_count_);
  for (Values& p : partials_) p = init;
}

void StageRun::step_point() {
  if (s_.kind == StageKind::kContract) {
    execute(state_, step_, innermost(step_));
    const Reg a = step_.registers[step_.results[0]], b = step_.registers[step_.results[1]];
    Reg& sum = partials_[0][0];
    if (kernelgen::is_float(k_.pool.type(s_.a)))
      sum.f += a.f * b.f;
    else
      sum.i = static_cast<int64_t>(static_cast<uint64_t>(sum.i) +
                                   static_cast<uint64_t>(a.i) * static_cast<uint64_t>(b.i));
    return;
  }
  Values& mine = partials_[next_partial_];
  next_partial_ = (next_partial_ + 1) % partial_count_;
  mine = compute(step_, mine);
}

void StageRun::end_sum() {
  if (s_.kind == StageKind::kContract) {
    const DType t = k_.pool.type(s_.a);
    Reg& sum = partials_[0][0];
    if (kernelgen::is_float(t))
      sum.f = op::scalar_round(t, sum.f);
    else
      sum.i = op::scalar_wrap(t, sum.i);
  }
  for (size_t n = 1; n < partials_.size(); ++n) {
    both_ = partials_[0];
    both_.insert(both_.end(), partials_[n].begin(), partials_[n].end());
    partials_[0] = compute(merge_, both_);
  }
  compute(final_, partials_[0]);
  store_all(final_, s_.store.size());
}

void StageRun::sum() {
  StageCode* const steps[] = {&step_};
  // The operands of a step exist only if there is a step.
  std::vector<StageCode*> codes = {&final_};
  if (any(reduce_)) codes.push_back(&step_);
  nest(state_, space_, 0, codes, [&] {
    state_.begin_moment();
    begin_sum();
    nest(state_, reduce_, space_.size(), steps, [&] { step_point(); });
    end_sum();
  });
}

void StageRun::scan() {
  StageCode* const codes[] = {&step_, &final_};
  nest(state_, space_, 0, codes, [&] {
    Values now = compute(init_, {});
    nest(
        state_, reduce_, space_.size(), codes,
        [&] {
          const Values next = compute(step_, now);
          both_ = now;
          both_.insert(both_.end(), next.begin(), next.end());
          compute(final_, both_);
          store_all(final_, s_.store.size());
          now = next;
        },
        s_.from_end);
  });
}

void StageRun::scatter() {
  StageCode* const fills[] = {&fill_code_};
  StageCode* const steps[] = {&place_, &step_};
  const auto updates = [&] {
    execute(state_, place_, innermost(place_));
    Cell* cell = state_.element(place_.views[0], place_.registers.data());
    if (cell == nullptr) return;
    const Reg old[] = {state_.old_value(place_.views[0], cell)};
    state_.store(place_.views[0], place_.registers.data(), compute(step_, old)[0], true);
  };
  nest(state_, space_, 0, fills, [&] {
    nest(state_, fill_, space_.size(), fills, [&] {
      execute(state_, fill_code_, innermost(fill_code_));
      store_all(fill_code_, 1);
    });
  });
  if (!any(reduce_)) return;
  nest(state_, space_, 0, steps, [&] { nest(state_, reduce_, space_.size(), steps, updates); });
}

// Positions along the reduce axis, in the order of the keys.
std::vector<int64_t> StageRun::sorted_places() {
  std::vector<std::vector<uint64_t>> keys;
  StageCode* const codes[] = {&step_};
  nest(state_, reduce_, space_.size(), codes, [&] {
    keys.emplace_back();
    for (const Reg& k : compute(step_, {})) keys.back().push_back(static_cast<uint64_t>(k.i));
  });
  std::vector<int64_t> places(keys.size());
  std::iota(places.begin(), places.end(), 0);
  std::sort(places.begin(), places.end(), [&](int64_t a, int64_t b) {
    const auto &x = keys[static_cast<size_t>(a)], &y = keys[static_cast<size_t>(b)];
    return x != y ? x < y : a < b;
  });
  return places;
}

void StageRun::sort() {
  StageCode* const both[] = {&step_, &value_};
  StageCode* const values[] = {&value_};
  nest(state_, space_, 0, both, [&] {
    const std::vector<int64_t> places = sorted_places();
    const R place = value_.loops[space_.size() + fill_.size()], along = value_.loops[space_.size()];
    nest(state_, fill_, space_.size(), values, [&] {
      const size_t j = static_cast<size_t>(value_.registers[along].i);
      if (j >= places.size()) return state_.fact("sorts fewer elements than it gives");
      value_.registers[place].i = places[j];
      map_point();
    });
  });
}

void StageRun::attention() {
  StageCode* const outer[] = {&dot_, &step_, &final_};
  StageCode* const keys[] = {&dot_, &step_};
  StageCode* const dots[] = {&dot_};
  nest(state_, space_, 0, outer, [&] {
    std::vector<double> scores, values;
    nest(state_, reduce_, space_.size(), keys, [&] {
      double dot = 0;
      nest(state_, fill_, space_.size() + reduce_.size(), dots, [&] {
        const Values x = compute(dot_, {});
        dot += x[0].f * x[1].f;
      });
      const Reg state[] = {Reg{.f = static_cast<float>(dot)}};
      const Values x = compute(step_, state);
      scores.push_back(x[0].f);
      values.push_back(x[1].f);
    });
    double top = -INFINITY, sum = 0, all = 0;
    for (double x : scores) top = std::isnan(x) || std::isnan(top) ? NAN : std::fmax(top, x);
    if (top == -INFINITY) top = 0;  // no key is visible: all weights are 0
    for (size_t n = 0; n < scores.size(); ++n) {
      const double weight = std::exp(scores[n] - top);
      sum += weight;
      all += weight * values[n];
    }
    const Reg state[] = {Reg{.f = static_cast<float>(all / sum)},
                         Reg{.f = static_cast<float>(sum)}};
    compute(final_, state);
    store_all(final_, s_.store.size());
  });
}

}  // namespace tenon::interpreter
