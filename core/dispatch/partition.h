// Decides which device gets which node, and groups nodes into segments that each compile as one.
// Pure arithmetic on claims and costs, independent of graphs and plugins, so that every rule has a
// small test.
#pragma once
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace tenon::dispatch {

inline constexpr double kNotClaimed = std::numeric_limits<double>::infinity();
inline constexpr uint32_t kHost = 0xffffffffu;      // as producer: an input; as consumer: an output
inline constexpr uint32_t kUnplaced = 0xfffffffeu;  // no device claims the node
inline constexpr uint32_t kDevicesMax = 63;         // per program

struct PartitionDevice {
  double bytes_per_ns = 0;      // to and from host memory; 0: shares host memory
  double latency_ns = 0;        // of one copy
  bool asynchronous = false;    // has a queue: its work is submitted before that of other devices
                                // of the same level, which keep the host busy
  bool fallback = false;        // takes only nodes that no other device claims, in list order
  std::vector<double> cost_ns;  // per node; kNotClaimed where it refuses
};

struct PartitionValue {
  uint32_t producer = kHost;  // node index, or kHost
  double bytes = 0;
  bool output = false;              // needed on the host at the end
  std::vector<uint32_t> consumers;  // node indices, increasing
};

struct PartitionProblem {
  uint32_t node_count = 0;  // in topological order: a producer's index is below its consumers'
  std::vector<PartitionDevice> devices;
  std::vector<PartitionValue> values;
};

// The first device of the list (fallbacks last) that claims a node gets it, whatever the cost.
std::vector<uint32_t> assign_by_preference(const PartitionProblem& problem);

// The assignment with the least total of node costs and copies that local search finds. Every step
// strictly lowers the total, so the search terminates. Deterministic.
std::vector<uint32_t> assign_by_cost(const PartitionProblem& problem);

// Node costs plus copies of an assignment; nodes without a device count as 0.
double total_cost(const PartitionProblem& problem, std::span<const uint32_t> assignment);

struct Segment {
  uint32_t device = 0;
  std::vector<uint32_t> nodes;  // increasing
  uint32_t by = 0;              // which of the device's compilers; make_segments leaves 0
};

// Groups nodes of one device so that no cycle arises between segments. Segments are in executable
// order: each reads only what earlier ones made.
std::vector<Segment> make_segments(const PartitionProblem& problem,
                                   std::span<const uint32_t> assignment);

}  // namespace tenon::dispatch
