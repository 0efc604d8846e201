// Group 7 of the hostile inputs: whatever happens to the cache folder, a read gives the right bytes
// or "not found".
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <thread>

#include "core/base/cache.h"
#include "core/base/limits.h"
#include "core/base/process/log.h"

namespace tenon {
namespace {

std::span<const std::byte> bytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}
std::string text(std::span<const std::byte> data) {
  return std::string(reinterpret_cast<const char*>(data.data()), data.size());
}

class CacheTest : public testing::Test {
 protected:
  void SetUp() override {
    char pattern[] = "/tmp/tenon_cache_test.XXXXXX";
    outer_ = mkdtemp(pattern);
    folder_ = outer_ + "/cache";
    set_log_receiver(
        [](void* self, std::string_view, LogLevel, std::string_view line) {
          static_cast<CacheTest*>(self)->log_ += std::string(line) + "\n";
        },
        this);
  }
  void TearDown() override {
    set_log_receiver(nullptr, nullptr);
    set_limit(Limit::kCacheBytes, limit_info(Limit::kCacheBytes).default_value);
    ASSERT_EQ(system(("chmod -R u+w " + outer_ + "; rm -rf " + outer_).c_str()), 0);
  }
  std::string found(Cache& cache, std::string_view key) {
    Result<CacheEntry> entry = cache.get("object", bytes(key));
    return entry.ok() ? text(entry->bytes) : "";
  }
  std::string outer_, folder_, log_;
};

TEST_F(CacheTest, StoresAndFinds) {
  Cache cache(folder_);
  ASSERT_TRUE(cache.usable());
  EXPECT_EQ(identify(folder_)->mode & 0777, 0700u);
  EXPECT_EQ(found(cache, "k"), "");
  EXPECT_TRUE(cache.put("object", bytes("k"), bytes("payload")));
  EXPECT_EQ(found(cache, "k"), "payload");
  EXPECT_EQ(cache.get("object", bytes("k"))->bytes.size(), 7u);
  EXPECT_FALSE(cache.get("other", bytes("k")).ok());
  EXPECT_TRUE(cache.put("object", bytes(""), bytes("")));
  EXPECT_TRUE(cache.get("object", bytes("")).ok());
  cache.drop("object", bytes("k"));
  EXPECT_EQ(found(cache, "k"), "");
  EXPECT_EQ(log_, "");
}

TEST_F(CacheTest, EveryFlippedByteAndEveryCutIsNoticed) {
  Cache cache(folder_);
  ASSERT_TRUE(cache.put("object", bytes("key"), bytes("some machine code")));
  std::string path = cache.list().at(0).path;
  std::string whole = read_all(open_user_file(path).value(), 10000, "").value();
  for (size_t i = 0; i < whole.size(); ++i) {
    std::string damaged = whole;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x40);
    ASSERT_TRUE(write_file(path, damaged).ok());
    std::string answer = found(cache, "key");
    EXPECT_TRUE(answer.empty() || answer == "some machine code") << i;  // padding may change
    ASSERT_TRUE(write_file(path, whole.substr(0, i)).ok());
    EXPECT_EQ(found(cache, "key"), "") << i;
  }
  EXPECT_NE(log_.find("T0802"), std::string::npos);
  EXPECT_FALSE(identify(path).ok());  // removed
}

TEST_F(CacheTest, EntryOfAnotherKeyIsRefused) {
  Cache cache(folder_);
  ASSERT_TRUE(cache.put("object", bytes("a"), bytes("of a")));
  std::string of_a = cache.list().at(0).path;
  ASSERT_TRUE(cache.put("object", bytes("b"), bytes("of b")));
  std::string of_b;
  for (const CacheListing& entry : cache.list()) of_b = entry.path == of_a ? of_b : entry.path;
  ASSERT_EQ(rename(of_b.c_str(), of_a.c_str()), 0);
  EXPECT_EQ(found(cache, "a"), "");
  EXPECT_NE(log_.find("belongs to another key"), std::string::npos);
}

TEST_F(CacheTest, LinksForeignersAndOpenFoldersAreRefused) {
  ASSERT_TRUE(make_folders(outer_ + "/real", 0700).ok());
  ASSERT_EQ(symlink((outer_ + "/real").c_str(), folder_.c_str()), 0);
  EXPECT_FALSE(Cache(folder_).usable());
  EXPECT_NE(log_.find("T0801"), std::string::npos);
  ASSERT_TRUE(make_folders(outer_ + "/open", 0700).ok());
  ASSERT_EQ(chmod((outer_ + "/open").c_str(), 0777), 0);
  EXPECT_FALSE(Cache(outer_ + "/open").usable());
  EXPECT_FALSE(Cache("relative/path").usable());
  EXPECT_FALSE(Cache("").usable());
  if (geteuid() == 0) {
    ASSERT_TRUE(make_folders(outer_ + "/foreign", 0700).ok());
    ASSERT_EQ(chown((outer_ + "/foreign").c_str(), 12345, 12345), 0);
    Cache foreign(outer_ + "/foreign");
    EXPECT_FALSE(foreign.usable());
    EXPECT_FALSE(foreign.put("object", bytes("k"), bytes("p")));
    Cache good(folder_ + "2");
    ASSERT_TRUE(good.put("object", bytes("k"), bytes("p")));
    ASSERT_EQ(chown(good.list().at(0).path.c_str(), 12345, 12345), 0);
    EXPECT_EQ(found(good, "k"), "");
  }
  std::string missing_home = "/proc/nowhere/cache";
  EXPECT_FALSE(Cache(missing_home).usable());
}

