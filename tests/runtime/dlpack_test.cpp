// Tensors of other libraries by DLPack, on the host: in both directions, of both kinds, given back
// once. For those on a device see tests/fakes/cuda/dlpack_test.cpp.
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <vector>

#include <tenon/cpp/dlpack.hpp>

namespace {

namespace dl = tenon::dlpack;
using tenon::ArrayView;
using tenon::Output;

constexpr std::string_view kModel = R"(tenon.tir 1
graph @g<n in [1, 64]>(%x: f32[n, 3]) -> (y: f32[n, 3]) {
  %y = add(%x, %x) : f32[n, 3]
  yield %y
}
)";

// A tensor of another library, which counts how often it is given back.
template <class Managed>
struct Theirs {
  explicit Theirs(std::vector<int64_t> shape, float first = 1) : dims(std::move(shape)) {
    int64_t count = 1;
    for (const int64_t dim : dims) count *= dim;
    for (int64_t i = 0; i < count; ++i) values.push_back(first + static_cast<float>(i));
    managed.context = this;
    managed.deleter = [](Managed* self) { ++static_cast<Theirs*>(self->context)->deleted; };
    managed.tensor = {values.data(),
                      {dl::kCpu, 0},
                      static_cast<int32_t>(dims.size()),
                      {dl::kFloat, 32, 1},
                      dims.data(),
                      nullptr,
                      0};
    if constexpr (std::is_same_v<Managed, dl::ManagedTensorVersioned>)
      managed.version = {dl::kMajor, dl::kMinor};
  }
  Theirs(const Theirs&) = delete;

  std::vector<int64_t> dims;
  std::vector<float> values;
  int deleted = 0;
  Managed managed{};
};

template <class Managed>
class DLPack : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(session_.open().ok());
    tenon::Model model;
    ASSERT_TRUE(session_.load_bytes(kModel, "g.tir", &model).ok()) << tenon::failure_text();
    ASSERT_TRUE(model.compile({.device = "reference"}, &program_).ok()) << tenon::failure_text();
  }
  static void expect_refused(const tenon::Status& status, std::string_view why) {
    EXPECT_FALSE(status.ok());
    const std::string text = tenon::failure_text();
    EXPECT_TRUE(text.starts_with("T0624")) << text;
    EXPECT_NE(text.find(why), std::string::npos) << text;
  }
  tenon::Session session_;
  tenon::Program program_;
};
using Kinds = testing::Types<dl::ManagedTensor, dl::ManagedTensorVersioned>;
TYPED_TEST_SUITE(DLPack, Kinds);

TYPED_TEST(DLPack, TheirsIsATensorWithoutACopy) {
  Theirs<TypeParam> theirs({2, 3});
  {
    tenon::Tensor x;
    ASSERT_TRUE(dl::take(&theirs.managed, &x).ok()) << tenon::failure_text();
    ArrayView array;
    ASSERT_TRUE(x.array(&array).ok());
    EXPECT_EQ(array.data, theirs.values.data());
    EXPECT_EQ(array.dims, theirs.dims);
    EXPECT_EQ(array.dtype, TENON_F32);
    Output y;
    ASSERT_TRUE(this->program_.call({{x}}, {&y, 1}).ok()) << tenon::failure_text();
    for (size_t i = 0; i < 6; ++i) EXPECT_EQ(y.as<float>()[i], 2 * theirs.values[i]);
    EXPECT_EQ(theirs.deleted, 0);
  }
  EXPECT_EQ(theirs.deleted, 1);
}

