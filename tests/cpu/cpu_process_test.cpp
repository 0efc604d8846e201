// Warm starts and instruction sets of the cpu device. The test starts itself as a child for each
// case, because a process reads the environment and opens the compiler library only once.
#include <gtest/gtest.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "tenon/cpp/session.hpp"

namespace {

// ---- The child ----

bool mapped(const char* name) {
  FILE* maps = fopen("/proc/self/maps", "r");
  char line[4096];
  bool found = false;
  while (maps && fgets(line, sizeof line, maps)) {
    found = found || strstr(line, name) != nullptr;
  }
  if (maps) {
    fclose(maps);
  }
  return found;
}

int complain() {
  printf("error %s\n", tenon::failure_text().c_str());
  return 1;
}

// Runs one image through the digits network and prints "key value" lines.
int child(const char* device) {
  const auto start = std::chrono::steady_clock::now();
  tenon::Session session;
  tenon::Model model;
  tenon::Program program;
  tenon::Binding binding;
  tenon::ArrayView scores;
  tenon_program_info_t info = {};
  tenon_model_info_t model_info = {};
  if (!session.open().ok() || !session.load(TENON_DIGITS "/digits.onnx", &model).ok() ||
      !model.info(&model_info).ok()) {
    return complain();
  }
  std::vector<int64_t> dims;
  int64_t count = 1;
  for (uint32_t i = 0; i < model_info.inputs[0].rank; ++i) {
    const int64_t dim = model_info.inputs[0].dims[i];
    dims.push_back(dim < 0 ? 1 : dim);
    count *= dims.back();
  }
  std::vector<float> image(static_cast<size_t>(count));
  for (size_t i = 0; i < image.size(); ++i) {
    image[i] = static_cast<float>((i * 7) % 17) / 16.0f;
  }
  if (!model.compile({.device = device}, &program).ok() || !program.info(&info).ok() ||
      !program.bind(&binding).ok() ||
      !binding.input(tenon::view(model_info.inputs[0].name), tenon::ArrayView::of(image, dims))
           .ok() ||
      !binding.run().ok() ||
      !binding.output(tenon::view(model_info.outputs[0].name), &scores).ok()) {
    return complain();
  }
  const std::chrono::duration<double, std::milli> ms = std::chrono::steady_clock::now() - start;
  printf("ms %.3f\ncompiled %d\ncached %d\ncompiler %d\n", ms.count(),
         static_cast<int>(info.kernels_compiled), static_cast<int>(info.kernels_from_cache),
         mapped("libtenon-clang") ? 1 : 0);
  for (float score : scores.as<float>()) {
    printf("score %.9g\n", static_cast<double>(score));
  }
  return 0;
}

// ---- The parent ----

struct Outcome {
  int status = -1;
  double ms = 0;
  int compiled = 0, cached = 0, compiler = 0;
  std::vector<double> scores;
  std::string text;
};

class CpuProcess : public testing::Test {
 protected:
  void SetUp() override {
    char pattern[] = "/tmp/tenon-cpu-test-XXXXXX";
    ASSERT_NE(mkdtemp(pattern), nullptr);
    cache_ = pattern;
  }
  void TearDown() override { EXPECT_EQ(system(("rm -rf '" + cache_ + "'").c_str()), 0); }

  Outcome run(const std::string& device, const std::string& environment = "") {
    char self[4096] = {};
    EXPECT_GT(readlink("/proc/self/exe", self, sizeof self - 1), 0);
    const std::string command = "TENON_CACHE_DIR='" + cache_ + "' " + environment + " '" + self +
                                "' --child " + device + " 2>&1";
    Outcome out;
    FILE* pipe = popen(command.c_str(), "r");
    char line[4096];
    while (pipe && fgets(line, sizeof line, pipe)) {
      out.text += line;
      double score;
      sscanf(line, "ms %lf", &out.ms);
      sscanf(line, "compiled %d", &out.compiled);
      sscanf(line, "cached %d", &out.cached);
      sscanf(line, "compiler %d", &out.compiler);
      if (sscanf(line, "score %lf", &score) == 1) {
        out.scores.push_back(score);
      }
    }
    out.status = pipe ? pclose(pipe) : -1;
    return out;
  }
  std::string cache_;
};

TEST_F(CpuProcess, WarmCacheOpensNoCompiler) {
  const Outcome cold = run("cpu");
  ASSERT_EQ(cold.status, 0) << cold.text;
  EXPECT_GT(cold.compiled, 0);
  EXPECT_EQ(cold.compiler, 1);
  const Outcome warm = run("cpu");
  ASSERT_EQ(warm.status, 0) << warm.text;
  EXPECT_EQ(warm.compiled, 0);
  EXPECT_EQ(warm.cached, cold.compiled + cold.cached);
  EXPECT_EQ(warm.compiler, 0);
  EXPECT_EQ(warm.scores, cold.scores);
  printf("digits from session to first output: cold %.1f ms, warm %.1f ms\n", cold.ms, warm.ms);
}

TEST_F(CpuProcess, EveryInstructionSetAgreesWithTheReference) {
  const Outcome reference = run("reference");
  ASSERT_EQ(reference.status, 0) << reference.text;
  for (const char* isa :
       {"baseline", "avx2", "avx2_vnni", "avx512", "avx512_vnni", "avx512_bf16"}) {
    const Outcome cpu = run("cpu", std::string("TENON_CPU_ISA=") + isa);
    if (cpu.text.find("this processor does not have") != std::string::npos) {
      printf("%s: not run, this processor does not have it\n", isa);
      continue;
    }
    ASSERT_EQ(cpu.status, 0) << cpu.text;
    ASSERT_EQ(cpu.scores.size(), reference.scores.size());
    EXPECT_GT(cpu.compiled, 0) << "sets share no code";
    for (size_t i = 0; i < cpu.scores.size(); ++i) {
      EXPECT_NEAR(cpu.scores[i], reference.scores[i], 1e-4 * (1 + std::fabs(reference.scores[i])))
          << isa;
    }
  }
}

TEST_F(CpuProcess, AnUnknownInstructionSetNamesTheChoices) {
  const Outcome out = run("cpu", "TENON_CPU_ISA=sse9");
  EXPECT_NE(out.status, 0);
  EXPECT_NE(out.text.find("sse9"), std::string::npos) << out.text;
  EXPECT_NE(out.text.find("baseline"), std::string::npos) << out.text;
}

TEST_F(CpuProcess, ACacheThatCannotBeWrittenCostsTimeOnly) {
  const Outcome out = run("cpu", "TENON_CACHE_DIR=/proc/nowhere");
  EXPECT_EQ(out.status, 0) << out.text;
  EXPECT_GT(out.compiled, 0);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3 && strcmp(argv[1], "--child") == 0) {
    return child(argv[2]);
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
