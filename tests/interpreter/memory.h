// Memory with shadow state: the value of each element, the name under which it was stored, and
// when. It distinguishes stored values from what lay there before.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "tests/interpreter/operation.h"

namespace tenon::interpreter {

// Violations, one sentence each. Only the first few are kept, because one defect shows at many
// elements.
class Report {
 public:
  void add(std::string fact) {
    if (++count_ <= kMost) facts_.push_back(std::move(fact));
  }
  bool empty() const { return count_ == 0; }
  // Reports are no longer kept, so a run may stop.
  bool full() const { return count_ >= kMost; }
  const std::vector<std::string>& facts() const { return facts_; }
  std::string text() const {
    std::string out;
    for (const std::string& fact : facts_) out += (out.empty() ? "" : "; ") + fact;
    return out;
  }

 private:
  static constexpr size_t kMost = 4;
  std::vector<std::string> facts_;
  size_t count_ = 0;
};

// A name under which elements are stored: a buffer of a program, or a temp of one of its kernels.
// 0: none.
using Name = uint32_t;
inline constexpr Name kNotStored = 0;
inline Name name_of_buffer(uint32_t buffer) {
  return buffer + 1;
}
inline Name name_of_temp(uint32_t buffer) {
  return (1u << 24) + buffer;
}

struct Cell {
  Reg value{.i = 0};
  uint32_t point = 0;  // the number of the lead point that stored it, within the run; 0: there
                       // before all kernels
  Name name = kNotStored;
};

// The elements of one buffer, or of several that share them.
struct Memory {
  DType type = TENON_DTYPE_NONE;
  std::vector<Cell> cells;

  static Memory unwritten(DType type, int64_t elements) {
    return {type, std::vector<Cell>(static_cast<size_t>(elements))};
  }
  // Memory with the caller's values.
  static Memory holding(DType type, int64_t elements, const void* bytes, Name name);
  // The elements in the layout of devices; unwritten ones as zero bits.
  std::vector<unsigned char> bytes() const;
};

}  // namespace tenon::interpreter
