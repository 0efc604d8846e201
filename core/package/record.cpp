#include "core/package/record.h"

#include "core/package/bytes.h"
#include "core/package/check.h"

namespace tenon::package {
namespace {

// Each record has one function that writes it and one that reads it, in the same order.

void write(Writer& w, const DimRecord& d) {
  w.u32(d.op), w.i64(d.a), w.i64(d.b);
}
DimRecord read_dim(Reader& r) {
  DimRecord d;
  d.op = r.u32(), d.a = r.i64(), d.b = r.i64();
  return d;
}

void write(Writer& w, const SymbolRecord& s) {
  w.text(s.name), w.i64(s.lo), w.i64(s.hi), w.i64(s.multiple_of), w.i64(s.hint);
  w.u32(s.lo_place), w.u32(s.hi_place), w.u32(s.multiple_place);
}
SymbolRecord read_symbol(Reader& r) {
  SymbolRecord s;
  s.name = r.text(), s.lo = r.i64(), s.hi = r.i64(), s.multiple_of = r.i64(), s.hint = r.i64();
  s.lo_place = r.u32(), s.hi_place = r.u32(), s.multiple_place = r.u32();
  return s;
}

void write(Writer& w, const PortRecord& p) {
  w.text(p.name), w.u32(p.dtype), w.numbers(p.dims);
}
PortRecord read_port(Reader& r) {
  PortRecord p;
  p.name = r.text(), p.dtype = r.u32(), p.dims = r.numbers64();
  return p;
}

void write(Writer& w, const FactRecord& f) {
  w.u32(f.rel), w.i64(f.a), w.i64(f.b), w.u32(f.place);
}
FactRecord read_fact(Reader& r) {
  FactRecord f;
  f.rel = r.u32(), f.a = r.i64(), f.b = r.i64(), f.place = r.u32();
  return f;
}

void write_lists(Writer& w, const std::vector<std::vector<DimRef>>& lists) {
  w.list(lists, [](Writer& to, const std::vector<DimRef>& dims) { to.numbers(dims); });
}
std::vector<std::vector<DimRef>> read_lists(Reader& r) {
  return r.list<std::vector<DimRef>>([](Reader& from) { return from.numbers64(); });
}
void write(Writer& w, const NodeRecord& n) {
  w.u32(n.place), write_lists(w, n.operands), write_lists(w, n.results),
      write_lists(w, n.dim_attrs);
}
NodeRecord read_node(Reader& r) {
  NodeRecord n;
  n.place = r.u32();
  n.operands = read_lists(r), n.results = read_lists(r), n.dim_attrs = read_lists(r);
  return n;
}

void write(Writer& w, const PluginRecord& p) {
  w.text(p.name), w.text(p.version), w.text(p.sha256);
}
PluginRecord read_plugin(Reader& r) {
  PluginRecord p;
  p.name = r.text(), p.version = r.text(), p.sha256 = r.text();
  return p;
}

void write(Writer& w, const DeviceRecord& d) {
  w.text(d.name), w.text(d.target), w.u32(d.plugin);
}
DeviceRecord read_device(Reader& r) {
  DeviceRecord d;
  d.name = r.text(), d.target = r.text(), d.plugin = r.u32();
  return d;
}

void write(Writer& w, const BlobRecord& b) {
  w.u64(b.offset), w.u64(b.size), w.u64(b.digest[0]), w.u64(b.digest[1]);
}
BlobRecord read_blob(Reader& r) {
  BlobRecord b;
  b.offset = r.u64(), b.size = r.u64(), b.digest[0] = r.u64(), b.digest[1] = r.u64();
  return b;
}

void write(Writer& w, const SegmentRecord& s) {
  w.u32(s.device), w.text(s.by), w.u64(s.offset), w.u64(s.size), w.u8(s.packed ? 1 : 0);
  w.numbers(s.blobs), w.numbers(s.output_ranks);
}
SegmentRecord read_segment(Reader& r) {
  SegmentRecord s;
  s.device = r.u32(), s.by = r.text(), s.offset = r.u64(), s.size = r.u64();
  const uint8_t packed = r.u8();
  if (packed > 1) r.fail();
  s.packed = packed == 1;
  s.blobs = r.numbers32(), s.output_ranks = r.numbers32();
  return s;
}

void write(Writer& w, const SlotRecord& s) {
  w.u8(s.source), w.u32(s.index), w.u32(s.dtype), w.numbers(s.dims), w.u32(s.last_step);
}
SlotRecord read_slot(Reader& r) {
  SlotRecord s;
  s.source = r.u8(), s.index = r.u32(), s.dtype = r.u32(), s.dims = r.numbers64();
  s.last_step = r.u32();
  return s;
}

void write(Writer& w, const StepRecord& s) {
  w.u8(s.copies ? 1 : 0), w.u32(s.device), w.u32(s.slot), w.u32(s.segment);
  w.numbers(s.inputs), w.numbers(s.outputs), w.numbers(s.symbols), w.numbers(s.out_symbols);
}
StepRecord read_step(Reader& r) {
  StepRecord s;
  const uint8_t copies = r.u8();
  if (copies > 1) r.fail();
  s.copies = copies == 1;
  s.device = r.u32(), s.slot = r.u32(), s.segment = r.u32();
  s.inputs = r.numbers32(), s.outputs = r.numbers32();
  s.symbols = r.numbers32(), s.out_symbols = r.numbers32();
  return s;
}

constexpr auto kWrite = [](Writer& w, const auto& record) { write(w, record); };

}  // namespace

std::string to_bytes(const ProgramRecord& p) {
  Writer w;
  w.u32(p.abi), w.u64(p.node_count), w.u64(p.copy_count);
  w.list(p.places, [](Writer& to, const std::string& place) { to.text(place); });
  w.list(p.symbols, kWrite), w.numbers(p.of_inputs), w.numbers(p.needed);
  w.list(p.dims, kWrite);
  w.list(p.inputs, kWrite), w.list(p.outputs, kWrite);
  w.list(p.facts, kWrite), w.list(p.nodes, kWrite);
  w.list(p.plugins, kWrite), w.list(p.devices, kWrite);
  w.list(p.blobs, kWrite), w.list(p.segments, kWrite);
  w.list(p.slots, kWrite), w.list(p.steps, kWrite), w.numbers(p.output_slots);
  return w.take();
}

Result<ProgramRecord> from_bytes(std::string_view bytes, const Extents& extents,
                                 std::string_view name) {
  Reader r(bytes);
  ProgramRecord p;
  p.abi = r.u32(), p.node_count = r.u64(), p.copy_count = r.u64();
  p.places = r.list<std::string>([](Reader& from) { return from.text(); });
  p.symbols = r.list<SymbolRecord>(read_symbol), p.of_inputs = r.numbers32();
  p.needed = r.numbers32();
  p.dims = r.list<DimRecord>(read_dim);
  p.inputs = r.list<PortRecord>(read_port), p.outputs = r.list<PortRecord>(read_port);
  p.facts = r.list<FactRecord>(read_fact), p.nodes = r.list<NodeRecord>(read_node);
  p.plugins = r.list<PluginRecord>(read_plugin), p.devices = r.list<DeviceRecord>(read_device);
  p.blobs = r.list<BlobRecord>(read_blob), p.segments = r.list<SegmentRecord>(read_segment);
  p.slots = r.list<SlotRecord>(read_slot), p.steps = r.list<StepRecord>(read_step);
  p.output_slots = r.numbers32();
  if (!r.at_end()) return damaged(name, "its section program has another length than its records");
  TENON_RETURN_IF_ERROR(check(p, extents, name));
  return p;
}

}  // namespace tenon::package
