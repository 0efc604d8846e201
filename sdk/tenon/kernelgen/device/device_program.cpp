#include "tenon/kernelgen/device/device_program.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <unordered_map>

#include "tenon/cpp/record.hpp"
#include "tenon/kernelgen/fuse/fuse.h"
#include "tenon/kernelgen/fuse/load_time.h"
#include "tenon/kernelgen/ir/general.h"
#include "tenon/kernelgen/ir/stages.h"

namespace tenon::kernelgen {
namespace {

// ---- Bytes ----

// "TDP7": the layout below. Another layout gets another number.
constexpr uint32_t kMagic = 0x37504454;
// More than any device has; keeps launch sizes from overflowing.
constexpr uint32_t kGroupMax = 1u << 16;
constexpr uint64_t kCountMax = 1u << 24;  // of any list; real programs have thousands

class Writer {
 public:
  template <class T>
  void number(T v) {
    out_.append(reinterpret_cast<const char*>(&v), sizeof v);
  }
  void text(const std::string& s) {
    number<uint64_t>(s.size());
    out_ += s;
  }
  void size(const SizeProgram& p) {
    number<uint64_t>(p.words.size());
    for (int64_t w : p.words) number(w);
  }
  void list(const std::vector<uint32_t>& v) {
    number<uint64_t>(v.size());
    for (uint32_t x : v) number(x);
  }
  std::string take() { return std::move(out_); }

 private:
  std::string out_;
};

class Reader {
 public:
  Reader(const void* data, uint64_t size) : at_(static_cast<const char*>(data)), left_(size) {}
  bool ok() const { return ok_; }
  bool at_end() const { return left_ == 0; }
  void fail() { ok_ = false; }

  template <class T>
  T number() {
    T v{};
    if (!ok_ || left_ < sizeof v) {
      ok_ = false;
      return v;
    }
    std::memcpy(&v, at_, sizeof v);
    at_ += sizeof v;
    left_ -= sizeof v;
    return v;
  }
  // A count of items that need at least `least_bytes` each.
  uint64_t count(uint64_t least_bytes) {
    const uint64_t n = number<uint64_t>();
    if (n > kCountMax || n > left_ / least_bytes) ok_ = false;
    return ok_ ? n : 0;
  }
  std::string text() {
    const uint64_t n = count(1);
    std::string s(at_, n);
    at_ += n;
    left_ -= n;
    return s;
  }
  SizeProgram size() {
    SizeProgram p;
    const uint64_t n = count(8);
    for (uint64_t i = 0; i < n; ++i) p.words.push_back(number<int64_t>());
    return p;
  }
  std::vector<uint32_t> list() {
    std::vector<uint32_t> v;
    const uint64_t n = count(4);
    for (uint64_t i = 0; i < n; ++i) v.push_back(number<uint32_t>());
    return v;
  }

