#include "frontends/onnx/reader/model_limits.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include <tenon/cpp/plugin.hpp>

namespace tenon::onnx {
namespace {

// Addressable; code that adds up dims relies on it.
constexpr uint64_t kMostElements = uint64_t{1} << 48;

void read(std::string_view variable, uint64_t* out) {
  if (context().host == nullptr) return;
  const std::string_view text = setting(variable);
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (!text.empty() && error == std::errc() && end == text.data() + text.size()) *out = value;
}

}  // namespace

const Limits& limits() {
  static const Limits kRead = [] {
    Limits out;
    read("TENON_LIMIT_NODES", &out.nodes);
    read("TENON_LIMIT_OPERANDS", &out.operands);
    read("TENON_LIMIT_DEPTH", &out.depth);
    read("TENON_LIMIT_NAME_BYTES", &out.name_bytes);
    read("TENON_LIMIT_ELEMENTS", &out.elements);
    out.elements = std::min(out.elements, kMostElements);
    return out;
  }();
  return kRead;
}

}  // namespace tenon::onnx
