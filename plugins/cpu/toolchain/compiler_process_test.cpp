#include "toolchain/compiler_process.h"

#include <gtest/gtest.h>

namespace tenon::cpu {
namespace {

BuildRequest request(std::string_view text) {
  BuildRequest out;
  out.isolated = true;
  out.text = text;
  return out;
}

TEST(IsolatedCompiler, BuildsAnObject) {
  BuildResult result =
      build_in_process_of_its_own(TENON_CPU_FOLDER, request("extern \"C\" int f() { return 7; }"));
  ASSERT_EQ(result.code, TENON_OK) << result.messages;
  EXPECT_EQ(result.bytes.substr(1, 3), "ELF");
}

TEST(IsolatedCompiler, GivesDiagnostics) {
  BuildResult result =
      build_in_process_of_its_own(TENON_CPU_FOLDER, request("int f() { return g(); }"));
  EXPECT_EQ(result.code, TENON_INVALID_ARGUMENT);
  EXPECT_NE(result.messages.find("undeclared identifier 'g'"), std::string::npos)
      << result.messages;
}

// Text that clang's front end accepts and that aborts its code generator.
TEST(IsolatedCompiler, SurvivesACrashOfTheCompiler) {
  BuildResult result = build_in_process_of_its_own(
      TENON_CPU_FOLDER,
      request("typedef float v8 __attribute__((vector_size(32)));"
              "v8 load(const v8* p, int align, v8 mask) __asm__(\"llvm.masked.load\");"
              "extern \"C\" void f(v8* x) { *x = load(x, 4, *x); }"));
  EXPECT_EQ(result.code, TENON_ABORTED) << result.messages;
  EXPECT_NE(result.messages.find("compiler died of signal"), std::string::npos) << result.messages;
}

TEST(IsolatedCompiler, MissingProgramIsSaid) {
  BuildResult result = build_in_process_of_its_own("/nonexistent", request("int x;"));
  EXPECT_EQ(result.code, TENON_UNAVAILABLE);
  EXPECT_NE(result.messages.find("/nonexistent/tenon-cc"), std::string::npos) << result.messages;
}

}  // namespace
}  // namespace tenon::cpu
