// Compares what a manifest requires with this machine. Loads nothing, except in
// check_required_libraries.
#pragma once
#include <span>
#include <string>

#include "core/host/discovery/manifest.h"

namespace tenon::host {

// P0301 operating system or processor, P0302 libc, P0303 sanitizer.
Status check_platform(const Manifest& manifest);

// P0305 newer ABI major or minor, P0304 older major.
Status check_abi(const Manifest& manifest);

// P0502 CPU feature, P0503 path, P0504 PCI device. The host checks `requires.plugins`;
// `requires.libraries` is checked when the plugin is loaded.
Status check_requirements(const Manifest& manifest);

// Where the system's loader would find a library of this name, judged by folders alone; empty if
// nowhere. Opens nothing.
std::string library_file(std::string_view soname);

// P0505 unless the system's loader opens every one of them. That runs their code, so it is done
// only in the probe's process, and in this one for a plugin whose digest and probe are right.
Status check_required_libraries(std::span<const std::string> sonames);

// The sanitizers that this host is compiled with: "address", "thread", or empty.
std::string_view host_sanitizer();

}  // namespace tenon::host
