/* A good device and, with CONFORM_MUTANT=NAME, one that does one thing wrong. mutants.py has each
 * name with the check that must catch it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <fenv.h>
#include <float.h>
#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "tenon/abi/exchange.h"
#include "tenon/abi/simple_device.h"
#include "tenon/abi/simple_kernels.h"

#define SLOT_COUNT 2

struct tenon_device_t {
  uint32_t ordinal, open_count;
  uint64_t used_bytes, peak_bytes;
};
struct tenon_buffer_t {
  uint64_t size_bytes;
  unsigned char *data, *shadow;
  int owned;
};

static const tenon_host_t* host;
static tenon_device_t devices[SLOT_COUNT];
static uint64_t live_count;
static tenon_buffer_t* last_buffer;
static int was_opened, was_closed, memory_was_asked, poisoned;
static tenon_kernels_api_t kernels;
static tenon_device_api_t device_api;

static int used_at_end(void) {
  return live_count != 0;
}

static int is(const char* name) {
  const char* mutant = getenv("CONFORM_MUTANT");
  return mutant != NULL && strcmp(mutant, name) == 0;
}

static tenon_code_t fail(tenon_code_t code, const char* text) {
  if (is("silent_errors")) return code;
  if (is("other_code")) return tenon_simple_failure(host, TENON_UNKNOWN, text), code;
  return tenon_simple_failure(host, code, text);
}

/* ---- Side effects of opening the library ---- */

static void handler(int signal) {
  (void)signal;
}

__attribute__((constructor)) static void constructor(void) {
  if (is("slow_open")) {
    struct timespec now = {0};
    while (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now) == 0 && now.tv_sec < 1) continue;
  }
  if (is("loud_open")) puts("hello from a plugin");
  if (is("crash_open")) abort();
  if (is("signal_handler")) signal(SIGUSR1, handler);
  if (is("rounding")) fesetround(FE_UPWARD);
  if (is("mask")) umask(077);
  if (is("folder") && chdir("/") != 0) abort();
  if (is("descriptor") && open("/dev/null", O_RDONLY) < 0) abort();
}

__attribute__((destructor)) static void destructor(void) {
  if (is("destructor_aborts")) abort();
  if (is("destructor_needs_device") && used_at_end()) abort();
}

static void fork_handler(void) {
  if (is("fork_aborts")) abort();
}

static void* sleeper(void* unused) {
  sleep(20);
  return unused;
}

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

static tenon_code_t check_ordinal(uint32_t ordinal) {
  return ordinal < SLOT_COUNT || is("any_ordinal") ? TENON_OK
                                                   : fail(TENON_NOT_FOUND, "there are two devices");
}

static tenon_code_t info(void* self, uint32_t ordinal, tenon_device_info_t* out) {
  static char description[] = "two devices in host memory";
  tenon_device_info_t record = {.size_bytes = sizeof record,
                                .threading = TENON_THREADING_FREE,
                                .kind = TENON_STR("mutant"),
                                .description = {description, sizeof description - 1},
                                .target = TENON_STR("mutant"),
                                .alignment_bytes = 64};
  tenon_code_t code = check_ordinal(ordinal);
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
  tenon_code_t code = check_ordinal(ordinal);
  if (code != TENON_OK) return code;
  if (dlopen("libvendor.so.1", RTLD_NOW) == NULL && is("open_wants_library"))
    return fail(TENON_INTERNAL, "libvendor.so.1 is not there");
  if (is("opens_once") && was_closed) return fail(TENON_FAILED_PRECONDITION, "it was closed");
  if (is("second_open_poisons") && devices[ordinal % SLOT_COUNT].open_count++ != 0) poisoned = 1;
  devices[ordinal % SLOT_COUNT].ordinal = ordinal;
  if (is("fork_aborts")) pthread_atfork(NULL, NULL, fork_handler);
  if (is("loose_thread")) {
    pthread_t thread;
    pthread_create(&thread, NULL, sleeper, NULL);
  }
  if (is("open_leaks")) memset(lost = malloc(200), 1, 200);
  if (is("open_keeps_a_descriptor")) (void)!dup(0);
  was_opened = 1;
  *out = &devices[ordinal % SLOT_COUNT];
  return (void)self, TENON_OK;
}

