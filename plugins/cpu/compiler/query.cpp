// The exported function of libtenon-clang.so and the linker behind it.
#include <lld/Common/Driver.h>
#include <llvm/Support/CrashRecoveryContext.h>
#include <llvm/Support/raw_ostream.h>
#include <sys/mman.h>
#include <unistd.h>

#include <mutex>
#include <string>
#include <vector>

#include "clang_build.h"

LLD_HAS_DRIVER(elf)

namespace tenon::cpu::compiler {
namespace {

constexpr std::string_view kVersion = "clang-" TENON_CLANG_VERSION;

void give(tenon_clang_sink_fn sink, void* context, std::string_view bytes) {
  if (sink && !bytes.empty()) {
    sink(context, bytes.data(), bytes.size());
  }
}

int32_t build(tenon_clang_str_t text, const tenon_clang_options_t* options,
              tenon_clang_sink_fn output, void* output_context, tenon_clang_sink_fn diagnostics,
              void* diagnostics_context) {
  if (!options || options->size_bytes < sizeof(tenon_clang_options_t) || !text.data) {
    give(diagnostics, diagnostics_context, "options are missing or older than this library");
    return TENON_CLANG_BAD_ARGUMENT;
  }
  std::string bytes;
  std::string messages;
  const int32_t code = build_text({text.data, text.size}, *options, bytes, messages);
  give(diagnostics, diagnostics_context, messages);
  if (code == TENON_CLANG_OK) {
    give(output, output_context, bytes);
  }
  return code;
}

// An object as a file without a disk: lld reads by path only.
class MemoryFile {
 public:
  explicit MemoryFile(tenon_clang_str_t bytes) : fd_(memfd_create("tenon-object", MFD_CLOEXEC)) {
    uint64_t done = 0;
    while (fd_ >= 0 && done < bytes.size) {
      const ssize_t n = write(fd_, bytes.data + done, bytes.size - done);
      if (n <= 0) {
        return;
      }
      done += static_cast<uint64_t>(n);
    }
    complete_ = fd_ >= 0;
  }
  MemoryFile(MemoryFile&& other) noexcept : fd_(other.fd_), complete_(other.complete_) {
    other.fd_ = -1;
  }
  ~MemoryFile() {
    if (fd_ >= 0) {
      close(fd_);
    }
  }
  bool complete() const { return complete_; }
  std::string path() const { return "/proc/self/fd/" + std::to_string(fd_); }

 private:
  int fd_;
  bool complete_ = false;
};

int32_t run_lld(const std::vector<std::string>& args, std::string& messages) {
  static std::mutex one_at_a_time;
  static bool broken = false;
  std::lock_guard<std::mutex> lock(one_at_a_time);
  if (broken) {
    messages = "the linker failed badly before; start a new process";
    return TENON_CLANG_BROKEN;
  }
  std::vector<const char*> pointers;
  for (const std::string& arg : args) {
    pointers.push_back(arg.c_str());
  }
  llvm::raw_string_ostream stream(messages);
  // lld leaves by exit() on a fatal error (a full disk at the last write) unless recovery is on.
  // It is on during the link only, since it takes the process's signal handlers.
  llvm::CrashRecoveryContext::Enable();
  const lld::Result result = lld::lldMain(pointers, stream, stream, {{lld::Gnu, &lld::elf::link}});
  llvm::CrashRecoveryContext::Disable();
  broken = !result.canRunAgain;
  return result.retCode == 0 ? TENON_CLANG_OK : TENON_CLANG_BAD_TEXT;
}

int32_t link(const tenon_clang_str_t* objects, uint64_t object_count, tenon_clang_str_t output_path,
             tenon_clang_sink_fn diagnostics, void* diagnostics_context) {
  if (!objects || object_count == 0 || !output_path.data) {
    give(diagnostics, diagnostics_context, "nothing to link, or no path to write to");
    return TENON_CLANG_BAD_ARGUMENT;
  }
  initialize_targets();
  // One thread: the work is a third of a millisecond, and lld would start a pool of its own.
  std::vector<std::string> args = {"ld.lld",
                                   "-shared",
                                   "-m",
                                   "elf_x86_64",
                                   "--threads=1",
                                   "-z",
                                   "muldefs",  // Batches from the cache may share a kernel.
                                   "-z",
                                   "now",
                                   "-z",
                                   "noexecstack",
                                   "--hash-style=gnu",
                                   "--eh-frame-hdr",
                                   "-Bsymbolic",
                                   "--build-id=fast",
                                   "-o",
                                   std::string(output_path.data, output_path.size)};
  std::vector<MemoryFile> files;
  files.reserve(object_count);
  for (uint64_t i = 0; i < object_count; ++i) {
    files.emplace_back(objects[i]);
    if (!files.back().complete()) {
      give(diagnostics, diagnostics_context, "cannot hold an object in memory for the linker");
      return TENON_CLANG_BAD_ARGUMENT;
    }
    args.push_back(files.back().path());
  }
  std::string messages;
  const int32_t code = run_lld(args, messages);
  give(diagnostics, diagnostics_context, messages);
  return code;
}

constexpr tenon_clang_t kTable = {
    sizeof(tenon_clang_t), TENON_CLANG_ABI, {kVersion.data(), kVersion.size()}, &build, &link};

}  // namespace
}  // namespace tenon::cpu::compiler

extern "C" __attribute__((visibility("default"))) const tenon_clang_t* tenon_clang_query(
    uint32_t abi) {
  return abi == TENON_CLANG_ABI ? &tenon::cpu::compiler::kTable : nullptr;
}
