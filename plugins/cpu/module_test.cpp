#include "module.h"

#include <gtest/gtest.h>

#include "compiler_client.h"

namespace tenon::cpu {
namespace {

TEST(Module, RefusesBytesThatAreNoLibrary) {
  std::string why;
  EXPECT_EQ(Module::open("not an ELF file", why), nullptr);
  EXPECT_FALSE(why.empty());
  EXPECT_EQ(Module::open("", why), nullptr);
}

}  // namespace
}  // namespace tenon::cpu