 private:
  const char* at_;
  uint64_t left_;
  bool ok_ = true;
};

void write_buffer(Writer& w, const ProgramBuffer& b) {
  w.number(static_cast<uint8_t>(b.kind));
  w.number(b.index);
  w.number(b.type);
  w.size(b.bytes);
  w.number<uint64_t>(b.dims.size());
  for (const SizeProgram& d : b.dims) w.size(d);
}

ProgramBuffer read_buffer(Reader& r) {
  ProgramBuffer b;
  const uint8_t kind = r.number<uint8_t>();
  if (kind > static_cast<uint8_t>(BufferKind::kPersistent)) r.fail();
  b.kind = static_cast<BufferKind>(kind);
  b.index = r.number<uint32_t>();
  b.type = r.number<DType>();
  b.bytes = r.size();
  const uint64_t rank = r.count(8);
  for (uint64_t i = 0; i < rank; ++i) b.dims.push_back(r.size());
  return b;
}

void write_kernel(Writer& w, const ProgramKernel& k) {
  w.text(k.entry);
  w.number(k.hash.lo);
  w.number(k.hash.hi);
  w.number(k.buffer_count);
  w.number(k.extent_count);
  w.size(k.range);
  w.size(k.scratch_bytes);
  w.number(k.grain);
  w.number(k.group);
  w.number(static_cast<uint8_t>(k.together));
  w.size(k.flops);
  w.size(k.bytes);
}

ProgramKernel read_kernel(Reader& r) {
  ProgramKernel k;
  k.entry = r.text();
  k.hash.lo = r.number<uint64_t>();
  k.hash.hi = r.number<uint64_t>();
  k.buffer_count = r.number<uint32_t>();
  k.extent_count = r.number<uint32_t>();
  k.range = r.size();
  k.scratch_bytes = r.size();
  k.grain = r.number<int64_t>();
  if (k.grain < 1) r.fail();
  k.group = r.number<uint32_t>();
  k.together = r.number<uint8_t>() != 0;
  if (k.group > kGroupMax || (k.together && k.group == 0)) r.fail();
  k.flops = r.size();
  k.bytes = r.size();
  return k;
}

void write_step(Writer& w, const ProgramStep& s) {
  w.number(s.kernel);
  w.list(s.buffers);
  for (bool b : s.written) w.number<uint8_t>(b);
  w.number<uint64_t>(s.extents.size());
  for (const SizeProgram& e : s.extents) w.size(e);
  w.text(s.name);
  w.text(s.origins);
  w.list(s.in_place);
  w.number<uint8_t>(s.copies);
  w.list(s.parts);
}

ProgramStep read_step(Reader& r) {
  ProgramStep s;
  s.kernel = r.number<uint32_t>();
  s.buffers = r.list();
  for (size_t i = 0; i < s.buffers.size(); ++i) s.written.push_back(r.number<uint8_t>() != 0);
  for (uint64_t i = 0, n = r.count(8); i < n && r.ok(); ++i) s.extents.push_back(r.size());
  s.name = r.text();
  s.origins = r.text();
  s.in_place = r.list();
  s.copies = r.number<uint8_t>() != 0;
  s.parts = r.list();
  return s;
}

bool consistent_step(const DeviceProgram& p, const ProgramStep& s, std::string* why) {
  if (s.kernel >= p.kernels.size())
    return *why = "a step names a kernel that does not exist", false;
  const ProgramKernel& k = p.kernels[s.kernel];
  if (s.buffers.size() != k.buffer_count || s.extents.size() != k.extent_count) {
    return *why = "a step's arguments do not match its kernel", false;
  }
  if (s.in_place.size() % 2 != 0) return *why = "a step has an odd number of paired buffers", false;
  if (s.copies && (s.in_place.size() != 2 || s.buffers.size() != 2))
    return *why = "a step that copies has other buffers than two", false;
  for (const auto* list : {&s.buffers, &s.in_place, &s.parts}) {
    for (uint32_t b : *list) {
      if (b >= p.buffers.size()) return *why = "a step names a buffer that does not exist", false;
    }
  }
  for (const SizeProgram& e : s.extents) {
    if (e.extent_limit() > p.symbol_count)
      return *why = "a step names a symbol that does not exist", false;
  }
  return true;
}

// Checks that load steps need nothing of a run, and that runs only read what load steps wrote.
bool consistent_times(const DeviceProgram& p, std::string* why) {
  for (const ProgramStep& s : p.load_steps) {
    const auto needs_symbol = [](const SizeProgram& e) { return e.extent_limit() != 0; };
    if (std::any_of(s.extents.begin(), s.extents.end(), needs_symbol)) {
      return *why = "a load step depends on a size of a run", false;
    }
    for (size_t i = 0; i < s.buffers.size(); ++i) {
      const BufferKind kind = p.buffers[s.buffers[i]].kind;
      const bool fits =
          kind == BufferKind::kPersistent || (kind == BufferKind::kConstant && !s.written[i]);
      if (!fits) return *why = "a load step uses a buffer that only runs have", false;
    }
  }
  for (const ProgramStep& s : p.steps) {
    for (size_t i = 0; i < s.buffers.size(); ++i) {
      if (s.written[i] && p.buffers[s.buffers[i]].kind == BufferKind::kPersistent) {
        return *why = "a run step writes a persistent buffer", false;
      }
    }
  }
  return true;
}

// Checks that every index of a loaded record is in range.
bool consistent(const DeviceProgram& p, std::string* why) {
  const uint32_t limit[] = {p.input_count, p.output_count, p.constant_count, ~0u, ~0u};
  for (const ProgramBuffer& b : p.buffers) {
    if (b.index >= limit[static_cast<size_t>(b.kind)])
      return *why = "a buffer names an operand that does not exist", false;
  }
  for (const auto* steps : {&p.load_steps, &p.steps}) {
    for (const ProgramStep& s : *steps) {
      if (!consistent_step(p, s, why)) return false;
    }
  }
  for (const ProgramCheck& c : p.checks) {
    if (c.buffer >= p.buffers.size() || p.buffers[c.buffer].type != TENON_U64)
      return *why = "a check does not read a u64", false;
  }
  return consistent_times(p, why);
}

// ---- Building ----

ExprId product(Pool& pool, const std::vector<ExprId>& dims) {
  ExprId n = pool.integer(1);
  for (ExprId d : dims) n = pool.mul(n, d);
  return n;
}

void describe_buffers(Lowered& lowered, DeviceProgram* out) {
  Kernel& k = lowered.program;
  out->buffers.resize(k.buffers.size());
  for (size_t i = 0; i < k.buffers.size(); ++i) {
    ProgramBuffer& b = out->buffers[i];
    b.type = k.buffers[i].type;
    const ExprId elements = product(k.pool, k.buffers[i].dims);
    b.bytes = size_program(k.pool, k.pool.mul(elements, k.pool.integer(size_of(b.type))));
  }
  auto mark = [&](const std::vector<uint32_t>& ids, BufferKind kind) {
    for (uint32_t i = 0; i < ids.size(); ++i) {
      if (ids[i] == ~0u) continue;
      out->buffers[ids[i]].kind = kind;
      out->buffers[ids[i]].index = i;
    }
  };
  mark(lowered.inputs, BufferKind::kInput);
  mark(lowered.constants, BufferKind::kConstant);
  mark(lowered.outputs, BufferKind::kOutput);
  for (size_t i = 0; i < k.buffers.size(); ++i) {
    if (k.buffers[i].role == Role::kPersistent) out->buffers[i].kind = BufferKind::kPersistent;
  }
  for (size_t i = 0; i < lowered.outputs.size(); ++i) {
    const uint32_t id = lowered.outputs[i];
    for (size_t d = 0; d < lowered.output_ranks[i]; ++d)
      out->buffers[id].dims.push_back(size_program(k.pool, k.buffers[id].dims[d]));
  }
  out->input_count = static_cast<uint32_t>(lowered.inputs.size());
  out->constant_count = static_cast<uint32_t>(lowered.constants.size());
  out->output_count = static_cast<uint32_t>(lowered.outputs.size());
  out->symbol_count = static_cast<uint32_t>(k.pool.extents().size());
}

struct Naming {
  const HostTables& host;
  tenon_graph_t* graph;
  const std::vector<tenon_node_t>& nodes;
};

// Places of nodes as one text: "net.onnx: `a`, `b`", each once, and a file once in a row.
class Places {
 public:
  void add(const std::string& place) {
    if (place.empty() || std::find(seen_.begin(), seen_.end(), place) != seen_.end()) return;
    seen_.push_back(place);
    const size_t colon = place.find(": ");
    const std::string file = colon == std::string::npos ? "" : place.substr(0, colon + 2);
    if (!text_.empty()) text_ += ", ";
    text_ += !file.empty() && file == file_ ? place.substr(colon + 2) : place;
    file_ = file;
  }
  std::string text() const { return text_; }

