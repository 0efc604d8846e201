#include "core/pass/pipeline.h"

#include <algorithm>
#include <charconv>

#include "core/base/errors/failure.h"
#include "core/base/str.h"

namespace tenon::pass {
namespace {

constexpr size_t kTextBytesMax = 64 * 1024;

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Result<std::vector<PassCall>> pipeline() {
    std::vector<PassCall> calls;
    do {
      PassCall& call = calls.emplace_back();
      TENON_RETURN_IF_ERROR(name(call.name, call.column, "the name of a pass"));
      if (take('{')) TENON_RETURN_IF_ERROR(options(call));
    } while (take(','));
    if (at_ < text_.size())
      return wrong(calls.back().options.empty() ? "`,`, `{` or the end" : "`,` or the end");
    return calls;
  }

 private:
  Status options(PassCall& call) {
    const size_t open = at_;
    if (take('}')) return {};
    do {
      OptionText& option = call.options.emplace_back();
      TENON_RETURN_IF_ERROR(name(option.name, option.column, "the name of an option"));
      if (!take('=')) return wrong("`=`");
      TENON_RETURN_IF_ERROR(value(option.value));
    } while (take(','));
    if (take('}')) return {};
    if (at_ == text_.size()) {
      return error(TENON_INVALID_ARGUMENT, "T0403",
                   "the `{{` at column {} of the pipeline {} is never closed", open, quoted(text_));
    }
    return wrong("`,` or `}`");
  }

  void blanks() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n'))
      ++at_;
  }
  bool take(char c) {
    blanks();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    blanks();
    return true;
  }
  static bool is_name(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  }
  Status name(std::string& out, size_t& column, std::string_view what) {
    blanks();
    column = at_ + 1;
    const size_t begin = at_;
    while (at_ < text_.size() && is_name(text_[at_])) ++at_;
    if (at_ == begin) return wrong(what);
    out = text_.substr(begin, at_ - begin);
    blanks();
    return {};
  }
  Status value(std::string& out) {
    if (at_ < text_.size() && text_[at_] == '"') {
      const size_t end = text_.find('"', at_ + 1);
      if (end == std::string_view::npos) return wrong("a closing `\"`");
      out = text_.substr(at_ + 1, end - at_ - 1);
      at_ = end + 1;
    } else {
      const size_t begin = at_;
      while (at_ < text_.size() && text_[at_] != ',' && text_[at_] != '}') ++at_;
      out = trim(text_.substr(begin, at_ - begin));
      if (out.empty()) return wrong("a value");
    }
    blanks();
    return {};
  }
  Status wrong(std::string_view expected) const {
    const std::string found =
        at_ == text_.size() ? "it ends" : quoted(text_.substr(at_, 1)) + " is found";
    return error(TENON_INVALID_ARGUMENT, "T0403",
                 "{} is expected at column {} of the pipeline {}, where {}", expected, at_ + 1,
                 quoted(text_), found);
  }

  std::string_view text_;
  size_t at_ = 0;
};

template <typename Number>
bool parse(std::string_view text, Number& out) {
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), out);
  return code == std::errc() && end == text.data() + text.size() && !text.empty();
}

Status set_value(const tenon_pass_option_def_t& def, std::string_view value,
                 std::deque<std::string>& texts, tenon_attr_t& attr) {
  attr.kind = def.kind;
  attr.count = 1;
  switch (def.kind) {
    case TENON_ATTR_I64:
      if (parse(value, attr.u.i)) return {};
      return error(TENON_INVALID_ARGUMENT, "T0404", "{} is not a whole number", quoted(value));
    case TENON_ATTR_F64:
      if (parse(value, attr.u.f)) return {};
      return error(TENON_INVALID_ARGUMENT, "T0404", "{} is not a number", quoted(value));
    case TENON_ATTR_STRING:
      attr.u.s = to_abi_str(texts.emplace_back(value));
      return {};
    default:
      return error(TENON_INTERNAL, "T0402", "the option is declared with kind {}", def.kind);
  }
}

