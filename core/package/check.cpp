#include "core/package/check.h"

#include <tenon/abi/graph.h>

#include <algorithm>

#include <tenon/cpp/elements.hpp>

#include "core/base/checked.h"

namespace tenon::package {
namespace {

class Checker {
 public:
  Checker(const ProgramRecord& record, const Extents& extents, std::string_view name)
      : p_(record), extents_(extents), name_(name) {}

  Status all() {
    if (const std::string_view wrong = first_wrong(); !wrong.empty())
      return damaged(name_, fmt::format("its {} do not fit together", wrong));
    return {};
  }

 private:
  std::string_view first_wrong() {
    if (!dims_sound()) return "dims";
    if (!symbols_sound()) return "symbols";
    if (!std::ranges::all_of(p_.inputs, [&](const auto& port) { return port_sound(port); }) ||
        !std::ranges::all_of(p_.outputs, [&](const auto& port) { return port_sound(port); }))
      return "inputs and outputs";
    if (!std::ranges::all_of(p_.facts, [&](const auto& f) { return fact_sound(f); }) ||
        !std::ranges::all_of(p_.nodes, [&](const auto& n) { return node_sound(n); }))
      return "relations of sizes";
    if (!std::ranges::all_of(p_.devices, [&](const auto& d) {
          return d.plugin < p_.plugins.size() && !d.name.empty();
        }))
      return "devices";
    if (!blobs_sound()) return "constants";
    if (!segments_sound()) return "segments";
    if (!slots_sound()) return "slots";
    return steps_sound() ? "" : "steps";
  }

  bool place_sound(uint32_t place) const { return place <= p_.places.size(); }
  bool dim_sound(DimRef dim, size_t before) const {
    return dim >= 0 || static_cast<uint64_t>(~dim) < before;
  }
  bool dims_sound(const std::vector<DimRef>& dims) const {
    return dims.size() <= TENON_RANK_MAX &&
           std::ranges::all_of(dims, [&](DimRef d) { return dim_sound(d, p_.dims.size()); });
  }
  bool dims_sound() const {
    for (size_t i = 0; i < p_.dims.size(); ++i) {
      const DimRecord& d = p_.dims[i];
      if (d.op > TENON_DIM_MAX) return false;
      if (d.op == TENON_DIM_CONSTANT) continue;
      if (d.op == TENON_DIM_SYMBOL) {
        if (d.a < 0 || static_cast<uint64_t>(d.a) >= p_.symbols.size()) return false;
      } else if (!dim_sound(d.a, i) || !dim_sound(d.b, i)) {
        return false;
      }
    }
    return true;
  }
  bool symbols_sound() const {
    return std::ranges::all_of(p_.symbols,
                               [&](const SymbolRecord& s) {
                                 return s.lo <= s.hi && s.multiple_of >= 1 && s.hint >= -1 &&
                                        place_sound(s.lo_place) && place_sound(s.hi_place) &&
                                        place_sound(s.multiple_place);
                               }) &&
           below(p_.of_inputs, p_.symbols.size()) && below(p_.needed, p_.symbols.size());
  }
  bool port_sound(const PortRecord& port) const {
    return dtype_sound(port.dtype) && dims_sound(port.dims);
  }
  static bool dtype_sound(uint32_t dtype) {
    return dtype <= UINT16_MAX && elements::dtype_valid(static_cast<tenon_dtype_t>(dtype));
  }
  bool fact_sound(const FactRecord& fact) const {
    return fact.rel <= TENON_REL_DIVISIBLE && dim_sound(fact.a, p_.dims.size()) &&
           dim_sound(fact.b, p_.dims.size()) && place_sound(fact.place);
  }
  bool node_sound(const NodeRecord& node) const {
    for (const auto* lists : {&node.operands, &node.results, &node.dim_attrs}) {
      for (const std::vector<DimRef>& dims : *lists) {
        if (!std::ranges::all_of(dims, [&](DimRef d) { return dim_sound(d, p_.dims.size()); }))
          return false;
      }
    }
    return place_sound(node.place);
  }
  // Aligned for their size, so that they can be used where they lie.
  bool blobs_sound() const {
    const uint64_t all = extents_[static_cast<size_t>(Section::kConstants)].size;
    return std::ranges::all_of(p_.blobs, [&](const BlobRecord& b) {
      return range_inside(b.offset, b.size, all) &&
             b.offset % (b.size >= kPageBytes ? kPageBytes : 64) == 0;
    });
  }
  bool segments_sound() const {
    const uint64_t all = extents_[static_cast<size_t>(Section::kCode)].size;
    return std::ranges::all_of(p_.segments, [&](const SegmentRecord& s) {
      return s.device < p_.devices.size() && range_inside(s.offset, s.size, all) &&
             below(s.blobs, p_.blobs.size()) &&
             std::ranges::all_of(s.output_ranks, [](uint32_t r) { return r <= TENON_RANK_MAX; });
    });
  }
  bool slots_sound() const {
    if (!std::ranges::all_of(p_.slots, [&](const SlotRecord& s) { return slot_sound(s); }) ||
        !below(p_.output_slots, p_.slots.size()) || p_.output_slots.size() != p_.outputs.size())
      return false;
    for (size_t i = 0; i < p_.outputs.size(); ++i) {
      if (!same_type(p_.slots[p_.output_slots[i]], p_.outputs[i])) return false;
    }
    return true;
  }
  // A run compares what it is given with the ports, and then takes bytes by the slots.
  bool slot_sound(const SlotRecord& slot) const {
    const bool ends = slot.last_step == kNothing || slot.last_step < p_.steps.size() ||
                      (slot.last_step == 0 && p_.steps.empty());
    if (!ends || !dtype_sound(slot.dtype) || !dims_sound(slot.dims)) return false;
    if (slot.source == 0)
      return slot.index < p_.inputs.size() && same_type(slot, p_.inputs[slot.index]);
    if (slot.source == 2) return slot.index < p_.blobs.size() && constant_sound(slot);
    return slot.source == 1;
  }
  static bool same_type(const SlotRecord& slot, const PortRecord& port) {
    return slot.dtype == port.dtype && slot.dims == port.dims;
  }
  // A number is itself, so a part of `dims` fails element_count.
  bool constant_sound(const SlotRecord& slot) const {
    const Result<uint64_t> count = element_count(slot.dims);
    if (!count.ok()) return false;
    const Result<uint64_t> bytes =
        packed_bytes(*count, elements::dtype_bits(static_cast<tenon_dtype_t>(slot.dtype)));
    return bytes.ok() && *bytes <= p_.blobs[slot.index].size;
  }

