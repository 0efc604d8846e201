#include "plugins/sim/kernels/watch.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

#include "tenon/abi/toolchain.h"
#include "tenon/cpp/status.hpp"

namespace tenon::sim {
namespace {

// Flags in the epochs of a cell.
constexpr uint32_t kSeveralItems =
    1u << 31;  // reader: other items of the group read in this epoch too
constexpr uint32_t kSeveralGroups = 1u << 30;  // reader: items of other groups read as well
constexpr uint32_t kAtomicWrite = 1u << 31;    // writer
constexpr uint32_t kEpochMask = kSeveralGroups - 1;
// The largest distance at which an address is reported as beyond a range.
constexpr uint64_t kNearBytes = 1 << 20;
// The most reads of unwritten elements that are checked again when the group ends.
constexpr size_t kUnwrittenMax = 256;

}  // namespace

Watch::Watch(std::vector<WatchedRange> ranges, uint64_t items_per_group)
    : ranges_(std::move(ranges)), items_per_group_(items_per_group) {
  std::sort(ranges_.begin(), ranges_.end(),
            [](const WatchedRange& a, const WatchedRange& b) { return a.begin < b.begin; });
  make_regions();
}

// Tracks the ranges that may be written, and all ranges at the same place. Overlapping places form
// one region.
void Watch::make_regions() {
  std::vector<const WatchedRange*> by_place;
  for (const WatchedRange& r : ranges_) {
    if (r.written && r.size_bytes != 0) by_place.push_back(&r);
  }
  std::sort(by_place.begin(), by_place.end(),
            [](const auto* a, const auto* b) { return a->place < b->place; });
  for (const WatchedRange* r : by_place) {
    if (!regions_.empty() && r->place < regions_.back().place + regions_.back().size_bytes) {
      Region& last = regions_.back();
      last.size_bytes = std::max(last.size_bytes, r->place + r->size_bytes - last.place);
      last.element_bytes = std::min(last.element_bytes, r->element_bytes);
      continue;
    }
    regions_.push_back({r->place, r->size_bytes, r->element_bytes, r->local, {nullptr, nullptr}});
  }
  for (Region& region : regions_) {
    auto* cells = static_cast<Cell*>(std::calloc(region.size_bytes / region.element_bytes + 1,
                                                 sizeof(Cell)));  // pages come when touched
    if (cells == nullptr) throw std::bad_alloc();
    region.cells = {cells, [](Cell* p) { std::free(p); }};
  }
  for (const WatchedRange& r : ranges_) {
    const auto it = std::find_if(regions_.begin(), regions_.end(), [&](const Region& region) {
      return r.place < region.place + region.size_bytes && region.place < r.place + r.size_bytes;
    });
    // A read-only range that extends beyond the region is tracked only where they overlap.
    region_of_.push_back(it == regions_.end() ? -1 : static_cast<int32_t>(it - regions_.begin()));
  }
}

void Watch::begin_group() {
  unwritten_.clear();
  for (Region& region : regions_) {
    if (region.local)
      std::memset(static_cast<void*>(region.cells.get()), 0,
                  (region.size_bytes / region.element_bytes + 1) * sizeof(Cell));
  }
}

std::string Watch::traffic(const std::string& title) const {
  std::string out;
  for (size_t r = 0; traffic_ != nullptr && r < ranges_.size(); ++r) {
    for (const bool writes : {false, true}) {
      const auto sum = traffic_->sums().find({r, writes});
      if (sum != traffic_->sums().end())
        out += cat(title, " ", traffic_text(writes, ranges_[r].name, sum->second), "\n");
    }
  }
  return out;
}

Finding Watch::end_group(uint64_t* item) {
  if (traffic_ != nullptr) traffic_->end_group();
  for (const Unwritten& u : unwritten_) {
    if (u.cell->writer != 0) continue;
    *item = u.item;
    return {TENON_INTERNAL, cat("reads byte ", u.byte, " of ", u.range->name,
                                ", which no work item of its group wrote")};
  }
  return {};
}

const WatchedRange* Watch::find(uintptr_t at) const {
  auto it = std::upper_bound(
      ranges_.begin(), ranges_.end(), at,
      [](uintptr_t a, const WatchedRange& r) { return a < reinterpret_cast<uintptr_t>(r.begin); });
  return it == ranges_.begin() ? nullptr : &*std::prev(it);
}

Finding Watch::outside(uintptr_t at, uint64_t size_bytes, bool writes) const {
  const std::string what =
      cat(writes ? "writes " : "reads ", size_bytes, size_bytes == 1 ? " byte at " : " bytes at ");
  const WatchedRange* range = find(at);
  if (range != nullptr &&
      at - reinterpret_cast<uintptr_t>(range->begin) < range->size_bytes + kNearBytes) {
    return {TENON_OUT_OF_RANGE, cat(what, "byte ", at - reinterpret_cast<uintptr_t>(range->begin),
                                    " of ", range->name, ", which has ", range->size_bytes)};
  }
  for (const WatchedRange& r : ranges_) {
    const auto begin = reinterpret_cast<uintptr_t>(r.begin);
    if (at < begin && begin - at < kNearBytes)
      return {TENON_OUT_OF_RANGE, cat(what, "byte -", begin - at, " of ", r.name)};
  }
  return {TENON_OUT_OF_RANGE, cat(what, "an address outside of everything that it was given")};
}

bool Watch::ordered(uint32_t other, uint32_t other_epoch, uint32_t item, uint32_t epoch) const {
  return other == item ||
         ((other - 1) / items_per_group_ == (item - 1) / items_per_group_ && other_epoch < epoch);
}

Finding Watch::conflict(const Region& region, const WatchedRange& range, uint64_t at,
                        uint32_t other, bool other_writes, uint32_t item, bool writes) const {
  const uint64_t byte = region.place + at * region.element_bytes - range.place;
  const char* const does = writes ? "writes" : "reads";
  if (other == item)
    return {TENON_INTERNAL,
            cat(does, " byte ", byte, " of ", range.name, ", which other groups read")};
  const uint64_t group = (item - 1) / items_per_group_,
                 other_group = (other - 1) / items_per_group_;
  const std::string where = other_group == group ? "of its group" : cat("of group ", other_group);
  return {TENON_INTERNAL,
          cat(does, " byte ", byte, " of ", range.name, ", which work item ",
              (other - 1) % items_per_group_, " ", where, other_writes ? " wrote" : " read",
              other_group == group ? " with no barrier between" : "; groups are not ordered")};
}

Finding Watch::access(uint64_t number, uint32_t epoch, const void* address, uint64_t size_bytes,
                      uint32_t kind) {
  const auto at = reinterpret_cast<uintptr_t>(address);
  const bool writes = (kind & TENON_OPENCL_WRITE) != 0, atomic = (kind & TENON_OPENCL_ATOMIC) != 0;
  const WatchedRange* range = find(at);
  const uint64_t offset = range == nullptr ? 0 : at - reinterpret_cast<uintptr_t>(range->begin);
  if (range == nullptr || offset > range->size_bytes || size_bytes > range->size_bytes - offset)
    return outside(at, size_bytes, writes);
  if (writes && !range->written) {
    return {TENON_OUT_OF_RANGE,
            cat("writes byte ", offset, " of ", range->name, ", which is only to be read")};
  }
  const auto number_of_range = static_cast<size_t>(range - ranges_.data());
  if (traffic_ != nullptr && !range->local)
    traffic_->note(number_of_range, number % items_per_group_, range->place + offset, size_bytes,
                   writes);
  const int32_t index = region_of_[number_of_range];
  if (index < 0 || size_bytes == 0) return {};
  const Region& region = regions_[static_cast<size_t>(index)];
  const uint64_t place = range->place + offset;
  if (place < region.place || place >= region.place + region.size_bytes) return {};
  const uint32_t item = static_cast<uint32_t>(number) + 1;
  const uint64_t first = (place - region.place) / region.element_bytes;
  const uint64_t end = std::min(place - region.place + size_bytes, region.size_bytes);
  for (uint64_t e = first; e * region.element_bytes < end; ++e) {
    Cell& cell = region.cells[e];
    const bool both_atomic = atomic && (cell.writer_epoch & kAtomicWrite) != 0;
    if (cell.writer != 0 && !both_atomic &&
        !ordered(cell.writer, cell.writer_epoch & kEpochMask, item, epoch)) {
      return conflict(region, *range, e, cell.writer, true, item, writes);
    }
    if (region.local && !writes && cell.writer == 0 && unwritten_.size() < kUnwrittenMax) {
      unwritten_.push_back({&cell, number % items_per_group_,
                            offset + e * region.element_bytes - (place - region.place), range});
    }
    const uint32_t read_epoch = cell.reader_epoch & kEpochMask;
    if (writes) {
      const bool several = (cell.reader_epoch & kSeveralGroups) != 0 ||
                           ((cell.reader_epoch & kSeveralItems) != 0 && read_epoch >= epoch);
      if (cell.reader != 0 && (several || !ordered(cell.reader, read_epoch, item, epoch))) {
        return conflict(region, *range, e, cell.reader, false, item, true);
      }
      cell.writer = item;
      cell.writer_epoch = epoch | (atomic ? kAtomicWrite : 0);
    } else if (cell.reader == 0 || cell.reader == item ||
               (ordered(cell.reader, read_epoch, item, epoch) &&
                (cell.reader_epoch & kSeveralGroups) == 0)) {
      const uint32_t kept = cell.reader == item && read_epoch == epoch
                                ? cell.reader_epoch & ~kEpochMask
                                : cell.reader_epoch & kSeveralGroups;
      cell.reader = item;
      cell.reader_epoch = epoch | kept;
    } else {
      cell.reader_epoch |= (cell.reader - 1) / items_per_group_ == number / items_per_group_
                               ? kSeveralItems
                               : kSeveralGroups;
    }
  }
  return {};
}

}  // namespace tenon::sim
