#define PROTOZERO_USE_VIEW std::string_view
#include "frontends/onnx/graph/weights.h"

#include <fmt/format.h>

#include <protozero/pbf_reader.hpp>

#include <charconv>
#include <cstring>

namespace tenon::onnx {
namespace {

struct DataType {
  int32_t onnx;
  tenon_dtype_t dtype;
  uint32_t field;  // the typed field that may hold the elements
  std::string_view name;
};
constexpr DataType kDataTypes[] = {{kFloat, TENON_F32, 4, "FLOAT"},
                                   {kUint8, TENON_U8, 5, "UINT8"},
                                   {kInt8, TENON_I8, 5, "INT8"},
                                   {kUint16, TENON_U16, 5, "UINT16"},
                                   {kInt16, TENON_I16, 5, "INT16"},
                                   {kInt32, TENON_I32, 5, "INT32"},
                                   {kInt64, TENON_I64, 7, "INT64"},
                                   {kBool, TENON_PRED, 5, "BOOL"},
                                   {kFloat16, TENON_F16, 5, "FLOAT16"},
                                   {kDouble, TENON_F64, 10, "DOUBLE"},
                                   {kUint32, TENON_U32, 11, "UINT32"},
                                   {kUint64, TENON_U64, 11, "UINT64"},
                                   {kComplex64, TENON_C64, 4, "COMPLEX64"},
                                   {kComplex128, TENON_C128, 10, "COMPLEX128"},
                                   {kBfloat16, TENON_BF16, 5, "BFLOAT16"},
                                   {kFloat8E4M3FN, TENON_F8E4M3FN, 5, "FLOAT8E4M3FN"},
                                   {kFloat8E5M2, TENON_F8E5M2, 5, "FLOAT8E5M2"},
                                   {kUint4, TENON_U4, 5, "UINT4"},
                                   {kInt4, TENON_I4, 5, "INT4"}};

const DataType* find(int32_t onnx) {
  for (const DataType& type : kDataTypes) {
    if (type.onnx == onnx) return &type;
  }
  return nullptr;
}

// Tensors up to this size are copied if the file does not align them; larger ones are used in
// place.
constexpr uint64_t kCopyBytes = 64 << 10;

class Reader {
 public:
  Reader(const TensorProto& tensor, const Source& source, const std::string& where,
         Problems* problems, Constant* out)
      : tensor_(tensor), source_(source), where_(where), problems_(problems), out_(out) {}

  bool read() {
    type_ = find(tensor_.data_type);
    if (type_ == nullptr) {
      const char* what = tensor_.data_type == kString ? "strings, which no device computes with"
                                                      : "an unknown element type";
      return wrong("T0710", fmt::format("has element type {}, {}", tensor_.data_type, what));
    }
    out_->dtype = type_->dtype;
    out_->dims = tensor_.dims;
    for (const int64_t dim : tensor_.dims) {
      if (dim < 0) return wrong("T0711", fmt::format("has the negative dim {}", dim));
    }
    count_ = element_count(tensor_.dims);
    if (count_ < 0)
      return wrong(
          "T0102",
          fmt::format("has more elements than the limit of {}; TENON_LIMIT_ELEMENTS raises it",
                      limits().elements));
    size_ = (static_cast<uint64_t>(count_) * dtype_bits(type_->dtype) + 7) / 8;
    if (tensor_.segmented) return wrong("T0711", "is cut into segments, which no exporter writes");
    if (tensor_.is_external) return external();
    if (!tensor_.external.empty())
      return wrong("T0712", "names external data but declares its data as internal");
    if (tensor_.has_raw) return raw();
    return typed();
  }

 private:
  bool wrong(std::string_view code, std::string_view text) {
    return problems_->add(code, fmt::format("{} {}", where_, text));
  }

  bool set(Blob blob) {
    if (!blob) return wrong("T0111", fmt::format("needs {} bytes, which are not available", size_));
    out_->blob = std::move(blob);
    return true;
  }

