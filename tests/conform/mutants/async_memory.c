/* Devices and buffers of the asynchronous mutant. */
#include <stdlib.h>
#include <string.h>

#include "async.h"

static int opened, poisoned;

int device_was_opened(void) {
  return opened;
}

static tenon_code_t count(void* self, uint32_t* out) {
  *out = DEVICE_COUNT;
  return (void)self, TENON_OK;
}

static tenon_code_t check_ordinal(uint32_t ordinal) {
  return ordinal < DEVICE_COUNT ? TENON_OK : fail(TENON_NOT_FOUND, "there are two devices");
}

static tenon_code_t info(void* self, uint32_t ordinal, tenon_device_info_t* out) {
  const tenon_code_t code = check_ordinal(ordinal);
  if (code != TENON_OK) return code;
  const tenon_device_info_t made = {.size_bytes = sizeof made,
                                    .threading = TENON_THREADING_FREE,
                                    .kind = TENON_STR("async"),
                                    .description = TENON_STR("two devices with queues"),
                                    .target = TENON_STR("async"),
                                    .alignment_bytes = ALIGNMENT};
  (void)self;
  return tenon_record_give(out, &made, sizeof made) == TENON_OK
             ? TENON_OK
             : fail(TENON_INVALID_ARGUMENT, "the record has no size_bytes");
}

static tenon_code_t open_device(void* self, uint32_t ordinal, tenon_device_t** out) {
  const tenon_code_t code = check_ordinal(ordinal);
  if (code != TENON_OK) return code;
  *out = device_at(ordinal);
  (*out)->ordinal = ordinal;
  opened = 1;
  return (void)self, TENON_OK;
}

static tenon_code_t close_device(void* self, tenon_device_t* device) {
  return (void)self, (void)device, TENON_OK;
}

static tenon_code_t alloc(void* self, tenon_device_t* device, uint64_t size, tenon_buffer_t** out) {
  (void)self, (void)device;
  if (size > SIZE_MAX / 4) return fail(TENON_RESOURCE_EXHAUSTED, "so much memory there is not");
  tenon_buffer_t* buffer = calloc(1, sizeof *buffer);
  unsigned char* data = aligned_alloc(ALIGNMENT, (size / ALIGNMENT + 1) * ALIGNMENT);
  if (data == NULL && is("exhaustion_aborts")) abort();
  if (data == NULL && is("failed_alloc_counts"))
    __atomic_add_fetch(&device->used_bytes, size, __ATOMIC_RELAXED);
  if (data == NULL && is("exhaustion_is_internal")) return fail(TENON_INTERNAL, "malloc");
  if (buffer == NULL || data == NULL) {
    free(buffer);
    free(data);
    return fail(TENON_RESOURCE_EXHAUSTED, "so much memory there is not");
  }
  buffer->size_bytes = size;
  buffer->data = data;
  const uint64_t used = __atomic_add_fetch(&device->used_bytes, size, __ATOMIC_RELAXED);
  if (used > device->peak_bytes) device->peak_bytes = used;
  *out = buffer;
  return TENON_OK;
}

static tenon_code_t release(void* self, tenon_device_t* device, tenon_buffer_t* buffer) {
  (void)self, (void)device;
  if (!buffer->imported) {
    __atomic_sub_fetch(&device->used_bytes, buffer->size_bytes, __ATOMIC_RELAXED);
    free(buffer->data);
  }
  free(buffer->shadow);
  free(buffer);
  return TENON_OK;
}

typedef struct {
  tenon_device_t* device;
  tenon_buffer_t* buffer;
  uint32_t count;
  tenon_fence_point_t points[MAX_POINTS];
} freed_t;

static void* free_later(void* argument) {
  freed_t* f = argument;
  for (uint32_t i = 0; i < f->count; ++i) {
    if (f->points[i].fence == NULL && is("free_behind_null_ends")) break;
    if (f->points[i].fence == NULL) continue;
    queue_api.fence_wait(NULL, f->points[i].fence, f->points[i].value, UINT64_MAX);
    if (is("free_behind_the_first")) break;
  }
  if (!f->buffer->imported) memset(f->buffer->data, 0xdd, f->buffer->size_bytes);
  if (!is("free_behind_leaks")) release(NULL, f->device, f->buffer);
  free(f);
  return NULL;
}

