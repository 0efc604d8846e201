#include "kernel.h"

#include <tenon/cpp/plugin.hpp>

#include <algorithm>
#include <array>
#include <cstring>
#include <new>
#include <numeric>

namespace tenon::onednn {
namespace {

// Memory objects and a stream of one run. The library's objects are cheap, and not to be shared
// between threads.
class Execution {
 public:
  explicit Execution(const Library& l) : l_(l), alone_(l) {}
  ~Execution() {
    for (size_t i = 0; i < count_; ++i) l_.dnnl_memory_destroy(arguments_[i].memory);
    if (stream_ != nullptr) l_.dnnl_stream_destroy(stream_);
  }
  Execution(const Execution&) = delete;

  Status add(int argument, const dnnl_memory_desc_t& desc, void* data) {
    dnnl_memory_t memory = nullptr;
    TENON_TRY(check(l_.dnnl_memory_create(&memory, &desc, l_.engine, data), "an array"));
    arguments_[count_++] = {argument, memory};
    return {};
  }
  Status run(const_dnnl_primitive_t primitive, std::string_view what) {
    TENON_TRY(check(l_.dnnl_stream_create(&stream_, l_.engine, dnnl_stream_default_flags), what));
    TENON_TRY(check(
        l_.dnnl_primitive_execute(primitive, stream_, static_cast<int>(count_), arguments_.data()),
        what));
    return check(l_.dnnl_stream_wait(stream_), what);
  }

 private:
  const Library& l_;
  const OneThread alone_;
  std::array<dnnl_exec_arg_t, 6> arguments_{};
  size_t count_ = 0;
  dnnl_stream_t stream_ = nullptr;
};

Status reorder(const Library& l, const Primitive& primitive, const dnnl_memory_desc_t& from_desc,
               const void* from, const dnnl_memory_desc_t& to_desc, void* to) {
  Execution execution(l);
  TENON_TRY(execution.add(DNNL_ARG_FROM, from_desc, const_cast<void*>(from)));
  TENON_TRY(execution.add(DNNL_ARG_TO, to_desc, to));
  return execution.run(primitive.get(), "a reorder");
}

// Bytes from the first element of a view past the last.
uint64_t extent_of(const View& view) {
  int64_t last = 0;
  for (size_t i = 0; i < view.dims.size(); ++i) last += (view.dims[i] - 1) * view.strides[i];
  return static_cast<uint64_t>(last + 1) * bytes_of(view.dtype);
}

// ---- relu ----

void relu(float* data, int64_t count) {
  for (int64_t i = 0; i < count; ++i) data[i] = data[i] < 0 ? 0.0f : data[i];
}
// NaN of either sign is above infinity here.
void relu(uint16_t* data, int64_t count) {
  constexpr uint16_t kSign = 0x8000, kMinusInfinity = 0xff80;
  for (int64_t i = 0; i < count; ++i)
    data[i] = data[i] >= kSign && data[i] <= kMinusInfinity ? uint16_t{0} : data[i];
}

// relu of a view, in runs that are contiguous.
template <class Element>
void relu_of(const View& view, Element* data) {
  std::vector<size_t> order(view.dims.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::pair(view.strides[a], view.dims[a]) < std::pair(view.strides[b], view.dims[b]);
  });
  int64_t run = 1;
  size_t at = 0;
  for (; at < order.size() && (view.strides[order[at]] == run || view.dims[order[at]] == 1); ++at)
    run *= view.dims[order[at]];
  std::vector<int64_t> index(order.size(), 0);
  for (;;) {
    int64_t offset = 0;
    for (size_t i = at; i < order.size(); ++i) offset += index[i] * view.strides[order[i]];
    relu(data + offset, run);
    size_t i = at;
    for (; i < order.size() && ++index[i] == view.dims[order[i]]; ++i) index[i] = 0;
    if (i == order.size()) return;
  }
}

}  // namespace

// Addresses of what a piece works on.
struct Kernel::Arrays {
  unsigned char *src = nullptr, *weights = nullptr, *dst = nullptr;  // the views
  unsigned char *bias = nullptr, *residual = nullptr, *scratch = nullptr;
  unsigned char *src_wanted = nullptr, *weights_wanted = nullptr, *dst_wanted = nullptr;
};

Status Kernel::create(const Library& l, Problem problem, uint32_t threads,
                      const tenon_device_api_t* device_api, tenon_device_t* device,
                      std::unique_ptr<Kernel>* out) {
  std::unique_ptr<Kernel> made(new Kernel(l, std::move(problem), device_api, device));
  TENON_TRY(make_pieces(l, made->problem_, threads, true, &made->pieces_));
  *out = std::move(made);
  return {};
}

uint32_t Kernel::operand_of(Step::Kind kind) const {
  const auto step = std::find_if(problem_.steps.begin(), problem_.steps.end(),
                                 [&](const Step& s) { return s.kind == kind; });
  return step == problem_.steps.end() ? TENON_NONE : step->operand;
}

