#include "module.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <vector>

#include "tenon/cpp/status.hpp"
#include "toolchain/compiler_client.h"

namespace tenon::cpu {
namespace {

TEST(Module, RefusesBytesThatAreNoLibrary) {
  std::string why;
  EXPECT_EQ(Module::open("not an ELF file", why), nullptr);
  EXPECT_FALSE(why.empty());
  EXPECT_EQ(Module::open("", why), nullptr);
}

// Each is a separate library, and none keeps a descriptor.
TEST(Module, ManyAreOpenAtOnce) {
  const auto descriptors = [] {
    const std::filesystem::directory_iterator all("/proc/self/fd");
    return std::distance(begin(all), end(all));
  };
  std::vector<std::unique_ptr<Module>> modules;
  const auto before = descriptors();
  for (int i = 0; i < 30; ++i) {
    BuildRequest request;
    const std::string text = cat("extern \"C\" int f() { return ", i, "; }");
    request.text = text;
    const BuildResult built = build_unit(request);
    ASSERT_EQ(built.code, TENON_OK) << built.messages;
    const std::string object = built.bytes;
    const BuildResult linked = link_units({&object, 1});
    ASSERT_EQ(linked.code, TENON_OK) << linked.messages;
    std::string why;
    modules.push_back(Module::open(linked.bytes, why));
    ASSERT_NE(modules.back(), nullptr) << why;
  }
  EXPECT_LE(descriptors(), before + 2);  // The compiler's library may keep one.
  for (int i = 0; i < 30; ++i) {
    auto* f = reinterpret_cast<int (*)()>(modules[static_cast<size_t>(i)]->symbol("f"));
    ASSERT_NE(f, nullptr);
    EXPECT_EQ(f(), i);
  }
}

}  // namespace
}  // namespace tenon::cpu
