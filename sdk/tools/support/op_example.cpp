#include "sdk/tools/support/op_example.h"

#include <fmt/core.h>

namespace tenon::tools {
namespace {

std::string_view trim(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\n')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\n')) text.remove_suffix(1);
  return text;
}

// Splits at commas outside brackets and quotes.
std::vector<std::string_view> split(std::string_view text) {
  std::vector<std::string_view> parts;
  int depth = 0;
  bool quoted = false;
  size_t begin = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '"') quoted = !quoted;
    if (quoted) continue;
    if (text[i] == '[' || text[i] == '(' || text[i] == '{') ++depth;
    if (text[i] == ']' || text[i] == ')' || text[i] == '}') --depth;
    if (text[i] != ',' || depth != 0) continue;
    parts.push_back(trim(text.substr(begin, i - begin)));
    begin = i + 1;
  }
  if (!trim(text.substr(begin)).empty()) parts.push_back(trim(text.substr(begin)));
  return parts;
}

// The position after the bracket that closes the one at `open`.
size_t closing(std::string_view text, size_t open) {
  int depth = 0;
  for (size_t i = open; i < text.size(); ++i) {
    if (text[i] == '[' || text[i] == '(' || text[i] == '{') ++depth;
    if (text[i] == ']' || text[i] == ')' || text[i] == '}') --depth;
    if (depth == 0) return i + 1;
  }
  return text.size();
}

}  // namespace

std::string_view type_of(std::string_view typed) {
  return typed.substr(0, typed.find(']') + 1);
}

bool parse_example(std::string_view expression, OpExample* out) {
  const size_t open = expression.find('('), arrow = expression.rfind("->");
  if (open == std::string_view::npos || arrow == std::string_view::npos || arrow < open)
    return false;
  const size_t close = closing(expression, open);
  if (close > arrow) return false;
  *out = {trim(expression.substr(0, open)), split(expression.substr(open + 1, close - open - 2)),
          split(expression.substr(arrow + 2)), trim(expression.substr(close, arrow - close))};
  return true;
}

std::string example_graph(std::string_view expression, bool constants) {
  OpExample example;
  if (!parse_example(expression, &example)) return "";
  std::string arguments, consts, operands, results, types, yields;
  size_t number = 0;
  for (const std::string_view operand : example.operands) {
    operands += operands.empty() ? "" : ", ";
    if (operand == "_") {
      operands += "_";
      continue;
    }
    const std::string name = fmt::format("%a{}", number++);
    operands += name;
    if (constants) {
      consts += fmt::format("  {} = const {}\n", name, operand);
    } else {
      arguments += fmt::format("{}{}: {}", arguments.empty() ? "" : ", ", name, type_of(operand));
    }
  }
  number = 0;
  for (const std::string_view result : example.results) {
    const char* comma = number == 0 ? "" : ", ";
    results += fmt::format("{}r{}: {}", comma, number, type_of(result));
    types += fmt::format("{}{}", comma, type_of(result));
    yields += fmt::format("{}%r{}", comma, number++);
  }
  return fmt::format(
      "tenon.tir 1\ngraph @example({}) -> ({}) {{\n{}  {} = {}({}){}{} : {}\n  yield {}\n}}\n",
      arguments, results, consts, yields, example.op, operands,
      example.attributes.empty() ? "" : " ", example.attributes, types, yields);
}

}  // namespace tenon::tools
