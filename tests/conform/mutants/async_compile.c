/* Artifacts of the asynchronous mutant, and how they are loaded. */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "async_compile.h"

const tenon_host_graph_t* graphs;
const tenon_host_threads_t* threads;
static const tenon_host_registry_t* registry;

/* ---- Artifacts ---- */

/* Digest of head and body, without the digest itself. */
static uint64_t digest_of(head_t head, const char* body, uint64_t size) {
  uint64_t hash = 1469598103934665603u;
  head.digest = 0;
  for (uint64_t i = 0; i < sizeof head; ++i)
    hash = (hash ^ ((const unsigned char*)&head)[i]) * 1099511628211u;
  for (uint64_t i = 0; i < size; ++i) hash = (hash ^ (unsigned char)body[i]) * 1099511628211u;
  return hash;
}

static int64_t dim_code(tenon_graph_t* graph, const tenon_region_view_t* region, tenon_dim_t dim) {
  tenon_dim_view_t view = {.size_bytes = sizeof view};
  if (dim >= 0) return dim;
  graphs->dim_view(graphs->self, graph, dim, &view);
  for (uint32_t i = 0; i < region->symbol_count; ++i)
    if (region->symbols[i] == view.symbol)
      return ~(int64_t)(is("symbols_reversed") ? region->symbol_count - 1 - i : i);
  return 0;
}

static void set_type(tenon_graph_t* graph, const tenon_region_view_t* region, tenon_value_t value,
                     value_t* out) {
  tenon_value_view_t v;
  view_value(graph, value, &v);
  out->rank = v.type.rank;
  out->dtype = v.type.dtype;
  for (uint32_t i = 0; i < v.type.rank; ++i) out->dims[i] = dim_code(graph, region, v.type.dims[i]);
}

/* Uses this many milliseconds of processor time. */
static void burn(int ms) {
  struct timespec begin, now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
  do clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  while ((now.tv_sec - begin.tv_sec) * 1000 + (now.tv_nsec - begin.tv_nsec) / 1000000 < ms);
}

static value_t shared_values[4096];
static void* volatile lost;

