// The rules of opening and writing files: the part of group 2 of the hostile inputs that concerns
// names and links.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/file.h"

namespace tenon {
namespace {

class FileTest : public testing::Test {
 protected:
  void SetUp() override {
    char pattern[] = "/tmp/tenon_file_test.XXXXXX";
    ASSERT_NE(mkdtemp(pattern), nullptr);
    outer_ = pattern;
    folder_ = outer_ + "/model";
    ASSERT_TRUE(make_folders(folder_ + "/sub").ok());
    ASSERT_TRUE(write_file(outer_ + "/secret", "secret").ok());
    ASSERT_TRUE(write_file(folder_ + "/weights.bin", "0123456789").ok());
    ASSERT_TRUE(write_file(folder_ + "/sub/more.bin", "abc").ok());
  }
  void TearDown() override { ASSERT_EQ(system(("rm -rf " + outer_).c_str()), 0); }
  std::string refused(std::string_view name) {
    Result<File> file = open_beneath(folder_, name);
    std::string answer = file.ok() ? "opened" : std::string(file.status().error_code());
    // Kernels without openat2 must give the same result.
    Result<File> stepwise = detail::open_beneath_by_steps(folder_, name);
    EXPECT_EQ(stepwise.ok() ? "opened" : std::string(stepwise.status().error_code()), answer)
        << name;
    return answer;
  }
  std::string outer_, folder_;
};

TEST_F(FileTest, BeneathOpensPlainFiles) {
  EXPECT_EQ(refused("weights.bin"), "opened");
  EXPECT_EQ(refused("sub/more.bin"), "opened");
  EXPECT_EQ(refused("./sub//more.bin"), "opened");
}

TEST_F(FileTest, BeneathRefusesNames) {
  using namespace std::literals;
  for (std::string_view name :
       {"../secret"sv, "sub/../../secret"sv, "/etc/passwd"sv, ""sv, "a\0b"sv, "..\\secret"sv,
        "sub/"sv, "."sv, ".."sv, "/proc/self/mem"sv}) {
    EXPECT_EQ(refused(name), "T0104") << name;
  }
  EXPECT_EQ(refused(std::string(5000, 'x')), "T0104");
  EXPECT_EQ(refused("missing"), "T0101");
}

TEST_F(FileTest, BeneathRefusesLinksAndSpecialFiles) {
  ASSERT_EQ(symlink((outer_ + "/secret").c_str(), (folder_ + "/link").c_str()), 0);
  ASSERT_EQ(symlink("weights.bin", (folder_ + "/inner").c_str()), 0);
  ASSERT_EQ(symlink(outer_.c_str(), (folder_ + "/parent").c_str()), 0);
  ASSERT_EQ(::link((outer_ + "/secret").c_str(), (folder_ + "/hard").c_str()), 0);
  ASSERT_EQ(mkfifo((folder_ + "/fifo").c_str(), 0600), 0);
  for (const char* name : {"link", "inner", "parent/secret", "hard"})
    EXPECT_EQ(refused(name), "T0105") << name;
  EXPECT_EQ(refused("sub"), "T0103");
  EXPECT_EQ(refused("fifo"), "T0103");
}

TEST_F(FileTest, UserFilesMayBeLinksButNotDevices) {
  ASSERT_EQ(symlink((outer_ + "/secret").c_str(), (folder_ + "/link").c_str()), 0);
  EXPECT_TRUE(open_user_file(folder_ + "/link").ok());
  EXPECT_EQ(open_no_follow(folder_ + "/link").status().error_code(), "T0105");
  EXPECT_EQ(open_user_file("/dev/null").status().error_code(), "T0103");
  EXPECT_EQ(open_user_file(folder_).status().error_code(), "T0103");
  Status missing = open_user_file(folder_ + "/nope").status();
  EXPECT_EQ(missing.code(), TENON_NOT_FOUND);
  EXPECT_EQ(missing.text(), "T0101: cannot open `" + folder_ + "/nope`: No such file or directory");
  EXPECT_TRUE(open_user_file(folder_ + "/weight.bin")
                  .status()
                  .message()
                  .ends_with("No such file or directory; did you mean `weights.bin`?"));
}

TEST_F(FileTest, RegionsLieInside) {
  File file = open_beneath(folder_, "weights.bin").value();
  auto region = map_region(file, 3, 4).value();
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(region->bytes().data()), 4), "3456");
  EXPECT_EQ(map_region(file, 10, 0).value()->bytes().size(), 0u);
  EXPECT_EQ(map_region(file, 8, 3).status().error_code(), "T0106");
  EXPECT_EQ(map_region(file, UINT64_MAX - 7, 16).status().error_code(), "T0106");
  EXPECT_EQ(read_all(file, 5, "tests").status().error_code(), "T0102");
  EXPECT_EQ(read_all(file, 10, "tests").value(), "0123456789");
}

TEST_F(FileTest, WritesAreWholeOrAbsent) {
  std::string target = folder_ + "/out";
  {
    AtomicFile file = AtomicFile::create(target).value();
    ASSERT_TRUE(file.write("half").ok());
  }
  EXPECT_FALSE(identify(target).ok());
  EXPECT_EQ(list_folder(folder_).value(), (std::vector<std::string>{"sub", "weights.bin"}));
  ASSERT_TRUE(write_file(target, "whole").ok());
  EXPECT_EQ(read_all(open_user_file(target).value(), 100, "").value(), "whole");
  ASSERT_EQ(symlink((outer_ + "/secret").c_str(), (folder_ + "/trace").c_str()), 0);
  EXPECT_EQ(write_file(folder_ + "/trace", "x").error_code(), "T0109");
  EXPECT_EQ(read_all(open_user_file(outer_ + "/secret").value(), 100, "").value(), "secret");
  EXPECT_EQ(write_file(target + "/x", "x").error_code(), "T0107");
}

TEST_F(FileTest, FullDiskIsSaid) {
  const Status status = write_file("/dev/full", "x");  // which simulates a full disk
  EXPECT_EQ(status.error_code(), "T0108");
  EXPECT_EQ(status.code(), TENON_RESOURCE_EXHAUSTED);
}

TEST_F(FileTest, DevicesAreWrittenToAsTheyAre) {
  EXPECT_TRUE(write_file("/dev/null", "x").ok());
  struct stat status = {};
  ASSERT_EQ(stat("/dev/null", &status), 0);
  EXPECT_TRUE(S_ISCHR(status.st_mode));
}

}  // namespace
}  // namespace tenon
