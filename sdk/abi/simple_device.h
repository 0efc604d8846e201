/* Tenon ABI: what every device writes alike. Not an interface but a helper, compiled into the
 * plugin: texts for initialisers, a failure with a plain text, filling a record, and the questions
 * that every copy has to be asked.
 *
 * Users: the templates in C of `tenon new`.
 */
#ifndef TENON_ABI_SIMPLE_DEVICE_H_
#define TENON_ABI_SIMPLE_DEVICE_H_

#include <string.h>

#include "tenon/abi/device.h"
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

/* Fills as much of the caller's record `out` as it has room for with `record` of `size_bytes`.
 * INVALID_ARGUMENT, with a reason, when the caller did not say how much that is. */
static inline tenon_code_t tenon_simple_give(const tenon_host_t* host, void* out,
                                             const void* record, uint32_t size_bytes) {
  if (tenon_record_give(out, record, size_bytes) == TENON_OK) return TENON_OK;
  return tenon_simple_failure(host, TENON_INVALID_ARGUMENT,
                              "a record to be filled has no size_bytes");
}

/* OK when [offset, offset + length) is inside `size_bytes`, else OUT_OF_RANGE. */
static inline tenon_code_t tenon_simple_check_range(const tenon_host_t* host, uint64_t size_bytes,
                                                    uint64_t offset, uint64_t length) {
  if (offset <= size_bytes && length <= size_bytes - offset) return TENON_OK;
  return tenon_simple_failure(host, TENON_OUT_OF_RANGE, "the range of a copy leaves its buffer");
}

/* OK when a copy is sound: a known direction, the buffers that it needs, ranges inside them, a
 * pattern that fits. from_size_bytes and to_size_bytes: of the buffers `from` and `to`, anything
 * where there is none. OUT_OF_RANGE or INVALID_ARGUMENT with a reason. Safe. */
static inline tenon_code_t tenon_simple_check_copy(const tenon_host_t* host,
                                                   const tenon_copy_t* copy,
                                                   uint64_t from_size_bytes,
                                                   uint64_t to_size_bytes) {
  const uint32_t width = copy->pattern_bytes;
  const int reads = copy->direction == TENON_COPY_DEVICE_TO_HOST ||
                    copy->direction == TENON_COPY_DEVICE_TO_DEVICE;
  const int writes = copy->direction != TENON_COPY_DEVICE_TO_HOST;
  tenon_code_t code = TENON_OK;
  if (copy->direction < TENON_COPY_HOST_TO_DEVICE || copy->direction > TENON_COPY_FILL)
    return tenon_simple_failure(host, TENON_INVALID_ARGUMENT,
                                "there is no such direction of a copy");
  if ((reads && copy->from == 0) || (writes && copy->to == 0))
    return tenon_simple_failure(host, TENON_INVALID_ARGUMENT, "a copy names no buffer");
  if (copy->direction == TENON_COPY_FILL &&
      ((width != 1 && width != 2 && width != 4 && width != 8) || copy->length_bytes % width != 0))
    return tenon_simple_failure(host, TENON_INVALID_ARGUMENT,
                                "a pattern has 1, 2, 4 or 8 bytes and fills a multiple of them");
  if (reads)
    code = tenon_simple_check_range(host, from_size_bytes, copy->from_offset_bytes,
                                    copy->length_bytes);
  if (code == TENON_OK && writes)
    code = tenon_simple_check_range(host, to_size_bytes, copy->to_offset_bytes, copy->length_bytes);
  return code;
}

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif
