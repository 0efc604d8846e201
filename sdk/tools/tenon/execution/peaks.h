// The peaks of this machine (tenon/cpp/peaks.hpp) as the commands need them: measured, or from an
// option.
#pragma once
#include <string>

#include <tenon/cpp/peaks.hpp>

#include "sdk/tools/tenon/host/host.h"

namespace tenon::tools {

using peaks::Peaks;

inline Peaks measure_peaks(const Host& host, std::string& why) {
  return peaks::measure({host.host, host.registry, host.threads}, why);
}

// "GFLOPS,GB/S" from an option. False if either is not a positive number.
bool parse_peaks(const std::string& text, Peaks& peaks);

}  // namespace tenon::tools
