// The trained digits network on all held-out images, on the cpu and the reference device: at least
// 97 % right, and the same answer for every image.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "tenon/cpp/session.hpp"

namespace {

constexpr size_t kImages = 360;

struct File {
  std::vector<int64_t> dims;
  tenon_dtype_t dtype = TENON_DTYPE_NONE;
  std::vector<unsigned char> bytes;
};

tenon_code_t keep(void* self, const tenon_file_tensor_t* tensor) {
  File& file = *static_cast<File*>(self);
  const void* data = nullptr;
  uint64_t size = 0;
  const tenon_host_graph_t& graph = *tenon::context().graph;
  const tenon_code_t code = graph.blob_data(graph.self, tensor->blob, &data, &size);
  if (code != TENON_OK) return code;
  file.dims.assign(tensor->dims, tensor->dims + tensor->rank);
  file.dtype = tensor->dtype;
  file.bytes.resize(size);
  std::memcpy(file.bytes.data(), data, size);
  return TENON_OK;
}

class DigitsTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { ASSERT_TRUE(session_.open().ok()) << tenon::failure_text(); }

  static File read(const std::string& name) {
    File file;
    const tenon_file_tensor_sink_t sink{sizeof sink, 0, &file, keep};
    const std::string path = std::string(TENON_DIGITS) + "/" + name;
    EXPECT_EQ(session_.api().tensors_read(session_.api().self, tenon::str(path), &sink), TENON_OK)
        << tenon::failure_text();
    return file;
  }

  static std::vector<int64_t> predict(const char* device, const File& images) {
    tenon::Model model;
    tenon::Program program;
    tenon::Binding binding;
    tenon::ArrayView scores;
    const std::string path = std::string(TENON_DIGITS) + "/digits.onnx";
    EXPECT_TRUE(session_.load(path, &model).ok()) << tenon::failure_text();
    tenon_model_info_t info;
    EXPECT_TRUE(model.info(&info).ok());
    EXPECT_TRUE(model.compile({.device = device}, &program).ok()) << tenon::failure_text();
    EXPECT_TRUE(program.bind(&binding).ok());
    EXPECT_TRUE(binding.input("image", {images.dtype, images.dims, images.bytes.data()}).ok())
        << tenon::failure_text();
    EXPECT_TRUE(binding.run().ok()) << tenon::failure_text();
    EXPECT_TRUE(binding.output(tenon::view(info.outputs[0].name), &scores).ok());
    EXPECT_EQ(scores.dims, (std::vector<int64_t>{kImages, 10}));
    std::vector<int64_t> out;
    const std::span<const float> all = scores.as<float>();
    for (size_t i = 0; i < kImages && all.size() == kImages * 10; ++i) {
      const auto row = all.subspan(i * 10, 10);
      out.push_back(std::max_element(row.begin(), row.end()) - row.begin());
    }
    return out;
  }

  static tenon::Session session_;
};
tenon::Session DigitsTest::session_;

TEST_F(DigitsTest, CpuAndReferenceReadTheHeldOutImagesAlike) {
  const File images = read("heldout_images.npy"), labels = read("heldout_labels.npy");
  ASSERT_EQ(images.dims[0], static_cast<int64_t>(kImages));
  ASSERT_EQ(labels.dtype, TENON_I64);
  const std::vector<int64_t> cpu = predict("cpu", images), reference = predict("reference", images);
  ASSERT_EQ(cpu.size(), kImages);
  EXPECT_EQ(cpu, reference);
  size_t right = 0;
  for (size_t i = 0; i < kImages; ++i) {
    int64_t label = 0;
    std::memcpy(&label, labels.bytes.data() + i * 8, 8);
    right += cpu[i] == label;
  }
  EXPECT_GE(right * 100, kImages * 97) << right << " of " << kImages << " are right";
}

}  // namespace
