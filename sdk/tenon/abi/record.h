/* Tenon ABI: reads and fills records that the caller passes, and walks arrays of records. A helper,
 * not an interface, compiled into host and plugins alike. It keeps the rule of base.h: no access
 * beyond the caller's size_bytes.
 *
 */
#ifndef TENON_ABI_RECORD_H_
#define TENON_ABI_RECORD_H_

#include <string.h>

#include "tenon/abi/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Copies the first min(size_bytes of `out`, size_bytes) bytes of `record` to `out`, and sets the
 * size_bytes of `out` to this number. Bytes of the caller beyond them are untouched. Both records
 * begin with `uint32_t size_bytes`. INVALID_ARGUMENT, without a reason and with `out` unchanged, if
 * the caller did not set size_bytes. Safe for different records. */
static inline tenon_code_t tenon_record_give(void* out, const void* record, uint32_t size_bytes) {
  uint32_t size;
  memcpy(&size, out, sizeof size);
  if (size < sizeof size) return TENON_INVALID_ARGUMENT;
  if (size > size_bytes) size = size_bytes;
  memcpy(out, record, size);
  memcpy(out, &size, sizeof size);
  return TENON_OK;
}

/* The opposite direction, for a record that the callee reads before it fills it (tenon_needs_t):
 * copies what the caller has of `given` to `out_record`, fills the rest of its size_bytes with
 * zeros, and sets its size_bytes to its own size. INVALID_ARGUMENT as above. */
static inline tenon_code_t tenon_record_take(void* out_record, uint32_t size_bytes,
                                             const void* given) {
  uint32_t size;
  memcpy(&size, given, sizeof size);
  if (size < sizeof size) return TENON_INVALID_ARGUMENT;
  if (size > size_bytes) size = size_bytes;
  memset(out_record, 0, size_bytes);
  memcpy(out_record, given, size);
  memcpy(out_record, &size_bytes, sizeof size_bytes);
  return TENON_OK;
}

/* Record `i` of an array whose records are `record_bytes` long on the side that made it. What lies
 * beyond record_bytes is not there: where that side may be the older one, tenon_record_take makes a
 * full-size record of one that begins with size_bytes, and tenon_record_read of any other. */
static inline const void* tenon_record_at(const void* first, uint64_t i, uint64_t record_bytes) {
  return (const unsigned char*)first + i * record_bytes;
}
static inline void* tenon_record_in(void* first, uint64_t i, uint64_t record_bytes) {
  return (unsigned char*)first + i * record_bytes;
}

/* Copies what there is of record `i` to `out_record` and fills the rest of size_bytes with zeros.
 */
static inline void tenon_record_read(void* out_record, uint64_t size_bytes, const void* first,
                                     uint64_t i, uint64_t record_bytes) {
  const uint64_t known = record_bytes < size_bytes ? record_bytes : size_bytes;
  memset(out_record, 0, size_bytes);
  memcpy(out_record, tenon_record_at(first, i, record_bytes), known);
}

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif
