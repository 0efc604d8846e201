#include "core/conform/attribute_text.h"

#include "core/base/str.h"

namespace tenon::conform {
namespace {

// Where the part that begins at `from` ends: at a comma outside of brackets and quotes, or at the
// end.
size_t end_of_part(std::string_view text, size_t from) {
  int depth = 0;
  bool quoted = false;
  for (size_t i = from; i < text.size(); ++i) {
    if (text[i] == '"') quoted = !quoted;
    if (quoted) continue;
    if (text[i] == '[' || text[i] == '{' || text[i] == '(') ++depth;
    if (text[i] == ']' || text[i] == '}' || text[i] == ')') --depth;
    if (text[i] == ',' && depth == 0) return i;
  }
  return text.size();
}

}  // namespace

bool Attributes::read(std::string_view text, Attributes* out) {
  text = trim(text);
  if (text.empty()) return true;
  if (text.front() != '{' || text.back() != '}' || text.find("regions") != std::string_view::npos)
    return false;
  text = text.substr(1, text.size() - 2);
  for (size_t at = 0; at < text.size();) {
    const size_t end = end_of_part(text, at);
    const std::string_view part = text.substr(at, end - at);
    const size_t equals = part.find('=');
    if (equals == std::string_view::npos) return false;
    out->all_.emplace_back(trim(part.substr(0, equals)), trim(part.substr(equals + 1)));
    at = end + 1;
  }
  return true;
}

std::string Attributes::get(std::string_view name) const {
  for (const auto& [key, value] : all_)
    if (key == name) return value;
  return {};
}

Attributes Attributes::with(std::string_view name, std::string_view value) const {
  Attributes out = *this;
  for (auto& [key, old] : out.all_)
    if (key == name) return old = value, out;
  out.all_.emplace_back(name, value);
  return out;
}

std::string Attributes::text() const {
  std::string out;
  for (const auto& [key, value] : all_) out += (out.empty() ? " {" : ", ") + key + " = " + value;
  return out.empty() ? out : out + "}";
}

}  // namespace tenon::conform
