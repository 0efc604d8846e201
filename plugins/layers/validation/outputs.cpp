// Option data=1: outputs are filled before an execution, so that what it does not write is seen.
#include <algorithm>

#include "validation.h"

namespace tenon::validation {
namespace {

// Eight bytes that no execution writes by chance, four of them neither; for the last bytes of an
// output, one byte.
constexpr uint64_t kPattern = 0x7ffd5ca7e1b39d46;
constexpr unsigned char kTail = 0xb7;
constexpr uint64_t kMost = uint64_t{64} << 20;  // longer outputs are not filled

// The first of at least four bytes in a row that still have the pattern; the size if there are
// none.
uint64_t first_unwritten(const std::vector<unsigned char>& bytes) {
  const uint64_t whole = bytes.size() / 8 * 8;
  for (uint64_t at = 0; at < whole; at += 4) {
    const auto half = static_cast<uint32_t>(kPattern >> 8 * (at % 8));
    if (std::memcmp(bytes.data() + at, &half, 4) == 0) return at;
  }
  const auto is_tail = [](unsigned char byte) { return byte == kTail; };
  if (bytes.size() - whole >= 4 &&
      std::all_of(bytes.begin() + static_cast<ptrdiff_t>(whole), bytes.end(), is_tail))
    return whole;
  return bytes.size();
}

}  // namespace

bool Validator::fill(const Object& executable, const tenon_call_t& call, const Filled& output) {
  auto copy = sized<tenon_copy_t>();
  copy.direction = TENON_COPY_FILL;
  copy.to = output.span.buffer;
  const uint64_t whole = output.size_bytes / 8 * 8;
  const auto part = [&](uint64_t from, uint64_t size, uint64_t pattern, uint32_t width) {
    copy.to_offset_bytes = output.span.offset_bytes + from;
    copy.length_bytes = size;
    copy.pattern = pattern;
    copy.pattern_bytes = width;
    if (size == 0) return true;
    if (call.queue == nullptr)
      return device_->copy(device_->self, executable.device, &copy) == TENON_OK;
    // With all waits, because the queue continues after a copy whose wait failed.
    return queue_->copy_async(queue_->self, call.queue, &copy, call.waits, call.wait_count, {}) ==
           TENON_OK;
  };
  return part(0, whole, kPattern, 8) && part(whole, output.size_bytes - whole, kTail, 1);
}

std::vector<Validator::Filled> Validator::fill_outputs(const Object& executable,
                                                       const tenon_call_t& call) {
  std::vector<Filled> out;
  // With sizes that the execution finds out, not all of an output is written.
  if (!data_ || device_ == nullptr || call.out_symbol_count != 0 || call.output != nullptr)
    return out;
  std::optional<KnownNeeds> needs;
  {
    const std::lock_guard lock(objects_.mutex);
    std::vector<int64_t> symbols;
    if (call.symbols.count != 0)
      symbols.assign(call.symbols.values, call.symbols.values + call.symbols.count);
    const auto known = executable.needs.find(symbols);
    if (known == executable.needs.end() || known->second.outputs.size() != call.output_count)
      return out;
    needs = known->second;
  }
  for (uint32_t i = 0; i < call.output_count; ++i) {
    const tenon_span_t& span = *tenon_call_output(&call, i);
    const uint64_t size = needs->outputs[i].size_bytes_max;
    bool shared = false;
    for (uint32_t k = 0; k < call.input_count; ++k)
      shared |= tenon_call_input(&call, k)->buffer == span.buffer;
    if (span.buffer == nullptr || shared || size < 4 || size > kMost) continue;
    const Filled filled = {i, span, size};
    if (fill(executable, call, filled)) out.push_back(filled);
  }
  return out;
}

void Validator::check_filled(const Object& of, std::span<const Filled> outputs) {
  for (const Filled& output : outputs) {
    std::string why;
    std::vector<unsigned char> bytes;
    const ObjectRef buffer = objects_.find(Kind::kBuffer, output.span.buffer, of.device, &why);
    if (buffer == nullptr || buffer->size_bytes < output.span.offset_bytes + output.size_bytes ||
        !read_back(of.device, output.span.buffer, output.span.offset_bytes, output.size_bytes,
                   &bytes))
      continue;
    if (const uint64_t at = first_unwritten(bytes); at < bytes.size())
      broken("R-E11", "execute",
             cat("byte ", at, " of output ", output.index, ", which has ", bytes.size(),
                 ", is not written"));
  }
}

}  // namespace tenon::validation
