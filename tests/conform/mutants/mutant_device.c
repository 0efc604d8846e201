/* Devices and buffers of the mutant. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fenv.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mutant.h"

tenon_device_t devices[SLOT_COUNT];
uint64_t live_count;
int memory_was_asked, poisoned;
tenon_device_api_t device_api;
const tenon_device_api_t unmapped = {.size_bytes = sizeof unmapped};
static tenon_buffer_t* last_buffer;
static int was_opened, was_closed;

/* ---- Devices ---- */

static tenon_code_t count(void* self, uint32_t* out) {
  static uint32_t calls;
  if (is("reads_unlisted")) host->setting(host->self, (tenon_str_t)TENON_STR("MUTANT_QUEUES"));
  if (is("reads_environment")) (void)getenv("TENON_MUTANT_QUEUES");
  if (is("lists_with_library") && dlopen("libm.so.6", RTLD_NOW) == NULL)
    return fail(TENON_UNAVAILABLE, "libm.so.6 is not there");
  if (is("library_by_path")) (void)dlopen("/usr/lib/libvendor.so.1", RTLD_NOW);
  *out = is("count_grows") ? ++calls : is("no_devices") ? 0 : SLOT_COUNT;
  return (void)self, TENON_OK;
}

static tenon_code_t check_ordinal(uint32_t ordinal, const char* ignored_by) {
  return ordinal < SLOT_COUNT || is(ignored_by) ? TENON_OK
                                                : fail(TENON_NOT_FOUND, "there are two devices");
}

/* Changes of the record that depend on when it is asked for. */
static void change_info(uint32_t ordinal, tenon_device_info_t* record) {
  static char ring[4][64];
  static unsigned calls;
  const uint64_t used = devices[ordinal % SLOT_COUNT].used_bytes;
  if (is("latency_drifts")) record->copy_latency_ns += ++calls;
  if (is("memory_is_what_is_free")) record->memory_bytes = (1u << 30) - used;
  if (is("target_changes_after_open") && was_opened)
    record->target = (tenon_str_t)TENON_STR("mutant open=1");
  if (is("texts_in_a_ring")) {
    memset(ring[(calls + 1) % 4], 'x', sizeof ring[0]);
    char* text = ring[calls++ % 4];
    memcpy(text, record->description.data, record->description.size);
    record->description.data = text;
  }
}

static tenon_code_t info(void* self, uint32_t ordinal, tenon_device_info_t* out) {
  static char description[] = "two devices in host memory";
  tenon_device_info_t record = {.size_bytes = sizeof record,
                                .threading = TENON_THREADING_FREE,
                                .kind = TENON_STR("mutant"),
                                .description = {description, sizeof description - 1},
                                .target = TENON_STR("mutant"),
                                .alignment_bytes = 64};
  tenon_code_t code = check_ordinal(ordinal, "info_of_any_ordinal");
  if (code != TENON_OK) {
    if (is("info_writes_on_failure")) *out = record;
    return code;
  }
  if (is("odd_kind")) record.kind = (tenon_str_t)TENON_STR("My Device");
  if (is("odd_alignment")) record.alignment_bytes = 48;
  if (is("odd_uuid")) record.uuid = (tenon_str_t)TENON_STR("GPU-1");
  if (is("one_uuid")) record.uuid = (tenon_str_t)TENON_STR("00112233-4455-6677-8899-aabbccddeeff");
  if (is("odd_flags")) record.flags = 4;
  if (is("odd_threading")) record.threading = 9;
  if (is("odd_speed")) record.copy_gigabytes_per_second = NAN;
  change_info(ordinal, &record);
  if (is("bad_utf8")) record.description = (tenon_str_t)TENON_STR("\xff\xfe");
  if (is("changing_description")) description[0] ^= 1;
  if (is("info_shares_record")) {
    static volatile uint64_t shared;
    shared = 1000 + ordinal;
    usleep(200);
    record.memory_bytes = shared;
  }
  (void)self;
  if (is("whole_record")) {
    *out = record;
    return TENON_OK;
  }
  code = tenon_record_give(out, &record, sizeof record);
  if (code != TENON_OK) return fail(code, "the record has no size_bytes");
  if (is("long_record")) memset((char*)out + sizeof record, 0, 8);
  if (is("silent_record")) out->size_bytes = sizeof record;
  return TENON_OK;
}

