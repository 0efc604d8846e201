/* A good device and, with CONFORM_MUTANT=NAME, one that does one thing wrong. mutant.list has each
 * name with the check that must catch it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <fenv.h>
#include <locale.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "mutant.h"

const tenon_host_t* host;
tenon_kernels_api_t kernels;

int is(const char* name) {
  const char* mutant = getenv("CONFORM_MUTANT");
  return mutant != NULL && strcmp(mutant, name) == 0;
}

tenon_code_t fail(tenon_code_t code, const char* text) {
  if (is("silent_errors")) return code;
  if (is("other_code")) return tenon_simple_failure(host, TENON_UNKNOWN, text), code;
  return tenon_simple_failure(host, code, text);
}

/* ---- Side effects of opening the library ---- */

static void handler(int signal) {
  (void)signal;
}

__attribute__((constructor)) static void constructor(void) {
  if (is("slow_open")) {
    struct timespec now = {0};
    while (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now) == 0 && now.tv_sec < 1) continue;
  }
  if (is("loud_open")) puts("hello from a plugin");
  if (is("crash_open")) abort();
  if (is("signal_handler")) signal(SIGUSR1, handler);
  if (is("rounding")) fesetround(FE_UPWARD);
  if (is("mask")) umask(077);
  if (is("folder") && chdir("/") != 0) abort();
  if (is("descriptor") && open("/dev/null", O_RDONLY) < 0) abort();
}

__attribute__((destructor)) static void destructor(void) {
  if (is("destructor_aborts")) abort();
  if (is("destructor_needs_device") && live_count != 0) abort();
}

static void fork_handler(void) {
  if (is("fork_aborts")) abort();
}

static pid_t opener;
static void child_aborts(void) {
  if (getpid() != opener) abort();
}

static void* sleeper(void* unused) {
  sleep(20);
  return unused;
}

void change_process(void) {
  pthread_t thread;
  sigset_t all, before;
  if (is("open_changes_folder") && chdir("/") != 0) abort();
  if (is("open_sets_locale")) setlocale(LC_ALL, "C.UTF-8");
  if (is("open_sets_a_variable")) setenv("MUTANT_WAS_HERE", "1", 1);
  if (is("open_takes_a_handler")) signal(SIGUSR2, handler);
  if (is("fork_aborts")) pthread_atfork(NULL, NULL, fork_handler);
  if (is("child_may_not_end") && opener == 0) opener = getpid(), atexit(child_aborts);
  sigfillset(&all);
  if (is("thread_takes_one_signal")) sigdelset(&all, SIGCHLD);
  if (is("loose_thread")) sigemptyset(&all);
  if (!is("thread_takes_one_signal") && !is("loose_thread")) return;
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_create(&thread, NULL, sleeper, NULL);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* ---- The query ---- */

static tenon_code_t shutdown(void* self) {
  if (is("shutdown_wants_all_freed") && live_count != 0)
    return fail(TENON_FAILED_PRECONDITION, "there are buffers left");
  if (is("shutdown_fails")) return fail(TENON_INTERNAL, "it cannot end");
  return (void)self, TENON_OK;
}

static tenon_interface_t interfaces[4] = {{TENON_STR(TENON_DEVICE_ID), 0, 0, &device_api},
                                          {TENON_STR(TENON_KERNELS_ID), 0, 0, &kernels},
                                          {TENON_STR(TENON_EXCHANGE_ID), 0, 0, &exchange}};
static tenon_plugin_t plugin = {sizeof plugin,
                                TENON_TARGET_ABI,
                                TENON_STR("mutant"),
                                TENON_STR("0.1.0"),
                                TENON_STR(__VERSION__),
                                NULL,
                                interfaces,
                                3,
                                shutdown,
                                sizeof interfaces[0],
                                0};

#ifdef EXTRA_EXPORT
__attribute__((visibility("default"))) int second_symbol(void) {
  return 1;
}
#endif
#ifdef PRIVATE_DOOR
struct tenon_host_options_t;
tenon_code_t tenon_host_open(uint32_t abi, const struct tenon_host_options_t* options,
                             const tenon_host_t** out);
static tenon_code_t private_door(const tenon_host_t** out) {
  return tenon_host_open(TENON_ABI_VERSION, 0, out);
}
#endif
#ifdef UNDEFINED_SYMBOL
void nobody_defines_this(void);
#endif
#ifdef TEXT_RELOCATION
__asm__(".text\n.quad tenon_plugin_query\n");
#endif

static void mutate_record(void) {
  if (is("other_abi")) plugin.abi = 7;
  if (is("later_abi")) plugin.abi = (TENON_ABI_MAJOR << 16) | (TENON_ABI_MINOR + 1);
  if (is("long_table")) device_api.size_bytes = sizeof device_api + 8;
  if (is("short_table")) device_api.size_bytes = offsetof(tenon_device_api_t, copy);
  if (is("required_slots_alone"))
    device_api.size_bytes = offsetof(tenon_device_api_t, copy) + sizeof(void*);
  if (is("no_stride")) plugin.interface_bytes = 0;
  if (is("long_record_size")) plugin.size_bytes = sizeof plugin + 8;
  if (is("null_slot")) device_api.copy = NULL;
  if (is("id_without_major")) interfaces[1].id = (tenon_str_t)TENON_STR("tenon.kernels");
  if (is("id_twice")) interfaces[3] = interfaces[0], plugin.interface_count = 4;
  if (is("null_table")) interfaces[1].table = NULL;
  if (is("reserved_field")) interfaces[0].reserved = 1;
  if (is("control_text")) plugin.build_id = (tenon_str_t)TENON_STR("\x1b[31mred");
}

tenon_code_t tenon_plugin_query(uint32_t max_abi, const tenon_host_t* the_host,
                                const tenon_plugin_t** out) {
  pthread_t thread;
  host = the_host;
  make_device();
#ifdef PRIVATE_DOOR
  if (is("never")) return private_door(&host);
#endif
#ifdef UNDEFINED_SYMBOL
  if (is("never")) nobody_defines_this();
#endif
  if (is("opens_in_query")) (void)dlopen("libvendor.so.1", RTLD_NOW);
  if (is("breaks_under_later_host") &&
      (host->size_bytes != sizeof *host || host->abi != TENON_ABI_VERSION))
    poisoned = 1;
  if (is("old_host_gets_nothing") && max_abi < TENON_ABI_VERSION) return TENON_OK;
  if (is("null_record_ok")) return *out = NULL, TENON_OK;
  if (is("odd_code")) return 77;
  if (is("refuses_silently")) return TENON_UNAVAILABLE;
  if (is("hangs"))
    for (;;) pause();
  if (is("sleeps")) usleep(1300000);
  if (is("old_host_crash") && max_abi < TENON_ABI_VERSION) abort();
  if (is("wants_exact_version") && max_abi != TENON_ABI_VERSION)
    return fail(TENON_FAILED_PRECONDITION, "another version");
  if (is("wants_exact_size") && host->size_bytes != sizeof *host)
    return fail(TENON_FAILED_PRECONDITION, "another size");
  if (is("starts_thread")) pthread_create(&thread, NULL, sleeper, NULL);
  const tenon_code_t code = make_kernels();
  if (code != TENON_OK && is("ignores_missing")) abort();
  if (code != TENON_OK && is("query_writes_on_failure")) *out = &plugin;
  if (code != TENON_OK) return code;
  mutate_record();
  *out = &plugin;
  return TENON_OK;
}
