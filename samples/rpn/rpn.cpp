// The frontend `rpn`: formulas in reverse Polish notation, one result per line.
//
//     inputs 100 a b          the length of every input, and their names
//     sum = a b +             a result: operands, then what is done with them
//     y = a 2 * exp b -
//
// Words are inputs, results of earlier lines, numbers, + - * / and names of ops with one operand.
#include <charconv>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <tenon/abi/frontend.h>
#include <tenon/cpp/graph.hpp>
#include <tenon/cpp/plugin.hpp>

namespace {

using tenon::Builder;
using tenon::cat;
using tenon::fail;
using tenon::quoted;
using tenon::Status;
using tenon::str;
using tenon::Value;
using tenon::view;

constexpr std::string_view kMagic = "inputs ";
constexpr int64_t kElementsMax = int64_t{1} << 30;
constexpr size_t kWordsMax = 100'000;

std::string_view cut(std::string_view* rest, char at) {
  const size_t end = rest->find(at);
  const std::string_view part = rest->substr(0, end);
  rest->remove_prefix(end == std::string_view::npos ? rest->size() : end + 1);
  return part;
}
std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  while (!line.empty()) {
    if (const std::string_view word = cut(&line, ' '); !word.empty()) words.push_back(word);
  }
  return words;
}
template <class Number>
bool parse(std::string_view text, Number* out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *out);
  return error == std::errc() && end == text.data() + text.size();
}

class Reader {
 public:
  explicit Reader(std::string_view name) : name_(name) {}

  Status read(std::string_view text, tenon::Graph* out) {
    TENON_TRY(tenon::Graph::create("rpn", out));
    const tenon::Region main = tenon::main_region(out->get());
    Builder builder(out->get(), main.id());
    while (!text.empty()) {
      std::string_view line = cut(&text, '\n');
      if (line.ends_with('\r')) line.remove_suffix(1);
      const std::vector<std::string_view> words = words_of(line);
      builder.set_loc(name_, static_cast<uint32_t>(++line_));
      word_count_ += words.size();
      if (word_count_ > kWordsMax)
        return wrong(cat("the file has more than ", kWordsMax, " words"));
      if (words.empty() && line_ != 1) continue;
      TENON_TRY(line_ == 1 ? inputs(words, main) : formula(words, builder));
    }
    if (results_.empty()) return wrong("there is no line with a result, as in `y = a b +`");
    return tenon::yield(main, results_, names_);
  }

 private:
  Status wrong(std::string_view why) const {
    return fail(TENON_INVALID_ARGUMENT, cat("T0701: ", name_, ":", line_, ": ", why));
  }
  Status define(std::string_view name, Value value) {
    double number = 0;
    if (parse(name, &number)) return wrong(cat(quoted(name), " is a number and no name"));
    if (values_.emplace(name, value).second) return {};
    return wrong(cat("there are two of ", quoted(name)));
  }

  Status inputs(const std::vector<std::string_view>& words, const tenon::Region& main) {
    if (words.size() < 3 || words[0] != "inputs" || !parse(words[1], &size_) || size_ < 0 ||
        size_ > kElementsMax)
      return wrong(cat("the first line is `inputs N NAME...` with N from 0 to ", kElementsMax));
    for (size_t i = 2; i < words.size(); ++i) {
      Value value;
      TENON_TRY(tenon::argument(main, {TENON_F32, {size_}}, words[i], &value));
      TENON_TRY(define(words[i], value));
    }
    return {};
  }

  Status formula(const std::vector<std::string_view>& words, Builder& builder) {
    if (words.size() < 3 || words[1] != "=") return wrong("a line is `NAME = ...`");
    std::vector<Value> stack;
    for (size_t i = 2; i < words.size(); ++i) TENON_TRY(take(words[i], builder, &stack));
    if (stack.size() != 1) return wrong(cat(stack.size(), " values are left instead of one"));
    TENON_TRY(define(words[0], stack[0]));
    results_.push_back(stack[0]);
    names_.emplace_back(words[0]);
    return {};
  }

  Status take(std::string_view word, Builder& builder, std::vector<Value>* stack) {
    static const std::map<std::string_view, std::string_view> kBinary = {
        {"+", "add"}, {"-", "sub"}, {"*", "mul"}, {"/", "div"}};
    float number = 0;
    if (const auto known = values_.find(word); known != values_.end()) {
      stack->push_back(known->second);
      return {};
    }
    if (parse(word, &number)) {
      stack->push_back(builder.full(TENON_F32, {builder.dim(size_)}, number));
      return builder.status();
    }
    const auto binary = kBinary.find(word);
    const size_t count = binary != kBinary.end() ? 2 : 1;
    if (stack->size() < count) return wrong(cat(quoted(word), " finds too few values before it"));
    const std::vector<Value> operands(stack->end() - static_cast<ptrdiff_t>(count), stack->end());
    stack->resize(stack->size() - count);
    stack->push_back(builder.build(count == 2 ? binary->second : word, operands));
    return builder.status();  // names an unknown op
  }

  std::string_view name_;
  int64_t size_ = 0;
  size_t line_ = 0, word_count_ = 0;
  std::map<std::string_view, Value> values_;
  std::vector<Value> results_;
  std::vector<std::string> names_;
};

// 0: another format. A file with this extension is accepted, so that load gives the reason.
uint32_t accepts(void*, tenon_str_t name, const void* head, uint64_t head_bytes) {
  if (std::string_view(static_cast<const char*>(head), head_bytes).starts_with(kMagic)) return 50;
  return view(name).ends_with(".rpn") ? 25 : 0;
}

Status load(void*, const tenon_source_t* source, tenon_graph_t** out) {
  const void* data = nullptr;
  uint64_t bytes = 0;
  tenon::Graph graph;
  if (source->option_count != 0)
    return fail(TENON_INVALID_ARGUMENT,
                cat("T0701: ", view(source->name), ": .rpn has no options"));
  TENON_TRY(tenon::graph_api().blob_data(tenon::graph_api().self, source->bytes, &data, &bytes));
  Reader reader(view(source->name));
  TENON_TRY(reader.read({static_cast<const char*>(data), bytes}, &graph));
  *out = graph.release();
  return {};
}

constexpr tenon_frontend_api_t kFrontend = {.size_bytes = sizeof(tenon_frontend_api_t),
                                            .self = nullptr,
                                            .name = str("rpn"),
                                            .extensions = str(".rpn"),
                                            .accepts = accepts,
                                            .load = tenon::entry<load>,
                                            .read_tensors = nullptr,
                                            .write_tensor = nullptr};
constexpr tenon_interface_t kInterfaces[] = {tenon::offer(TENON_FRONTEND_ID, kFrontend)};

}  // namespace

TENON_PLUGIN("rpn", "0.1.0", kInterfaces)