TEST_F(CacheTest, ReadOnlyFolderStillServes) {
  // Root ignores permissions, so root runs this case as another user, in a child.
  ASSERT_EQ(chmod(outer_.c_str(), 0777), 0);
  pid_t child = fork();
  if (child == 0) {
    if (geteuid() == 0 && setresuid(65534, 65534, 65534) != 0) _exit(9);
    Cache cache(folder_);
    if (!cache.put("object", bytes("k"), bytes("p"))) _exit(1);
    if (system(("chmod -R a-w " + folder_).c_str()) != 0) _exit(2);
    if (found(cache, "k") != "p") _exit(3);
    if (cache.put("object", bytes("k2"), bytes("p"))) _exit(4);
    _exit(log_.find("T0803") != std::string::npos ? 0 : 5);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST_F(CacheTest, FileSizeLimitTakesThePartOfAFullDisk) {
  Cache cache(folder_);
  pid_t child = fork();
  if (child == 0) {
    signal(SIGXFSZ, SIG_IGN);
    rlimit small = {4096, 4096};
    setrlimit(RLIMIT_FSIZE, &small);
    std::string big(100000, 'x');
    bool stored = cache.put("object", bytes("big"), bytes(big));
    _exit(!stored && cache.put("object", bytes("small"), bytes("s")) ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(found(cache, "big"), "");
  EXPECT_EQ(found(cache, "small"), "s");
  EXPECT_EQ(cache.list().size(), 1u);
}

TEST_F(CacheTest, TwoWritersAndReaders) {
  Cache cache(folder_);
  std::string payload(50000, 'p');
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 100; ++i) {
        std::string key = "k" + std::to_string(i % 5);
        EXPECT_TRUE(cache.put("object", bytes(key), bytes(payload)));
        EXPECT_EQ(found(cache, key), payload);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(log_, "");
  EXPECT_EQ(cache.list().size(), 5u);
}

TEST_F(CacheTest, KilledWritersLeaveNothingWrong) {
  Cache cache(folder_);
  std::string payload(200000, 'p');
  for (int round = 0; round < 40; ++round) {
    pid_t child = fork();
    if (child == 0) {
      for (;;) cache.put("object", bytes("k"), bytes(payload));
    }
    usleep(static_cast<useconds_t>(200 + round * 97));
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    std::string answer = found(cache, "k");
    EXPECT_TRUE(answer.empty() || answer == payload);
  }
  EXPECT_EQ(log_, "");
}

TEST_F(CacheTest, BoundedLeastRecentlyUsedFirst) {
  Cache cache(folder_);
  std::string payload(1000, 'p');
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(cache.put("object", bytes("k" + std::to_string(i)), bytes(payload)));
  }
  std::vector<CacheListing> entries = cache.list();
  struct timespec old[2] = {{1000, 0}, {1000, 0}};
  ASSERT_EQ(utimensat(AT_FDCWD, entries[4].path.c_str(), old, 0), 0);
  EXPECT_GT(cache.prune(9 * 1130), 0u);
  EXPECT_FALSE(identify(entries[4].path).ok());
  EXPECT_EQ(cache.list().size(), 9u);
  cache.prune(0);
  EXPECT_EQ(cache.list().size(), 0u);
  set_limit(Limit::kCacheBytes, 500);
  EXPECT_FALSE(cache.put("object", bytes("big"), bytes(payload)));
}

TEST_F(CacheTest, ReproducersAreBoundedToo) {
  Cache cache(folder_);
  ASSERT_TRUE(make_folders(cache.reproducers(), 0700).ok());
  ASSERT_TRUE(write_file(join_path(cache.reproducers(), "mine-1.tir"), "text", 0600).ok());
  ASSERT_EQ(cache.list().size(), 1u);
  EXPECT_EQ(cache.list()[0].kind, "reproducers");
  EXPECT_EQ(cache.prune(0), 4u);
  EXPECT_TRUE(cache.list().empty());
}

TEST(Scratch, IsPrivate) {
  std::string folder = scratch_folder().value();
  EXPECT_EQ(identify(folder)->mode & 0777, 0700u);
  EXPECT_EQ(scratch_folder().value(), folder);
}

}  // namespace
}  // namespace tenon
