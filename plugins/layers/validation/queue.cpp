// tenon.queue/1: submissions, and fences whose values only grow.
#include <algorithm>
#include <chrono>

#include "validation.h"

namespace tenon::validation {
namespace {

constexpr size_t kWorkKept = 64;  // beyond it, every submission removes completed work

uint64_t now_ns() {
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                   std::chrono::steady_clock::now().time_since_epoch())
                                   .count());
}

}  // namespace

std::vector<tenon_fence_point_t> points_of(const tenon_fence_point_t* points, uint32_t count) {
  std::vector<tenon_fence_point_t> out;
  for (uint32_t i = 0; i < count; ++i) {
    if (points[i].fence != nullptr) out.push_back(points[i]);
  }
  return out;
}

void Validator::attach_queue(LayerSubject& subject) {
  if ((queue_ = subject.next<tenon_queue_api_t>(TENON_QUEUE_ID)) == nullptr) return;
  tenon_queue_api_t& t = queue_table_;
  t.queue_create = layer_slot<&Validator::queue_create>;
  t.queue_destroy = layer_slot<&Validator::queue_destroy>;
  t.copy_async = layer_slot<&Validator::copy_async>;
  t.fence_create = layer_slot<&Validator::fence_create>;
  t.fence_destroy = layer_slot<&Validator::fence_destroy>;
  t.fence_query = layer_slot<&Validator::fence_query>;
  t.fence_signal = layer_slot<&Validator::fence_signal>;
  t.fence_wait = layer_slot<&Validator::fence_wait>;
  if (queue_->reaches != nullptr) t.reaches = layer_slot<&Validator::reaches>;
  subject.put(TENON_QUEUE_ID, &t, this);
}

// ---- Work in flight ----

// A failed fence counts as reached: its failure says nothing about the work.
bool Validator::in_flight(const Object& object, bool written) {
  std::vector<tenon_fence_point_t> points;
  {
    const std::lock_guard lock(mutex_);
    for (const Work& work : work_) {
      for (const Used& used : work.used) {
        if (used.object.get() == &object && (used.written || !written))
          points.push_back(work.signal);
      }
      if (object.kind == Kind::kFence && work.signal.fence == object.handle)
        points.push_back(work.signal);
    }
  }
  std::string why;
  return std::any_of(points.begin(), points.end(), [&](const tenon_fence_point_t& point) {
    uint64_t value = 0;
    return objects_.find(Kind::kFence, point.fence, nullptr, &why) != nullptr &&
           queue_->fence_query(queue_->self, point.fence, &value) == TENON_OK &&
           value < point.value;
  });
}

void Validator::check_waited(std::string_view slot, const ObjectRef& buffer, bool writes,
                             std::string_view what) {
  if (!in_flight(*buffer, !writes)) return;
  broken("R-M19", slot,
         cat("submitted work in flight ", writes ? "refers to " : "writes ", what, ", ",
             hex(buffer->handle), ", and was not waited for"));
}

void Validator::forget_work_of(const tenon_device_t* device, const tenon_queue_t* queue) {
  const std::lock_guard lock(mutex_);
  std::erase_if(work_, [&](const Work& work) {
    return queue == nullptr ? work.device == device : work.queue == queue;
  });
}

void Validator::submitted(const Object& queue, Work work) {
  std::string why;
  const tenon_fence_point_t signal = work.signal;
  if (const ObjectRef fence = objects_.find(Kind::kFence, signal.fence, nullptr, &why)) {
    const std::lock_guard lock(objects_.mutex);
    fence->promised = std::max(fence->promised, signal.value);
  }
  if (signal.fence == nullptr) return;
  work.device = queue.device;
  work.queue = static_cast<const tenon_queue_t*>(queue.handle);
  uint64_t value = 0;
  {
    const std::lock_guard lock(mutex_);
    while (work_.size() >= kWorkKept) {
      const Work& first = work_.front();
      const bool over = objects_.find(Kind::kFence, first.signal.fence, nullptr, &why) == nullptr ||
                        queue_->fence_query(queue_->self, first.signal.fence, &value) != TENON_OK ||
                        value >= first.signal.value;
      if (!over) break;
      work_.pop_front();
    }
    work_.push_back(std::move(work));
  }
  // A device that does not wait may be done already.
  if (queue_->fence_query(queue_->self, signal.fence, &value) == TENON_OK)
    check_signalled(signal.fence, value);
}

