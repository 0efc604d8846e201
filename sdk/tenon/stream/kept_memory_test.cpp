#include "tenon/stream/kept_memory.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>

namespace tenon::stream {
namespace {

// A runtime with so much memory, which reports what is out.
struct Source {
  explicit Source(uint64_t bytes) : left(bytes) {}
  KeptMemory::Take take() {
    return [this](uint64_t size, Address* out) -> Status {
      ++takes;
      if (size > left) return TENON_RESOURCE_EXHAUSTED;
      left -= size;
      *out = next += 4096;
      out_now[*out] = size;
      return {};
    };
  }
  KeptMemory::Give give() {
    return [this](Address address) -> Status {
      if (fails) return TENON_INTERNAL;
      left += out_now.at(address);
      out_now.erase(address);
      return {};
    };
  }
  uint64_t left, next = 0;
  int takes = 0;
  bool fails = false;
  std::map<Address, uint64_t> out_now;
};

Address alloc(KeptMemory& memory, uint64_t bytes) {
  Address out = 0;
  EXPECT_TRUE(memory.alloc(bytes, &out).ok()) << bytes;
  return out;
}

TEST(KeptMemory, WhatIsFreedIsTheNextOneOfItsSize) {
  Source source(1 << 20);
  KeptMemory memory(std::make_shared<KeptTogether>(0), source.take(), source.give());
  const Address first = alloc(memory, 1000);
  ASSERT_TRUE(memory.free(first).ok());
  EXPECT_EQ(memory.kept_bytes(), 1024u);
  EXPECT_EQ(alloc(memory, 1020), first) << "of the same class";
  EXPECT_EQ(memory.kept_bytes(), 0u);
  EXPECT_NE(alloc(memory, 1000), first) << "in use";
  EXPECT_EQ(source.takes, 2);
}

TEST(KeptMemory, AtMostAnEighthIsAdded) {
  Source source(uint64_t{1} << 40);
  KeptMemory memory(std::make_shared<KeptTogether>(0), source.take(), source.give());
  for (const uint64_t bytes : {1ull << 14, (1ull << 14) + 1, 123456789ull, (1ull << 30) - 1}) {
    const Address at = alloc(memory, bytes);
    EXPECT_GE(source.out_now.at(at), bytes);
    EXPECT_LE(source.out_now.at(at), bytes + bytes / 8);
    EXPECT_EQ(source.out_now.at(at) % 256, 0u);
  }
}

TEST(KeptMemory, IsGivenBackWhereMemoryIsShort) {
  Source source(4096);
  KeptMemory memory(std::make_shared<KeptTogether>(0), source.take(), source.give());
  const Address small = alloc(memory, 2048);
  ASSERT_TRUE(memory.free(small).ok());
  EXPECT_EQ(source.out_now.size(), 1u);
  const Address large = alloc(memory, 4096);
  EXPECT_EQ(source.out_now, (std::map<Address, uint64_t>{{large, 4096}}));
  Address none = 0;
  EXPECT_EQ(memory.alloc(256, &none).code(), TENON_RESOURCE_EXHAUSTED);
  // A size that fits only as it is.
  ASSERT_TRUE(memory.free(large).ok());
  const Address exact = alloc(memory, 4000);
  EXPECT_EQ(source.out_now.at(exact), 4096u);
}

TEST(KeptMemory, ASizeThatFitsOnlyAsItIsFits) {
  Source source(9000);
  KeptMemory memory(std::make_shared<KeptTogether>(0), source.take(), source.give());
  const Address at = alloc(memory, 9000);
  EXPECT_EQ(source.out_now.at(at), 9000u);
  ASSERT_TRUE(memory.free(at).ok());
  EXPECT_EQ(memory.kept_bytes(), 0u) << "it is of no class";
  EXPECT_TRUE(source.out_now.empty());
}

TEST(KeptMemory, IsNoMoreThanTheDeviceHas) {
  Source source(1 << 20);
  KeptMemory memory(std::make_shared<KeptTogether>(8192), source.take(), source.give());
  ASSERT_TRUE(memory.free(alloc(memory, 4096)).ok());
  alloc(memory, 6144);
  EXPECT_EQ(memory.kept_bytes(), 0u);
  EXPECT_EQ(source.out_now.size(), 1u);
}

// Sessions of a process share a device.
TEST(KeptMemory, WhatOneKeepsIsGivenBackForAnother) {
  Source source(8192);
  const auto together = std::make_shared<KeptTogether>(0);
  KeptMemory first(together, source.take(), source.give());
  KeptMemory second(together, source.take(), source.give());
  const Address used = alloc(first, 2048);
  ASSERT_TRUE(first.free(alloc(first, 4096)).ok());
  EXPECT_EQ(first.kept_bytes(), 4096u);
  const Address large = alloc(second, 6144);
  EXPECT_EQ(first.kept_bytes(), 0u);
  EXPECT_EQ(source.out_now, (std::map<Address, uint64_t>{{used, 2048}, {large, 6144}}));
  // Calls of other kinds ask for it.
  ASSERT_TRUE(second.free(large).ok());
  EXPECT_TRUE(together->give_back());
  EXPECT_EQ(second.kept_bytes(), 0u);
  EXPECT_FALSE(together->give_back());
}

TEST(KeptMemory, TheLimitIsThatOfAllTogether) {
  Source source(1 << 20);
  const auto together = std::make_shared<KeptTogether>(8192);
  KeptMemory first(together, source.take(), source.give());
  {
    KeptMemory second(together, source.take(), source.give());
    ASSERT_TRUE(second.free(alloc(second, 4096)).ok());
    (void)alloc(first, 6144);
    EXPECT_EQ(second.kept_bytes(), 0u);
  }
  ASSERT_TRUE(first.free(alloc(first, 2048)).ok());
  EXPECT_EQ(first.kept_bytes(), 2048u) << "it is within the limit, also without the other";
}

TEST(KeptMemory, MoreThanMayBeKeptGoesBackAtOnce) {
  Source source(1 << 20);
  KeptMemory memory(std::make_shared<KeptTogether>(0, 4096), source.take(), source.give());
  const Address a = alloc(memory, 3072), b = alloc(memory, 2048), c = alloc(memory, 1024);
  for (const Address address : {a, b, c}) ASSERT_TRUE(memory.free(address).ok());
  EXPECT_EQ(memory.kept_bytes(), 4096u);
  EXPECT_EQ(source.out_now, (std::map<Address, uint64_t>{{a, 3072}, {c, 1024}}));
}

TEST(KeptMemory, GoesWithItsOwner) {
  Source source(1 << 20);
  {
    KeptMemory memory(std::make_shared<KeptTogether>(0), source.take(), source.give());
    ASSERT_TRUE(memory.free(alloc(memory, 4096)).ok());
    ASSERT_TRUE(memory.free(alloc(memory, 300)).ok());
    EXPECT_EQ(source.out_now.size(), 2u);
  }
  EXPECT_TRUE(source.out_now.empty());
}

TEST(KeptMemory, ARuntimeThatFailsToFreeIsNotAskedAgain) {
  Source source(4096);
  KeptMemory memory(std::make_shared<KeptTogether>(0), source.take(), source.give());
  ASSERT_TRUE(memory.free(alloc(memory, 1024)).ok());
  source.fails = true;
  Address out = 0;
  EXPECT_EQ(memory.alloc(4096, &out).code(), TENON_RESOURCE_EXHAUSTED);
  EXPECT_EQ(memory.kept_bytes(), 0u);
  EXPECT_NE(alloc(memory, 1024), 4096u) << "the driver's now";
}

}  // namespace
}  // namespace tenon::stream
