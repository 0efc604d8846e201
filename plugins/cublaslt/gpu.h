// A GPU as the library needs it: its primary context, and a handle of the library there.
#ifndef TENON_PLUGINS_CUBLASLT_GPU_H_
#define TENON_PLUGINS_CUBLASLT_GPU_H_

#include <tenon/abi/device.h>
#include <tenon/abi/exchange.h>

#include <memory>

#include "cublaslt_symbols.h"

namespace tenon::cublaslt {

// The device's tables, which are of the plugin cuda.
struct Tables {
  const tenon_device_api_t* device = nullptr;
  const tenon_exchange_api_t* exchange = nullptr;
};
// UNIMPLEMENTED with a reason if this host has no such device.
Status find_tables(Tables* out);

// Where a buffer is.
Status address_of(const Tables& tables, tenon_device_t* device, const tenon_buffer_t* buffer,
                  uint64_t offset_bytes, uint64_t* out);

// Threads: safe.
class Gpu {
 public:
  // The one of an open device: found by where its memory is, and kept as long as it is in use.
  static Status of(const Library& l, const Tables& tables, tenon_device_t* device,
                   std::shared_ptr<Gpu>* out);
  // The one of a number of the driver's, for questions before anything is made for it. It is kept
  // until `of` has given a GPU out, since a handle of the library takes long to make.
  static Status to_ask(const Library& l, int ordinal, std::shared_ptr<Gpu>* out);
  ~Gpu();
  Gpu(const Gpu&) = delete;
  Handle handle() const { return handle_; }

  // Its context is current on this thread as long as it lives, and graphs that other libraries
  // record meanwhile do not forbid calls, which would end those recordings.
  class Current {
   public:
    explicit Current(const Gpu& gpu);
    ~Current();
    Current(const Current&) = delete;
    Status status() const { return status_; }

   private:
    const Library& l_;
    Status status_;
    int mode_;
  };

 private:
  Gpu(const Library& l, int ordinal) : l_(l), ordinal_(ordinal) {}
  static Status find(const Library& l, int ordinal, std::shared_ptr<Gpu>* out);
  Status open();

  const Library& l_;
  const int ordinal_;
  CUcontext context_ = nullptr;
  Handle handle_ = nullptr;
};

}  // namespace tenon::cublaslt

#endif