static tenon_code_t free_behind(void* self, tenon_device_t* device, tenon_buffer_t* buffer,
                                const tenon_fence_point_t* points, uint32_t count) {
  (void)self;
  freed_t* f = calloc(1, sizeof *f);
  f->device = device;
  f->buffer = buffer;
  f->count = is("free_behind_nothing") ? 0 : count < MAX_POINTS ? count : MAX_POINTS;
  memcpy(f->points, points, f->count * sizeof *points);
  if (is("free_behind_waits_hangs")) return free_later(f), TENON_OK;
  pthread_t thread;
  pthread_create(&thread, NULL, free_later, f);
  pthread_detach(thread);
  return TENON_OK;
}

tenon_code_t memory_check_kind(const tenon_copy_t* c) {
  const uint32_t width = c->pattern_bytes;
  if (c->direction == 0 || c->direction > TENON_COPY_FILL)
    return fail(TENON_INVALID_ARGUMENT, "there is no such direction");
  if (c->direction == TENON_COPY_FILL &&
      ((width != 1 && width != 2 && width != 4 && width != 8) || c->length_bytes % width != 0))
    return fail(TENON_INVALID_ARGUMENT,
                "a pattern has 1, 2, 4 or 8 bytes and fills a multiple of them");
  return TENON_OK;
}

tenon_code_t memory_copy(const tenon_copy_t* c) {
  const tenon_code_t code = tenon_simple_check_copy(
      host, c, c->from != NULL ? c->from->size_bytes : 0, c->to != NULL ? c->to->size_bytes : 0);
  if (code != TENON_OK || c->length_bytes == 0) return code;
  const unsigned char* from = c->from != NULL ? c->from->data + c->from_offset_bytes : c->host_from;
  unsigned char* to = c->to != NULL ? c->to->data + c->to_offset_bytes : c->host_to;
  if (c->direction != TENON_COPY_FILL) return memmove(to, from, c->length_bytes), TENON_OK;
  for (uint64_t i = 0; i < c->length_bytes; i += c->pattern_bytes)
    memcpy(to + i, &c->pattern, c->pattern_bytes);
  return TENON_OK;
}

typedef struct {
  const tenon_copy_t* copy;
  tenon_code_t code;
} elsewhere_t;
static void* copy_in_thread(void* argument) {
  elsewhere_t* e = argument;
  e->code = memory_copy(e->copy);
  return NULL;
}
static tenon_code_t copy_elsewhere(const tenon_copy_t* c) {
  pthread_t thread;
  elsewhere_t e = {c, TENON_OK};
  pthread_create(&thread, NULL, copy_in_thread, &e);
  pthread_join(thread, NULL);
  return e.code;
}

static tenon_code_t copy(void* self, tenon_device_t* device, const tenon_copy_t* c) {
  (void)self;
  drain_for_copy(device);
  const tenon_code_t reported = device->reported;
  device->reported = TENON_OK;
  if (reported != TENON_OK) return fail(reported, "a copy failed");
  if (poisoned) return fail(TENON_INTERNAL, "a copy failed before");
  static tenon_code_t first;
  if (is("fails_on_another_thread")) return copy_elsewhere(c);
  const tenon_code_t code = memory_copy(c);
  if (first == TENON_OK) first = code;
  if (code != TENON_OK && is("reports_the_first_failure"))
    return fail(first, "a copy failed"), code;
  if (code != TENON_OK && is("failed_copy_poisons")) poisoned = 1;
  if (code != TENON_OK && is("failed_copy_reported_twice")) device->reported = code;
  return code;
}

static tenon_code_t map(void* self, tenon_device_t* device, tenon_buffer_t* buffer, void** out) {
  (void)self, (void)device;
  *out = buffer->data;
  if (is("map_of_a_copy")) {
    if (buffer->shadow == NULL)
      buffer->shadow = aligned_alloc(ALIGNMENT, (buffer->size_bytes / ALIGNMENT + 1) * ALIGNMENT);
    memcpy(buffer->shadow, buffer->data, buffer->size_bytes);
    *out = buffer->shadow;
  }
  return TENON_OK;
}

static tenon_code_t memory(void* self, tenon_device_t* device, uint64_t* used, uint64_t* peak) {
  *used = device->used_bytes;
  *peak = device->peak_bytes;
  return (void)self, (void)device, TENON_OK;
}

const tenon_device_api_t device_api = {
    sizeof device_api, NULL, count, info, open_device, close_device, alloc,
    release,           copy, map,   NULL, memory,      NULL,         NULL,
    free_behind};
