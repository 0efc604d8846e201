// The second set of blind mutants (blind.py, shim.h): each does one thing wrong. Written from
// docs/spec/plugin.md alone, to test the checks as they were then. second.list has each word with
// the requirement that it breaks.
#include <fenv.h>
#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "shim.h"

namespace {

// ---- Devices and memory ----

std::map<tenon_buffer_t*, uint64_t> sizes;    // of live buffers
std::map<uint64_t, tenon_buffer_t*> by_size;  // for alloc_twice_the_same

tenon_code_t info(void*, uint32_t ordinal, tenon_device_info_t* out) {
  tenon_device_info_t mine{};
  mine.size_bytes = sizeof mine;
  if (tenon_code_t code =
          device_next->info(device_next->self, is("info_takes_any_ordinal") ? 0 : ordinal, &mine);
      code)
    return code;
  if (is("info_drifts")) mine.copy_latency_ns += ++calls;
  if (is("alignment_is_no_power")) mine.alignment_bytes = 24;
  if (is("speed_is_nan")) mine.copy_gigabytes_per_second = NAN;
  if (is("kind_in_capitals")) mine.kind = {"SIM", 3};
  if (is("threading_unknown")) mine.threading = 7;
  if (is("info_writes_beyond")) memset(reinterpret_cast<char*>(out) + out->size_bytes, 0, 8);
  if (is("info_writes_all")) out->size_bytes = sizeof mine;
  if (tenon_record_give(out, &mine, sizeof mine) == TENON_OK) return TENON_OK;
  return fail(TENON_INVALID_ARGUMENT, "the record has no size_bytes");
}

tenon_code_t count(void*, uint32_t* out) {
  const tenon_code_t code = device_next->count(device_next->self, out);
  if (is("count_grows")) *out += ++calls > 3 ? 1 : 0;
  return code;
}

void* idle_thread(void*) {
  for (;;) pause();
}

tenon_code_t open(void*, uint32_t ordinal, tenon_device_t** out) {
  if (is("open_any_ordinal")) ordinal = 0;
  uint32_t there = 0;
  device_next->count(device_next->self, &there);
  if (is("fails_without_a_word") && ordinal >= there) return TENON_NOT_FOUND;
  if (is("thread_takes_signals")) {
    pthread_t thread;
    pthread_create(&thread, nullptr, idle_thread, nullptr);
  }
  if (is("changes_folder") && chdir("/") != 0) return TENON_INTERNAL;
  if (is("sets_locale")) setlocale(LC_ALL, "C.UTF-8");
  if (is("sets_a_variable")) setenv("SECOND_WAS_HERE", "1", 1);
  return device_next->open(device_next->self, ordinal, out);
}

tenon_code_t alloc(void*, tenon_device_t* device, uint64_t size, tenon_buffer_t** out) {
  const bool huge = size > uint64_t{1} << 50;
  if (huge && is("huge_alloc_gives_little")) size = 64;
  if (huge && is("huge_alloc_says_internal")) return fail(TENON_INTERNAL, "no such memory");
  if (huge && is("failing_alloc_writes")) {
    *out = reinterpret_cast<tenon_buffer_t*>(uintptr_t{64});
    return fail(TENON_RESOURCE_EXHAUSTED, "no such memory");
  }
  if (size == 0 && is("refuses_nothing")) return fail(TENON_INVALID_ARGUMENT, "0 bytes");
  std::lock_guard lock(mutex);
  if (is("alloc_twice_the_same")) {
    if (auto it = by_size.find(size); it != by_size.end() && size > 0)
      return *out = it->second, TENON_OK;
  }
  const tenon_code_t code = device_next->alloc(device_next->self, device, size, out);
  if (code == TENON_OK) sizes[*out] = size, by_size[size] = *out;
  return code;
}

tenon_code_t release(void*, tenon_device_t* device, tenon_buffer_t* buffer) {
  if (is("free_keeps_all")) return TENON_OK;
  if (is("free_keeps_every_fourth") && ++calls % 4 == 0) return TENON_OK;
  std::lock_guard lock(mutex);
  if (is("alloc_twice_the_same")) return TENON_OK;
  sizes.erase(buffer);
  return device_next->free(device_next->self, device, buffer);
}

// Alters a copy. False: nothing is left to do and `code` is the result.
bool bend(tenon_copy_t& c, tenon_code_t& code) {
  code = TENON_OK;
  if (is("last_byte_of_large_lost") && c.length_bytes > 1 << 20 && c.direction != TENON_COPY_FILL)
    --c.length_bytes;
  if (is("odd_offset_rounded") && c.direction == TENON_COPY_HOST_TO_DEVICE && c.to_offset_bytes % 2)
    --c.to_offset_bytes;
  if (is("fill_of_eight_is_of_four") && c.direction == TENON_COPY_FILL && c.pattern_bytes == 8)
    c.pattern_bytes = 4;
  if (is("fill_big_endian") && c.direction == TENON_COPY_FILL && c.pattern_bytes == 2)
    c.pattern = __builtin_bswap16(c.pattern & 0xffff);
  if (is("fill_of_three") && c.direction == TENON_COPY_FILL && c.pattern_bytes == 3) return false;
  if (is("fill_from_the_start") && c.direction == TENON_COPY_FILL)
    c.length_bytes += c.to_offset_bytes, c.to_offset_bytes = 0;
  if (is("unknown_direction_is_fine") && (c.direction == 0 || c.direction > 4)) return false;
  if (is("wrapping_range_is_fine") && c.to_offset_bytes + c.length_bytes < c.to_offset_bytes)
    return false;
  if (is("nothing_at_the_end_fails") && c.length_bytes == 0 &&
      (c.to_offset_bytes || c.from_offset_bytes)) {
    return code = fail(TENON_OUT_OF_RANGE, "the end"), false;
  }
  if (is("between_buffers_offsets_swapped") && c.direction == TENON_COPY_DEVICE_TO_DEVICE)
    std::swap(c.from_offset_bytes, c.to_offset_bytes);
  if (is("wrong_code_beyond_the_end") && c.to && sizes.count(c.to) &&
      c.to_offset_bytes > sizes[c.to]) {
    return code = fail(TENON_INVALID_ARGUMENT, "beyond"), false;
  }
  return true;
}

tenon_code_t copy(void*, tenon_device_t* device, const tenon_copy_t* given) {
  tenon_copy_t c = *given;
  tenon_code_t code;
  if (!bend(c, code)) return code;
  if (is("rounds_up_from_now_on")) fesetround(FE_UPWARD);
  if (is("copies_later") && c.direction == TENON_COPY_HOST_TO_DEVICE && c.length_bytes > 0) {
    std::thread([=] {
      sleep_ms(20);
      device_next->copy(device_next->self, device, &c);
    }).detach();
    return TENON_OK;
  }
  code = device_next->copy(device_next->self, device, &c);
  if (is("one_byte_more_for_the_host") && code == TENON_OK &&
      c.direction == TENON_COPY_DEVICE_TO_HOST && c.length_bytes > 3) {
    static_cast<char*>(c.host_to)[c.length_bytes] ^= 1;
  }
  return code;
}

tenon_code_t memory(void*, tenon_device_t* device, uint64_t* used, uint64_t* peak) {
  const tenon_code_t code = device_next->memory(device_next->self, device, used, peak);
  if (is("peak_is_half")) *peak = *used / 2;
  if (is("used_never_falls")) {
    static uint64_t most = 0;
    *used = most = std::max(most, *used);
    *peak = most;
  }
  return code;
}

// ---- Queues and fences ----

std::map<tenon_fence_t*, uint64_t> lasts;
std::map<tenon_queue_t*, tenon_device_t*> device_of;

tenon_code_t queue_create(void*, tenon_device_t* device, tenon_queue_t** out) {
  static tenon_queue_t* only = nullptr;
  if (is("one_queue_for_all") && only) return *out = only, TENON_OK;
  if (is("thread_left_behind_per_queue")) {
    std::thread([] {
      sigset_t all;
      sigfillset(&all);
      pthread_sigmask(SIG_BLOCK, &all, nullptr);
      idle_thread(nullptr);
    }).detach();
  }
  const tenon_code_t code = queue_next->queue_create(queue_next->self, device, out);
  std::lock_guard lock(mutex);
  if (code == TENON_OK) only = *out, device_of[*out] = device;
  return code;
}

tenon_code_t queue_destroy(void*, tenon_queue_t* queue) {
  if (is("one_queue_for_all")) return TENON_OK;
  if (is("destroy_does_not_wait")) {
    std::thread([=] { queue_next->queue_destroy(queue_next->self, queue); }).detach();
    return TENON_OK;
  }
  return queue_next->queue_destroy(queue_next->self, queue);
}

Points bend_points(const tenon_fence_point_t* waits, uint32_t count, tenon_fence_point_t signal) {
  Points p{{waits, waits + count}, signal};
  if (is("no_waits")) p.list.clear();
  if (is("last_wait_lost") && count > 1) p.list.pop_back();
  if (is("waits_for_one_less")) {
    for (auto& w : p.list) w.value -= w.value > 0 ? 1 : 0;
  }
  if (is("first_of_several_counts") && count > 1) p.list.resize(1);
  if (is("signals_at_submission") && signal.fence) {
    queue_next->fence_signal(queue_next->self, signal.fence, signal.value);
    p.signal.fence = nullptr;
  }
  if (is("signals_one_less") && signal.value > 0) --p.signal.value;
  if (is("signals_one_more")) ++p.signal.value;
  return p;
}

tenon_code_t copy_async(void*, tenon_queue_t* queue, const tenon_copy_t* given,
                        const tenon_fence_point_t* waits, uint32_t count,
                        tenon_fence_point_t signal) {
  tenon_copy_t c = *given;
  tenon_code_t code;
  if (!bend(c, code)) return code;
  if (is("nothing_is_not_signalled") && c.length_bytes == 0) return TENON_OK;
  if (is("fill_is_not_for_queues") && c.direction == TENON_COPY_FILL)
    return fail(TENON_UNIMPLEMENTED, "fill");
  if (is("needs_a_signal") && !signal.fence) return fail(TENON_INVALID_ARGUMENT, "no signal");
  if (is("blocks_for_its_waits")) {
    for (uint32_t i = 0; i < count; ++i) {
      if (waits[i].fence)
        queue_next->fence_wait(queue_next->self, waits[i].fence, waits[i].value, UINT64_MAX);
    }
  }
  if (is("host_memory_read_at_once") && c.direction == TENON_COPY_HOST_TO_DEVICE) {
    char* kept = new char[c.length_bytes + 1];  // what the source holds at submission
    memcpy(kept, c.host_from, c.length_bytes);
    c.host_from = kept;
  }
  if (is("runs_on_a_queue_of_its_own")) {  // loses the order
    tenon_queue_t* other = nullptr;
    queue_next->queue_create(queue_next->self, device_of[queue], &other);
    if (other) queue = other;
  }
  const Points p = bend_points(waits, count, signal);
  code = queue_next->copy_async(queue_next->self, queue, &c, p.list.data(),
                                static_cast<uint32_t>(p.list.size()), p.signal);
  if (is("refused_work_signals") && code != TENON_OK && signal.fence)
    queue_next->fence_signal(queue_next->self, signal.fence, signal.value);
  return code;
}

tenon_code_t fence_create(void*, tenon_device_t* device, uint64_t initial, tenon_fence_t** out) {
  const uint64_t value = is("fences_start_at_zero") ? 0
                         : is("values_of_32_bits")  ? static_cast<uint32_t>(initial)
                                                    : initial;
  return queue_next->fence_create(queue_next->self, device, value, out);
}

tenon_code_t fence_destroy(void*, tenon_fence_t* fence) {
  if (is("fences_are_kept")) return TENON_OK;
  return queue_next->fence_destroy(queue_next->self, fence);
}

tenon_code_t fence_query(void*, tenon_fence_t* fence, uint64_t* out) {
  const tenon_code_t code = queue_next->fence_query(queue_next->self, fence, out);
  std::lock_guard lock(mutex);
  if (is("query_hides_failure") && code != TENON_OK) return *out = 0, TENON_OK;
  if (is("fences_fall") && code == TENON_OK && lasts.count(fence)) *out = lasts[fence];
  if (is("query_one_behind") && code == TENON_OK && *out > 0) --*out;
  return code;
}

tenon_code_t fence_signal(void*, tenon_fence_t* fence, uint64_t value) {
  {
    std::lock_guard lock(mutex);
    lasts[fence] = value;
  }
  if (is("values_of_32_bits")) value = static_cast<uint32_t>(value);
  return queue_next->fence_signal(queue_next->self, fence, value);
}

tenon_code_t fence_wait(void*, tenon_fence_t* fence, uint64_t value, uint64_t timeout_ns) {
  if (is("poll_waits_for_good") && timeout_ns == 0) timeout_ns = UINT64_MAX;
  if (is("gives_up_at_once") && timeout_ns != UINT64_MAX) timeout_ns = 0;
  if (is("good_is_a_tenth_of_a_second") && timeout_ns == UINT64_MAX) timeout_ns = 100'000'000;
  const tenon_code_t code = queue_next->fence_wait(queue_next->self, fence, value, timeout_ns);
  if (is("late_is_fine") && code == TENON_DEADLINE_EXCEEDED) return TENON_OK;
  if (is("late_is_unavailable") && code == TENON_DEADLINE_EXCEEDED)
    return fail(TENON_UNAVAILABLE, "late");
  if (is("failed_work_is_internal") && code != TENON_OK && code != TENON_DEADLINE_EXCEEDED)
    return fail(TENON_INTERNAL, "something");
  if (is("waiting_hides_failure") && code != TENON_OK && code != TENON_DEADLINE_EXCEEDED)
    return TENON_OK;
  return code;
}

// ---- Compile ----

struct Sink {
  const tenon_claim_sink_t* next;
  bool failed = false;
};

tenon_code_t take(void* self, const tenon_claim_t* given) {
  Sink& s = *static_cast<Sink*>(self);
  tenon_claim_t claim = *given;
  double& cost = claim.cost_ns;
  if (is("cost_is_negative")) cost = -1;
  if (is("cost_is_infinite")) cost = INFINITY;
  if (is("names_a_node_twice_in_a_claim") && claim.node_count > 0) {
    std::vector<tenon_node_t> more(claim.nodes, claim.nodes + claim.node_count);
    more.push_back(more[0]);
    claim.nodes = more.data(), ++claim.node_count;
    return s.next->claim(s.next->self, &claim);
  }
  const tenon_code_t code = s.next->claim(s.next->self, &claim);
  if (is("goes_on_after_a_failing_sink")) return TENON_OK;
  return code;
}

tenon_code_t refuse(void* self, tenon_node_t node, tenon_code_t code, tenon_str_t why) {
  Sink& s = *static_cast<Sink*>(self);
  if (is("refuses_without_a_reason")) why = {nullptr, 0};
  if (is("refuses_as_internal")) code = TENON_INTERNAL;
  return s.next->refuse(s.next->self, node, code, why);
}

tenon_code_t claim(void*, tenon_str_t target, tenon_graph_t* graph,
                   const tenon_compile_options_t* options, const tenon_claim_sink_t* sink) {
  if (is("claims_every_other_time") && ++calls % 2 == 0) return TENON_OK;
  Sink s{sink};
  tenon_claim_sink_t mine = *sink;
  mine.self = &s;
  mine.claim = take;
  mine.refuse = refuse;
  return compile_next->claim(compile_next->self, target, graph, options, &mine);
}

tenon_code_t compile(void*, tenon_str_t target, tenon_graph_t* graph,
                     const tenon_compile_options_t* options, tenon_artifact_t** out) {
  return compile_next->compile(compile_next->self, target, graph, options, out);
}

void artifact_release(void*, tenon_artifact_t* artifact) {
  if (!is("artifacts_are_kept")) compile_next->artifact_release(compile_next->self, artifact);
}

tenon_code_t artifact_bytes(void*, tenon_artifact_t* artifact, const tenon_sink_t* sink) {
  const tenon_code_t code = compile_next->artifact_bytes(compile_next->self, artifact, sink);
  if (code == TENON_OK && is("bytes_are_numbered")) {
    const int number = ++calls;
    return sink->write(sink->self, &number, sizeof number);
  }
  return code;
}

std::string good_bytes;  // the last bytes that fitted

tenon_code_t fits(void*, tenon_str_t target, const void* bytes, uint64_t size) {
  if (is("everything_fits")) return TENON_OK;
  const tenon_code_t code = compile_next->fits(compile_next->self, target, bytes, size);
  if (is("nothing_fits") && code == TENON_OK) return fail(TENON_FAILED_PRECONDITION, "no");
  if (is("unfit_is_internal") && code != TENON_OK) return fail(TENON_INTERNAL, "no");
  return code;
}

tenon_code_t load(void*, tenon_device_t* device, const void* bytes, uint64_t size,
                  tenon_blob_t* const* constants, uint32_t count, tenon_executable_t** out) {
  std::unique_lock lock(mutex);
  std::string copy(static_cast<const char*>(bytes), size);
  if (is("loads_the_last_good_bytes")) {
    lock.unlock();
    const tenon_code_t code =
        compile_next->load(compile_next->self, device, bytes, size, constants, count, out);
    lock.lock();
    if (code == TENON_OK)
      good_bytes = copy;
    else if (!good_bytes.empty()) {
      return compile_next->load(compile_next->self, device, good_bytes.data(), good_bytes.size(),
                                constants, count, out);
    }
    return code;
  }
  lock.unlock();
  if (is("constants_in_reverse") && count > 1) {
    std::vector<tenon_blob_t*> other(constants, constants + count);
    std::swap(other.front(), other.back());
    return compile_next->load(compile_next->self, device, bytes, size, other.data(), count, out);
  }
  if (is("loads_once")) {
    static std::map<std::string, int> seen;
    lock.lock();
    if (seen[copy]++) return fail(TENON_FAILED_PRECONDITION, "loaded already");
    lock.unlock();
  }
  return compile_next->load(compile_next->self, device, bytes, size, constants, count, out);
}

void executable_release(void*, tenon_executable_t* executable) {
  if (!is("executables_are_kept")) compile_next->executable_release(compile_next->self, executable);
}

tenon_code_t executable_info(void*, tenon_executable_t* executable, tenon_executable_info_t* out) {
  if (is("no_executable_info")) return fail(TENON_UNIMPLEMENTED, "info");
  return compile_next->executable_info(compile_next->self, executable, out);
}

tenon_code_t needs(void*, tenon_executable_t* executable, tenon_symbols_t symbols,
                   tenon_needs_t* out) {
  const tenon_code_t code = compile_next->needs(compile_next->self, executable, symbols, out);
  if (code != TENON_OK) return code;
  if (is("needs_four_bytes_less")) {
    for (uint32_t i = 0; i < out->output_count; ++i)
      tenon_need(out, i)->size_bytes_max -=
          std::min<uint64_t>(4, tenon_need(out, i)->size_bytes_max);
  }
  if (is("offers_any_alias") && out->output_count > 0) tenon_need(out, 0)->alias_input = 0;
  if (is("alias_beyond_the_inputs") && out->output_count > 0) tenon_need(out, 0)->alias_input = 77;
  if (is("lower_bound_above_the_workspace")) out->lower_bound_bytes = out->workspace_bytes + 64;
  return TENON_OK;
}

// Corrupts the results of an execution.
void spoil(tenon_device_t* device, tenon_executable_t* executable, const tenon_call_t* call) {
  std::vector<tenon_output_need_t> outputs(call->output_count);
  std::vector<std::vector<int64_t>> dims(call->output_count, std::vector<int64_t>(16));
  for (uint32_t i = 0; i < call->output_count; ++i) outputs[i].dims = dims[i].data();
  tenon_needs_t need{};
  need.size_bytes = sizeof need;
  need.output_count = call->output_count;
  need.need_bytes = sizeof outputs[0];
  need.outputs = outputs.data();
  if (compile_next->needs(compile_next->self, executable, call->symbols, &need) != TENON_OK) return;
  if (is("an_input_changes") && call->input_count > 0 && tenon_call_input(call, 0)->buffer) {
    unsigned char byte = 0;
    if (device_copy(device, TENON_COPY_DEVICE_TO_HOST, *tenon_call_input(call, 0), 0, &byte, 1) ==
        TENON_OK) {
      byte ^= 1;
      device_copy(device, TENON_COPY_HOST_TO_DEVICE, *tenon_call_input(call, 0), 0, &byte, 1);
    }
  }
  for (uint32_t i = 0; i < call->output_count; ++i) {
    const uint64_t bytes = need.outputs[i].size_bytes_max;
    if (!tenon_call_output(call, i)->buffer || bytes == TENON_SIZE_UNKNOWN || bytes < 4) continue;
    if (is("byte_behind_the_output")) {
      char mark = 0x5a;
      device_copy(device, TENON_COPY_HOST_TO_DEVICE, *tenon_call_output(call, i), bytes, &mark, 1);
      continue;
    }
    std::vector<char> data(bytes);
    if (device_copy(device, TENON_COPY_DEVICE_TO_HOST, *tenon_call_output(call, i), 0, data.data(),
                    bytes) != TENON_OK)
      continue;
    if (is("last_element_lost")) memset(data.data() + bytes - 4, 0, 4);
    if (is("low_bit_of_every_other_run") && ++calls % 2 == 0) data[0] ^= 1;
    for (uint64_t at = 0; at + 4 <= bytes; at += 4) {
      float f;
      memcpy(&f, data.data() + at, 4);
      if (is("nan_becomes_zero") && f != f) f = 0;
      if (is("no_negative_zero") && f == 0) f = 0;
      if (is("denormals_become_normal") && f != 0 && fabsf(f) < 1.17549435e-38f)
        f = copysignf(1.17549435e-38f, f);
      if (is("infinity_is_large") && isinf(f)) f = copysignf(3.4028234e38f, f);
      if (is("three_digits") && fabsf(f) > 1e-30f && isfinite(f)) f *= 1.002f;
      memcpy(data.data() + at, &f, 4);
    }
    device_copy(device, TENON_COPY_HOST_TO_DEVICE, *tenon_call_output(call, i), 0, data.data(),
                bytes);
  }
}

tenon_device_t* last_device;

tenon_code_t open_and_remember(void* self, uint32_t ordinal, tenon_device_t** out) {
  const tenon_code_t code = open(self, ordinal, out);
  if (code == TENON_OK && !last_device) last_device = *out;
  return code;
}

void backwards(void* self, const tenon_profile_event_t* given) {
  const auto* next = static_cast<const tenon_profile_sink_t*>(self);
  tenon_profile_event_t event = *given;
  if (is("events_without_name")) event.name = {};
  if (is("events_end_before")) event.begin_ns = event.end_ns + 1;
  next->event(next->self, &event);
}

bool spoils() {
  for (const char* word : {"an_input_changes", "byte_behind_the_output", "last_element_lost",
                           "low_bit_of_every_other_run", "nan_becomes_zero", "no_negative_zero",
                           "denormals_become_normal", "infinity_is_large", "three_digits"}) {
    if (is(word)) return true;
  }
  return false;
}

tenon_code_t execute(void*, tenon_executable_t* executable, const tenon_call_t* given) {
  tenon_call_t call = *given;
  if (is("profile_without_being_asked_for") && !call.profile)
    return fail(TENON_INTERNAL, "no profile");
  const tenon_profile_sink_t sink{sizeof sink, 0, const_cast<tenon_profile_sink_t*>(call.profile),
                                  backwards};
  if (call.profile && (is("events_without_name") || is("events_end_before"))) call.profile = &sink;
  if (is("one_at_a_time_or_not_at_all")) {
    static std::atomic_flag busy = ATOMIC_FLAG_INIT;
    if (busy.test_and_set()) return fail(TENON_FAILED_PRECONDITION, "busy");
    const tenon_code_t code = compile_next->execute(compile_next->self, executable, &call);
    busy.clear();
    return code;
  }
  if (is("cancelled_is_internal") && host->cancelled && host->cancelled(host->self))
    return fail(TENON_INTERNAL, "stopped");
  if (call.queue && is("execution_blocks_the_queue")) call.queue = nullptr;
  const Points p = bend_points(call.waits, call.wait_count, call.signal);
  call.waits = p.list.data();
  call.wait_count = static_cast<uint32_t>(p.list.size());
  call.signal = p.signal;
  tenon_code_t code = compile_next->execute(compile_next->self, executable, &call);
  if (is("refused_execution_signals") && code != TENON_OK && given->signal.fence) {
    queue_next->fence_signal(queue_next->self, given->signal.fence, given->signal.value);
  }
  if (code == TENON_OK && spoils() && last_device) {
    if (!call.queue)
      spoil(last_device, executable, &call);
    else if (call.signal.fence &&
             queue_next->fence_wait(queue_next->self, call.signal.fence, call.signal.value,
                                    UINT64_MAX) == TENON_OK) {
      spoil(last_device, executable, &call);
    }
  }
  return code;
}

tenon_code_t dump(void*, tenon_artifact_t* artifact, tenon_str_t what, const tenon_sink_t* sink) {
  const tenon_code_t code = compile_next->dump(compile_next->self, artifact, what, sink);
  if (is("dumps_anything") && code != TENON_OK) return TENON_OK;
  return code;
}

tenon_code_t shutdown_failing(void*) {
  return fail(TENON_INTERNAL, "not today");
}

}  // namespace

