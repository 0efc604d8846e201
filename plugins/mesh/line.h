// Work of one device in order: queues and fences without a thread of their own. The thread that
// waits for a fence, or submits, moves the work on. Between its attempts it yields, so that
// processes that share a processor do not starve each other.
#ifndef TENON_PLUGINS_MESH_LINE_H_
#define TENON_PLUGINS_MESH_LINE_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tenon/abi/queue.h"
#include "tenon/cpp/plugin.hpp"

namespace tenon::mesh {

// A failure that a fence keeps for those who wait.
struct Fault {
  tenon_code_t code = TENON_OK;
  std::string message;
  // What the host recorded for the last failure of this thread.
  static Fault last(tenon_code_t code);
  Status report() const { return code == TENON_OK ? Status() : fail(code, message); }
};

// Memory that work reads or writes.
struct Range {
  const void* data = nullptr;
  uint64_t size_bytes = 0;
  bool overlaps(const Range& other) const;
};

// One piece of work. Guarded by the line's mutex.
class Job {
 public:
  virtual ~Job() = default;
  // Called again and again, until *out_done or a failure. Does not block.
  virtual Status advance(bool* out_done) = 0;
  // Whether `advance` may still start a transfer. Later jobs start none before that: transfers
  // start in the same order in all processes.
  virtual bool may_start() const = 0;
  virtual std::vector<Range> reads() const = 0;
  virtual std::vector<Range> writes() const = 0;
  // Waits until what it has started may be over, for a millisecond at most. False if it cannot.
  virtual bool linger() { return false; }
  // Whether it starts transfers at all.
  virtual bool transfers() const { return false; }
};

struct Fence {
  uint64_t value = 0;
  uint64_t failed_at = UINT64_MAX;
  Fault fault;
  bool settled(uint64_t at) const { return value >= at || failed_at <= at; }
};

struct Queue {
  struct Item {
    std::vector<tenon_fence_point_t> waits;
    tenon_fence_point_t signal;
    std::unique_ptr<Job> job;
    bool begun = false, done = false;
    Fault fault;
  };
  std::deque<Item> items;
  Fault fault;  // of items without a signal: the next signal takes it
};

class Line {
 public:
  // Owned by the line until they are destroyed.
  Queue* add_queue();
  void remove(Queue* queue);  // waits for its work
  // FAILED_PRECONDITION for a job that transfers while another queue has such jobs: the order of
  // the two would not be the same in all processes.
  Status submit(Queue* queue, std::unique_ptr<Job> job, const tenon_fence_point_t* waits,
                uint32_t wait_count, tenon_fence_point_t signal);
  Status query(const Fence* fence, uint64_t* out_value);
  void signal(Fence* fence, uint64_t value);
  // DEADLINE_EXCEEDED after timeout_ns.
  Status wait(const Fence* fence, uint64_t value, uint64_t timeout_ns);
  // Moves a job on until it is done, outside of any queue. Later work of queues does not begin
  // meanwhile.
  Status run(Job& job);
  std::mutex& mutex() { return mutex_; }

 private:
  void advance_all();
  bool begin(Queue& queue, size_t index);
  bool is_ready(const Queue& queue, size_t index, Fault* out_fault) const;
  void settle(Queue& queue);
  bool linger();

  std::mutex mutex_;
  std::list<Queue> queues_;
};

// Yields more and more: not at all, to other threads, and then with naps of 50 us.
class Patience {
 public:
  void pause();

 private:
  uint32_t turns_ = 0;
};

uint64_t now_ns();

}  // namespace tenon::mesh

struct tenon_queue_t {
  tenon_device_t* device = nullptr;
  tenon::mesh::Queue* queue = nullptr;
};
struct tenon_fence_t : tenon::mesh::Fence {
  tenon_device_t* device = nullptr;
};

#endif
