// One kernel: its pieces, and how a piece runs on the arrays of a call.
#ifndef TENON_PLUGINS_ONEDNN_KERNEL_H_
#define TENON_PLUGINS_ONEDNN_KERNEL_H_

#include <tenon/abi/device.h>

#include "pieces.h"

namespace tenon::onednn {

// Threads: safe once made.
class Kernel {
 public:
  // device, device_api: whose buffers the runs are given.
  static Status create(const Library& l, Problem problem, uint32_t threads,
                       const tenon_device_api_t* device_api, tenon_device_t* device,
                       std::unique_ptr<Kernel>* out);
  Status prepack(const void* data, uint64_t size_bytes, const tenon_sink_t* sink) const;
  Status run(const tenon_kernel_args_t& args) const;

 private:
  struct Arrays;
  Kernel(const Library& l, Problem problem, const tenon_device_api_t* api, tenon_device_t* device)
      : l_(l), problem_(std::move(problem)), api_(api), device_(device) {}
  Status run_piece(const tenon_kernel_args_t& args, const Piece& piece) const;
  Status address(const tenon_buffer_t* buffer, uint64_t offset, unsigned char** out) const;
  Status place(const tenon_kernel_args_t& args, const Piece& piece, Arrays* out) const;
  Status execute(const Piece& piece, const Arrays& arrays) const;
  uint32_t operand_of(Step::Kind kind) const;

  const Library& l_;
  const Problem problem_;
  const tenon_device_api_t* api_;
  tenon_device_t* device_;
  Pieces pieces_;
};

}  // namespace tenon::onednn

#endif
