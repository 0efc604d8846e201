// Ops that the cpu calls as functions, compared with the reference: one program per element type,
// for sizes from none to many, with NaN, both zeros, infinities and equal elements among the
// inputs.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "tenon/cpp/dtype.hpp"
#include "tenon/cpp/session.hpp"

namespace {

using tenon::ArrayView;

struct Array {
  tenon_dtype_t dtype;
  std::vector<int64_t> dims;
  std::vector<std::byte> bytes;
  ArrayView view() const { return {dtype, dims, bytes.data()}; }
};

class NativeOps : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    static tenon::Session session;
    ASSERT_TRUE(session.open().ok()) << tenon::failure_text();
    session_ = &session;
  }

  // Compiles one text for both devices; no fallback is allowed.
  void compile(const std::string& text) {
    text_ = text;
    ASSERT_TRUE(session_->load_bytes(text, "native.tir", &model_).ok())
        << tenon::failure_text() << text;
    const char* devices[] = {"cpu", "reference"};
    for (int d = 0; d < 2; ++d) {
      ASSERT_TRUE(model_.compile({.device = devices[d], .no_fallback = true}, &programs_[d]).ok())
          << tenon::failure_text() << text;
      ASSERT_TRUE(programs_[d].bind(&bindings_[d]).ok()) << tenon::failure_text();
    }
  }

  // Runs both on the same inputs. tolerance 0: equal bit by bit.
  void compare(const std::vector<std::pair<std::string, Array>>& inputs,
               const std::vector<std::string>& outputs, double tolerance = 0) {
    std::string shapes = text_;
    for (const auto& [name, array] : inputs) {
      shapes += name;
      for (int64_t d : array.dims) shapes += " " + std::to_string(d);
      shapes += "\n";
    }
    for (auto& binding : bindings_) {
      for (const auto& [name, array] : inputs)
        ASSERT_TRUE(binding.input(name, array.view()).ok()) << tenon::failure_text() << shapes;
      ASSERT_TRUE(binding.run().ok()) << tenon::failure_text() << shapes;
    }
    for (const std::string& name : outputs) {
      ArrayView got, want;
      ASSERT_TRUE(bindings_[0].output(name, &got).ok() && bindings_[1].output(name, &want).ok());
      ASSERT_EQ(got.dims, want.dims) << name << "\n" << shapes;
      size_t count = 1;
      for (int64_t d : got.dims) count *= static_cast<size_t>(d);
      const size_t width = tenon::dtype_bytes(got.dtype);
      const auto *a = static_cast<const std::byte*>(got.data),
                 *b = static_cast<const std::byte*>(want.data);
      for (size_t i = 0; i < count; ++i, a += width, b += width) {
        if (memcmp(a, b, width) == 0) continue;
        const double x = tenon::load_double(got.dtype, a), y = tenon::load_double(got.dtype, b);
        const bool near = tolerance > 0 && ((std::isnan(x) && std::isnan(y)) || x == y ||
                                            std::abs(x - y) <= tolerance * (1 + std::abs(y)));
        ASSERT_TRUE(near) << name << " element " << i << ": " << x << " is not " << y << "\n"
                          << shapes;
      }
    }
  }

  // Few different numbers, so that equal ones occur; one float in eight is special.
  Array some(tenon_dtype_t dtype, std::vector<int64_t> dims, int most) {
    Array out{dtype, std::move(dims), {}};
    size_t count = 1;
    for (int64_t d : out.dims) count *= static_cast<size_t>(d);
    out.bytes.resize(count * tenon::dtype_bytes(dtype));
    constexpr double kSpecial[] = {std::numeric_limits<double>::quiet_NaN(),
                                   -std::numeric_limits<double>::infinity(),
                                   std::numeric_limits<double>::infinity(), -0.0, 0.0};
    for (size_t i = 0; i < count; ++i) {
      std::byte* at = out.bytes.data() + i * tenon::dtype_bytes(dtype);
      const int number = static_cast<int>(random_() % static_cast<unsigned>(2 * most + 1)) - most;
      if (tenon::is_float(dtype)) {
        tenon::store_double(dtype, at, random_() % 8 == 0 ? kSpecial[random_() % 5] : number / 2.0);
      } else {
        tenon::store_int(dtype, at, dtype == TENON_PRED ? number & 1 : number);
      }
    }
    return out;
  }
  Array between(tenon_dtype_t dtype, std::vector<int64_t> dims, double low, double high) {
    Array out = some(dtype, std::move(dims), 1);
    std::uniform_real_distribution<double> number(low, high);
    for (size_t i = 0; i < out.bytes.size(); i += tenon::dtype_bytes(dtype))
      tenon::store_double(dtype, out.bytes.data() + i, number(random_));
    return out;
  }

  static inline tenon::Session* session_ = nullptr;
  std::mt19937 random_{7};
  std::string text_;
  tenon::Model model_;
  tenon::Program programs_[2];
  tenon::Binding bindings_[2];
};

