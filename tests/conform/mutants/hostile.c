/* A library that attacks the runner when it is opened; with CONFORM_MUTANT=nothing it does not. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tenon/abi/plugin.h"

static int is(const char* word) {
  const char* mutant = getenv("CONFORM_MUTANT");
  return mutant != NULL && strcmp(mutant, word) == 0;
}

static void stay(void) {
  for (;;) pause();
}

/* Writes to all descriptors that may lead to the runner. */
static void write_to_all(const char* text) {
  for (int d = 3; d < 2048; ++d) (void)!write(d, text, strlen(text));
}

static void answer(const char* text, const char* more) {
  write_to_all(text);
  write_to_all(more);
  _exit(0);
}

static void flood(int only_answers) {
  static char text[65536];
  memset(text, 'x', sizeof text - 1);
  for (;;) {
    if (only_answers)
      write_to_all(text);
    else
      (void)!write(2, text, sizeof text);
  }
}

static void leave_a_child(int in_a_session) {
  if (fork() != 0) return;
  if (in_a_session) setsid();
  stay();
}

__attribute__((constructor)) static void opened(void) {
  for (int d = 3; is("closes_and_loops") && d < 2048; ++d) close(d);
  if (is("closes_and_loops") || is("loops")) stay();
  if (is("odd_result")) answer("result z \n", "\nresult 9 \n");
  if (is("forges")) answer("result 0 \n", "");
  if (is("floods_output") || is("floods_answers")) flood(is("floods_answers"));
  if (is("forks") || is("forks_and_crashes")) leave_a_child(is("forks"));
  if (is("forks_and_crashes")) abort();
}

TENON_EXPORT tenon_code_t tenon_plugin_query(uint32_t max_abi, const tenon_host_t* host,
                                             const tenon_plugin_t** out) {
  (void)max_abi, (void)host, (void)out;
  return TENON_UNIMPLEMENTED;
}
