#include "core/pass/diff.h"

#include <gtest/gtest.h>

#include <random>

namespace tenon::pass {
namespace {

TEST(Diff, ShowsWhatChangedWithContext) {
  EXPECT_EQ(line_diff("a\nb\n", "a\nb\n"), "");
  EXPECT_EQ(line_diff("a\nb\nc\nd\ne\nf\n", "a\nb\nc\nX\ne\nf\n", 1), "...\n c\n-d\n+X\n e\n...\n");
  EXPECT_EQ(line_diff("", "a\n"), "+a\n");
  EXPECT_EQ(line_diff("a\nb\n", ""), "-a\n-b\n");
  EXPECT_EQ(line_diff("a\nb\nc\n", "b\nc\nd\n", 0), "-a\n...\n+d\n");
}

// With all lines shown, those of a diff are the two texts.
TEST(Diff, HoldsBothTexts) {
  std::minstd_rand random(1);
  for (int round = 0; round < 300; ++round) {
    std::string before, after;
    for (auto* text : {&before, &after}) {
      for (uint64_t n = random() % 12; n > 0; --n)
        *text += std::string(1, "abc"[random() % 3]) + "\n";
    }
    std::string first, second;
    const std::string diff = line_diff(before, after, 100);
    for (size_t at = 0; at < diff.size(); at += 3) {
      const std::string line = diff.substr(at + 1, 2);
      if (diff[at] != '+') first += line;
      if (diff[at] != '-') second += line;
    }
    if (before == after) continue;
    EXPECT_EQ(first, before) << diff;
    EXPECT_EQ(second, after) << diff;
  }
}

TEST(Diff, TextsWithoutCommonLinesAreShownWhole) {
  std::string before, after;
  for (int i = 0; i < 3000; ++i) before += "a" + std::to_string(i) + "\n", after += "b\n";
  const std::string diff = line_diff(before, after);
  EXPECT_EQ(std::count(diff.begin(), diff.end(), '\n'), 6000);
}

}  // namespace
}  // namespace tenon::pass
