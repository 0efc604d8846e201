// Trying a library that changed in a process of its own, so that a crash, an abort or an endless
// loop in a plugin's query, or in a library that it requires, costs that process and a line in the
// report. Results that the file alone decides, and crashes, are kept in the cache by what stat says
// of the file; a refusal is asked again, since a driver may have come, and so is what the machine
// did: a process that was killed, and, after ten minutes, one that took too long.
#pragma once
#include <span>
#include <string>

#include <tenon/abi/plugin.h>

#include "core/base/errors/status.h"
#include "core/base/file.h"

namespace tenon::host {

enum class ProbeMode { kChild, kInProcess, kOff };

// TENON_PLUGIN_PROBE; child by default, with a warning for other words.
ProbeMode probe_mode();

// OK if the library answered its query with complete tables in a helper process, which opened
// `required` (sonames) before it, now or before. `seen` is what the library was when it was looked
// at. P0601 crashed, P0602 took too long, P0603 the helper cannot be started, P0505 a required
// library cannot be opened, or the code that loading it would give. Cost: about 2 ms the first
// time, a file lookup afterwards. Threads: safe.
Status probe_library(const std::string& library, const FileIdentity& seen,
                     const std::string& plugin_name, std::span<const std::string> required);

// P0604 unless the digest of the file, which is the plugin's `what` ("library"), is `sha256`, as
// `who` ("its manifest") says; P0605 when the file is not `seen` any more. Kept like a probe's
// result.
Status check_digest(std::string_view what, const std::string& path, const FileIdentity& seen,
                    const std::string& sha256, std::string_view who);
// The digest of a file. Reads all of it.
Result<std::string> file_digest(const std::string& path);

// A host table for processes that ask a plugin only what it offers: names, logs and failures work,
// and every other interface answers with UNAVAILABLE.
const tenon_host_t* listing_host();

}  // namespace tenon::host