Status Kernel::prepack(const void* data, uint64_t size_bytes, const tenon_sink_t* sink) const {
  const std::align_val_t alignment{64};
  const auto release = [&](unsigned char* p) { operator delete[](p, alignment); };
  const std::unique_ptr<unsigned char, decltype(release)> packed(
      new (alignment) unsigned char[pieces_.packed_bytes](), release);
  for (const Piece& piece : pieces_.pieces) {
    const auto* from = static_cast<const unsigned char*>(data) + piece.weights.offset_bytes;
    unsigned char* to = packed.get() + piece.packed_offset;
    const uint64_t view_bytes = extent_of(piece.weights.view);
    if (piece.weights.offset_bytes + view_bytes > size_bytes)
      return fail(TENON_INVALID_ARGUMENT, "a constant is shorter than its type");
    if (piece.weights.direct)
      std::memcpy(to, from, view_bytes);
    else
      TENON_TRY(
          reorder(l_, piece.weights.reorder, piece.weights.given, from, piece.weights.wanted, to));
  }
  return sink->write(sink->self, packed.get(), pieces_.packed_bytes);
}

Status Kernel::address(const tenon_buffer_t* buffer, uint64_t offset, unsigned char** out) const {
  void* data = nullptr;
  TENON_TRY(api_->map(api_->self, device_, const_cast<tenon_buffer_t*>(buffer), &data));
  *out = static_cast<unsigned char*>(data) + offset;
  return {};
}

Status Kernel::place(const tenon_kernel_args_t& args, const Piece& piece, Arrays* out) const {
  const auto input = [&](uint32_t i, uint64_t offset, unsigned char** at) {
    return address(args.inputs[i], args.input_offsets_bytes[i] + offset, at);
  };
  unsigned char* workspace = nullptr;
  if (args.workspace != nullptr)
    TENON_TRY(address(args.workspace, args.workspace_offset_bytes, &workspace));
  TENON_TRY(input(kSource, piece.src.offset_bytes, &out->src));
  TENON_TRY(input(kWeights,
                  problem_.weights_constant ? piece.packed_offset : piece.weights.offset_bytes,
                  &out->weights));
  TENON_TRY(
      address(args.outputs[0], args.output_offsets_bytes[0] + piece.dst.offset_bytes, &out->dst));
  if (const uint32_t bias = operand_of(Step::kBias); bias != TENON_NONE)
    TENON_TRY(input(bias, piece.bias_offset_bytes, &out->bias));
  if (const uint32_t residual = operand_of(Step::kAdd); residual != TENON_NONE)
    TENON_TRY(input(residual, piece.dst.offset_bytes, &out->residual));
  const auto wanted = [&](const Operand& o, unsigned char* given) {
    return o.workspace_bytes == 0 ? given : workspace + o.workspace_offset;
  };
  out->src_wanted = wanted(piece.src, out->src);
  out->weights_wanted = wanted(piece.weights, out->weights);
  out->dst_wanted = wanted(piece.dst, out->dst);
  out->scratch = workspace == nullptr ? nullptr : workspace + piece.scratch_offset;
  return {};
}

Status Kernel::execute(const Piece& piece, const Arrays& a) const {
  if (!piece.src.direct)
    TENON_TRY(
        reorder(l_, piece.src.reorder, piece.src.given, a.src, piece.src.wanted, a.src_wanted));
  if (piece.weights.workspace_bytes != 0)
    TENON_TRY(reorder(l_, piece.weights.reorder, piece.weights.given, a.weights,
                      piece.weights.wanted, a.weights_wanted));
  if (a.residual != nullptr)
    TENON_TRY(reorder(l_, piece.add_residual, piece.residual, a.residual, piece.dst.wanted,
                      a.dst_wanted));
  {
    Execution execution(l_);
    TENON_TRY(execution.add(DNNL_ARG_SRC, piece.src.wanted, a.src_wanted));
    TENON_TRY(execution.add(DNNL_ARG_WEIGHTS, piece.weights.wanted, a.weights_wanted));
    if (a.bias != nullptr) TENON_TRY(execution.add(DNNL_ARG_BIAS, piece.bias, a.bias));
    TENON_TRY(execution.add(DNNL_ARG_DST, piece.dst.wanted, a.dst_wanted));
    if (piece.scratch.ndims != 0)
      TENON_TRY(execution.add(DNNL_ARG_SCRATCHPAD, piece.scratch, a.scratch));
    TENON_TRY(execution.run(piece.primitive.get(), "a product or convolution"));
  }
  if (!piece.dst.direct)
    TENON_TRY(
        reorder(l_, piece.dst.reorder, piece.dst.wanted, a.dst_wanted, piece.dst.given, a.dst));
  return {};
}

Status Kernel::run(const tenon_kernel_args_t& args) const {
  for (size_t i = args.part_index; i < pieces_.pieces.size(); i += args.part_count)
    TENON_TRY(run_piece(args, pieces_.pieces[i]));
  return {};
}

Status Kernel::run_piece(const tenon_kernel_args_t& args, const Piece& piece) const {
  Arrays arrays;
  TENON_TRY(place(args, piece, &arrays));
  TENON_TRY(execute(piece, arrays));
  if (!problem_.ends_in_relu()) return {};
  if (problem_.dst.dtype == TENON_BF16)
    relu_of(piece.dst.view, reinterpret_cast<uint16_t*>(arrays.dst));
  else
    relu_of(piece.dst.view, reinterpret_cast<float*>(arrays.dst));
  return {};
}

}  // namespace tenon::onednn
