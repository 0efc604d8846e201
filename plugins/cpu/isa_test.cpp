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

TEST(Isa, TargetsRoundTrip) {
  for (Isa isa : {Isa::kBaseline, Isa::kAvx2, Isa::kAvx512, Isa::kAvx512Vnni, Isa::kAvx512Bf16}) {
    EXPECT_EQ(isa_of_target(target_text(isa)), isa);
  }
  EXPECT_FALSE(isa_of_target("sim"));
  EXPECT_FALSE(isa_of_target("cpu isa=sse9"));
  EXPECT_FALSE(isa_of_target(""));
}

}  // namespace
}  // namespace tenon::cpu