extern "C" TENON_EXPORT tenon_code_t tenon_plugin_query(uint32_t max_abi,
                                                        const tenon_host_t* the_host,
                                                        const tenon_plugin_t** out) {
  static Front front;
  auto& [plugin, interfaces] = front;
  host = the_host;
  if (is("query_is_slow")) sleep_ms(3000);
  if (const tenon_code_t code = stand_in_front(max_abi, &front); code != TENON_OK) return code;
  for (tenon_interface_t& i : interfaces) {
    const std::string id(i.id.data, i.id.size);
    if (id == TENON_DEVICE_ID) {
      static tenon_device_api_t mine = copy_of(i.table, device_next);
      mine.count = count, mine.info = info, mine.open = open_and_remember, mine.alloc = alloc,
      mine.free = release, mine.copy = copy;
      if (mine.memory) mine.memory = memory;
      if (is("required_slot_null")) mine.copy = nullptr;
      i.table = &mine;
    } else if (id == TENON_QUEUE_ID) {
      static tenon_queue_api_t mine = copy_of(i.table, queue_next);
      mine.queue_create = queue_create, mine.queue_destroy = queue_destroy,
      mine.copy_async = copy_async, mine.fence_create = fence_create;
      mine.fence_destroy = fence_destroy, mine.fence_query = fence_query,
      mine.fence_signal = fence_signal, mine.fence_wait = fence_wait;
      i.table = &mine;
    } else if (id == TENON_COMPILE_ID) {
      static tenon_compile_api_t mine = copy_of(i.table, compile_next);
      mine.claim = claim, mine.compile = compile, mine.artifact_release = artifact_release,
      mine.artifact_bytes = artifact_bytes, mine.fits = fits;
      mine.load = load, mine.executable_release = executable_release,
      mine.executable_info = executable_info, mine.needs = needs;
      mine.execute = execute;
      if (mine.dump) mine.dump = dump;
      i.table = &mine;
    }
  }
  plugin.interfaces = interfaces.data();
  if (is("shutdown_fails")) plugin.shutdown = shutdown_failing;
  *out = &plugin;
  return TENON_OK;
}
