#include "core/session/homes.h"

#include <algorithm>

#include "core/base/checked.h"
#include "core/ir/dtype.h"
#include "core/runtime/arrays.h"

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

// Ranges by where they begin, each with the furthest end so far.
class Ranges {
 public:
  explicit Ranges(std::pmr::memory_resource* memory) : ranges_(memory) {}
  void add(const Range& range) {
    if (range.begin != range.end) ranges_.push_back(range);
  }
  void close() {
    std::ranges::sort(ranges_, {}, &Range::begin);
    uintptr_t furthest = 0;
    for (Range& range : ranges_) range.end = furthest = std::max(furthest, range.end);
  }
  bool overlap(const Range& range) const {
    const auto after = std::ranges::lower_bound(ranges_, range.end, {}, &Range::begin);
    return after != ranges_.begin() && std::prev(after)->end > range.begin;
  }

 private:
  std::pmr::vector<Range> ranges_;
};

// Outputs that share memory are refused once their dims are known. Until then neither is written.
void drop_shared(std::span<runtime::Home> homes) {
  for (size_t i = 0; i < homes.size(); ++i) {
    for (size_t other = 0; homes[i].data != nullptr && other < i; ++other) {
      if (homes[other].data == nullptr || !range_of(homes[i]).overlaps(range_of(homes[other])))
        continue;
      homes[i] = homes[other] = {};
    }
  }
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
  for (const runtime::Argument& input : inputs) ranges.add(range_of(input));
  ranges.close();
  for (runtime::Home& home : *homes) {
    if (home.data != nullptr && ranges.overlap(range_of(home))) home = {};
  }
  drop_shared(*homes);
}

}  // namespace tenon::session
