// The host's services, called through their tables as a plugin in C would call them.
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstring>

#include <tenon/abi/host.h>
#include <tenon/abi/plugin.h>
#include <tenon/cpp/sha256.hpp>

#include "core/base/errors/failure.h"
#include "core/base/file.h"
#include "core/host/discovery/remedy.h"
#include "core/host/host_interfaces.h"
#include "core/ir/host_graph.h"

namespace tenon::host {
namespace {

class HostTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    char pattern[] = "/tmp/tenon_host_test.XXXXXX";
    folder() = mkdtemp(pattern);
    setenv("TENON_CACHE_DIR", (folder() + "/cache").c_str(), 1);
    register_service_interfaces();
    register_host_interface(TENON_HOST_GRAPH_ID, TENON_HOST_GRAPH_MINOR, ir::host_graph_table());
  }
  static void TearDownTestSuite() { ASSERT_EQ(system(("rm -rf " + folder()).c_str()), 0); }
  static std::string& folder() {
    static std::string name;
    return name;
  }
  template <typename Table>
  static const Table* ask(std::string_view id) {
    const void* table = nullptr;
    EXPECT_EQ(host_table()->query(host_table()->self, to_abi_str(id), 0, &table), TENON_OK) << id;
    return static_cast<const Table*>(table);
  }
  static std::string text_of(tenon_blob_t* blob) {
    const auto* graph = ask<tenon_host_graph_t>(TENON_HOST_GRAPH_ID);
    const void* data = nullptr;
    uint64_t size = 0;
    EXPECT_EQ(graph->blob_data(graph->self, blob, &data, &size), TENON_OK);
    std::string text(static_cast<const char*>(data), size);
    graph->blob_release(graph->self, blob);
    return text;
  }
};

TEST_F(HostTest, CacheKeepsBytes) {
  const auto* cache = ask<tenon_host_cache_t>(TENON_HOST_CACHE_ID);
  tenon_blob_t* blob = nullptr;
  EXPECT_EQ(cache->get(cache->self, to_abi_str("object"), "key", 3, &blob), TENON_NOT_FOUND);
  EXPECT_EQ(cache->put(cache->self, to_abi_str("object"), "key", 3, "code", 4), TENON_OK);
  ASSERT_EQ(cache->get(cache->self, to_abi_str("object"), "key", 3, &blob), TENON_OK);
  EXPECT_EQ(text_of(blob), "code");
  EXPECT_EQ(cache->put(cache->self, to_abi_str("object"), "empty", 5, nullptr, 0), TENON_OK);
  ASSERT_EQ(cache->get(cache->self, to_abi_str("object"), "empty", 5, &blob), TENON_OK);
  EXPECT_EQ(text_of(blob), "");
  for (std::string_view kind : {"", "../x", "A", "a/b"}) {
    EXPECT_EQ(cache->put(cache->self, to_abi_str(kind), "k", 1, "x", 1), TENON_INVALID_ARGUMENT)
        << kind;
  }
}

TEST_F(HostTest, ScratchPathsStayInTheirFolder) {
  const auto* cache = ask<tenon_host_cache_t>(TENON_HOST_CACHE_ID);
  std::string path;
  tenon_sink_t sink = {&path, [](void* self, const void* data, uint64_t size) -> tenon_code_t {
                         static_cast<std::string*>(self)->append(static_cast<const char*>(data),
                                                                 size);
                         return TENON_OK;
                       }};
  ASSERT_EQ(cache->scratch_path(cache->self, to_abi_str("k.so"), &sink), TENON_OK);
  EXPECT_TRUE(path.ends_with("/k.so"));
  EXPECT_EQ(identify(folder_of(path))->mode & 0777, 0700u);
  for (std::string_view name : {"", "..", "a/b", ".hidden"}) {
    EXPECT_EQ(cache->scratch_path(cache->self, to_abi_str(name), &sink), TENON_INVALID_ARGUMENT)
        << name;
  }
}

TEST_F(HostTest, FilesAreMappedUnderTheRules) {
  const auto* files = ask<tenon_host_files_t>(TENON_HOST_FILES_ID);
  const std::string path = folder() + "/weights.bin";
  ASSERT_EQ(files->write(files->self, to_abi_str(path), "0123456789", 10), TENON_OK);
  tenon_blob_t* blob = nullptr;
  ASSERT_EQ(files->map(files->self, to_abi_str(path), &blob), TENON_OK);
  EXPECT_EQ(text_of(blob), "0123456789");
  auto beneath = [&](std::string_view name, uint64_t offset, uint64_t size) {
    return files->map_beneath(files->self, to_abi_str(folder()), to_abi_str(name), offset, size,
                              &blob);
  };
  ASSERT_EQ(beneath("weights.bin", 2, 3), TENON_OK);
  EXPECT_EQ(text_of(blob), "234");
  ASSERT_EQ(beneath("weights.bin", 7, UINT64_MAX), TENON_OK);
  EXPECT_EQ(text_of(blob), "789");
  EXPECT_EQ(beneath("weights.bin", 11, UINT64_MAX), TENON_OUT_OF_RANGE);
  EXPECT_EQ(beneath("weights.bin", 8, 3), TENON_OUT_OF_RANGE);
  EXPECT_EQ(beneath("weights.bin", UINT64_MAX - 1, 4), TENON_OUT_OF_RANGE);
  EXPECT_EQ(beneath("../x", 0, 1), TENON_INVALID_ARGUMENT);
  EXPECT_EQ(beneath("missing", 0, 1), TENON_NOT_FOUND);
  ASSERT_EQ(symlink("weights.bin", (folder() + "/link").c_str()), 0);
  EXPECT_EQ(beneath("link", 0, 1), TENON_PERMISSION_DENIED);
  EXPECT_EQ(files->write(files->self, to_abi_str(folder() + "/link"), "x", 1),
            TENON_PERMISSION_DENIED);
}

