// Checks every access of one launch: is it within the kernel's memory, does it write only what may
// be written, and is it ordered against the accesses of other work items? Within a group, a barrier
// between two accesses orders them; accesses of different groups are never ordered.
//
// The actual order of execution does not matter, so a race is found whether or not it did harm.
//
// Threads: one.
#ifndef TENON_PLUGINS_SIM_WATCH_H_
#define TENON_PLUGINS_SIM_WATCH_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "plugins/sim/kernels/traffic.h"
#include "tenon/abi/base.h"

namespace tenon::sim {

// Memory that a kernel may touch.
struct WatchedRange {
  std::string name;  // "output 0", "local `tmp`"
  const void* begin = nullptr;
  uint64_t size_bytes = 0;
  uint64_t place = 0;  // equal for the same memory under two names; ranges of one place may overlap
  uint32_t element_bytes = 1;  // size of one access by the kernel
  bool written = true;         // the kernel may write it
  bool local = false;          // new for every group
};

// The error of an access: OUT_OF_RANGE or INTERNAL (a race), and a text such as "reads 4 bytes at
// byte 256 of input 0, which has 256".
struct Finding {
  tenon_code_t code = TENON_OK;
  std::string text;
};

class Watch {
 public:
  // Items are numbered group after group.
  Watch(std::vector<WatchedRange> ranges, uint64_t items_per_group);

  // Counts requests to memory from now on.
  void count_traffic() { traffic_ = std::make_unique<Traffic>(); }
  // A line for each range that is not local, after `title`; nothing if it was not counted.
  std::string traffic(const std::string& title) const;

  void begin_group();
  // Finds what shows only at the end: local memory that an item read and no item of its group
  // wrote. *item is that item's number in the group.
  Finding end_group(uint64_t* item);
  // `kind` as in tenon_opencl_access_t.
  Finding access(uint64_t item, uint32_t epoch, const void* address, uint64_t size_bytes,
                 uint32_t kind);

 private:
  // The last accesses to an element. Items count from 1; 0: none.
  struct Cell {
    uint32_t writer, writer_epoch, reader, reader_epoch;
  };
  struct Region {  // a tracked place
    uint64_t place = 0, size_bytes = 0;
    uint32_t element_bytes = 1;
    bool local = false;
    std::unique_ptr<Cell[], void (*)(Cell*)> cells{nullptr, nullptr};
  };
  struct Unwritten {
    const Cell* cell;
    uint64_t item, byte;
    const WatchedRange* range;
  };
  void make_regions();
  const WatchedRange* find(uintptr_t at) const;
  Finding outside(uintptr_t at, uint64_t size_bytes, bool writes) const;
  Finding conflict(const Region& region, const WatchedRange& range, uint64_t at, uint32_t other,
                   bool other_writes, uint32_t item, bool writes) const;
  bool ordered(uint32_t other, uint32_t other_epoch, uint32_t item, uint32_t epoch) const;

  std::vector<WatchedRange> ranges_;  // by address
  std::vector<Region> regions_;
  std::vector<int32_t> region_of_;    // by range; -1: not tracked, because it is never written
  std::vector<Unwritten> unwritten_;  // the first few reads of unwritten local elements
  const uint64_t items_per_group_;
  std::unique_ptr<Traffic> traffic_;  // null: not counted
};

}  // namespace tenon::sim
#endif
