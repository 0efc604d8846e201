// Collects all problems of a model, so that one error lists them.
#ifndef FRONTENDS_ONNX_READER_PROBLEMS_H_
#define FRONTENDS_ONNX_READER_PROBLEMS_H_

#include <string>
#include <string_view>
#include <vector>

#include "frontends/onnx/reader/model_limits.h"

namespace tenon::onnx {

// Text from the model, for messages: quoted, with unprintable and ill-formed bytes replaced, cut at
// 256 bytes.
std::string quote(std::string_view text);

// Well-formed UTF-8 without NUL.
bool is_name_text(std::string_view text);

class Problems {
 public:
  // Adds one problem: a stable code such as "T0706", and whole sentences without the code. Returns
  // false, so that a function can `return problems.add(...)`.
  bool add(std::string_view code, std::string text) {
    if (first_code_.empty()) first_code_ = code;
    if (texts_.size() < kMaxProblems) texts_.push_back(std::string(code) + ": " + std::move(text));
    ++count_;
    return false;
  }
  bool empty() const { return count_ == 0; }
  size_t count() const { return count_; }
  // Says with the last problem what helps, as a line.
  void advise(std::string_view text) {
    if (!texts_.empty() && count_ <= kMaxProblems) texts_.back() += "\n  " + std::string(text);
  }
  // Keeps the first `count` problems: those after it belong to something that is not needed.
  void forget_after(size_t count);
  std::string_view first() const {
    return texts_.empty() ? std::string_view() : std::string_view(texts_.front());
  }
  // "T0706: 'model.onnx': ..."; several problems have a line each.
  std::string text(std::string_view model) const;

 private:
  std::string first_code_;
  std::vector<std::string> texts_;
  size_t count_ = 0;
};

}  // namespace tenon::onnx

#endif  // FRONTENDS_ONNX_READER_PROBLEMS_H_