TEST_F(HostTest, ThreadsRunEverythingOnce) {
  const auto* threads = ask<tenon_host_threads_t>(TENON_HOST_THREADS_ID);
  EXPECT_GE(threads->count(threads->self), 1u);
  std::atomic<int64_t> sum{0};
  auto add = [](void* context, uint32_t, int64_t begin, int64_t end) -> tenon_code_t {
    for (int64_t i = begin; i < end; ++i) static_cast<std::atomic<int64_t>*>(context)->fetch_add(i);
    return TENON_OK;
  };
  EXPECT_EQ(threads->parallel(threads->self, add, &sum, 1000, 10), TENON_OK);
  EXPECT_EQ(sum.load(), 499500);
}

TEST_F(HostTest, FailuresKeepTheirDetails) {
  const tenon_host_t* host = host_table();
  tenon_key_value_t detail = {to_abi_str("device"), to_abi_str("sim:1")};
  EXPECT_EQ(host->fail(host->self, TENON_UNAVAILABLE, to_abi_str("P0801: no card"), &detail, 1),
            TENON_UNAVAILABLE);
  tenon_failure_t failure = {.size_bytes = sizeof failure};
  ASSERT_EQ(host->last_failure(host->self, &failure), TENON_OK);
  EXPECT_EQ(from_abi_str(failure.id), "P0801");
  EXPECT_EQ(from_abi_str(failure.message), "no card");
  ASSERT_EQ(failure.detail_count, 1u);
  EXPECT_EQ(from_abi_str(failure.details[0].value), "sim:1");
  EXPECT_EQ(host->fail(host->self, TENON_OK, to_abi_str("confused"), nullptr, 0), TENON_UNKNOWN);
  clear_failure();
  ASSERT_EQ(host->last_failure(host->self, &failure), TENON_OK);
  EXPECT_EQ(failure.code, TENON_OK);
}

TEST(Remedy, LibrariesAreFoundWithoutBeingOpened) {
  Manifest manifest;
  EXPECT_EQ(missing_library(manifest), "");
  manifest.required_libraries = {"libc.so.6", "libm.so.6"};
  EXPECT_EQ(missing_library(manifest), "");
  manifest.required_libraries.push_back("libno-such-library.so.9");
  EXPECT_EQ(missing_library(manifest), "libno-such-library.so.9");
}

TEST(Remedy, PackagesComeFromTheTable) {
  const std::string_view table =
      "# libfirst.so.1 no\nlibfirst.so.1 first1\n\n  libsecond.so.2  second2 \nlibthird.so.3\n";
  EXPECT_EQ(package_in(table, "libfirst.so.1"), "first1");
  EXPECT_EQ(package_in(table, "libsecond.so.2"), "second2");
  EXPECT_EQ(package_in(table, "libthird.so.3"), "");
  EXPECT_EQ(package_in("", "libfirst.so.1"), "");
  Result<File> installed = open_no_follow(TENON_PACKAGES);
  ASSERT_TRUE(installed.ok());
  const std::string text = read_all(*installed, 64 * 1024, "a table").value_or("");
  EXPECT_EQ(package_in(text, "libOpenCL.so.1"), "ocl-icd-libopencl1");
  EXPECT_EQ(package_in(text, "libusb-1.0.so.0"), "libusb-1.0-0");
  EXPECT_EQ(package_in(text, "libno-such-library.so.9"), "");
  EXPECT_EQ(package_of("libno-such-library.so.9"), "");
}

TEST(Remedy, SaysWhoHasItAndWhatToRun) {
  Candidate candidate;
  candidate.manifest.name = "mine";
  EXPECT_EQ(remedy_of(candidate).suffix(), "");
  candidate.manifest_path = "/opt/mine/mine.plugin.json";
  candidate.fail(Gate::kInitialised, error(TENON_INVALID_ARGUMENT, "P0805", "a slot is null"));
  EXPECT_EQ(remedy_of(candidate).suffix(), "; run `tenon conform /opt/mine/mine.plugin.json`");
  Remedy remedy;
  remedy.library = "libOpenCL.so.1";
  remedy.package = "ocl-icd-libopencl1";
  remedy.command = "apt install ocl-icd-libopencl1";
  EXPECT_EQ(remedy.suffix(),
            "; `libOpenCL.so.1` is in the package `ocl-icd-libopencl1`; run `apt install "
            "ocl-icd-libopencl1`");
}

TEST(Sha256, KnownValues) {
  auto of = [](std::string_view text) {
    return digest::sha256_hex(std::as_bytes(std::span(text.data(), text.size())));
  };
  EXPECT_EQ(of(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(of("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(of(std::string(1000000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

}  // namespace
}  // namespace tenon::host
