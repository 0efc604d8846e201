/* A good asynchronous device and, with CONFORM_MUTANT=NAME, one that does one thing wrong. It has a
 * thread for each queue, fences with a lock, and host memory. Ranges are checked when work runs,
 * patterns and directions when it is submitted. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "async.h"

const tenon_host_t* host;
static tenon_device_t devices[DEVICE_COUNT];
static pthread_mutex_t everything = PTHREAD_MUTEX_INITIALIZER; /* for one_worker */

int is(const char* name) {
  const char* mutant = getenv("CONFORM_MUTANT");
  return mutant != NULL && strcmp(mutant, name) == 0;
}

tenon_code_t fail(tenon_code_t code, const char* text) {
  return tenon_simple_failure(host, code, text);
}

typedef struct work_t {
  struct work_t* next;
  tenon_fence_point_t points[MAX_POINTS], signal;
  uint32_t point_count;
  const tenon_fence_point_t* borrowed_points;
  const tenon_copy_t* borrowed_copy;
  tenon_copy_t copy;
  unsigned char* early_source;
  int on_other_queue, after_failure;
  tenon_code_t (*run)(void* job);
  void* job;
} work_t;

struct tenon_queue_t {
  tenon_device_t* device;
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  pthread_t threads[2];
  work_t *first, *last;
  uint64_t length;
  int busy, stopping, dead, is_other, more_users;
  tenon_queue_t* next;
  tenon_queue_t* stream; /* not null: an import, whose work goes there */
};

tenon_queue_t* queue_import(tenon_queue_t* stream) {
  tenon_queue_t* q = calloc(1, sizeof *q);
  q->stream = stream;
  return q;
}
tenon_queue_t* queue_stream(tenon_queue_t* q) {
  return q->stream != NULL ? q->stream : q;
}

static tenon_code_t import_destroy(tenon_queue_t* q) {
  tenon_queue_t* stream = q->stream;
  free(q);
  if (is("import_is_not_awaited")) return TENON_OK;
  pthread_mutex_lock(&stream->mutex);
  while (stream->length != 0) pthread_cond_wait(&stream->changed, &stream->mutex);
  pthread_mutex_unlock(&stream->mutex);
  return TENON_OK;
}

static tenon_code_t wait_for_points(const work_t* work, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) {
    const tenon_fence_point_t* p =
        work->borrowed_points != NULL ? &work->borrowed_points[i] : &work->points[i];
    tenon_code_t code = TENON_OK;
    if (p->fence == NULL) {
      if (is("null_point_ends")) break;
      if (is("null_point_fails")) return TENON_INVALID_ARGUMENT;
      continue;
    }
    if (is("first_wait_only") && i != 0) break;
    if (is("last_wait_only") && i + 1 != count) continue;
    if (is("sixteen_waits") && i >= 16) break;
    if (is("one_wait_per_fence") && i != 0 && p[-1].fence == p->fence) continue;
    if (is("known_failure_is_no_wait") && p->fence->code != TENON_OK && work->after_failure)
      continue;
    pthread_mutex_lock(&p->fence->mutex);
    while (!reached(p->fence, p->value - (is("wait_off_by_one") && p->value != 0)))
      pthread_cond_wait(&p->fence->changed, &p->fence->mutex);
    code = result_of(p->fence, p->value);
    pthread_mutex_unlock(&p->fence->mutex);
    if (is("any_wait")) break;
    if (code != TENON_OK && !is("failed_wait_runs")) return code;
  }
  return TENON_OK;
}

static tenon_buffer_t* shared_from;

/* If ranges are checked at submission, no work fails by itself; then the variable ASYNC_FAULTS
 * makes the N-th copy of a queue fail. */
