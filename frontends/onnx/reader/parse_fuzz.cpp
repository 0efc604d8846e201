// libFuzzer target: the ONNX reader on any bytes. It may refuse them, but must give an error.
#include <cstdlib>

#include "frontends/onnx/reader/model.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tenon::onnx;
  ModelProto model;
  Problems problems;
  const Text bytes(reinterpret_cast<const char*>(data), size);
  if (!parse_model(bytes, &model, &problems) && problems.empty()) std::abort();
  return 0;
}
