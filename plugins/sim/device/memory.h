// The memory of one simulated device: an address space whose pages are protected while no command
// of the device runs, so that a host that accesses device memory by mistake faults instead of
// working by luck.
//
// Threads: alloc, free and translate are safe; pages stay accessible during the lifetime of an
// Access.
#ifndef TENON_PLUGINS_SIM_MEMORY_H_
#define TENON_PLUGINS_SIM_MEMORY_H_

#include <cstdint>
#include <map>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tenon/cpp/status.hpp"

namespace tenon::sim {

inline constexpr uint64_t kAlignmentBytes = 256;  // not the host's 64, so that none relies on it

class DeviceMemory {
 public:
  explicit DeviceMemory(uint64_t capacity_bytes) : capacity_(capacity_bytes) {}
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;

  Status reserve();  // UNAVAILABLE when the address space cannot be reserved
  // Returns a handle, never an address. Size 0 gets a handle too.
  Status alloc(uint64_t size_bytes, uint64_t* out_handle);
  Status free(uint64_t handle);
  // A second handle for a range of a buffer. The buffer outlives it, and it counts no bytes.
  Status alias(uint64_t handle, uint64_t offset_bytes, uint64_t length_bytes, uint64_t* out_handle);
  Status size(uint64_t handle, uint64_t* out_bytes) const;  // as it was asked for
  // The address of a range, valid under an Access. OUT_OF_RANGE beyond the buffer's end.
  Status translate(uint64_t handle, uint64_t offset_bytes, uint64_t length_bytes, void** out);

  // The position of a range in the device's address space: the same memory has the same place.
  Status place(uint64_t handle, uint64_t offset_bytes, uint64_t length_bytes, uint64_t* out);

  // Maps ranges of the memory a second time, each with a megabyte of unmapped space on either side,
  // so that accesses beyond a range are not mistaken for accesses to its neighbour.
  class Views {
   public:
    explicit Views(const DeviceMemory& memory) : memory_(memory) {}
    ~Views();
    Views(const Views&) = delete;
    // UNAVAILABLE when there is no address space left.
    Status add(uint64_t place, uint64_t length_bytes, void** out);

   private:
    const DeviceMemory& memory_;
    std::vector<std::pair<void*, uint64_t>> mappings_;
  };

  uint64_t count() const;  // of buffers
  uint64_t used_bytes() const;
  uint64_t peak_bytes() const;
  uint64_t capacity_bytes() const { return capacity_; }

  // The pages are accessible while at least one Access exists.
  class Access {
   public:
    explicit Access(DeviceMemory& memory) : memory_(memory) { memory_.open(); }
    ~Access() { memory_.close(); }
    Access(const Access&) = delete;

   private:
    DeviceMemory& memory_;
  };

 private:
  struct Block {
    uint64_t offset, size, reserved;  // reserved 0: an alias
  };
  void open();
  void close();
  bool find_gap(uint64_t reserved, uint64_t* out_offset);

  const uint64_t capacity_;
  char* base_ = nullptr;
  int file_ = -1;  // the memory; base_ is one mapping of it
  mutable std::mutex mutex_;
  std::unordered_map<uint64_t, Block> blocks_;
  std::map<uint64_t, uint64_t> gaps_;  // offset -> size, never adjacent
  uint64_t next_handle_ = 1, used_ = 0, peak_ = 0;
  std::mutex access_mutex_;
  int accesses_ = 0;
};

}  // namespace tenon::sim
#endif
