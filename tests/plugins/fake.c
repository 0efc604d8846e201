/* A family of plugins that are right, odd or broken, one for each FAKE_ macro. The host must accept
 * the first kind, name the error of the others, and survive all of them. */
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tenon/abi/device.h"
#include "tenon/abi/host.h"
#include "tenon/abi/pass.h"
#include "tenon/abi/plugin.h"

#define STR(text) {text, sizeof(text) - 1}

#if defined(FAKE_DATA_SYMBOL)
TENON_EXPORT int tenon_plugin_query_data __asm__("tenon_plugin_query") = 42;
#elif defined(FAKE_NO_SYMBOL)
TENON_EXPORT int something_else(void) {
  return 0;
}
#else

#if defined(FAKE_ABORTS_WHEN_OPENED)
__attribute__((constructor)) static void too_early(void) {
  abort();
}
#endif

static tenon_code_t run_pass(void* self, tenon_graph_t* graph,
                             const tenon_pass_context_t* context) {
  (void)self, (void)graph, (void)context;
#if defined(FAKE_EXITS_IN_RUN)
  exit(0); /* in the middle of the command, with the status of success */
#endif
  return TENON_OK;
}

/* A pass record as a plugin compiled against a longer one has it. */
typedef struct longer_pass_t {
  tenon_pass_def_t known;
  uint64_t future[8];
} longer_pass_t;
static const longer_pass_t longer_pass = {{.size_bytes = sizeof(longer_pass_t),
                                           .name = STR("fake-pass"),
                                           .summary = STR("does nothing"),
                                           .run = run_pass},
                                          {1, 2, 3}};
/* A pass record that ends before `rewrites`. */
static const tenon_pass_def_t pass = {
#if defined(FAKE_SHORT_TABLES)
    .size_bytes = offsetof(tenon_pass_def_t, rewrites),
    .rewrites = (const tenon_rewrite_t*)1,
#else
    .size_bytes = sizeof(tenon_pass_def_t),
#endif
    .name = STR("fake-pass"),
    .summary = STR("does nothing"),
#if !defined(FAKE_PASS_WITHOUT_RUN)
    .run = run_pass,
#endif
};
static const tenon_pass_def_t* const passes[] = {
#if defined(FAKE_LONG_TABLES)
    &longer_pass.known,
#else
    &pass,
#endif
};
static const tenon_passes_t pass_table = {
    .size_bytes = sizeof(tenon_passes_t),
    .passes = passes,
#if defined(FAKE_GARBAGE_COUNT)
    .pass_count = 0x4141414141414141,
#else
    .pass_count = 1,
#endif
};

static tenon_code_t device_count(void* self, uint32_t* out) {
  (void)self;
  *out = 0;
  return TENON_OK;
}
/* An incomplete device table. */
static const tenon_device_api_t device_table = {.size_bytes = sizeof(tenon_device_api_t),
                                                .count = device_count};

#if defined(FAKE_NO_DEVICE)
/* A complete table on a machine without such devices: only count is ever called. */
static const tenon_device_api_t empty_device_table = {.size_bytes = sizeof(tenon_device_api_t),
                                                      .count = device_count,
                                                      .info = (void*)device_count,
                                                      .open = (void*)device_count,
                                                      .close = (void*)device_count,
                                                      .alloc = (void*)device_count,
                                                      .free = (void*)device_count,
                                                      .copy = (void*)device_count};
#endif

#if defined(FAKE_GARBAGE_VENDOR_SIZE)
static const int vendor_table[4] = {0, 1, 2, 3};
#else
static const int vendor_table[4] = {16, 1, 2, 3};
#endif

#if defined(FAKE_LONG_RECORDS)
/* As a later SDK may have it: this host does not know `more`. */
typedef struct {
  tenon_interface_t known;
  uint64_t more[2];
} interface_t;
#define OFFER(...) {{__VA_ARGS__}, {~0u, ~0u}}
#else
typedef tenon_interface_t interface_t;
#define OFFER(...) {__VA_ARGS__}
#endif
#if defined(FAKE_NEEDS_MINOR)
#define PASS_MINOR 7
#else
#define PASS_MINOR 0
#endif

static const interface_t interfaces[] = {
    OFFER(STR(TENON_PASS_ID), PASS_MINOR, 0, &pass_table),
#if defined(FAKE_NULL_SLOT)
    OFFER(STR(TENON_DEVICE_ID), 0, 0, &device_table),
#endif
#if defined(FAKE_NO_DEVICE)
    OFFER(STR(TENON_DEVICE_ID), 0, 0, &empty_device_table),
#endif
#if defined(FAKE_NULL_VENDOR_TABLE)
    OFFER(STR("vendor.other/1"), 0, 0, NULL),
#endif
#if defined(FAKE_NULL_TABLE)
    OFFER(STR(TENON_DEVICE_ID), 0, 0, NULL),
#endif
    OFFER(STR("vendor.feature/1"), 7, 0, vendor_table),
};