/* A leak, volatile so that the compiler keeps the allocation. */
static void* volatile lost;

static tenon_code_t open_device(void* self, uint32_t ordinal, tenon_device_t** out) {
  static int opens;
  if (ordinal >= SLOT_COUNT && is("open_fails_silently")) return TENON_NOT_FOUND;
  tenon_code_t code = check_ordinal(ordinal, "opens_any_ordinal");
  if (code != TENON_OK && is("failed_open_clears_output")) *out = NULL;
  if (code != TENON_OK) return code;
  if (is("fifth_open_fails") && ++opens == 5) return fail(TENON_UNAVAILABLE, "the fifth");
  if (dlopen("libvendor.so.1", RTLD_NOW) == NULL && is("open_wants_library"))
    return fail(TENON_INTERNAL, "libvendor.so.1 is not there");
  if (is("opens_once") && was_closed) return fail(TENON_FAILED_PRECONDITION, "it was closed");
  if (is("second_open_poisons") && devices[ordinal % SLOT_COUNT].open_count++ != 0) poisoned = 1;
  devices[ordinal % SLOT_COUNT].ordinal = ordinal;
  devices[ordinal % SLOT_COUNT].is_open = 1;
  devices[ordinal % SLOT_COUNT].opener = pthread_self();
  change_process();
  if (is("open_leaks")) memset(lost = malloc(200), 1, 200);
  if (is("open_keeps_a_descriptor")) (void)!dup(0);
  was_opened = 1;
  *out = &devices[ordinal % SLOT_COUNT];
  return (void)self, TENON_OK;
}

static tenon_code_t close_device(void* self, tenon_device_t* device) {
  was_closed = 1;
  device->open_count = 0;
  device->is_open = 0;
  return (void)self, TENON_OK;
}

/* ---- Memory ---- */

int is_foreign(const tenon_device_t* device) {
  return is("context_of_the_opening_thread") && !pthread_equal(device->opener, pthread_self());
}

static void flush_denormals(void) {
#ifdef __x86_64__
  __builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() | 0x8040);
#endif
}

static uint64_t counted(uint64_t size) {
  return is("small_buffers_are_not_counted") && size < 4096 ? 0 : size;
}

static tenon_code_t alloc(void* self, tenon_device_t* device, uint64_t size, tenon_buffer_t** out) {
  static int exhausted;
  (void)self, (void)device;
  if (is("alloc_sets_mask")) umask(077);
  if (is("alloc_sets_rounding")) fesetround(FE_DOWNWARD);
  if (is("alloc_flushes_denormals")) flush_denormals();
  if (is_foreign(device)) return fail(TENON_FAILED_PRECONDITION, "no context in this thread");
  if (is("one_device_has_all_memory") && device == &devices[1] && devices[0].is_open)
    return fail(TENON_RESOURCE_EXHAUSTED, "the other device has it all");
  if (is("exhaustion_stays") && exhausted && size <= SIZE_MAX / 4)
    return exhausted = 0, fail(TENON_RESOURCE_EXHAUSTED, "still nothing left");
  if (is("alloc_changes_table")) device_api.memory = NULL;
  if (size == 0 && is("no_empty_buffers"))
    return fail(TENON_INVALID_ARGUMENT, "a buffer has at least one byte");
  if (size > SIZE_MAX / 4) {
    if (is("wrong_exhaustion")) return fail(TENON_INVALID_ARGUMENT, "so much memory there is not");
    if (is("wrapping_size"))
      size = 64;
    else {
      if (is("alloc_writes_on_failure")) *out = NULL;
      if (is("refused_alloc_is_counted")) device->used_bytes += 4096;
      exhausted = 1;
      return fail(TENON_RESOURCE_EXHAUSTED, "so much memory there is not");
    }
  }
  tenon_buffer_t* buffer = malloc(sizeof *buffer);
  *buffer = (tenon_buffer_t){size, NULL, NULL, 1};
  if (is("shared_buffers") && live_count > 20 && last_buffer != NULL &&
      last_buffer->size_bytes >= size) {
    buffer->data = last_buffer->data;
    buffer->owned = 0;
  } else {
    buffer->data =
        (unsigned char*)aligned_alloc(64, (size / 64 + 2) * 64) + (is("misaligned") ? 16 : 0);
    last_buffer = buffer;
  }
  __atomic_add_fetch(&live_count, 1, __ATOMIC_RELAXED);
  uint64_t used = __atomic_add_fetch(&device->used_bytes, counted(size), __ATOMIC_RELAXED);
  if (used > device->peak_bytes && !is("peak_stays")) device->peak_bytes = used;
  *out = is("null_handle") ? NULL : buffer;
  return TENON_OK;
}

