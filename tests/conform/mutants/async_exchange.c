/* tenon.exchange/1 of the asynchronous mutant. Native handles are addresses of its own records. */
#include <stdlib.h>
#include <string.h>

#include "async.h"

#define MEMORY "async.memory"
#define STREAM "async.stream"
#define FENCE "async.fence"

static tenon_code_t check(tenon_str_t kind, const char* known) {
  if (is("any_native_kind") ||
      (kind.size == strlen(known) && memcmp(kind.data, known, kind.size) == 0))
    return TENON_OK;
  return fail(TENON_UNIMPLEMENTED, "an unknown kind of handle");
}

static tenon_code_t kinds(void* self, uint32_t ordinal, tenon_str_t* out) {
  *out = (tenon_str_t)TENON_STR(MEMORY);
  return (void)self, (void)ordinal, TENON_OK;
}

static tenon_code_t import_memory(void* self, tenon_device_t* device,
                                  const tenon_native_memory_t* memory, tenon_buffer_t** out) {
  const tenon_code_t code = check(memory->kind, MEMORY);
  if (code != TENON_OK) return code;
  const tenon_buffer_t* whole = (const tenon_buffer_t*)(uintptr_t)memory->handle;
  if (memory->offset_bytes > whole->size_bytes ||
      memory->length_bytes > whole->size_bytes - memory->offset_bytes)
    return fail(TENON_OUT_OF_RANGE, "beyond the end");
  tenon_buffer_t* buffer = calloc(1, sizeof *buffer);
  buffer->size_bytes = memory->length_bytes;
  buffer->data = whole->data + memory->offset_bytes;
  buffer->imported = 1;
  *out = buffer;
  return (void)self, (void)device, TENON_OK;
}

static tenon_code_t export_memory(void* self, tenon_device_t* device, tenon_buffer_t* buffer,
                                  tenon_str_t kind, tenon_native_memory_t* out) {
  const tenon_code_t code = check(kind, MEMORY);
  if (code != TENON_OK) return code;
  const tenon_native_memory_t made = {
      .size_bytes = sizeof made,
      .kind = TENON_STR(MEMORY),
      .handle = (uintptr_t)buffer,
      .length_bytes = buffer->size_bytes,
  };
  return (void)self, (void)device, tenon_record_give(out, &made, sizeof made);
}

static tenon_code_t queue_kinds(void* self, uint32_t ordinal, tenon_str_t* streams,
                                tenon_str_t* fences) {
  *streams = is("no_kind_of_streams") ? (tenon_str_t){NULL, 0} : (tenon_str_t)TENON_STR(STREAM);
  *fences = is("no_kind_of_fences") ? (tenon_str_t){NULL, 0} : (tenon_str_t)TENON_STR(FENCE);
  return (void)self, (void)ordinal, TENON_OK;
}

/* Streams are numbers from 0 on, as far from the first one, if `stream_zero`. */
static uintptr_t stream_base(const tenon_queue_t* stream) {
  static uintptr_t first;
  if (is("stream_zero") && first == 0) first = (uintptr_t)stream;
  return first;
}

static tenon_code_t import_queue(void* self, tenon_device_t* device,
                                 const tenon_native_handle_t* stream, tenon_queue_t** out) {
  const tenon_code_t code = check(stream->kind, STREAM);
  if (code != TENON_OK) return code;
  if (stream->handle == 0 && !is("stream_zero"))
    return fail(TENON_INVALID_ARGUMENT, "0 is not a stream");
  if (is("import_queue_is_another")) return queue_api.queue_create(self, device, out);
  *out = queue_import((tenon_queue_t*)((uintptr_t)stream->handle + stream_base(NULL)));
  return TENON_OK;
}

static tenon_code_t export_queue(void* self, tenon_queue_t* queue, tenon_str_t kind,
                                 tenon_native_handle_t* out) {
  const tenon_code_t code = check(kind, STREAM);
  if (code != TENON_OK) return code;
  const tenon_str_t says =
      is("stream_of_another_kind") ? (tenon_str_t)TENON_STR(FENCE) : (tenon_str_t)TENON_STR(STREAM);
  const tenon_queue_t* stream = queue_stream(queue);
  const tenon_native_handle_t made = {
      .size_bytes = sizeof made, .kind = says, .handle = (uintptr_t)stream - stream_base(stream)};
  return (void)self, tenon_record_give(out, &made, sizeof made);
}

/* Only this device makes fences of this kind. */
static tenon_code_t import_fence(void* self, tenon_device_t* device,
                                 const tenon_native_handle_t* native, tenon_fence_point_t* out) {
  const tenon_code_t code = check(native->kind, FENCE);
  if (code != TENON_OK) return code;
  (void)self, (void)device, (void)out;
  return fail(is("fence_zero_is_unknown") ? TENON_UNIMPLEMENTED : TENON_INVALID_ARGUMENT,
              "the handle is that of no fence");
}

const tenon_exchange_api_t exchange_api = {sizeof exchange_api, NULL,          kinds,
                                           import_memory,       export_memory, queue_kinds,
                                           import_queue,        export_queue,  import_fence};