  bool host_failed(std::string_view code) {
    auto failure = sized<tenon_failure_t>();
    context().host->last_failure(context().host->self, &failure);
    return wrong(code, fmt::format("cannot be read: {}", view(failure.message)));
  }

  bool check_bool(std::span<const std::byte> bytes) {
    if (type_->dtype != TENON_PRED) return true;
    for (const std::byte b : bytes) {
      if (b > std::byte{1}) return wrong("T0711", "holds a boolean that is neither 0 nor 1");
    }
    return true;
  }

  bool raw() {
    if (tensor_.typed_fields != 0) return wrong("T0711", "has its data twice, raw and typed");
    if (tensor_.raw.size() != size_) {
      return wrong("T0711", fmt::format("has {} bytes of data, its type and shape need {}",
                                        tensor_.raw.size(), size_));
    }
    if (!check_bool(std::as_bytes(std::span(tensor_.raw)))) return false;
    const auto offset = static_cast<uint64_t>(tensor_.raw.data() - source_.bytes.data());
    const uint64_t element = std::max<uint64_t>(1, dtype_bytes(type_->dtype));
    if (size_ == 0 || (offset % element != 0 && size_ <= kCopyBytes))
      return set(Blob::bytes(tensor_.raw.data(), size_));
    tenon_blob_t* blob = nullptr;
    if (graph_api().blob_range(graph_api().self, source_.file, offset, size_, &blob) != TENON_OK)
      return host_failed("T0711");
    return set(Blob(blob));
  }

  // ---- Typed fields ----

  bool typed() {
    if (tensor_.typed_fields == 0) {
      return size_ == 0 ? set(Blob::bytes(nullptr, 0)) : wrong("T0711", "has no data");
    }
    if (tensor_.typed_fields != 1u << type_->field) {
      return wrong("T0711",
                   fmt::format("has element type {}, but data of another type", type_->name));
    }
    std::vector<char> bytes;
    bytes.reserve(std::min<uint64_t>(size_, tensor_.message.size() * 8));
    protozero::pbf_reader m(tensor_.message);
    while (m.next()) {
      if (m.tag() == type_->field) {
        decode(m, &bytes);
      } else {
        m.skip();
      }
    }
    if (bytes.size() != size_) {
      return wrong("T0711", fmt::format("has {} bytes of data, its type and shape need {}",
                                        bytes.size(), size_));
    }
    if (!beyond_.empty()) return wrong("T0711", beyond_);
    return check_bool(std::as_bytes(std::span(bytes))) &&
           set(Blob::bytes(bytes.data(), bytes.size()));
  }

  template <class T>
  static void append(std::vector<char>* out, T value) {
    const auto* from = reinterpret_cast<const char*>(&value);
    out->insert(out->end(), from, from + sizeof value);
  }
  // The least and the largest entry of an integer field. Bits of floats, two numbers of 4 bits in a
  // byte, and what protobuf itself cuts to 32 bits may be written with or without a sign.
  std::pair<int64_t, int64_t> entries() const {
    const uint32_t bits = std::max<uint32_t>(8, dtype_bits(type_->dtype));
    if (bits == 64) return {INT64_MIN, INT64_MAX};
    const int64_t top = int64_t{1} << bits, half = top / 2;
    if (type_->dtype == TENON_PRED) return {0, 1};
    if (!is_int(type_->dtype) || type_->dtype == TENON_I32) return {-half, top - 1};
    if (is_in(type_->dtype, kSigned)) return {-half, half - 1};
    return {0, top - 1};
  }

  void append_int(std::vector<char>* out, int64_t value) {
    if (const auto [least, most] = entries(); value < least || value > most) {
      if (beyond_.empty())
        beyond_ = fmt::format("holds {}, and {} has numbers from {} to {}", value, type_->name,
                              least, most);
    }
    const auto* from = reinterpret_cast<const char*>(&value);
    out->insert(out->end(), from, from + std::max<uint32_t>(1, dtype_bytes(type_->dtype)));
  }