void Validator::check_signalled(tenon_fence_t* fence, uint64_t value) {
  std::vector<Work> over;
  {
    const std::lock_guard lock(mutex_);
    for (Work& work : work_) {
      if (work.seen || work.signal.fence != fence || work.signal.value > value) continue;
      work.seen = true;
      over.push_back(work);
    }
  }
  for (const Work& work : over) check_work(work);
}

void Validator::check_work(const Work& work) {
  std::string why;
  const std::string signal = cat("its signal ", work.signal.value, " was made, and ");
  if (work.must_fail)
    broken("R-D10", work.slot, signal + "it copies beyond a buffer, so that it cannot succeed");
  for (const tenon_fence_point_t& wait : work.waits) {
    if (objects_.find(Kind::kFence, wait.fence, nullptr, &why) == nullptr) continue;
    const tenon_code_t code = queue_->fence_wait(queue_->self, wait.fence, wait.value, 0);
    const std::string point = cat(wait.value, " of the fence ", hex(wait.fence));
    if (code == TENON_DEADLINE_EXCEEDED) {
      broken("R-D03", work.slot, signal + cat(point, ", which it waits for, is not reached"));
    } else if (code != TENON_OK && code != TENON_DEVICE_LOST) {
      broken("R-D17", work.slot, signal + cat(point, ", which it waits for, failed with ", code));
    }
  }
  // Later work may write the same buffers.
  const auto written_later = [&](const tenon_span_t& span) {
    return std::any_of(work_.begin(), work_.end(), [&](const Work& other) {
      return !other.seen &&
             std::any_of(other.used.begin(), other.used.end(), [&](const Used& used) {
               return used.written && used.object->handle == span.buffer;
             });
    });
  };
  std::vector<Filled> filled = work.filled;
  bool inputs_stay = work.again.has_value();
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(filled, [&](const Filled& output) { return written_later(output.span); });
    for (size_t i = 0; inputs_stay && i < work.again->inputs.size(); ++i)
      inputs_stay = !written_later(work.again->inputs[i]);
  }
  const ObjectRef queue = objects_.find(Kind::kQueue, work.queue, nullptr, &why);
  if (queue != nullptr) check_filled(*queue, filled);
  if (inputs_stay) check_again(*work.again);
}

bool Validator::check_points(std::string_view slot, const tenon_fence_point_t* waits,
                             uint32_t wait_count, tenon_fence_point_t signal) {
  if (wait_count != 0 && !need_pointer(slot, waits, cat("the array of ", wait_count, " waits")))
    return false;
  for (uint32_t i = 0; i < wait_count; ++i) {
    if (waits[i].fence != nullptr && need(slot, Kind::kFence, waits[i].fence) == nullptr)
      return false;
  }
  if (signal.fence == nullptr) return true;
  const ObjectRef fence = need(slot, Kind::kFence, signal.fence);
  if (fence == nullptr) return false;
  const std::lock_guard lock(objects_.mutex);
  if (signal.value <= std::max(fence->promised, fence->seen)) {
    broken("R-M12", slot,
           cat("it shall signal ", signal.value, " on the fence ", hex(signal.fence), ", on which ",
               std::max(fence->promised, fence->seen), " was signalled or promised before"));
  }
  return true;
}

// Called after a submission that failed.
void Validator::check_unsignalled(std::string_view requirement, std::string_view slot,
                                  tenon_fence_point_t signal) {
  uint64_t value = 0;
  if (signal.fence == nullptr || queue_ == nullptr ||
      queue_->fence_query(queue_->self, signal.fence, &value) != TENON_OK)
    return;
  if (value >= signal.value)
    broken(requirement, slot, cat("it failed, and its signal ", signal.value, " was made"));
}

// ---- Slots ----

tenon_code_t Validator::queue_create(tenon_device_t* device, tenon_queue_t** out) {
  const ObjectRef d = need("queue_create", Kind::kDevice, device);
  if (d == nullptr || !need_pointer("queue_create", out, "out_queue"))
    return refuse("queue_create");
  const Inside inside = enter(d, "queue_create");
  const tenon_code_t code = ask_for("queue_create", out, [&](tenon_queue_t** o) {
    return queue_->queue_create(queue_->self, device, o);
  });
  note_lost(*d, "queue_create", code);
  if (code == TENON_OK) made("queue_create", "R-D01", Kind::kQueue, *out, device);
  return code;
}

