// The one thread pool of the process. A region splits [0, n) into chunks that threads claim one by
// one. The caller takes part, so a region needs no free thread to make progress. If there are many
// chunks, each thread first claims those of its own contiguous share, which is the same for the
// same range each time: what one kernel wrote is then in the caches of the core whose next kernel
// reads it. After that it helps with chunks that other threads have not reached. Threads spin
// briefly between regions while cores are idle and sleep otherwise. The pool is made on first use,
// sized by affinity, cgroup quota and TENON_NUM_THREADS, and made again in a forked child.
//
// A process that computes with threads of its own may lend them (use_team): the region is then
// theirs, and the pool sleeps.
//
// Several threads may start regions at once; a region inside a region runs inline. Workers inherit
// the caller's operation (operation.h) and run with the region's float state (float_state.h).
#pragma once
#include <cstdint>
#include <string_view>
#include <type_traits>

#include <tenon/abi/host.h>

#include "core/base/errors/status.h"

namespace tenon {

// Threads that take part in a region, the caller included; an upper bound of `worker` + 1. Threads:
// safe.
uint32_t thread_count();

// Sets the size of the pool (a session setting); 0 returns to the default, and to the team that was
// lent. Regions in flight finish on the old threads. Threads: safe.
void set_thread_count(uint32_t count);
constexpr uint32_t kThreadCountMax = 1024;

// At most so many threads take part in the regions that the calling thread begins, itself included;
// 0: no limit. Returns the limit before.
uint32_t limit_threads(uint32_t count);

// The same for a scope.
class ThreadLimit {
 public:
  explicit ThreadLimit(uint32_t count) : before_(limit_threads(count)) {}
  ThreadLimit(const ThreadLimit&) = delete;
  ThreadLimit& operator=(const ThreadLimit&) = delete;
  ~ThreadLimit() { limit_threads(before_); }

 private:
  const uint32_t before_;
};
// The limit of the calling thread, for work that it hands to another one.
uint32_t thread_limit();

// Regions that begin from now on run on the team's threads, as host.h says; null: on the pool.
// Threads: safe.
void use_team(const tenon_team_t* team);

// Runs fn(context, worker, begin, end) over [0, n) in chunks of at least `grain`, at most 16
// chunks per thread. Returns when no thread is in `fn` any more: OK, the first
// failure (after which no new chunk starts; its details are in the caller's failure record), or
// CANCELLED if the operation was. fn must not throw. Chunk boundaries depend on the number of
// threads. Threads: safe.
tenon_code_t parallel(tenon_range_fn_t fn, void* context, int64_t n, int64_t grain);

// The same with a callable (worker, begin, end) that cannot fail or returns a tenon_code_t.
template <typename F>
tenon_code_t parallel_for(int64_t n, int64_t grain, F&& body) {
  using Body = std::remove_reference_t<F>;
  auto call = [](void* context, uint32_t worker, int64_t begin, int64_t end) -> tenon_code_t {
    Body& target = *static_cast<Body*>(context);
    if constexpr (std::is_void_v<std::invoke_result_t<Body&, uint32_t, int64_t, int64_t>>) {
      target(worker, begin, end);
      return TENON_OK;
    } else {
      return target(worker, begin, end);
    }
  };
  return parallel(call, const_cast<void*>(static_cast<const void*>(&body)), n, grain);
}

// True while the calling thread runs a chunk.
bool in_parallel_region();

// The CPUs that this process may use: affinity and cgroup quota, at least 1.
uint32_t available_cpus();

// The quota in whole CPUs, rounded up, of the cgroup in `proc_self_cgroup` (the text of
// /proc/self/cgroup) under `root` (/sys/fs/cgroup), for both cgroup hierarchies; 0 if there is
// none.
uint32_t cgroup_cpu_quota(std::string_view proc_self_cgroup, std::string_view root);

}  // namespace tenon
