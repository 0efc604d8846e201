/* Fences of the asynchronous mutant. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "async.h"

/* A value as a driver has it whose fences are narrower. */
static uint64_t cut(uint64_t value) {
  if (is("fence_48_bits")) return value & (((uint64_t)1 << 48) - 1);
  return is("fence_32_bits") ? (uint32_t)value : value;
}

tenon_code_t fence_create(void* self, tenon_device_t* device, uint64_t initial,
                          tenon_fence_t** out) {
  pthread_condattr_t attributes;
  (void)self, (void)device;
  tenon_fence_t* fence = is("late_touch") ? mmap(NULL, sizeof *fence, PROT_READ | PROT_WRITE,
                                                 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
                                          : calloc(1, sizeof *fence);
  memset(fence->ballast, 1, sizeof fence->ballast);
  pthread_mutex_init(&fence->mutex, NULL);
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  pthread_cond_init(&fence->changed, &attributes);
  fence->value = is("initial_lost") ? 0 : cut(initial);
  fence->initial = fence->value;
  fence->failed_at = UINT64_MAX;
  *out = fence;
  return TENON_OK;
}

/* Whether a wait for this fence has ended in the last two milliseconds. */
static int is_fresh(const tenon_fence_t* fence) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (now.tv_sec - fence->waited_until.tv_sec) * 1000000000 + now.tv_nsec -
             fence->waited_until.tv_nsec <
         2000000;
}

tenon_code_t fence_destroy(void* self, tenon_fence_t* fence) {
  if (is("late_touch")) return munmap(fence, sizeof *fence), TENON_OK;
  if (is("fence_is_busy_after_its_wait") && is_fresh(fence))
    return fail(TENON_FAILED_PRECONDITION, "the fence is in use");
  if (is("unsignalled_fence_leaks") && fence->value == fence->initial) return TENON_OK;
  pthread_mutex_lock(&fence->mutex); /* the signalling thread has released it */
  pthread_mutex_unlock(&fence->mutex);
  if (!is("fence_leak")) free(fence);
  return (void)self, TENON_OK;
}

static void set_value(tenon_fence_t* fence, uint64_t value, int from_work) {
  if (is("racy_fence")) {
    const uint64_t before = fence->value;
    usleep(1000);
    fence->value = value > before ? value : before;
    pthread_mutex_lock(&fence->mutex);
    pthread_cond_broadcast(&fence->changed);
    pthread_mutex_unlock(&fence->mutex);
    return;
  }
  pthread_mutex_lock(&fence->mutex);
  value = cut(value);
  if (value > fence->value || is("fence_backwards") || (from_work && is("work_lowers")))
    fence->value = value;
  else if (is("fence_counts"))
    ++fence->value;
  if (is("signal_wakes_one") && !from_work)
    pthread_cond_signal(&fence->changed);
  else if (!(is("host_signal_sleeps") && !from_work))
    pthread_cond_broadcast(&fence->changed);
  pthread_mutex_unlock(&fence->mutex);
}

void fence_set(const tenon_fence_point_t* point) {
  if (point->fence == NULL) {
    if (is("null_signal_crashes")) *(volatile int*)8 = 1;
    return;
  }
  set_value(point->fence, point->value, 1);
  if (is("late_touch")) usleep(2000), point->fence->seen = 1;
}

void fence_fail(const tenon_fence_point_t* point, tenon_code_t code) {
  tenon_fence_t* fence = point->fence;
  if (fence == NULL || is("failed_work_hangs")) return;
  if (is("fence_error_lost")) return fence_set(point);
  if (is("other_error")) code = TENON_INTERNAL;
  pthread_mutex_lock(&fence->mutex);
  if (is("query_of_failed_ok") || is("wait_of_failed_late")) fence->seen = 1;
  if (point->value < fence->failed_at) fence->failed_at = point->value, fence->code = code;
  if (is("failed_poisons_earlier")) fence->failed_at = 0;
  pthread_cond_broadcast(&fence->changed);
  pthread_mutex_unlock(&fence->mutex);
}

int reached(const tenon_fence_t* fence, uint64_t value) {
  if (is("fence_is_signed") && (int64_t)fence->value >= (int64_t)value) return 1;
  return (is("waits_for_equal") ? fence->value == value : fence->value >= value) ||
         fence->failed_at <= value;
}

tenon_code_t result_of(const tenon_fence_t* fence, uint64_t value) {
  if (fence->failed_at > value || (is("wait_of_failed_later_ok") && value > fence->failed_at))
    return TENON_OK;
  return fence->code;
}