tenon_code_t Validator::queue_destroy(tenon_queue_t* queue) {
  const ObjectRef q = need("queue_destroy", Kind::kQueue, queue);
  if (q == nullptr) return refuse("queue_destroy");
  const ObjectRef d = need("queue_destroy", Kind::kDevice, q->device);
  const Inside inside = enter(d, "queue_destroy");
  objects_.remove(*q);
  const tenon_code_t code =
      ask("queue_destroy", [&] { return queue_->queue_destroy(queue_->self, queue); });
  forget_work_of(nullptr, queue);
  return code;
}

tenon_code_t Validator::copy_async(tenon_queue_t* queue, const tenon_copy_t* c,
                                   const tenon_fence_point_t* waits, uint32_t wait_count,
                                   tenon_fence_point_t signal) {
  const ObjectRef q = need("copy_async", Kind::kQueue, queue);
  const ObjectRef d = q == nullptr ? nullptr : need("copy_async", Kind::kDevice, q->device);
  if (d == nullptr || !need_pointer("copy_async", c, "the copy")) return refuse("copy_async");
  if (!check_points("copy_async", waits, wait_count, signal)) return refuse("copy_async");
  ObjectRef from_device = d;
  if (c->size_bytes >= sizeof *c && c->from_device != nullptr) {
    from_device = need("copy_async", Kind::kDevice, c->from_device);
    if (from_device == nullptr) return refuse("copy_async");
    check_reached(*q, *c);
  }
  const Inside inside = enter(d, "copy_async");
  const Inside alone(*this, q, "copy_async", true);
  const tenon_code_t code =
      checked_copy(d, from_device, *c, "copy_async", false, [&](const tenon_copy_t& one) {
        return queue_->copy_async(queue_->self, queue, &one, waits, wait_count, signal);
      });
  if (code != TENON_OK) {
    check_unsignalled("R-D12", "copy_async", signal);
    return code;
  }
  Work work = {.signal = signal, .slot = "copy_async", .waits = points_of(waits, wait_count)};
  std::string why;
  const auto use = [&](const tenon_buffer_t* buffer, tenon_device_t* device, uint64_t offset,
                       bool writes) {
    ObjectRef object = objects_.find(Kind::kBuffer, buffer, device, &why);
    if (object == nullptr) return;
    work.must_fail |= offset > object->size_bytes || c->length_bytes > object->size_bytes - offset;
    work.used.push_back({std::move(object), writes});
  };
  use(c->from, from_device->device, c->from_offset_bytes, false);
  use(c->to, q->device, c->to_offset_bytes, true);
  submitted(*q, std::move(work));
  return code;
}

// A copy that names another device, on a queue that was asked.
void Validator::check_reached(const Object& queue, const tenon_copy_t& c) {
  bool reachable = false;
  {
    const std::lock_guard lock(objects_.mutex);
    reachable = std::ranges::find(queue.reached, c.from_device) != queue.reached.end();
  }
  if (c.direction != TENON_COPY_DEVICE_TO_DEVICE)
    broken("R-M21", "copy_async",
           cat("a copy of direction ", c.direction, " names a device to copy from"));
  else if (!reachable)
    broken("R-M21", "copy_async", "it copies from a device of which `reaches` has not said yes");
}

tenon_code_t Validator::reaches(tenon_queue_t* queue, tenon_device_t* from, uint32_t* out) {
  const ObjectRef q = need("reaches", Kind::kQueue, queue);
  const ObjectRef d = q == nullptr ? nullptr : need("reaches", Kind::kDevice, q->device);
  if (d == nullptr || need("reaches", Kind::kDevice, from) == nullptr ||
      !need_pointer("reaches", out, "out_reaches"))
    return refuse("reaches");
  const Inside inside = enter(d, "reaches");
  const tenon_code_t code = ask_for(
      "reaches", out, [&](uint32_t* o) { return queue_->reaches(queue_->self, queue, from, o); });
  note_lost(*d, "reaches", code);
  if (code != TENON_OK) return code;
  const std::lock_guard lock(objects_.mutex);
  const bool before = std::ranges::find(q->reached, from) != q->reached.end();
  if (before && *out == 0)
    broken("R-D31", "reaches", "it says no, and said yes while both devices were open");
  if (!before && *out != 0) q->reached.push_back(from);
  return code;
}

