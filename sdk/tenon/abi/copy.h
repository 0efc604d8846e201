/* Tenon ABI: checks of copies, and what a fill writes, for every device. A helper, not an
 * interface, compiled into plugins. The rules of tenon_copy_t (R-C in docs/spec/plugin.md) are
 * implemented here, in one place.
 *
 */
#ifndef TENON_ABI_COPY_H_
#define TENON_ABI_COPY_H_

#include <string.h>

#include "tenon/abi/device.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Nonzero if the copy reads the buffer `from`. */
static inline int tenon_copy_reads(const tenon_copy_t* copy) {
  return copy->direction == TENON_COPY_DEVICE_TO_HOST ||
         copy->direction == TENON_COPY_DEVICE_TO_DEVICE;
}

/* Nonzero if the copy writes the buffer `to`. */
static inline int tenon_copy_writes(const tenon_copy_t* copy) {
  return copy->direction != TENON_COPY_DEVICE_TO_HOST;
}

/* Checks a copy without its buffers: an unknown direction, a missing buffer, a pattern that does
 * not fit. NULL if there is no fault, else a constant text for an INVALID_ARGUMENT. Safe. */
static inline const char* tenon_copy_kind_fault(const tenon_copy_t* copy) {
  const uint32_t width = copy->pattern_bytes;
  if (copy->direction < TENON_COPY_HOST_TO_DEVICE || copy->direction > TENON_COPY_FILL)
    return "there is no such direction of a copy";
  if ((tenon_copy_reads(copy) && copy->from == 0) || (tenon_copy_writes(copy) && copy->to == 0))
    return "a copy names no buffer";
  if (copy->direction == TENON_COPY_FILL &&
      ((width != 1 && width != 2 && width != 4 && width != 8) || copy->length_bytes % width != 0))
    return "a pattern has 1, 2, 4 or 8 bytes and fills a multiple of them";
  return 0;
}

/* Checks the ranges of a copy in buffers of these sizes (any value for a buffer that the copy does
 * not use). NULL or a constant text for an OUT_OF_RANGE. Offsets and lengths may have any values.
 * Safe. */
static inline const char* tenon_copy_range_fault(const tenon_copy_t* copy, uint64_t from_size_bytes,
                                                 uint64_t to_size_bytes) {
  const uint64_t length = copy->length_bytes;
  if (tenon_copy_reads(copy) && (copy->from_offset_bytes > from_size_bytes ||
                                 length > from_size_bytes - copy->from_offset_bytes))
    return "a copy reads beyond its buffer";
  if (tenon_copy_writes(copy) &&
      (copy->to_offset_bytes > to_size_bytes || length > to_size_bytes - copy->to_offset_bytes))
    return "a copy writes beyond its buffer";
  return 0;
}

/* Writes `length_bytes`, a multiple of pattern_bytes, of a FILL's pattern to `to`. The filled part
 * doubles up to a block that fits the nearest cache; then this block is written repeatedly. */
static inline void tenon_copy_fill(const tenon_copy_t* copy, void* to, uint64_t length_bytes) {
  unsigned char* bytes = (unsigned char*)to;
  uint64_t filled = 0, more;
  while (filled < length_bytes && filled < copy->pattern_bytes) {
    bytes[filled] =
        (unsigned char)(copy->pattern >> 8 * filled); /* independent of this machine's byte order */
    ++filled;
  }
  for (; filled < length_bytes; filled += more) {
    more = filled < 16384 ? filled : 16384; /* both multiples of the pattern */
    if (more > length_bytes - filled) more = length_bytes - filled;
    memcpy(bytes + filled, bytes, more);
  }
}

/* The width, 1, 2, 4 or 8, of the shortest pattern that the bytes repeat, so that a FILL with
 * *out_pattern makes them; 0 if they repeat none. It reads all of them only where they begin and
 * end as a repetition does. Safe. */
static inline uint32_t tenon_copy_pattern(const void* data, uint64_t length_bytes,
                                          uint64_t* out_pattern) {
  const unsigned char* bytes = (const unsigned char*)data;
  uint32_t width, i;
  for (width = 1; width <= 8; width *= 2) {
    const uint64_t rest = length_bytes - width;
    if (length_bytes < 2 * (uint64_t)width || length_bytes % width != 0) return 0;
    if (memcmp(bytes, bytes + rest, width) != 0 || memcmp(bytes, bytes + width, rest) != 0)
      continue;
    *out_pattern = 0;
    for (i = 0; i < width; ++i) *out_pattern |= (uint64_t)bytes[i] << 8 * i;
    return width;
  }
  return 0;
}

/* Makes *out, a sized record, the FILL that writes these bytes to the beginning of `to`, and
 * returns 1; 0, with *out unchanged, if the bytes repeat no pattern, or if copying them costs no
 * more: fewer than 1,024 bytes take as long as starting a copy, and drivers fill with 4 bytes at
 * most, so that a wider pattern is some twenty commands. Safe. */
static inline int tenon_copy_make_fill(tenon_copy_t* out, tenon_buffer_t* to, const void* data,
                                       uint64_t length_bytes) {
  const uint64_t fewest = 1024, fewest_of_wide = 1u << 20;
  uint64_t pattern = 0;
  const uint32_t width =
      length_bytes < fewest ? 0 : tenon_copy_pattern(data, length_bytes, &pattern);
  if (width == 0 || (width == 8 && length_bytes < fewest_of_wide)) return 0;
  out->direction = TENON_COPY_FILL;
  out->to = to;
  out->length_bytes = length_bytes;
  out->pattern = pattern;
  out->pattern_bytes = width;
  return 1;
}

/* Performs a copy between buffers that have addresses: `from` and `to` are where the buffers begin
 * (any value for a buffer that the copy does not use). The copy must have passed the checks; ranges
 * of one buffer do not overlap. */
static inline void tenon_copy_perform(const tenon_copy_t* copy, const void* from, void* to) {
  const void* source = copy->host_from;
  void* target = copy->host_to;
  if (copy->length_bytes == 0) return; /* then any address may be null */
  if (tenon_copy_reads(copy)) source = (const unsigned char*)from + copy->from_offset_bytes;
  if (tenon_copy_writes(copy)) target = (unsigned char*)to + copy->to_offset_bytes;
  if (copy->direction == TENON_COPY_FILL)
    tenon_copy_fill(copy, target, copy->length_bytes);
  else
    memcpy(target, source, copy->length_bytes);
}

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif
