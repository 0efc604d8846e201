// Looks at every access of one launch: is it inside of what the kernel was given, does it write
// only what it may, and is it ordered against the accesses of other work items? Two accesses are
// ordered by a barrier between them, within a group; groups are never.
//
// The order in which items really run plays no part, so that a race is found whether or not it did
// harm.
//
// Threads: one.
#ifndef TENON_PLUGINS_SIM_WATCH_H_
#define TENON_PLUGINS_SIM_WATCH_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tenon/abi/base.h"

namespace tenon::sim {

// Memory that a kernel may touch.
struct WatchedRange {
  std::string name;  // "output 0", "local `tmp`"
  const void* begin = nullptr;
  uint64_t size_bytes = 0;
  uint64_t place =
      0;  // the same for the same memory under two names; ranges of one place may overlap
  uint32_t element_bytes = 1;  // what the kernel reads and writes at a time
  bool written = true;         // the kernel may write it
  bool local = false;          // new for every group
};

// What is wrong with an access: OUT_OF_RANGE or INTERNAL (a race), and "reads 4 bytes at byte 256
// of input 0, which has 256".
struct Finding {
  tenon_code_t code = TENON_OK;
  std::string text;
};

class Watch {
 public:
  // items: of one group. Items are numbered group after group.
  Watch(std::vector<WatchedRange> ranges, uint64_t items_per_group);

  void begin_group();
  // What shows only now: local memory that an item read and none of its group wrote. *item: which,
  // in its group.
  Finding end_group(uint64_t* item) const;
  // kind as tenon_opencl_access_t.
  Finding access(uint64_t item, uint32_t epoch, const void* address, uint64_t size_bytes,
                 uint32_t kind);

 private:
  // Who touched an element last. Items count from 1; 0: nobody.
  struct Cell {
    uint32_t writer, writer_epoch, reader, reader_epoch;
  };
  struct Region {  // places that are tracked
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
  std::vector<int32_t> region_of_;    // by range; -1: not tracked, since nobody writes it
  std::vector<Unwritten> unwritten_;  // local elements that were read first: the first few
  const uint64_t items_per_group_;
};

}  // namespace tenon::sim
#endif
