// Sizes before a run: what a call's symbols determine for all values and parts, kept for recent
// tuples.
#ifndef TENON_PLUGINS_CPU_CONTROL_CONTROL_SHAPES_H_
#define TENON_PLUGINS_CPU_CONTROL_CONTROL_SHAPES_H_

#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "control/control_program.h"
#include "executable.h"

namespace tenon::cpu {

// A loaded program, and tables derived from its lists. Immutable once loaded.
struct LoadedProgram {
  ControlProgram program;
  std::vector<std::unique_ptr<Executable>> parts;  // By artifact.
  std::vector<const ControlPart*> part_of;         // By artifact.
  std::vector<const void*> constant_data;
  std::vector<bool> data_dependent_symbols;
  std::vector<std::vector<uint32_t>> facts_of;  // By symbol: facts that mention it.
  std::vector<std::vector<uint8_t>>
      direct;  // By region and yield: a part can write it where it is wanted.

  void find_order();  // Computes the last three.
  bool has_data_dependent_sizes(const ControlPart& part) const;
};

// Saturates: the allocation refuses what is too large.
uint64_t bytes_of(const ControlValue& value, std::span<const int64_t> symbols);

// What a tuple of the subgraph's symbols determines before a run. Immutable.
struct ControlShape {
  std::vector<int64_t> main_symbols;
  std::vector<uint64_t> bytes;  // By value; meaningless for data-dependent ones.
  std::vector<uint64_t>
      workspace_bytes;       // By artifact, where no data-dependent symbol is among its own.
  uint64_t arena_bytes = 0;  // Enough for a run without data-dependent sizes.
};

// Threads: safe.
class ControlShapes {
 public:
  explicit ControlShapes(const LoadedProgram& loaded) : loaded_(loaded), program_(loaded.program) {}

  Status find(tenon_symbols_t symbols, std::shared_ptr<const ControlShape>& out);

 private:
  Status make(std::span<const int64_t> symbols, ControlShape& out);
  uint64_t region_bytes(const ControlShape& shape, uint32_t region, bool wanted) const;
  uint64_t arena_bytes_of(const ControlShape& shape, uint32_t value) const;
  uint64_t part_bytes(const ControlShape& shape, const ControlPart& part) const;

  const LoadedProgram& loaded_;
  const ControlProgram& program_;
  std::mutex mutex_;
  std::list<std::shared_ptr<const ControlShape>> shapes_;  // Most recently used first.
};

}  // namespace tenon::cpu
#endif
