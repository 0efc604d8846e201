// A pool of a driver's device memory, for drivers of the shape that CUDA's and HIP's have: what is
// freed is kept for the next allocation.
//
// A Driver (tenon/stream/driver_runtime.h) also names the type Pool, and has pool_create,
// pool_destroy, pool_set, pool_trim, pool_access, pool_alloc and pool_free, which may be null, and
// has_pools(). Calls return the driver's result; the device is current.
//
// Users: plugins/cuda, plugins/rocm.
#ifndef TENON_STREAM_DRIVER_POOL_H_
#define TENON_STREAM_DRIVER_POOL_H_

#include <cstddef>
#include <cstdint>

#include "tenon/cpp/process_guard.hpp"

namespace tenon::stream {

// CUmemPoolProps, hipMemPoolProps.
struct PoolProperties {
  int allocation = 1;  // pinned, the only type
  int handles = 0;     // none, for other processes
  int place = 1;       // a device
  int device = 0;
  void* security = nullptr;
  unsigned char reserved[64] = {};
};
static_assert(sizeof(PoolProperties) == 88);

// CUmemAccessDesc, hipMemAccessDesc: who may read and write memory of a pool.
struct PoolAccess {
  int place = 1;  // a device
  int device = 0;
  int flags = 3;  // reads and writes
};
static_assert(sizeof(PoolAccess) == 12);

// The device's default pool serves other libraries of the process, so it is left as it is.
template <class Driver>
class DriverPool {
 public:
  using Result = typename Driver::Result;
  using Pointer = typename Driver::Pointer;

  explicit DriverPool(const Driver& driver) : d_(driver) {}

  // Afterwards, also if it fails, the pool must be stopped.
  Result start(int device) {
    PoolProperties properties;
    properties.device = device;
    constexpr int kReleaseThreshold = 4;
    constexpr unsigned kNonBlocking = 1;
    uint64_t keep = UINT64_MAX;
    const ProcessGuard guard;  // a stream may start a thread
    Result result = d_.pool_create(&pool_, &properties);
    if (result == 0) result = d_.pool_set(pool_, kReleaseThreshold, &keep);
    if (result == 0) result = d_.stream_create(&stream_, kNonBlocking);
    return result;
  }
  void stop() {
    if (stream_ != nullptr) (void)d_.stream_synchronize(stream_);
    if (pool_ != nullptr) (void)d_.pool_destroy(pool_);
    if (stream_ != nullptr) (void)d_.stream_destroy(stream_);
    pool_ = nullptr;
    stream_ = nullptr;
  }
  bool runs() const { return pool_ != nullptr; }

  Result alloc(uint64_t size_bytes, Pointer* out) {
    constexpr Result kOutOfMemory = 2;
    const Result result = alloc_once(size_bytes, out);
    if (result != kOutOfMemory) return result;
    // What other libraries use is not of this pool: give back what it keeps, and try again.
    (void)d_.stream_synchronize(stream_);
    (void)d_.pool_trim(pool_, 0);
    return alloc_once(size_bytes, out);
  }
  Result free(Pointer address) { return d_.pool_free(address, stream_); }

  // Another device may read and write its memory from now on.
  Result open_to(int device) {
    PoolAccess access;
    access.device = device;
    return d_.pool_access(pool_, &access, 1);
  }

 private:
  Result alloc_once(uint64_t size_bytes, Pointer* out) {
    Result result = d_.pool_alloc(out, size_bytes, pool_, stream_);
    if (result != 0) return result;
    result = d_.stream_synchronize(stream_);
    if (result != 0) (void)d_.pool_free(*out, stream_);
    return result;
  }

  const Driver& d_;
  typename Driver::Pool pool_ = nullptr;
  typename Driver::Stream stream_ = nullptr;  // allocations are work on a stream
};

}  // namespace tenon::stream
#endif
