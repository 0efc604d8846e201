// The peak rates of this machine's processor, measured: the scale for judging the costliest
// kernels.
#pragma once
#include <string>
#include <vector>

#include "sdk/tools/tenon/host/host.h"

namespace tenon::tools {

struct Peaks {
  double gflops = 0;  // f32 multiply-adds of all threads of the pool; 0: unknown
  // Rate of reading streams of `bytes` in total: faster if they fit a cache. Ascending.
  struct Stream {
    double bytes = 0, gigabytes_per_second = 0;
  };
  std::vector<Stream> streams;

  bool known() const { return gflops > 0 && !streams.empty(); }
  // Shortest possible time for this work, in ns: the larger of the multiply-adds at their peak, and
  // of the bytes at the rate of the smallest stream that holds them.
  double bound_ns(double flops, double bytes) const;
};

// Builds a few loops with the process's C++ toolchain and times them on the host's pool; takes
// about half a second. `why`: set if no plugin offers a toolchain; the peaks are then unknown.
Peaks measure_peaks(const Host& host, std::string& why);

// "GFLOPS,GB/S" from an option. False if either is not a positive number.
bool parse_peaks(const std::string& text, Peaks& peaks);

}  // namespace tenon::tools
