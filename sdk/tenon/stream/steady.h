// Programs whose runs start the same kernels with the same arguments, recorded once and started as
// one.
//
// A start costs the host some microseconds, and small kernels are done before the next one starts.
// Drivers can record launches as a graph, and start all of them by one call. A run repeats another
// one if all its launches do: kernels, sizes, addresses. The second time it is recorded, and from
// then on nothing but the graph is started. A run with another address or size is started launch
// by launch, and recorded when it comes again.
//
// Users: sdk/tenon/stream/driver_runtime.h.
#ifndef TENON_STREAM_STEADY_H_
#define TENON_STREAM_STEADY_H_

#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "tenon/cpp/status.hpp"
#include "tenon/stream/runtime.h"

namespace tenon::stream {

// A launch that owns what it needs.
struct OwnLaunch {
  uint32_t kernel = 0;
  std::string name;
  std::vector<uint64_t> arguments;
  uint64_t groups = 0;
  uint32_t group = 0;

  Launch get() { return {kernel, name, arguments, groups, group}; }
};

// Recorded launches. Work in flight keeps them.
class Graph {
 public:
  virtual ~Graph() = default;
  virtual Status launch(StreamHandle stream) = 0;
};

// The runs of one program that came last. Threads: safe.
class Steady {
 public:
  virtual ~Steady() = default;

  // The graph of these launches, recorded now if they come for the second time; null: start them
  // one by one. The device is current.
  GraphRef graph_of(std::string_view device, std::span<OwnLaunch> launches);
  // Says why launches start one by one from now on: something about graphs has failed.
  void give_up(std::string_view device, tenon_code_t code);

 protected:
  void forget();  // all graphs
  virtual Status record(std::span<OwnLaunch> launches, GraphRef* out) = 0;

 private:
  struct Known {
    std::vector<uint64_t> key;
    GraphRef graph;
  };
  std::mutex mutex_;
  std::list<Known> known_;  // the latest first
  bool off_ = false;
};

}  // namespace tenon::stream
#endif
