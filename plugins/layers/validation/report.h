// The findings: each breach with its requirement, the side at fault, and where. Reported through
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

// A handle for people: "0x5581...".
std::string hex(const void* handle);

// The report of one plugin. Threads: safe.
class Report {
 public:
  Report(std::string_view plugin, uint64_t most, bool aborts)
      : plugin_(plugin), most_(most), aborts_(aborts) {}
  // Reports that the plugin broke a requirement of docs/spec/plugin.md or, for R-Mnn, that the host
  // broke one of docs/spec/host.md.
  void broken(std::string_view requirement, std::string_view slot, std::string_view text);
  // Reports something useful that breaks no requirement.
  void note(std::string_view text);
  void count_call() { calls_.fetch_add(1, std::memory_order_relaxed); }
  // Prints the last line of a run: the number of calls, and of breaches by requirement.
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
