#include "sdk/tools/tenon/execution/peaks.h"

#include <charconv>

namespace tenon::tools {

bool parse_peaks(const std::string& text, Peaks& peaks) {
  double stream = 0;
  const char* end = text.data() + text.size();
  const auto first = std::from_chars(text.data(), end, peaks.gflops);
  if (first.ec != std::errc() || first.ptr == end || *first.ptr != ',') return false;
  const auto second = std::from_chars(first.ptr + 1, end, stream);
  peaks.streams = {{0, stream}};
  return second.ec == std::errc() && second.ptr == end && peaks.gflops > 0 && stream > 0;
}

}  // namespace tenon::tools
