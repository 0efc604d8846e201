// More patterns, over those of match.hpp: alternatives, optional and further operands, predicates,
// and constraints of attributes and notes.
//
//     Value x, w, b;
//     Node conv;
//     const auto pattern =
//         match_any({"conv", "conv_bias"}, bind(&x), constant(&w), maybe(bind(&b)));
//     if (match(node, match_op("relu", one_use(with(pattern, attr_is("groups", 1)))))) ...
//
// The first alternative that matches is taken, and the rest of a pattern does not try another one.
#ifndef TENON_CPP_PATTERNS_HPP_
#define TENON_CPP_PATTERNS_HPP_

#include <concepts>
#include <initializer_list>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "tenon/cpp/match.hpp"
#include "tenon/cpp/notes.hpp"

namespace tenon::inline sdk {
namespace pattern {

// Further operands, after those that the pattern has.
struct Rest {
  bool operator()(Value) const { return true; }
};

template <class... Patterns>
struct AnyOf {
  std::tuple<Patterns...> patterns;
  bool operator()(Value v) const {
    return std::apply([&](const Patterns&... each) { return (each(v) || ...); }, patterns);
  }
  bool node(const Node& n) const {
    return std::apply([&](const Patterns&... each) { return (each.node(n) || ...); }, patterns);
  }
};

template <class Inner>
struct Maybe {
  Inner inner;
  bool operator()(Value v) const {
    const bool matched = inner(v);  // an absent operand is bound as an invalid value
    return matched || !v.valid();
  }
};

template <class Inner, class Test>
struct Where {
  Inner inner;
  Test test;
  bool operator()(Value v) const { return inner(v) && test(v); }
};

// One of several ops. Operands that are not there match as absent ones.
template <class... Operands>
struct AnyOp {
  std::vector<std::string> names;
  Node* out;
  std::tuple<Operands...> operands;
  static constexpr bool kRest = (std::is_same_v<Operands, Rest> || ...);
  static constexpr uint32_t kCount = sizeof...(Operands) - (kRest ? 1 : 0);

  bool node(const Node& n) const {
    if (!n || (!kRest && n.operand_count() > kCount)) return false;
    bool named = false;
    for (const std::string& name : names) named = named || n.is(name);
    if (!named || !operands_match(n, std::index_sequence_for<Operands...>{})) return false;
    if (out != nullptr) *out = n;
    return true;
  }
  bool operator()(Value v) const { return node(v.node()); }

 private:
  template <size_t... I>
  bool operands_match(const Node& n, std::index_sequence<I...>) const {
    return (std::get<I>(operands)(n.operand(I)) && ...);
  }
};

// An op pattern whose node passes tests.
template <class Inner, class... Tests>
struct With {
  Inner inner;
  std::tuple<Tests...> tests;
  bool node(const Node& n) const {
    return n.valid() && inner.node(n) &&
           std::apply([&](const Tests&... each) { return (each(n) && ...); }, tests);
  }
  bool operator()(Value v) const { return node(v.node()); }
};

template <std::integral T>
bool equals(const tenon_attr_t& attr, T value) {
  return attr.kind == TENON_ATTR_I64 && attr.u.i == static_cast<int64_t>(value);
}
inline bool equals(const tenon_attr_t& attr, double value) {
  return attr.kind == TENON_ATTR_F64 && attr.u.f == value;
}
inline bool equals(const tenon_attr_t& attr, std::string_view value) {
  return attr.kind == TENON_ATTR_STRING && view(attr.u.s) == value;
}
inline bool equals(const tenon_attr_t& attr, const std::vector<int64_t>& value) {
  return attr.kind == TENON_ATTR_I64S &&
         std::vector<int64_t>(attr.u.is, attr.u.is + attr.count) == value;
}

template <class T>
struct AttrIs {
  std::string name;
  T value;
  bool operator()(const Node& n) const {
    const tenon_attr_t* attr = n.attr(name);
    return attr != nullptr && equals(*attr, value);
  }
};
template <class Test>
struct AttrWhere {
  std::string name;
  Test test;
  bool operator()(const Node& n) const {
    const tenon_attr_t* attr = n.attr(name);
    return attr != nullptr && test(*attr);
  }
};
template <class T>
struct NoteIs {
  std::string name;
  T value;
  bool operator()(const Node& n) const {
    const tenon_attr_t* note = note_of(n, name);
    return note != nullptr && equals(*note, value);
  }
};

}  // namespace pattern

// The first of some patterns that matches.
template <class... Patterns>
pattern::AnyOf<Patterns...> any_of(Patterns... patterns) {
  return {{patterns...}};
}
// An operand that may be absent: what `inner` binds is invalid then.
template <class Inner>
pattern::Maybe<Inner> maybe(Inner inner) {
  return {inner};
}
// A value that matches and for which `test(Value)` holds.
template <class Inner, class Test>
pattern::Where<Inner, Test> where(Inner inner, Test test) {
  return {inner, test};
}
// As the last operand: any further ones.
inline pattern::Rest rest() {
  return {};
}
// A value that one of these ops computes, whose operands match in order.
template <class... Operands>
pattern::AnyOp<Operands...> match_any(std::initializer_list<std::string_view> names,
                                      Operands... operands) {
  return {{names.begin(), names.end()}, nullptr, {operands...}};
}
// The same; also captures the node.
template <class... Operands>
pattern::AnyOp<Operands...> match_any(Node* out, std::initializer_list<std::string_view> names,
                                      Operands... operands) {
  return {{names.begin(), names.end()}, out, {operands...}};
}
// An op pattern whose node passes tests, such as those that follow, or functions of a Node.
template <class Inner, class... Tests>
pattern::With<Inner, Tests...> with(Inner inner, Tests... tests) {
  return {inner, {tests...}};
}
// An attribute equals a number, a text or a list of integers.
template <class T>
pattern::AttrIs<T> attr_is(std::string_view name, T value) {
  return {std::string(name), value};
}
inline pattern::AttrIs<std::string> attr_is(std::string_view name, const char* value) {
  return {std::string(name), value};
}
// `test(const tenon_attr_t&)` holds for an attribute.
template <class Test>
pattern::AttrWhere<Test> attr_where(std::string_view name, Test test) {
  return {std::string(name), test};
}
// A note equals a number or a text.
template <class T>
pattern::NoteIs<T> note_is(std::string_view name, T value) {
  return {std::string(name), value};
}
inline pattern::NoteIs<std::string> note_is(std::string_view name, const char* value) {
  return {std::string(name), value};
}

}  // namespace tenon::inline sdk

#endif
