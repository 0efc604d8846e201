/* Sizes and executions of the asynchronous mutant. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "async_compile.h"

int was_dumped;
static void* volatile lost;

/* ---- Sizes ---- */

static int64_t dim_of(const tenon_executable_t* exe, int64_t code, tenon_symbols_t symbols) {
  (void)exe;
  if (code >= 0) return code;
  const int64_t value = symbols.values[~code];
  return is("dims_of_at_least_one") && value == 0 ? 1 : value;
}

static uint64_t elements(const tenon_executable_t* exe, const value_t* value,
                         tenon_symbols_t symbols) {
  uint64_t count = 1;
  for (uint32_t i = 0; i < value->rank; ++i)
    count *= (uint64_t)dim_of(exe, value->dims[i], symbols);
  return count;
}

static uint64_t rounded(uint64_t bytes) {
  return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static uint32_t first_node(const tenon_executable_t* exe) {
  return exe->head->arguments + exe->head->constants;
}
static uint32_t value_count(const tenon_executable_t* exe) {
  return first_node(exe) + exe->head->nodes;
}

static uint64_t workspace_of(const tenon_executable_t* exe, tenon_symbols_t symbols) {
  uint64_t bytes = 0;
  for (uint32_t i = first_node(exe); i < value_count(exe); ++i)
    bytes += rounded(elements(exe, &exe->values[i], symbols) * 4);
  return bytes;
}

/* An argument that the node of this yield is the last to read. */
static uint32_t alias_of(const tenon_executable_t* exe, uint32_t yield) {
  const uint32_t value = exe->yields[yield];
  if (value < first_node(exe) || exe->values[value].a >= (int32_t)exe->head->arguments)
    return TENON_NO_ALIAS;
  const int32_t argument = exe->values[value].a;
  for (uint32_t i = first_node(exe); i < value_count(exe); ++i)
    if (i != value && (exe->values[i].a == argument || exe->values[i].b == argument))
      return TENON_NO_ALIAS;
  for (uint32_t i = 0; i < exe->head->yields; ++i)
    if (exe->yields[i] == (uint32_t)argument || (i != yield && exe->yields[i] == value))
      return TENON_NO_ALIAS;
  if (exe->values[value].op == CONVERT)
    return is("alias_of_another_type") ? (uint32_t)argument : TENON_NO_ALIAS;
  return exe->values[value].b == argument ? TENON_NO_ALIAS : (uint32_t)argument;
}

tenon_code_t needs(void* self, tenon_executable_t* exe, tenon_symbols_t symbols,
                   tenon_needs_t* given) {
  tenon_needs_t full, *out = &full;
  (void)self;
  if (tenon_record_take(out, sizeof full, given) != TENON_OK)
    return fail(TENON_INVALID_ARGUMENT, "the record has no size_bytes");
  if (symbols.count != exe->head->symbols && is("failed_needs_writes") &&
      given->size_bytes >= sizeof *given)
    given->workspace_bytes = 0xdead;
  if (symbols.count != exe->head->symbols && !is("ignores_counts"))
    return fail(TENON_INVALID_ARGUMENT, "another number of symbols");
  if (out->output_count != exe->head->yields && !is("ignores_counts"))
    return fail(TENON_INVALID_ARGUMENT, "another number of outputs");
  if (is("needs_of_first_call")) {
    if (exe->first_symbols[0] < 0 && symbols.count != 0)
      memcpy(exe->first_symbols, symbols.values, symbols.count * sizeof(int64_t));
    if (symbols.count != 0) symbols.values = exe->first_symbols;
  }
  if (is("no_empty_dims"))
    for (uint32_t i = 0; i < symbols.count; ++i)
      if (symbols.values[i] == 0) return fail(TENON_INVALID_ARGUMENT, "a dim is 0");
  static int64_t shared[8];
  if (is("needs_shares_state") && symbols.count != 0) {
    memcpy(shared, symbols.values, symbols.count * sizeof(int64_t));
    usleep(500);
    symbols.values = shared;
  }
  if (is("assumes_need_size")) out->need_bytes = sizeof(tenon_output_need_t);
  for (uint32_t y = 0; y < exe->head->yields && y < out->output_count; ++y) {
    const value_t* value = &exe->values[exe->yields[y]];
    for (uint32_t i = 0; i < value->rank; ++i)
      tenon_need(out, y)->dims[i] =
          dim_of(exe, value->dims[is("needs_turns_dims") ? value->rank - 1 - i : i], symbols);
    tenon_need(out, y)->size_bytes_max =
        elements(exe, value, symbols) * 4 - (is("needs_too_little") ? 4 : 0);
    if (is("needs_of_32_bits"))
      tenon_need(out, y)->size_bytes_max = (uint32_t)tenon_need(out, y)->size_bytes_max;
    tenon_need(out, y)->alias_input = is("alias_unknown") ? 99
                                      : is("alias_any")   ? 0
                                                          : alias_of(exe, y);
  }
  out->workspace_bytes = workspace_of(exe, symbols);
  if (is("workspace_too_small") && out->workspace_bytes != 0) out->workspace_bytes -= ALIGNMENT;
  out->lower_bound_bytes = is("bound_above_plan") ? out->workspace_bytes + 1 : 0;
  if (is("needs_writes_beyond") && given->size_bytes < sizeof full) given->lower_bound_bytes = 0;
  return tenon_record_give(given, out, sizeof full);
}

/* ---- Running ---- */

typedef struct job_t {
  tenon_executable_t* exe;
  tenon_call_t call;
  int64_t symbols[8];
  tenon_span_t spans[256];
} job_t;

static float* span_data(const tenon_span_t* span, const char* loses_offset) {
  return (float*)(span->buffer->data + (is(loses_offset) ? 0 : span->offset_bytes));
}

static float apply(int op, float a, float b) {
  if (op == MAX) return a != a || b != b ? NAN : a > b ? a : b;
  return op == ADD ? a + b : a * b;
}

static void multiply(tenon_executable_t* exe, const value_t* node, const float* a, const float* b,
                     float* out) {
  const int64_t *x = exe->values[node->a].dims, *y = exe->values[node->b].dims;
  for (int64_t i = 0; i < x[0]; ++i)
    for (int64_t k = 0; k < y[1]; ++k) {
      float sum = is("dot_adds_to_garbage") && isnan(out[i * y[1] + k]) ? NAN : 0;
      for (int64_t j = 0; j < x[1]; ++j) sum += a[i * x[1] + j] * b[j * y[1] + k];
      out[i * y[1] + k] = sum;
    }
}

static void convert(const value_t* node, const void* from, void* to, uint64_t count) {
  const float* x = from;
  for (uint64_t i = 0; i < count; ++i)
    if (node->dtype == TENON_F32)
      ((float*)to)[i] = (float)((const int32_t*)from)[i];
    else
      ((int32_t*)to)[i] = x[i] >= 0x1p31f   ? INT32_MAX
                          : x[i] > -0x1p31f ? (int32_t)x[i]
                          : x[i] < 0        ? INT32_MIN
                                            : 0;
}

static float shared_temp[1 << 16];
static int together;

static void run_node(tenon_executable_t* exe, const value_t* node, const float* a, const float* b,
                     float* out, uint64_t count) {
  if (is("shared_temp") && count < 1 << 16 && node->op != CONVERT) {
    for (uint64_t i = 0; i < count; ++i) shared_temp[i] = apply(node->op, a[i], b[i]);
    usleep(2000);
    for (uint64_t i = 0; i < count; ++i) out[i] = shared_temp[i];
    return;
  }
  if (node->op == PRODUCT)
    multiply(exe, node, a, b, out);
  else if (node->op == CONVERT)
    convert(node, a, out, count);
  else
    for (uint64_t i = 0; i < count; ++i) out[i] = apply(node->op, a[i], b[i]);
  if (is("together_in_other_bits") && count != 0 &&
      __atomic_load_n(&together, __ATOMIC_RELAXED) > 1)
    ((unsigned char*)out)[0] ^= 1;
  if (is("wrong_everywhere") && count != 0) out[0] += 1;
  if (is("wrong_for_few_columns") && count % 8 != 0) out[0] += 1;
  if (count != 0 && is("unsteady")) out[0] *= 1 + 1e-6f * (float)++exe->runs;
  if (count != 0 && is("threads_matter") && threads->count(threads->self) > 1)
    out[0] = nextafterf(out[0], 1e30f);
  if (is("one_is_scalar") && count == 1) out[0] = a[0];
}

static uint64_t now_ns(void) {
  struct timespec now;
  clock_gettime(is("profile_wall_clock") ? CLOCK_REALTIME : CLOCK_MONOTONIC, &now);
  return ((uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec) /
         (is("profile_in_us") ? 1000 : 1);
}

static struct {
  const tenon_profile_sink_t* sink;
  uint64_t begin_ns;
} late_event;

static void report_event(const tenon_profile_sink_t* sink, uint64_t begin_ns);
static void* report_late(void* unused) {
  usleep(20000);
  const tenon_str_t name = {"late", 4}, origins = {"", 0};
  const tenon_profile_event_t event = {.size_bytes = sizeof event,
                                       .name = name,
                                       .origins = origins,
                                       .begin_ns = late_event.begin_ns,
                                       .end_ns = now_ns()};
  late_event.sink->event(late_event.sink->self, &event);
  return unused;
}

static void report_event(const tenon_profile_sink_t* sink, uint64_t begin_ns) {
  const tenon_str_t name = {"work", is("profile_nameless") ? 0 : 4}, origins = {"", 0};
  if (is("profile_late")) {
    pthread_t thread;
    late_event.sink = sink, late_event.begin_ns = begin_ns;
    pthread_create(&thread, NULL, report_late, NULL);
    pthread_detach(thread);
    return;
  }
  const uint64_t end_ns = now_ns();
  if (is("profile_backwards")) begin_ns = end_ns + 1;
  const tenon_profile_event_t event = {.size_bytes = sizeof event,
                                       .name = name,
                                       .origins = origins,
                                       .begin_ns = begin_ns,
                                       .end_ns = end_ns};
  sink->event(sink->self, &event);
}

static tenon_code_t perform(void* argument) {
  const uint64_t begin_ns = now_ns();
  job_t* job = argument;
  tenon_executable_t* exe = job->exe;
  const tenon_call_t* call = &job->call;
  const head_t* head = exe->head;
  if (is("unsignalled_when_slow")) usleep(1000);
  if (is("run_leaks")) memset(lost = malloc(70000), 1, 70000);
  if (is("together_in_other_bits"))
    __atomic_add_fetch(&together, 1, __ATOMIC_RELAXED), usleep(2000);
  float** data = calloc(value_count(exe) + 1, sizeof *data);
  for (uint32_t i = 0; i < head->arguments; ++i)
    data[i] = span_data(tenon_call_input(call, i), "ignores_input_offset");
  for (uint32_t i = 0; i < head->constants; ++i)
    data[head->arguments + i] = (float*)exe->constants[i];
  uint64_t at = 0;
  for (uint32_t i = first_node(exe); i < value_count(exe); ++i) {
    const value_t* node = &exe->values[i];
    const uint64_t count = elements(exe, node, call->symbols);
    data[i] =
        count == 0 ? NULL : (float*)(call->workspace->data + call->workspace_offset_bytes + at);
    const int twice = node->a != node->b && data[node->a] == data[node->b];
    if (is("one_buffer_counts_once") && twice && count != 0)
      memset(data[i], 0, count * 4);
    else if (is("workspace_is_zero") && count != 0 && data[i][0] != 0)
      data[i][0] = 1;
    else
      run_node(exe, node, data[node->a], data[node->b], data[i], count);
    if (is("runs_over_workspace") && i + 1 == value_count(exe) && count != 0)
      memset((char*)data[i] + rounded(count * 4), 0, 8);
    if (is("writes_inputs") && node->a < (int32_t)head->arguments && count != 0)
      data[node->a][count - 1] = 0;
    at += rounded(count * 4);
  }
  for (uint32_t y = 0; y < head->yields; ++y) {
    const value_t* value = &exe->values[exe->yields[y]];
    uint64_t count = elements(exe, value, call->symbols);
    float* to = count == 0 ? NULL : span_data(tenon_call_output(call, y), "ignores_output_offset");
    if (count == 0) continue;
    if (is("alias_breaks")) {
      const uint32_t alias = alias_of(exe, y);
      if (alias != TENON_NO_ALIAS && to == data[alias]) to[0] = 0, data[exe->yields[y]][0] = 1;
    }
    if (is("alias_is_scratch")) {
      const uint32_t alias = alias_of(exe, y);
      if (alias != TENON_NO_ALIAS && to != data[alias]) data[alias][0] = 7;
    }
    const int stale = is("stale_after_other_sizes") && exe->last_count != 0 &&
                      exe->last_count != count && count > 4;
    memcpy(to, data[exe->yields[y]], (count - (is("loses_last") ? 1 : stale ? 4 : 0)) * 4);
    exe->last_count = count;
    if (is("writes_beyond")) to[count] = 0;
    if (is("writes_before")) to[-1] = 0;
  }
  free(data);
  if (is("together_in_other_bits")) __atomic_sub_fetch(&together, 1, __ATOMIC_RELAXED);
  if (call->profile != NULL && !is("profile_silent")) report_event(call->profile, begin_ns);
  return TENON_OK;
}

static void* perform_later(void* job) {
  usleep(5000);
  perform(job);
  free(job);
  return NULL;
}

tenon_code_t execute(void* self, tenon_executable_t* exe, const tenon_call_t* call) {
  (void)self;
  if (is("execute_needs_dump") && !was_dumped)
    return fail(TENON_FAILED_PRECONDITION, "it was not dumped first");
  if ((call->input_count != exe->head->arguments || call->output_count != exe->head->yields ||
       call->symbols.count != exe->head->symbols) &&
      !is("ignores_counts")) {
    if (is("failing_signals")) fence_set(&call->signal);
    if (is("failing_fails_fence")) fence_fail(&call->signal, TENON_INVALID_ARGUMENT);
    if (is("failing_writes") && call->output_count != 0)
      memset(span_data(tenon_call_output(call, 0), ""), 0, 4);
    exe->sulks = 1;
    return fail(TENON_INVALID_ARGUMENT, "another number of inputs, outputs or symbols");
  }
  if (exe->short_packed) return fail(TENON_INVALID_ARGUMENT, "a packed constant is too short");
  if (exe->packed != NULL) packed_again(exe);
  if (is("sulks_after_wrong_counts") && exe->sulks)
    return exe->sulks = 0, fail(TENON_FAILED_PRECONDITION, "the call before was wrong");
  if (is("cancelled_ok_undone") && host->cancelled(host->self)) return TENON_OK;
  if (call->input_count + call->output_count > 256 || call->symbols.count > 8)
    return fail(TENON_UNIMPLEMENTED, "too many inputs and outputs");
  static int stopped;
  if (is("cancelled_for_good") && (stopped || host->cancelled(host->self)))
    return stopped = 1, fail(TENON_CANCELLED, "stopped");
  if (is("one_run_at_once") && call->queue != NULL && exe->runs++ != 0)
    return fail(TENON_FAILED_PRECONDITION, "it runs already");
  if (is("cancelled_run_is_internal") && host->cancelled(host->self))
    return fail(TENON_INTERNAL, "stopped");
  if (is("runs_for_a_profile_alone") && call->profile == NULL)
    return fail(TENON_INTERNAL, "no profile");
  exe->started = 1;
  job_t* job = calloc(1, sizeof *job);
  job->exe = exe;
  job->call = *call;
  if (call->symbols.count != 0)
    memcpy(job->symbols, call->symbols.values, call->symbols.count * sizeof(int64_t));
  job->call.symbols.values = job->symbols;
  const uint32_t step = is("assumes_span_size") ? sizeof(tenon_span_t) : call->span_bytes;
  for (uint32_t i = 0; i < call->input_count; ++i)
    job->spans[i] = *(const tenon_span_t*)tenon_record_at(call->inputs, i, step);
  for (uint32_t i = 0; i < call->output_count; ++i)
    job->spans[call->input_count + i] =
        *(const tenon_span_t*)tenon_record_at(call->outputs, i, step);
  job->call.span_bytes = sizeof(tenon_span_t);
  job->call.inputs = job->spans;
  job->call.outputs = job->spans + call->input_count;
  if (is("keeps_symbols")) job->call.symbols.values = call->symbols.values;
  if (is("keeps_spans"))
    job->call.inputs = call->inputs, job->call.outputs = call->outputs,
    job->call.span_bytes = call->span_bytes;
  if (call->queue != NULL)
    return queue_submit(call->queue, call->waits, call->wait_count, call->signal, perform, job);
  if (is("execute_returns_early")) {
    pthread_t thread;
    pthread_create(&thread, NULL, perform_later, job);
    pthread_detach(thread);
    return TENON_OK;
  }
  static int busy;
  if (is("refuses_a_second_run") && __atomic_exchange_n(&busy, 1, __ATOMIC_ACQ_REL))
    return free(job), fail(TENON_FAILED_PRECONDITION, "it runs already");
  if (is("refuses_a_second_run")) usleep(2000);
  const tenon_code_t code = perform(job);
  __atomic_store_n(&busy, 0, __ATOMIC_RELEASE);
  free(job);
  return code;
}
