#include <array>

#include "core/base/errors/guard.h"
#include "core/host/discovery/probe.h"
#include "core/host/host_interfaces.h"

namespace tenon::host {
namespace {

// One function fills every slot of every interface. It reads none of the caller's arguments, which
// our platforms' calling conventions allow, and reports that nothing runs here. Plugins built with
// -fsanitize=function may call it too: a function without a signature is not checked.
#if __has_attribute(no_sanitize)
__attribute__((no_sanitize("function")))
#endif
tenon_code_t
unavailable() {
  return guarded([] {
    return error(TENON_UNAVAILABLE, "P0808",
                 "the plugin is only asked what it offers; nothing runs here");
  });
}

constexpr size_t kSlots = 128;  // more than any host interface has
struct StandIn {
  uint32_t size_bytes;
  void* self;
  std::array<tenon_code_t (*)(), kSlots> slots;
};

const StandIn& stand_in() {
  static const StandIn* table = [] {
    auto* made = new StandIn{sizeof(StandIn), nullptr, {}};
    made->slots.fill(unavailable);
    return made;
  }();
  return *table;
}

tenon_code_t query(void*, tenon_str_t id, uint32_t minor, const void** out_table) {
  const void* table = find_host_interface(from_abi_str(id), minor);
  *out_table = table != nullptr ? table : static_cast<const void*>(&stand_in());
  return TENON_OK;
}

}  // namespace

const tenon_host_t* listing_host() {
  static const tenon_host_t* host = [] {
    auto* made = new tenon_host_t(*host_table());
    made->query = query;
    return made;
  }();
  return host;
}

}  // namespace tenon::host
