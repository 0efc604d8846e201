/* Copies of the mutant. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mutant.h"

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

/* What a faulty driver makes of a fill. */
static void bend_fill(tenon_copy_t* c) {
  const uint64_t size = c->to->size_bytes, at = c->to_offset_bytes;
  const uint32_t width = c->pattern_bytes;
  if (is("fill_of_eight_is_of_four") && width == 8) c->pattern_bytes = 4;
  if (is("fill_from_the_start")) c->length_bytes += at, c->to_offset_bytes = 0;
  if (is("fill_uses_all_of_the_pattern") && width == 1 && c->length_bytes % 4 == 0)
    c->pattern_bytes = 4;
  if (is("fill_clamps") && width != 0 && at <= size && c->length_bytes > size - at)
    c->length_bytes = (size - at) / width * width;
  if (is("fill_phase_of_the_buffer") && (width == 2 || width == 4 || width == 8)) {
    const uint64_t pattern = c->pattern;
    for (uint32_t k = 0; k < width; ++k)
      ((unsigned char*)&c->pattern)[k] = ((const unsigned char*)&pattern)[(k + at) % width];
  }
}

/* What a faulty driver makes of a copy. */
static void bend(tenon_copy_t* c) {
  const int in = c->direction == TENON_COPY_HOST_TO_DEVICE,
            between = c->direction == TENON_COPY_DEVICE_TO_DEVICE;
  const uint64_t at = c->to_offset_bytes, head = -(uintptr_t)c->host_from % 16;
  if (c->direction == TENON_COPY_FILL && c->to != NULL) bend_fill(c);
  if (is("odd_offset_is_rounded") && in) c->to_offset_bytes -= at % 2;
  if (is("target_offset_is_rounded") && between && c->length_bytes >= 128)
    c->to_offset_bytes -= at % 64;
  if (is("copy_swaps_offsets") && between)
    c->to_offset_bytes = c->from_offset_bytes, c->from_offset_bytes = at;
  if (is("large_copies_lose_their_tail") && in && c->length_bytes > 65536)
    c->length_bytes -= c->length_bytes % 64;
  if (is("unaligned_source_loses_its_head") && in && c->length_bytes >= 64)
    c->host_from = (const char*)c->host_from + head, c->to_offset_bytes += head,
    c->length_bytes -= head;
  if (is("source_is_written_back") && in && c->length_bytes != 0) {
    volatile char* first = (volatile char*)(uintptr_t)c->host_from;
    *first = *first;
  }
}

/* What a faulty driver does besides refusing a copy out of range. */
static void overrun(const tenon_copy_t* c) {
  if (is("overrun_writes_what_fits") && c->direction == TENON_COPY_HOST_TO_DEVICE &&
      c->to_offset_bytes < c->to->size_bytes)
    memcpy(c->to->data + c->to_offset_bytes, c->host_from, c->to->size_bytes - c->to_offset_bytes);
  if (is("overrun_clears_the_host") && c->direction == TENON_COPY_DEVICE_TO_HOST)
    memset(c->host_to, 0,
           c->length_bytes < c->from->size_bytes ? c->length_bytes : c->from->size_bytes);
}

static tenon_code_t check(const tenon_copy_t* c) {
  const uint64_t from_size = c->from != NULL ? c->from->size_bytes : 0,
                 to_size = c->to != NULL ? c->to->size_bytes : 0;
  const int in_one = c->from != NULL && c->from == c->to && c->length_bytes != 0;
  if (c->length_bytes == 0 &&
      (is("no_empty_copies") ||
       (is("no_empty_copies_at_the_end") && (c->to_offset_bytes || c->from_offset_bytes)) ||
       (is("no_empty_copies_of_null") && c->direction <= TENON_COPY_DEVICE_TO_HOST &&
        c->host_from == NULL && c->host_to == NULL)))
    return fail(TENON_INVALID_ARGUMENT, "a copy has at least one byte");
  if (is("no_adjacent_copies") && in_one &&
      (c->from_offset_bytes + c->length_bytes == c->to_offset_bytes ||
       c->to_offset_bytes + c->length_bytes == c->from_offset_bytes))
    return fail(TENON_INVALID_ARGUMENT, "the ranges overlap");
  if (is("overrun_is_invalid") && c->to != NULL && c->to_offset_bytes > to_size)
    return fail(TENON_INVALID_ARGUMENT, "beyond the end");
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

tenon_code_t copy(void* self, tenon_device_t* device, const tenon_copy_t* given) {
  (void)self;
  if (is("needs_memory_slot") && !memory_was_asked)
    return fail(TENON_FAILED_PRECONDITION, "the memory in use was not asked for");
  if (is_foreign(device)) return fail(TENON_FAILED_PRECONDITION, "no context in this thread");
  tenon_copy_t bent = *given;
  const tenon_copy_t* c = &bent;
  bend(&bent);
  tenon_code_t code = check(c);
  if (code == TENON_OUT_OF_RANGE) overrun(c);
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
  kept = is("keeps_record") ? given : NULL;
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
