/* Tenon ABI: how a record that the caller passes is read and filled. Not an interface but a helper,
 * compiled into host and plugins alike: it keeps the rule of base.h that nobody reads or writes
 * behind what the caller has.
 *
 * Users: the host, sdk/tenon/cpp/plugin.hpp, simple_device.h, devices in C.
 */
#ifndef TENON_ABI_RECORD_H_
#define TENON_ABI_RECORD_H_

#include <string.h>

#include "tenon/abi/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Copies the first min(size_bytes of `out`, size_bytes) bytes of `record` to `out`, whose
 * size_bytes then says how many they are; what the caller has behind them stays. Both begin with
 * `uint32_t size_bytes`. INVALID_ARGUMENT, without a reason and with `out` as it was, when the
 * caller did not set size_bytes. Safe for different records. */
static inline tenon_code_t tenon_record_give(void* out, const void* record, uint32_t size_bytes) {
  uint32_t size;
  memcpy(&size, out, sizeof size);
  if (size < sizeof size) return TENON_INVALID_ARGUMENT;
  if (size > size_bytes) size = size_bytes;
  memcpy(out, record, size);
  memcpy(out, &size, sizeof size);
  return TENON_OK;
}

/* The other way: copies what the caller has of `given` to `out_record` of size_bytes, with zeros
 * behind it and size_bytes of its own: for a record that the callee reads before it fills it
 * (tenon_needs_t). INVALID_ARGUMENT as above. */
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

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif
