// A parsed ONNX file: views into the mapped bytes. Nothing is decoded before it is needed, and
// nothing is trusted. Must not outlive the bytes.
#ifndef FRONTENDS_ONNX_READER_MODEL_H_
#define FRONTENDS_ONNX_READER_MODEL_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <tenon/abi/base.h>

#include "frontends/onnx/reader/problems.h"

namespace tenon::onnx {

using Text = std::string_view;

// TensorProto.DataType
enum : int32_t {
  kFloat = 1,
  kUint8 = 2,
  kInt8 = 3,
  kUint16 = 4,
  kInt16 = 5,
  kInt32 = 6,
  kInt64 = 7,
  kString = 8,
  kBool = 9,
  kFloat16 = 10,
  kDouble = 11,
  kUint32 = 12,
  kUint64 = 13,
  kComplex64 = 14,
  kComplex128 = 15,
  kBfloat16 = 16,
  kFloat8E4M3FN = 17,
  kFloat8E5M2 = 19,
  kUint4 = 21,
  kInt4 = 22,
};

struct TensorProto {
  Text name;
  std::vector<int64_t> dims;
  int32_t data_type = 0;
  bool has_raw = false;
  Text raw;
  uint32_t typed_fields = 0;  // bit per field number of the *_data fields that are present
  bool segmented = false;
  bool is_external = false;
  std::vector<std::pair<Text, Text>> external;
  Text message;  // the whole message, from which weights.cpp decodes the typed fields
};

struct GraphProto;

// AttributeProto.AttributeType
enum : int32_t {
  kAttrFloat = 1,
  kAttrInt = 2,
  kAttrString = 3,
  kAttrTensor = 4,
  kAttrGraph = 5,
  kAttrFloats = 6,
  kAttrInts = 7,
  kAttrStrings = 8,
  kAttrTensors = 9,
  kAttrGraphs = 10,
  kAttrSparse = 11,
};

struct AttributeProto {
  Text name, reference;  // reference: inside a function, the name of the function's attribute
  int32_t type = 0;
  float f = 0;
  int64_t i = 0;
  Text s;
  std::vector<float> floats;
  std::vector<int64_t> ints;
  std::vector<Text> strings;
  std::unique_ptr<TensorProto> tensor;
  std::vector<std::unique_ptr<GraphProto>> graphs;  // of g and graphs
};

struct NodeProto {
  Text name, op_type, domain, overload;
  std::vector<Text> inputs, outputs;
  std::vector<AttributeProto> attributes;
  uint32_t index = 0;  // its position in the file's list
};

struct DimProto {
  bool has_value = false;
  int64_t value = 0;
  Text param;
};

struct ValueProto {
  Text name;
  bool is_tensor = false;
  int32_t elem_type = 0;
  bool has_shape = false;
  std::vector<DimProto> dims;
};

struct GraphProto {
  Text name;
  std::vector<NodeProto> nodes;
  std::vector<TensorProto> initializers;
  std::vector<Text> sparse_initializers;  // whole messages; models that use them are refused
  std::vector<ValueProto> inputs, outputs;
};

struct OpsetProto {
  Text domain;
  int64_t version = 0;
};

struct FunctionProto {
  Text name, domain, overload;
  std::vector<Text> inputs, outputs;
  std::vector<Text> attribute_names;     // those that have no default
  std::vector<AttributeProto> defaults;  // of attributes that a caller need not give
  std::vector<NodeProto> nodes;
  std::vector<OpsetProto> opsets;
};

struct ModelProto {
  int64_t ir_version = 0;
  std::vector<OpsetProto> opsets;
  std::unique_ptr<GraphProto> graph;
  std::vector<FunctionProto> functions;
  // By function_key; filled by parse_model, which refuses duplicate keys.
  std::unordered_map<std::string, const FunctionProto*> function_of;
};

// Identifies a function. "ai.onnx" is the empty domain.
std::string function_key(Text domain, Text name, Text overload);

// Parses a whole file. False with the problems reported; *out must then not be used. `bytes` may
// hold anything.
bool parse_model(Text bytes, ModelProto* out, Problems* problems);

}  // namespace tenon::onnx

#endif  // FRONTENDS_ONNX_READER_MODEL_H_
