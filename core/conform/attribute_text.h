// The attributes of an example, as text, one by one.
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tenon::conform {

class Attributes {
 public:
  // Of " {dims = [1], dtype = f32}". False where regions follow.
  static bool read(std::string_view text, Attributes* out);
  std::string get(std::string_view name) const;  // empty where it is not given
  Attributes with(std::string_view name, std::string_view value) const;
  std::string text() const;  // as read takes it; empty for none

 private:
  std::vector<std::pair<std::string, std::string>> all_;
};

}  // namespace tenon::conform
