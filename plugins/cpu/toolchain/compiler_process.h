// Compiles in a separate process: text that clang accepts can still abort its code generator, so
// text written by users is compiled by the program tenon-cc. Internal to the cpu plugin.
#ifndef TENON_PLUGINS_CPU_TOOLCHAIN_COMPILER_PROCESS_H_
#define TENON_PLUGINS_CPU_TOOLCHAIN_COMPILER_PROCESS_H_

#include "toolchain/compiler_client.h"

namespace tenon::cpu {

// Runs `folder`/tenon-cc for one unit. The request is a file in memory on its standard input, the
// answer one on its standard output; nothing is written to disk. Limits: 60 s and 4 GB. Threads:
// safe.
BuildResult build_in_process_of_its_own(const std::string& folder, const BuildRequest& request);

// The request as tenon-cc reads it: these words, then the text.
struct ProcessRequest {
  uint32_t magic;
  uint32_t dialect, output, opt_level, isa;
  uint32_t reserved;
  uint64_t text_bytes;
};
// The answer: these words, then messages and bytes.
struct ProcessAnswer {
  uint32_t magic;
  int32_t code;  // TENON_CLANG_*
  uint64_t message_bytes, output_bytes;
};
inline constexpr uint32_t kProcessMagic = 0x63634e54;  // "TNcc"

}  // namespace tenon::cpu
#endif
