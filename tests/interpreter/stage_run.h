// One stage of a kernel as code, and the execution of its parts. Internal to the interpreter.
#pragma once
#include <functional>

#include "tests/interpreter/stage_state.h"

namespace tenon::interpreter {

// Visits every point of `axes` in order, which are loops [first, ...) of each piece of code. Calls
// body at each point; the body runs the innermost level of the code. from_end: the last point
// first.
template <class F>
void nest(StageState& state, std::span<const uint32_t> axes, size_t first,
          std::span<StageCode* const> codes, F body, bool from_end = false, size_t at = 0) {
  if (at == axes.size()) return body();
  const int64_t n = state.extent_of_axis(axes[at]);
  const uint32_t level = level_of_loop(first + at);
  for (int64_t i = 0; i < n && !state.stop(); ++i) {
    for (StageCode* c : codes) {
      c->registers[c->loops[first + at]].i = from_end ? n - 1 - i : i;
      if (level < innermost(*c)) execute(state, *c, level);
    }
    nest(state, axes, first, codes, body, from_end, at + 1);
  }
}

class StageRun {
 public:
  // Loops inside the lead axes: those over the stored points, and those of a sum inside them.
  // stored: by buffer, whether the loops that the stage shares store to its memory.
  StageRun(StageState& state, const kernelgen::Kernel& kernel, size_t stage,
           std::vector<uint32_t> space, std::vector<uint32_t> reduce,
           const std::vector<bool>& stored, uint32_t partials);

  const kernelgen::Stage& stage() const { return s_; }
  const std::string& why() const { return why_; }
  // Enters a lead point; values by axis.
  void enter(std::span<const int64_t> lead_values);
  // Runs the whole stage at that point.
  void run();

  // ---- Parts, for stages that share loops ----
  StageCode* values() { return &value_; }  // of a Map
  StageCode* steps() { return &step_; }    // of a Reduce or Contract
  StageCode* finals() { return &final_; }
  void map_point();
  void begin_sum();
  void step_point();
  void end_sum();

 private:
  using Values = std::vector<Reg>;

  void make(StageCode* code, std::vector<uint32_t> loops, std::vector<ExprId> results,
            std::vector<const kernelgen::View*> views);
  void make_all(const std::vector<bool>& stored);
  bool any(std::span<const uint32_t> axes) const;
  // The results of a piece of code for these values of its states; valid until the next call.
  const Values& compute(StageCode& code, std::span<const Reg> states);
  void store_all(const StageCode& code, size_t count);

  void map();
  void sum();
  void scan();
  void scatter();
  void sort();
  void attention();
  std::vector<int64_t> sorted_places();

  StageState& state_;
  const kernelgen::Kernel& k_;
  const kernelgen::Stage& s_;
  size_t ordinal_;
  std::vector<uint32_t> space_, reduce_, fill_;
  const std::vector<bool>* stored_ = nullptr;
  std::string why_;
  StageCode value_, init_, step_, merge_, final_, fill_code_, place_, dot_;
  std::vector<StageCode*> made_;
  std::vector<Values> partials_;
  Values results_, both_;
  uint32_t partial_count_, next_partial_ = 0;
};

}  // namespace tenon::interpreter
