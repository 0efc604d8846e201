// How the work items of a launch reach memory together: GPUs move sectors of 32 bytes for the items
// that run in step, so elements that lie apart cost as much as whole sectors.
//
// Accesses are compared in the order in which each item makes them: the first ones of 32 neighbours
// are one request, their second ones the next. Threads: one.
#ifndef TENON_PLUGINS_SIM_TRAFFIC_H_
#define TENON_PLUGINS_SIM_TRAFFIC_H_

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace tenon::sim {

class Traffic {
 public:
  // Of one range of memory, in all groups.
  struct Sum {
    uint64_t requests = 0, bytes = 0, sectors = 0;
    uint64_t least = 0;  // sectors, if the same bytes were adjacent
  };

  // range: any number for the memory; place: where the access begins.
  void note(size_t range, uint64_t item, uint64_t place, uint64_t size_bytes, bool writes);
  void end_group();
  // By range and whether it was written.
  const std::map<std::pair<size_t, bool>, Sum>& sums() const { return sums_; }

 private:
  struct Place {
    uint64_t begin, size_bytes;
  };
  // Range, writes, warp, how many accesses its items made before.
  using Request = std::tuple<size_t, bool, uint64_t, uint64_t>;
  std::map<Request, std::vector<Place>> requests_;                   // of the group
  std::map<std::tuple<size_t, bool, uint64_t>, uint64_t> accesses_;  // by range and item
  std::map<std::pair<size_t, bool>, Sum> sums_;
};

// "reads input 0: 8 requests, 4096 bytes, 128 sectors of at least 128".
std::string traffic_text(bool writes, const std::string& name, const Traffic::Sum& sum);

}  // namespace tenon::sim
#endif