  void decode(protozero::pbf_reader& m, std::vector<char>* out) {
    const bool packed = m.wire_type() == protozero::pbf_wire_type::length_delimited;
    if (type_->field == 4) {
      if (!packed) return append(out, m.get_float());
      for (const float f : m.get_packed_float()) append(out, f);
    } else if (type_->field == 10) {
      if (!packed) return append(out, m.get_double());
      for (const double d : m.get_packed_double()) append(out, d);
    } else {
      if (!packed) return append_int(out, m.get_int64());
      for (const int64_t i : m.get_packed_int64()) append_int(out, i);
    }
  }

  // ---- External data ----

  bool external() {
    Text location;
    bool has_location = false, has_length = false;
    uint64_t offset = 0, length = size_;
    std::vector<Text> seen;
    for (const auto& [key, value] : tensor_.external) {
      for (const Text before : seen) {
        if (before == key)
          return wrong("T0712", fmt::format("has the external data key {} twice", quote(key)));
      }
      seen.push_back(key);
      if (key == "location") {
        location = value;
        has_location = true;
      } else if (key == "offset") {
        if (!whole(value, &offset))
          return wrong("T0712",
                       fmt::format("has the external offset {}, which is not a number of bytes",
                                   quote(value)));
      } else if (key == "length") {
        has_length = true;
        if (!whole(value, &length))
          return wrong("T0712",
                       fmt::format("has the external length {}, which is not a number of bytes",
                                   quote(value)));
      } else if (key != "checksum") {
        return wrong("T0712", fmt::format("has the unknown external data key {}", quote(key)));
      }
    }
    if (!has_location || location.empty())
      return wrong("T0712", "has external data without a location");
    if (tensor_.has_raw || tensor_.typed_fields != 0)
      return wrong("T0712", "has its data twice, inside and external");
    if (has_length && length != size_) {
      return wrong("T0712", fmt::format("has {} bytes of external data, its type and shape need {}",
                                        length, size_));
    }
    if (source_.files == nullptr || source_.folder.size == 0) {
      return wrong("T0712",
                   fmt::format("has its data in the file {}; models from memory cannot have that",
                               quote(location)));
    }
    tenon_blob_t* blob = nullptr;
    if (source_.files->map_beneath(source_.files->self, source_.folder, str(location), offset,
                                   size_, &blob) != TENON_OK) {
      return host_failed("T0712");
    }
    out_->blob = Blob(blob);
    return type_->dtype != TENON_PRED || check_bool(blob_bytes(blob));
  }

  static bool whole(Text text, uint64_t* out) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *out);
    return !text.empty() && error == std::errc() && end == text.data() + text.size();
  }

  const TensorProto& tensor_;
  const Source& source_;
  const std::string& where_;
  Problems* problems_;
  Constant* out_;
  const DataType* type_ = nullptr;
  int64_t count_ = 0;
  uint64_t size_ = 0;
  std::string beyond_;  // what is wrong with the first entry that its type cannot hold
};

}  // namespace

tenon_dtype_t dtype_of_onnx(int32_t data_type) {
  const DataType* type = find(data_type);
  return type != nullptr ? type->dtype : tenon_dtype_t{TENON_DTYPE_NONE};
}

int64_t element_count(const std::vector<int64_t>& dims) {
  int64_t count = 1;
  bool none = false;
  for (const int64_t dim : dims) {
    if (dim < 0 || static_cast<uint64_t>(dim) > limits().elements) return -1;
    none |= dim == 0;
  }
  if (none) return 0;
  for (const int64_t dim : dims) {
    if (__builtin_mul_overflow(count, dim, &count) ||
        static_cast<uint64_t>(count) > limits().elements)
      return -1;
  }
  return count;
}

bool read_tensor(const TensorProto& tensor, const Source& source, const std::string& where,
                 Problems* problems, Constant* out) {
  try {
    return Reader(tensor, source, where, problems, out).read();
  } catch (const protozero::exception&) {
    return problems->add("T0711", fmt::format("{} has damaged data", where));
  }
}

}  // namespace tenon::onnx