constexpr tenon_dtype_t kTypes[] = {TENON_PRED, TENON_I8,   TENON_U16, TENON_I64, TENON_U64,
                                    TENON_F16,  TENON_BF16, TENON_F32, TENON_F64};
const std::vector<std::vector<int64_t>> kSizes = {{0, 0}, {0, 3},  {5, 0},   {1, 1},   {7, 1},
                                                  {1, 9}, {13, 4}, {4, 130}, {2000, 3}};

std::string graph(const std::string& head, const std::string& body, const std::string& yields) {
  return "tenon.tir 1\ngraph @native" + head + " {\n" + body + "  yield " + yields + "\n}\n";
}
std::string name_of(tenon_dtype_t t) {
  return std::string(tenon::dtype_name(t));
}

TEST_F(NativeOps, Nonzero) {
  for (tenon_dtype_t t : kTypes) {
    for (const char* index : {"i32", "i64"}) {
      compile(graph("<n, m>(%x: " + name_of(t) + "[n, m]) -> (y: " + index + "[2, u0])",
                    "  %y = nonzero(%x) <u0> {index_dtype = " + std::string(index) +
                        "} : " + index + "[2, u0]\n",
                    "%y"));
      if (HasFatalFailure()) return;
      for (const auto& dims : kSizes) compare({{"x", some(t, dims, 1)}}, {"y"});
    }
  }
  for (int64_t n : {65535, 65536, 65537, 400000})
    compare({{"x", some(TENON_F64, {1, n}, 1)}}, {"y"});
}

TEST_F(NativeOps, Compress) {
  for (tenon_dtype_t t : kTypes) {
    for (int dim : {0, 1}) {
      const std::string type = name_of(t), shape = dim == 0 ? "[u0, m]" : "[n, u0]",
                        k = dim == 0 ? "n" : "m";
      compile(
          graph("<n, m>(%x: " + type + "[n, m], %c: pred[" + k + "]) -> (y: " + type + shape + ")",
                "  %y = compress(%x, %c) <u0> {dim = " + std::to_string(dim) + "} : " + type +
                    shape + "\n",
                "%y"));
      if (HasFatalFailure()) return;
      for (const auto& dims : kSizes)
        compare({{"x", some(t, dims, 40)},
                 {"c", some(TENON_PRED, {dims[static_cast<size_t>(dim)]}, 1)}},
                {"y"});
    }
  }
}

TEST_F(NativeOps, Unique) {
  for (tenon_dtype_t t : kTypes) {
    for (int dim : {0, 1}) {
      for (int sorted : {0, 1}) {
        const std::string type = name_of(t), shape = dim == 0 ? "[u0, m]" : "[n, u0]",
                          k = dim == 0 ? "n" : "m";
        compile(graph("<n, m>(%x: " + type + "[n, m]) -> (y: " + type + shape +
                          ", i: i64[u0], v: i64[" + k + "], c: i64[u0])",
                      "  %y, %i, %v, %c = unique(%x) <u0> {dim = " + std::to_string(dim) +
                          ", sorted = " + std::to_string(sorted) + "} : " + type + shape +
                          ", i64[u0], i64[" + k + "], i64[u0]\n",
                      "%y, %i, %v, %c"));
        if (HasFatalFailure()) return;
        for (const auto& dims : kSizes) compare({{"x", some(t, dims, 2)}}, {"y", "i", "v", "c"});
      }
    }
  }
  compare({{"x", some(TENON_F64, {1, 20000}, 60)}}, {"y", "i", "v", "c"});
}