 private:
  std::vector<std::string> seen_;
  std::string text_, file_;
};

// "conv+relu" and the user's nodes, from the stages' origins.
void name_step(const Naming& naming, const Kernel& kernel, ProgramStep* step) {
  std::vector<uint32_t> seen;
  Places places;
  for (const Stage& stage : kernel.stages) {
    for (uint32_t o : stage.origins) {
      if (o < naming.nodes.size() && std::find(seen.begin(), seen.end(), o) == seen.end())
        seen.push_back(o);
    }
  }
  std::sort(seen.begin(), seen.end());
  const HostTables& h = naming.host;
  for (uint32_t o : seen) {
    step->nodes.push_back(naming.nodes[o]);
    auto n = sized<tenon_node_view_t>();
    if (h.graph->node_view(h.graph->self, naming.graph, naming.nodes[o], &n) != TENON_OK) continue;
    const tenon_str_t op = h.host->sym_text(h.host->self, n.op);
    if (!step->name.empty()) step->name += '+';
    step->name.append(op.data, op.size);
    std::string origin;
    const tenon_sink_t sink = sink_to(&origin);
    if (n.loc != 0 && h.graph->loc_text(h.graph->self, naming.graph, n.loc, &sink) == TENON_OK)
      places.add(origin);
  }
  step->origins = places.text();
  if (step->name.empty()) step->name = "copy";
  if (step->name.size() > 256) step->name.resize(256);
}

// The location of a user's node: "gather at model.onnx: `Gather_3`", "gather at model.tir:7".
std::string node_place(const Naming& naming, uint32_t ordinal) {
  auto n = sized<tenon_node_view_t>();
  const HostTables& h = naming.host;
  if (ordinal >= naming.nodes.size() ||
      h.graph->node_view(h.graph->self, naming.graph, naming.nodes[ordinal], &n) != TENON_OK) {
    return "a node";
  }
  const tenon_str_t op = h.host->sym_text(h.host->self, n.op);
  std::string place(op.data, op.size), origin;
  const tenon_sink_t sink = sink_to(&origin);
  if (n.loc != 0 && h.graph->loc_text(h.graph->self, naming.graph, n.loc, &sink) == TENON_OK &&
      !origin.empty()) {
    place += " at " + origin;
  }
  return place;
}

bool plain(const Buffer& b) {
  return b.offset == kNone && b.panel == 0;
}

// Loads in the expressions of the values that a stage stores.
std::vector<ExprId> loads_of_values(const Kernel& kernel, const Stage& stage) {
  std::vector<ExprId> loads;
  for (ExprId e : stage.kind == StageKind::kMap ? stage.value : stage.final)
    kernel.pool.loads(e, &loads);
  return loads;
}

// All other loads of the stage.
std::vector<ExprId> other_loads(const Kernel& kernel, const Stage& stage) {
  std::vector<ExprId> loads;
  for (ExprId e : {stage.a, stage.b}) {
    if (e != kNone) kernel.pool.loads(e, &loads);
  }
  for (const View& v : stage.store) {
    for (ExprId e : v.index) kernel.pool.loads(e, &loads);
    if (v.guard != kNone) kernel.pool.loads(v.guard, &loads);
  }
  return loads;
}

// By buffer: what stages other than one do with it, or with a temp that lies in its memory.
struct Others {
  Others(const Kernel& kernel, size_t own)
      : used(kernel.buffers.size(), false), stored(kernel.buffers.size(), false) {
    for (size_t s = 0; s < kernel.stages.size(); ++s) {
      if (s == own) continue;
      for (ExprId l : loads_of(kernel.pool, kernel.stages[s]))
        note(kernel, kernel.pool.at(l).ref, false);
      for (const View& v : kernel.stages[s].store) note(kernel, v.buffer, true);
    }
  }
  void note(const Kernel& kernel, uint32_t b, bool stores) {
    const int32_t other = kernel.buffers[b].alias_of;
    for (const uint32_t place : {b, other < 0 ? b : static_cast<uint32_t>(other)}) {
      used[place] = true;
      stored[place] = stored[place] || stores;
    }
  }
  std::vector<bool> used, stored;  // loaded or stored to; stored to
};

// Whether all loads of buffer `b` are without a guard at the element that is stored.
bool loads_only(const Kernel& kernel, std::span<const ExprId> loads, uint32_t b, const View& at) {
  bool read = false;
  for (ExprId load : loads) {
    if (kernel.pool.at(load).ref != b) continue;
    // Guard, other, index...
    const std::span<const ExprId> args = kernel.pool.args(load);
    if (args.size() != at.index.size() + 2 || args[0] != kNone ||
        !std::equal(at.index.begin(), at.index.end(), args.begin() + 2)) {
      return false;
    }
    read = true;
  }
  return read;
}

bool alike(const Buffer& from, const Buffer& to) {
  return from.type == to.type && from.dims == to.dims && from.strides == to.strides &&
         (from.role == Role::kIn || from.role == Role::kTemp) && plain(from);
}

// Adds the pairs of one stage. What others use is not written over; and what another stage stores
// in a result would lie over an operand before that is read.
void add_pairs(const Kernel& kernel, const Stage& stage, const Others& others,
               std::vector<uint32_t>* out) {
  std::vector<bool> kept = others.used;
  const std::vector<ExprId> loads = loads_of_values(kernel, stage);
  for (ExprId l : other_loads(kernel, stage)) kept[kernel.pool.at(l).ref] = true;
  for (size_t r = 0; r < stage.store.size(); ++r) {
    const View& store = stage.store[r];
    if (store.guard != kNone || !plain(kernel.buffers[store.buffer])) continue;
    if (others.stored[store.buffer]) continue;
    // Where results are stored one after another, the operands of later ones must stay intact.
    std::vector<ExprId> later;
    const bool in_turn = stage.kind == StageKind::kMap && !stores_last(kernel, stage);
    for (size_t n = r + 1; in_turn && n < stage.value.size(); ++n)
      kernel.pool.loads(stage.value[n], &later);
    for (uint32_t b = 0; b < kernel.buffers.size(); ++b) {
      const bool awaited = std::any_of(later.begin(), later.end(),
                                       [&](ExprId l) { return kernel.pool.at(l).ref == b; });
      if (kept[b] || awaited || b == store.buffer ||
          !alike(kernel.buffers[b], kernel.buffers[store.buffer]) ||
          !loads_only(kernel, loads, b, store)) {
        continue;
      }
      if (kernel.buffer_origin[store.buffer] == ~0u || kernel.buffer_origin[b] == ~0u) continue;
      out->insert(out->end(), {kernel.buffer_origin[store.buffer], kernel.buffer_origin[b]});
    }
  }
}

// An element-wise stage, or a product with its epilogue (a residual sum), may write its result over
// an operand that it reads only at the element being written. In a kernel of several stages, which
// are all element-wise then, no other stage may use the operand. Where a result may be written over
// several operands, or several over one, all such pairs are listed, and who places buffers chooses.
std::vector<uint32_t> in_place_pairs(const Kernel& kernel) {
  std::vector<uint32_t> out;
  const auto is_map = [](const Stage& s) { return s.kind == StageKind::kMap; };
  const bool maps = std::ranges::all_of(kernel.stages, is_map);
  const bool one = kernel.stages.size() == 1 && kernel.stages[0].kind == StageKind::kContract;
  for (size_t s = 0; (maps || one) && s < kernel.stages.size(); ++s) {
    add_pairs(kernel, kernel.stages[s], Others(kernel, s), &out);
  }
  return out;
}

// Whether a kernel with one pair in place stores what it loads and nothing else.
bool only_copies(const Kernel& kernel, const std::vector<uint32_t>& pairs) {
  if (pairs.size() != 2 || kernel.buffers.size() != 2) return false;
  const Stage& stage = kernel.stages[0];
  return stage.kind == StageKind::kMap && stage.store.size() == 1 &&
         kernel.pool.at(stage.value[0]).kind == X::kLoad;
}

ExprId points(Kernel& k, const std::vector<uint32_t>& axes) {
  ExprId n = k.pool.integer(1);
  for (uint32_t a : axes) n = k.pool.mul(n, k.pool.axes()[a].extent);
  return n;
}

// Operations on numbers in these expressions; shared expressions count once.
int64_t operations(const Pool& pool, std::vector<ExprId> todo) {
  int64_t n = 0;
  pool.begin_walk();
  while (!todo.empty()) {
    const ExprId e = todo.back();
    todo.pop_back();
    if (e == kNone || !pool.first_visit(e)) continue;
    const Expr& x = pool.at(e);
    n += x.kind == X::kOp && x.type != TENON_I64;
    for (ExprId a : pool.args(e)) todo.push_back(a);
  }
  return n;
}

ExprId flops_of(Kernel& k) {
  Pool& pool = k.pool;
  ExprId flops = pool.integer(0);
  auto add = [&](ExprId count, int64_t each) {
    flops = pool.add(flops, pool.mul(count, pool.integer(each)));
  };
  for (const Stage& s : k.stages) {
    const ExprId space = points(k, s.space), all = pool.mul(space, points(k, s.reduce));
    if (s.kind == StageKind::kContract) add(all, 2);
    if (s.kind == StageKind::kAttention) {
      // Two products per key: one of queries with keys, of the length of the features, and one for
      // each column (columns are already in space).
      const ExprId columns = pool.axes()[s.space.back()].extent;
      add(pool.floordiv(pool.mul(all, points(k, s.fill)), columns), 2);
      add(all, 2);
    }
    if (s.kind == StageKind::kReduce) add(all, std::max<int64_t>(1, operations(pool, s.step)));
    add(space, operations(pool, s.kind == StageKind::kMap ? s.value : s.final));
  }
  return flops;
}

// For every buffer that is not the kernel's own: its size, or what the stages can touch if that is
// less.
ExprId bytes_of(Kernel& k) {
  Pool& pool = k.pool;
  std::vector<ExprId> touched(k.buffers.size(), pool.integer(0));
  for (const Stage& s : k.stages) {
    const ExprId space = points(k, s.space), all = pool.mul(space, points(k, s.reduce));
    std::vector<ExprId> loads;
    for (const auto* list : {&s.value, &s.step, &s.final}) {
      for (ExprId e : *list) pool.loads(e, &loads);
    }
    if (s.kind == StageKind::kContract) {
      pool.loads(s.a, &loads);
      pool.loads(s.b, &loads);
    }
    for (ExprId l : loads) touched[pool.at(l).ref] = pool.add(touched[pool.at(l).ref], all);
    for (const View& v : s.store) touched[v.buffer] = pool.add(touched[v.buffer], space);
  }
  ExprId bytes = pool.integer(0);
  for (size_t b = 0; b < k.buffers.size(); ++b) {
    if (k.buffers[b].role == Role::kTemp || pool.is_const(touched[b], 0)) continue;
    const ExprId elements = pool.min(product(pool, k.buffers[b].dims), touched[b]);
    bytes = pool.add(bytes, pool.mul(elements, pool.integer(size_of(k.buffers[b].type))));
  }
  return bytes;
}

ProgramKernel describe(Kernel& kernel, const Hash128& hash) {
  ProgramKernel out;
  out.hash = hash;
  out.flops = size_program(kernel.pool, flops_of(kernel));
  out.bytes = size_program(kernel.pool, bytes_of(kernel));
  return out;
}

// Returns the kernel's number in the program. Adds the kernel if there is no equal one.
class Distinct {
 public:
  explicit Distinct(BuiltProgram* out) : out_(out) {}

