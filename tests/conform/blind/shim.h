// Shared by the sets of blind mutants: a plugin in front of a good device's library. BLIND_BASE
// names that library, BLIND_MUTANT the word of the fault; without a word everything is forwarded.
// BLIND_FIRED names a file that gets a byte whenever the fault takes effect, which tells a fault
// that no check looked for from one that never occurred.
#pragma once
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tenon/abi/compile.h"
#include "tenon/abi/device.h"
#include "tenon/abi/host.h"
#include "tenon/abi/plugin.h"
#include "tenon/abi/queue.h"
#include "tenon/abi/record.h"

namespace {

const tenon_host_t* host;
const tenon_device_api_t* device_next;
const tenon_queue_api_t* queue_next;
const tenon_compile_api_t* compile_next;
std::mutex mutex;
std::atomic<int> calls{0};

void fired() {
  static const char* path = getenv("BLIND_FIRED");
  static std::atomic<int> seen{0};
  if (!path || seen++ > 0) return;
  const int f = ::open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (f >= 0) (void)!write(f, "x", 1), ::close(f);
}

bool is_word(const char* word) {
  static const char* chosen = getenv("BLIND_MUTANT");
  return chosen && strcmp(chosen, word) == 0;
}
// Evaluate this last in a condition: it records that the fault takes effect.
bool is(const char* word) {
  if (!is_word(word)) return false;
  fired();
  return true;
}

tenon_code_t fail(tenon_code_t code, const char* text) {
  return host->fail(host->self, code, {text, strlen(text)}, nullptr, 0);
}
void sleep_ms(int ms) {
  std::this_thread::sleep_for(std::chrono::milliseconds(ms));
}

// The points of a submission, possibly altered.
struct Points {
  std::vector<tenon_fence_point_t> list;
  tenon_fence_point_t signal;
};

tenon_code_t device_copy(tenon_device_t* device, uint32_t direction, const tenon_span_t& span,
                         uint64_t offset, void* data, uint64_t bytes) {
  tenon_copy_t c{};
  c.size_bytes = sizeof c;
  c.direction = direction;
  c.length_bytes = bytes;
  if (direction == TENON_COPY_DEVICE_TO_HOST) {
    c.from = span.buffer, c.from_offset_bytes = span.offset_bytes + offset, c.host_to = data;
  } else {
    c.to = span.buffer, c.to_offset_bytes = span.offset_bytes + offset, c.host_from = data;
  }
  return device_next->copy(device_next->self, device, &c);
}

// The good plugin in front of which this one stands: its record and its interfaces, which can be
// altered.
struct Front {
  tenon_plugin_t plugin;
  std::vector<tenon_interface_t> interfaces;
};

tenon_code_t stand_in_front(uint32_t max_abi, Front* front) {
  void* library = dlopen(getenv("BLIND_BASE"), RTLD_NOW | RTLD_LOCAL);
  if (!library) return fail(TENON_UNAVAILABLE, dlerror());
  const auto query =
      reinterpret_cast<tenon_code_t (*)(uint32_t, const tenon_host_t*, const tenon_plugin_t**)>(
          dlsym(library, "tenon_plugin_query"));
  const tenon_plugin_t* base = nullptr;
  if (const tenon_code_t code = query(max_abi, host, &base); code != TENON_OK) return code;
  front->plugin = *base;
  for (uint64_t i = 0; i < base->interface_count; ++i)
    front->interfaces.push_back(*static_cast<const tenon_interface_t*>(
        tenon_record_at(base->interfaces, i, base->interface_bytes)));
  front->plugin.interface_bytes = sizeof(tenon_interface_t);
  return TENON_OK;
}

// The table of an interface, with slots to be replaced; the original is kept in `next`.
template <typename T>
T copy_of(const void* table, const T*& next) {
  next = static_cast<const T*>(table);
  return *next;
}

}  // namespace
