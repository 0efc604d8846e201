// Notes: attributes of a name space at nodes and values. They change nothing that is computed, so
// neither the verifier nor the structural hash reads them.
#include <algorithm>

#include "core/base/errors/failure.h"
#include "core/base/intern.h"
#include "core/base/limits.h"
#include "core/base/str.h"
#include "core/ir/graph.h"

namespace tenon::ir {
namespace {

bool by_name(const tenon_attr_t& a, const tenon_attr_t& b) {
  return sym_text(a.name) < sym_text(b.name);
}

bool is_part(std::string_view part) {
  return !part.empty() && std::all_of(part.begin(), part.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  });
}

// Whether it is at least two parts with dots between them.
bool is_note_name(std::string_view name) {
  size_t parts = 0;
  for (size_t at = 0; at <= name.size(); ++parts) {
    const size_t end = std::min(name.find('.', at), name.size());
    if (!is_part(name.substr(at, end - at))) return false;
    at = end + 1;
  }
  return parts >= 2;
}

Status check_name(std::string_view name, bool any_space) {
  TENON_RETURN_IF_ERROR(check_limit(Limit::kNameBytes, name.size(), "the name of a note"));
  if (!is_note_name(name)) {
    return error(TENON_INVALID_ARGUMENT, "T0327",
                 "{} is not the name of a note: a note has a name space and a name, as in "
                 "`user.cluster`, of a-z, 0-9, `_` and `-`",
                 quoted(name));
  }
  if (any_space || op_set() == nullptr) return {};
  return op_set()->check_note_space(name.substr(0, name.find('.')));
}

uint64_t bytes_of(const tenon_attr_t& note) {
  if (note.kind == TENON_ATTR_STRING) return note.u.s.size;
  uint64_t bytes = note.count * sizeof(int64_t);
  for (uint64_t i = 0; note.kind == TENON_ATTR_STRINGS && i < note.count; ++i)
    bytes += note.u.ss[i].size;
  return bytes;
}

bool is_text(const tenon_attr_t& note) {
  if (note.kind == TENON_ATTR_STRING) return is_valid_utf8(from_abi_str(note.u.s));
  for (uint64_t i = 0; note.kind == TENON_ATTR_STRINGS && i < note.count; ++i) {
    if (!is_valid_utf8(from_abi_str(note.u.ss[i]))) return false;
  }
  return true;
}

Status check_value(const tenon_attr_t& note) {
  const std::string name = quoted(sym_text(note.name));
  if (note.kind < TENON_ATTR_I64 || note.kind > TENON_ATTR_STRINGS) {
    return error(TENON_INVALID_ARGUMENT, "T0327",
                 "the note {} is of the attribute kind {}; a note is a number, a text or a list of "
                 "either",
                 name, note.kind);
  }
  if (bytes_of(note) > TENON_NOTE_BYTES_MAX) {
    return error(TENON_RESOURCE_EXHAUSTED, "T0327", "the note {} has {} bytes; at most {} are kept",
                 name, bytes_of(note), TENON_NOTE_BYTES_MAX);
  }
  if (is_text(note)) return {};
  return error(TENON_INVALID_ARGUMENT, "T0327", "the text of the note {} is not UTF-8", name);
}

}  // namespace

Status OpSet::check_note_space(std::string_view) {
  return {};
}

bool Graph::noted(Noted kind, uint32_t index) const {
  return kind == Noted::kNode ? node_live(index) : value_live(index);
}

std::span<const tenon_attr_t> Graph::notes(Noted kind, uint32_t index) const {
  const auto& all = notes_[static_cast<size_t>(kind)];
  const auto found = all.find(index);
  if (found == all.end()) return {};
  return found->second;
}

Status Graph::set_note(Noted kind, uint32_t index, const tenon_attr_t& note, bool any_space) {
  TENON_RETURN_IF_ERROR(mutable_or_fail());
  if (!noted(kind, index))
    return error(TENON_INVALID_ARGUMENT, "T0301", "there is no {} {} in this graph",
                 kind == Noted::kNode ? "node" : "value", index);
  TENON_RETURN_IF_ERROR(check_name(sym_text(note.name), any_space));
  TENON_RETURN_IF_ERROR(check_value(note));
  const size_t count = notes(kind, index).size() + 1;
  TENON_RETURN_IF_ERROR(check_limit(Limit::kOperands, count, "the notes of a node or value"));
  tenon_attr_t kept = copy_attr(note);
  // The text form of a list without elements does not say of what kind it is.
  if (kept.count == 0 && kept.kind != TENON_ATTR_STRING) kept.kind = TENON_ATTR_I64S;
  std::vector<tenon_attr_t>& list = notes_[static_cast<size_t>(kind)][index];
  const auto at = std::lower_bound(list.begin(), list.end(), kept, by_name);
  if (at != list.end() && at->name == kept.name)
    *at = kept;
  else
    list.insert(at, kept);
  touch();
  return {};
}

Status Graph::erase_note(Noted kind, uint32_t index, tenon_sym_t name) {
  TENON_RETURN_IF_ERROR(mutable_or_fail());
  auto& all = notes_[static_cast<size_t>(kind)];
  const auto found = all.find(index);
  if (found == all.end()) return {};
  std::erase_if(found->second, [&](const tenon_attr_t& note) { return note.name == name; });
  if (found->second.empty()) all.erase(found);
  touch();
  return {};
}

void Graph::take_notes(Noted kind, uint32_t to, const Graph& from, uint32_t index) {
  const std::span<const tenon_attr_t> found = from.notes(kind, index);
  if (found.empty() || (&from == this && to == index)) return;
  const std::vector<tenon_attr_t> given(found.begin(), found.end());
  std::vector<tenon_attr_t>& list = notes_[static_cast<size_t>(kind)][to];
  for (const tenon_attr_t& note : given) {
    const auto at = std::lower_bound(list.begin(), list.end(), note, by_name);
    if (at == list.end() || at->name != note.name) list.insert(at, copy_attr(note));
  }
}

void Graph::copy_all_notes(const Graph& from) {
  for (size_t kind = 0; kind < std::size(notes_); ++kind) {
    for (const auto& [index, list] : from.notes_[kind])
      take_notes(static_cast<Noted>(kind), index, from, index);
  }
}

// What is noted of a value holds for the one in its place. What is noted of a node holds for a node
// that was built for its place, which nothing else uses yet, and for one of the same op, into which
// it is merged.
void Graph::pass_notes(Value from, Value to) {
  if (notes_[TENON_NOTED_NODE].empty() && notes_[TENON_NOTED_VALUE].empty()) return;
  take_notes(Noted::kValue, to, *this, from);
  const ValueData& old = values_[from];
  const ValueData& now = values_[to];
  if (old.kind != TENON_VALUE_RESULT || now.kind != TENON_VALUE_RESULT) return;
  if (now.uses.empty() || nodes_[old.node].op == nodes_[now.node].op)
    take_notes(Noted::kNode, now.node, *this, old.node);
}

void Graph::drop_notes(Node n) {
  notes_[TENON_NOTED_NODE].erase(n);
  for (Value v : results(n)) notes_[TENON_NOTED_VALUE].erase(v);
}

}  // namespace tenon::ir