TEST_F(NativeOps, Nms) {
  for (tenon_dtype_t t : {TENON_F32, TENON_F64, TENON_F16}) {
    for (const char* attributes : {"overlap = 0.3", "overlap = 0.0, most = 2",
                                   "overlap = 0.9, score = 0.25, form = \"center\"", "most = 0"}) {
      const std::string type = name_of(static_cast<tenon_dtype_t>(t));
      compile(
          graph("<b, k, n>(%boxes: " + type + "[b, n, 4], %scores: " + type +
                    "[b, k, n]) -> (y: i64[u0, 3])",
                "  %y = nms(%boxes, %scores) <u0> {" + std::string(attributes) + "} : i64[u0, 3]\n",
                "%y"));
      if (HasFatalFailure()) return;
      for (const auto& [b, k, n] : std::vector<std::array<int64_t, 3>>{
               {1, 1, 6}, {2, 3, 40}, {0, 2, 5}, {2, 0, 5}, {1, 2, 0}, {3, 1, 150}}) {
        compare({{"boxes", some(t, {b, n, 4}, 6)}, {"scores", some(t, {b, k, n}, 9)}}, {"y"});
        compare({{"boxes", between(t, {b, n, 4}, 0, 3)}, {"scores", between(t, {b, k, n}, -1, 1)}},
                {"y"});
      }
    }
  }
}

TEST_F(NativeOps, RoiAlign) {
  for (tenon_dtype_t t : {TENON_F32, TENON_F64, TENON_F16, TENON_BF16}) {
    for (const char* attributes : {"sizes = [3, 2]", "sizes = [1, 4], samples = 2, kind = \"max\"",
                                   "sizes = [2, 2], half_pixel = 0, scale = 0.5",
                                   "sizes = [2, 3], kind = \"max\", half_pixel = 0"}) {
      const std::string type = name_of(static_cast<tenon_dtype_t>(t)), a(attributes);
      const std::string sizes = a.substr(a.find('[') + 1, 4);
      compile(graph("<b, c, h, w, r>(%x: " + type + "[b, c, h, w], %regions: " + type +
                        "[r, 4], %batches: i32[r]) -> (y: " + type + "[r, c, " + sizes + "])",
                    "  %y = roi_align(%x, %regions, %batches) {" + a + "} : " + type + "[r, c, " +
                        sizes + "]\n",
                    "%y"));
      if (HasFatalFailure()) return;
      for (const auto& [b, c, h, w, r] : std::vector<std::array<int64_t, 5>>{{1, 1, 5, 5, 1},
                                                                             {2, 3, 7, 4, 6},
                                                                             {1, 40, 8, 9, 11},
                                                                             {1, 0, 3, 3, 2},
                                                                             {1, 2, 0, 3, 2},
                                                                             {2, 2, 3, 3, 0}}) {
        Array batches = some(TENON_I32, {r}, 1);
        for (int64_t i = 0; i < r; ++i)
          tenon::store_int(TENON_I32, batches.bytes.data() + i * 4, i % b);
        Array regions = between(t, {r, 4}, -3, 12);
        compare({{"x", some(t, {b, c, h, w}, 9)}, {"regions", regions}, {"batches", batches}},
                {"y"}, 1e-3);
        if (r > 0)
          tenon::store_double(t, regions.bytes.data(), std::numeric_limits<double>::quiet_NaN());
        compare(
            {{"x", between(t, {b, c, h, w}, -9, 9)}, {"regions", regions}, {"batches", batches}},
            {"y"}, 1e-3);
      }
    }
  }
  const Array x = some(TENON_BF16, {1, 1, 2, 2}, 3), regions = between(TENON_BF16, {1, 4}, 0, 2);
  Array batch{TENON_I32, {1}, std::vector<std::byte>(4)};
  tenon::store_int(TENON_I32, batch.bytes.data(), 1);
  for (auto& binding : bindings_) {
    ASSERT_TRUE(binding.input("x", x.view()).ok() &&
                binding.input("regions", regions.view()).ok() &&
                binding.input("batches", batch.view()).ok());
    EXPECT_FALSE(binding.run().ok());
    EXPECT_NE(tenon::failure_text().find("region 0 names the batch 1, x has 1"), std::string::npos)
        << tenon::failure_text();
  }
}

}  // namespace
