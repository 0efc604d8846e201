// What this machine's processor can do at most, measured: the scale on which the costliest kernels
// are judged.
#pragma once
#include <string>
#include <vector>

#include "sdk/tools/tenon/host.h"

namespace tenon::tools {

struct Peaks {
  double gflops = 0;  // f32 multiply-adds of all threads of the pool; 0: not known
  // Reading streams of `bytes` in all: what fits a cache is faster. Ascending.
  struct Stream {
    double bytes = 0, gigabytes_per_second = 0;
  };
  std::vector<Stream> streams;

  bool known() const { return gflops > 0 && !streams.empty(); }
  // Shortest time for so much work, in ns: of the multiply-adds, or of the bytes at the rate of the
  // least stream that holds them.
  double bound_ns(double flops, double bytes) const;
};

// Builds a few loops with the process's C++ toolchain and times them on the host's pool, about half
// a second. `why`: set when no plugin offers a toolchain; the peaks are not known then.
Peaks measure_peaks(const Host& host, std::string& why);

// "GFLOPS,GB/S" as an option gives it. False: neither is a positive number.
bool parse_peaks(const std::string& text, Peaks& peaks);

}  // namespace tenon::tools