static tenon_code_t compile(void* self, tenon_str_t target, tenon_graph_t* graph,
                            const tenon_compile_options_t* options, tenon_artifact_t** out) {
  tenon_graph_view_t whole = {.size_bytes = sizeof whole};
  tenon_region_view_t region = {.size_bytes = sizeof region};
  (void)self, (void)target, (void)options;
  graphs->graph_view(graphs->self, graph, &whole);
  graphs->region_view(graphs->self, graph, whole.main, &region);
  static int stopped;
  if (is("compile_stays_cancelled") && (stopped || host->cancelled(host->self)))
    return stopped = 1, fail(TENON_CANCELLED, "stopped");
  if (is("concrete_sizes") && region.symbol_count != 0)
    return fail(TENON_UNIMPLEMENTED, "concrete sizes alone");
  if (is("compiles_two_at_most") && region.node_count > 2)
    return fail(TENON_UNIMPLEMENTED, "two nodes at most");
  tenon_node_t pattern[3];
  if (TAKES_PATTERNS && (region.node_count != 3 || !is_pattern(graph, region.nodes[0], pattern) ||
                         is("claims_together_what_it_cannot")))
    return fail(TENON_UNIMPLEMENTED, REFUSAL);
  if (is("one_long_call")) {
    if (host->cancelled(host->self)) return fail(TENON_CANCELLED, "stopped");
    burn(2500);
    if (host->cancelled(host->self)) return fail(TENON_CANCELLED, "stopped");
  }
  if (is("compiles_no_single") && region.node_count == 1)
    return fail(TENON_UNIMPLEMENTED, "one node is not worth it");
  head_t head = {.magic = "ASYNC001",
                 .arguments = region.argument_count,
                 .nodes = region.node_count,
                 .yields = region.yield_count,
                 .symbols = region.symbol_count};
  int32_t* number = calloc(whole.value_limit + 1, sizeof *number);
  value_t* values = calloc(whole.value_limit + 1, sizeof *values);
  if (is("shared_compile_state")) values = memset(shared_values, 0, sizeof shared_values);
  int32_t n = 0, is_late = 0;
  for (uint32_t i = 0; i < region.argument_count; ++i) {
    number[region.arguments[i]] = n;
    set_type(graph, &region, region.arguments[i], &values[n++]);
  }
  const float* constant_data = NULL;
  for (tenon_value_t v = 0; v < whole.value_limit; ++v) {
    tenon_value_view_t view;
    if (!view_value(graph, v, &view) || view.kind != TENON_VALUE_CONSTANT) continue;
    uint64_t size = 0;
    const void* data = NULL;
    if (graphs->blob_data(graphs->self, view.blob, &data, &size) == TENON_OK)
      constant_data = data;
    else if (is("late_needs_bytes")) {
      free(number), free(values);
      return TENON_FAILED_PRECONDITION;
    }
    number[v] = n;
    set_type(graph, &region, v, &values[n++]);
    ++head.constants;
  }
  for (uint32_t i = 0; i < region.node_count; ++i) {
    tenon_node_view_t node = {.size_bytes = sizeof node};
    graphs->node_view(graphs->self, graph, region.nodes[i], &node);
    if (is("never_polls"))
      burn(50); /* of 62 nodes */
    else if (host->cancelled(host->self) && is("stops_late") && !is_late)
      burn(3000), is_late = 1;
    else if (is_late ||
             (host->cancelled(host->self) && !is("ignores_cancel") && !is("cancelled_oddly"))) {
      free(number), free(values);
      return fail(TENON_CANCELLED, "stopped");
    }
    if (is("cancelled_oddly") && host->cancelled(host->self))
      return fail(TENON_INTERNAL, "stopped");
    if (is("shared_compile_state")) usleep(2000);
    const int op = op_of(&node);
    if (op < 0 || op == SUB) {
      free(number), free(values);
      return fail(TENON_UNIMPLEMENTED, "an op that async does not take");
    }
    values[n].op = op;
    values[n].a = number[node.operands[0]];
    values[n].b = number[node.operands[op == CONVERT ? 0 : 1]];
    number[node.results[0]] = n;
    set_type(graph, &region, node.results[0], &values[n++]);
  }
  const uint64_t body = (uint64_t)n * sizeof *values + head.yields * sizeof(uint32_t),
                 extra = is("holds_constants") && head.constants != 0 ? 256 : 0;
  tenon_artifact_t* artifact = malloc(sizeof *artifact + sizeof head + body + extra);
  if (is("artifact_stays")) memset(lost = malloc(300000), 1, 300000);
  artifact->size = sizeof head + body + extra;
  artifact->calls = 0;
  char* at = artifact->bytes + sizeof head;
  memcpy(at, values, (uint64_t)n * sizeof *values);
  for (uint32_t i = 0; i < head.yields; ++i)
    memcpy(at + (uint64_t)n * sizeof *values + i * sizeof(uint32_t), &number[region.yields[i]],
           sizeof(uint32_t));
  if (extra != 0) memcpy(at + body, constant_data, extra);
  if (is("holds_addresses")) head.address = (uint64_t)(uintptr_t)artifact;
  head.digest = digest_of(head, at, body + extra);
  memcpy(artifact->bytes, &head, sizeof head);
  free(number);
  if (!is("shared_compile_state")) free(values);
  *out = artifact;
  return TENON_OK;
}

static tenon_code_t compile_alone(void* self, tenon_str_t target, tenon_graph_t* graph,
                                  const tenon_compile_options_t* options, tenon_artifact_t** out) {
  static int busy;
  if (__atomic_exchange_n(&busy, 1, __ATOMIC_ACQ_REL))
    return fail(TENON_RESOURCE_EXHAUSTED, "the compiler is busy");
  usleep(20000);
  const tenon_code_t code = compile(self, target, graph, options, out);
  __atomic_store_n(&busy, 0, __ATOMIC_RELEASE);
  return code;
}

static tenon_artifact_t* last_artifact;

static void artifact_release(void* self, tenon_artifact_t* artifact) {
  (void)self;
  memset(artifact->bytes, 0xee, artifact->size);
  if (!is("needs_artifact") && !is("artifact_stays")) free(artifact);
}

static tenon_code_t artifact_info(void* self, tenon_artifact_t* artifact,
                                  tenon_artifact_info_t* out) {
  if (is("info_fails")) return fail(TENON_UNIMPLEMENTED, "it knows nothing of it");
  const tenon_artifact_info_t made = {
      .size_bytes = sizeof made, .kernels_compiled = 1, .code_bytes = artifact->size};
  const uint32_t had = out->size_bytes;
  if (is("artifact_info_writes_all") && had >= 4)
    return *out = made, out->size_bytes = had, TENON_OK;
  return (void)self, tenon_record_give(out, &made, sizeof made);
}

static tenon_code_t artifact_bytes(void* self, tenon_artifact_t* artifact,
                                   const tenon_sink_t* sink) {
  (void)self;
  last_artifact = artifact;
  if (is("bytes_change")) ((head_t*)artifact->bytes)->reserved = (uint32_t)++artifact->calls;
  const uint64_t half = artifact->size / 2;
  const tenon_code_t code = sink->write(sink->self, artifact->bytes, half);
  if (code != TENON_OK) return is("sink_error_lost") ? TENON_OK : code;
  const tenon_code_t rest = sink->write(sink->self, artifact->bytes + half, artifact->size - half);
  return is("sink_error_lost") ? TENON_OK : rest;
}

