// The state of one run: its sizes, given by the call or learnt from parts, and the addresses of its
// values.
#ifndef TENON_PLUGINS_CPU_CONTROL_CONTROL_STATE_H_
#define TENON_PLUGINS_CPU_CONTROL_CONTROL_STATE_H_

#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "control/control_arena.h"
#include "control/control_shapes.h"

namespace tenon::cpu {

class RunSizes {
 public:
  RunSizes(const LoadedProgram& loaded, const ControlShape& shape);

  std::span<const int64_t> symbols() const { return symbols_; }
  int64_t symbol(uint32_t s) const { return symbols_[s]; }
  uint64_t bytes(uint32_t v) const {
    const ControlValue& value = program_.values[v];
    return value.data_dependent ? bytes_of(value, symbols_) : shape_.bytes[v];
  }
  int64_t dim(uint32_t v, size_t d) const { return program_.values[v].dims[d].evaluate(symbols_); }

  // Records a data-dependent size. Kernels rely on facts, so no kernel runs before the facts that
  // it assumes have been checked. T0607, T0608.
  Status learn(uint32_t symbol, int64_t value);
  // Sizes learnt in an earlier iteration are unknown in this one.
  void forget(const ControlRegion& region);
  void forget(uint32_t symbol) { known_[symbol] = false; }

 private:
  std::string place_of(uint32_t symbol) const;

  const LoadedProgram& loaded_;
  const ControlProgram& program_;
  const ControlShape& shape_;
  std::vector<int64_t> symbols_;
  std::vector<bool> known_;  // By symbol: data-dependent ones learnt in this iteration.
};

class RunValues {
 public:
  RunValues(const RunSizes& sizes, size_t count, char* base, uint64_t bytes)
      : sizes_(sizes), data_(count), wanted_(count), arena_(base, bytes) {}

  // The address of a value.
  char*& operator[](uint32_t v) { return data_[v]; }
  // The address where the value must be made; null: anywhere.
  void want(uint32_t v, char* where) { wanted_[v] = where; }
  char* wanted(uint32_t v) const { return wanted_[v]; }
  char* take_wanted(uint32_t v) { return std::exchange(wanted_[v], nullptr); }

  // Sets the address of a value that is about to be made: the wanted one, or memory of the arena.
  Status place(uint32_t v) {
    if (char* wanted = take_wanted(v)) {
      data_[v] = wanted;
      return {};
    }
    return arena_.take(sizes_.bytes(v), &data_[v]);
  }
  void copy(char* to, uint32_t from) const {
    const uint64_t bytes = sizes_.bytes(from);
    if (bytes != 0 && to != data_[from])
      memmove(to, data_[from], bytes);  // an empty value may have no address
  }
  ControlArena& arena() { return arena_; }

 private:
  const RunSizes& sizes_;
  std::vector<char*> data_;    // By value.
  std::vector<char*> wanted_;  // By value.
  ControlArena arena_;
};

}  // namespace tenon::cpu
#endif