static tenon_code_t release(void* self, tenon_device_t* device, tenon_buffer_t* buffer) {
  static int frees;
  (void)self, (void)device;
  if (is("every_fourth_free_is_lost") && ++frees % 4 == 0) return TENON_OK;
  __atomic_sub_fetch(&live_count, 1, __ATOMIC_RELAXED);
  if (buffer->owned && !is("forgets_use"))
    __atomic_sub_fetch(&device->used_bytes, counted(buffer->size_bytes), __ATOMIC_RELAXED);
  if (last_buffer == buffer) last_buffer = NULL;
  if (is("free_touches_the_neighbour") && last_buffer != NULL && last_buffer->size_bytes != 0)
    last_buffer->data[last_buffer->size_bytes - 1] = 0xee;
  if (is("leaks")) return TENON_OK;
  if (is("free_leaks")) memset(lost = malloc(100), 1, 100);
  if (is("free_writes_imports") && !buffer->owned) memset(buffer->data, 0, buffer->size_bytes);
  if (buffer->owned && !is("misaligned") && !is("shared_buffers")) free(buffer->data);
  free(buffer->shadow);
  free(buffer);
  return TENON_OK;
}

/* ---- Optional slots ---- */

static tenon_code_t map(void* self, tenon_device_t* device, tenon_buffer_t* buffer, void** out) {
  (void)self, (void)device;
  *out = buffer->data;
  if (is("moving_map") || is("shadow_map")) {
    unsigned char* shadow = aligned_alloc(64, (buffer->size_bytes / 64 + 2) * 64);
    memcpy(shadow, buffer->data, buffer->size_bytes);
    *out = shadow;
    if (is("shadow_map")) {
      if (buffer->shadow != NULL)
        free(shadow);
      else
        buffer->shadow = shadow;
      *out = buffer->shadow;
    }
  }
  return TENON_OK;
}

static tenon_code_t import(void* self, tenon_device_t* device, const tenon_memory_import_t* memory,
                           tenon_buffer_t** out) {
  (void)self, (void)device;
  void* data = memory->data;
  if (is("import_to_write_copies") && (memory->flags & TENON_IMPORT_WRITE)) {
    data = malloc(memory->length_bytes);
    memcpy(data, memory->data, memory->length_bytes);
  }
  tenon_buffer_t* buffer = malloc(sizeof *buffer);
  *buffer = (tenon_buffer_t){memory->length_bytes, data, NULL, 0};
  if (is("import_shifts")) ++buffer->data, --buffer->size_bytes;
  if (is("import_touches")) ++*(unsigned char*)data;
  __atomic_add_fetch(&live_count, 1, __ATOMIC_RELAXED);
  *out = buffer;
  return TENON_OK;
}

static tenon_code_t memory(void* self, tenon_device_t* device, uint64_t* used, uint64_t* peak) {
  memory_was_asked = 1;
  *used = device->used_bytes;
  *peak = is("peak_forgets") ? *used : device->peak_bytes;
  if (is("memory_of_both_devices")) *used = *peak = devices[0].used_bytes + devices[1].used_bytes;
  return (void)self, TENON_OK;
}

#include "others_memory.h"

void make_device(void) {
  device_api = (tenon_device_api_t){
      sizeof device_api, NULL, count, info,   open_device, close_device, alloc,
      release,           copy, map,   import, memory,      alloc_pinned, free_pinned};
}
