// Libraries of three systems and two processors, made here by clang and lld, read as bytes; the
// same files cut and altered.
#include "core/host/binary/binary.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <vector>

#include "core/base/str.h"

namespace tenon::host {
namespace {

namespace fs = std::filesystem;
using Bytes = std::vector<std::byte>;

constexpr const char* kPlugin = R"(
#include <tenon/abi/note.h>
#if defined(_WIN32)
#define EXPORT __declspec(dllexport)
#else
#define EXPORT __attribute__((visibility("default")))
#endif
#ifdef NOTED
TENON_PLUGIN_NOTE("acme", "0.1.2",
                  TENON_NOTE_OFFERS("tenon.device/1", 0) TENON_NOTE_OFFERS("acme.more/2", 7))
#endif
int other(void);
EXPORT int some_data = 42;
EXPORT int tenon_plugin(void) { return 3; }
EXPORT int tenon_plugin_query(void) { return other() + some_data; }
int hidden(void) { return 5; }
)";
constexpr const char* kOther = R"(
#if defined(_WIN32)
__declspec(dllexport)
#endif
int other(void) { return 1; }
)";

struct System {
  const char* target;
  const char *os, *arch;
  const char* needed;  // the name of the other library
};
const System kSystems[] = {
    {"x86_64-linux-gnu", "linux", "x86_64", "libother.so.1"},
    {"aarch64-linux-gnu", "linux", "aarch64", "libother.so.1"},
    {"arm64-apple-macos13", "macos", "aarch64", "@rpath/libother.dylib"},
    {"x86_64-apple-macos13", "macos", "x86_64", "@rpath/libother.dylib"},
    {"x86_64-pc-windows-msvc", "windows", "x86_64", "other.dll"},
    {"aarch64-pc-windows-msvc", "windows", "aarch64", "other.dll"},
};

class Folder {
 public:
  Folder() {
    char name[] = "/tmp/tenon_binary_XXXXXX";
    path_ = ::mkdtemp(name);
  }
  ~Folder() { fs::remove_all(path_); }
  std::string operator/(std::string_view name) const { return (path_ / name).string(); }

 private:
  fs::path path_;
};

void run(const std::string& command) {
  ASSERT_EQ(std::system((command + " 2>&1").c_str()), 0) << command;
}

Bytes content(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  const auto* begin = reinterpret_cast<const std::byte*>(text.data());
  return Bytes(begin, begin + text.size());
}

// The library of a plugin for that system, which needs another library.
Bytes library(const System& system, const std::string& options = "-DNOTED",
              const std::string& link = "") {
  const Folder folder;
  std::ofstream(folder / "plugin.c") << kPlugin;
  std::ofstream(folder / "other.c") << kOther;
  const std::string_view os = system.os;
  const std::string compile = std::string(TENON_CLANG) + " -target " + system.target +
                              (os == "windows" ? "" : " -fPIC") +
                              " -ffreestanding -O1 -fvisibility=hidden -I" TENON_SDK " -c ";
  const std::string object = folder / "plugin.o", second = folder / "other.o",
                    out = folder / "plugin.out";
  run(compile + options + " " + (folder / "plugin.c") + " -o " + object);
  run(compile + "-fvisibility=default " + (folder / "other.c") + " -o " + second);
  if (os == "linux") {
    const std::string so = folder / "libother.so";
    run("ld.lld-19 -shared -soname libother.so.1 " + second + " -o " + so);
    run("ld.lld-19 -shared --gc-sections " + link + " " + object + " " + so + " -o " + out);
  } else if (os == "macos") {
    const std::string lib = folder / "libother.dylib";
    const std::string ld = std::string("ld64.lld-19 -dylib -arch ") +
                           (std::strcmp(system.arch, "aarch64") == 0 ? "arm64" : "x86_64") +
                           " -platform_version macos 13 13 ";
    run(ld + "-install_name @rpath/libother.dylib " + second + " -o " + lib);
    run(ld + "-dead_strip " + link + " " + object + " " + lib + " -o " + out);
  } else {
    const std::string implib = folder / "other.lib";
    run("lld-link-19 /dll /noentry /nologo /out:" + (folder / "other.dll") + " /implib:" + implib +
        " " + second);
    run("lld-link-19 /dll /noentry /nologo /opt:ref " + link + " /out:" + out + " " + object + " " +
        implib);
  }
  return content(out);
}

Exported kind(const Binary& binary, std::string_view symbol) {
  const Result<Exported> found = exported(binary, symbol);
  EXPECT_TRUE(found.ok()) << found.status().text();
  return found.ok() ? *found : Exported::kAbsent;
}

void expect_plugin(const System& system, std::span<const std::byte> bytes) {
  SCOPED_TRACE(system.target);
  const Result<Binary> binary = read_binary(bytes);
  ASSERT_TRUE(binary.ok()) << binary.status().text();
  EXPECT_EQ(binary->os, system.os);
  EXPECT_EQ(binary->arch, system.arch);
  EXPECT_TRUE(binary->is_library);
  EXPECT_EQ(binary->needed, std::vector<std::string_view>{system.needed});
  EXPECT_EQ(kind(*binary, "tenon_plugin_query"), Exported::kFunction);
  EXPECT_EQ(kind(*binary, "tenon_plugin"), Exported::kFunction);
  EXPECT_EQ(kind(*binary, "some_data"), Exported::kData);
  for (const char* absent : {"hidden", "other", "tenon_plugin_quer", "tenon_plugin_query2", ""})
    EXPECT_EQ(kind(*binary, absent), Exported::kAbsent) << absent;
}