static int asked_to_fail(void) {
#ifdef CHECKS_AT_SUBMISSION
  static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  static char last[32];
  static int copies;
  const tenon_str_t text = host->setting(host->self, (tenon_str_t)TENON_STR("ASYNC_FAULTS"));
  if (text.size < 6 || text.size >= sizeof last) return 0;
  pthread_mutex_lock(&mutex);
  if (strncmp(last, text.data, text.size) != 0) memcpy(last, text.data, text.size), copies = 0;
  const int fails = ++copies == atoi(last + 5);
  pthread_mutex_unlock(&mutex);
  return fails;
#else
  return 0;
#endif
}

static tenon_code_t run_copy(const work_t* work) {
  if (asked_to_fail()) return TENON_DATA_LOSS;
  if (is("destroy_forgets_the_last") || is("early_fence") || is("import_is_not_awaited") ||
      is("import_queue_is_another"))
    usleep(20000); /* a slow device */
  const tenon_copy_t* c = work->borrowed_copy != NULL ? work->borrowed_copy : &work->copy;
  tenon_copy_t copy = *c;
  if (work->early_source != NULL) copy.host_from = work->early_source;
  if (is("other_queues_ignore_offset") && work->on_other_queue) copy.to_offset_bytes = 0;
  if (is("source_is_not_checked") && copy.from != NULL) {
    const uint64_t size = copy.from->size_bytes,
                   at = copy.from_offset_bytes < size ? copy.from_offset_bytes : size;
    if (copy.length_bytes > size - at) copy.length_bytes = size - at;
    copy.from_offset_bytes = at;
  }
  if (is("across_ignores_offset") && copy.from_device != NULL) copy.from_offset_bytes = 0;
  if (is("async_ignores_offset")) copy.from_offset_bytes = 0;
  if (is("async_low_byte") && copy.direction == TENON_COPY_FILL) copy.pattern_bytes = 1;
  if (is("async_loses_tail") && copy.direction == TENON_COPY_DEVICE_TO_DEVICE &&
      copy.length_bytes > 8)
    copy.length_bytes -= copy.length_bytes % 8;
  if (is("shared_state") && copy.direction == TENON_COPY_DEVICE_TO_HOST) {
    shared_from = copy.from;
    usleep(1000);
    copy.from = shared_from;
  }
  return memory_copy(&copy);
}

static void finish(const work_t* work, tenon_code_t code) {
  tenon_fence_point_t signal = work->signal;
  if (is("empty_unsignalled") && work->run == NULL && work->copy.length_bytes == 0) return;
  if (code == TENON_OK)
    fence_set(&signal);
  else
    fence_fail(&signal, code);
}

static tenon_code_t perform(const work_t* work) {
  const int empty = work->run == NULL && work->copy.length_bytes == 0;
  uint32_t count =
      is("ignores_waits") || (is("across_does_not_wait") && work->copy.from_device != NULL) ||
              (is("other_queues_do_not_wait") && work->run != NULL && work->on_other_queue) ||
              (empty && is("empty_does_not_wait")) ||
              (is("execute_ignores_waits") && work->run != NULL)
          ? 0
          : work->point_count;
  tenon_code_t code = wait_for_points(work, count);
  if (code != TENON_OK) {
    if (is("failed_wait_signals"))
      fence_set(&work->signal);
    else if (!(is("null_point_fails") && work->signal.fence == NULL))
      finish(work, code);
    return code;
  }
  if (is("early_fence") || (is("execute_early_fence") && work->run != NULL)) finish(work, TENON_OK);
  if (is("execute_early_fence") && work->run != NULL) usleep(50000);
  code = work->run != NULL ? work->run(work->job) : run_copy(work);
  if (!is("early_fence") && !(is("execute_early_fence") && work->run != NULL)) finish(work, code);
  if (is("writes_again") && work->copy.direction == TENON_COPY_DEVICE_TO_HOST)
    usleep(20000), run_copy(work);
  return code;
}

static work_t* next_work(tenon_queue_t* q) {
  work_t* work = q->first;
  if (is("last_first")) {
    work_t** at = &q->first;
    while ((*at)->next != NULL) at = &(*at)->next;
    work = *at;
    *at = NULL;
    return work;
  }
  q->first = work->next;
  return work;
}

