#include "core/runtime/run/trace.h"

#include <time.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "core/base/errors/failure.h"
#include "core/base/str.h"

namespace tenon::runtime {
namespace {

Status write(const tenon_sink_t& sink, std::string_view text) {
  return from_abi(sink.write(sink.self, text.data(), text.size()), "writing a trace");
}

// JSON has no infinity; such a value is reported as 0.
double finite(double value) {
  return std::isfinite(value) ? value : 0;
}

}  // namespace

uint64_t now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(now.tv_nsec);
}

void Trace::add(TraceEvent event) {
  std::lock_guard lock(mutex_);
  events_.push_back(std::move(event));
}

void Trace::clear() {
  std::lock_guard lock(mutex_);
  events_.clear();
}

std::vector<TraceEvent> Trace::events() const {
  std::lock_guard lock(mutex_);
  return events_;
}

Status Trace::write_perfetto(const tenon_sink_t& sink) const {
  const std::vector<TraceEvent> events = this->events();
  std::map<std::string, int> processes;
  uint64_t start = UINT64_MAX;
  for (const TraceEvent& e : events) {
    processes.emplace(e.device, 0);
    start = std::min(start, e.begin_ns);
  }
  TENON_RETURN_IF_ERROR(write(sink, "{\"displayTimeUnit\":\"ns\",\"traceEvents\":["));
  int next = 0;
  for (auto& [device, pid] : processes) {
    pid = ++next;
    TENON_RETURN_IF_ERROR(write(sink, fmt::format("{}\n{{\"ph\":\"M\",\"name\":\"process_name\","
                                                  "\"pid\":{},\"tid\":0,\"args\":{{\"name\":{}}}}}",
                                                  pid == 1 ? "" : ",", pid, json_quoted(device))));
  }
  for (const TraceEvent& e : events) {
    const uint64_t length = e.end_ns > e.begin_ns ? e.end_ns - e.begin_ns : 0;
    TENON_RETURN_IF_ERROR(
        write(sink, fmt::format(",\n{{\"ph\":\"X\",\"name\":{},\"cat\":{},\"pid\":{},\"tid\":{},"
                                "\"ts\":{:.3f},\"dur\":{:.3f},"
                                "\"args\":{{\"origins\":{},\"flops\":{:.0f},\"bytes\":{:.0f}}}}}",
                                json_quoted(e.name), json_quoted(e.category), processes[e.device],
                                e.lane, static_cast<double>(e.begin_ns - start) / 1e3,
                                static_cast<double>(length) / 1e3, json_quoted(e.origins),
                                finite(e.flops), finite(e.bytes))));
  }
  return write(sink, "\n]}\n");
}

namespace {

constexpr size_t kOriginsShown = 3;

// Events of one kernel with one size: what a person would call the same work.
struct Row {
  TraceEvent sum;
  uint64_t count = 0, total_ns = 0;
  std::vector<std::string> origins;  // distinct ones

  void add(TraceEvent& e, uint64_t length) {
    total_ns += length;
    ++count;
    if (!e.origins.empty() && std::find(origins.begin(), origins.end(), e.origins) == origins.end())
      origins.push_back(e.origins);
    if (count == 1) {
      sum = std::move(e);
    } else {
      sum.flops += finite(e.flops);
      sum.bytes += finite(e.bytes);
    }
  }
  std::string origins_text() const {
    std::string text;
    for (size_t i = 0; i < origins.size() && i < kOriginsShown; ++i)
      text += (i == 0 ? "" : "; ") + origins[i];
    if (origins.size() > kOriginsShown)
      text += fmt::format("; and {} more", origins.size() - kOriginsShown);
    return text;
  }
};

}  // namespace

Status Trace::write_table(const tenon_sink_t& sink) const {
  std::map<std::tuple<std::string, std::string, double, double>, Row> by_work;
  uint64_t total = 0;
  for (TraceEvent& e : events()) {
    if (e.category == "run") continue;
    const uint64_t length = e.end_ns > e.begin_ns ? e.end_ns - e.begin_ns : 0;
    total += length;
    by_work[{e.device, e.name, finite(e.flops), finite(e.bytes)}].add(e, length);
  }
  std::vector<const Row*> rows;
  for (const auto& [key, row] : by_work) rows.push_back(&row);
  std::sort(rows.begin(), rows.end(), [](const Row* a, const Row* b) {
    return a->total_ns != b->total_ns ? a->total_ns > b->total_ns : a->sum.name < b->sum.name;
  });
  TENON_RETURN_IF_ERROR(
      write(sink, fmt::format("{{\"schema\":1,\"total_ns\":{},\"kernels\":[", total)));
  for (size_t i = 0; i < rows.size(); ++i) {
    const Row& r = *rows[i];
    TENON_RETURN_IF_ERROR(write(
        sink,
        fmt::format("{}\n{{\"name\":{},\"device\":{},\"kind\":{},\"origins\":{},\"count\":{},"
                    "\"total_ns\":{},\"share\":{:.6f},"
                    "\"flops\":{:.0f},\"bytes\":{:.0f}}}",
                    i == 0 ? "" : ",", json_quoted(r.sum.name), json_quoted(r.sum.device),
                    json_quoted(r.sum.category), json_quoted(r.origins_text()), r.count, r.total_ns,
                    total == 0 ? 0.0 : static_cast<double>(r.total_ns) / static_cast<double>(total),
                    finite(r.sum.flops), finite(r.sum.bytes))));
  }
  return write(sink, "\n]}\n");
}

// An event without a size is dropped: nothing in it can be trusted.
void TraceSink::event(void* self, const tenon_profile_event_t* given) {
  auto* sink = static_cast<TraceSink*>(self);
  tenon_profile_event_t e;
  if (tenon_record_take(&e, sizeof e, given) != TENON_OK) return;
  try {
    sink->trace_->add({std::string(from_abi_str(e.name)), std::string(from_abi_str(e.origins)),
                       sink->device_, "kernel", e.begin_ns, e.end_ns, finite(e.flops),
                       finite(e.bytes), e.lane});
  } catch (const std::exception&) {
    // No exception may pass through the plugin's frames; without memory the profile lacks an event.
  }
}

}  // namespace tenon::runtime