static tenon_code_t close_device(void* self, tenon_device_t* device) {
  was_closed = 1;
  device->open_count = 0;
  return (void)self, TENON_OK;
}

/* ---- Memory ---- */

static tenon_code_t alloc(void* self, tenon_device_t* device, uint64_t size, tenon_buffer_t** out) {
  (void)self, (void)device;
  if (is("alloc_sets_mask")) umask(077);
  if (is("alloc_sets_rounding")) fesetround(FE_DOWNWARD);
  if (is("alloc_changes_table")) device_api.memory = NULL;
  if (size == 0 && is("no_empty_buffers"))
    return fail(TENON_INVALID_ARGUMENT, "a buffer has at least one byte");
  if (size > SIZE_MAX / 4) {
    if (is("wrong_exhaustion")) return fail(TENON_INVALID_ARGUMENT, "so much memory there is not");
    if (is("wrapping_size"))
      size = 64;
    else {
      if (is("alloc_writes_on_failure")) *out = NULL;
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
  uint64_t used = __atomic_add_fetch(&device->used_bytes, size, __ATOMIC_RELAXED);
  if (used > device->peak_bytes && !is("peak_stays")) device->peak_bytes = used;
  *out = is("null_handle") ? NULL : buffer;
  return TENON_OK;
}

static tenon_code_t release(void* self, tenon_device_t* device, tenon_buffer_t* buffer) {
  (void)self, (void)device;
  __atomic_sub_fetch(&live_count, 1, __ATOMIC_RELAXED);
  if (buffer->owned && !is("forgets_use"))
    __atomic_sub_fetch(&device->used_bytes, buffer->size_bytes, __ATOMIC_RELAXED);
  if (last_buffer == buffer) last_buffer = NULL;
  if (is("leaks")) return TENON_OK;
  if (is("free_leaks")) memset(lost = malloc(100), 1, 100);
  if (is("free_writes_imports") && !buffer->owned) memset(buffer->data, 0, buffer->size_bytes);
  if (buffer->owned && !is("misaligned") && !is("shared_buffers")) free(buffer->data);
  free(buffer->shadow);
  free(buffer);
  return TENON_OK;
}

static struct {
  unsigned char* to;
  const void* from;
  uint64_t length;
} late; /* the copy that late_copies has not made yet */

static void make_late_copy(void) {
  if (late.to != NULL) memcpy(late.to, late.from, late.length);
  late.to = NULL;
}

static unsigned char stage[65536];

static void move(const tenon_copy_t* c, unsigned char* to, const unsigned char* from) {
  uint64_t length = c->length_bytes;
  if (is("late_copies")) make_late_copy();
  if (is("late_copies") && c->direction == TENON_COPY_HOST_TO_DEVICE) {
    late.to = to, late.from = from, late.length = length;
    return;
  }
  if (is("shared_stage") && length <= sizeof stage && c->direction != TENON_COPY_DEVICE_TO_DEVICE) {
    memcpy(stage, from, length);
    usleep(500);
    from = stage;
  }
  if (is("loses_last_byte") && length > 33 && c->direction == TENON_COPY_HOST_TO_DEVICE) --length;
  if (is("copies_at_most_16_mib") && length > (16u << 20)) length = 16u << 20;
  if (is("rounds_up") && c->to != NULL && c->to_offset_bytes + length + 4 <= c->to->size_bytes)
    length = (length + 7) / 8 * 8;
  if (is("rounds_up_reads") && c->direction == TENON_COPY_DEVICE_TO_HOST && length == 100)
    length += 8;
  memmove(to, from, length);
}

static void fill(const tenon_copy_t* c, unsigned char* to) {
  for (uint64_t i = 0; i < c->length_bytes; ++i) {
    const uint64_t at =
        is("big_endian_fill") ? c->pattern_bytes - 1 - i % c->pattern_bytes : i % c->pattern_bytes;
    to[i] = (unsigned char)(c->pattern >> 8 * (at % 8));
  }
  if (is("fill_overshoots") && c->length_bytes == 100) to[100] = 0;
}

static tenon_code_t check(const tenon_copy_t* c) {
  const uint64_t from_size = c->from != NULL ? c->from->size_bytes : 0,
                 to_size = c->to != NULL ? c->to->size_bytes : 0;
  if (is("no_empty_copies") && c->length_bytes == 0)
    return fail(TENON_INVALID_ARGUMENT, "a copy has at least one byte");
  if (is("any_width") && c->direction == TENON_COPY_FILL && c->pattern_bytes != 0) return TENON_OK;
  if (is("any_direction") && (c->direction == 0 || c->direction > TENON_COPY_FILL)) return TENON_OK;
  if (is("wrapping_ranges") || is("silent_ranges")) {
    if ((c->from != NULL && c->from_offset_bytes + c->length_bytes > from_size) ||
        (c->to != NULL && c->to_offset_bytes + c->length_bytes > to_size)) {
      return is("silent_ranges") ? TENON_OUT_OF_RANGE : fail(TENON_OUT_OF_RANGE, "out of range");
    }
    return TENON_OK;
  }
  return tenon_simple_check_copy(host, c, from_size, to_size);
}

static tenon_code_t copy(void* self, tenon_device_t* device, const tenon_copy_t* c) {
  (void)self;
  if (is("needs_memory_slot") && !memory_was_asked)
    return fail(TENON_FAILED_PRECONDITION, "nobody asked for the memory in use");
  tenon_code_t code = check(c);
  if (code != TENON_OK || c->length_bytes == 0) return code;
  if (c->direction == 0 || c->direction > TENON_COPY_FILL) return TENON_OK; /* any_direction */
  if (is("second_device_drops") && device->ordinal == 1 &&
      c->direction == TENON_COPY_HOST_TO_DEVICE)
    return TENON_OK;
  const unsigned char* from = c->from != NULL ? c->from->data + c->from_offset_bytes : c->host_from;
  unsigned char* to = c->to != NULL ? c->to->data + c->to_offset_bytes : c->host_to;
  if (is("ignores_from_offset") && c->direction == TENON_COPY_DEVICE_TO_DEVICE)
    from = c->from->data;
  if (poisoned && c->direction == TENON_COPY_DEVICE_TO_HOST)
    return memset(to, 0, c->length_bytes), TENON_OK;
  static const tenon_copy_t* kept;
  static const unsigned char* kept_source;
  if (is("keeps_record") && kept != NULL && kept->direction == 77) abort();
  if (is("keeps_source") && kept_source != NULL && *kept_source == 77) abort();
  kept = is("keeps_record") ? c : NULL;
  kept_source =
      is("keeps_source") && c->from == NULL && c->direction != TENON_COPY_FILL ? from : NULL;
  if (c->direction == TENON_COPY_FILL) return fill(c, to), TENON_OK;
  if (is("frees_source") && c->direction == TENON_COPY_HOST_TO_DEVICE) {
    memmove(to, from, c->length_bytes);
    free((void*)(uintptr_t)from);
    return TENON_OK;
  }
  return move(c, to, from), TENON_OK;
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
  *peak = device->peak_bytes;
  return (void)self, TENON_OK;
}

#include "others_memory.h"

/* ---- The query ---- */

static tenon_code_t shutdown(void* self) {
  if (is("shutdown_wants_all_freed") && live_count != 0)
    return fail(TENON_FAILED_PRECONDITION, "there are buffers left");
  if (is("shutdown_fails")) return fail(TENON_INTERNAL, "it cannot end");
  return (void)self, TENON_OK;
}

/* ---- Kernels ---- */

static float scratch[4096];

static tenon_code_t add_f32(const tenon_simple_run_t* run) {
  const tenon_kernel_args_t* args = run->args;
  const uint64_t n = run->outputs[0].elements;
  const float* a = (const float*)(args->inputs[0]->data + args->input_offsets_bytes[0]);
  const float* b = (const float*)(args->inputs[1]->data + args->input_offsets_bytes[1]);
  float* out = (float*)(args->outputs[0]->data + args->output_offsets_bytes[0]);
  if (is("no_empty_kernels") && n == 0)
    return fail(TENON_INVALID_ARGUMENT, "there is nothing to add");
  const uint64_t done = is("loses_tail") && n > 4 ? n / 4 * 4 : n;
  const uint64_t count = args->part_count, begin = n * args->part_index / count;
  const uint64_t end = args->part_index + 1 == count ? done : n * (args->part_index + 1) / count;
  if (is("first_part_clears") && args->part_index == 0) memset(out, 0, n * sizeof *out);
  static uint32_t next_part;
  if (is("parts_in_order")) {
    if (args->part_index == 0) next_part = 0;
    if (next_part++ != args->part_index) return TENON_OK;
  }
  for (uint64_t i = begin; i < end; ++i) {
    out[i] = a[i] + b[i];
    if (is("wrong_sum") && i == n - 1) out[i] += 1;
    if (is("small_beside_large") && out[i] > 0.1f && out[i] < 0.6f) out[i] += 1;
    if (is("denormals_become_normal") && out[i] != 0 && fabsf(out[i]) < FLT_MIN)
      out[i] = copysignf(FLT_MIN, out[i]);
    if (is("flushes_to_the_wrong_sum") && fabsf(b[i]) < FLT_MIN && b[i] != 0) out[i] = 0;
    if (is("loses_zero_sign")) out[i] += 0.0f;
    if (is("loses_nan") && out[i] != out[i]) out[i] = 0;
    if (is("one_buffer_wrong") && a == b) out[i] = a[i];
  }
  if (is("run_writes_behind") && n != 0) out[n] = 0;
  if (is("run_writes_before") && n != 0) out[-1] = 0;
  if (is("run_writes_input") && n > 3) ((float*)(uintptr_t)a)[2] = 7;
  if (is("shared_scratch") && n < 4096) {
    memcpy(scratch, out, n * sizeof(float));
    usleep(1000);
    for (uint64_t i = 0; i < n; ++i) out[i] = scratch[i] * 1.0f;
    for (uint64_t i = 0; i < n; ++i) scratch[i] = 0;
  }
  return TENON_OK;
}

static tenon_code_t add_i32(const tenon_simple_run_t* run) {
  const tenon_kernel_args_t* args = run->args;
  const uint64_t n = run->outputs[0].elements;
  const uint32_t* a = (const uint32_t*)(args->inputs[0]->data + args->input_offsets_bytes[0]);
  const uint32_t* b = (const uint32_t*)(args->inputs[1]->data + args->input_offsets_bytes[1]);
  uint32_t* out = (uint32_t*)(args->outputs[0]->data + args->output_offsets_bytes[0]);
  for (uint64_t i = 0; i < n; ++i) {
    out[i] = a[i] + b[i];
    if (is("saturates") && (int32_t)a[i] > 0 && (int32_t)b[i] > 0 && (int32_t)out[i] < 0)
      out[i] = INT32_MAX;
  }
  return TENON_OK;
}

/* Selects between two f32 values, by a predicate for each element or by one for all. */
static tenon_code_t select_by(const tenon_simple_run_t* run, uint64_t step) {
  const tenon_kernel_args_t* args = run->args;
  const uint64_t n = run->outputs[0].elements;
  const unsigned char* p = args->inputs[0]->data + args->input_offsets_bytes[0];
  const float* a = (const float*)(args->inputs[1]->data + args->input_offsets_bytes[1]);
  const float* b = (const float*)(args->inputs[2]->data + args->input_offsets_bytes[2]);
  float* out = (float*)(args->outputs[0]->data + args->output_offsets_bytes[0]);
  for (uint64_t i = 0; i < n; ++i) out[i] = p[i * step] ? a[i] : b[i];
  return TENON_OK;
}
static tenon_code_t select_each(const tenon_simple_run_t* run) {
  return select_by(run, 1);
}
static tenon_code_t select_all(const tenon_simple_run_t* run) {
  return select_by(run, 0);
}

static tenon_code_t to_i32(const tenon_simple_run_t* run) {
  const tenon_kernel_args_t* args = run->args;
  const uint64_t n = run->outputs[0].elements;
  const float* x = (const float*)(args->inputs[0]->data + args->input_offsets_bytes[0]);
  int32_t* out = (int32_t*)(args->outputs[0]->data + args->output_offsets_bytes[0]);
  for (uint64_t i = 0; i < n; ++i) {
    out[i] = x[i] >= 0x1p31f   ? INT32_MAX
             : x[i] > -0x1p31f ? (int32_t)x[i]
             : x[i] < 0        ? INT32_MIN
                               : 0;
    if (is("conversion_wraps") && fabsf(x[i]) < 0x1p62f) out[i] = (int32_t)(uint32_t)(int64_t)x[i];
    if (is("conversion_rounds") && fabsf(x[i]) < 0x1p30f) out[i] = (int32_t)lrintf(x[i]);
  }
  return TENON_OK;
}

static const tenon_simple_kernel_t kKernels[] = {
    {"add", TENON_DTYPE_BIT(TENON_F32), NULL, add_f32},
    {"add", TENON_DTYPE_BIT(TENON_I32), NULL, add_i32},
    {"select", TENON_DTYPE_BIT(TENON_PRED) | TENON_DTYPE_BIT(TENON_F32), NULL, select_each},
    {"convert", TENON_DTYPE_BIT(TENON_F32) | TENON_DTYPE_BIT(TENON_I32), NULL, to_i32}};
static const tenon_simple_kernel_t kSelectAll = {
    "select", TENON_DTYPE_BIT(TENON_PRED) | TENON_DTYPE_BIT(TENON_F32), NULL, select_all};
enum { KERNELS = sizeof kKernels / sizeof kKernels[0] };
/* Type rules that the table cannot express: select gives f32, a conversion goes from f32 to i32. */
static int is_taken(const tenon_kernel_call_t* call) {
  const tenon_dtype_t from = tenon_kernel_operand(call, 0)->type.dtype, to = call->results[0].dtype;
  return from == TENON_PRED ? to == TENON_F32
                            : call->operand_count != 1 || (from == TENON_F32 && to == TENON_I32);
}

/* A call as a plugin sees it that takes the size of a record for granted. */
static tenon_kernel_call_t as_assumed(const tenon_kernel_call_t* call) {
  tenon_kernel_call_t assumed = *call;
  if (is("assumes_operand_size")) assumed.operand_bytes = sizeof(tenon_kernel_operand_t);
  return assumed;
}

static tenon_code_t query_any(void* self, tenon_str_t target, const tenon_kernel_call_t* call,
                              tenon_kernel_candidate_t* out) {
  (void)self, (void)target, (void)call;
  *out = (tenon_kernel_candidate_t){
      .size_bytes = sizeof *out, .part_count = 1, .cost_ns = 1, .name = TENON_STR("any")};
  return TENON_OK;
}
/* Set by save, for a mutant whose kernels run only after it. */
static int was_saved;
static tenon_code_t save(void* self, tenon_kernel_t* kernel, const tenon_sink_t* sink) {
  was_saved = 1;
  return (void)self, (void)kernel, (void)sink, fail(TENON_UNIMPLEMENTED, "nothing is saved");
}
static tenon_code_t (*plain_run)(void* self, tenon_kernel_t* kernel,
                                 const tenon_kernel_args_t* args);
static tenon_code_t run_after_save(void* self, tenon_kernel_t* kernel,
                                   const tenon_kernel_args_t* args) {
  if (!was_saved) return fail(TENON_FAILED_PRECONDITION, "it was not saved");
  return plain_run(self, kernel, args);
}

/* The helper's table split into four parts, with kernels that can be saved: a saved kernel is its
 * number and its rank. */
static tenon_kernels_api_t simple;

static tenon_code_t query_parts(void* self, tenon_str_t target, const tenon_kernel_call_t* given,
                                tenon_kernel_candidate_t* out) {
  const tenon_kernel_call_t assumed = as_assumed(given), *call = &assumed;
  const tenon_code_t code = simple.query(self, target, call, out);
  if (code == TENON_OK && !is_taken(call))
    return tenon_simple_failure(host, TENON_UNIMPLEMENTED, "no kernel between these element types");
  if (code != TENON_OK) {
    if (is("refuses_kernels_silently")) tenon_simple_failure(host, TENON_UNKNOWN, "");
    return is("refuses_kernels_oddly") ? tenon_simple_failure(host, TENON_INTERNAL, "no") : code;
  }
  out->part_count = call->operand_count == 2 && call->results[0].dtype == TENON_F32 ? 4 : 1;
  if (is("nameless_kernel")) out->name = (tenon_str_t){NULL, 0};
  if (is("kernel_without_parts")) out->part_count = 0;
  if (is("kernel_of_negative_cost")) out->cost_ns = -1;
  if (is("takes_more_epilogue")) out->epilogue_taken = call->epilogue_count + 1;
  if (is("packs_too_much")) out->prepack_mask = 1u << 5;
  return TENON_OK;
}

typedef struct kept_t {
  char magic[8];
  uint32_t kernel, rank, digest, reserved;
} kept_t;

static tenon_code_t create_kernel(void* self, tenon_device_t* device,
                                  const tenon_kernel_call_t* call, tenon_kernel_t** out) {
  static int made;
  if (is("creates_one_kernel") && made++ != 0)
    return fail(TENON_RESOURCE_EXHAUSTED, "one kernel is enough");
  if (is("creates_no_matrix") && call->results[0].rank > 1)
    return fail(TENON_UNIMPLEMENTED, "vectors alone");
  const tenon_code_t code = simple.create(self, device, call, out);
  if (code != TENON_OK) return code;
  tenon_simple_instance_t* instance = (tenon_simple_instance_t*)*out;
  if (instance->kernel->run == select_each && tenon_kernel_operand(call, 0)->type.rank == 0 &&
      !is("a_predicate_for_each"))
    instance->kernel = &kSelectAll;
  return TENON_OK;
}

static uint32_t digest_of(const kept_t* kept) {
  return (kept->kernel * 31 + kept->rank + 7) * 2654435761u;
}

static tenon_code_t save_kernel(void* self, tenon_kernel_t* kernel, const tenon_sink_t* sink) {
  const tenon_simple_instance_t* instance = (const tenon_simple_instance_t*)kernel;
  if (instance->kernel > &kKernels[1] || instance->kernel < kKernels)
    return fail(TENON_UNIMPLEMENTED, "only sums are saved");
  kept_t kept = {"MUTANT1", instance->kernel == &kKernels[1], instance->tensors[0].rank, 0, 0};
  kept.digest = digest_of(&kept);
  return (void)self, sink->write(sink->self, &kept, sizeof kept);
}

static tenon_code_t restore_kernel(void* self, tenon_device_t* device, const void* bytes,
                                   uint64_t size, tenon_kernel_t** out) {
  kept_t kept = {0};
  (void)self, (void)device;
  memcpy(&kept, bytes, size < sizeof kept ? size : sizeof kept);
  if (!is("restores_anything") && (size != sizeof kept || memcmp(kept.magic, "MUTANT1", 8) != 0 ||
                                   kept.reserved != 0 || kept.digest != digest_of(&kept)))
    return fail(TENON_FAILED_PRECONDITION, "these bytes are no kernel");
  if (is("restores_nothing")) return fail(TENON_UNIMPLEMENTED, "make it again");
  tenon_simple_instance_t* instance = calloc(1, sizeof *instance);
  instance->kernel = &kKernels[(kept.kernel != 0) != is("restores_another")];
  instance->input_count = 2;
  instance->output_count = 1;
  for (int i = 0; i < 3; ++i) instance->tensors[i].rank = kept.rank;
  *out = (tenon_kernel_t*)instance;
  return TENON_OK;
}

static void make_kernels(void) {
  simple = kernels;
  kernels.query = query_parts;
  kernels.create = create_kernel;
  kernels.save = save_kernel;
  kernels.restore = restore_kernel;
}

/* Kernels take addresses from buffers, whatever the device's map does. */
static const tenon_device_api_t unmapped = {sizeof unmapped, 0};

static tenon_interface_t interfaces[4] = {{TENON_STR(TENON_DEVICE_ID), 0, 0, &device_api},
                                          {TENON_STR(TENON_KERNELS_ID), 0, 0, &kernels},
                                          {TENON_STR(TENON_EXCHANGE_ID), 0, 0, &exchange}};
static tenon_plugin_t plugin = {sizeof plugin,
                                TENON_TARGET_ABI,
                                TENON_STR("mutant"),
                                TENON_STR("0.1.0"),
                                TENON_STR(__VERSION__),
                                NULL,
                                interfaces,
                                3,
                                shutdown,
                                sizeof interfaces[0],
                                0};

#ifdef EXTRA_EXPORT
__attribute__((visibility("default"))) int second_symbol(void) {
  return 1;
}
#endif
#ifdef PRIVATE_DOOR
struct tenon_host_options_t;
tenon_code_t tenon_host_open(uint32_t abi, const struct tenon_host_options_t* options,
                             const tenon_host_t** out);
static tenon_code_t private_door(const tenon_host_t** out) {
  return tenon_host_open(TENON_ABI_VERSION, 0, out);
}
#endif
#ifdef UNDEFINED_SYMBOL
void nobody_defines_this(void);
#endif
#ifdef TEXT_RELOCATION
__asm__(".text\n.quad tenon_plugin_query\n");
#endif

static void mutate_record(void) {
  if (is("takes_everything")) kernels.query = query_any;
  if (is("run_needs_save"))
    plain_run = kernels.run, kernels.run = run_after_save, kernels.save = save;
  if (is("other_abi")) plugin.abi = 7;
  if (is("short_table")) device_api.size_bytes = sizeof device_api - 8;
  if (is("no_stride")) plugin.interface_bytes = 0;
  if (is("long_record_size")) plugin.size_bytes = sizeof plugin + 8;
  if (is("null_slot")) device_api.copy = NULL;
  if (is("id_without_major")) interfaces[1].id = (tenon_str_t)TENON_STR("tenon.kernels");
  if (is("id_twice")) interfaces[3] = interfaces[0], plugin.interface_count = 4;
  if (is("null_table")) interfaces[1].table = NULL;
  if (is("reserved_field")) interfaces[0].reserved = 1;
  if (is("control_text")) plugin.build_id = (tenon_str_t)TENON_STR("\x1b[31mred");
}

tenon_code_t tenon_plugin_query(uint32_t max_abi, const tenon_host_t* the_host,
                                const tenon_plugin_t** out) {
  pthread_t thread;
  host = the_host;
  device_api = (tenon_device_api_t){
      sizeof device_api, NULL, count, info,   open_device, close_device, alloc,
      release,           copy, map,   import, memory,      alloc_pinned, free_pinned};
#ifdef PRIVATE_DOOR
  if (is("never")) return private_door(&host);
#endif
#ifdef UNDEFINED_SYMBOL
  if (is("never")) nobody_defines_this();
#endif
  if (is("opens_in_query")) (void)dlopen("libvendor.so.1", RTLD_NOW);
  if (is("breaks_under_later_host") &&
      (host->size_bytes != sizeof *host || host->abi != TENON_ABI_VERSION))
    poisoned = 1;
  if (is("null_record_ok")) return *out = NULL, TENON_OK;
  if (is("odd_code")) return 77;
  if (is("refuses_silently")) return TENON_UNAVAILABLE;
  if (is("hangs"))
    for (;;) pause();
  if (is("sleeps")) usleep(1300000);
  if (is("old_host_crash") && max_abi < TENON_ABI_VERSION) abort();
  if (is("wants_exact_version") && max_abi != TENON_ABI_VERSION)
    return fail(TENON_FAILED_PRECONDITION, "another version");
  if (is("wants_exact_size") && host->size_bytes != sizeof *host)
    return fail(TENON_FAILED_PRECONDITION, "another size");
  if (is("starts_thread")) pthread_create(&thread, NULL, sleeper, NULL);
  tenon_code_t code = tenon_simple_kernels(host, "mutant", &unmapped, kKernels, KERNELS, &kernels);
  if (code != TENON_OK && is("ignores_missing")) abort();
  if (code != TENON_OK && is("query_writes_on_failure")) *out = &plugin;
  if (code != TENON_OK) return code;
  make_kernels();
  mutate_record();
  *out = &plugin;
  return TENON_OK;
}
