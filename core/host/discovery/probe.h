// Tries a changed library in a process of its own, so that a crash, an abort or an endless loop in
// a plugin's query, or in a library that it requires, costs only that process and a line in the
// report. Results that depend on the file alone, and crashes, are cached under what stat reports
// about the file. Others are not: a refusal is checked again, since a driver may have been
// installed, and so is a failure that the machine caused (a process that was killed or, after ten
// minutes, one that took too long).
#pragma once
#include <span>
#include <string>

#include <tenon/abi/plugin.h>

#include "core/base/errors/status.h"
#include "core/base/file.h"

namespace tenon::host {

enum class ProbeMode { kChild, kInProcess, kOff };

// TENON_PLUGIN_PROBE; child by default, with a warning for any other word.
ProbeMode probe_mode();

// OK if the library returned complete tables to a helper process, now or earlier, after the helper
// had opened `required` (sonames). `seen` identifies the library as it was when it was checked.
// P0601 crashed, P0602 took too long, P0603 the helper cannot be started, P0505 a required library
// cannot be opened, or the code that loading it would give. Cost: about 2 ms the first time, a file
// look-up afterwards. Threads: safe.
Status probe_library(const std::string& library, const FileIdentity& seen,
                     const std::string& plugin_name, std::span<const std::string> required);

// P0604 unless the digest of the file, which is the plugin's `what` ("library"), is `sha256`, as
// `who` ("its manifest") states; P0605 if the file is no longer the one in `seen`. Cached like a
// probe's result.
Status check_digest(std::string_view what, const std::string& path, const FileIdentity& seen,
                    const std::string& sha256, std::string_view who);
// The digest of a file. Reads all of it.
Result<std::string> file_digest(const std::string& path);

// A host table for processes that only ask a plugin what it offers: names, logs and failures work;
// every other interface returns UNAVAILABLE.
const tenon_host_t* listing_host();

}  // namespace tenon::host
