// Timeline fences and asynchronous queues. A queue is a thread that runs commands in order: it
// waits for a command's fence points, runs it, and signals. A failed command fails its signal;
// commands that wait for it fail with the same fault and do not run.
#ifndef TENON_PLUGINS_SIM_QUEUE_H_
#define TENON_PLUGINS_SIM_QUEUE_H_

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tenon/abi/queue.h"
#include "tenon/cpp/status.hpp"

namespace tenon::sim {

// A failure on a queue's thread, to be reported on the thread that waits.
struct Fault {
  tenon_code_t code = TENON_OK;
  std::string message;
};

// Threads: safe.
class Fence {
 public:
  explicit Fence(uint64_t initial) : value_(initial) {}
  void signal(uint64_t value);
  void fail(uint64_t value, Fault fault);
  Status query(uint64_t* out_value) const;
  Status wait(uint64_t value, uint64_t timeout_ns) const;
  // Calls `call` once, when the value is reached or can no longer be, with the fault or none, on
  // the thread that causes it; at once if that is so already. It must not block.
  void when(uint64_t value, std::function<void(const Fault&)> call);
  bool settled(uint64_t value) const;  // whether a wait would return
  // Like wait without a timeout, but returns the fault without recording it at the host.
  Fault wait_quietly(uint64_t value) const;

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  uint64_t value_;
  uint64_t failed_at_ = UINT64_MAX;
  Fault fault_;
  struct Watcher {
    uint64_t value;
    std::function<void(const Fault&)> call;
  };
  template <class Change>
  void settle(Change change);
  std::vector<Watcher> watchers_;
};

struct FencePoint {
  Fence* fence = nullptr;
  uint64_t value = 0;
};

class Queue {
 public:
  Queue();
  ~Queue();  // as finish()
  Queue(const Queue&) = delete;

  // Runs on the queue's thread.
  using Command = std::function<Status(Queue&)>;
  // can_be_held: as if the host kept the command, and all later commands of that kind, until its
  // waits are over. Other commands then overtake it.
  void submit(std::vector<FencePoint> waits, FencePoint signal, Command run,
              bool can_be_held = false);
  bool holds();  // whether a command is held
  // Waits for submitted work and fails stalled commands. Nothing may be submitted afterwards.
  void finish();
  // Waits until the work so far is done. More may follow.
  void wait_for_own();

  // For commands: blocks while the queue works; fails when the queue is finished or released.
  Status stall();
  // Ends stalls, because the device is lost.
  void release();
  uint64_t* random_state() { return &random_state_; }  // used on the queue's thread

 private:
  struct Item {
    std::vector<FencePoint> waits;
    FencePoint signal;
    Command run;
    bool can_be_held;
    bool is_held() const;
  };
  std::deque<Item>::iterator next();
  void work();
  Fault perform(Item& item);

  std::mutex mutex_;
  std::condition_variable submitted_, released_;
  std::deque<Item> items_;
  bool stopping_ = false, release_ = false;
  uint64_t random_state_ = 0;
  std::thread thread_;  // last: it uses the rest
};

}  // namespace tenon::sim
#endif
