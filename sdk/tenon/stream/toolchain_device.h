// A TextDevice whose code is made ahead of loading, by the toolchain for its dialect.
#ifndef TENON_STREAM_TOOLCHAIN_DEVICE_H_
#define TENON_STREAM_TOOLCHAIN_DEVICE_H_

#include <string>
#include <string_view>

#include "tenon/stream/text_device.h"

namespace tenon::stream {

class ToolchainDevice : public TextDevice {
 public:
  // dialect: TENON_DIALECT_CUDA_CPP and its like. Both must live as long as the process.
  ToolchainDevice(const tenon_device_api_t& memory, std::string_view dialect)
      : TextDevice(memory), dialect_(dialect) {}

  // Toolchains run in this process, so that starting one for each kernel costs little.
  bool compiles_each_kernel() const override { return true; }
  // Empty if there is no toolchain for the dialect, which compile then says.
  std::string_view compiler(std::string_view target) const override;
  Status check_target(std::string_view text) const override;
  Status compile(std::string_view target, std::string_view text,
                 std::string* out_binary) const override;

 protected:
  // The full text of a target, "cuda sm_90" also for "sm_90": INVALID_ARGUMENT for what is none.
  virtual Status full_target(std::string_view text, std::string* out) const = 0;

 private:
  const std::string_view dialect_;
};

}  // namespace tenon::stream
#endif
