#include "core/session/call/homes.h"

#include <algorithm>
#include <vector>

#include "core/base/checked.h"
#include "core/ir/dtype.h"
#include "core/runtime/values/arrays.h"

namespace tenon::session {
namespace {

struct Range {
  uintptr_t begin = 0, end = 0;
  bool overlaps(const Range& other) const { return begin < other.end && other.begin < end; }
};

Range range_of(const runtime::Argument& input) {
  if (input.tensor == nullptr) {
    const auto [begin, end] = runtime::byte_range(*input.array);
    return {begin, end};
  }
  const auto begin = reinterpret_cast<uintptr_t>(input.tensor->host());
  return begin == 0 ? Range() : Range{begin, begin + input.tensor->size_bytes()};
}

Range range_of(const runtime::Home& home) {
  const auto begin = reinterpret_cast<uintptr_t>(home.data);
  return {begin, begin + home.size_bytes};
}

// Null if the memory is not dense, or empty, or its dims make no sense.
runtime::Home home_of(const tenon_array_t& given) {
  const std::span<const int64_t> dims(given.dims, given.rank);
  if (given.data == nullptr || std::ranges::any_of(dims, [](int64_t dim) { return dim <= 0; }))
    return {};
  const Result<uint64_t> count = element_count(dims);
  if (!count.ok() || !runtime::is_dense(given)) return {};
  const Result<uint64_t> bytes = packed_bytes(*count, ir::dtype_bits(given.dtype));
  if (!bytes.ok() || *bytes > UINTPTR_MAX - reinterpret_cast<uintptr_t>(given.data)) return {};
  return {given.data, *bytes};
}

// Ranges of inputs by where they begin, each with the furthest end of it and all before.
class Ranges {
 public:
  explicit Ranges(std::pmr::memory_resource* memory) : ranges_(memory) {}
  void add(const Range& range, uint32_t input) {
    if (range.begin != range.end) ranges_.push_back({range, range.end, input});
  }
  void close() {
    std::ranges::sort(ranges_, {}, [](const Entry& e) { return e.range.begin; });
    uintptr_t furthest = 0;
    for (Entry& entry : ranges_) entry.furthest = furthest = std::max(furthest, entry.range.end);
  }
  bool overlap(const Range& range) const {
    const auto after = first_behind(range);
    return after != ranges_.begin() && std::prev(after)->furthest > range.begin;
  }
  // The input that has exactly this memory, if no other has any of it; else UINT32_MAX.
  uint32_t only(const Range& range) const {
    const auto after = first_behind(range);
    if (after == ranges_.begin()) return UINT32_MAX;
    const auto last = std::prev(after);
    const bool same = last->range.begin == range.begin && last->range.end == range.end;
    const bool alone = last == ranges_.begin() || std::prev(last)->furthest <= range.begin;
    return same && alone ? last->input : UINT32_MAX;
  }

 private:
  struct Entry {
    Range range;
    uintptr_t furthest = 0;
    uint32_t input = 0;
  };
  std::pmr::vector<Entry>::const_iterator first_behind(const Range& range) const {
    return std::ranges::lower_bound(ranges_, range.end, {},
                                    [](const Entry& e) { return e.range.begin; });
  }
  std::pmr::vector<Entry> ranges_;
};

// Whether an output can be written over an input: a dense array of the same elements.
bool replaces(const runtime::Argument& input, const tenon_array_t& output) {
  return input.tensor == nullptr && input.array->dtype == output.dtype &&
         runtime::is_dense(*input.array);
}

// Outputs that share memory are refused once their dims are known. Until then none of them is
// written. Sorted by where they begin, an output shares memory with one before it or with the next.
void drop_shared(std::span<runtime::Home> homes) {
  const auto counts = [](const runtime::Home& home) { return home.data != nullptr; };
  if (std::ranges::count_if(homes, counts) < 2) return;  // without allocations, as most calls are
  std::vector<runtime::Home*> sorted;
  for (runtime::Home& home : homes) {
    if (counts(home)) sorted.push_back(&home);
  }
  std::ranges::sort(sorted, {}, [](const runtime::Home* home) { return range_of(*home).begin; });
  std::vector<runtime::Home*> shared;
  uintptr_t furthest = 0;
  for (size_t i = 0; i < sorted.size(); ++i) {
    const Range range = range_of(*sorted[i]);
    const bool meets_next = i + 1 < sorted.size() && range.overlaps(range_of(*sorted[i + 1]));
    if (range.begin < furthest || meets_next) shared.push_back(sorted[i]);
    furthest = std::max(furthest, range.end);
  }
  for (runtime::Home* home : shared) *home = {};
}

}  // namespace

void find_homes(std::span<const runtime::Argument> inputs, std::span<const CallOutput> outputs,
                std::pmr::vector<runtime::Home>* homes) {
  const auto is_given = [](const CallOutput& output) { return output.given != nullptr; };
  if (std::ranges::none_of(outputs, is_given)) return;
  homes->reserve(outputs.size());
  for (const CallOutput& output : outputs)
    homes->push_back(is_given(output) ? home_of(*output.given) : runtime::Home());
  Ranges ranges(homes->get_allocator().resource());
  for (uint32_t i = 0; i < inputs.size(); ++i) ranges.add(range_of(inputs[i]), i);
  ranges.close();
  for (size_t i = 0; i < homes->size(); ++i) {
    runtime::Home& home = (*homes)[i];
    if (home.data == nullptr || !ranges.overlap(range_of(home))) continue;
    home.input = outputs[i].in_place ? ranges.only(range_of(home)) : UINT32_MAX;
    if (home.input == UINT32_MAX || !replaces(inputs[home.input], *outputs[i].given)) home = {};
  }
  drop_shared(*homes);
}

}  // namespace tenon::session
