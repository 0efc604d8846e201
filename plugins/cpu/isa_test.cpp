#include "isa.h"

#include <gtest/gtest.h>

namespace tenon::cpu {
namespace {

TEST(Isa, SettingForcesDown) {
  std::string why;
  EXPECT_EQ(chosen_isa("", why), detected_isa());
  EXPECT_EQ(chosen_isa("baseline", why), Isa::kBaseline);
}

TEST(Isa, BadSettingNamesTheChoices) {
  std::string why;
  EXPECT_FALSE(chosen_isa("avx1024", why));
  EXPECT_NE(why.find("TENON_CPU_ISA is 'avx1024'"), std::string::npos) << why;
  EXPECT_NE(why.find("baseline"), std::string::npos) << why;
}

TEST(Isa, CodeRunsWithinItsFamily) {
  EXPECT_TRUE(runs_on(Isa::kBaseline, Isa::kAvx512));
  EXPECT_TRUE(runs_on(Isa::kNeon, Isa::kNeon));
  EXPECT_FALSE(runs_on(Isa::kAvx512, Isa::kAvx2));
  EXPECT_FALSE(runs_on(Isa::kAvx2, Isa::kNeon));
  EXPECT_FALSE(runs_on(Isa::kBaseline, Isa::kNeon));
  EXPECT_FALSE(runs_on(Isa::kNeon, Isa::kAvx512Bf16));
  // Processors with AVX-512 and VNNI may lack the shorter form of the instructions.
  EXPECT_TRUE(runs_on(Isa::kAvx2, Isa::kAvx2Vnni));
  EXPECT_TRUE(runs_on(Isa::kAvx2Vnni, Isa::kAvx2Vnni));
  EXPECT_FALSE(runs_on(Isa::kAvx2Vnni, Isa::kAvx2));
  EXPECT_FALSE(runs_on(Isa::kAvx2Vnni, Isa::kAvx512Bf16));
  EXPECT_FALSE(runs_on(Isa::kAvx512, Isa::kAvx2Vnni));
  EXPECT_FALSE(runs_on(Isa::kNeon, Isa::kAvx2Vnni));
  EXPECT_TRUE(runs_here(detected_isa()));
  EXPECT_EQ(lowest_like(Isa::kAvx512), Isa::kBaseline);
  EXPECT_EQ(lowest_like(Isa::kNeon), Isa::kNeon);
}

// The setting is for code that this process runs.
TEST(Isa, SettingOfAnotherFamilyIsRefused) {
  std::string why;
  const Isa other = detected_isa() == Isa::kNeon ? Isa::kBaseline : Isa::kNeon;
  EXPECT_FALSE(chosen_isa(name_of(other), why));
  EXPECT_NE(why.find("which this processor does not have"), std::string::npos) << why;
}

TEST(Isa, TargetsRoundTrip) {
  for (Isa isa : {Isa::kBaseline, Isa::kAvx2, Isa::kAvx2Vnni, Isa::kAvx512, Isa::kAvx512Vnni,
                  Isa::kAvx512Bf16, Isa::kNeon}) {
    EXPECT_EQ(isa_of_target(target_text(isa)), isa);
  }
  EXPECT_EQ(isa_of_target("aarch64"), Isa::kNeon);
  EXPECT_FALSE(isa_of_target("sim"));
  EXPECT_FALSE(isa_of_target("cpu isa=sse9"));
  EXPECT_FALSE(isa_of_target(""));
}

}  // namespace
}  // namespace tenon::cpu
