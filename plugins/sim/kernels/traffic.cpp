#include "plugins/sim/kernels/traffic.h"

#include <algorithm>
#include <set>

#include "tenon/cpp/status.hpp"

namespace tenon::sim {
namespace {

constexpr uint64_t kItems = 32, kSectorBytes = 32;

}  // namespace

void Traffic::note(size_t range, uint64_t item, uint64_t place, uint64_t size_bytes, bool writes) {
  const uint64_t before = accesses_[{range, writes, item}]++;
  requests_[{range, writes, item / kItems, before}].push_back({place, size_bytes});
}

void Traffic::end_group() {
  for (auto& [request, places] : requests_) {
    Sum& sum = sums_[{std::get<0>(request), std::get<1>(request)}];
    ++sum.requests;
    std::set<uint64_t> sectors;
    std::ranges::sort(places, {}, &Place::begin);
    uint64_t bytes = 0, end = 0;  // bytes that several items read count once
    for (const Place& p : places) {
      const uint64_t to = p.begin + p.size_bytes;
      for (uint64_t s = p.begin / kSectorBytes; s * kSectorBytes < to; ++s) sectors.insert(s);
      if (to > end) bytes += to - std::max(end, p.begin);
      end = std::max(end, to);
    }
    sum.bytes += bytes;
    sum.sectors += sectors.size();
    sum.least += (bytes + kSectorBytes - 1) / kSectorBytes;
  }
  requests_.clear();
  accesses_.clear();
}

std::string traffic_text(bool writes, const std::string& name, const Traffic::Sum& sum) {
  return cat(writes ? "writes " : "reads ", name, ": ", sum.requests, " requests, ", sum.bytes,
             " bytes, ", sum.sectors, " sectors of at least ", sum.least);
}

}  // namespace tenon::sim
