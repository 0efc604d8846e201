// A loaded program of control flow. Runs its parts; loops swap the buffers of carried values, so
// that nothing is copied from iteration to iteration, and sizes that a run tells are learnt as it
// goes.
#ifndef TENON_PLUGINS_CPU_CONTROL_CONTROL_EXECUTABLE_H_
#define TENON_PLUGINS_CPU_CONTROL_CONTROL_EXECUTABLE_H_

#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <vector>

#include "control/control_program.h"
#include "executable.h"

namespace tenon::cpu {

// What a tuple of the subgraph's symbols settles before a run. Immutable.
struct ControlShape {
  std::vector<int64_t> main_symbols;
  std::vector<uint64_t> bytes;  // By value; of data-dependent ones it means nothing.
  std::vector<uint64_t>
      workspace_bytes;       // By artifact, where no data-dependent symbol is among its own.
  uint64_t arena_bytes = 0;  // Enough for a run without data-dependent sizes.
};

class ControlExecutable {
 public:
  static Status load(tenon_device_t* device, std::string_view artifact,
                     std::span<tenon_blob_t* const> constants,
                     std::unique_ptr<ControlExecutable>& out);
  ~ControlExecutable();

  void info(tenon_executable_info_t* out) const;
  Status needs(tenon_symbols_t symbols, tenon_needs_t* needs);
  Status execute(const tenon_call_t& call);  // Reentrant.

 private:
  friend class ControlRun;
  ControlExecutable() = default;
  Status adopt_constants(std::span<tenon_blob_t* const> constants);
  void find_order();
  Status shape_for(tenon_symbols_t symbols, std::shared_ptr<const ControlShape>& out);
  Status make_shape(std::span<const int64_t> symbols, ControlShape& out);
  uint64_t region_bytes(const ControlShape& shape, uint32_t region, bool wanted) const;
  uint64_t arena_bytes_of(const ControlShape& shape, uint32_t value) const;
  uint64_t part_bytes(const ControlShape& shape, const ControlPart& part) const;
  bool has_data_dependent_sizes(const ControlPart& part) const;

  ControlProgram program_;
  std::vector<std::unique_ptr<Executable>> parts_;  // By artifact.
  std::vector<const ControlPart*> part_of_;         // By artifact.
  std::vector<bool> data_dependent_symbols_;
  std::vector<std::vector<uint32_t>> facts_of_;  // By symbol: facts that mention it.
  std::vector<tenon_blob_t*>
      blobs_;  // Retained; null where no value is yielded or carried as it is.
  std::vector<const void*> constant_data_;
  std::vector<std::vector<uint8_t>>
      direct_;  // By region and yield: a part can write it where it is wanted.
  std::mutex mutex_;
  std::list<std::shared_ptr<const ControlShape>> shapes_;  // Most recently used first.
};

}  // namespace tenon::cpu
#endif
