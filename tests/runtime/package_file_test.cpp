// Programs in files (tenon.host.package/1): what a package computes and refuses is what its model
// does, bit for bit and word for word; damaged files are errors.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <tenon/cpp/session.hpp>

namespace {

using tenon::ArrayView;
using tenon::Output;

// Symbols, a relation among them, a result twice, an input and a constant as results, and a size
// that is known only at run time.
constexpr std::string_view kModel = R"(tenon.tir 1
graph @g<n in [1, 64], m in [1, inf]>(%x: f32[n, 3], %z: f32[n, 3], %w: f32[m]) -> (e: f32[n, 3], y: f32[n, 3], again: f32[n, 3], same: f32[n, 3], k: f32[2], r: f32[n, m]) {
  %k = const f32[2] [1.5, 2.5]
  %y = add(%x, %z) : f32[n, 3]
  %m = mul(%y, %z) : f32[n, 3]
  %e = exp(%m) : f32[n, 3]
  %r = broadcast(%w) {shape = dims [n, m]} : f32[n, m]
  yield %e, %y, %y, %x, %k, %r
}
)";
constexpr size_t kOutputs = 6;

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
void write_file(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

std::vector<float> numbers(int64_t count, float step) {
  std::vector<float> out;
  for (int64_t i = 0; i < count; ++i) out.push_back(step * static_cast<float>(i % 11) - 1);
  return out;
}

class PackageFileTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    ASSERT_TRUE(session.open().ok());
    ASSERT_TRUE(session.load_bytes(kModel, "g.tir", &model).ok()) << tenon::failure_text();
    path = testing::TempDir() + "/" + GetParam() + ".tpk";
    ASSERT_TRUE(model.save({.device = GetParam()}, path).ok()) << tenon::failure_text();
  }
  void TearDown() override { std::filesystem::remove(path); }

  // The outputs' types, dims and bytes, or the error.
  std::string call(const tenon::Program& program, int64_t n, int64_t m, int64_t rows_of_z) {
    const std::vector<float> x = numbers(n * 3, 0.25f), z = numbers(rows_of_z * 3, 0.125f),
                             w = numbers(m, 0.5f);
    const std::vector<tenon::Input> inputs = {
        ArrayView::of(x, {n, 3}), ArrayView::of(z, {rows_of_z, 3}), ArrayView::of(w, {m})};
    std::vector<Output> outputs(kOutputs);
    if (!program.call(inputs, outputs).ok()) return tenon::failure_text();
    std::string all;
    for (const Output& output : outputs) {
      for (int64_t dim : output.array().dims) all += std::to_string(dim) + " ";
      all.append(static_cast<const char*>(output.array().data),
                 static_cast<size_t>(output.array().element_count()) * sizeof(float));
    }
    return all;
  }

  tenon::Session session;
  tenon::Model model;
  std::string path;
};

TEST_P(PackageFileTest, ComputesAndRefusesAsTheModel) {
  tenon::Program compiled, loaded;
  ASSERT_TRUE(model.compile({.device = GetParam()}, &compiled).ok()) << tenon::failure_text();
  ASSERT_TRUE(session.load_package(path, &loaded).ok()) << tenon::failure_text();
  for (const int64_t n : {1, 2, 64}) EXPECT_EQ(call(loaded, n, 4, n), call(compiled, n, 4, n)) << n;
  // Dims that disagree, are out of range, or none.
  for (const auto& [n, m, rows] :
       {std::array<int64_t, 3>{2, 4, 3}, {65, 4, 65}, {0, 1, 0}, {2, 0, 2}}) {
    const std::string error = call(loaded, n, m, rows);
    EXPECT_EQ(error, call(compiled, n, m, rows));
    EXPECT_EQ(error.substr(0, 3), "T06") << error;
  }
  std::string of_loaded, of_compiled;
  tenon_program_info_t info;
  ASSERT_TRUE(loaded.info(&info).ok());
  EXPECT_GT(info.code_bytes, 0u);
  ASSERT_TRUE(loaded.placement(&of_loaded).ok());
  ASSERT_TRUE(compiled.placement(&of_compiled).ok());
  EXPECT_EQ(of_loaded, of_compiled);
}

TEST_P(PackageFileTest, ReportsItsPorts) {
  tenon::Program loaded;
  ASSERT_TRUE(session.load_package(path, &loaded).ok()) << tenon::failure_text();
  tenon_model_info_t of_program, of_model;
  ASSERT_TRUE(loaded.ports(&of_program).ok());
  ASSERT_TRUE(model.info(&of_model).ok());
  ASSERT_EQ(of_program.input_count, of_model.input_count);
  ASSERT_EQ(of_program.output_count, kOutputs);
  ASSERT_EQ(of_program.symbol_count, 2u);
  for (uint32_t i = 0; i < kOutputs; ++i) {
    const tenon_port_t &a = of_program.outputs[i], &b = of_model.outputs[i];
    EXPECT_EQ(tenon::view(a.name), tenon::view(b.name));
    ASSERT_EQ(a.rank, b.rank);
    for (uint32_t d = 0; d < a.rank; ++d)
      EXPECT_EQ(tenon::view(a.dim_texts[d]), tenon::view(b.dim_texts[d]));
  }
  std::string text;
  EXPECT_FALSE(loaded.dump("graph", &text).ok());
  EXPECT_EQ(tenon::failure_text().substr(0, 5), "T0508");
}