TEST(Binary, ReadsLibrariesOfOtherSystems) {
  for (const System& system : kSystems) {
    const Bytes bytes = library(system);
    expect_plugin(system, bytes);
    const Result<Binary> binary = read_binary(bytes);
    ASSERT_TRUE(binary.ok());
    const Result<PluginNote> note = read_note(*binary);
    ASSERT_TRUE(note.ok()) << system.target << ": " << note.status().text();
    EXPECT_EQ(note->abi, 2u);
    EXPECT_EQ(note->name, "acme");
    EXPECT_EQ(note->version, "0.1.2");
    EXPECT_NE(note->build_id.find("lang"), std::string::npos) << note->build_id;
    ASSERT_EQ(note->interfaces.size(), 2u);
    EXPECT_EQ(note->interfaces[0].id, "tenon.device/1");
    EXPECT_EQ(note->interfaces[1].id, "acme.more/2");
    EXPECT_EQ(note->interfaces[1].minor, 7u);
  }
}

TEST(Binary, ReadsOlderTables) {
  expect_plugin(kSystems[0], library(kSystems[0], "-DNOTED", "--hash-style=sysv"));
  expect_plugin(kSystems[0], library(kSystems[0], "-DNOTED", "--hash-style=gnu"));
  System old = kSystems[3];  // dyld's table of before 2021
  expect_plugin(old, library(old, "-DNOTED", "-no_fixup_chains -undefined dynamic_lookup"));
}

TEST(Binary, TellsThatThereIsNoNote) {
  for (const System& system : kSystems) {
    const Bytes bytes = library(system, "");
    const Result<Binary> binary = read_binary(bytes);
    ASSERT_TRUE(binary.ok()) << binary.status().text();
    EXPECT_EQ(read_note(*binary).status().error_code(), "P0705") << system.target;
  }
}

void append(uint32_t number, Bytes* out) {  // the high byte first
  for (int shift = 24; shift >= 0; shift -= 8)
    out->push_back(static_cast<std::byte>(number >> shift));
}

// A universal file holds a file for each processor.
TEST(Binary, ChoosesThePartOfAUniversalFile) {
  const Bytes parts[] = {library(kSystems[2]), library(kSystems[3])};
  Bytes file;
  append(0xcafebabe, &file);
  append(2, &file);
  size_t at = 4096;
  for (int i = 0; i < 2; ++i) {
    append(i == 0 ? 0x0100000c : 0x01000007, &file);
    append(0, &file);
    append(static_cast<uint32_t>(at), &file);
    append(static_cast<uint32_t>(parts[i].size()), &file);
    append(12, &file);
    at += parts[i].size();
  }
  file.resize(4096);
  for (const Bytes& part : parts) file.insert(file.end(), part.begin(), part.end());
  for (const char* arch : {"aarch64", "x86_64"}) {
    const Result<Binary> binary = read_binary(file, arch);
    ASSERT_TRUE(binary.ok()) << binary.status().text();
    EXPECT_EQ(binary->arch, arch);
    EXPECT_EQ(kind(*binary, "tenon_plugin_query"), Exported::kFunction);
  }
  file.resize(5000);
  EXPECT_EQ(read_binary(file, "x86_64").status().error_code(), "P0704");
}

// Whatever the bytes: an error with a code, or an answer.
void read_all(std::span<const std::byte> bytes) {
  const Result<Binary> binary = read_binary(bytes);
  if (!binary.ok()) {
    ASSERT_EQ(binary.status().error_code(), "P0704");
    return;
  }
  const Result<Exported> found = exported(*binary, "tenon_plugin_query");
  if (!found.ok()) {
    ASSERT_EQ(found.status().error_code(), "P0704");
  }
  const Result<PluginNote> note = read_note(*binary);
  if (!note.ok()) {
    ASSERT_EQ(note.status().error_code(), "P0705");
  }
}

TEST(Binary, SurvivesEveryCutAndEveryAlteredByte) {
  for (const System& system : kSystems) {
    SCOPED_TRACE(system.target);
    const Bytes whole = library(system);
    for (size_t size = 0; size < whole.size(); size += size < 8192 ? 1 : 61) {
      const Bytes cut(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(size));  // its own end
      read_all(cut);
      if (HasFatalFailure()) return;
    }
    Bytes altered = whole;
    for (size_t at = 0; at < whole.size(); ++at) {
      if (at >= 4096 && whole[at] == std::byte{0}) continue;
      for (unsigned value : {0u, 1u, 0x7fu, 0x80u, 0xffu}) {
        altered[at] = static_cast<std::byte>(value);
        read_all(altered);
        if (HasFatalFailure()) return;
      }
      altered[at] = whole[at];
    }
  }
}

TEST(Binary, RefusesWhatIsNoLibrary) {
  for (std::string_view text : {"", "M", "MZ",
                                "\x7f"
                                "ELF",
                                "#!/bin/sh\n", "\xca\xfe\xba\xbe"}) {
    const auto* begin = reinterpret_cast<const std::byte*>(text.data());
    EXPECT_EQ(read_binary({begin, text.size()}).status().error_code(), "P0704") << printable(text);
  }
  const Bytes zeros(4096);
  EXPECT_EQ(read_binary(zeros).status().error_code(), "P0704");
}

}  // namespace
}  // namespace tenon::host
