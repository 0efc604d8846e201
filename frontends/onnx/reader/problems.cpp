#include "frontends/onnx/reader/problems.h"

#include <fmt/format.h>

#include <algorithm>

namespace tenon::onnx {
namespace {

constexpr size_t kQuoteBytes = 256;

// Length of the well-formed UTF-8 sequence at the front; 0 if there is none.
size_t sequence(std::string_view text) {
  const auto byte = [&](size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u;
  };
  const auto follows = [&](size_t i) { return (byte(i) & 0xc0) == 0x80; };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  if (first >= 0xc2 && first <= 0xdf) return follows(1) ? 2 : 0;
  if (first >= 0xe0 && first <= 0xef) {
    const bool overlong = first == 0xe0 && byte(1) < 0xa0;
    const bool surrogate = first == 0xed && byte(1) >= 0xa0;
    return follows(1) && follows(2) && !overlong && !surrogate ? 3 : 0;
  }
  if (first >= 0xf0 && first <= 0xf4) {
    const bool overlong = first == 0xf0 && byte(1) < 0x90;
    const bool beyond = first == 0xf4 && byte(1) >= 0x90;
    return follows(1) && follows(2) && follows(3) && !overlong && !beyond ? 4 : 0;
  }
  return 0;
}

}  // namespace

std::string quote(std::string_view text) {
  std::string out = "'";
  size_t at = 0;
  while (at < text.size() && at < kQuoteBytes) {
    const auto byte = static_cast<unsigned char>(text[at]);
    const size_t length = sequence(text.substr(at));
    if (length == 0 || byte < 0x20 || byte == 0x7f) {
      out += fmt::format("\\x{:02x}", byte);
      ++at;
    } else {
      out += text.substr(at, length);
      at += length;
    }
  }
  return out + (at < text.size() ? "...'" : "'");
}

bool is_name_text(std::string_view text) {
  while (!text.empty()) {
    const size_t length = sequence(text);
    if (length == 0 || text[0] == '\0') return false;
    text.remove_prefix(length);
  }
  return true;
}

void Problems::forget_after(size_t count) {
  count_ = std::min(count_, count);
  texts_.resize(std::min(texts_.size(), count_));
  if (count_ == 0) first_code_.clear();
}

std::string Problems::text(std::string_view model) const {
  if (count_ == 1) {
    // "T0706: 'model.onnx': ..." keeps the code in front.
    return first_code_ + ": " + quote(model) + ": " + texts_[0].substr(first_code_.size() + 2);
  }
  std::string out =
      fmt::format("{}: {}: the model has {} problems:", first_code_, quote(model), count_);
  for (const std::string& text : texts_) out += "\n  " + text;
  if (count_ > texts_.size()) out += fmt::format("\n  and {} more", count_ - texts_.size());
  return out;
}

}  // namespace tenon::onnx
