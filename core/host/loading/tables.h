// Negotiation: turns the tables that a plugin returned into full-size ones. The known prefix of
// each table is copied into a zeroed one of this host's size, so that later code never compares
// sizes: a slot that the plugin does not know is null. A table that lacks a required slot is
// refused, naming the slot.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <tenon/abi/plugin.h>
#include <tenon/cpp/interfaces.hpp>

#include "core/base/errors/status.h"

namespace tenon::host {

using interfaces::InterfaceInfo;
using interfaces::known_interfaces;
using interfaces::RequiredSlot;

// One interface of a loaded plugin; `table` is never freed, and is full-size if this host knows the
// id.
struct AdoptedInterface {
  std::string id;
  uint32_t minor = 0;
  const void* table = nullptr;
};

struct AdoptedPlugin {
  tenon_plugin_t record = {};  // full-size
  std::string name, version, build_id;
  std::vector<AdoptedInterface>
      interfaces;  // in the plugin's order; tables of unknown ids as the plugin made them
  std::vector<std::string> unknown_interfaces;  // a vendor's own, or from another version of Tenon
};

// Keeps a reference to memory that is never freed, since plugins are never closed, so that leak
// checkers see it as in use.
void keep_for_process(const void* memory);

// Copies a record and its tables, with their arrays as arrays of this host's records. P0802 null
// record, P0803 name differs from `expected_name` (empty: any), P0304 an ABI before
// TENON_ABI_OLDEST, P0305 an ABI or a minor of an interface that this host does not have, P0805 a
// required slot is null, P0806 a count or size makes no sense.
Result<AdoptedPlugin> adopt_plugin(const tenon_plugin_t* record, std::string_view expected_name);

// What the plugin provides according to its tables, in the form of the manifest's `provides`:
// (kind, name). Calls into the plugin for device kinds.
struct OfferedName {
  std::string kind, name;
};
std::vector<OfferedName> offered_names(const AdoptedPlugin& plugin);

}  // namespace tenon::host