  // Walks the steps as a run does: where is each value, and does it live long enough?
  bool steps_sound() {
    const size_t host = p_.devices.size();
    there_.assign(p_.slots.size(), std::vector<bool>(host + 1));
    for (size_t s = 0; s < p_.slots.size(); ++s) there_[s][host] = p_.slots[s].source != 1;
    for (uint32_t i = 0; i < p_.steps.size(); ++i) {
      if (!(p_.steps[i].copies ? copy_sound(p_.steps[i], i) : execution_sound(p_.steps[i], i)))
        return false;
    }
    return std::ranges::all_of(p_.output_slots, [&](uint32_t slot) {
      return there_[slot][host] && p_.slots[slot].last_step == kNothing;
    });
  }
  bool copy_sound(const StepRecord& step, uint32_t index) {
    const size_t place = step.device == kNothing ? p_.devices.size() : step.device;
    if (step.slot >= p_.slots.size() || place > p_.devices.size()) return false;
    std::vector<bool>& there = there_[step.slot];
    if (std::ranges::find(there, true) == there.end() || !lives(step.slot, index)) return false;
    there[place] = true;
    return true;
  }
  bool execution_sound(const StepRecord& step, uint32_t index) {
    if (step.segment >= p_.segments.size() || p_.segments[step.segment].device != step.device ||
        p_.segments[step.segment].output_ranks.size() != step.outputs.size() ||
        !below(step.inputs, p_.slots.size()) || !below(step.outputs, p_.slots.size()) ||
        !below(step.symbols, p_.symbols.size()) || !below(step.out_symbols, p_.symbols.size()))
      return false;
    for (uint32_t slot : step.inputs) {
      if (!there_[slot][step.device] || !lives(slot, index)) return false;
    }
    for (size_t i = 0; i < step.outputs.size(); ++i) {
      const SlotRecord& slot = p_.slots[step.outputs[i]];
      if (slot.source != 1 || slot.dims.size() != p_.segments[step.segment].output_ranks[i] ||
          !lives(step.outputs[i], index))
        return false;
      there_[step.outputs[i]][step.device] = true;
    }
    return true;
  }
  bool lives(uint32_t slot, uint32_t step) const { return p_.slots[slot].last_step >= step; }

  static bool below(const std::vector<uint32_t>& indices, size_t limit) {
    return std::ranges::all_of(indices, [&](uint32_t i) { return i < limit; });
  }

  const ProgramRecord& p_;
  const Extents& extents_;
  const std::string_view name_;
  std::vector<std::vector<bool>> there_;  // by slot and place; the last place is the host
};

}  // namespace

Status check(const ProgramRecord& record, const Extents& extents, std::string_view name) {
  return Checker(record, extents, name).all();
}

}  // namespace tenon::package
