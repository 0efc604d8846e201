// The state of one run of a kernel: the places of its buffers, the current lead point, and access
// to elements with all checks of the shadow state. Internal to the interpreter.
#pragma once
#include "tests/interpreter/stage_interpreter.h"

namespace tenon::interpreter {

// The form of a buffer as numbers.
struct Form {
  int64_t offset = 0, elements = 0;
  std::vector<int64_t> dims, strides;
};

class StageState {
 public:
  // flat: accesses have one index, the offset (after prepare()).
  StageState(const kernelgen::Kernel& kernel, std::span<const int64_t> extents,
             std::span<const Place> places, const RunOptions& options,
             const std::vector<int64_t>* temp_elements, Report* report);

  int64_t size(ExprId e) const;
  int64_t extent_of_axis(uint32_t axis) const { return axes_[axis]; }
  std::span<const int64_t> extents() const { return extents_; }

  // ---- Lead points ----
  void begin_point() { point_ = ++*clock_; }
  // For loops whose points have no order: numbers each point. `watched`: by buffer, whether other
  // points of these loops store it.
  void begin_loops(const std::vector<bool>* watched) {
    watched_ = watched;
    first_moment_ = moment_ + 1;
  }
  void begin_moment() { ++moment_; }
  void end_loops() { watched_ = nullptr; }

  // ---- Elements ----
  void set_stage(size_t stage) { stage_ = stage; }
  Reg load(const Load& load, const Reg* registers);
  // The element of a view, or null (out of bounds, or its guard does not hold).
  Cell* element(const CodeView& view, const Reg* registers);
  void store(const CodeView& view, const Reg* registers, Reg value, bool again);
  Reg old_value(const CodeView& view, Cell* cell);
  void fact(const std::string& text);
  bool stop() const { return report_.full(); }

 private:
  struct Touch {
    uint32_t wrote = 0, read_first = 0, read_last = 0;  // moments
  };

  int64_t offset(uint32_t buffer, std::span<const R> index, const Reg* registers) const;
  bool current(uint32_t buffer, const Cell& cell) const;
  void report_load(uint32_t buffer, int64_t at, const Cell& cell);
  void touch_load(uint32_t buffer, int64_t at);
  void touch_store(uint32_t buffer, int64_t at);
  Touch& touch(uint32_t buffer, int64_t at);
  std::string element_text(uint32_t buffer, int64_t at) const;
  Form form_of(uint32_t buffer) const;

  const kernelgen::Kernel& k_;
  std::span<const int64_t> extents_;
  std::vector<int64_t> axes_;  // by axis: its extent
  std::vector<Form> forms_;    // by buffer
  std::vector<Memory*> memory_;
  std::vector<std::unique_ptr<Memory>> own_;
  std::vector<Name> names_;
  std::vector<bool> rewritten_, temp_;
  std::vector<std::vector<Touch>>
      touches_;  // by the buffer that owns the memory; sized on first use
  Report& report_;
  uint32_t own_clock_ = 0;
  uint32_t* clock_;
  uint32_t point_ = 0, first_point_ = 0, moment_ = 0, first_moment_ = 0;
  const std::vector<bool>* watched_ = nullptr;
  size_t stage_ = 0;
  bool flat_;
};

// Runs one level of a piece of code.
void execute(StageState& state, StageCode& code, uint32_t level);
inline uint32_t innermost(const StageCode& code) {
  return static_cast<uint32_t>(code.levels.size() - 2);
}

}  // namespace tenon::interpreter