  uint32_t find(Kernel kernel, const Hash128& hash) {
    DeviceProgram& program = out_->program;
    for (uint32_t k : by_hash_[hash.lo]) {
      if (program.kernels[k].hash == hash) return k;
    }
    const uint32_t id = static_cast<uint32_t>(program.kernels.size());
    by_hash_[hash.lo].push_back(id);
    program.kernels.push_back(describe(kernel, hash));
    out_->kernels.push_back(std::move(kernel));
    out_->steps_of.emplace_back();
    out_->load_steps_of.emplace_back();
    return id;
  }

 private:
  BuiltProgram* out_;
  std::unordered_map<uint64_t, std::vector<uint32_t>> by_hash_;
};

bool runs_at_load(const DeviceProgram& program, const Kernel& kernel) {
  const uint32_t first = kernel.buffer_origin[kernel.stages[0].store[0].buffer];
  return first != ~0u && program.buffers[first].kind == BufferKind::kPersistent;
}

}  // namespace

std::string DeviceProgram::bytes() const {
  Writer w;
  w.number(kMagic);
  for (uint32_t v : {symbol_count, input_count, output_count, constant_count}) w.number(v);
  w.number<uint64_t>(buffers.size());
  for (const ProgramBuffer& b : buffers) write_buffer(w, b);
  w.number<uint64_t>(kernels.size());
  for (const ProgramKernel& k : kernels) write_kernel(w, k);
  for (const auto* list : {&load_steps, &steps}) {
    w.number<uint64_t>(list->size());
    for (const ProgramStep& s : *list) write_step(w, s);
  }
  w.number<uint64_t>(checks.size());
  for (const ProgramCheck& c : checks) {
    w.number(c.buffer);
    w.size(c.limit);
    w.size(c.count);
    w.text(c.origins);
    w.text(c.text);
  }
  return w.take();
}

bool DeviceProgram::read(const void* data, uint64_t size_bytes, DeviceProgram* out,
                         std::string* why) {
  Reader r(data, size_bytes);
  DeviceProgram p;
  if (r.number<uint32_t>() != kMagic) return *why = "not a device program of this version", false;
  p.symbol_count = r.number<uint32_t>();
  p.input_count = r.number<uint32_t>();
  p.output_count = r.number<uint32_t>();
  p.constant_count = r.number<uint32_t>();
  for (uint64_t i = 0, n = r.count(16); i < n && r.ok(); ++i) p.buffers.push_back(read_buffer(r));
  for (uint64_t i = 0, n = r.count(16); i < n && r.ok(); ++i) p.kernels.push_back(read_kernel(r));
  for (auto* list : {&p.load_steps, &p.steps}) {
    for (uint64_t i = 0, n = r.count(16); i < n && r.ok(); ++i) list->push_back(read_step(r));
  }
  for (uint64_t i = 0, n = r.count(16); i < n && r.ok(); ++i) {
    ProgramCheck& c = p.checks.emplace_back();
    c.buffer = r.number<uint32_t>();
    c.limit = r.size();
    c.count = r.size();
    c.origins = r.text();
    c.text = r.text();
  }
  if (!r.ok() || !r.at_end()) return *why = "the device program is damaged", false;
  if (!consistent(p, why)) return false;
  *out = std::move(p);
  return true;
}

namespace {

void mark_used(const std::vector<ProgramStep>& steps, std::vector<bool>* used) {
  for (const ProgramStep& step : steps) {
    for (uint32_t b : step.buffers) (*used)[b] = true;
  }
}

}  // namespace

std::vector<bool> used_at_run(const DeviceProgram& program) {
  std::vector<bool> used(program.buffers.size());
  mark_used(program.steps, &used);
  return used;
}

std::vector<bool> used_by_steps(const DeviceProgram& program) {
  std::vector<bool> used = used_at_run(program);
  mark_used(program.load_steps, &used);
  return used;
}

namespace {

std::string_view setting(const HostTables& host, std::string_view name) {
  const tenon_str_t value = host.host->setting(host.host->self, {name.data(), name.size()});
  return {value.data, value.size};
}

void warn(const HostTables& host, const std::string& text) {
  constexpr std::string_view kComponent = "kernelgen";
  host.host->log(host.host->self, {kComponent.data(), kComponent.size()}, TENON_LOG_WARN,
                 {text.data(), text.size()});
}

// Warns about an unknown value. It acts as the default, although the user may expect more checks.
void check_setting(const HostTables& host) {
  static std::atomic_flag told;
  const std::string_view value = setting(host, "TENON_VERIFY");
  if (value.empty() || value == "0" || value == "1" || value == kVerifyStrictly ||
      told.test_and_set())
    return;
  warn(host, "TENON_VERIFY is '" + std::string(value) +
                 "', which is not 0, 1 or strict; the default is used");
}

bool broken(std::string rule, BuiltProgram* out, std::string* why) {
  *why = "kernelgen broke a rule of its own, " + std::move(rule) +
         "; this is a bug of Tenon: please report it with the graph";
  out->broken = true;
  return false;
}

// Findings of undone steps are logged; a fault that could not be undone is an error.
bool settled(const HostTables& host, const Verifier& verifier, BuiltProgram* out,
             std::string* why) {
  if (verifier.notes.empty()) return true;
  if (!verifier.error.empty()) return broken(verifier.error, out, why);
  if (setting(host, "TENON_VERIFY") == kVerifyStrictly) return broken(verifier.notes[0], out, why);
  for (const std::string& note : verifier.notes)
    warn(host, "not fused as planned, and slower for it: " + note);
  return true;
}

}  // namespace

bool build_program(const HostTables& host, tenon_graph_t* graph, const Target& target,
                   BuiltProgram* out, std::string* why) {
  Lowered lowered;
  *out = BuiltProgram{};
  if (!lower_graph(host, graph, &lowered, why)) return false;
  check_setting(host);
  std::optional<Verifier> verifier =
      verifier_for(lowered.program.stages.size(), setting(host, "TENON_VERIFY"));
  Verifier* const checks = verifier ? &*verifier : nullptr;
  if (checks != nullptr && !checks->program(lowered.program, "lowering"))
    return broken(checks->notes.back(), out, why);
  move_to_load(lowered.program, target, checks);
  return build_kernels(host, graph, std::move(lowered), target, checks, out, why);
}

bool build_kernels(const HostTables& host, tenon_graph_t* graph, Lowered lowered,
                   const Target& target, Verifier* checks, BuiltProgram* out, std::string* why) {
  *out = BuiltProgram{};
  DeviceProgram& program = out->program;
  describe_buffers(lowered, &program);
  const Naming naming{host, graph, lowered.nodes};
  for (const LoweredCheck& c : lowered.checks) {
    program.checks.push_back({c.buffer, size_program(lowered.program.pool, c.limit),
                              size_program(lowered.program.pool, c.count),
                              node_place(naming, c.origin), c.text});
  }
  Distinct distinct(out);
  std::vector<Kernel> kernels = split(std::move(lowered.program), target, checks);
  if (checks != nullptr && !settled(host, *checks, out, why)) return false;
  for (Kernel& kernel : kernels) {
    std::vector<uint32_t> buffer_order, extent_order;
    const Hash128 hash = structural_hash(kernel, &buffer_order, &extent_order);
    const bool at_load = runs_at_load(program, kernel);
    ProgramStep step;
    name_step(naming, kernel, &step);
    // Until generate_batch: in the hash's order, with ~0u for temps inside the kernel.
    for (uint32_t b : buffer_order) step.buffers.push_back(kernel.buffer_origin[b]);
    for (uint32_t e : extent_order)
      step.extents.push_back(SizeProgram::extent(kernel.extent_origin[e]));
    if (!at_load) step.in_place = in_place_pairs(kernel);
    step.copies = only_copies(kernel, step.in_place);
    step.parts = kernel.parts;
    step.kernel = distinct.find(std::move(kernel), hash);
    std::vector<ProgramStep>& steps = at_load ? program.load_steps : program.steps;
    (at_load ? out->load_steps_of : out->steps_of)[step.kernel].push_back(
        static_cast<uint32_t>(steps.size()));
    steps.push_back(std::move(step));
  }
  return true;
}

namespace {

// From the hash's order to the order of the kernel's arguments.
void put_in_order(const Launch& launch, const std::vector<uint32_t>& buffer_order,
                  const std::vector<uint32_t>& extent_order, ProgramStep* step) {
  const std::vector<uint32_t> buffers = std::move(step->buffers);
  const std::vector<SizeProgram> extents = std::move(step->extents);
  step->buffers.clear();
  step->extents.assign(launch.extent_count, {});
  for (uint32_t b : launch.buffers) {
    const auto at = std::find(buffer_order.begin(), buffer_order.end(), b) - buffer_order.begin();
    step->buffers.push_back(buffers[static_cast<size_t>(at)]);
  }
  step->written = launch.written;
  for (size_t i = 0; i < extent_order.size(); ++i) step->extents[extent_order[i]] = extents[i];
}

}  // namespace

void take_general(BuiltProgram* built, uint32_t k, General general) {
  Kernel& from = built->kernels[k];
  Kernel& to = general.kernel;
  std::vector<uint32_t> from_buffers, from_extents, to_buffers, to_extents;
  structural_hash(from, &from_buffers, &from_extents);
  const Hash128 hash = structural_hash(to, &to_buffers, &to_extents);
  const auto replace = [&](ProgramStep& step) {
    std::vector<SizeProgram> sizes(from.pool.extents().size());
    for (size_t i = 0; i < from_extents.size(); ++i) sizes[from_extents[i]] = step.extents[i];
    step.extents.clear();
    for (uint32_t e : to_extents) step.extents.push_back(general.sizes[e].over(sizes));
    const std::vector<uint32_t> buffers = std::move(step.buffers);
    step.buffers.clear();
    for (uint32_t b : to_buffers) {
      const auto at = std::find(from_buffers.begin(), from_buffers.end(), to.buffer_origin[b]) -
                      from_buffers.begin();
      step.buffers.push_back(buffers[static_cast<size_t>(at)]);
    }
  };
  for (uint32_t s : built->steps_of[k]) replace(built->program.steps[s]);
  for (uint32_t s : built->load_steps_of[k]) replace(built->program.load_steps[s]);
  for (uint32_t& origin : to.buffer_origin) origin = from.buffer_origin[origin];
  built->program.kernels[k] = describe(to, hash);
  from = std::move(to);
}

bool generate_batch(BuiltProgram* built, uint32_t begin, uint32_t end, const Target& target,
                    std::string* out_text, std::string* why, std::vector<std::string>* texts) {
  std::vector<std::vector<uint32_t>> buffer_orders, extent_orders;
  for (uint32_t k = begin; k < end; ++k) {
    buffer_orders.emplace_back();
    extent_orders.emplace_back();
    structural_hash(built->kernels[k], &buffer_orders.back(), &extent_orders.back());
  }
  Module module;
  if (!generate(std::span(built->kernels).subspan(begin, end - begin), target, &module, why, texts))
    return false;
  for (uint32_t k = begin; k < end; ++k) {
    const Launch& launch = module.launches[k - begin];
    ProgramKernel& kernel = built->program.kernels[k];
    kernel.entry = launch.entry;
    kernel.range = launch.range;
    kernel.scratch_bytes = launch.scratch_bytes;
    kernel.grain = launch.grain;
    kernel.group = launch.group;
    kernel.together = launch.together;
    kernel.buffer_count = static_cast<uint32_t>(launch.buffers.size());
    kernel.extent_count = launch.extent_count;
    const std::vector<uint32_t>&buffer_order = buffer_orders[k - begin],
          &extent_order = extent_orders[k - begin];
    for (uint32_t s : built->load_steps_of[k])
      put_in_order(launch, buffer_order, extent_order, &built->program.load_steps[s]);
    for (uint32_t s : built->steps_of[k])
      put_in_order(launch, buffer_order, extent_order, &built->program.steps[s]);
  }
  *out_text = std::move(module.text);
  return true;
}

bool explain_program(BuiltProgram* built, const Target& target, std::string* out,
                     std::string* why) {
  for (Kernel& kernel : built->kernels) {
    std::string text;
    if (!explain(kernel, target, &text, why)) return false;
    *out += text;
  }
  return true;
}

}  // namespace tenon::kernelgen
