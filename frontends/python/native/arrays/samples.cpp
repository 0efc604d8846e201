// Hashes of memory, to notice that it was written to. Small memory is hashed whole. Of larger
// memory words at one distance are hashed, and all bytes of one part after the other.
#include <nanobind/nanobind.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <vector>

#include "frontends/python/native/arrays/tensor.h"

namespace nb = nanobind;

namespace tenon::python {
namespace {

constexpr uint64_t kWord = sizeof(uint64_t);
// Memory of at most so many words is read whole.
constexpr uint64_t kWholeMost = 1u << 15;
// Of more, about so many words are read, or more where the distance would be beyond the last of
// these.
constexpr uint64_t kSamples = 1u << 12;
// Primes that rarely divide the length of a row, so that the words lie in all columns.
constexpr uint64_t kDistances[] = {13, 29, 61, 127, 251};

constexpr size_t kLanes = 8;  // side by side, because each step waits for a product
using Lanes = std::array<uint64_t, kLanes>;

uint64_t distance(uint64_t words) {
  if (words <= kWholeMost) return 1;
  uint64_t chosen = kDistances[0];
  for (const uint64_t d : kDistances)
    if (words / d >= kSamples) chosen = d;
  return chosen;
}

// The product carries bits upwards, and the rotation brings them down again.
uint64_t mixed(uint64_t hash, uint64_t word) {
  return std::rotl((hash ^ word) * 0x9e3779b97f4a7c15u, 31);
}

uint64_t word_at(const unsigned char* data, uint64_t bytes = kWord) {
  uint64_t word = 0;
  std::memcpy(&word, data, bytes);
  return word;
}

void add(Lanes& lanes, const unsigned char* data, uint64_t bytes) {
  const uint64_t words = bytes / kWord;
  if (words == 0) {
    lanes[0] = mixed(lanes[0], word_at(data, bytes));
    return;
  }
  const uint64_t step = distance(words), taken = (words - 1) / step + 1;
  uint64_t i = 0;
  for (; i + kLanes <= taken; i += kLanes)
    for (size_t lane = 0; lane < kLanes; ++lane)
      lanes[lane] = mixed(lanes[lane], word_at(data + (i + lane) * step * kWord));
  for (; i < taken; ++i) lanes[0] = mixed(lanes[0], word_at(data + i * step * kWord));
  lanes[1] = mixed(lanes[1], word_at(data + bytes - kWord));
}

uint64_t hash_of(const Lanes& lanes, uint64_t hash) {
  for (const uint64_t lane : lanes) hash = mixed(hash, lane);
  return hash;
}

uint64_t sample(const std::vector<uint64_t>& places, const std::vector<uint64_t>& lengths) {
  Lanes lanes = {};
  for (size_t i = 0; i < places.size() && i < lengths.size(); ++i) {
    const auto* data = reinterpret_cast<const unsigned char*>(places[i]);
    if (data != nullptr && lengths[i] != 0) add(lanes, data, lengths[i]);
  }
  return hash_of(lanes, places.size());
}

// All bytes of part number `part` of `parts`.
void add_part(Lanes& lanes, const unsigned char* data, uint64_t bytes, uint64_t part,
              uint64_t parts) {
  const uint64_t words = bytes / kWord;
  const uint64_t end = words / parts * (part + 1) + words % parts * (part + 1) / parts;
  uint64_t i = words / parts * part + words % parts * part / parts;
  for (; i + kLanes <= end; i += kLanes)
    for (size_t lane = 0; lane < kLanes; ++lane)
      lanes[lane] = mixed(lanes[lane], word_at(data + (i + lane) * kWord));
  for (; i < end; ++i) lanes[0] = mixed(lanes[0], word_at(data + i * kWord));
  if (part + 1 == parts) lanes[1] = mixed(lanes[1], word_at(data + words * kWord, bytes % kWord));
}

uint64_t hash_part(const std::vector<uint64_t>& places, const std::vector<uint64_t>& lengths,
                   uint64_t part, uint64_t parts) {
  if (parts == 0 || part >= parts) throw nb::value_error("there is no such part");
  Lanes lanes = {};
  for (size_t i = 0; i < places.size() && i < lengths.size(); ++i) {
    const auto* data = reinterpret_cast<const unsigned char*>(places[i]);
    // Others are in every sample.
    const bool is_long = lengths[i] / kWord > kWholeMost;
    if (data != nullptr && (is_long || parts == 1)) add_part(lanes, data, lengths[i], part, parts);
  }
  return hash_of(lanes, places.size());
}

}  // namespace

void bind_samples(nb::module_& m) {
  m.def("sample", sample, nb::arg("places"), nb::arg("lengths"),
        "A hash of memory at addresses with these numbers of bytes, which must be readable: of all "
        "of "
        "it up to 256 KiB each, and otherwise of words spread over it.");
  m.def(
      "hash_part", hash_part, nb::arg("places"), nb::arg("lengths"), nb::arg("part"),
      nb::arg("parts"), nb::call_guard<nb::gil_scoped_release>(),
      "A hash of all bytes of one part of the memory at each address, which must stay readable. "
      "Memory of up to 256 KiB is left out, which `sample` reads whole, unless there is one part.");
}

}  // namespace tenon::python
