// A loaded program of control flow. Runs its parts; loops swap the buffers of carried values, so
// that nothing is copied from iteration to iteration, and sizes that a run tells are learnt as it
// goes.
#ifndef TENON_PLUGINS_CPU_CONTROL_CONTROL_EXECUTABLE_H_
#define TENON_PLUGINS_CPU_CONTROL_CONTROL_EXECUTABLE_H_

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "control/control_shapes.h"

namespace tenon::cpu {

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
  ControlExecutable() = default;
  Status adopt_constants(std::span<tenon_blob_t* const> constants);

  LoadedProgram loaded_;
  const ControlProgram& program_ = loaded_.program;
  std::vector<tenon_blob_t*>
      blobs_;  // Retained; null where no value is yielded or carried as it is.
  ControlShapes shapes_{loaded_};
};

}  // namespace tenon::cpu
#endif
