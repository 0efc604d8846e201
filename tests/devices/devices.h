// Shared by the tests of this folder: a graph, its inputs and expected outputs, and the counters of
// the simulated devices.
#ifndef TENON_TESTS_DEVICES_DEVICES_H_
#define TENON_TESTS_DEVICES_DEVICES_H_

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <tenon/abi/host.h>
#include <tenon/cpp/session.hpp>

#include "plugins/sim/device/statistics.h"

namespace tenon::devices_test {

// Runs `body` in a separate process: devices are opened once per process, and a lost one stays
// lost.
#define IN_A_PROCESS(body)                                 \
  do {                                                     \
    GTEST_FLAG_SET(death_test_style, "threadsafe");        \
    EXPECT_EXIT((body)(), testing::ExitedWithCode(0), ""); \
  } while (false)

// The parent prints what the child wrote to standard error.
[[noreturn]] inline void end_process() {
  const testing::TestResult& result =
      *testing::UnitTest::GetInstance()->current_test_info()->result();
  for (int i = 0; i < result.total_part_count(); ++i) {
    const testing::TestPartResult& part = result.GetTestPartResult(i);
    std::fprintf(stderr, "%s:%d: %s\n", part.file_name(), part.line_number(), part.message());
  }
  std::exit(testing::Test::HasFailure() ? 1 : 0);
}

inline const tenon_sim_statistics_t& statistics() {
  static const auto* table = [] {
    const auto* registry = context().query<tenon_host_registry_t>(TENON_HOST_REGISTRY_ID);
    const void* found = nullptr;
    registry->plugin_interface(registry->self, str("device"), str("sim"), str(SIM_STATISTICS_ID),
                               &found);
    return static_cast<const tenon_sim_statistics_t*>(found);
  }();
  return *table;
}

inline tenon_sim_counts_t counts(uint32_t ordinal = 0) {
  tenon_sim_counts_t out{};
  statistics().read(nullptr, ordinal, &out);
  return out;
}

// Opens the session, and compiles the model for the device.
inline Status compile(Session& session, std::string_view text, std::string_view device,
                      Program* out) {
  Model model;
  TENON_TRY(session.open());
  TENON_TRY(session.load_bytes(text, "g.tir", &model));
  return model.compile({.device = device}, out);
}

// A model to run again and again on the same inputs. The reference's results are the expected ones.
class Case {
 public:
  Case(std::string_view text, std::vector<std::string> inputs, std::vector<std::string> outputs,
       int64_t elements)
      : inputs_(std::move(inputs)), outputs_(std::move(outputs)), n_(elements) {
    EXPECT_TRUE(session_.open().ok());
    EXPECT_TRUE(session_.load_bytes(text, "case.tir", &model_).ok()) << failure_text();
    for (size_t i = 0; i < inputs_.size(); ++i) {
      values_.emplace_back();
      for (int64_t k = 0; k < n_; ++k)
        values_[i].push_back(
            0.0625f * static_cast<float>((k * 7 + static_cast<int64_t>(i) * 5) % 31) - 0.75f);
    }
    Program program;
    Binding binding;
    EXPECT_TRUE(model_.compile({.device = "reference"}, &program).ok()) << failure_text();
    EXPECT_TRUE(program.bind(&binding).ok());
    EXPECT_TRUE(run(&binding).ok()) << failure_text();
    for (const std::string& name : outputs_) {
      ArrayView out;
      EXPECT_TRUE(binding.output(name, &out).ok());
      right_.emplace_back(out.as<float>().begin(), out.as<float>().end());
    }
  }

  Status compile(std::string_view device, Program* out) {
    return model_.compile({.device = device}, out);
  }
  Status run(Binding* binding) {
    for (size_t i = 0; i < inputs_.size(); ++i) {
      TENON_TRY(binding->input(inputs_[i], ArrayView::of(values_[i], {n_})));
    }
    return binding->run();
  }
  void expect_right(Binding* binding) {
    for (size_t o = 0; o < outputs_.size(); ++o) {
      ArrayView out;
      ASSERT_TRUE(binding->output(outputs_[o], &out).ok()) << failure_text();
      for (int64_t k = 0; k < n_; ++k)
        ASSERT_NEAR(out.as<float>()[k], right_[o][k], 1e-5f) << outputs_[o] << "[" << k << "]";
    }
  }
  // Compiles, runs and compares on `device`.
  void expect_works(std::string_view device) {
    Program program;
    Binding binding;
    ASSERT_TRUE(compile(device, &program).ok()) << failure_text();
    ASSERT_TRUE(program.bind(&binding).ok());
    ASSERT_TRUE(run(&binding).ok()) << failure_text();
    expect_right(&binding);
  }
  Session& session() { return session_; }

 private:
  Session session_;
  Model model_;
  std::vector<std::string> inputs_, outputs_;
  std::vector<std::vector<float>> values_, right_;
  int64_t n_;
};

}  // namespace tenon::devices_test
#endif
