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
inline constexpr uint32_t kAlone = 0xffffffffu;     // a node that was taken by itself
inline constexpr uint32_t kDevicesMax = 63;         // per program

// Nodes that one device takes together or not at all.
struct AtomicClaim {
  std::vector<uint32_t> nodes;  // increasing
  double cost_ns = 0;           // of all of them
  uint32_t by = 0;              // which of the device's compilers
};

struct PartitionDevice {
  double bytes_per_ns = 0;      // to and from host memory; 0: shares host memory
  double latency_ns = 0;        // of one copy
  bool asynchronous = false;    // has a queue: its work is submitted before that of other devices
                                // of the same level, which keep the host busy
  bool fallback = false;        // takes only nodes that no other device claims, in list order
  std::vector<double> cost_ns;  // per node by itself; kNotClaimed where it refuses
  std::vector<uint32_t> by;     // per node: which of the device's compilers; empty: all 0
  std::vector<AtomicClaim> atomic;  // each convex (is_convex)
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
  // Per node: it follows from constants, and costs less than it takes to keep what it makes; empty:
  // none does.
  std::vector<bool> repeatable;
};

// Where every node goes.
struct Assignment {
  std::vector<uint32_t> at;     // device, or kUnplaced
  std::vector<uint32_t> claim;  // index in `atomic` of that device, or kAlone
};

// The first device of the list (fallbacks last) that claims a node gets it, whatever the cost. A
// device's atomic claims come before its single nodes: first those with the most nodes that it has
// no other claim for, then those that save the most.
Assignment assign_by_preference(const PartitionProblem& problem);

// The assignment with the least total of node costs and copies that local search finds. Every step
// strictly lowers the total, so the search terminates. Deterministic.
Assignment assign_by_cost(const PartitionProblem& problem);

// Claim and node costs plus copies of an assignment; nodes without a device count as 0.
double total_cost(const PartitionProblem& problem, const Assignment& assignment);

struct Segment {
  uint32_t device = 0;
  std::vector<uint32_t> nodes = {};  // increasing
  uint32_t by = 0;                   // which of the device's compilers
  uint32_t claim = kAlone;           // the atomic claim that it is, exactly
};

// Groups nodes of one device so that no cycle arises between segments. An atomic claim is a segment
// of its own. Segments are in executable order: each reads only what earlier ones made. A
// repeatable node is in each segment that reads it, if all of them are of its device's own
// compiler.
std::vector<Segment> make_segments(const PartitionProblem& problem, const Assignment& assignment);

}  // namespace tenon::dispatch
