#include "pieces.h"

#include <tenon/cpp/plugin.hpp>

#include <algorithm>
#include <cmath>

namespace tenon::onednn {
namespace {

constexpr uint64_t kAlignment = 64;
constexpr double kPieceFlops = 4e6;  // a smaller piece is not worth a thread
constexpr int64_t kFeatureBlock = 64, kRowBlock = 8;

uint64_t aligned(uint64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

dnnl_data_type_t type_of(tenon_dtype_t dtype) {
  return dtype == TENON_BF16 ? dnnl_bf16 : dnnl_f32;
}

// ---- Cutting ----

// Part of a dim: [begin, end) of `dim` of the result.
struct Range {
  size_t dim = 0;
  int64_t begin = 0, end = 0;
};

struct Cut {
  enum Side { kWhole, kRows, kFeatures } side = kWhole;  // what the pieces have of the weights
  size_t dim = 0;
  int64_t block = 1;
};

// Rows where the result has many, since all pieces then share the weights; else out features.
Cut choose_cut(const Problem& p, int64_t pieces) {
  const Sizes& d = p.dst.dims;
  if (p.convolution) {
    if (d[0] >= pieces) return {Cut::kRows, 0, 1};
    if (d[2] >= 2 * pieces) return {Cut::kRows, 2, 1};
    return {};
  }
  const size_t rows = d.size() - 2;
  if (d.size() == 3 && d[0] >= pieces) return {Cut::kRows, 0, 1};
  if (d[rows] >= d[rows + 1] && d[rows] >= pieces * kRowBlock) return {Cut::kRows, rows, kRowBlock};
  if (d[rows + 1] >= pieces * kFeatureBlock) return {Cut::kFeatures, rows + 1, kFeatureBlock};
  return {};
}

std::vector<Range> cut(const Problem& p, const Cut& how, int64_t pieces) {
  const int64_t extent = p.dst.dims[how.dim];
  if (how.side == Cut::kWhole || pieces < 2) return {{how.dim, 0, extent}};
  const int64_t blocks = (extent + how.block - 1) / how.block;
  std::vector<Range> ranges;
  for (int64_t i = 0; i < pieces; ++i) {
    const int64_t begin = blocks * i / pieces * how.block;
    const int64_t end = std::min(blocks * (i + 1) / pieces * how.block, extent);
    if (begin < end) ranges.push_back({how.dim, begin, end});
  }
  return ranges;
}

// Keeps [begin, end) of a dim.
void narrow(Operand* operand, size_t dim, int64_t begin, int64_t end) {
  operand->offset_bytes +=
      static_cast<uint64_t>(begin * operand->view.strides[dim]) * bytes_of(operand->view.dtype);
  operand->view.dims[dim] = end - begin;
}

// The borders of a convolution's piece.
struct Borders {
  Sizes low, high;
};

// The rows of the input that a range of rows of the result reads; the rest is border.
Status narrow_rows(const Problem& p, const Range& range, Operand* src, Borders* borders) {
  const size_t i = range.dim - 2,
               window_dim = p.weights.dims.size() - p.dst.dims.size() + range.dim;
  const int64_t extent = src->view.dims[range.dim];
  const int64_t first = range.begin * p.window_strides[i] - p.pad_low[i];
  const int64_t end = (range.end - 1) * p.window_strides[i] +
                      (p.weights.dims[window_dim] - 1) * p.dilations[i] + 1 - p.pad_low[i];
  const int64_t begin_row = std::max<int64_t>(first, 0), end_row = std::min(end, extent);
  if (begin_row >= end_row) return refuse("rows that see only the border");
  borders->low[i] = begin_row - first;
  borders->high[i] = end - end_row;
  narrow(src, range.dim, begin_row, end_row);
  return {};
}

// ---- Descriptions ----

class Maker {
 public:
  Maker(const Library& l, const Problem& p, bool create) : l_(l), p_(p), create_(create) {}

  Status make(const Cut& how, const Range& range, Piece* piece) {
    piece->src.view = p_.src;
    piece->weights.view = p_.weights;
    piece->dst.view = p_.dst;
    Borders borders = {p_.pad_low, p_.pad_high};
    narrow(&piece->dst, range.dim, range.begin, range.end);
    if (how.side == Cut::kFeatures) {
      narrow(&piece->weights, range.dim, range.begin, range.end);
      piece->bias_offset_bytes = static_cast<uint64_t>(range.begin) * bytes_of(p_.dst.dtype);
    } else if (how.side == Cut::kRows && p_.convolution && range.dim >= 2) {
      TENON_TRY(narrow_rows(p_, range, &piece->src, &borders));
    } else if (how.side == Cut::kRows) {
      narrow(&piece->src, range.dim, range.begin, range.end);
      if (!p_.convolution && range.dim == 0 && p_.dst.dims.size() == 3)
        narrow(&piece->weights, 0, range.begin, range.end);
    }
    for (Operand* operand : {&piece->src, &piece->weights, &piece->dst})
      TENON_TRY(describe(operand->view, &operand->given));
    TENON_TRY(make_desc(borders, piece));
    TENON_TRY(settle(piece));
    return create_ ? make_primitives(piece) : Status();
  }

 private:
  bool has(Step::Kind kind) const {
    return std::any_of(p_.steps.begin(), p_.steps.end(),
                       [&](const Step& s) { return s.kind == kind; });
  }

  Status describe(const View& view, dnnl_memory_desc_t* out) const {
    dnnl_dims_t dims, strides;
    std::copy(view.dims.begin(), view.dims.end(), dims);
    std::copy(view.strides.begin(), view.strides.end(), strides);
    return check(l_.dnnl_memory_desc_init_by_strides(out, static_cast<int>(view.dims.size()), dims,
                                                     type_of(view.dtype), strides),
                 "an array");
  }
  // The same dims, in whatever layout the library likes.
  Status any(const View& view, dnnl_memory_desc_t* out) const {
    dnnl_dims_t dims;
    std::copy(view.dims.begin(), view.dims.end(), dims);
    return check(l_.dnnl_memory_desc_init_by_tag(out, static_cast<int>(view.dims.size()), dims,
                                                 type_of(view.dtype), dnnl_format_tag_any),
                 "an array");
  }

  Status describe_bias(Piece* piece) const {
    if (!has(Step::kBias)) return {};
    const View& dst = piece->dst.view;
    View bias{dst.dtype, {p_.convolution ? dst.dims[1] : dst.dims.back()}, {1}};
    if (!p_.convolution) {
      bias.dims.insert(bias.dims.begin(), dst.dims.size() - 1, 1);
      bias.strides.insert(bias.strides.begin(), dst.dims.size() - 1, bias.dims.back());
    }
    return describe(bias, &piece->bias);
  }

  Status make_attributes(dnnl_primitive_attr_t attr) const {
    TENON_TRY(check(l_.dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user),
                    "a workspace"));
    dnnl_post_ops_t raw = nullptr;
    TENON_TRY(check(l_.dnnl_post_ops_create(&raw), "an epilogue"));
    const auto release = [&](dnnl_post_ops* ops) { l_.dnnl_post_ops_destroy(ops); };
    const std::unique_ptr<dnnl_post_ops, decltype(release)> ops(raw, release);
    for (const Step& step : p_.steps) {
      if (step.kind == Step::kAdd)
        TENON_TRY(check(l_.dnnl_post_ops_append_sum(raw, 1), "a sum after it"));
      if (step.kind == Step::kCurve)
        TENON_TRY(check(l_.dnnl_post_ops_append_eltwise(
                            raw, 1, step.curve, step.curve == dnnl_eltwise_swish ? 1.0f : 0.0f, 0),
                        "a function after it"));
    }
    return check(l_.dnnl_primitive_attr_set_post_ops(attr, raw), "an epilogue");
  }

  Status make_desc(const Borders& borders, Piece* piece) const {
    TENON_TRY(describe_bias(piece));
    dnnl_primitive_attr_t raw = nullptr;
    TENON_TRY(check(l_.dnnl_primitive_attr_create(&raw), "attributes"));
    const auto release = [&](dnnl_primitive_attr* a) { l_.dnnl_primitive_attr_destroy(a); };
    const std::unique_ptr<dnnl_primitive_attr, decltype(release)> attr(raw, release);
    TENON_TRY(make_attributes(raw));
    return p_.convolution ? make_convolution(borders, raw, piece) : make_product(raw, piece);
  }

  Status make_product(dnnl_primitive_attr_t attr, Piece* piece) const {
    dnnl_memory_desc_t weights = piece->weights.given;
    if (p_.weights_constant) TENON_TRY(any(piece->weights.view, &weights));
    dnnl_matmul_desc_t desc;
    TENON_TRY(check(
        l_.dnnl_matmul_desc_init(&desc, &piece->src.given, &weights,
                                 has(Step::kBias) ? &piece->bias : nullptr, &piece->dst.given),
        "a product"));
    return make_desc_of(&desc, attr, "a product of these types and layouts", piece);
  }

  Status make_convolution(const Borders& borders, dnnl_primitive_attr_t attr, Piece* piece) const {
    dnnl_memory_desc_t src, weights, dst;
    TENON_TRY(any(piece->src.view, &src));
    TENON_TRY(any(piece->weights.view, &weights));
    TENON_TRY(any(piece->dst.view, &dst));
    Sizes dilations = p_.dilations;  // the library counts what lies between
    for (int64_t& d : dilations) --d;
    dnnl_convolution_desc_t desc;
    TENON_TRY(check(l_.dnnl_dilated_convolution_forward_desc_init(
                        &desc, dnnl_forward_inference, dnnl_convolution_direct, &src, &weights,
                        has(Step::kBias) ? &piece->bias : nullptr, &dst, p_.window_strides.data(),
                        dilations.data(), borders.low.data(), borders.high.data()),
                    "a convolution"));
    return make_desc_of(&desc, attr, "a convolution of these types and sizes", piece);
  }

  Status make_desc_of(const_dnnl_op_desc_t desc, dnnl_primitive_attr_t attr, std::string_view what,
                      Piece* piece) const {
    dnnl_primitive_desc_t made = nullptr;
    TENON_TRY(check(l_.dnnl_primitive_desc_create(&made, desc, attr, l_.engine, nullptr), what));
    piece->desc = Desc(made, DescRelease{&l_});
    return {};
  }

  // Which arrays the primitive wants in another layout, and how much workspace that takes.
  Status settle(Piece* piece) const {
    const auto wanted = [&](dnnl_query_t what) {
      const dnnl_memory_desc_t* md = l_.dnnl_primitive_desc_query_md(piece->desc.get(), what, 0);
      return md == nullptr ? dnnl_memory_desc_t{} : *md;
    };
    piece->src.wanted = wanted(dnnl_query_src_md);
    piece->weights.wanted = wanted(dnnl_query_weights_md);
    piece->dst.wanted = wanted(dnnl_query_dst_md);
    piece->scratch = wanted(dnnl_query_scratchpad_md);
    for (Operand* o : {&piece->src, &piece->weights, &piece->dst}) {
      o->direct = l_.dnnl_memory_desc_equal(&o->given, &o->wanted) != 0;
      const bool packed = o == &piece->weights && p_.weights_constant;
      if (!o->direct && !packed)
        o->workspace_bytes = aligned(l_.dnnl_memory_desc_get_size(&o->wanted));
    }
    if (has(Step::kAdd)) TENON_TRY(describe(piece->dst.view, &piece->residual));
    return {};
  }

  Status make_primitives(Piece* piece) const {
    TENON_TRY(make_primitive(piece->desc.get(), &piece->primitive));
    if (!piece->src.direct)
      TENON_TRY(make_reorder(piece->src.given, piece->src.wanted, &piece->src.reorder));
    if (!piece->weights.direct)
      TENON_TRY(make_reorder(piece->weights.given, piece->weights.wanted, &piece->weights.reorder));
    if (!piece->dst.direct)
      TENON_TRY(make_reorder(piece->dst.wanted, piece->dst.given, &piece->dst.reorder));
    if (has(Step::kAdd))
      TENON_TRY(make_reorder(piece->residual, piece->dst.wanted, &piece->add_residual));
    return {};
  }
  Status make_primitive(dnnl_primitive_desc_t desc, Primitive* out) const {
    dnnl_primitive_t made = nullptr;
    TENON_TRY(check(l_.dnnl_primitive_create(&made, desc), "its code"));
    *out = Primitive(made, PrimitiveRelease{&l_});
    return {};
  }
  Status make_reorder(const dnnl_memory_desc_t& from, const dnnl_memory_desc_t& to,
                      Primitive* out) const {
    dnnl_primitive_desc_t made = nullptr;
    TENON_TRY(check(
        l_.dnnl_reorder_primitive_desc_create(&made, &from, l_.engine, &to, l_.engine, nullptr),
        "another layout of an array"));
    const Desc desc(made, DescRelease{&l_});
    return make_primitive(made, out);
  }

  const Library& l_;
  const Problem& p_;
  const bool create_;
};

// Pieces that want the weights alike share one packed form.
void place_packed(const Library& l, const Problem& p, const Cut& how, Pieces* out) {
  for (size_t i = 0; i < out->pieces.size(); ++i) {
    Piece& piece = out->pieces[i];
    const bool alike =
        i != 0 && how.side == Cut::kRows &&
        piece.weights.offset_bytes == out->pieces[0].weights.offset_bytes &&
        l.dnnl_memory_desc_equal(&piece.weights.wanted, &out->pieces[0].weights.wanted) != 0;
    if (!p.weights_constant || alike) continue;
    piece.packed_offset = out->packed_bytes;
    out->packed_bytes += aligned(l.dnnl_memory_desc_get_size(&piece.weights.wanted));
  }
}

void place_workspace(const Library& l, Pieces* out) {
  for (Piece& piece : out->pieces) {
    for (Operand* o : {&piece.src, &piece.weights, &piece.dst}) {
      o->workspace_offset = out->workspace_bytes;
      out->workspace_bytes += o->workspace_bytes;
      out->moved_bytes += 2 * static_cast<double>(o->workspace_bytes);
    }
    piece.scratch_offset = out->workspace_bytes;
    if (piece.scratch.ndims != 0)
      out->workspace_bytes += aligned(l.dnnl_memory_desc_get_size(&piece.scratch));
  }
}

}  // namespace

Status check(dnnl_status_t status, std::string_view what) {
  if (status == dnnl_success) return {};
  if (status == dnnl_unimplemented || status == dnnl_invalid_arguments)
    return refuse(cat("oneDNN does not have ", what, " on this processor"));
  if (status == dnnl_out_of_memory)
    return fail(TENON_RESOURCE_EXHAUSTED, cat("oneDNN has no memory for ", what));
  return fail(TENON_INTERNAL,
              cat("oneDNN failed with code ", static_cast<int>(status), " at ", what));
}

Status make_pieces(const Library& l, const Problem& problem, uint32_t threads, bool create,
                   Pieces* out) {
  const OneThread alone(l);
  const auto wanted = static_cast<int64_t>(
      std::clamp(problem.flops / kPieceFlops, 1.0, static_cast<double>(threads)));
  const Cut how = choose_cut(problem, wanted);
  for (const Range& range : cut(problem, how, wanted))
    TENON_TRY(Maker(l, problem, create).make(how, range, &out->pieces.emplace_back()));
  place_packed(l, problem, how, out);
  place_workspace(l, out);
  return {};
}

}  // namespace tenon::onednn
