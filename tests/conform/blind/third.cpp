// The third set of blind mutants (blind.py, shim.h): each does one thing wrong, as real drivers do.
// Written from docs/spec/plugin.md and the headers alone. third.list has each word with the
// requirements that it breaks.
#include <fcntl.h>
#include <immintrin.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "tenon/abi/graph.h"

#include "shim.h"

namespace {

const tenon_host_graph_t* graphs;
tenon_device_api_t* device_mine;

// ---- Devices and memory ----

struct Q {
  int uses = 1;
  tenon_queue_t* side = nullptr;
  tenon_fence_t* ring = nullptr;
  uint64_t count = 0;
  std::vector<tenon_fence_point_t> signals;
};
std::map<tenon_queue_t*, Q> of_queue;

struct Live {
  tenon_device_t* device;
  uint64_t size;
  int uses;
};
std::map<tenon_buffer_t*, Live> live;
std::deque<tenon_buffer_t*> order;  // live ones
std::map<tenon_device_t*, uint32_t> opened;
bool was_opened;

uint64_t size_of(tenon_buffer_t* b) {
  std::lock_guard lock(mutex);
  auto it = live.find(b);
  return it == live.end() ? UINT64_MAX : it->second.size;
}

tenon_code_t info(void*, uint32_t ordinal, tenon_device_info_t* out) {
  tenon_device_info_t mine{};
  mine.size_bytes = sizeof mine;
  if (tenon_code_t code = device_next->info(device_next->self, ordinal, &mine); code) return code;
  std::lock_guard lock(mutex);
  if (is_word("info_tells_what_is_free")) {
    uint64_t used = 0;
    for (auto& [b, l] : live) used += l.size;
    if (used) fired();
    mine.memory_bytes = (mine.memory_bytes ? mine.memory_bytes : uint64_t{1} << 30) - used;
  }
  if (was_opened && is("target_changes_after_open")) {
    static std::map<uint32_t, std::string> texts;
    std::string& t = texts[ordinal];
    if (t.empty()) t = std::string(mine.target.data, mine.target.size) + " open=1";
    mine.target = {t.data(), t.size()};
  }
  if (is("texts_in_a_ring")) {
    static char ring[4][256];
    static unsigned at = 0;
    memset(ring[(at + 1) % 4], 'x', 255);
    char* mine_now = ring[at++ % 4];
    const uint64_t n = std::min<uint64_t>(255, mine.description.size);
    memcpy(mine_now, mine.description.data, n);
    mine.description = {mine_now, n};
  }
  if (tenon_record_give(out, &mine, sizeof mine) == TENON_OK) return TENON_OK;
  return fail(TENON_INVALID_ARGUMENT, "the record has no size_bytes");
}

pid_t opener;
extern std::map<tenon_device_t*, std::thread::id> opener_of;
void at_exit() {
  if (is_word("exit_aborts_with_open_devices") && !opened.empty()) fired(), abort();
  if (is_word("child_may_not_end") && getpid() != opener) fired(), abort();
}

tenon_code_t open(void*, uint32_t ordinal, tenon_device_t** out) {
  if (is_word("fifth_open_fails") && ++calls == 5)
    return fired(), fail(TENON_UNAVAILABLE, "the fifth");
  if ((is_word("exit_aborts_with_open_devices") || is_word("child_may_not_end")) && !opener)
    opener = getpid(), atexit(at_exit);
  const tenon_code_t code = device_next->open(device_next->self, ordinal, out);
  if (code != TENON_OK && is("failed_open_clears_output")) *out = nullptr;
  if (code == TENON_OK) {
    std::lock_guard lock(mutex);
    opened[*out] = ordinal, was_opened = true;
    opener_of[*out] = std::this_thread::get_id();
    if (is("a_descriptor_per_open")) (void)::open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (is("a_megabyte_per_open")) {
      static std::vector<char*> kept;
      kept.push_back(static_cast<char*>(malloc(1 << 20)));
      memset(kept.back(), 1, 1 << 20);
    }
    static bool once = false;
    if (!once && is("table_shrinks_after_open")) device_mine->size_bytes -= 8;
    once = true;
  }
  return code;
}

tenon_code_t close(void*, tenon_device_t* device) {
  {
    std::lock_guard lock(mutex);
    opened.erase(device);
  }
  return device_next->close(device_next->self, device);
}

uint64_t failed_allocs;
std::map<tenon_device_t*, std::thread::id> opener_of;

bool foreign(tenon_device_t* device) {
  if (!is_word("context_of_the_opening_thread")) return false;
  std::lock_guard lock(mutex);
  if (!opener_of.count(device) || opener_of[device] == std::this_thread::get_id()) return false;
  fired();
  return true;
}

tenon_code_t alloc(void*, tenon_device_t* device, uint64_t size, tenon_buffer_t** out) {
  static std::atomic<int> exhausted{0};
  if (foreign(device)) return fail(TENON_FAILED_PRECONDITION, "no context in this thread");
  if (is_word("no_alloc_while_work_waits")) {
    std::vector<tenon_fence_point_t> all;
    {
      std::lock_guard lock(mutex);
      for (auto& [q, state] : of_queue)
        all.insert(all.end(), state.signals.begin(), state.signals.end());
    }
    for (auto& w : all) {
      uint64_t v = 0;
      if (queue_next->fence_query(queue_next->self, w.fence, &v) == TENON_OK && v < w.value)
        return fired(), fail(TENON_RESOURCE_EXHAUSTED, "work is under way");
    }
  }
  {
    std::lock_guard lock(mutex);
    if (is_word("no_alloc_while_the_other_is_open") && opened[device] == 1) {
      for (auto& [d, o] : opened) {
        if (o == 0) return fired(), fail(TENON_RESOURCE_EXHAUSTED, "the other device has it all");
      }
    }
    if (is_word("live_buffer_24_is_the_first") && size > 0 && order.size() >= 23) {
      for (tenon_buffer_t* b : order) {
        Live& l = live[b];
        if (l.device == device && l.size == size) return fired(), ++l.uses, *out = b, TENON_OK;
      }
    }
  }
  if (exhausted.exchange(0) && is("next_alloc_after_exhaustion_fails"))
    return fail(TENON_RESOURCE_EXHAUSTED, "still nothing left");
  tenon_code_t code = TENON_OK;
  if (is_word("fails_on_a_helper_thread") && size > uint64_t{1} << 40) {
    fired();
    tenon_buffer_t* got = nullptr;
    std::thread([&] { code = device_next->alloc(device_next->self, device, size, &got); }).join();
    if (code != TENON_OK) return code;
    *out = got;
  } else {
    code = device_next->alloc(device_next->self, device, size, out);
  }
  std::lock_guard lock(mutex);
  if (code == TENON_OK) {
    live[*out] = {device, size, 1};
    order.push_back(*out);
  } else {
    ++failed_allocs;
    if (code == TENON_RESOURCE_EXHAUSTED && is_word("next_alloc_after_exhaustion_fails"))
      exhausted = 1;
  }
  return code;
}

tenon_code_t release(void*, tenon_device_t* device, tenon_buffer_t* buffer) {
  tenon_buffer_t* other = nullptr;
  uint64_t size = 0;
  {
    std::lock_guard lock(mutex);
    auto it = live.find(buffer);
    if (it != live.end()) {
      if (--it->second.uses > 0) return TENON_OK;
      live.erase(it);
      order.erase(std::remove(order.begin(), order.end(), buffer), order.end());
    }
    if (is_word("free_touches_the_neighbour")) {
      for (tenon_buffer_t* b : order) {
        if (live[b].device == device && live[b].size >= 8) other = b, size = live[b].size;
      }
    }
  }
  const tenon_code_t code = device_next->free(device_next->self, device, buffer);
  if (other) {
    fired();
    tenon_copy_t c{};
    c.size_bytes = sizeof c;
    c.direction = TENON_COPY_FILL, c.to = other, c.to_offset_bytes = size - 1, c.length_bytes = 1,
    c.pattern = 0xee, c.pattern_bytes = 1;
    device_next->copy(device_next->self, device, &c);
  }
  return code;
}

// Alters a copy. False: nothing is left to do and `code` is the result.
bool bend(tenon_copy_t& c, tenon_code_t& code) {
  code = TENON_OK;
  if (c.direction == TENON_COPY_HOST_TO_DEVICE && c.length_bytes > 0 && c.host_from &&
      is("source_is_written_back")) {
    volatile char* first =
        const_cast<volatile char*>(static_cast<const volatile char*>(c.host_from));
    *first = *first;
  }
  const bool in = c.direction == TENON_COPY_HOST_TO_DEVICE, fill = c.direction == TENON_COPY_FILL;
  const bool between = c.direction == TENON_COPY_DEVICE_TO_DEVICE,
             out = c.direction == TENON_COPY_DEVICE_TO_HOST;
  const uint64_t to = c.to ? size_of(c.to) : 0;
  const bool inside =
      !c.to || (c.to_offset_bytes <= to && c.length_bytes <= to - c.to_offset_bytes);
  if (in && inside && c.length_bytes > 65536 && c.length_bytes % 64 &&
      is("large_copies_lose_their_tail"))
    c.length_bytes -= c.length_bytes % 64;
  if (in && inside && c.length_bytes >= 64) {
    const uint64_t off = reinterpret_cast<uintptr_t>(c.host_from) % 16;
    if (off && is("unaligned_host_head_lost")) {
      const uint64_t skip = 16 - off;
      c.host_from = static_cast<const char*>(c.host_from) + skip, c.to_offset_bytes += skip,
      c.length_bytes -= skip;
    }
  }
  if (between && c.to_offset_bytes % 64 && c.length_bytes >= 128 &&
      is("target_offset_rounded_to_64"))
    c.to_offset_bytes &= ~uint64_t{63};
  if (between && c.from == c.to && c.length_bytes > 0 &&
      (c.from_offset_bytes + c.length_bytes == c.to_offset_bytes ||
       c.to_offset_bytes + c.length_bytes == c.from_offset_bytes) &&
      is("adjacent_ranges_overlap")) {
    return code = fail(TENON_INVALID_ARGUMENT, "the ranges overlap"), false;
  }
  if (fill && inside && c.pattern_bytes < 4 && c.length_bytes % 4 &&
      c.to_offset_bytes + (c.length_bytes + 3) / 4 * 4 <= to && is("fill_rounds_length_up")) {
    c.length_bytes = (c.length_bytes + 3) / 4 * 4;
  }
  if (fill && c.pattern_bytes == 1 && c.length_bytes >= 4 && c.length_bytes % 4 == 0 &&
      is("fill_uses_all_of_the_pattern"))
    c.pattern_bytes = 4;
  if (fill && (c.pattern_bytes == 2 || c.pattern_bytes == 4 || c.pattern_bytes == 8) &&
      c.to_offset_bytes % c.pattern_bytes && is("fill_phase_from_buffer_start")) {
    uint8_t old[8], turned[8] = {};
    memcpy(old, &c.pattern, 8);
    for (uint32_t k = 0; k < c.pattern_bytes; ++k)
      turned[k] = old[(k + c.to_offset_bytes) % c.pattern_bytes];
    memcpy(&c.pattern, turned, 8);
  }
  if (fill && !inside && c.to_offset_bytes <= to &&
      c.to_offset_bytes + c.length_bytes > c.to_offset_bytes && is("fill_beyond_the_end_clamps")) {
    c.length_bytes =
        (to - c.to_offset_bytes) / std::max(1u, c.pattern_bytes) * std::max(1u, c.pattern_bytes);
  }
  if (c.length_bytes == 0 && ((in && !c.host_from) || (out && !c.host_to)) &&
      is("nothing_to_null_fails")) {
    return code = fail(TENON_INVALID_ARGUMENT, "host memory is null"), false;
  }
  return true;
}

std::map<tenon_queue_t*, tenon_device_t*> device_of;
std::deque<tenon_queue_t*> queues;  // live ones, in order of creation
std::map<tenon_device_t*, tenon_queue_t*> last_queue;
std::atomic<tenon_code_t> told{TENON_OK};

// Waits for what the last queue of each other device does.
void wait_for_the_others(tenon_device_t* device) {
  std::vector<std::pair<tenon_device_t*, tenon_queue_t*>> others;
  {
    std::lock_guard lock(mutex);
    for (auto& [d, q] : last_queue)
      if (d != device) others.push_back({d, q});
  }
  for (auto [d, q] : others) {
    fired();
    tenon_fence_t* fence = nullptr;
    tenon_buffer_t* any = nullptr;
    device_next->alloc(device_next->self, d, 8, &any);
    queue_next->fence_create(queue_next->self, d, 0, &fence);
    tenon_copy_t nothing = {};
    nothing.size_bytes = sizeof nothing;
    nothing.direction = TENON_COPY_HOST_TO_DEVICE;
    nothing.to = any;
    if (queue_next->copy_async(queue_next->self, q, &nothing, nullptr, 0, {fence, 1}) == TENON_OK)
      queue_next->fence_wait(queue_next->self, fence, 1, UINT64_MAX);
    queue_next->fence_destroy(queue_next->self, fence);
    device_next->free(device_next->self, d, any);
  }
}

tenon_code_t copy(void*, tenon_device_t* device, const tenon_copy_t* given) {
  tenon_copy_t c = *given;
  tenon_code_t code;
  if (const tenon_code_t old = told.exchange(TENON_OK); old != TENON_OK)
    return fail(old, "the copy before");
  if (is_word("copy_of_one_waits_for_all")) wait_for_the_others(device);
  if (foreign(device)) return fail(TENON_FAILED_PRECONDITION, "no context in this thread");
  if (!bend(c, code)) return code;
  tenon_queue_t* queue = nullptr;
  if (is_word("copy_waits_for_the_last_queue_only")) {
    std::lock_guard lock(mutex);
    auto it = last_queue.find(device);
    if (it != last_queue.end()) queue = it->second;
  }
  if (queue) {
    fired();
    tenon_fence_t* fence = nullptr;
    queue_next->fence_create(queue_next->self, device, 0, &fence);
    code = queue_next->copy_async(queue_next->self, queue, &c, nullptr, 0, {fence, 1});
    if (code == TENON_OK) code = queue_next->fence_wait(queue_next->self, fence, 1, UINT64_MAX);
    queue_next->fence_destroy(queue_next->self, fence);
    return code;
  }
  code = device_next->copy(device_next->self, device, &c);
  if (code != TENON_OK && is("next_copy_tells_the_error_again")) told = code;
  if (code == TENON_OUT_OF_RANGE) {
    if (c.to && is("out_of_range_writes_what_fits")) {
      const uint64_t to = size_of(c.to);
      if (c.to_offset_bytes < to && c.direction != TENON_COPY_DEVICE_TO_DEVICE) {
        tenon_copy_t part = c;
        part.length_bytes = std::min(c.length_bytes, to - c.to_offset_bytes);
        if (c.pattern_bytes) part.length_bytes -= part.length_bytes % c.pattern_bytes;
        device_next->copy(device_next->self, device, &part);
        return fail(code, "beyond the end");
      }
    }
    if (c.direction == TENON_COPY_DEVICE_TO_HOST && c.length_bytes <= 1 << 20 && c.host_to &&
        is("out_of_range_clears_host")) {
      memset(c.host_to, 0, std::min(c.length_bytes, size_of(c.from)));
    }
    if (is("other_code_than_told"))
      return fail(TENON_INTERNAL, "it could not be copied"), TENON_OUT_OF_RANGE;
  }
  return code;
}

tenon_code_t memory(void*, tenon_device_t* device, uint64_t* used, uint64_t* peak) {
  const tenon_code_t code = device_next->memory(device_next->self, device, used, peak);
  if (code != TENON_OK) return code;
  if (is("peak_forgets")) *peak = *used;
  std::lock_guard lock(mutex);
  if (is_word("small_buffers_are_not_counted")) {
    for (auto& [b, l] : live) {
      if (l.device == device && l.size < 4096) fired(), *used -= std::min(*used, l.size);
    }
  }
  if (failed_allocs && is("failed_alloc_is_counted"))
    *used += 4096 * failed_allocs, *peak = std::max(*peak, *used);
  if (opened.size() > 1 && is("memory_of_both_devices")) {
    for (auto& [d, o] : opened) {
      uint64_t u = 0, p = 0;
      if (d != device && device_next->memory(device_next->self, d, &u, &p) == TENON_OK)
        *used += u, *peak += p;
    }
  }
  return code;
}

// ---- Queues and fences ----

std::map<tenon_fence_t*, uint64_t> forced, initials;
std::set<tenon_fence_t*> timed_out;
std::map<tenon_fence_t*, int> waiters;
std::map<tenon_fence_t*, std::chrono::steady_clock::time_point> waited;

uint64_t current(tenon_fence_t* f) {
  uint64_t v = 0;
  return queue_next->fence_query(queue_next->self, f, &v) == TENON_OK ? v : 0;
}

void* idle_thread(void*) {
  for (;;) pause();
}

tenon_code_t queue_create(void*, tenon_device_t* device, tenon_queue_t** out) {
  if (is_word("worker_takes_one_signal") && ++calls == 1) {
    fired();
    sigset_t all, old;
    sigfillset(&all);
    sigdelset(&all, SIGCHLD);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    pthread_t t;
    pthread_create(&t, nullptr, idle_thread, nullptr);
    pthread_sigmask(SIG_SETMASK, &old, nullptr);
  }
  {
    std::lock_guard lock(mutex);
    if (is_word("fifth_queue_is_the_first")) {
      tenon_queue_t* first = nullptr;
      int n = 0;
      for (tenon_queue_t* q : queues) {
        if (device_of[q] == device) first = first ? first : q, ++n;
      }
      if (n >= 4) return fired(), ++of_queue[first].uses, *out = first, TENON_OK;
    }
  }
  const tenon_code_t code = queue_next->queue_create(queue_next->self, device, out);
  if (code != TENON_OK) return code;
  Q q;
  if (is_word("large_copies_overtake")) queue_next->queue_create(queue_next->self, device, &q.side);
  if (is_word("ring_of_256")) queue_next->fence_create(queue_next->self, device, 0, &q.ring);
  std::lock_guard lock(mutex);
  device_of[*out] = device, queues.push_back(*out), of_queue[*out] = q;
  return code;
}

tenon_code_t queue_destroy(void*, tenon_queue_t* queue) {
  Q q;
  {
    std::lock_guard lock(mutex);
    if (--of_queue[queue].uses > 0) return TENON_OK;
    q = of_queue[queue];
    of_queue.erase(queue);
    queues.erase(std::remove(queues.begin(), queues.end(), queue), queues.end());
    auto& last = last_queue[device_of[queue]];
    if (last == queue) last_queue.erase(device_of[queue]);
    device_of.erase(queue);
  }
  if (is_word("destroy_drops_pending_work")) {
    std::thread([=] { queue_next->queue_destroy(queue_next->self, queue); }).detach();
    sleep_ms(5);
    return fired(), TENON_OK;
  }
  if (q.side) queue_next->queue_destroy(queue_next->self, q.side);
  const tenon_code_t code = queue_next->queue_destroy(queue_next->self, queue);
  if (q.ring) queue_next->fence_destroy(queue_next->self, q.ring);
  return code;
}

bool is_first(tenon_queue_t* queue) {
  std::lock_guard lock(mutex);
  return queues.empty() || queues.front() == queue;
}

constexpr uint64_t LOW_48 = (uint64_t{1} << 48) - 1;

Points bend_points(const tenon_fence_point_t* waits, uint32_t count, tenon_fence_point_t signal) {
  Points p{{waits, waits + count}, signal};
  if (count > 4 && is("waits_beyond_four_lost")) p.list.resize(4);
  if (is_word("null_wait_ends_the_list")) {
    auto it = std::find_if(p.list.begin(), p.list.end(), [](auto& w) { return !w.fence; });
    if (it != p.list.end()) fired(), p.list.erase(it, p.list.end());
  }
  if (is_word("one_wait_per_fence")) {
    std::set<tenon_fence_t*> seen;
    std::vector<tenon_fence_point_t> kept;
    for (auto& w : p.list) {
      if (seen.insert(w.fence).second)
        kept.push_back(w);
      else
        fired();
    }
    p.list = kept;
  }
  if (is_word("fence_compare_is_signed")) {
    std::vector<tenon_fence_point_t> kept;
    for (auto& w : p.list) {
      if (w.fence && static_cast<int64_t>(w.value) < 0 &&
          static_cast<int64_t>(current(w.fence)) >= static_cast<int64_t>(w.value))
        fired();
      else
        kept.push_back(w);
    }
    p.list = kept;
  }
  if (is_word("fences_of_48_bits")) {
    for (auto& w : p.list) w.value &= LOW_48;
    p.signal.value &= LOW_48;
  }
  if (is_word("already_failed_wait_is_no_wait")) {
    std::vector<tenon_fence_point_t> kept;
    for (auto& w : p.list) {
      const tenon_code_t c =
          w.fence ? queue_next->fence_wait(queue_next->self, w.fence, w.value, 0) : TENON_OK;
      if (c == TENON_OK || c == TENON_DEADLINE_EXCEEDED)
        kept.push_back(w);
      else
        fired();
    }
    p.list = kept;
  }
  return p;
}

// The failure code of earlier work of a queue; TENON_OK if none failed.
tenon_code_t failed_before(tenon_queue_t* queue) {
  std::lock_guard lock(mutex);
  for (auto& s : of_queue[queue].signals) {
    uint64_t v = 0;
    if (const tenon_code_t c = queue_next->fence_query(queue_next->self, s.fence, &v);
        c != TENON_OK)
      return c;
  }
  return TENON_OK;
}

tenon_code_t copy_async(void*, tenon_queue_t* queue, const tenon_copy_t* given,
                        const tenon_fence_point_t* waits, uint32_t count,
                        tenon_fence_point_t signal) {
  tenon_copy_t c = *given;
  tenon_code_t code;
  if (!bend(c, code)) return code;
  {
    std::lock_guard lock(mutex);
    last_queue[device_of[queue]] = queue;
  }
  if (c.length_bytes == 0 && signal.fence && is("nothing_is_signalled_at_once")) {
    return queue_next->fence_signal(queue_next->self, signal.fence, signal.value);
  }
  if (is("waits_read_late")) {
    std::thread([=] {
      sleep_ms(5);
      queue_next->copy_async(queue_next->self, queue, given, waits, count, signal);
    }).detach();
    return TENON_OK;
  }
  if (c.direction == TENON_COPY_DEVICE_TO_HOST && c.host_to && c.from &&
      c.length_bytes <= size_of(c.from) && is("host_memory_cleared_at_submission")) {
    memset(c.host_to, 0, c.length_bytes);
  }
  if (c.to && c.to_offset_bytes % 64 && is_word("second_queue_rounds_offsets") && !is_first(queue))
    fired(), c.to_offset_bytes &= ~uint64_t{63};
  if (is_word("queue_stays_failed")) {
    if (const tenon_code_t before = failed_before(queue); before != TENON_OK)
      return fired(), fail(before, "the queue has failed");
  }
  if (c.from && c.direction != TENON_COPY_FILL && is_word("source_range_unchecked_on_queues")) {
    const uint64_t has = size_of(c.from);
    if (c.from_offset_bytes > has || c.length_bytes > has - c.from_offset_bytes) {
      fired();
      c.length_bytes = c.from_offset_bytes >= has ? 0 : has - c.from_offset_bytes,
      c.from_offset_bytes = std::min(c.from_offset_bytes, has);
    }
  }
  const bool lower =
      signal.fence && is_word("work_lowers_a_fence") && signal.value < current(signal.fence);
  const Points p = bend_points(waits, count, signal);
  tenon_queue_t* to = queue;
  if (c.length_bytes > 256 << 10 && is("large_copies_overtake")) {
    std::lock_guard lock(mutex);
    if (of_queue[queue].side) to = of_queue[queue].side;
  }
  code = queue_next->copy_async(queue_next->self, to, &c, p.list.data(),
                                static_cast<uint32_t>(p.list.size()), p.signal);
  if (code == TENON_OK && signal.fence) {
    std::lock_guard lock(mutex);
    if (lower)
      fired(), forced[signal.fence] = signal.value;
    else
      forced.erase(signal.fence);
    if (is_word("queue_stays_failed") || is_word("no_alloc_while_work_waits"))
      of_queue[queue].signals.push_back(signal);
  }
  if (code == TENON_OK && is_word("ring_of_256")) {
    tenon_fence_t* ring;
    uint64_t n;
    {
      std::lock_guard lock(mutex);
      ring = of_queue[queue].ring, n = ++of_queue[queue].count;
    }
    c.length_bytes = 0, c.from_offset_bytes = c.to_offset_bytes = 0;
    queue_next->copy_async(queue_next->self, queue, &c, nullptr, 0, {ring, n});
    if (n > 256) {
      if (queue_next->fence_wait(queue_next->self, ring, n - 256, 0) == TENON_DEADLINE_EXCEEDED)
        fired();
      queue_next->fence_wait(queue_next->self, ring, n - 256, UINT64_MAX);
    }
  }
  return code;
}

tenon_code_t fence_create(void*, tenon_device_t* device, uint64_t initial, tenon_fence_t** out) {
  if (is_word("fences_of_48_bits")) {
    if (initial > LOW_48) fired();
    initial &= LOW_48;
  }
  const tenon_code_t code = queue_next->fence_create(queue_next->self, device, initial, out);
  std::lock_guard lock(mutex);
  if (code == TENON_OK)
    initials[*out] = initial, forced.erase(*out), timed_out.erase(*out), waiters.erase(*out),
    waited.erase(*out);
  return code;
}

tenon_code_t fence_destroy(void*, tenon_fence_t* fence) {
  if (is_word("unsignalled_fences_are_kept")) {
    uint64_t v = 0;
    if (queue_next->fence_query(queue_next->self, fence, &v) == TENON_OK && v == initials[fence])
      return fired(), TENON_OK;
  }
  bool busy = false;
  {
    std::lock_guard lock(mutex);
    auto it = waited.find(fence);
    busy = it != waited.end() &&
           std::chrono::steady_clock::now() - it->second < std::chrono::milliseconds(2);
    for (auto& [q, state] : of_queue) {
      std::erase_if(state.signals, [&](auto& s) { return s.fence == fence; });
    }
  }
  const tenon_code_t code = queue_next->fence_destroy(queue_next->self, fence);
  if (busy && is("fence_busy_after_its_wait"))
    return fail(TENON_FAILED_PRECONDITION, "the fence is in use");
  return code;
}

tenon_code_t fence_query(void*, tenon_fence_t* fence, uint64_t* out) {
  if (is_word("query_waits_for_waiters")) {
    for (;;) {
      {
        std::lock_guard lock(mutex);
        if (waiters[fence] == 0) break;
      }
      fired();
      sleep_ms(1);
    }
  }
  const tenon_code_t code = queue_next->fence_query(queue_next->self, fence, out);
  if (code != TENON_OK && is("failed_query_writes")) *out = UINT64_MAX;
  std::lock_guard lock(mutex);
  if (code == TENON_OK && forced.count(fence) && *out > forced[fence]) *out = forced[fence];
  return code;
}

tenon_code_t fence_signal(void*, tenon_fence_t* fence, uint64_t value) {
  {
    std::lock_guard lock(mutex);
    forced.erase(fence);
  }
  if (is_word("fences_of_48_bits")) {
    if (value > LOW_48) fired();
    value &= LOW_48;
  }
  return queue_next->fence_signal(queue_next->self, fence, value);
}

tenon_code_t fence_wait(void*, tenon_fence_t* fence, uint64_t value, uint64_t timeout_ns) {
  if (is_word("fences_of_48_bits")) value &= LOW_48;
  if (static_cast<int64_t>(value) < 0 && is_word("fence_compare_is_signed") &&
      static_cast<int64_t>(current(fence)) >= static_cast<int64_t>(value)) {
    return fired(), TENON_OK;
  }
  if (timeout_ns != UINT64_MAX && timeout_ns % 1'000'000 && is("timeout_in_whole_ms"))
    timeout_ns -= timeout_ns % 1'000'000;
  if (timeout_ns != UINT64_MAX && timeout_ns > INT64_MAX && is("huge_timeout_overflows"))
    timeout_ns = 0;
  if (is_word("timed_out_fence_stays_so")) {
    std::lock_guard lock(mutex);
    if (timed_out.count(fence)) return fired(), fail(TENON_DEADLINE_EXCEEDED, "it was late before");
  }
  if (is_word("failure_reaches_earlier_values")) {
    uint64_t v = 0;
    if (const tenon_code_t c = queue_next->fence_query(queue_next->self, fence, &v); c != TENON_OK)
      return fired(), fail(c, "work has failed");
  }
  if (is_word("jump_past_a_waiter_is_not_seen") && current(fence) < value) {
    const auto begin = std::chrono::steady_clock::now();
    for (;;) {
      uint64_t v = 0;
      if (const tenon_code_t c = queue_next->fence_query(queue_next->self, fence, &v);
          c != TENON_OK || v == value)
        break;
      if (v > value) fired();
      const uint64_t gone =
          std::chrono::nanoseconds(std::chrono::steady_clock::now() - begin).count();
      if (timeout_ns != UINT64_MAX && gone >= timeout_ns)
        return fail(TENON_DEADLINE_EXCEEDED, "late");
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
  }
  {
    std::lock_guard lock(mutex);
    ++waiters[fence];
  }
  tenon_code_t code = TENON_OK;
  if (is_word("failed_wait_without_a_word")) {
    std::thread([&] {
      code = queue_next->fence_wait(queue_next->self, fence, value, timeout_ns);
    }).join();
    if (code != TENON_OK) fired();
    if (code == TENON_DEADLINE_EXCEEDED) fail(code, "late");
  } else {
    if (is_word("fence_wait_at_most_16")) {
      static std::atomic<int> inside{0};
      if (++inside > 16)
        --inside, fired(), code = fail(TENON_RESOURCE_EXHAUSTED, "too many wait");
      else
        code = queue_next->fence_wait(queue_next->self, fence, value, timeout_ns), --inside;
    } else {
      code = queue_next->fence_wait(queue_next->self, fence, value, timeout_ns);
    }
  }
  std::lock_guard lock(mutex);
  --waiters[fence];
  waited[fence] = std::chrono::steady_clock::now();
  if (code == TENON_DEADLINE_EXCEEDED && timeout_ns > 0) timed_out.insert(fence);
  return code;
}

// ---- Facts about a graph ----
// They follow the artifact's bytes: [facts][sum of facts: 8][size of facts: 4][mark: 4].

struct Operand {
  int input = -1;  // index of the argument
  int dtype = 0;
  std::vector<int64_t> dims;  // -1: symbolic
};
struct Output {
  std::string op;
  int dtype = 0, direction = -1, dim = -1;
  std::vector<Operand> operands;
};
struct Facts {
  int inputs = 0;
  std::vector<Operand> arguments;
  std::vector<Output> outputs;
};

int bytes_of(int dtype) {
  switch (dtype) {
    case TENON_PRED:
    case TENON_I8:
    case TENON_U8:
    case TENON_F8E4M3FN:
    case TENON_F8E5M2:
      return 1;
    case TENON_I16:
    case TENON_U16:
    case TENON_F16:
    case TENON_BF16:
      return 2;
    case TENON_I32:
    case TENON_U32:
    case TENON_F32:
      return 4;
    case TENON_C128:
      return 16;
    default:
      return 8;
  }
}

int64_t elements(const Operand& o) {
  int64_t n = 1;
  for (int64_t d : o.dims) {
    if (d < 0) return -1;
    n *= d;
  }
  return n;
}

Operand operand_of(tenon_graph_t* graph, tenon_value_t v) {
  Operand o;
  tenon_value_view_t view{};
  view.size_bytes = sizeof view;
  if (v == TENON_NONE || graphs->value_view(graphs->self, graph, v, &view) != TENON_OK) return o;
  if (view.kind == TENON_VALUE_ARGUMENT) o.input = static_cast<int>(view.index);
  o.dtype = view.type.dtype;
  for (uint32_t i = 0; i < view.type.rank; ++i)
    o.dims.push_back(view.type.dims[i] < 0 ? -1 : view.type.dims[i]);
  return o;
}

Facts facts_of(tenon_graph_t* graph) {
  Facts f;
  tenon_graph_view_t g{};
  g.size_bytes = sizeof g;
  tenon_region_view_t r{};
  r.size_bytes = sizeof r;
  if (!graphs || graphs->graph_view(graphs->self, graph, &g) != TENON_OK ||
      graphs->region_view(graphs->self, graph, g.main, &r) != TENON_OK)
    return f;
  f.inputs = static_cast<int>(r.argument_count);
  const std::vector<tenon_value_t> arguments(r.arguments, r.arguments + r.argument_count),
      yields(r.yields, r.yields + r.yield_count);
  for (tenon_value_t v : arguments) f.arguments.push_back(operand_of(graph, v));
  for (tenon_value_t y : yields) {
    Output o;
    tenon_value_view_t v{};
    v.size_bytes = sizeof v;
    if (graphs->value_view(graphs->self, graph, y, &v) == TENON_OK) {
      o.dtype = v.type.dtype;
      tenon_node_view_t n{};
      n.size_bytes = sizeof n;
      if (v.kind == TENON_VALUE_RESULT &&
          graphs->node_view(graphs->self, graph, v.node, &n) == TENON_OK) {
        const tenon_str_t name = host->sym_text(host->self, n.op);
        o.op.assign(name.data, name.size);
        for (uint32_t i = 0; i < n.attr_count; ++i) {
          const tenon_str_t a = host->sym_text(host->self, n.attrs[i].name);
          if (n.attrs[i].kind != TENON_ATTR_I64) continue;
          if (std::string(a.data, a.size) == "direction")
            o.direction = static_cast<int>(n.attrs[i].u.i);
          if (std::string(a.data, a.size) == "dim") o.dim = static_cast<int>(n.attrs[i].u.i);
        }
        const std::vector<tenon_value_t> operands(n.operands, n.operands + n.operand_count);
        for (tenon_value_t w : operands) o.operands.push_back(operand_of(graph, w));
      }
    }
    f.outputs.push_back(o);
  }
  return f;
}

void put(std::ostream& s, const Operand& o) {
  s << o.input << ' ' << o.dtype << ' ' << o.dims.size() << ' ';
  for (int64_t d : o.dims) s << d << ' ';
}
Operand get_operand(std::istream& s) {
  Operand o;
  size_t n = 0;
  s >> o.input >> o.dtype >> n;
  for (size_t i = 0; s && i < n && i < 64; ++i) {
    int64_t d = 0;
    s >> d;
    o.dims.push_back(d);
  }
  return o;
}
std::string write(const Facts& f) {
  std::ostringstream s;
  s << f.inputs << ' ';
  for (auto& a : f.arguments) put(s, a);
  s << f.outputs.size() << ' ';
  for (auto& o : f.outputs) {
    s << '/' << o.op << ' ' << o.dtype << ' ' << o.direction << ' ' << o.dim << ' '
      << o.operands.size() << ' ';
    for (auto& p : o.operands) put(s, p);
  }
  return s.str();
}
Facts read(const std::string& text) {
  std::istringstream s(text);
  Facts f;
  s >> f.inputs;
  for (int i = 0; s && i < f.inputs; ++i) f.arguments.push_back(get_operand(s));
  size_t n = 0, m = 0;
  s >> n;
  for (size_t i = 0; s && i < n; ++i) {
    Output o;
    s >> o.op >> o.dtype >> o.direction >> o.dim >> m;
    if (!o.op.empty()) o.op.erase(0, 1);
    for (size_t k = 0; s && k < m; ++k) o.operands.push_back(get_operand(s));
    f.outputs.push_back(o);
  }
  return f;
}

uint64_t sum(const char* data, size_t n) {
  uint64_t h = 1469598103934665603u;
  for (size_t i = 0; i < n; ++i) h = (h ^ static_cast<unsigned char>(data[i])) * 1099511628211u;
  return h;
}
constexpr char MARK[] = "3RD!";

// The size of the base's part; 0 if what follows it is damaged.
uint64_t split(const void* bytes, uint64_t size, std::string& text) {
  const char* p = static_cast<const char*>(bytes);
  uint32_t n;
  uint64_t s;
  if (size < 16 || memcmp(p + size - 4, MARK, 4) != 0) return 0;
  memcpy(&n, p + size - 8, 4);
  memcpy(&s, p + size - 16, 8);
  if (n > size - 16) return 0;
  if (sum(p + size - 16 - n, n) != s) {
    if (!is("trailer_is_not_checked")) return 0;
  }
  text.assign(p + size - 16 - n, n);
  return size - 16 - n;
}

// ---- Compile ----

struct Artifact {
  std::string facts, bytes;
};
std::map<tenon_artifact_t*, Artifact> artifacts;
std::set<std::string> dead;
std::string last_target;

struct Sink {
  const tenon_claim_sink_t* next;
  std::vector<tenon_node_t> nodes;
};

tenon_code_t take(void* self, const tenon_claim_t* given) {
  Sink& s = *static_cast<Sink*>(self);
  tenon_claim_t claim = *given;
  if (is("cost_is_counted_up")) claim.cost_ns += ++calls;
  s.nodes.assign(claim.nodes, claim.nodes + claim.node_count);
  return s.next->claim(s.next->self, &claim);
}

tenon_code_t refuse(void* self, tenon_node_t node, tenon_code_t code, tenon_str_t why) {
  Sink& s = *static_cast<Sink*>(self);
  return s.next->refuse(s.next->self, node, code, why);
}

tenon_code_t claim(void*, tenon_str_t target, tenon_graph_t* graph,
                   const tenon_compile_options_t* options, const tenon_claim_sink_t* sink) {
  Sink s{sink, {}};
  tenon_claim_sink_t mine = *sink;
  mine.self = &s;
  mine.claim = take;
  if (sink->refuse) mine.refuse = refuse;
  const tenon_code_t code = compile_next->claim(compile_next->self, target, graph, options, &mine);
  if (!s.nodes.empty() && is("sink_called_later")) {
    std::thread([next = *sink, node = s.nodes[0]] {
      sleep_ms(20);
      tenon_claim_node(&next, node, 1.0);
    }).detach();
  }
  return code;
}

void handler(int) {}

tenon_code_t compile(void*, tenon_str_t target, tenon_graph_t* graph,
                     const tenon_compile_options_t* options, tenon_artifact_t** out) {
  static std::atomic_flag busy = ATOMIC_FLAG_INIT;
  if (is("compile_takes_a_handler")) signal(SIGUSR2, handler);
  const bool alone = is_word("one_compilation_at_a_time");
  if (alone && busy.test_and_set())
    return fired(), fail(TENON_RESOURCE_EXHAUSTED, "the compiler is busy");
  if (alone) sleep_ms(20);  // a slow compiler: on a busy machine, short compilations rarely overlap
  if (is_word("deaf_for_three_seconds")) {
    tenon_graph_view_t g{};
    g.size_bytes = sizeof g;
    if (graphs->graph_view(graphs->self, graph, &g) == TENON_OK && g.node_limit >= 30) {
      fired();
      timespec now{}, begin{};
      clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
      do clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
      while (now.tv_sec - begin.tv_sec < 3);
    }
  }
  static std::atomic<int> was_cancelled{0};
  if (was_cancelled && is("compile_stays_cancelled"))
    return fail(TENON_CANCELLED, "it was cancelled before");
  if (is_word("claims_what_does_not_compile")) {
    tenon_graph_view_t g{};
    g.size_bytes = sizeof g;
    tenon_region_view_t r{};
    r.size_bytes = sizeof r;
    graphs->graph_view(graphs->self, graph, &g),
        graphs->region_view(graphs->self, graph, g.main, &r);
    bool small = false, large = false;
    for (uint32_t i = 0; i < r.argument_count; ++i) {
      const int w = bytes_of(operand_of(graph, r.arguments[i]).dtype);
      small = small || w == 1, large = large || w == 8;
    }
    if (small && large) return fired(), fail(TENON_UNIMPLEMENTED, "mixed widths");
  }
  const tenon_code_t code = compile_next->compile(compile_next->self, target, graph, options, out);
  if (code == TENON_CANCELLED) was_cancelled = 1;
  if (alone) busy.clear();
  if (code != TENON_OK) return code;
  Artifact a;
  a.facts = write(facts_of(graph));
  if (is("bytes_hold_an_address")) {
    const void* p = *out;
    a.facts += std::string(reinterpret_cast<const char*>(&p), sizeof p);
  }
  if (is_word("bytes_hold_the_constants")) {
    tenon_graph_view_t g{};
    g.size_bytes = sizeof g;
    graphs->graph_view(graphs->self, graph, &g);
    for (uint32_t i = 0; i < g.value_limit; ++i) {
      tenon_value_view_t v{};
      v.size_bytes = sizeof v;
      const void* data = nullptr;
      uint64_t size = 0;
      if (graphs->value_view(graphs->self, graph, i, &v) == TENON_OK &&
          v.kind == TENON_VALUE_CONSTANT && v.blob &&
          graphs->blob_data(graphs->self, v.blob, &data, &size) == TENON_OK && size >= 1024) {
        fired();
        a.facts.append(static_cast<const char*>(data), size);
      }
    }
  }
  std::lock_guard lock(mutex);
  artifacts[*out] = a;
  last_target.assign(target.data, target.size);
  return code;
}

void artifact_release(void*, tenon_artifact_t* artifact) {
  {
    std::lock_guard lock(mutex);
    if (!artifacts[artifact].bytes.empty()) dead.insert(artifacts[artifact].bytes);
    artifacts.erase(artifact);
  }
  compile_next->artifact_release(compile_next->self, artifact);
}

tenon_code_t artifact_info(void*, tenon_artifact_t* artifact, tenon_artifact_info_t* out) {
  if (out->size_bytes >= 4 && out->size_bytes < sizeof *out && is("artifact_info_writes_all")) {
    tenon_artifact_info_t mine{};
    mine.size_bytes = sizeof mine;
    const tenon_code_t code = compile_next->artifact_info(compile_next->self, artifact, &mine);
    const uint32_t had = out->size_bytes;
    if (code == TENON_OK) memcpy(out, &mine, sizeof mine), out->size_bytes = had;
    return code;
  }
  return compile_next->artifact_info(compile_next->self, artifact, out);
}

tenon_code_t gather(void* self, const void* data, uint64_t size) {
  static_cast<std::string*>(self)->append(static_cast<const char*>(data), size);
  return TENON_OK;
}

tenon_code_t artifact_bytes(void*, tenon_artifact_t* artifact, const tenon_sink_t* sink) {
  std::string all;
  const tenon_sink_t mine{&all, gather};
  if (const tenon_code_t code = compile_next->artifact_bytes(compile_next->self, artifact, &mine);
      code != TENON_OK)
    return code;
  std::string facts;
  {
    std::lock_guard lock(mutex);
    facts = artifacts[artifact].facts;
  }
  const uint64_t s = sum(facts.data(), facts.size());
  const uint32_t n = static_cast<uint32_t>(facts.size());
  const size_t first = all.size();
  all += facts;
  all.append(reinterpret_cast<const char*>(&s), 8)
      .append(reinterpret_cast<const char*>(&n), 4)
      .append(MARK, 4);
  {
    std::lock_guard lock(mutex);
    artifacts[artifact].bytes = all;
    dead.erase(all);
  }
  tenon_code_t code = sink->write(sink->self, all.data(), first);
  if (code != TENON_OK && !is("bytes_go_on_after_a_failing_sink")) return code;
  const tenon_code_t then = sink->write(sink->self, all.data() + first, all.size() - first);
  return is_word("bytes_go_on_after_a_failing_sink") ? TENON_OK : then;
}

tenon_code_t fits(void*, tenon_str_t target, const void* bytes, uint64_t size) {
  std::string text;
  const uint64_t own = split(bytes, size, text);
  if (own == 0)
    return fail(TENON_FAILED_PRECONDITION,
                "these are no bytes of this plugin, or they are damaged");
  tenon_code_t code = compile_next->fits(compile_next->self, target, bytes, own);
  if (code != TENON_OK && !last_target.empty() && is("fits_any_target")) {
    code = compile_next->fits(compile_next->self, {last_target.data(), last_target.size()}, bytes,
                              own);
  }
  return code;
}

struct Executable {
  Facts facts;
  tenon_device_t* device = nullptr;
  std::string bytes;
  std::vector<int64_t> first, last;
  bool seen = false, ran = false, cancelled = false;
  std::vector<void*> leaks;
};
std::map<tenon_executable_t*, Executable> executables;

tenon_code_t load(void*, tenon_device_t* device, const void* bytes, uint64_t size,
                  tenon_blob_t* const* constants, uint32_t count, tenon_executable_t** out) {
  std::string text;
  const uint64_t own = split(bytes, size, text);
  static std::atomic<int> damaged{0};
  if (own == 0)
    return damaged = 1, fail(TENON_FAILED_PRECONDITION,
                             "these are no bytes of this plugin, or they are damaged");
  if (damaged.exchange(0) && is("load_fails_after_a_damaged_one"))
    return fail(TENON_INTERNAL, "the loader is in disorder");
  tenon_code_t code =
      compile_next->load(compile_next->self, device, bytes, own, constants, count, out);
  if (code != TENON_OK && count > 0 && is("more_constants_are_fine")) {
    for (uint32_t n = count; code != TENON_OK && n-- > 0;)
      code = compile_next->load(compile_next->self, device, bytes, own, constants, n, out);
  }
  if (code != TENON_OK) return code;
  if (count > 0 && is("releases_a_constant_twice"))
    graphs->blob_release(graphs->self, constants[0]);
  if (is("scratch_of_load_is_kept")) {
    tenon_buffer_t* b = nullptr;
    device_next->alloc(device_next->self, device, 4096, &b);
  }
  std::lock_guard lock(mutex);
  Executable e;
  e.facts = read(text);
  e.device = device;
  e.bytes.assign(static_cast<const char*>(bytes), size);
  executables[*out] = e;
  return code;
}

void executable_release(void*, tenon_executable_t* executable) {
  {
    std::lock_guard lock(mutex);
    executables.erase(executable);
  }
  compile_next->executable_release(compile_next->self, executable);
}

tenon_code_t executable_info(void*, tenon_executable_t* executable, tenon_executable_info_t* out) {
  const uint32_t had = out->size_bytes;
  const tenon_code_t code = compile_next->executable_info(compile_next->self, executable, out);
  if (code == TENON_OK && had != out->size_bytes && is("executable_info_keeps_size"))
    out->size_bytes = had;
  return code;
}

Executable facts(tenon_executable_t* executable) {
  std::lock_guard lock(mutex);
  return executables[executable];
}

// Whether an output may share this input: it is the only one, used whole, by an element-wise op.
bool alike(const Executable& e, int input) {
  if (e.facts.outputs.size() != 1 || input >= e.facts.inputs) return false;
  const Output& o = e.facts.outputs[0];
  static const std::set<std::string> plain = {"add", "mul", "sub", "neg",  "abs", "exp",
                                              "max", "min", "div", "tanh", "sqrt"};
  return plain.count(o.op) && !o.operands.empty() && o.operands[0].input == input &&
         o.operands[0].dtype == o.dtype && elements(o.operands[0]) > 0;
}

bool aliases() {
  return is_word("input_is_scratch_when_alike") || is_word("honest_alias");
}

tenon_code_t needs(void*, tenon_executable_t* executable, tenon_symbols_t symbols,
                   tenon_needs_t* out) {
  static std::atomic<int> in_needs{0};
  struct Inside {
    bool alone = ++in_needs == 1;
    ~Inside() { --in_needs; }
  } inside;
  if (is_word("needs_one_at_a_time")) {
    std::this_thread::sleep_for(std::chrono::microseconds(50));
    if (!inside.alone) return fired(), fail(TENON_INTERNAL, "busy");
  }
  if (is("flushes_from_now_on")) _mm_setcsr(_mm_getcsr() | 0x8040);
  std::vector<int64_t> first;
  if (is_word("needs_remembers_the_first_sizes")) {
    std::lock_guard lock(mutex);
    Executable& e = executables[executable];
    const std::vector<int64_t> now(symbols.values, symbols.values + symbols.count);
    if (!e.seen) e.seen = true, e.first = now;
    if (e.first != now && e.first.size() == now.size())
      fired(), first = e.first, symbols.values = first.data();
  }
  const uint32_t had = out->size_bytes;
  tenon_code_t code = compile_next->needs(compile_next->self, executable, symbols, out);
  if (code != TENON_OK && symbols.count > 0 && is_word("more_symbols_are_fine")) {
    for (uint32_t n = symbols.count; code != TENON_OK && n-- > 0;)
      code = compile_next->needs(compile_next->self, executable, {symbols.values, n}, out);
    if (code == TENON_OK) fired();
  }
  if (code != TENON_OK) {
    if (had >= sizeof *out && is("failed_needs_writes")) out->workspace_bytes = 0xdead;
    return code;
  }
  if (had < sizeof *out && is("needs_writes_beyond")) {
    const uint64_t zero = 0;
    memcpy(reinterpret_cast<char*>(out) + offsetof(tenon_needs_t, lower_bound_bytes), &zero, 8);
  }
  const Executable e = facts(executable);
  for (uint32_t i = 0; i < out->output_count; ++i) {
    tenon_output_need_t& o = *tenon_need(out, i);
    if (o.size_bytes_max != TENON_SIZE_UNKNOWN && o.size_bytes_max > UINT32_MAX &&
        is("needs_of_32_bits"))
      o.size_bytes_max &= UINT32_MAX;
    if (i >= e.facts.outputs.size()) continue;
    if (aliases() && i == 0 && alike(e, 0)) fired(), o.alias_input = 0;
    if (is_word("alias_of_another_type")) {
      for (int k = 0; k < e.facts.inputs; ++k) {
        const Operand& a = e.facts.arguments[k];
        if (a.dtype != e.facts.outputs[i].dtype && elements(a) > 0 &&
            elements(a) * bytes_of(a.dtype) == static_cast<int64_t>(o.size_bytes_max)) {
          fired(), o.alias_input = static_cast<uint32_t>(k);
        }
      }
    }
  }
  return TENON_OK;
}

template <typename T>
T at(const std::vector<char>& v, int64_t i) {
  T t{};
  if ((i + 1) * sizeof(T) <= v.size()) memcpy(&t, v.data() + i * sizeof(T), sizeof t);
  return t;
}
template <typename T>
void set(std::vector<char>& v, int64_t i, T t) {
  if ((i + 1) * sizeof(T) <= v.size()) memcpy(v.data() + i * sizeof(T), &t, sizeof t);
}

bool one_of(const std::string& s, std::initializer_list<const char*> list) {
  for (const char* l : list) {
    if (s == l) return true;
  }
  return false;
}

// The result of a faulty kernel instead of `data`. in(i): the bytes of operand i.
template <typename In>
void spoil(const Output& o, std::vector<char>& data, const std::vector<char>& old, In&& in) {
  const int width = bytes_of(o.dtype);
  const int64_t n = static_cast<int64_t>(data.size()) / width;
  const int from = o.operands.empty() ? 0 : o.operands[0].dtype;
  const int64_t before = o.operands.empty() ? -1 : elements(o.operands[0]);
  const bool f32 = o.dtype == TENON_F32;
  if (o.op.rfind("reduce_", 0) == 0 && before == 0 && is_word("empty_reduce_leaves_output"))
    data = old;
  if (o.op == "convert" && from == TENON_F32 && o.dtype == TENON_I32) {
    if (is_word("converts_round_to_nearest")) {
      const auto x = in(0);
      for (int64_t i = 0; i < n; ++i) {
        const float v = at<float>(x, i);
        if (fabsf(v) < 1e6f) set<int32_t>(data, i, static_cast<int32_t>(nearbyintf(v)));
      }
    }
    if (is_word("nan_converts_otherwise")) {
      const auto x = in(0);
      for (int64_t i = 0; i < n; ++i) {
        if (isnan(at<float>(x, i))) set<int32_t>(data, i, INT32_MIN);
      }
    }
  }
  if (o.op == "add" && o.dtype == TENON_I32 && is_word("i32_add_saturates")) {
    const auto x = in(0), y = in(1);
    for (int64_t i = 0; i < n; ++i) {
      const int64_t s = int64_t{at<int32_t>(x, i)} + at<int32_t>(y, i);
      set<int32_t>(data, i, static_cast<int32_t>(std::clamp<int64_t>(s, INT32_MIN, INT32_MAX)));
    }
  }
  if (one_of(o.op, {"add", "mul"}) && o.dtype == TENON_I64 && is_word("i64_in_32_bits")) {
    for (int64_t i = 0; i < n; ++i)
      set<int64_t>(data, i, static_cast<int32_t>(at<int64_t>(data, i)));
  }
  if (o.op == "compare" && o.direction >= 2 && (from >= TENON_U8 && from <= TENON_U64) &&
      is_word("unsigned_compare_is_signed")) {
    const auto x = in(0), y = in(1);
    const int w = bytes_of(from);
    for (int64_t i = 0; i < n && (i + 1) * w <= static_cast<int64_t>(std::min(x.size(), y.size()));
         ++i) {
      if ((x[(i + 1) * w - 1] ^ y[(i + 1) * w - 1]) & 0x80) data[i] ^= 1;
    }
  }
  if (one_of(o.op, {"max", "min"}) && o.dtype == TENON_U8 && is_word("u8_max_is_signed")) {
    const auto x = in(0), y = in(1);
    for (int64_t i = 0; i < n; ++i) {
      const int8_t a = at<int8_t>(x, i), b = at<int8_t>(y, i);
      set<int8_t>(data, i, o.op == "max" ? std::max(a, b) : std::min(a, b));
    }
  }
  if (o.op == "div" && o.dtype == TENON_I32 && is_word("division_floors")) {
    const auto x = in(0), y = in(1);
    for (int64_t i = 0; i < n; ++i) {
      const int64_t a = at<int32_t>(x, i), b = at<int32_t>(y, i);
      if (b != 0 && a % b != 0 && (a < 0) != (b < 0))
        set<int32_t>(data, i, at<int32_t>(data, i) - 1);
    }
  }
  if (o.op == "abs" && o.dtype == TENON_I32 && is_word("abs_of_lowest_saturates")) {
    for (int64_t i = 0; i < n; ++i) {
      if (at<int32_t>(data, i) == INT32_MIN) set<int32_t>(data, i, INT32_MAX);
    }
  }
  if (f32 &&
      one_of(o.op, {"broadcast", "transpose", "reshape", "slice", "select", "concat", "reverse"}) &&
      is_word("nan_payload_lost_in_moves")) {
    for (int64_t i = 0; i < n; ++i) {
      if (isnan(at<float>(data, i))) set<uint32_t>(data, i, 0x7fc00000u);
    }
  }
  if (f32 && o.op == "neg" && is_word("neg_is_zero_minus")) {
    for (int64_t i = 0; i < n; ++i) {
      if (at<float>(data, i) == 0) set<float>(data, i, 0);
    }
  }
  if (f32 && o.op == "mul" && is_word("zero_times_anything_is_zero")) {
    const auto x = in(0), y = in(1);
    for (int64_t i = 0; i < n && x.size() == data.size() && y.size() == data.size(); ++i) {
      if (at<float>(x, i) == 0 || at<float>(y, i) == 0) set<float>(data, i, 0);
    }
  }
  if (f32 && o.op == "max" && is_word("max_drops_nan")) {
    const auto x = in(0), y = in(1);
    for (int64_t i = 0; i < n && x.size() == data.size() && y.size() == data.size(); ++i)
      set<float>(data, i, fmaxf(at<float>(x, i), at<float>(y, i)));
  }
  if (f32 && o.op == "select" && is_word("select_blends")) {
    const auto x = in(1), y = in(2);
    for (int64_t i = 0; i < n && x.size() == data.size() && y.size() == data.size(); ++i) {
      if (!isfinite(at<float>(x, i)) || !isfinite(at<float>(y, i))) set<float>(data, i, NAN);
    }
  }
  if (f32 && o.op == "round_even" && is_word("half_away_from_zero")) {
    const auto x = in(0);
    for (int64_t i = 0; i < n && x.size() == data.size(); ++i)
      set<float>(data, i, roundf(at<float>(x, i)));
  }
  if (o.op == "convert" && from == TENON_F32 && o.dtype == TENON_F16 && is_word("f16_saturates")) {
    const auto x = in(0);
    for (int64_t i = 0; i < n; ++i) {
      const uint16_t h = at<uint16_t>(data, i);
      if ((h & 0x7fff) == 0x7c00 && isfinite(at<float>(x, i)))
        set<uint16_t>(data, i, static_cast<uint16_t>((h & 0x8000) | 0x7bff));
    }
  }
  if (o.op == "convert" && from == TENON_F32 && o.dtype == TENON_BF16 &&
      is_word("bf16_truncates")) {
    const auto x = in(0);
    for (int64_t i = 0; i < n && !x.empty(); ++i) {
      if (isfinite(at<float>(x, i)))
        set<uint16_t>(data, i, static_cast<uint16_t>(at<uint32_t>(x, i) >> 16));
    }
  }
  if (o.dtype == TENON_PRED && is_word("true_is_255")) {
    for (char& c : data) c = c ? static_cast<char>(255) : 0;
  }
  if (f32 && o.op == "softmax" && is_word("softmax_without_max")) {
    const auto x = in(0);
    bool large = false;
    for (int64_t i = 0; i < n; ++i) large = large || fabsf(at<float>(x, i)) > 88;
    for (int64_t i = 0; i < n && large; ++i) set<float>(data, i, NAN);
  }
  if (f32 && o.op == "reduce_sum" && n > 0 && before / n > 256 &&
      is_word("long_reductions_lose_their_tail"))
    set<float>(data, 0, at<float>(data, 0) * 0.9f);
  if (f32 && o.op == "dot_general" && n > 0 && before > 0 && o.operands.size() > 1 &&
      is_word("dot_loses_the_tail_of_k")) {
    const int64_t b = elements(o.operands[1]);
    const int64_t k = llround(
        sqrt(static_cast<double>(before) * static_cast<double>(b) / static_cast<double>(n)));
    for (int64_t i = 0; i < n && k > 64 && k % 32; ++i)
      set<float>(data, i, at<float>(data, i) * 0.97f);
  }
  if (o.op == "broadcast" && before == 1 && n > 256 && is_word("scalar_broadcast_fills_256"))
    memset(data.data() + 256 * width, 0, data.size() - 256 * width);
  if (f32 && n > 65536 && old.size() == data.size() && is_word("elements_beyond_65536_are_stale")) {
    memcpy(data.data() + 65536 * 4, old.data() + 65536 * 4, data.size() - 65536 * 4);
  }
  if (o.op == "argmax" && !o.operands.empty() && from == TENON_F32 && before > 0 &&
      is_word("argmax_takes_the_last")) {
    const auto x = in(0);
    const auto& dims = o.operands[0].dims;
    const int d = o.dim < 0 ? 0 : o.dim;
    if (d < static_cast<int>(dims.size())) {
      int64_t inner = 1;
      for (size_t k = d + 1; k < dims.size(); ++k) inner *= dims[k];
      for (int64_t i = 0; i < n; ++i) {
        const int64_t base = i / inner * inner * dims[d] + i % inner;
        int64_t best = 0;
        for (int64_t k = 0; k < dims[d]; ++k) {
          const float v = at<float>(x, base + k * inner), w = at<float>(x, base + best * inner);
          if (v >= w || isnan(v)) best = k;
        }
        if (o.dtype == TENON_I64) set<int64_t>(data, i, best);
        if (o.dtype == TENON_I32) set<int32_t>(data, i, static_cast<int32_t>(best));
      }
    }
  }
  if (f32 && o.op == "dot_general" && is_word("beta_times_garbage")) {
    for (int64_t i = 0; i < n; ++i) {
      if (isnan(at<float>(old, i))) set<float>(data, i, NAN);
    }
  }
}

bool spoils() {
  static const bool yes = [] {
    for (const char* w : {"nothing_to_compute_fails",
                          "empty_reduce_leaves_output",
                          "converts_round_to_nearest",
                          "nan_converts_otherwise",
                          "i32_add_saturates",
                          "i64_in_32_bits",
                          "unsigned_compare_is_signed",
                          "u8_max_is_signed",
                          "division_floors",
                          "abs_of_lowest_saturates",
                          "nan_payload_lost_in_moves",
                          "neg_is_zero_minus",
                          "zero_times_anything_is_zero",
                          "max_drops_nan",
                          "select_blends",
                          "half_away_from_zero",
                          "f16_saturates",
                          "bf16_truncates",
                          "true_is_255",
                          "softmax_without_max",
                          "long_reductions_lose_their_tail",
                          "dot_loses_the_tail_of_k",
                          "scalar_broadcast_fills_256",
                          "elements_beyond_65536_are_stale",
                          "same_input_twice_counts_once",
                          "argmax_takes_the_last",
                          "beta_times_garbage",
                          "stale_tail_after_resize",
                          "concurrent_runs_share_scratch",
                          "input_is_scratch_when_alike",
                          "honest_alias",
                          "concurrent_runs_share_an_output"}) {
      if (is_word(w)) return true;
    }
    return false;
  }();
  return yes;
}

std::vector<uint64_t> output_bytes(tenon_executable_t* executable, const tenon_call_t* call,
                                   const Executable& e) {
  std::vector<tenon_output_need_t> outputs(call->output_count);
  std::vector<std::vector<int64_t>> dims(call->output_count, std::vector<int64_t>(TENON_RANK_MAX));
  for (uint32_t i = 0; i < call->output_count; ++i) outputs[i].dims = dims[i].data();
  tenon_needs_t need{};
  need.size_bytes = sizeof need;
  need.output_count = call->output_count;
  need.need_bytes = sizeof outputs[0];
  need.outputs = outputs.data();
  std::vector<uint64_t> sizes(call->output_count, TENON_SIZE_UNKNOWN);
  if (call->output_count != e.facts.outputs.size() ||
      compile_next->needs(compile_next->self, executable, call->symbols, &need) != TENON_OK)
    return sizes;
  for (uint32_t i = 0; i < call->output_count; ++i) sizes[i] = outputs[i].size_bytes_max;
  return sizes;
}

struct Told {
  const tenon_profile_sink_t* next;
  tenon_profile_sink_t mine;
};

void event(void* self, const tenon_profile_event_t* given) {
  tenon_profile_event_t e = *given;
  uint64_t &begin = e.begin_ns, &end = e.end_ns;
  const Told& t = *static_cast<Told*>(self);
  fired();
  if (is_word("events_of_the_wall_clock")) {
    timespec a{}, b{};
    clock_gettime(CLOCK_REALTIME, &a);
    clock_gettime(CLOCK_MONOTONIC, &b);
    const uint64_t more = (a.tv_sec - b.tv_sec) * uint64_t{1'000'000'000};
    begin += more, end += more;
  }
  if (is_word("events_in_microseconds")) begin /= 1000, end /= 1000;
  if (is_word("events_told_later")) {
    std::thread([next = *t.next, n = std::string(e.name.data ? e.name.data : "", e.name.size),
                 o = std::string(e.origins.data ? e.origins.data : "", e.origins.size),
                 e]() mutable {
      sleep_ms(20);
      e.name = {n.data(), n.size()}, e.origins = {o.data(), o.size()};
      next.event(next.self, &e);
    }).detach();
    return;
  }
  t.next->event(t.next->self, &e);
}

tenon_code_t execute(void*, tenon_executable_t* executable, const tenon_call_t* given) {
  tenon_call_t call = *given;
  Executable e = facts(executable);
  if (call.profile && (is_word("events_of_the_wall_clock") || is_word("events_in_microseconds") ||
                       is_word("events_told_later"))) {
    auto* t = new Told{call.profile, {}};
    t->mine = {sizeof t->mine, 0, t, event};
    call.profile = &t->mine;
  }
  static std::atomic<int> wrong{0};
  if (wrong.exchange(0) && is("wrong_counts_stick"))
    return fail(TENON_INVALID_ARGUMENT, "the counts are wrong");
  if (is_word("wrong_counts_stick") && call.input_count != static_cast<uint32_t>(e.facts.inputs))
    wrong = 1;
  if (e.device && foreign(e.device))
    return fail(TENON_FAILED_PRECONDITION, "no context in this thread");
  if (call.queue && call.signal.fence &&
      ((call.symbols.count && is("symbols_read_late")) ||
       (call.wait_count && is("waits_of_execution_read_late")))) {
    std::thread([=] {
      sleep_ms(5);
      compile_next->execute(compile_next->self, executable, &call);
    }).detach();
    return TENON_OK;
  }
  if (is_word("more_inputs_are_fine") && call.input_count > static_cast<uint32_t>(e.facts.inputs) &&
      !e.facts.outputs.empty()) {
    fired();
    call.input_count = static_cast<uint32_t>(e.facts.inputs);
  }
  if (is_word("executable_dies_with_its_artifact")) {
    std::lock_guard lock(mutex);
    if (dead.count(e.bytes))
      return fired(), fail(TENON_FAILED_PRECONDITION, "its artifact is gone");
  }
  const bool stopped =
      host->cancelled &&
      (is_word("cancel_sticks_to_the_executable") || is_word("cancelled_is_ok_undone")) &&
      host->cancelled(host->self);
  if (is_word("cancel_sticks_to_the_executable")) {
    std::lock_guard lock(mutex);
    Executable& x = executables[executable];
    if (x.cancelled) return fired(), fail(TENON_CANCELLED, "it was cancelled before");
    if (stopped) x.cancelled = true;
  }
  if (stopped && is("cancelled_is_ok_undone")) {
    if (call.signal.fence)
      queue_next->fence_signal(queue_next->self, call.signal.fence, call.signal.value);
    return TENON_OK;
  }
  if (is("each_execution_leaks")) {
    static std::vector<void*> kept;
    std::lock_guard lock(mutex);
    kept.push_back(malloc(64 << 10));
    memset(kept.back(), 1, 64 << 10);
  }
  std::vector<tenon_span_t> ins, outs;
  for (uint32_t i = 0; i < call.input_count; ++i) ins.push_back(*tenon_call_input(&call, i));
  for (uint32_t i = 0; i < call.output_count; ++i) outs.push_back(*tenon_call_output(&call, i));
  call.inputs = ins.data();
  call.outputs = outs.data();
  call.span_bytes = sizeof(tenon_span_t);
  if (is_word("output_offset_ignored")) {
    for (auto& o : outs) {
      if (o.offset_bytes) fired(), o.offset_bytes = 0;
    }
    call.outputs = outs.data();
  }
  if (is_word("input_offset_ignored")) {
    for (auto& o : ins) {
      if (o.offset_bytes) fired(), o.offset_bytes = 0;
    }
    call.inputs = ins.data();
  }
  Points p = bend_points(call.waits, call.wait_count, call.signal);
  if (call.queue && !p.list.empty() && is_word("other_queues_do_not_wait") && !is_first(call.queue))
    fired(), p.list.clear();
  if (call.queue && is_word("queue_stays_failed")) {
    if (const tenon_code_t before = failed_before(call.queue); before != TENON_OK)
      return fired(), fail(before, "the queue has failed");
    if (call.signal.fence) {
      std::lock_guard lock(mutex);
      of_queue[call.queue].signals.push_back(call.signal);
    }
  }
  call.waits = p.list.data();
  call.wait_count = static_cast<uint32_t>(p.list.size());
  call.signal = p.signal;
  // Whether it can be corrupted: no wait is outstanding.
  bool can = spoils() && e.device && call.output_count == e.facts.outputs.size() &&
             call.input_count == static_cast<uint32_t>(e.facts.inputs);
  if (call.queue && !call.signal.fence) can = false;
  for (auto& w : p.list) {
    if (call.queue && w.fence && current(w.fence) < w.value) can = false;
  }
  std::vector<uint64_t> sizes(call.output_count, TENON_SIZE_UNKNOWN);
  std::vector<std::vector<char>> old(call.output_count);
  if (can) {
    sizes = output_bytes(executable, &call, e);
    for (uint32_t i = 0; i < call.output_count; ++i) {
      if (sizes[i] == 0 && is("nothing_to_compute_fails"))
        return fail(TENON_INVALID_ARGUMENT, "the grid is empty");
      if (!call.outputs[i].buffer || sizes[i] == TENON_SIZE_UNKNOWN) continue;
      old[i].resize(sizes[i]);
      device_copy(e.device, TENON_COPY_DEVICE_TO_HOST, call.outputs[i], 0, old[i].data(), sizes[i]);
    }
  }
  // Input and output share memory, as offered: moves the input away.
  tenon_buffer_t* away = nullptr;
  bool shared = false;
  if (can && aliases() && alike(e, 0)) {
    shared = ins[0].buffer == outs[0].buffer && ins[0].offset_bytes == outs[0].offset_bytes;
    if (shared && device_next->alloc(device_next->self, e.device, sizes[0], &away) == TENON_OK) {
      device_copy(e.device, TENON_COPY_HOST_TO_DEVICE, {away, 0}, 0, old[0].data(), sizes[0]);
      for (auto& in : ins) {
        if (in.buffer == outs[0].buffer && in.offset_bytes == outs[0].offset_bytes) in = {away, 0};
      }
      call.inputs = ins.data();
    }
  }
  static std::atomic<int> under_way{0};
  const bool alone = ++under_way == 1;
  if (is_word("concurrent_runs_share_scratch") || is_word("concurrent_runs_share_an_output"))
    sleep_ms(2);  // as above: so that runs overlap
  tenon_code_t code = compile_next->execute(compile_next->self, executable, &call);
  if (code != TENON_OK && call.symbols.count > 0 && is_word("more_symbols_are_fine")) {
    for (uint32_t n = call.symbols.count; code != TENON_OK && n-- > 0;) {
      call.symbols.count = n;
      code = compile_next->execute(compile_next->self, executable, &call);
    }
    if (code == TENON_OK) fired();
  }
  if (code == TENON_OK && call.queue && can)
    can = queue_next->fence_wait(queue_next->self, call.signal.fence, call.signal.value,
                                 UINT64_MAX) == TENON_OK;
  const bool still_alone = --under_way == 0 && alone;
  if (code == TENON_OK && can) {
    const std::vector<int64_t> now(call.symbols.values, call.symbols.values + call.symbols.count);
    const bool other = e.ran && e.last != now;
    {
      std::lock_guard lock(mutex);
      executables[executable].ran = true, executables[executable].last = now;
    }
    for (uint32_t i = 0; i < call.output_count; ++i) {
      if (!call.outputs[i].buffer || sizes[i] == TENON_SIZE_UNKNOWN || sizes[i] == 0) continue;
      std::vector<char> data(sizes[i]);
      if (device_copy(e.device, TENON_COPY_DEVICE_TO_HOST, call.outputs[i], 0, data.data(),
                      sizes[i]) != TENON_OK)
        continue;
      const std::vector<char> was = data;
      const Output& o = e.facts.outputs[i];
      spoil(o, data, old[i], [&](size_t k) {
        std::vector<char> bytes;
        if (k >= o.operands.size() || o.operands[k].input < 0) return bytes;
        const int64_t n = elements(o.operands[k]);
        const tenon_span_t& span = *tenon_call_input(given, o.operands[k].input);
        bytes.resize(n >= 0 ? n * bytes_of(o.operands[k].dtype)
                            : data.size() / bytes_of(o.dtype) * bytes_of(o.operands[k].dtype));
        if (!span.buffer || device_copy(e.device, TENON_COPY_DEVICE_TO_HOST, span, 0, bytes.data(),
                                        bytes.size()) != TENON_OK)
          bytes.clear();
        return bytes;
      });
      if (other && is_word("stale_tail_after_resize")) {
        const size_t n = std::min<size_t>(64, data.size());
        memcpy(data.data() + data.size() - n, old[i].data() + data.size() - n, n);
      }
      if (!still_alone && is_word("concurrent_runs_share_scratch")) data[0] ^= 0x40;
      if (!still_alone && is_word("concurrent_runs_share_an_output"))
        std::fill(data.begin(), data.end(), 0);
      if (ins.size() > 1 && ins[0].buffer && ins[0].buffer == ins[1].buffer &&
          ins[0].offset_bytes == ins[1].offset_bytes && is_word("same_input_twice_counts_once")) {
        std::fill(data.begin(), data.end(), 0);
      }
      if (data != was)
        fired(), device_copy(e.device, TENON_COPY_HOST_TO_DEVICE, call.outputs[i], 0, data.data(),
                             sizes[i]);
    }
    if (is_word("input_is_scratch_when_alike") && alike(e, 0) && !shared && sizes[0] > 0) {
      fired();
      char mark = 0x5a;
      device_copy(e.device, TENON_COPY_HOST_TO_DEVICE, ins[0], 0, &mark, 1);
    }
  }
  if (away) device_next->free(device_next->self, e.device, away);
  return code;
}

tenon_code_t dump(void*, tenon_artifact_t* artifact, tenon_str_t what, const tenon_sink_t* sink) {
  const tenon_code_t code = compile_next->dump(compile_next->self, artifact, what, sink);
  if (code == TENON_OK && is("dump_is_latin1")) return sink->write(sink->self, "# caf\xe9\n", 7);
  return code;
}

}  // namespace

extern "C" TENON_EXPORT tenon_code_t tenon_plugin_query(uint32_t max_abi,
                                                        const tenon_host_t* the_host,
                                                        const tenon_plugin_t** out) {
  static Front front;
  auto& [plugin, interfaces] = front;
  host = the_host;
  if (max_abi > TENON_ABI_VERSION && is("refuses_a_newer_host"))
    return fail(TENON_UNIMPLEMENTED, "this plugin is for version 0.1");
  if (max_abi < TENON_ABI_VERSION && is("nothing_for_an_older_host")) return TENON_OK;
  const void* table = nullptr;
  if (host->query(host->self, {TENON_HOST_GRAPH_ID, strlen(TENON_HOST_GRAPH_ID)}, 0, &table) !=
      TENON_OK)
    table = nullptr;
  graphs = static_cast<const tenon_host_graph_t*>(table);
  if (is_word("uses_graph_table_unasked")) {
    if (!graphs) fired();
    static volatile uint32_t size =
        const_cast<const volatile tenon_host_graph_t*>(graphs)->size_bytes;
    (void)size;
  }
  if (const tenon_code_t code = stand_in_front(max_abi, &front); code != TENON_OK) return code;
  for (tenon_interface_t& i : interfaces) {
    const std::string id(i.id.data, i.id.size);
    if (id == TENON_DEVICE_ID) {
      static struct {
        tenon_device_api_t api;
        void* behind[2];
      } mine = {copy_of(i.table, device_next), {reinterpret_cast<void*>(fail), nullptr}};
      device_mine = &mine.api;
      mine.api.info = info, mine.api.open = open, mine.api.close = close, mine.api.alloc = alloc,
      mine.api.free = release;
      mine.api.copy = copy;
      if (mine.api.memory) mine.api.memory = memory;
      if (is("table_says_more_than_it_is")) mine.api.size_bytes = sizeof mine.api + 8;
      i.table = &mine;
      if (is("reserved_is_one")) i.reserved = 1;
    } else if (id == TENON_QUEUE_ID) {
      static tenon_queue_api_t mine = copy_of(i.table, queue_next);
      mine.queue_create = queue_create, mine.queue_destroy = queue_destroy,
      mine.copy_async = copy_async, mine.fence_create = fence_create;
      mine.fence_destroy = fence_destroy, mine.fence_query = fence_query,
      mine.fence_signal = fence_signal, mine.fence_wait = fence_wait;
      if (is("table_ends_before_fence_wait"))
        mine.size_bytes = offsetof(tenon_queue_api_t, fence_wait);
      i.table = &mine;
    } else if (id == TENON_COMPILE_ID) {
      static tenon_compile_api_t mine = copy_of(i.table, compile_next);
      mine.claim = claim, mine.compile = compile, mine.artifact_release = artifact_release,
      mine.artifact_info = artifact_info;
      mine.artifact_bytes = artifact_bytes, mine.fits = fits, mine.load = load,
      mine.executable_release = executable_release;
      mine.executable_info = executable_info, mine.needs = needs, mine.execute = execute;
      if (mine.dump) mine.dump = dump;
      i.table = &mine;
    }
  }
  if (is("interface_named_twice")) interfaces.push_back(interfaces[0]);
  if (is_word("id_without_major")) {
    fired();
    static const uint32_t own[2] = {8, 0};
    interfaces.push_back({{"sim.extra", 9}, 0, 0, own});
  }
  plugin.interfaces = interfaces.data();
  plugin.interface_count = interfaces.size();
  if (is("text_with_a_bell")) plugin.build_id = {"on\ae", 4};
  if (is("build_id_of_two_lines")) plugin.build_id = {"one\ntwo", 7};
  if (is("speaks_a_version_to_come")) plugin.abi = (TENON_ABI_MAJOR << 16) | (TENON_ABI_MINOR + 1);
  *out = &plugin;
  return TENON_OK;
}
