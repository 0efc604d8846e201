// What a package says about its program, as plain records, and their bytes.
//
// Threads: plain data.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/errors/status.h"
#include "core/package/container.h"

namespace tenon::package {

// A dim: a number from 0 up is itself, ~i is element i of ProgramRecord::dims.
using DimRef = int64_t;

struct DimRecord {
  uint32_t op = 0;       // TENON_DIM_*
  int64_t a = 0, b = 0;  // a symbol, a constant, or two DimRefs to earlier elements
};

// Places are numbers from 1 into ProgramRecord::places; 0: unknown.
struct SymbolRecord {
  std::string name;
  int64_t lo = 0, hi = INT64_MAX, multiple_of = 1, hint = -1;
  uint32_t lo_place = 0, hi_place = 0, multiple_place = 0;
};

struct PortRecord {
  std::string name;
  uint32_t dtype = 0;
  std::vector<DimRef> dims;
};

struct FactRecord {
  uint32_t rel = 0;
  DimRef a = 0, b = 0;
  uint32_t place = 0;
};

// A node as far as errors about sizes need it.
struct NodeRecord {
  uint32_t place = 0;
  std::vector<std::vector<DimRef>> operands, results, dim_attrs;
};

struct PluginRecord {
  std::string name, version, sha256;
};
struct DeviceRecord {
  std::string name, target;
  uint32_t plugin = 0;
};

// Bytes of the section CONSTANTS.
struct BlobRecord {
  uint64_t offset = 0, size = 0;
  Digest digest{};
};

// Code of one device: bytes of the section CODE, and what it is loaded with.
struct SegmentRecord {
  uint32_t device = 0;
  std::string by;  // the plugin whose kernel set it is; empty: the device itself
  uint64_t offset = 0, size = 0;
  bool packed = false;          // blobs are what the device packed
  std::vector<uint32_t> blobs;  // in order
  std::vector<uint32_t> output_ranks;
};

inline constexpr uint32_t kNothing = 0xffffffffu;  // as a place or the end of a program

struct SlotRecord {
  uint8_t source = 0;  // 0: an input, 1: a segment, 2: a constant
  uint32_t index = 0;  // of the input, or of the blob
  uint32_t dtype = 0;
  std::vector<DimRef> dims;
  uint32_t last_step = 0;
};

struct StepRecord {
  bool copies = false;
  uint32_t device = 0;   // kNothing: host memory
  uint32_t slot = 0;     // of a copy
  uint32_t segment = 0;  // of an execution
  std::vector<uint32_t> inputs, outputs, symbols, out_symbols;
};

struct ProgramRecord {
  uint32_t abi = 0;  // TENON_ABI_VERSION of the host that wrote it
  uint64_t node_count = 0, copy_count = 0;
  std::vector<std::string> places;
  std::vector<SymbolRecord> symbols;
  std::vector<uint32_t> of_inputs;  // symbols that the inputs bring
  std::vector<uint32_t> needed;     // those of them without which nothing can be run
  std::vector<DimRecord> dims;
  std::vector<PortRecord> inputs, outputs;
  std::vector<FactRecord> facts;
  std::vector<NodeRecord> nodes;
  std::vector<PluginRecord> plugins;
  std::vector<DeviceRecord> devices;
  std::vector<BlobRecord> blobs;
  std::vector<SegmentRecord> segments;
  std::vector<SlotRecord> slots;
  std::vector<StepRecord> steps;
  std::vector<uint32_t> output_slots;
};

std::string to_bytes(const ProgramRecord& record);

// T0521 for bytes that are no record, or one whose numbers do not fit together. Afterwards every
// index is in range, dims mention earlier ones only, ranges lie inside their sections, and each
// step reads slots that are where it reads them.
Result<ProgramRecord> from_bytes(std::string_view bytes, const Extents& extents,
                                 std::string_view name);

}  // namespace tenon::package
