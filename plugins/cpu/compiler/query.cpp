// The exported function of libtenon-clang.so and its linker.
#include <fcntl.h>
#include <lld/Common/Driver.h>
#include <llvm/Support/CrashRecoveryContext.h>
#include <llvm/Support/raw_ostream.h>
#include <sys/mman.h>
#include <unistd.h>

#include <mutex>
#include <string>
#include <thread>
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

// An object as a file in memory, because lld reads only from paths.
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
  // Without recovery, lld calls exit() on a fatal error (a full disk at the last write). Recovery
  // is on only during the link, because it takes over the process's signal handlers.
  llvm::CrashRecoveryContext::Enable();
  const lld::Result result = lld::lldMain(pointers, stream, stream, {{lld::Gnu, &lld::elf::link}});
  llvm::CrashRecoveryContext::Disable();
  broken = !result.canRunAgain;
  return result.retCode == 0 ? TENON_CLANG_OK : TENON_CLANG_BAD_TEXT;
}

// The file that lld writes to: a pipe, which lld treats as a special file and opens as it is. A
// regular file would need a disk that is neither full nor read-only.
class OutputPipe {
 public:
  OutputPipe() {
    if (pipe2(ends_, O_CLOEXEC) != 0) {
      ends_[0] = ends_[1] = -1;
      return;
    }
    reader_ = std::thread([this] {
      char buffer[1 << 16];
      ssize_t n = 0;
      while ((n = read(ends_[0], buffer, sizeof buffer)) > 0) {
        bytes_.append(buffer, static_cast<size_t>(n));
      }
    });
  }
  ~OutputPipe() { take(); }
  bool valid() const { return ends_[0] >= 0; }
  std::string path() const { return "/proc/self/fd/" + std::to_string(ends_[1]); }
  // Closes the pipe and returns what was written.
  std::string take() {
    if (reader_.joinable()) {
      close(ends_[1]);  // The last writer, so the reader sees the end.
      reader_.join();
      close(ends_[0]);
    }
    return std::move(bytes_);
  }

 private:
  int ends_[2];
  std::string bytes_;
  std::thread reader_;
};

// Above this number, objects go to the linker as one archive: with a file for each, the process
// would run out of descriptors.
constexpr uint64_t kFilesMax = 128;

// An archive in the System V format, without an index: a flag makes the linker use all members.
std::string archive_of(const tenon_clang_str_t* objects, uint64_t count) {
  std::string out = "!<arch>\n";
  for (uint64_t i = 0; i < count; ++i) {
    char header[61];
    snprintf(header, sizeof header, "%-16s%-12d%-6d%-6d%-8s%-10llu`\n",
             (std::to_string(i) + ".o/").c_str(), 0, 0, 0, "644",
             static_cast<unsigned long long>(objects[i].size));
    out.append(header, 60).append(objects[i].data, objects[i].size);
    if (out.size() % 2 != 0) {
      out += '\n';
    }
  }
  return out;
}

int32_t link(const tenon_clang_str_t* objects, uint64_t object_count, tenon_clang_sink_fn output,
             void* output_context, tenon_clang_sink_fn diagnostics, void* diagnostics_context) {
  if (!objects || object_count == 0) {
    give(diagnostics, diagnostics_context, "nothing to link");
    return TENON_CLANG_BAD_ARGUMENT;
  }
  initialize_targets();
  OutputPipe pipe;
  std::string archive;
  tenon_clang_str_t whole = {};
  const bool archived = object_count > kFilesMax;
  if (archived) {
    archive = archive_of(objects, object_count);
    whole = {archive.data(), archive.size()};
    objects = &whole;
    object_count = 1;
  }
  std::vector<MemoryFile> files;
  files.reserve(object_count);
  bool held = pipe.valid();
  for (uint64_t i = 0; held && i < object_count; ++i) {
    files.emplace_back(objects[i]);
    held = files.back().complete();
  }
  if (!held) {
    give(diagnostics, diagnostics_context,
         "there is no memory, or no file descriptor, to hand objects to the linker");
    return TENON_CLANG_BAD_ARGUMENT;
  }
  // One thread: linking takes a third of a millisecond, and lld would start a thread pool of its
  // own. "muldefs", because batches from the cache may share a kernel. The machine is that of the
  // first object.
  std::vector<std::string> args = {"ld.lld",
                                   "-shared",
                                   "--threads=1",
                                   "-z",
                                   "now",
                                   "-z",
                                   "noexecstack",
                                   "-z",
                                   "muldefs",
                                   "--hash-style=gnu",
                                   "--eh-frame-hdr",
                                   "-Bsymbolic",
                                   "--build-id=fast",
                                   "-o",
                                   pipe.path()};
  if (archived) {
    args.push_back("--whole-archive");
  }
  for (const MemoryFile& file : files) {
    args.push_back(file.path());
  }
  std::string messages;
  const int32_t code = run_lld(args, messages);
  give(diagnostics, diagnostics_context, messages);
  if (code == TENON_CLANG_OK) {
    give(output, output_context, pipe.take());
  }
  return code;
}

int32_t link_code_object(tenon_clang_str_t object, tenon_clang_sink_fn output, void* output_context,
                         tenon_clang_sink_fn diagnostics, void* diagnostics_context) {
  initialize_targets();
  OutputPipe pipe;
  const MemoryFile file(object);
  if (!pipe.valid() || !file.complete()) {
    give(diagnostics, diagnostics_context,
         "there is no memory, or no file descriptor, to hand an object to the linker");
    return TENON_CLANG_BAD_ARGUMENT;
  }
  std::string messages;
  const int32_t code = run_lld({"ld.lld", "-shared", "-m", "elf64_amdgpu", "--threads=1",
                                "--no-undefined", "-o", pipe.path(), file.path()},
                               messages);
  give(diagnostics, diagnostics_context, messages);
  if (code == TENON_CLANG_OK) give(output, output_context, pipe.take());
  return code;
}

constexpr tenon_clang_t kTable = {
    sizeof(tenon_clang_t), TENON_CLANG_ABI, {kVersion.data(), kVersion.size()}, &build, &link,
    &link_code_object};

}  // namespace
}  // namespace tenon::cpu::compiler

extern "C" __attribute__((visibility("default"))) const tenon_clang_t* tenon_clang_query(
    uint32_t abi) {
  return abi == TENON_CLANG_ABI ? &tenon::cpu::compiler::kTable : nullptr;
}
