// What the host offers to plugins, by id: each room registers its table, and the query of
// tenon.host/1 finds it.
#pragma once
#include <string_view>

#include <tenon/abi/plugin.h>

namespace tenon::host {

// Registers `table` (full-size, living as long as the process) under `id`, replacing an earlier
// one. Called by libtenon's entry before any plugin is loaded. Threads: safe.
void register_host_interface(std::string_view id, uint32_t minor, const void* table);

// The registered table of at least this minor, or null. Threads: safe.
const void* find_host_interface(std::string_view id, uint32_t minor);

// tenon.host/1: the table that every plugin is given. Lives as long as the process.
const tenon_host_t* host_table();

// The value that plugins see: env's, as a text that lives as long as the process. Threads: safe.
std::string_view setting(std::string_view name);

// Registers tenon.host.threads/1, tenon.host.cache/1 and tenon.host.files/1.
void register_service_interfaces();

}  // namespace tenon::host
