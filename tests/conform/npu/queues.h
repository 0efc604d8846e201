// Its queues, each with a thread, and fences.
#pragma once
#include "device.h"

namespace npu {

struct Fence {
  std::shared_ptr<tenon::Timeline> line;
};
inline Fence* fence_of(tenon_fence_t* f) {
  return reinterpret_cast<Fence*>(f);
}
struct Task {
  std::vector<std::pair<std::shared_ptr<tenon::Timeline>, uint64_t>> waits;
  std::function<Status()> work;
  std::shared_ptr<tenon::Timeline> signal;
  uint64_t value = 0;
  std::vector<std::shared_ptr<void>> own;
};
struct Queue {
  std::mutex m;
  std::condition_variable cv;
  std::deque<Task> tasks;
  bool stop = false;
  std::thread thread;
  void run() {
    for (;;) {
      Task t;
      {
        std::unique_lock l(m);
        cv.wait(l, [&] { return stop || !tasks.empty(); });
        if (tasks.empty()) return;
        t = std::move(tasks.front());
        tasks.pop_front();
      }
      Fault fault;
      if (!bug("nowait"))
        for (auto& [line, value] : t.waits)
          if (fault.ok()) {
            const Status s = line->wait(value, UINT64_MAX);
            fault = tenon::fault_of(s.code());
          }
      if (bug("earlysignal") && fault.ok() && t.signal && t.work) {
        t.signal->signal(t.value);
        (void)t.work();
        continue;
      }
      if (fault.ok() && t.work) {
        const Status s = t.work();
        fault = tenon::fault_of(s.code());
      }
      if (bug("okonfail") && !fault.ok()) fault = {};
      if (t.signal) {
        if (fault.ok())
          t.signal->signal(t.value);
        else
          t.signal->fail(t.value, fault);
      }
    }
  }
};
inline Queue* queue_of(tenon_queue_t* q) {
  return reinterpret_cast<Queue*>(q);
}
inline Status queue_create(void*, tenon_device_t*, tenon_queue_t** out) {
  auto q = std::make_unique<Queue>();
  q->thread = tenon::start_thread([p = q.get()] { p->run(); });
  *out = reinterpret_cast<tenon_queue_t*>(q.release());
  return {};
}
inline Status queue_destroy(void*, tenon_queue_t* raw) {
  std::unique_ptr<Queue> q(queue_of(raw));
  {
    std::lock_guard l(q->m);
    q->stop = true;
  }
  q->cv.notify_all();
  q->thread.join();
  return {};
}
inline void submit(Queue* q, const tenon_fence_point_t* waits, uint32_t n,
                   tenon_fence_point_t signal, std::function<Status()> work) {
  Task t;
  for (uint32_t i = 0; i < n; ++i)
    if (waits[i].fence) t.waits.push_back({fence_of(waits[i].fence)->line, waits[i].value});
  if (signal.fence) {
    t.signal = fence_of(signal.fence)->line;
    t.value = signal.value;
  }
  t.work = std::move(work);
  {
    std::lock_guard l(q->m);
    q->tasks.push_back(std::move(t));
  }
  q->cv.notify_one();
}
inline Status copy_async(void*, tenon_queue_t* q, const tenon_copy_t* c,
                         const tenon_fence_point_t* w, uint32_t n, tenon_fence_point_t s) {
  tenon_copy_t own;
  TENON_TRY(tenon::take_copy(c, &own));
  TENON_TRY(tenon::check_copy_kind(own));
  submit(queue_of(q), w, n, s, [own] { return do_copy(own); });
  return {};
}
inline Status fence_create(void*, tenon_device_t*, uint64_t v, tenon_fence_t** out) {
  *out = reinterpret_cast<tenon_fence_t*>(new Fence{std::make_shared<tenon::Timeline>(v)});
  return {};
}
inline Status fence_destroy(void*, tenon_fence_t* f) {
  delete fence_of(f);
  return {};
}
inline Status fence_query(void*, tenon_fence_t* f, uint64_t* v) {
  return fence_of(f)->line->query(v);
}
inline Status fence_signal(void*, tenon_fence_t* f, uint64_t v) {
  fence_of(f)->line->signal(v);
  return {};
}
inline Status fence_wait(void*, tenon_fence_t* f, uint64_t v, uint64_t t) {
  return fence_of(f)->line->wait(v, t);
}

}  // namespace npu
