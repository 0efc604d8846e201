#include "tenon/kernelgen/device_program.h"

#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "tenon/kernelgen/fuse.h"

namespace tenon::kernelgen {
namespace {

// ---- Bytes ------------------------------------------------------------------------------------------------

constexpr uint32_t kMagic = 0x31504454;  // "TDP1": the layout below; another layout gets another number
constexpr uint64_t kCountMax = 1u << 24; // of anything listed; real programs have thousands

class Writer {
 public:
  template <class T>
  void number(T v) { out_.append(reinterpret_cast<const char*>(&v), sizeof v); }
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
  // A count of items that take at least `least_bytes` each.
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
  if (kind > static_cast<uint8_t>(BufferKind::kTemp)) r.fail();
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
  return k;
}

void write_step(Writer& w, const ProgramStep& s) {
  w.number(s.kernel);
  w.list(s.buffers);
  for (bool b : s.written) w.number<uint8_t>(b);
  w.list(s.extents);
  w.text(s.name);
  w.text(s.origins);
  w.number(s.flops);
}

ProgramStep read_step(Reader& r) {
  ProgramStep s;
  s.kernel = r.number<uint32_t>();
  s.buffers = r.list();
  for (size_t i = 0; i < s.buffers.size(); ++i) s.written.push_back(r.number<uint8_t>() != 0);
  s.extents = r.list();
  s.name = r.text();
  s.origins = r.text();
  s.flops = r.number<double>();
  return s;
}

// Every index of a loaded record points inside it.
bool consistent(const DeviceProgram& p, std::string* why) {
  const uint32_t limit[] = {p.input_count, p.output_count, p.constant_count, ~0u};
  for (const ProgramBuffer& b : p.buffers) {
    if (b.index >= limit[static_cast<size_t>(b.kind)]) return *why = "a buffer names an operand that is not there", false;
  }
  for (const ProgramStep& s : p.steps) {
    if (s.kernel >= p.kernels.size()) return *why = "a step names a kernel that is not there", false;
    const ProgramKernel& k = p.kernels[s.kernel];
    if (s.buffers.size() != k.buffer_count || s.extents.size() != k.extent_count) {
      return *why = "a step's arguments do not match its kernel", false;
    }
    for (uint32_t b : s.buffers) {
      if (b >= p.buffers.size()) return *why = "a step names a buffer that is not there", false;
    }
    for (uint32_t e : s.extents) {
      if (e >= p.symbol_count) return *why = "a step names a symbol that is not there", false;
    }
  }
  return true;
}

// ---- Building ---------------------------------------------------------------------------------------------

E product(Pool& pool, const std::vector<E>& dims) {
  E n = pool.integer(1);
  for (E d : dims) n = pool.mul(n, d);
  return n;
}

void describe_buffers(Lifted& lifted, DeviceProgram* out) {
  Kernel& k = lifted.program;
  out->buffers.resize(k.buffers.size());
  for (size_t i = 0; i < k.buffers.size(); ++i) {
    ProgramBuffer& b = out->buffers[i];
    b.type = k.buffers[i].type;
    const E elements = product(k.pool, k.buffers[i].dims);
    b.bytes = size_program(k.pool, k.pool.mul(elements, k.pool.integer(size_of(b.type))));
  }
  auto mark = [&](const std::vector<uint32_t>& ids, BufferKind kind) {
    for (uint32_t i = 0; i < ids.size(); ++i) {
      if (ids[i] == ~0u) continue;
      out->buffers[ids[i]].kind = kind;
      out->buffers[ids[i]].index = i;
    }
  };
  mark(lifted.inputs, BufferKind::kInput);
  mark(lifted.constants, BufferKind::kConstant);
  mark(lifted.outputs, BufferKind::kOutput);
  for (uint32_t id : lifted.outputs) {
    for (E d : k.buffers[id].dims) out->buffers[id].dims.push_back(size_program(k.pool, d));
  }
  out->input_count = static_cast<uint32_t>(lifted.inputs.size());
  out->constant_count = static_cast<uint32_t>(lifted.constants.size());
  out->output_count = static_cast<uint32_t>(lifted.outputs.size());
  out->symbol_count = static_cast<uint32_t>(k.pool.extents().size());
}

struct Naming {
  const LiftHost& host;
  tenon_graph_t* graph;
  const std::vector<tenon_node_t>& nodes;
};

tenon_code_t append_text(void* self, const void* data, uint64_t size) {
  static_cast<std::string*>(self)->append(static_cast<const char*>(data), size);
  return TENON_OK;
}

// "conv+relu" and the user's nodes, from the stages' origins.
void name_step(const Naming& naming, const Kernel& kernel, ProgramStep* step) {
  std::vector<uint32_t> seen;
  for (const Stage& stage : kernel.stages) {
    for (uint32_t o : stage.origins) {
      if (o < naming.nodes.size() && std::find(seen.begin(), seen.end(), o) == seen.end()) seen.push_back(o);
    }
  }
  std::sort(seen.begin(), seen.end());
  const LiftHost& h = naming.host;
  for (uint32_t o : seen) {
    tenon_node_view_t n{};
    n.size_bytes = sizeof n;
    if (h.graph->node_view(h.graph->self, naming.graph, naming.nodes[o], &n) != TENON_OK) continue;
    const tenon_str_t op = h.host->sym_text(h.host->self, n.op);
    if (!step->name.empty()) step->name += '+';
    step->name.append(op.data, op.size);
    std::string origin;
    const tenon_sink_t sink{&origin, append_text};
    if (n.loc != 0 && h.graph->loc_text(h.graph->self, naming.graph, n.loc, &sink) == TENON_OK && !origin.empty()) {
      if (!step->origins.empty()) step->origins += ", ";
      step->origins += origin;
    }
  }
  if (step->name.empty()) step->name = "copy";
  if (step->name.size() > 256) step->name.resize(256);
}

double flops_of(const Kernel& kernel) {
  const Pool& pool = kernel.pool;
  std::vector<int64_t> hints;
  for (const Extent& e : pool.extents()) hints.push_back(std::max<int64_t>(e.hint, 1));
  auto points = [&](const std::vector<uint32_t>& axes) {
    double n = 1;
    for (uint32_t a : axes) n *= static_cast<double>(pool.evaluate(pool.axes()[a].extent, hints));
    return n;
  };
  double flops = 0;
  for (const Stage& s : kernel.stages) {
    const double all = points(s.space) * points(s.reduce);
    flops += s.kind == StageKind::kContract ? 2 * all : all;
  }
  return flops;
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
  w.number<uint64_t>(steps.size());
  for (const ProgramStep& s : steps) write_step(w, s);
  return w.take();
}

bool DeviceProgram::read(const void* data, uint64_t size_bytes, DeviceProgram* out, std::string* why) {
  Reader r(data, size_bytes);
  DeviceProgram p;
  if (r.number<uint32_t>() != kMagic) return *why = "not a device program of this version", false;
  p.symbol_count = r.number<uint32_t>();
  p.input_count = r.number<uint32_t>();
  p.output_count = r.number<uint32_t>();
  p.constant_count = r.number<uint32_t>();
  for (uint64_t i = 0, n = r.count(16); i < n && r.ok(); ++i) p.buffers.push_back(read_buffer(r));
  for (uint64_t i = 0, n = r.count(16); i < n && r.ok(); ++i) p.kernels.push_back(read_kernel(r));
  for (uint64_t i = 0, n = r.count(16); i < n && r.ok(); ++i) p.steps.push_back(read_step(r));
  if (!r.ok() || !r.at_end()) return *why = "the device program is damaged", false;
  if (!consistent(p, why)) return false;
  *out = std::move(p);
  return true;
}

bool build_program(const LiftHost& host, tenon_graph_t* graph, const Target& target, BuiltProgram* out,
                   std::string* why) {
  Lifted lifted;
  if (!lift(host, graph, &lifted, why)) return false;
  *out = BuiltProgram{};
  DeviceProgram& program = out->program;
  describe_buffers(lifted, &program);
  const Naming naming{host, graph, lifted.nodes};
  std::unordered_map<uint64_t, std::vector<uint32_t>> by_hash;
  for (Kernel& kernel : partition(std::move(lifted.program), target)) {
    std::vector<uint32_t> buffer_order, extent_order;
    const Hash128 hash = structural_hash(kernel, &buffer_order, &extent_order);
    ProgramStep step;
    name_step(naming, kernel, &step);
    step.flops = flops_of(kernel);
    // Until generate_batch: in order of the hash's correspondence, kernel-local temps as ~0u.
    for (uint32_t b : buffer_order) step.buffers.push_back(kernel.buffer_origin[b]);
    for (uint32_t e : extent_order) step.extents.push_back(kernel.extent_origin[e]);
    step.kernel = ~0u;
    for (uint32_t k : by_hash[hash.lo]) {
      if (program.kernels[k].hash == hash) step.kernel = k;
    }
    if (step.kernel == ~0u) {
      step.kernel = static_cast<uint32_t>(program.kernels.size());
      by_hash[hash.lo].push_back(step.kernel);
      ProgramKernel k;
      k.hash = hash;
      program.kernels.push_back(std::move(k));
      out->kernels.push_back(std::move(kernel));
      out->steps_of.emplace_back();
    }
    out->steps_of[step.kernel].push_back(static_cast<uint32_t>(program.steps.size()));
    program.steps.push_back(std::move(step));
  }
  return true;
}

bool generate_batch(BuiltProgram* built, uint32_t begin, uint32_t end, const Target& target, std::string* out_text,
                    std::string* why) {
  std::vector<std::vector<uint32_t>> buffer_orders, extent_orders;
  for (uint32_t k = begin; k < end; ++k) {
    buffer_orders.emplace_back();
    extent_orders.emplace_back();
    structural_hash(built->kernels[k], &buffer_orders.back(), &extent_orders.back());
  }
  Module module;
  if (!generate(std::span(built->kernels).subspan(begin, end - begin), target, &module, why)) return false;
  for (uint32_t k = begin; k < end; ++k) {
    const Launch& launch = module.launches[k - begin];
    ProgramKernel& kernel = built->program.kernels[k];
    kernel.entry = launch.entry;
    kernel.range = launch.range;
    kernel.scratch_bytes = launch.scratch_bytes;
    kernel.grain = launch.grain;
    kernel.buffer_count = static_cast<uint32_t>(launch.buffers.size());
    kernel.extent_count = launch.extent_count;
    const std::vector<uint32_t>&buffer_order = buffer_orders[k - begin], &extent_order = extent_orders[k - begin];
    for (uint32_t s : built->steps_of[k]) {
      ProgramStep& step = built->program.steps[s];
      const std::vector<uint32_t> buffers = std::move(step.buffers), extents = std::move(step.extents);
      step.buffers.clear();
      step.extents.assign(launch.extent_count, 0);
      for (uint32_t b : launch.buffers) {
        const auto at = std::find(buffer_order.begin(), buffer_order.end(), b) - buffer_order.begin();
        step.buffers.push_back(buffers[static_cast<size_t>(at)]);
      }
      step.written = launch.written;
      for (size_t i = 0; i < extent_order.size(); ++i) step.extents[extent_order[i]] = extents[i];
    }
  }
  *out_text = std::move(module.text);
  return true;
}

bool explain_program(BuiltProgram* built, const Target& target, std::string* out, std::string* why) {
  for (Kernel& kernel : built->kernels) {
    std::string text;
    if (!explain(kernel, target, &text, why)) return false;
    *out += text;
  }
  return true;
}

}  // namespace tenon::kernelgen