static void* worker(void* argument) {
  tenon_queue_t* q = argument;
  pthread_mutex_lock(&q->mutex);
  for (;;) {
    while (q->first == NULL && !q->stopping) pthread_cond_wait(&q->changed, &q->mutex);
    if (q->first == NULL || (q->stopping && is("destroy_drops"))) break;
    work_t* work = next_work(q);
    ++q->busy;
    pthread_mutex_unlock(&q->mutex);
    if (is("one_worker_hangs")) pthread_mutex_lock(&everything);
    tenon_code_t code = q->dead ? TENON_ABORTED : perform(work);
    if (q->dead) fence_fail(&work->signal, code);
    if (is("one_worker_hangs")) pthread_mutex_unlock(&everything);
    free(work->early_source);
    free(work->job);
    free(work);
    pthread_mutex_lock(&q->mutex);
    if (code != TENON_OK && is("queue_dies")) q->dead = 1;
    --q->busy;
    --q->length;
    pthread_cond_broadcast(&q->changed);
  }
  pthread_mutex_unlock(&q->mutex);
  return NULL;
}

/* The first queue of the device where a driver gives it out again; null where it does not. */
static tenon_queue_t* queue_again(const tenon_device_t* device) {
  const int limit = is("one_queue_for_all_hangs")          ? 1
                    : is("fifth_queue_is_the_first_hangs") ? 4
                                                           : 0;
  tenon_queue_t* first = device->queues;
  int count = first != NULL;
  for (; first != NULL && first->next != NULL; first = first->next) ++count;
  return limit != 0 && count >= limit ? first : NULL;
}

static tenon_code_t queue_create(void* self, tenon_device_t* device, tenon_queue_t** out) {
  sigset_t all, before;
  tenon_queue_t* again = queue_again(device);
  if (again != NULL) return ++again->more_users, *out = again, TENON_OK;
  if (is("four_queues") && device->queues != NULL && device->queues->next != NULL &&
      device->queues->next->next != NULL && device->queues->next->next->next != NULL)
    return fail(TENON_RESOURCE_EXHAUSTED, "there are four queues");
  tenon_queue_t* q = calloc(1, sizeof *q);
  q->device = device;
  pthread_mutex_init(&q->mutex, NULL);
  pthread_cond_init(&q->changed, NULL);
  pthread_mutex_lock(&device->mutex);
  q->next = device->queues;
  q->is_other = q->next != NULL;
  device->queues = q;
  pthread_mutex_unlock(&device->mutex);
  if (is("queue_takes_signals"))
    sigemptyset(&all);
  else
    sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_create(&q->threads[0], NULL, worker, q);
  if (is("two_workers")) pthread_create(&q->threads[1], NULL, worker, q);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  *out = q;
  return (void)self, TENON_OK;
}

static tenon_code_t queue_destroy(void* self, tenon_queue_t* q) {
  if (q->stream != NULL) return import_destroy(q);
  if (q->more_users != 0) return --q->more_users, TENON_OK;
  pthread_mutex_lock(&q->device->mutex);
  tenon_queue_t** at = &q->device->queues;
  while (*at != q) at = &(*at)->next;
  *at = q->next;
  pthread_mutex_unlock(&q->device->mutex);
  pthread_mutex_lock(&q->mutex);
  if (is("destroy_forgets_the_last")) {
    while (q->first != NULL) {
      pthread_mutex_unlock(&q->mutex);
      usleep(50);
      pthread_mutex_lock(&q->mutex);
    }
    pthread_mutex_unlock(&q->mutex);
    return TENON_OK;
  }
  q->stopping = 1;
  pthread_cond_broadcast(&q->changed);
  pthread_mutex_unlock(&q->mutex);
  if (is("destroy_does_not_wait")) return TENON_OK;
  if (is("queue_thread_stays")) {
    pthread_mutex_lock(&q->mutex);
    q->stopping = 0;
    while (q->length != 0) pthread_cond_wait(&q->changed, &q->mutex);
    pthread_mutex_unlock(&q->mutex);
    return TENON_OK;
  }
  pthread_join(q->threads[0], NULL);
  if (is("two_workers")) pthread_join(q->threads[1], NULL);
  free(q);
  return (void)self, TENON_OK;
}

