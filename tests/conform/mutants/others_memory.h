/* Pinned memory and tenon.exchange/1 of the mutant; included by mutant_device.c. */
static tenon_code_t alloc_pinned(void* self, tenon_device_t* device, uint64_t size, void** out) {
  static unsigned char* last;
  (void)self, (void)device;
  if (size > SIZE_MAX / 4) {
    return is("pinned_too_much_is_internal")
               ? fail(TENON_INTERNAL, "malloc")
               : fail(TENON_RESOURCE_EXHAUSTED, "so much memory there is not");
  }
  if (size == 0 && is("no_empty_pinned")) return *out = NULL, TENON_OK;
  if (is("pinned_twice") && last != NULL && size == 4096) return *out = last, TENON_OK;
  unsigned char* data = aligned_alloc(64, (size / 64 + 2) * 64);
  if (data == NULL) return fail(TENON_RESOURCE_EXHAUSTED, "so much memory there is not");
  *out = data + (is("pinned_misaligned") ? 8 : 0);
  if (size == 4096) last = data;
  return TENON_OK;
}

static tenon_code_t free_pinned(void* self, tenon_device_t* device, void* data) {
  (void)self, (void)device;
  if (is("pinned_is_kept")) return fail(TENON_INTERNAL, "it stays");
  if (!is("pinned_twice") && !is("pinned_misaligned")) free(data);
  return TENON_OK;
}

#define HANDLES "mutant.pointer"

static tenon_code_t kinds(void* self, uint32_t ordinal, tenon_str_t* out) {
  static int asked;
  (void)self, (void)ordinal;
  if (is("kinds_need_a_device") && !was_opened)
    return fail(TENON_FAILED_PRECONDITION, "the device is not open");
  if (is("kinds_change") && asked++ % 2 != 0)
    return *out = (tenon_str_t)TENON_STR("mutant.handle"), TENON_OK;
  *out = is("kind_without_a_name") ? (tenon_str_t)TENON_STR("pointer")
                                   : (tenon_str_t)TENON_STR(HANDLES);
  return TENON_OK;
}

static int is_handles(tenon_str_t kind) {
  return is("any_kind") ||
         (kind.size == sizeof HANDLES - 1 && memcmp(kind.data, HANDLES, kind.size) == 0);
}

/* The handle is the buffer's record. */
static tenon_code_t import_memory(void* self, tenon_device_t* device,
                                  const tenon_native_memory_t* memory, tenon_buffer_t** out) {
  (void)self, (void)device;
  if (!is_handles(memory->kind)) return fail(TENON_UNIMPLEMENTED, "an unknown kind");
  const tenon_buffer_t* whole = (const tenon_buffer_t*)(uintptr_t)memory->handle;
  const uint64_t offset = is("exchange_ignores_offset") ? 0 : memory->offset_bytes;
  if (!is("exchange_is_unbounded") &&
      (offset > whole->size_bytes || memory->length_bytes > whole->size_bytes - offset))
    return fail(TENON_OUT_OF_RANGE, "beyond the end");
  tenon_buffer_t* buffer = malloc(sizeof *buffer);
  *buffer = (tenon_buffer_t){memory->length_bytes, whole->data + offset, NULL, 0};
  if (is("exchange_copies")) {
    buffer->data = malloc(memory->length_bytes);
    memcpy(buffer->data, whole->data + offset, memory->length_bytes);
  }
  __atomic_add_fetch(&live_count, 1, __ATOMIC_RELAXED);
  *out = buffer;
  return TENON_OK;
}

static tenon_code_t export_memory(void* self, tenon_device_t* device, tenon_buffer_t* buffer,
                                  tenon_str_t kind, tenon_native_memory_t* out) {
  (void)self, (void)device;
  if (!is_handles(kind)) return fail(TENON_UNIMPLEMENTED, "an unknown kind");
  const tenon_native_memory_t made = {sizeof made,
                                      0,
                                      is("handle_says_another_kind")
                                          ? (tenon_str_t)TENON_STR("mutant.handle")
                                          : (tenon_str_t)TENON_STR(HANDLES),
                                      (uintptr_t)buffer,
                                      0,
                                      is("handle_has_no_length") ? 0 : buffer->size_bytes};
  return tenon_record_give(out, &made, sizeof made);
}

const tenon_exchange_api_t exchange = {sizeof exchange, NULL, kinds, import_memory, export_memory};
