// oneDNN computes on the host's threads: its own runtime, OpenMP, starts no second pool.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <tenon/cpp/session.hpp>

namespace {

using tenon::ArrayView;

// Large enough for a piece per thread; the constant is packed when the program is loaded.
constexpr int64_t kSize = 256;
constexpr std::string_view kModel = R"(tenon.tir 1
graph @g(%x: f32[256, 256], %w: f32[256, 256]) -> (y: f32[256, 256]) {
  %0 = matmul(%x, %w) : f32[256, 256]
  %1 = relu(%0) : f32[256, 256]
  %2 = matmul(%1, %w) : f32[256, 256]
  yield %2
}
)";

int64_t threads() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return std::distance(begin(tasks), end(tasks));
}

bool is_mapped(std::string_view library) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find(library) != std::string::npos) return true;
  }
  return false;
}

// How many threads the process has after some calls; `mode` as TENON_ONEDNN.
void call(tenon::Session& session, const char* mode, int64_t* out_threads) {
  setenv("TENON_ONEDNN", mode, 1);
  tenon::Model model;
  tenon::Program program;
  ASSERT_TRUE(session.load_bytes(kModel, "g.tir", &model).ok()) << tenon::failure_text();
  ASSERT_TRUE(model.compile({.device = "cpu"}, &program).ok()) << tenon::failure_text();
  const std::vector<float> values(kSize * kSize, 0.0625f);
  const ArrayView array = ArrayView::of(values, {kSize, kSize});
  for (int i = 0; i < 20; ++i) {
    tenon::Output y;
    ASSERT_TRUE(program.call(std::vector<tenon::Input>{array, array}, {&y, 1}).ok())
        << tenon::failure_text();
    ASSERT_FLOAT_EQ(y.as<float>()[kSize + 1], 16.0f);
  }
  *out_threads = threads();
}

TEST(OneDnn, StartsNoSecondPool) {
  // OpenMP would start this many threads wherever it is not limited to one.
  setenv("OMP_NUM_THREADS", "6", 1);
  setenv("TENON_NUM_THREADS", "2", 1);
  tenon::Session session;
  ASSERT_TRUE(session.open().ok()) << tenon::failure_text();
  int64_t own = 0, with_library = 0;
  call(session, "off", &own);
  ASSERT_FALSE(is_mapped("libdnnl"));
  call(session, "first", &with_library);
  if (!is_mapped("libdnnl")) GTEST_SKIP() << "libdnnl.so.2 is not installed (Debian: libdnnl2)";
  EXPECT_EQ(with_library, own);
}

}  // namespace
