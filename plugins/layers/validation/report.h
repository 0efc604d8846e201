// What was found: each breach with its requirement, who is at fault, and where. Said once through
// the host's log, and counted.
#ifndef TENON_PLUGINS_LAYERS_VALIDATION_REPORT_H_
#define TENON_PLUGINS_LAYERS_VALIDATION_REPORT_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

namespace tenon::validation {

// "0x5581...": a handle for people.
std::string hex(const void* handle);

// Of one plugin. Threads: safe.
class Report {
 public:
  Report(std::string_view plugin, uint64_t most, bool aborts)
      : plugin_(plugin), most_(most), aborts_(aborts) {}
  // A requirement of docs/spec/plugin.md that the plugin breaks, or, R-Mnn, one of
  // docs/spec/host.md that the host breaks.
  void broken(std::string_view requirement, std::string_view slot, std::string_view text);
  // Something worth knowing that breaks nothing.
  void note(std::string_view text);
  void count_call() { calls_.fetch_add(1, std::memory_order_relaxed); }
  // The last line of a run: calls, and breaches by requirement.
  void sum_up();

 private:
  const std::string plugin_;
  const uint64_t most_;
  const bool aborts_;
  std::atomic<uint64_t> calls_ = 0;
  std::mutex mutex_;
  std::map<std::string, uint64_t, std::less<>> found_;  // by requirement
};

}  // namespace tenon::validation

#endif
