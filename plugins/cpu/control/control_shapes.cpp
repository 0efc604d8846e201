#include "control/control_shapes.h"

#include <algorithm>

#include "device.h"
#include "tenon/cpp/plugin.hpp"

namespace tenon::cpu {
namespace {

using Kind = ControlPart::Kind;

constexpr size_t kMaxShapes = 64;
constexpr uint64_t kMaxBytes = uint64_t{1} << 62;

uint64_t aligned(uint64_t bytes) {
  return (bytes + kAlignmentBytes - 1) & ~(kAlignmentBytes - 1);
}

}  // namespace

uint64_t bytes_of(const ControlValue& value, std::span<const int64_t> symbols) {
  __int128 bytes = value.element_bytes;
  for (const kernelgen::SizeProgram& dim : value.dims) {
    bytes *= std::max<int64_t>(dim.evaluate(symbols), 0);
    if (bytes > kMaxBytes) return kMaxBytes;
  }
  return static_cast<uint64_t>(bytes);
}

void LoadedProgram::find_order() {
  data_dependent_symbols.assign(program.symbol_count, true);
  for (uint32_t s : program.main_symbols) data_dependent_symbols[s] = false;
  facts_of.resize(program.symbol_count);
  for (uint32_t f = 0; f < program.facts.size(); ++f) {
    for (uint32_t s : program.facts[f].symbols) facts_of[s].push_back(f);
  }
  for (const ControlRegion& region : program.regions) {
    std::vector<uint8_t>& of_region = direct.emplace_back();
    std::vector<bool> made(program.values.size(), false);
    for (const ControlPart& part : region.parts) {
      for (uint32_t v : part.outputs) made[v] = true;
    }
    for (uint32_t v : region.yields) {
      of_region.push_back(made[v] ? 1 : 0);
      made[v] = false;  // A second yield of it is a copy.
    }
  }
}

bool LoadedProgram::has_data_dependent_sizes(const ControlPart& part) const {
  return std::ranges::any_of(part.symbols, [&](uint32_t s) { return data_dependent_symbols[s]; });
}

Status ControlShapes::find(tenon_symbols_t symbols, std::shared_ptr<const ControlShape>& out) {
  if (symbols.count != program_.main_symbols.size()) {
    return fail(TENON_INVALID_ARGUMENT, cat("The executable has ", program_.main_symbols.size(),
                                            " symbols and was given ", symbols.count, "."));
  }
  const std::span<const int64_t> values(symbols.values, symbols.count);
  std::lock_guard<std::mutex> lock(mutex_);
  for (auto it = shapes_.begin(); it != shapes_.end(); ++it) {
    if (std::ranges::equal(values, (*it)->main_symbols)) {
      shapes_.splice(shapes_.begin(), shapes_, it);
      out = shapes_.front();
      return {};
    }
  }
  auto made = std::make_shared<ControlShape>();
  TENON_TRY(make(values, *made));
  out = made;
  shapes_.push_front(std::move(made));
  if (shapes_.size() > kMaxShapes) shapes_.pop_back();
  return {};
}

Status ControlShapes::make(std::span<const int64_t> values, ControlShape& out) {
  out.main_symbols.assign(values.begin(), values.end());
  std::vector<int64_t> symbols(program_.symbol_count, 0);
  for (size_t i = 0; i < values.size(); ++i) symbols[program_.main_symbols[i]] = values[i];
  for (const ControlValue& value : program_.values) out.bytes.push_back(bytes_of(value, symbols));
  for (size_t a = 0; a < loaded_.parts.size(); ++a) {
    out.workspace_bytes.push_back(0);
    if (loaded_.has_data_dependent_sizes(*loaded_.part_of[a])) continue;
    std::vector<int64_t> own;
    for (uint32_t s : loaded_.part_of[a]->symbols) own.push_back(symbols[s]);
    std::vector<tenon_output_need_t> outputs(loaded_.part_of[a]->outputs.size());
    auto needs = sized<tenon_needs_t>();
    needs.output_count = static_cast<uint32_t>(outputs.size());
    needs.need_bytes = sizeof(tenon_output_need_t);
    needs.outputs = outputs.data();
    TENON_TRY(loaded_.parts[a]->needs({own.data(), static_cast<uint32_t>(own.size())}, &needs));
    out.workspace_bytes.back() = needs.workspace_bytes;
  }
  out.arena_bytes = region_bytes(out, 0, true);
  if (out.arena_bytes > kMaxBytes)
    return fail(TENON_RESOURCE_EXHAUSTED,
                "With these sizes the workspace is larger than any memory.");
  return {};
}

// The memory of a region: the values that its parts make, and the own memory of the largest part.
// Values with a wanted address are made there and need none.
uint64_t ControlShapes::region_bytes(const ControlShape& shape, uint32_t index, bool wanted) const {
  const ControlRegion& region = program_.regions[index];
  std::vector<uint32_t> elsewhere;
  for (size_t i = 0; i < region.yields.size() && wanted; ++i) {
    if (loaded_.direct[index][i] != 0) elsewhere.push_back(region.yields[i]);
  }
  uint64_t made = 0, most = 0;
  for (const ControlPart& part : region.parts) {
    if (part.kind == Kind::kBarrier) continue;  // Its values are its operands.
    for (uint32_t v : part.outputs) {
      if (std::ranges::find(elsewhere, v) == elsewhere.end()) made += arena_bytes_of(shape, v);
    }
    const uint64_t own = part_bytes(shape, part);
    if (part.kind == Kind::kSwitch) {
      made += own;  // The values of the chosen region stay after it.
    } else {
      most = std::max(most, own);
    }
  }
  return std::min(made + most, 4 * kMaxBytes - 1);
}

// Data-dependent values have blocks of their own.
uint64_t ControlShapes::arena_bytes_of(const ControlShape& shape, uint32_t v) const {
  return program_.values[v].data_dependent ? 0 : aligned(shape.bytes[v]);
}

uint64_t ControlShapes::part_bytes(const ControlShape& shape, const ControlPart& part) const {
  if (part.kind == Kind::kKernels) return aligned(shape.workspace_bytes[part.artifact]);
  const bool loop = part.kind != Kind::kSwitch;
  uint64_t most = 0, carried = 0;
  for (uint32_t r : part.regions)
    most = std::max(most, region_bytes(shape, r, loop && r == part.regions.back()));
  // The second buffer of every carried value. The condition and the body of a loop run one after
  // another.
  const size_t count = part.kind == Kind::kScan    ? part.carried
                       : part.kind == Kind::kWhile ? part.inputs.size()
                                                   : 0;
  for (size_t i = 0; i < count; ++i) carried += arena_bytes_of(shape, part.outputs[i]);
  return most + carried;
}

}  // namespace tenon::cpu