// The pipeline with each `standard` replaced in place by the standard passes.
Result<std::vector<PassCall>> expanded(std::vector<PassCall> written) {
  std::vector<PassCall> calls;
  for (PassCall& call : written) {
    if (call.name != "standard") {
      calls.push_back(std::move(call));
      continue;
    }
    if (!call.options.empty()) {
      return error(TENON_INVALID_ARGUMENT, "T0404",
                   "`standard` (column {}) is a list of passes and has no options", call.column);
    }
    TENON_ASSIGN_OR_RETURN(std::vector<PassCall> standard, Parser(kStandardPipeline).pipeline());
    for (PassCall& one : standard) {
      one.column = call.column;
      calls.push_back(std::move(one));
    }
  }
  return calls;
}

}  // namespace

Result<std::vector<PassCall>> parse_pipeline(std::string_view text) {
  if (trim(text).empty() || trim(text) == "none") return std::vector<PassCall>();
  if (text.size() > kTextBytesMax) {
    return error(TENON_RESOURCE_EXHAUSTED, "T0102",
                 "the pipeline's text exceeds the limit of {} bytes", kTextBytesMax);
  }
  TENON_ASSIGN_OR_RETURN(std::vector<PassCall> written, Parser(text).pipeline());
  return expanded(std::move(written));
}

Result<std::optional<std::pair<uint64_t, uint64_t>>> take_apply(PassCall& call) {
  const auto given = std::find_if(call.options.begin(), call.options.end(),
                                  [](const OptionText& o) { return o.name == kApplyOption; });
  if (given == call.options.end()) return std::optional<std::pair<uint64_t, uint64_t>>();
  const std::string text = given->value;
  const size_t dash = std::min(text.find('-'), text.size());
  std::pair<uint64_t, uint64_t> range;
  const std::string_view last =
      dash == text.size() ? std::string_view(text) : std::string_view(text).substr(dash + 1);
  if (!parse(std::string_view(text).substr(0, dash), range.first) || !parse(last, range.second)) {
    return error(
        TENON_INVALID_ARGUMENT, "T0404",
        "apply={} of the pass {} (column {}) is neither a number nor a range of numbers, as "
        "in apply=17 or apply=1-17",
        quoted(text), quoted(call.name), given->column);
  }
  call.options.erase(given);
  return std::optional(range);
}

Result<std::vector<tenon_attr_t>> resolve_options(const tenon_pass_def_t& def, const PassCall& call,
                                                  std::deque<std::string>& texts) {
  std::vector<tenon_attr_t> attrs(def.option_count);
  std::vector<std::string> names;
  for (uint32_t i = 0; i < def.option_count; ++i) {
    names.emplace_back(from_abi_str(def.options[i].name));
    TENON_RETURN_IF_ERROR(
        set_value(def.options[i], from_abi_str(def.options[i].default_text), texts, attrs[i]),
        "the default of the option {} of the pass {}", quoted(names[i]), quoted(call.name));
  }
  std::vector<bool> given(def.option_count);
  for (const OptionText& option : call.options) {
    size_t i = 0;
    while (i < names.size() && names[i] != option.name) ++i;
    if (i == names.size()) {
      return error(TENON_INVALID_ARGUMENT, "T0404", "the pass {} has no option {} (column {}){}",
                   quoted(call.name), quoted(option.name), option.column,
                   did_you_mean(option.name, names))
          .with("options", names.empty() ? "none" : join_names(names));
    }
    if (given[i]) {
      return error(TENON_INVALID_ARGUMENT, "T0404",
                   "the option {} of the pass {} is given twice (column {})", quoted(option.name),
                   quoted(call.name), option.column);
    }
    given[i] = true;
    TENON_RETURN_IF_ERROR(set_value(def.options[i], option.value, texts, attrs[i]),
                          "the option {} of the pass {} (column {})", quoted(option.name),
                          quoted(call.name), option.column);
  }
  return attrs;
}

}  // namespace tenon::pass