TEST_P(PackageFileTest, IsTheSameFileTwice) {
  const std::string first = read_file(path);
  ASSERT_TRUE(model.save({.device = GetParam()}, path).ok());
  EXPECT_TRUE(first == read_file(path));
}

TEST_P(PackageFileTest, DamageIsAnError) {
  const std::string whole = read_file(path), other = path + ".damaged";
  for (size_t at = 0; at < whole.size(); at += whole.size() / 150 + 1) {
    tenon::Program program;
    write_file(other, whole.substr(0, at));
    EXPECT_FALSE(session.load_package(other, &program).ok()) << at;
    EXPECT_EQ(tenon::failure_text().substr(0, 5), "T0521") << at;
    std::string altered = whole;
    altered[at] = static_cast<char>(altered[at] ^ 0x10);
    write_file(other, altered);
    EXPECT_FALSE(session.load_package(other, &program, true).ok()) << at;
    const std::string code = tenon::failure_text().substr(0, 5);
    EXPECT_TRUE(code == "T0521" || code == "T0522") << at << tenon::failure_text();
  }
  std::filesystem::remove(other);
}

#if TENON_WITH_CPU
INSTANTIATE_TEST_SUITE_P(Devices, PackageFileTest,
                         testing::Values("reference", "sim", "cpu", "null", "null,sim,cpu"),
                         [](const auto& info) {
                           std::string name = info.param;
                           for (char& c : name) c = c == ',' ? '_' : c;
                           return name;
                         });
#else
INSTANTIATE_TEST_SUITE_P(Devices, PackageFileTest, testing::Values("reference"));
#endif

TEST(PackageFile, AFolderThatIsNotThereGivesNoFile) {
  tenon::Session session;
  ASSERT_TRUE(session.open().ok());
  tenon::Model model;
  ASSERT_TRUE(session.load_bytes(kModel, "g.tir", &model).ok());
  EXPECT_FALSE(model.save({.device = "reference"}, testing::TempDir() + "/none/x.tpk").ok());
  EXPECT_EQ(tenon::failure_text().substr(0, 3), "T01") << tenon::failure_text();
  // The path is reported before the wrong target, and a file that could be made does not stay.
  EXPECT_FALSE(model.save({.device = "reference"}, testing::TempDir() + "/none/x.tpk", "t").ok());
  EXPECT_EQ(tenon::failure_text().substr(0, 3), "T01") << tenon::failure_text();
  const std::string folder = testing::TempDir() + "/empty.tpk.d";
  std::filesystem::create_directory(folder);
  EXPECT_FALSE(model.save({.device = "reference"}, folder + "/x.tpk", "t").ok());
  EXPECT_EQ(tenon::failure_text().substr(0, 5), "T0520") << tenon::failure_text();
  EXPECT_TRUE(std::filesystem::is_empty(folder));
  std::filesystem::remove(folder);
  tenon::Program program;
  EXPECT_FALSE(session.load_package(testing::TempDir() + "/none/x.tpk", &program).ok());
  EXPECT_EQ(tenon::failure_text().substr(0, 5), "T0101") << tenon::failure_text();
}

// The symbol of a node that a pass removed has no name in the file; no other symbol has its
// stand-in.
TEST(PackageFile, ASymbolMayHaveAnyName) {
  tenon::Session session;
  ASSERT_TRUE(session.open().ok());
  constexpr std::string_view kNames = R"(tenon.tir 1
graph @g(%x: f32[1, 8]) -> (k: f32[1, unused]) {
  %zero = const f32[1, 8] splat 0
  %p = compare(%x, %zero) {direction = 4} : pred[1, 8]
  %dead = nonzero(%p) <u0 in [0, 8]> : i64[2, u0]
  %row = reshape(%p) {shape = dims [8]} : pred[8]
  %k = compress(%x, %row) <unused in [0, 8]> {dim = 1} : f32[1, unused]
  yield %k
}
)";
  tenon::Model model;
  ASSERT_TRUE(session.load_bytes(kNames, "g.tir", &model).ok()) << tenon::failure_text();
  const std::string path = testing::TempDir() + "/names.tpk";
  ASSERT_TRUE(model.save({.device = "reference"}, path).ok()) << tenon::failure_text();
  tenon::Program program;
  EXPECT_TRUE(session.load_package(path, &program).ok()) << tenon::failure_text();
  std::filesystem::remove(path);
}

TEST(PackageFile, ATargetNeedsItsDevice) {
  tenon::Session session;
  ASSERT_TRUE(session.open().ok());
  tenon::Model model;
  ASSERT_TRUE(session.load_bytes(kModel, "g.tir", &model).ok());
  EXPECT_FALSE(model.save({}, testing::TempDir() + "/t.tpk", "some target").ok());
  EXPECT_EQ(tenon::failure_text(),
            "T0502: the target `some target` needs the one device that it is of, as in --device "
            "NAME");
}

}  // namespace
