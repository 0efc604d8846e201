// Notes in C++: what a pass finds out about a node or a value, for a later pass or for a device's
// `claim`. See tenon/abi/graph_notes.h for where they stay and what they leave alone.
//
//     TENON_TRY(set_note(node, "acme.cluster", 3));
//     if (note_i64(node, "acme.cluster", -1) == 3) ...
#ifndef TENON_CPP_NOTES_HPP_
#define TENON_CPP_NOTES_HPP_

#include <span>
#include <string>
#include <string_view>

#include "tenon/abi/graph_notes.h"
#include "tenon/cpp/graph.hpp"

namespace tenon::inline sdk {

// Null with a host that has no notes.
inline const tenon_host_notes_t* notes_api() {
  static const auto* found = context().query<tenon_host_notes_t>(TENON_HOST_NOTES_ID);
  return found;
}

namespace detail {
inline uint32_t noted(const Node&) {
  return TENON_NOTED_NODE;
}
inline uint32_t noted(Value) {
  return TENON_NOTED_VALUE;
}
inline Status no_notes() {
  return fail(TENON_UNIMPLEMENTED, "this host keeps no notes on graphs");
}
}  // namespace detail

// The notes of a node or value, sorted by name; borrowed until the graph's next mutation.
template <class Place>
std::span<const tenon_attr_t> notes_of(const Place& place) {
  const tenon_attr_t* notes = nullptr;
  uint32_t count = 0;
  const tenon_host_notes_t* api = notes_api();
  if (api == nullptr || !place.valid() ||
      api->notes(api->self, place.graph(), detail::noted(place), place.id(), &notes, &count) !=
          TENON_OK)
    return {};
  return {notes, count};
}

// Null if there is no such note; borrowed as above.
template <class Place>
const tenon_attr_t* note_of(const Place& place, std::string_view name) {
  for (const tenon_attr_t& note : notes_of(place)) {
    if (sym_text(note.name) == name) return &note;
  }
  return nullptr;
}

// `otherwise` if there is no such note, or it is of another kind.
template <class Place>
int64_t note_i64(const Place& place, std::string_view name, int64_t otherwise) {
  const tenon_attr_t* note = note_of(place, name);
  return note != nullptr && note->kind == TENON_ATTR_I64 ? note->u.i : otherwise;
}
template <class Place>
double note_f64(const Place& place, std::string_view name, double otherwise) {
  const tenon_attr_t* note = note_of(place, name);
  return note != nullptr && note->kind == TENON_ATTR_F64 ? note->u.f : otherwise;
}
template <class Place>
std::string note_text(const Place& place, std::string_view name, std::string_view otherwise = {}) {
  const tenon_attr_t* note = note_of(place, name);
  return std::string(note != nullptr && note->kind == TENON_ATTR_STRING ? view(note->u.s)
                                                                        : otherwise);
}

// A number, a text, or a list of numbers: what an Attr can be made of.
template <class Place, class T>
Status set_note(const Place& place, std::string_view name, const T& value) {
  const tenon_host_notes_t* api = notes_api();
  if (api == nullptr) return detail::no_notes();
  const Attr attr(name, value);
  const tenon_attr_t raw = attr.raw();
  return Status(api->note_set(api->self, place.graph(), detail::noted(place), place.id(), &raw));
}

template <class Place>
Status erase_note(const Place& place, std::string_view name) {
  const tenon_host_notes_t* api = notes_api();
  if (api == nullptr) return detail::no_notes();
  return Status(
      api->note_erase(api->self, place.graph(), detail::noted(place), place.id(), intern(name)));
}

// The notes of `from` that `to` lacks, as for a node that was built of several.
template <class Place>
Status take_notes(const Place& to, const Place& from) {
  const tenon_host_notes_t* api = notes_api();
  if (api == nullptr) return detail::no_notes();
  return Status(api->notes_take(api->self, to.graph(), detail::noted(to), to.id(), from.id()));
}

}  // namespace tenon::inline sdk

#endif