static void put(tenon_queue_t* q, work_t* work) {
  q = queue_stream(q);
  work->on_other_queue = q->is_other;
  for (uint32_t i = 0; is("known_failure_is_no_wait") && i < work->point_count; ++i)
    work->after_failure |= work->points[i].fence != NULL && work->points[i].fence->code != TENON_OK;
  pthread_mutex_lock(&q->mutex);
  if (q->first == NULL)
    q->first = work;
  else
    q->last->next = work;
  q->last = work;
  ++q->length;
  pthread_cond_broadcast(&q->changed);
  pthread_mutex_unlock(&q->mutex);
}

tenon_code_t queue_submit(tenon_queue_t* q, const tenon_fence_point_t* points, uint32_t count,
                          tenon_fence_point_t signal, tenon_code_t (*run)(void*), void* job) {
  if (count > MAX_POINTS) return fail(TENON_RESOURCE_EXHAUSTED, "too many points to wait for");
  work_t* work = calloc(1, sizeof *work);
  if (count != 0) memcpy(work->points, points, count * sizeof *points);
  work->point_count = count;
  if (is("execute_keeps_points") && count != 0) work->borrowed_points = points;
  work->signal = signal;
  work->run = run;
  work->job = job;
  put(q, work);
  return TENON_OK;
}

static tenon_code_t refuse_ahead(const tenon_fence_point_t* points, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i)
    if (points[i].fence != NULL && !reached(points[i].fence, points[i].value))
      return fail(TENON_FAILED_PRECONDITION, "nothing that signals this was submitted");
  return TENON_OK;
}

static tenon_code_t copy_async(void* self, tenon_queue_t* q, const tenon_copy_t* c,
                               const tenon_fence_point_t* points, uint32_t count,
                               tenon_fence_point_t signal) {
  (void)self;
  tenon_code_t code = is("no_checks_at_submission") ? TENON_OK : memory_check_kind(c);
#ifdef CHECKS_AT_SUBMISSION
  if (code == TENON_OK)
    code = tenon_simple_check_copy(host, c, c->from != NULL ? c->from->size_bytes : 0,
                                   c->to != NULL ? c->to->size_bytes : 0);
#endif
  if (code != TENON_OK) {
    if (is("refused_signals")) fence_set(&signal);
    if (is("refused_fails_fence")) fence_fail(&signal, code);
    return is("silent_refusal") ? tenon_simple_failure(host, TENON_OK, ""), code : code;
  }
  if (count > MAX_POINTS) return fail(TENON_RESOURCE_EXHAUSTED, "too many points to wait for");
  if (is("refuses_waits_ahead") && refuse_ahead(points, count) != TENON_OK)
    return TENON_FAILED_PRECONDITION;
  if (is("fill_is_not_for_queues") && c->direction == TENON_COPY_FILL)
    return fail(TENON_UNIMPLEMENTED, "fill");
  if (is("null_signal_fails") && signal.fence == NULL)
    return fail(TENON_INVALID_ARGUMENT, "a signal is needed");
  while (is("queue_of_256_hangs") && __atomic_load_n(&q->length, __ATOMIC_RELAXED) >= 256)
    usleep(1000);
  if (is("queue_of_64") && q->length >= 64)
    return fail(TENON_RESOURCE_EXHAUSTED, "the queue is full");
  work_t* work = calloc(1, sizeof *work);
  work->copy = *c;
  work->signal = signal;
  if (is("signals_one_less") && signal.value != 0) --work->signal.value;
  if (is("signals_one_more")) ++work->signal.value;
  work->point_count = count;
  if (count != 0) memcpy(work->points, points, count * sizeof *points);
  if (is("keeps_points") && count > 1) work->borrowed_points = points;
  if (is("keeps_copy")) work->borrowed_copy = c;
  if (is("submit_waits_hangs")) wait_for_points(work, count);
  if (is("signals_at_submission")) fence_set(&signal);
  if (is("empty_overtakes") && c->length_bytes == 0 && count == 0) fence_set(&signal);
  if (is("reads_at_submission") && c->direction == TENON_COPY_HOST_TO_DEVICE &&
      c->length_bytes != 0) {
    work->early_source = malloc(c->length_bytes);
    memcpy(work->early_source, c->host_from, c->length_bytes);
  }
  if (is("writes_at_submission") && c->direction == TENON_COPY_DEVICE_TO_HOST) memory_copy(c);
  put(q, work);
  return TENON_OK;
}