// Elements may begin at an offset from the pointer, strides of an axis of one say nothing, and
// there may be no elements.
TYPED_TEST(DLPack, WhatIsDenseIsTaken) {
  Theirs<TypeParam> late({4, 3}), one({3, 1, 1}), none({0, 3});
  late.managed.tensor.byte_offset = 2 * 3 * sizeof(float);
  late.dims[0] = 2;
  int64_t strides[] = {1, 77, -5};
  one.managed.tensor.strides = strides;
  none.managed.tensor.data = nullptr;
  tenon::Tensor x;
  ArrayView array;
  ASSERT_TRUE(dl::take(&late.managed, &x).ok()) << tenon::failure_text();
  ASSERT_TRUE(x.array(&array).ok());
  EXPECT_EQ(array.as<float>()[0], 7);
  ASSERT_TRUE(dl::take(&one.managed, &x).ok()) << tenon::failure_text();
  EXPECT_EQ(late.deleted, 1);
  ASSERT_TRUE(dl::take(&none.managed, &x).ok()) << tenon::failure_text();
  ASSERT_TRUE(x.array(&array).ok());
  EXPECT_EQ(array.element_count(), 0);
  x = {};
  EXPECT_EQ(one.deleted, 1);
  EXPECT_EQ(none.deleted, 1);
}

// What is refused stays with its owner.
TYPED_TEST(DLPack, WhatCannotBeTakenIsNotGivenBack) {
  Theirs<TypeParam> theirs({2, 3});
  tenon::Tensor x;
  dl::Tensor& t = theirs.managed.tensor;
  const dl::Tensor good = t;
  int64_t strides[] = {1, 2};
  t.strides = strides;
  this->expect_refused(dl::take(&theirs.managed, &x), "has strides");
  t = good;
  t.dtype.lanes = 4;
  this->expect_refused(dl::take(&theirs.managed, &x), "lanes 4");
  t = good;
  t.device = {15, 0};
  this->expect_refused(dl::take(&theirs.managed, &x), "DLPack's kind 15");
  t = good;
  t.rank = TENON_RANK_MAX + 1;
  this->expect_refused(dl::take(&theirs.managed, &x), "too many axes");
  t = good;
  theirs.dims[1] = -3;
  EXPECT_FALSE(dl::take(&theirs.managed, &x).ok());
  if constexpr (std::is_same_v<TypeParam, dl::ManagedTensorVersioned>) {
    theirs.managed.version.major = 2;
    this->expect_refused(dl::take(&theirs.managed, &x), "another major version");
  }
  EXPECT_EQ(x.get(), nullptr);
  EXPECT_EQ(theirs.deleted, 0);
}

TYPED_TEST(DLPack, OursGoesOutWithoutACopy) {
  Theirs<TypeParam> theirs({2, 3});
  tenon::Tensor x;
  const tenon::Tensor& left = x;  // what is there after a move
  ASSERT_TRUE(dl::take(&theirs.managed, &x).ok());
  TypeParam* out = nullptr;
  ASSERT_TRUE(dl::give(std::move(x), {dl::kCpu, 0}, &out).ok()) << tenon::failure_text();
  EXPECT_EQ(left.get(), nullptr);
  const dl::Tensor& t = out->tensor;
  EXPECT_EQ(static_cast<char*>(t.data) + t.byte_offset,
            reinterpret_cast<char*>(theirs.values.data()));
  EXPECT_EQ(t.device.type, dl::kCpu);
  EXPECT_EQ(std::vector<int64_t>(t.shape, t.shape + t.rank), theirs.dims);
  EXPECT_EQ(std::vector<int64_t>(t.strides, t.strides + t.rank), (std::vector<int64_t>{3, 1}));
  EXPECT_EQ(t.dtype.code, dl::kFloat);
  EXPECT_EQ(t.dtype.bits, 32);
  if constexpr (std::is_same_v<TypeParam, dl::ManagedTensorVersioned>) {
    EXPECT_EQ(out->version.major, dl::kMajor);
    EXPECT_TRUE(dl::read_only(*out));
  }
  EXPECT_EQ(theirs.deleted, 0);
  out->deleter(out);
  EXPECT_EQ(theirs.deleted, 1);
}

