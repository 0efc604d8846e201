#include "core/base/errors/guard.h"

#include <exception>
#include <new>
#include <stdexcept>

namespace tenon {

tenon_code_t failure_of_exception() noexcept {
  constexpr const char* kNoMemory = "T0111: the system has no more memory";
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return out_of_memory(kNoMemory);
  } catch (const std::length_error&) {
    return out_of_memory("T0111: a size larger than any memory was requested");
  } catch (const std::exception& problem) {
    try {
      record_failure(TENON_INTERNAL,
                     std::string("T0003: an exception ended the call: ") + problem.what(), {});
    } catch (...) {
      return out_of_memory(kNoMemory);
    }
  } catch (...) {
    record_failure(TENON_INTERNAL, "T0003: an exception without a message ended the call", {});
  }
  return TENON_INTERNAL;
}

tenon_sink_t sink_into(std::string& text) {
  return {&text, [](void* self, const void* data, uint64_t size) -> tenon_code_t {
            return guarded([&]() -> tenon_code_t {
              static_cast<std::string*>(self)->append(static_cast<const char*>(data), size);
              return TENON_OK;
            });
          }};
}

}  // namespace tenon
