// What a run did and when: events from devices and from the plan's steps, written as a Perfetto
// trace (JSON trace events) or as a table of the costliest pieces.
#pragma once
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/errors/status.h"
#include "tenon/abi/compile.h"

namespace tenon::runtime {

struct TraceEvent {
  std::string name, origins, device;  // device "host": the plan's own steps
  std::string category;               // "kernel", "copy", "run"
  uint64_t begin_ns = 0, end_ns = 0;
  double flops = 0, bytes = 0;
  uint32_t lane = 0;
};

// The steady clock of the process.
uint64_t now_ns();

// Threads: safe; devices report from threads of their own.
class Trace {
 public:
  void add(TraceEvent event);
  void clear();
  std::vector<TraceEvent> events() const;

  // {"traceEvents":[...]}: one process per device, one thread per lane. Names are escaped.
  Status write_perfetto(const tenon_sink_t& sink) const;
  // {"schema":1,"total_ns":N,"kernels":[{"name","device","kind","origins","count","total_ns","share","flops","bytes"}]},
  // costliest first. A row is a kernel with one amount of work; its origins are those of its first
  // few distinct events.
  Status write_table(const tenon_sink_t& sink) const;

 private:
  mutable std::mutex mutex_;
  std::vector<TraceEvent> events_;
};

// Receives a device's events for one call and names the device in them. It shares ownership of the
// trace: work that was given up may still report at any time.
class TraceSink {
 public:
  TraceSink(std::shared_ptr<Trace> trace, std::string device)
      : trace_(std::move(trace)), device_(std::move(device)) {
    sink_ = {sizeof sink_, 0, this, &TraceSink::event};
  }
  TraceSink(const TraceSink&) = delete;
  const tenon_profile_sink_t* get() const { return &sink_; }

 private:
  static void event(void* self, const tenon_profile_event_t* given);
  std::shared_ptr<Trace> trace_;
  std::string device_;
  tenon_profile_sink_t sink_;
};

}  // namespace tenon::runtime
