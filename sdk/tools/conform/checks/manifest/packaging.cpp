#include "sdk/tools/conform/checks/manifest/packaging.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <set>

#include "sdk/tools/conform/subject/elf_file.h"
#include "sdk/tools/conform/subject/names.h"
#include "sdk/tools/conform/subject/process_state.h"
#include "sdk/tools/conform/subject/session.h"

namespace tenon::conform {
namespace {

constexpr double kOpenSecondsMax = 0.5;
constexpr const char* kSymbol = "tenon_plugin_query";

// The parsed library file; skipped if it cannot be parsed, which A.exports reports.
Outcome with_elf(Session& s, ElfFile* out) {
  if (s.subject().library_path.empty())
    return skipped("there is no library, as A.library-path reports");
  Result<ElfFile> elf = read_elf(s.subject().library_path);
  if (!elf.ok()) return skipped("the library is not an ELF file, as A.exports reports");
  *out = std::move(*elf);
  return pass();
}

std::string listed(const std::vector<std::string>& names) {
  return names.empty() ? "nothing" : join_names(names, 8);
}

// Does everything that a process does before the plugin is loaded, so that differences come from
// the plugin alone.
Outcome with_host(Session& s) {
  if (s.subject().library_path.empty())
    return skipped("there is no library, as A.library-path reports");
  std::string why;
  return installed_host(&why) != nullptr ? pass()
                                         : skipped("the installed host does not start: " + why);
}

double cpu_seconds() {
  timespec now = {};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

}  // namespace

Outcome exports(Session& s) {
  if (s.subject().library_path.empty())
    return skipped("there is no library, as A.library-path reports");
  Result<ElfFile> elf = read_elf(s.subject().library_path);
  CONFORM_EXPECT(elf.ok(), "{}", elf.error().message);
  CONFORM_EXPECT(elf->is_shared_object, "it is not a shared object");
  std::vector<std::string> names;
  bool found = false;
  for (const ElfSymbol& symbol : elf->symbols) {
    if (!symbol.defined) continue;
    if (symbol.name == kSymbol && symbol.function) found = true;
    if (symbol.name != kSymbol) names.push_back(symbol.name);
  }
  CONFORM_EXPECT(found, "it exports no function {}", kSymbol);
  CONFORM_EXPECT(names.empty(), "besides {} it exports {}", kSymbol, listed(names));
  return pass();
}

Outcome no_private_door(Session& s) {
  ElfFile elf;
  CONFORM_TRY(with_elf(s, &elf));
  std::vector<std::string> names;
  for (const ElfSymbol& symbol : elf.symbols) {
    const bool ours =
        symbol.name.starts_with("tenon_") ||
        (symbol.name.starts_with("_Z") && symbol.name.find("5tenon") != std::string::npos);
    if (!symbol.defined && ours) names.push_back(symbol.name);
  }
  for (const std::string& library : elf.needed) {
    if (library.starts_with("libtenon.so")) names.push_back(library);
  }
  CONFORM_EXPECT(names.empty(), "it needs {}", listed(names));
  return pass();
}

Outcome opens(Session& s) {
  CONFORM_TRY(with_host(s));
  return s.open();
}

Outcome binds_now(Session& s) {
  ElfFile elf;
  CONFORM_TRY(with_elf(s, &elf));
  CONFORM_EXPECT(elf.bind_now, "it is bound lazily: link with -z now");
  return pass();
}

Outcome stack(Session& s) {
  ElfFile elf;
  CONFORM_TRY(with_elf(s, &elf));
  CONFORM_EXPECT(elf.says_stack,
                 "it does not declare its stack, so the system makes the stack executable");
  CONFORM_EXPECT(!elf.executable_stack, "it asks for an executable stack");
  return pass();
}

Outcome segments(Session& s) {
  ElfFile elf;
  CONFORM_TRY(with_elf(s, &elf));
  CONFORM_EXPECT(!elf.writable_code, "a segment is writable and executable");
  CONFORM_EXPECT(!elf.text_relocations, "its text has relocations: compile with -fPIC");
  return pass();
}

Outcome search_paths(Session& s) {
  ElfFile elf;
  CONFORM_TRY(with_elf(s, &elf));
  for (const std::string& list : elf.search_paths) {
    for (std::string_view path : split(list, ':')) {
      const bool own = path == "$ORIGIN" || path.starts_with("$ORIGIN/");
      CONFORM_EXPECT(own && path.find("..") == std::string_view::npos, "it searches {}",
                     quoted(path));
    }
  }
  return pass();
}

Outcome needed_names(Session& s) {
  ElfFile elf;
  CONFORM_TRY(with_elf(s, &elf));
  for (const std::string& name : elf.needed)
    CONFORM_EXPECT(name.find('/') == std::string::npos, "it needs {}", quoted(name));
  return pass();
}

Outcome sanitizer(Session& s) {
  ElfFile elf;
  CONFORM_TRY(with_elf(s, &elf));
  static constexpr std::pair<const char*, const char*> kSigns[] = {
      {"__asan_init", "address"}, {"__tsan_init", "thread"}, {"__msan_init", "memory"}};
  for (const auto& [sign, name] : kSigns) {
    for (const ElfSymbol& symbol : elf.symbols) {
      if (symbol.name != sign) continue;
      CONFORM_EXPECT(s.subject().manifest.sanitizer == name,
                     "it was built with the {} sanitizer, and build.sanitizer says {}", name,
                     quoted(s.subject().manifest.sanitizer));
    }
  }
  return pass();
}

Outcome opens_fast(Session& s) {
  CONFORM_TRY(with_host(s));
  const double begin = cpu_seconds();
  const Outcome opened = s.open();
  const double seconds = cpu_seconds() - begin;
  if (opened.verdict != Verdict::kPass)
    return skipped("the library does not open, as A.opens reports");
  CONFORM_EXPECT(seconds <= kOpenSecondsMax, "it took {:.0f} ms of processor time", 1e3 * seconds);
  return pass();
}

// Redirects standard output and error to a file in memory.
Outcome quiet(Session& s) {
  CONFORM_TRY(with_host(s));
  const int file = ::memfd_create("tenon-conform", MFD_CLOEXEC);
  if (file < 0) return skipped("no file in memory to write to");
  std::fflush(nullptr);
  const int out = ::dup(1), err = ::dup(2);
  ::dup2(file, 1);
  ::dup2(file, 2);
  const Outcome outcome = s.load();
  std::fflush(nullptr);
  ::dup2(out, 1);
  ::dup2(err, 2);
  CONFORM_TRY(outcome);
  std::string text(256, '\0');
  const ssize_t got = ::pread(file, text.data(), text.size(), 0);
  CONFORM_EXPECT(got <= 0, "it wrote {}",
                 quoted(text.substr(0, static_cast<size_t>(std::max<ssize_t>(got, 0)))));
  return pass();
}

Outcome no_threads(Session& s) {
  CONFORM_TRY(with_host(s));
  auto threads = [] { return list_folder("/proc/self/task").size(); };
  const size_t before = threads();
  CONFORM_TRY(s.load());
  const size_t after = threads();
  CONFORM_EXPECT(after == before, "there were {} threads before and {} after", before, after);
  return pass();
}

Outcome process_state(Session& s) {
  CONFORM_TRY(with_host(s));
  const ProcessState before = process_state_now();
  CONFORM_TRY(s.load());
  return compare_process_state(before, process_state_now(), "the query");
}

Outcome descriptors(Session& s) {
  CONFORM_TRY(with_host(s));
  auto inherited = [] {
    std::set<int> open;
    for (int descriptor = 0; descriptor < 1024; ++descriptor) {
      const int flags = ::fcntl(descriptor, F_GETFD);
      if (flags >= 0 && (flags & FD_CLOEXEC) == 0) open.insert(descriptor);
    }
    return open;
  };
  const std::set<int> before = inherited();
  CONFORM_TRY(s.load());
  for (int descriptor : inherited()) {
    if (before.count(descriptor) != 0) continue;
    std::string target(256, '\0');
    const ssize_t size = ::readlink(fmt::format("/proc/self/fd/{}", descriptor).c_str(),
                                    target.data(), target.size());
    target.resize(static_cast<size_t>(std::max<ssize_t>(size, 0)));
    return failed("it left {} open for child processes", quoted(target));
  }
  return pass();
}

}  // namespace tenon::conform