static void drain(tenon_device_t* device) {
  pthread_mutex_lock(&device->mutex);
  for (tenon_queue_t* q = device->queues; q != NULL; q = q->next) {
    pthread_mutex_lock(&q->mutex);
    while (q->length != 0) pthread_cond_wait(&q->changed, &q->mutex);
    pthread_mutex_unlock(&q->mutex);
  }
  pthread_mutex_unlock(&device->mutex);
}

void drain_for_copy(tenon_device_t* device) {
  if (is("copy_drains")) drain(device);
  if (is("copy_waits_for_all_devices")) drain(&devices[0]);
}

/* Memory of the host, which both devices use. */
static tenon_code_t reaches(void* self, tenon_queue_t* queue, tenon_device_t* from, uint32_t* out) {
  static int asked;
  *out = !(is("reaches_once") && asked++ != 0);
  return (void)self, (void)queue, (void)from, TENON_OK;
}

const tenon_queue_api_t queue_api = {sizeof queue_api, NULL,         queue_create,  queue_destroy,
                                     copy_async,       fence_create, fence_destroy, fence_query,
                                     fence_signal,     fence_wait,   reaches};

/* ---- The query ---- */

tenon_device_t* device_at(uint32_t ordinal) {
  return &devices[ordinal];
}

static tenon_interface_t interfaces[] = {{TENON_STR(TENON_DEVICE_ID), 0, 0, &device_api},
                                         {TENON_STR(TENON_QUEUE_ID), 0, 0, &queue_api},
                                         {TENON_STR(TENON_EXCHANGE_ID), 0, 0, &exchange_api},
#ifdef KERNELS
                                         {TENON_STR(TENON_KERNELS_ID), 0, 0, &kernels_api}};
#else
                                         {TENON_STR(TENON_COMPILE_ID), 0, 0, &compile_api}};
#endif
static const tenon_plugin_t plugin = {sizeof plugin,
                                      TENON_TARGET_ABI,
                                      TENON_STR("async"),
                                      TENON_STR("0.1.0"),
                                      TENON_STR(__VERSION__),
                                      NULL,
                                      interfaces,
                                      4,
                                      NULL,
                                      sizeof interfaces[0],
                                      0};

TENON_EXPORT tenon_code_t tenon_plugin_query(uint32_t max_abi, const tenon_host_t* the_host,
                                             const tenon_plugin_t** out) {
  static tenon_queue_api_t short_table;
  (void)max_abi;
  host = the_host;
  if (is("table_ends_before_fence_wait")) {
    short_table = queue_api;
    short_table.size_bytes = offsetof(tenon_queue_api_t, fence_wait);
    interfaces[1].table = &short_table;
  }
  for (uint32_t i = 0; i < DEVICE_COUNT; ++i) pthread_mutex_init(&devices[i].mutex, NULL);
#ifdef KERNELS
  const tenon_code_t code = kernels_start();
#else
  const tenon_code_t code = compile_start();
#endif
  if (code != TENON_OK) return code;
  *out = &plugin;
  return TENON_OK;
}