static tenon_code_t shut_down(void* self) {
  (void)self;
#if defined(FAKE_SHUTDOWN_FAILS)
  return TENON_INTERNAL;
#else
  return TENON_OK;
#endif
}

static const tenon_plugin_t record = {
#if defined(FAKE_GARBAGE_SIZE)
    .size_bytes = 0xdeadbeef,
#else
    .size_bytes = sizeof(tenon_plugin_t),
#endif
#if defined(FAKE_NEWER_MAJOR)
    .abi = 9u << 16,
#elif defined(FAKE_NEWER_MINOR)
    .abi = TENON_ABI_VERSION + 1,
#elif defined(FAKE_OLDER_MINOR)
    .abi = TENON_ABI_VERSION - 1,
#else
    .abi = TENON_TARGET_ABI,
#endif
#if defined(FAKE_WRONG_NAME)
    .name = STR("another-plugin"),
#else
    .name = STR(FAKE_NAME),
#endif
    .version = STR("1.0.0"),
    .build_id = STR("test"),
    .interfaces = (const tenon_interface_t*)interfaces,
#if defined(FAKE_GARBAGE_INTERFACES)
    .interface_count = 1ull << 40,
#else
    .interface_count = sizeof interfaces / sizeof interfaces[0],
#endif
#ifndef FAKE_NO_STRIDE
    .interface_bytes = sizeof interfaces[0],
#endif
    .shutdown = shut_down};

TENON_EXPORT tenon_code_t tenon_plugin_query(uint32_t max_abi, const tenon_host_t* host,
                                             const tenon_plugin_t** out) {
  (void)max_abi, (void)host, (void)device_table;
#if defined(FAKE_REFUSES)
  tenon_str_t why = STR("there is no card in this machine");
  tenon_str_t key = STR("bus"), value = STR("pci");
  tenon_key_value_t detail = {key, value};
  if (getenv("FAKE_CARD") == NULL)
    return host->fail(host->self, TENON_UNAVAILABLE, why, &detail, 1);
#elif defined(FAKE_REFUSES_SILENTLY)
  return TENON_UNAVAILABLE;
#elif defined(FAKE_CRASHES)
  *(volatile int*)8 = 1;
#elif defined(FAKE_HANGS)
  for (;;) pause();
#elif defined(FAKE_EXITS)
  _exit(0);
#elif defined(FAKE_NULL_RECORD)
  *out = NULL;
  return TENON_OK;
#elif defined(FAKE_ASKS_TOO_MUCH)
  {
    const void* table = NULL;
    tenon_str_t id = STR("tenon.host.nonsense/1");
    tenon_code_t code = host->query(host->self, id, 0, &table);
    if (code != TENON_OK) return code;
  }
#elif defined(FAKE_ASKS_ITSELF) || defined(FAKE_ASKS_OTHER)
  {
    /* Queries its own interface, or that of a plugin that may query this one in turn while it is
     * being loaded. If only its offers are collected, there is no answer, and it goes on. */
    const tenon_host_registry_t* registry = NULL;
    const void* table = NULL;
#if defined(FAKE_ASKS_ITSELF)
    tenon_str_t kind = STR("pass"), name = STR("fake-pass");
#else
    const char* other = getenv("FAKE_OTHER_PASS");
    tenon_str_t kind = STR("pass"), name = {other, other == NULL ? 0 : strlen(other)};
#endif
    tenon_str_t host_id = STR(TENON_HOST_REGISTRY_ID), id = STR(TENON_PASS_ID);
    tenon_code_t code = host->query(host->self, host_id, 0, (const void**)&registry);
    if (code != TENON_OK) return code;
    code = registry->plugin_interface(registry->self, kind, name, id, &table);
    if (code != TENON_OK && code != TENON_UNAVAILABLE) return code;
  }
#elif defined(FAKE_KILLED)
  if (getenv("FAKE_KILL") != NULL)
    kill(getpid(), SIGKILL); /* as the system does when memory runs short */
#elif defined(FAKE_REPLACED)
  /* Replaces the library by another one while it is being queried. */
  if (getenv("FAKE_OTHER_LIBRARY") != NULL)
    rename(getenv("FAKE_OTHER_LIBRARY"), getenv("FAKE_OWN_LIBRARY"));
#elif defined(FAKE_LIES_IN_FAIL)
  {
    tenon_key_value_t detail = {STR("bytes"), {"what was left", UINT64_MAX}};
    tenon_str_t why = STR("there is no room");
    return host->fail(host->self, TENON_UNAVAILABLE, why, &detail, 1);
  }
#endif
  *out = &record;
  return TENON_OK;
}
#endif