/* Null if the bytes are good, else what is wrong with them. */
static const char* fault_of(const void* bytes, uint64_t size) {
  head_t head;
  if (is("trusts_bytes") && size >= sizeof head) {
    if (memcmp(bytes, "ASYNC001", 8) == 0) return NULL;
  }
  if (size < sizeof head || memcmp(bytes, "ASYNC001", 8) != 0)
    return "these bytes are no artifact of async";
  memcpy(&head, bytes, sizeof head);
  const uint64_t values = (uint64_t)head.arguments + head.constants + head.nodes,
                 body = size - sizeof head;
  if (head.digest != digest_of(head, (const char*)bytes + sizeof head, body) && !is("bytes_change"))
    return "the artifact is damaged";
  if (head.symbols > 8) return "too many symbols";
  if (values * sizeof(value_t) + head.yields * sizeof(uint32_t) != body && !is("holds_constants"))
    return "the artifact is damaged";
  return NULL;
}

static tenon_code_t fits(void* self, tenon_str_t target, const void* bytes, uint64_t size) {
  (void)self;
  if (is("fits_anything")) return TENON_OK;
  if ((target.size != 5 || memcmp(target.data, "async", 5) != 0) && !is("fits_any_target"))
    return fail(TENON_FAILED_PRECONDITION, "there is no such target");
  if (is("fits_nothing")) return fail(TENON_FAILED_PRECONDITION, "compile it again");
  if (is("fits_reads_far") && size >= 8 && memcmp(bytes, "ASYNC001", 8) == 0) {
    volatile uint64_t sum = 0;
    for (uint64_t i = 0; i < ((const head_t*)bytes)->yields * 4096u; ++i)
      sum += ((const unsigned char*)bytes)[i];
  }
  const char* fault = fault_of(bytes, size);
  if (fault == NULL) return TENON_OK;
  if (is("fits_oddly")) return fail(TENON_INTERNAL, fault);
  return is("fits_silently") ? TENON_FAILED_PRECONDITION : fail(TENON_FAILED_PRECONDITION, fault);
}

/* The constant that the first load of this artifact got. */
static tenon_blob_t* first_of_artifact(const head_t* head, uint32_t i, tenon_blob_t* now) {
  static tenon_blob_t* kept[8];
  static uint64_t digests[8];
  if (digests[i] == head->digest) return kept[i];
  graphs->blob_retain(graphs->self, now);
  digests[i] = head->digest;
  return kept[i] = now;
}

/* An executable without its constants. */
static tenon_executable_t* new_executable(tenon_device_t* device, const void* bytes, uint64_t size,
                                          uint32_t constant_count) {
  const head_t* head = bytes;
  tenon_executable_t* exe = calloc(1, sizeof *exe);
  exe->device = device;
  if (is("executable_stays")) memset(lost = malloc(300000), 1, 300000);
  exe->copy = malloc(sizeof *exe->copy + size);
  exe->copy->size = size;
  memcpy(exe->copy->bytes, bytes, size);
  const char* kept = is("keeps_bytes")                               ? bytes
                     : is("needs_artifact") && last_artifact != NULL ? last_artifact->bytes
                                                                     : exe->copy->bytes;
  exe->head = (const head_t*)kept;
  exe->values = (const value_t*)(kept + sizeof *head);
  exe->yields = (const uint32_t*)(exe->values + head->arguments + head->constants + head->nodes);
  exe->blobs = calloc(constant_count + 1, sizeof *exe->blobs);
  exe->constants = calloc(head->constants + 1, sizeof *exe->constants);
  for (int i = 0; i < 8; ++i) exe->first_symbols[i] = -1;
  return exe;
}