// A tensor that goes out is still there for calls, and one that comes back is the same memory.
TYPED_TEST(DLPack, ThereAndBackAgain) {
  auto x = std::make_shared<tenon::Tensor>();
  const std::vector<float> values{1, 2, 3};
  ASSERT_TRUE(tenon::Tensor::copy(ArrayView::of(values, {1, 3}), x.get()).ok());
  TypeParam* out = nullptr;
  ASSERT_TRUE(dl::give(std::shared_ptr<const tenon::Tensor>(x), {dl::kCpu, 0}, &out).ok());
  tenon::Tensor again;
  ASSERT_TRUE(dl::take(out, &again).ok()) << tenon::failure_text();
  ArrayView first, second;
  ASSERT_TRUE(x->array(&first).ok());
  ASSERT_TRUE(again.array(&second).ok());
  EXPECT_EQ(first.data, second.data);
  x.reset();
  Output y;
  ASSERT_TRUE(this->program_.call({{again}}, {&y, 1}).ok()) << tenon::failure_text();
  EXPECT_EQ(y.as<float>()[2], 6);
}

TYPED_TEST(DLPack, WhatCannotGoOutStays) {
  const std::vector<uint8_t> nibbles{0x12};
  tenon::Tensor x;
  const tenon::Tensor& left = x;  // what is there after a move
  ASSERT_TRUE(tenon::Tensor::copy({TENON_I4, {2}, nibbles.data()}, &x).ok())
      << tenon::failure_text();
  TypeParam* out = nullptr;
  this->expect_refused(dl::give(std::move(x), {dl::kCpu, 0}, &out), "no elements of i4");
  EXPECT_NE(left.get(), nullptr);
  const std::vector<float> values{1};
  ASSERT_TRUE(tenon::Tensor::copy(ArrayView::of(values, {1}), &x).ok());
  this->expect_refused(dl::give(std::move(x), {15, 0}, &out), "DLPack's kind 15");
  EXPECT_NE(left.get(), nullptr);
  EXPECT_EQ(out, nullptr);
}

TYPED_TEST(DLPack, AnOutputIsWrittenToTheirMemory) {
  Theirs<TypeParam> theirs({2, 3}, 100);
  const std::vector<float> x{1, 2, 3, 4, 5, 6};
  Output y;
  ASSERT_TRUE(dl::write_to(theirs.managed, &y).ok()) << tenon::failure_text();
  ASSERT_TRUE(this->program_.call({{ArrayView::of(x, {2, 3})}}, {&y, 1}).ok())
      << tenon::failure_text();
  EXPECT_EQ(theirs.values, (std::vector<float>{2, 4, 6, 8, 10, 12}));
  EXPECT_EQ(theirs.deleted, 0);
  theirs.managed.tensor.device.type = dl::kCuda;
  this->expect_refused(dl::write_to(theirs.managed, &y), "not in the host's memory");
}

TEST(DLPackFlags, ReadOnlyMemoryIsReadAndNotWritten) {
  tenon::Session session;
  ASSERT_TRUE(session.open().ok());
  Theirs<dl::ManagedTensorVersioned> theirs({2, 3});
  theirs.managed.flags = dl::kReadOnly;
  Output y;
  EXPECT_EQ(dl::write_to(theirs.managed, &y).code(), TENON_INVALID_ARGUMENT);
  EXPECT_NE(tenon::failure_text().find("read-only"), std::string::npos);
  tenon::Tensor x;
  EXPECT_TRUE(dl::take(&theirs.managed, &x).ok()) << tenon::failure_text();
  // An output that nothing has read yet may be written, if its owner says so.
  dl::ManagedTensorVersioned* out = nullptr;
  ASSERT_TRUE(dl::give(std::move(x), {dl::kCpu, 0}, &out, 0).ok());
  EXPECT_FALSE(dl::read_only(*out));
  dl::call_deleter(out);
}

TEST(DLPackTypes, ThereAndBackAgain) {
  int known = 0;
  for (tenon_dtype_t d = 1; d < tenon::elements::kDtypeEnd; ++d) {
    const dl::DataType type = dl::type_of(d);
    if (type.lanes == 0) continue;
    ++known;
    EXPECT_EQ(dl::dtype_of(type), d);
    EXPECT_EQ(type.bits, tenon::elements::dtype_bits(d));
  }
  EXPECT_GE(known, 17);
  EXPECT_EQ(dl::dtype_of({dl::kFloat, 128, 1}), TENON_DTYPE_NONE);
  EXPECT_EQ(dl::dtype_of({}), TENON_DTYPE_NONE);
}

}  // namespace
