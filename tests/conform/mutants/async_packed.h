/* Constants of the asynchronous mutant in files; included by async_compile.c. Each is a blob: a
 * head of 64 bytes that says where its floats are and how many, and the floats. */
typedef struct packed_head_t {
  char magic[8];
  uint64_t count, offset, number, unused[4];
} packed_head_t;

static uint64_t constant_count_of(const void* artifact, uint32_t i) {
  const head_t* head = artifact;
  const value_t* value =
      (const value_t*)((const char*)artifact + sizeof *head) + head->arguments + i;
  uint64_t count = 1;
  for (uint32_t d = 0; d < value->rank; ++d) count *= (uint64_t)value->dims[d];
  return count;
}

/* What this process packed last; packed_stays_here. */
static float* packed_here[8];

static tenon_code_t pack_one(const void* floats, uint64_t count, uint32_t i,
                             const tenon_packed_sink_t* sink) {
  static char together[1 << 20];
  static uint64_t packed;
  const uint64_t size = sizeof(packed_head_t) + count * sizeof(float);
  const int shares = is("packs_in_one_buffer") && size <= sizeof together;
  char* blob = shares ? together : malloc(size);
  packed_head_t head = {"PACKED1", count, sizeof head, 0, {0}};
  if (is("packs_its_number")) head.number = ++packed;
  if (shares) memset(blob, 0, size), usleep(2000);
  memcpy(blob, &head, sizeof head);
  memcpy(blob + sizeof head, floats, count * sizeof(float));
  if (shares) usleep(2000);
  if (is("packed_stays_here") && i < 8) {
    packed_here[i] = malloc(count * sizeof(float));
    memcpy(packed_here[i], floats, count * sizeof(float));
  }
  const tenon_code_t code = sink->blob(sink->self, blob, size);
  if (!shares && !is("pack_leaks")) free(blob);
  return code;
}

static tenon_code_t pack(void* self, tenon_str_t target, const void* bytes, uint64_t size,
                         tenon_blob_t* const* constants, uint32_t count,
                         const tenon_packed_sink_t* sink) {
  (void)self, (void)target;
  const char* fault = fault_of(bytes, size);
  if (fault != NULL) return fail(TENON_FAILED_PRECONDITION, fault);
  if (is("pack_needs_device") && !device_was_opened())
    return fail(TENON_FAILED_PRECONDITION, "no device is open");
  if (count != ((const head_t*)bytes)->constants)
    return fail(TENON_INVALID_ARGUMENT, "another number of constants");
  tenon_code_t first = TENON_OK;
  for (uint32_t i = 0; i < count; ++i) {
    const void* data = NULL;
    uint64_t bytes_of_blob = 0;
    if (graphs->blob_data(graphs->self, constants[i], &data, &bytes_of_blob) != TENON_OK)
      return TENON_FAILED_PRECONDITION;
    if (is("pack_keeps_constants")) graphs->blob_retain(graphs->self, constants[i]);
    const tenon_code_t code = pack_one(data, constant_count_of(bytes, i), i, sink);
    if (code == TENON_OK) continue;
    if (is("pack_sink_error_lost")) return TENON_OK;
    if (!is("pack_goes_on")) return code;
    if (first == TENON_OK) first = code;
  }
  return first;
}

/* Null if it is a packed constant of so many floats. */
static const char* packed_fault(const void* blob, uint64_t size, uint64_t count) {
  const packed_head_t* head = blob;
  const uint64_t right = sizeof *head + count * sizeof(float);
  if (size < right && !is("packed_short_later")) return "a packed constant is too short";
  if (size > right && !is("packed_longer")) return "a packed constant is too long";
  if (size < sizeof *head || is("packed_trusts_head")) return NULL;
  if (memcmp(head->magic, "PACKED1", 8) != 0 || head->count != count ||
      head->offset != sizeof *head)
    return "this is not a packed constant of async";
  return NULL;
}

static const float* floats_of(const void* blob) {
  const packed_head_t* head = blob;
  if (is("packed_at_round_addresses")) head = (const void*)((uintptr_t)blob & ~(uintptr_t)63);
  return (const float*)((const char*)head +
                        (is("packed_trusts_head") ? head->offset : sizeof *head));
}

/* Takes the blob as constant i. */
static tenon_code_t adopt_packed(tenon_executable_t* exe, uint32_t i, tenon_blob_t* blob,
                                 const void* artifact) {
  const uint64_t count = constant_count_of(artifact, i);
  const void* data = NULL;
  uint64_t size = 0;
  if (graphs->blob_data(graphs->self, blob, &data, &size) != TENON_OK)
    return TENON_FAILED_PRECONDITION;
  /* Anywhere, but this one reads heads. */
  if ((uintptr_t)data % 8 != 0) return fail(TENON_INVALID_ARGUMENT, "a blob at an odd address");
  const char* fault = packed_fault(data, size, count);
  if (fault != NULL)
    return is("packed_silently") ? TENON_INVALID_ARGUMENT : fail(TENON_INVALID_ARGUMENT, fault);
  if (size < sizeof(packed_head_t) + count * sizeof(float)) exe->short_packed = 1;
  if (is("packed_writes")) ((packed_head_t*)(uintptr_t)data)->number = 0;
  exe->constants[i] = floats_of(data);
  if (is("packed_stays_here") && i < 8) {
    static float nothing[1 << 20];
    exe->constants[i] = packed_here[i] != NULL ? packed_here[i] : nothing;
  }
  exe->blobs[i] = blob;
  if (!is("packed_unretained")) graphs->blob_retain(graphs->self, blob);
  return TENON_OK;
}

void packed_again(tenon_executable_t* exe) {
  for (uint32_t i = 0; i < exe->head->constants; ++i) {
    const void* data = NULL;
    uint64_t size = 0;
    graphs->blob_data(graphs->self, exe->packed[i], &data, &size);
    exe->constants[i] = floats_of(data);
  }
}

static void executable_release(void* self, tenon_executable_t* exe);

static tenon_code_t load_packed(void* self, tenon_device_t* device, const void* bytes,
                                uint64_t size, tenon_blob_t* const* packed, uint32_t count,
                                tenon_executable_t** out) {
  static int refused;
  const char* fault = is("packed_trusts_bytes") ? NULL : fault_of(bytes, size);
  if (fault != NULL) return fail(TENON_FAILED_PRECONDITION, fault);
  if (is("packed_sulks") && refused) return fail(TENON_INTERNAL, "no more of these");
  const uint32_t needed = ((const head_t*)bytes)->constants;
  if (is("packed_any_count") ? count < needed : count != needed)
    return refused = 1, fail(TENON_INVALID_ARGUMENT, "another number of packed constants");
  tenon_executable_t* exe = new_executable(device, bytes, size, needed);
  for (uint32_t i = 0; i < needed; ++i) {
    const tenon_code_t code =
        adopt_packed(exe, i, packed[is("packed_reversed") ? needed - 1 - i : i], bytes);
    if (code == TENON_OK) continue;
    refused = 1;
    if (is("packed_refused_stays")) graphs->blob_retain(graphs->self, packed[i]);
    exe->started = 1;
    executable_release(self, exe);
    return code;
  }
  if (is("packed_keeps_array")) exe->packed = packed;
  *out = exe;
  return TENON_OK;
}
