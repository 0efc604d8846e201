/* Tenon ABI: what every device needs. A helper, not an interface, compiled into the plugin: texts
 * for initialisers, a failure with a plain text, filling a record, and the checks of every copy.
 *
 */
#ifndef TENON_ABI_SIMPLE_DEVICE_H_
#define TENON_ABI_SIMPLE_DEVICE_H_

#include <string.h>

#include "tenon/abi/copy.h"
#include "tenon/abi/device.h"
#include "tenon/abi/note.h"
#include "tenon/abi/plugin.h"
#include "tenon/abi/record.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A literal as an initialiser of tenon_str_t. */
#define TENON_STR(text) {text, sizeof(text) - 1}

/* Gives the host a reason and returns `code`. text: terminated; copied. Safe. */
static inline tenon_code_t tenon_simple_failure(const tenon_host_t* host, tenon_code_t code,
                                                const char* text) {
  tenon_str_t message;
  message.data = text;
  message.size = strlen(text);
  return host->fail(host->self, code, message, 0, 0);
}

/* Fills the caller's record `out` with as much of `record`, of `size_bytes`, as fits.
 * INVALID_ARGUMENT with a reason if the caller did not set size_bytes. */
static inline tenon_code_t tenon_simple_give(const tenon_host_t* host, void* out,
                                             const void* record, uint32_t size_bytes) {
  if (tenon_record_give(out, record, size_bytes) == TENON_OK) return TENON_OK;
  return tenon_simple_failure(host, TENON_INVALID_ARGUMENT,
                              "a record to be filled has no size_bytes");
}

/* OK if a copy is valid: a known direction, the buffers that it needs, a pattern that fits, ranges
 * inside the buffers. from_size_bytes and to_size_bytes: sizes of `from` and `to`, any value if
 * unused. INVALID_ARGUMENT or OUT_OF_RANGE with a reason. Safe. */
static inline tenon_code_t tenon_simple_check_copy(const tenon_host_t* host,
                                                   const tenon_copy_t* copy,
                                                   uint64_t from_size_bytes,
                                                   uint64_t to_size_bytes) {
  const char* fault = tenon_copy_kind_fault(copy);
  if (fault != 0) return tenon_simple_failure(host, TENON_INVALID_ARGUMENT, fault);
  fault = tenon_copy_range_fault(copy, from_size_bytes, to_size_bytes);
  return fault == 0 ? TENON_OK : tenon_simple_failure(host, TENON_OUT_OF_RANGE, fault);
}

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif
