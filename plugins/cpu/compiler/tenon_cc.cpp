// tenon-cc LIBRARY: compiles the unit on standard input (compiler_process.h) with the compiler
// library and writes the answer to standard output. The cpu plugin starts it for text written by
// users.
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <string>

#include "toolchain/compiler_process.h"

namespace {

void limit(int resource, rlim_t value) {
  const rlimit both = {value, value};
  setrlimit(static_cast<__rlimit_resource>(resource), &both);
}

std::string read_all() {
  std::string out;
  char buffer[1 << 16];
  ssize_t n;
  while ((n = read(0, buffer, sizeof buffer)) > 0) {
    out.append(buffer, static_cast<size_t>(n));
  }
  return out;
}

bool write_all(const void* data, size_t size) {
  const char* bytes = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t n = write(1, bytes, size);
    if (n <= 0) {
      return false;
    }
    bytes += n;
    size -= static_cast<size_t>(n);
  }
  return true;
}

void append(void* context, const char* data, uint64_t size) {
  static_cast<std::string*>(context)->append(data, size);
}

int fail(const char* message) {
  fprintf(stderr, "tenon-cc: %s\n", message);
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace tenon::cpu;
  if (argc != 2) {
    return fail("usage: tenon-cc LIBRARY < request > answer; the cpu plugin starts it");
  }
  limit(RLIMIT_CORE, 0);
  limit(RLIMIT_CPU, 60);
  limit(RLIMIT_AS, rlim_t{4} << 30);
  const std::string input = read_all();
  ProcessRequest head;
  if (input.size() < sizeof head) {
    return fail("the request is too short");
  }
  memcpy(&head, input.data(), sizeof head);
  if (head.magic != kProcessMagic || head.text_bytes != input.size() - sizeof head ||
      !is_isa(head.isa)) {
    return fail("the request is malformed");
  }
  void* library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    return fail(dlerror());
  }
  auto query = reinterpret_cast<tenon_clang_query_fn>(dlsym(library, TENON_CLANG_QUERY_NAME));
  const tenon_clang_t* clang = query ? query(TENON_CLANG_ABI) : nullptr;
  if (!clang) {
    return fail("the compiler library is of another version");
  }
  tenon_clang_options_t options = {};
  options.size_bytes = sizeof options;
  options.dialect = head.dialect;
  options.output = head.output;
  options.opt_level = head.opt_level;
  const std::string_view cpu = clang_cpu(static_cast<Isa>(head.isa));
  options.cpu = {cpu.data(), cpu.size()};
  const std::string_view features = clang_features(static_cast<Isa>(head.isa));
  options.features = {features.data(), features.size()};
  std::string output, messages;
  options.machine = clang_machine(static_cast<Isa>(head.isa));
  ProcessAnswer answer = {kProcessMagic, 0, 0, 0};
  answer.code = clang->build({input.data() + sizeof head, head.text_bytes}, &options, &append,
                             &output, &append, &messages);
  answer.message_bytes = messages.size();
  answer.output_bytes = output.size();
  const bool written = write_all(&answer, sizeof answer) &&
                       write_all(messages.data(), messages.size()) &&
                       write_all(output.data(), output.size());
  // Skips the library's destructors: the answer is written, and they take longer than a
  // compilation.
  _exit(written ? 0 : 1);
}