tenon_code_t fence_query(void* self, tenon_fence_t* fence, uint64_t* out) {
  (void)self;
  while (is("query_awaits_waiters_hangs") && __atomic_load_n(&fence->waiting, __ATOMIC_RELAXED))
    usleep(1000);
  pthread_mutex_lock(&fence->mutex);
  const tenon_code_t code = is("query_of_failed_ok") ? TENON_OK : fence->code;
  if (code == TENON_OK) *out = is("query_stale") ? fence->seen : fence->value;
  if (code == TENON_OK && is("query_is_one_less") && *out != 0) --*out;
  if (code != TENON_OK && is("failed_query_writes")) *out = UINT64_MAX;
  fence->seen = fence->value;
  pthread_mutex_unlock(&fence->mutex);
  return code == TENON_OK ? code : fail(code, "work that signals this fence failed");
}

tenon_code_t fence_signal(void* self, tenon_fence_t* fence, uint64_t value) {
  if (is("signal_late_by_one") && value != 0) --value;
  set_value(fence, value, 0);
  return (void)self, TENON_OK;
}

static struct timespec clock_after(uint64_t ns) {
  struct timespec at;
  clock_gettime(CLOCK_MONOTONIC, &at);
  at.tv_sec += (time_t)(ns / 1000000000u);
  at.tv_nsec += (long)(ns % 1000000000u);
  if (at.tv_nsec >= 1000000000) at.tv_nsec -= 1000000000, ++at.tv_sec;
  return at;
}

static int waiting;
static tenon_code_t wait_for(tenon_fence_t* fence, uint64_t value, uint64_t timeout_ns);
tenon_code_t fence_wait(void* self, tenon_fence_t* fence, uint64_t value, uint64_t timeout_ns) {
  (void)self;
  if (__atomic_add_fetch(&waiting, 1, __ATOMIC_RELAXED) > 16 && is("sixteen_waiters"))
    return fail(TENON_RESOURCE_EXHAUSTED, "too many threads wait");
  __atomic_add_fetch(&fence->waiting, 1, __ATOMIC_RELAXED);
  const tenon_code_t code = wait_for(fence, value, timeout_ns);
  __atomic_sub_fetch(&fence->waiting, 1, __ATOMIC_RELAXED);
  clock_gettime(CLOCK_MONOTONIC, &fence->waited_until);
  __atomic_sub_fetch(&waiting, 1, __ATOMIC_RELAXED);
  return code;
}

static tenon_code_t wait_for(tenon_fence_t* fence, uint64_t value, uint64_t timeout_ns) {
  if (is("wait_gives_up_early") && timeout_ns < 1000000000u) timeout_ns /= 2;
  if (is("long_wait_overflows") && timeout_ns > (uint64_t)INT64_MAX) timeout_ns = 0;
  if (is("waits_whole_ms") && timeout_ns != UINT64_MAX) timeout_ns -= timeout_ns % 1000000;
  if (is("infinite_wait_ends") && timeout_ns == UINT64_MAX) timeout_ns = 20000000;
  if (is("ignores_timeout_hangs")) timeout_ns = UINT64_MAX;
  if (is("poll_waits_hangs") && timeout_ns == 0) timeout_ns = UINT64_MAX;
  const struct timespec at = clock_after(timeout_ns < UINT64_MAX / 4 ? timeout_ns : UINT64_MAX / 4);
  pthread_mutex_lock(&fence->mutex);
  int late =
      is("wait_needs_news") ? pthread_cond_timedwait(&fence->changed, &fence->mutex, &at) : 0;
  while (!reached(fence, value) && late != ETIMEDOUT)
    late = pthread_cond_timedwait(&fence->changed, &fence->mutex, &at);
  if (reached(fence, value) && !is("wait_needs_news")) late = 0;
  const tenon_code_t code = result_of(fence, value);
  pthread_mutex_unlock(&fence->mutex);
  if (late != 0 && is("timeout_kills_fence")) fence->failed_at = 0, fence->code = TENON_ABORTED;
  if (late != 0 && !is("late_wait_ok"))
    return fail(is("late_wait_aborts") ? TENON_ABORTED : TENON_DEADLINE_EXCEEDED,
                "the fence is not there yet");
  if (is("wait_hides_failure")) return TENON_OK;
  return code == TENON_OK || is("silent_wait") ? code
                                               : fail(code, "work that signals this fence failed");
}
