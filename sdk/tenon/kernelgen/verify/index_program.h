// Index expressions compiled to straight-line code over concrete sizes, for checks that evaluate
// them at thousands of points. Internal to kernelgen.
//
// Values that depend on data (loads, states) are unknown. An operation on unknowns is unknown
// unless its known operand decides the result.
#ifndef TENON_KERNELGEN_VERIFY_INDEX_PROGRAM_H_
#define TENON_KERNELGEN_VERIFY_INDEX_PROGRAM_H_

#include <span>
#include <unordered_map>
#include <vector>

#include "tenon/kernelgen/ir/ir.h"

namespace tenon::kernelgen {

class IndexProgram {
 public:
  // `sizes`: one per extent of the pool. The pool outlives the program.
  IndexProgram(const Pool& pool, std::span<const int64_t> sizes)
      : pool_(&pool), sizes_(sizes.begin(), sizes.end()) {}

  // Where run() puts the value of `e`. Call before the first run.
  uint32_t slot(ExprId e);
  void bind(uint32_t axis, int64_t value);
  void bind_unknown(uint32_t axis);
  void run();

  bool is_known(uint32_t slot) const { return values_[slot].known; }
  int64_t value(uint32_t slot) const { return values_[slot].number; }

 private:
  struct Value {
    int64_t number = 0;
    bool known = false;
  };
  struct Step {
    uint16_t op = 0;
    uint32_t relation = 0, out = 0, count = 0;
    uint32_t args[3] = {};
  };
  uint32_t constant(int64_t number);
  static Value apply(const Step& step, const Value* a, const Value* b, const Value* c);

  const Pool* pool_;
  std::vector<int64_t> sizes_;
  std::vector<Value> values_;
  std::vector<Step> steps_;
  std::unordered_map<ExprId, uint32_t> slots_;
  std::unordered_map<uint32_t, uint32_t> axes_;  // by axis: its slot
};

}  // namespace tenon::kernelgen
#endif