tenon_code_t Validator::fence_create(tenon_device_t* device, uint64_t initial,
                                     tenon_fence_t** out) {
  const ObjectRef d = need("fence_create", Kind::kDevice, device);
  if (d == nullptr || !need_pointer("fence_create", out, "out_fence"))
    return refuse("fence_create");
  const Inside inside = enter(d, "fence_create");
  const tenon_code_t code = ask_for("fence_create", out, [&](tenon_fence_t** o) {
    return queue_->fence_create(queue_->self, device, initial, o);
  });
  note_lost(*d, "fence_create", code);
  if (code != TENON_OK) return code;
  if (const ObjectRef fence = made("fence_create", "R-D05", Kind::kFence, *out, device)) {
    const std::lock_guard lock(objects_.mutex);
    fence->seen = fence->promised = initial;
  }
  return code;
}

tenon_code_t Validator::fence_destroy(tenon_fence_t* fence) {
  const ObjectRef f = need("fence_destroy", Kind::kFence, fence);
  if (f == nullptr) return refuse("fence_destroy");
  if (in_flight(*f))
    broken("R-M13", "fence_destroy",
           cat("submitted work in flight signals the fence ", hex(fence)));
  objects_.remove(*f);
  return ask("fence_destroy", [&] { return queue_->fence_destroy(queue_->self, fence); });
}

tenon_code_t Validator::fence_query(tenon_fence_t* fence, uint64_t* out) {
  const ObjectRef f = need("fence_query", Kind::kFence, fence);
  if (f == nullptr || !need_pointer("fence_query", out, "out_value")) return refuse("fence_query");
  uint64_t least = 0;
  {
    const std::lock_guard lock(objects_.mutex);
    least = f->seen;  // seen before this call began
  }
  const tenon_code_t code = ask_for(
      "fence_query", out, [&](uint64_t* o) { return queue_->fence_query(queue_->self, fence, o); });
  if (code != TENON_OK) {
    f->failed = true;
    return code;
  }
  {
    const std::lock_guard lock(objects_.mutex);
    if (*out < least) broken("R-D05", "fence_query", cat("it gives ", *out, " after ", least));
    if (*out > f->promised)
      broken("R-D06", "fence_query",
             cat("it gives ", *out, ", but the highest value to be signalled is ", f->promised));
    f->seen = std::max(f->seen, *out);
  }
  check_signalled(fence, *out);
  return code;
}

tenon_code_t Validator::fence_signal(tenon_fence_t* fence, uint64_t value) {
  const ObjectRef f = need("fence_signal", Kind::kFence, fence);
  if (f == nullptr) return refuse("fence_signal");
  {
    const std::lock_guard lock(objects_.mutex);
    if (value <= f->seen)
      broken("R-M12", "fence_signal",
             cat("it signals ", value, " on a fence that has reached ", f->seen));
    f->promised = std::max(f->promised, value);
  }
  return ask("fence_signal", [&] { return queue_->fence_signal(queue_->self, fence, value); });
}

tenon_code_t Validator::fence_wait(tenon_fence_t* fence, uint64_t value, uint64_t timeout_ns) {
  const ObjectRef f = need("fence_wait", Kind::kFence, fence);
  if (f == nullptr) return refuse("fence_wait");
  const uint64_t begin = now_ns();
  const tenon_code_t code =
      ask("fence_wait", [&] { return queue_->fence_wait(queue_->self, fence, value, timeout_ns); });
  const uint64_t took = now_ns() - begin;
  if (code == TENON_DEADLINE_EXCEEDED) {
    if (took < timeout_ns)
      broken("R-D08", "fence_wait", cat("the time of ", timeout_ns, " ns was over after ", took));
    return code;
  }
  if (code != TENON_OK) {
    f->failed = true;
    return code;
  }
  uint64_t now = 0;
  if (queue_->fence_query(queue_->self, fence, &now) == TENON_OK) {
    if (now < value)
      broken("R-D07", "fence_wait", cat("it returns for ", value, ", and the fence is at ", now));
    const std::lock_guard lock(objects_.mutex);
    f->seen = std::max(f->seen, now);
  }
  check_signalled(fence, value);
  return code;
}

}  // namespace tenon::validation