static tenon_code_t load(void* self, tenon_device_t* device, const void* bytes, uint64_t size,
                         tenon_blob_t* const* constants, uint32_t constant_count,
                         tenon_executable_t** out) {
  (void)self;
  const char* fault = fault_of(bytes, size);
  static int damaged;
  if (fault != NULL) return damaged = 1, fail(TENON_FAILED_PRECONDITION, fault);
  if (is("load_sulks") && damaged)
    return damaged = 0, fail(TENON_INTERNAL, "those before were damaged");
  if (is("loads_on_one_device") && device->ordinal != 0)
    return fail(TENON_UNIMPLEMENTED, "device 0 alone");
  const head_t* head = bytes;
  static uint64_t loaded;
  if (is("loads_once") && loaded == head->digest)
    return fail(TENON_FAILED_PRECONDITION, "it was loaded before");
  loaded = head->digest;
  tenon_buffer_t* kept;
  if (is("load_keeps_a_buffer")) device_api.alloc(NULL, device, 4096, &kept);
  if (constant_count != head->constants && !is("ignores_constant_count"))
    return fail(TENON_INVALID_ARGUMENT, "another number of constants");
  tenon_executable_t* exe = new_executable(device, bytes, size, constant_count);
  for (uint32_t i = 0; i < constant_count && i < head->constants; ++i) {
    uint64_t bytes_of_blob = 0;
    const void* data = NULL;
    exe->blobs[i] = constants[is("constants_reversed") ? constant_count - 1 - i : i];
    if (is("late_keeps_first") && i < 8) exe->blobs[i] = first_of_artifact(head, i, exe->blobs[i]);
    if (!is("keeps_unretained")) graphs->blob_retain(graphs->self, exe->blobs[i]);
    graphs->blob_data(graphs->self, exe->blobs[i], &data, &bytes_of_blob);
    exe->constants[i] = data;
  }
  if (is("constant_released_twice") && constant_count != 0)
    graphs->blob_release(graphs->self, constants[0]);
  *out = exe;
  return TENON_OK;
}

static void executable_release(void* self, tenon_executable_t* exe) {
  (void)self;
  if (is("executable_stays")) return;
  if (is("executable_leaves_bytes")) lost = malloc(100);
  if (is("unrun_executable_aborts") && exe->started == 0) abort();
  for (uint32_t i = 0; !is("keeps_unretained") && !is("keeps_bytes") && !is("needs_artifact") &&
                       !is("packed_unretained") && !is("packed_stays") && i < exe->head->constants;
       ++i)
    if (exe->blobs[i] != NULL) graphs->blob_release(graphs->self, exe->blobs[i]);
  free(exe->copy);
  free(exe->blobs);
  free(exe->constants);
  free(exe);
}

#include "async_packed.h"

static tenon_code_t executable_info(void* self, tenon_executable_t* exe,
                                    tenon_executable_info_t* out) {
  const tenon_executable_info_t made = {sizeof made, exe->head->nodes, 0};
  const uint32_t had = out->size_bytes;
  if (is("no_executable_info")) return fail(TENON_UNIMPLEMENTED, "it knows nothing of it");
  const tenon_code_t code = tenon_record_give(out, &made, sizeof made);
  if (is("executable_info_keeps_size")) out->size_bytes = had;
  return (void)self, code;
}

static tenon_code_t dump(void* self, tenon_artifact_t* artifact, tenon_str_t what,
                         const tenon_sink_t* sink) {
  was_dumped = 1;
  (void)self, (void)artifact;
  if ((what.size != 4 || memcmp(what.data, "plan", 4) != 0) && !is("dumps_anything"))
    return fail(TENON_NOT_FOUND, "async shows its plan");
  return sink->write(sink->self, is("dumps_bytes") ? "\xff\xfe" : "one after the other",
                     is("dumps_bytes") ? 2 : 19);
}

static tenon_code_t properties(void* self, tenon_str_t target, tenon_compile_properties_t* out) {
  static int calls;
  (void)self, (void)target;
  tenon_compile_properties_t made = {sizeof made,
                                     TENON_COMPILE_SAME_BITS | TENON_COMPILE_LATE_CONSTANTS};
  if (TAKES_PATTERNS) made.flags |= TENON_COMPILE_ONE_LONG_CALL;
  if (is("concrete_sizes") || is("concrete_and_symbolic")) made.flags |= TENON_COMPILE_STATIC;
  if (is("properties_unknown")) made.flags |= 64;
  if (is("properties_change") && calls++ != 0) made.flags = 0;
  if (is("properties_fail")) return fail(TENON_UNAVAILABLE, "ask another time");
  return tenon_record_give(out, &made, sizeof made);
}

tenon_compile_api_t compile_api = {
    sizeof compile_api, NULL,           claim,   compile, artifact_release,
    artifact_info,      artifact_bytes, fits,    load,    executable_release,
    executable_info,    needs,          execute, dump,    pack,
    load_packed,        properties};

tenon_code_t compile_start(void) {
  static const tenon_str_t ids[] = {TENON_STR(TENON_HOST_GRAPH_ID),
                                    TENON_STR(TENON_HOST_REGISTRY_ID),
                                    TENON_STR(TENON_HOST_THREADS_ID)};
  if (is("one_compilation_at_a_time")) compile_api.compile = compile_alone;
  if (is("packs_alone")) compile_api.load_packed = NULL;
  if (is("loads_packed_alone")) compile_api.pack = NULL;
  tenon_code_t code = host->query(host->self, ids[0], 0, (const void**)&graphs);
  if (code == TENON_OK) code = host->query(host->self, ids[1], 0, (const void**)&registry);
  if (code == TENON_OK) code = host->query(host->self, ids[2], 0, (const void**)&threads);
  return code;
}
