// A loaded program of control flow. Runs its parts; loops swap the buffers of carried values, so
// that nothing is copied from iteration to iteration. Sizes that only a run knows are learnt as it
// goes.
#ifndef TENON_PLUGINS_CPU_CONTROL_CONTROL_EXECUTABLE_H_
#define TENON_PLUGINS_CPU_CONTROL_CONTROL_EXECUTABLE_H_

#include <functional>
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
  // As Executable's.
  static Status load_packed(tenon_device_t* device, std::string_view artifact, PackedReader& packed,
                            std::unique_ptr<ControlExecutable>& out);
  Status pack(const tenon_packed_sink_t& sink) const;
  ~ControlExecutable();

  void info(tenon_executable_info_t* out) const;
  Status needs(tenon_symbols_t symbols, tenon_needs_t* needs);
  Status execute(const tenon_call_t& call);  // Reentrant.

 private:
  ControlExecutable() = default;
  // Gives a part its executable.
  using LoadPart = std::function<Status(const ControlPart& part, std::string_view artifact,
                                        std::unique_ptr<Executable>& out)>;
  // Gives a constant, retained, with its bytes.
  using TakeConstant = std::function<Status(uint32_t index, tenon_blob_t*& out, const void*& data,
                                            uint64_t& size_bytes)>;
  static Status open(std::string_view artifact, std::unique_ptr<ControlExecutable>& out);
  Status load_parts(const LoadPart& load);
  // packed: each has the bytes that its type has, and no more.
  Status adopt_constants(const TakeConstant& take, bool packed);

  LoadedProgram loaded_;
  const ControlProgram& program_ = loaded_.program;
  std::vector<tenon_blob_t*>
      blobs_;  // Retained; null where no value is yielded or carried as it is.
  ControlShapes shapes_{loaded_};
};

}  // namespace tenon::cpu
#endif
