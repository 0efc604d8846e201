// nms and roi_align: selection of boxes, and samples at positions between elements.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "native/native_ops.h"
#include "tenon/cpp/plugin.hpp"

namespace tenon::cpu {
namespace {

int64_t bits_of(double v) {
  return std::bit_cast<int64_t>(v);
}
double double_of(int64_t bits) {
  return std::bit_cast<double>(bits);
}

// Reads [begin, end) of a float array, widened to double.
void read_doubles(const NativeArray& x, int64_t begin, int64_t end, double* out) {
  (void)with_native_type(x.dtype, [&](auto type) {
    const auto* at = x.as<decltype(type)>();
    for (int64_t i = begin; i < end; ++i) *out++ = static_cast<double>(number(at[i]));
  });
}

// ---- nms ----

std::vector<int64_t> nms_parameters(const Node& node) {
  return {node.i64("most"), bits_of(node.f64("overlap")), bits_of(node.f64("score")),
          node.text("form") == "center" ? 1 : 0};
}

bool takes_nms(const NativeSignature& s) {
  return s.inputs.size() == 2 && s.outputs.size() == 1 && s.parameters.size() == 4 &&
         s.inputs[0].rank == 3 && s.inputs[1].rank == 3 && is_float(s.inputs[0].dtype) &&
         is_float(s.inputs[1].dtype) && s.outputs[0].rank == 2 && s.outputs[0].dtype == TENON_I64;
}

struct Box {
  double y1, x1, y2, x2, area;
};

Box box_of(const double v[4], bool center) {
  Box b = center ? Box{v[1] - v[3] / 2, v[0] - v[2] / 2, v[1] + v[3] / 2, v[0] + v[2] / 2, 0}
                 : Box{std::min(v[0], v[2]), std::min(v[1], v[3]), std::max(v[0], v[2]),
                       std::max(v[1], v[3]), 0};
  b.area = (b.y2 - b.y1) * (b.x2 - b.x1);
  return b;
}

double overlap(const Box& a, const Box& b) {
  const double h = std::min(a.y2, b.y2) - std::max(a.y1, b.y1),
               w = std::min(a.x2, b.x2) - std::max(a.x1, b.x1);
  if (h <= 0 || w <= 0) return 0;
  const double both = a.area + b.area - h * w;
  return both > 0 ? h * w / both : 0;
}

// For one class: indices of boxes by falling score, without those that overlap a better one.
Status choose(std::span<const Box> boxes, std::span<const double> scores,
              std::span<const int64_t> parameters, std::vector<int64_t>* out) {
  const double most_overlap = double_of(parameters[1]), least_score = double_of(parameters[2]);
  std::vector<int64_t> order;
  for (size_t i = 0; i < scores.size(); ++i) {
    if (scores[i] > least_score) order.push_back(static_cast<int64_t>(i));
  }
  const auto score = [&](int64_t i) { return scores[static_cast<size_t>(i)]; };
  std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return score(a) != score(b) ? score(a) > score(b) : a < b;
  });
  std::vector<Box> kept;
  for (int64_t i : order) {
    if (static_cast<int64_t>(kept.size()) >= parameters[0]) break;
    if ((out->size() & 255) == 255 && cancelled())
      return fail(TENON_CANCELLED, "T0001: The run was cancelled.");
    const Box& box = boxes[static_cast<size_t>(i)];
    const bool apart =
        std::ranges::all_of(kept, [&](const Box& k) { return overlap(box, k) <= most_overlap; });
    if (!apart) continue;
    kept.push_back(box);
    out->push_back(i);
  }
  return {};
}

Status run_nms(NativeCall& call) {
  const NativeArray &boxes = call.inputs[0], &scores = call.inputs[1];
  const int64_t batches = scores.dims[0], classes = scores.dims[1], count = scores.dims[2];
  std::vector<std::vector<int64_t>> chosen(static_cast<size_t>(batches * classes));
  TENON_TRY(native_parallel(batches * classes, 1, [&](int64_t begin, int64_t end) -> Status {
    std::vector<double> numbers(static_cast<size_t>(count) * 4), own(static_cast<size_t>(count));
    std::vector<Box> made;
    int64_t made_for = -1;
    for (int64_t item = begin; item < end; ++item) {
      if (item / classes != made_for) {
        made_for = item / classes;
        made.clear();
        read_doubles(boxes, made_for * count * 4, (made_for + 1) * count * 4, numbers.data());
        for (int64_t i = 0; i < count; ++i)
          made.push_back(box_of(numbers.data() + i * 4, call.parameters[3] != 0));
      }
      read_doubles(scores, item * count, (item + 1) * count, own.data());
      TENON_TRY(choose(made, own, call.parameters, &chosen[static_cast<size_t>(item)]));
    }
    return {};
  }));
  int64_t found = 0;
  for (const auto& list : chosen) found += static_cast<int64_t>(list.size());
  int64_t* out = nullptr;
  TENON_TRY(call.make(0, {found, 3}, &out));
  for (int64_t item = 0; item < batches * classes; ++item) {
    for (int64_t box : chosen[static_cast<size_t>(item)]) {
      *out++ = item / classes;
      *out++ = item % classes;
      *out++ = box;
    }
  }
  return {};
}

// ---- roi_align ----

std::vector<int64_t> roi_parameters(const Node& node) {
  std::vector<int64_t> out = {bits_of(node.f64("scale")), node.i64("half_pixel"),
                              node.text("kind") == "max" ? 1 : 0, node.i64("samples")};
  for (int64_t size : node.i64s("sizes")) out.push_back(size);
  return out;
}

bool takes_roi(const NativeSignature& s) {
  return s.inputs.size() == 3 && s.outputs.size() == 1 && s.parameters.size() == 6 &&
         s.inputs[0].rank == 4 && s.inputs[1].rank == 2 && s.inputs[2].rank == 1 &&
         s.outputs[0].rank == 4 && is_float(s.inputs[0].dtype) &&
         s.outputs[0].dtype == s.inputs[0].dtype && is_float(s.inputs[1].dtype) &&
         is_int(s.inputs[2].dtype) && s.parameters[3] >= 0 && s.parameters[3] <= 65536 &&
         std::ranges::all_of(std::span(s.parameters).subspan(4),
                             [](int64_t size) { return size >= 1 && size <= 65536; });
}

// A position along one dim: its two neighbours and the distance from the first. None outside.
struct Along {
  int64_t low = 0, high = 0;
  double part = 0;
  bool inside = false;
};

// The samples of one bin: `count` positions that divide [begin, begin + size) evenly.
void places_along(double begin, int64_t bin, double size, int64_t count, int64_t n,
                  std::vector<Along>* out) {
  out->clear();
  for (int64_t i = 0; i < count; ++i) {
    const double v = begin + (static_cast<double>(bin) +
                              (static_cast<double>(i) + 0.5) / static_cast<double>(count)) *
                                 size;
    Along a;
    a.inside = n > 0 && v >= -1 && v <= static_cast<double>(n);
    if (a.inside) {
      const double from = std::max(v, 0.0);
      a.low = static_cast<int64_t>(from);
      a.high = a.low + 1;
      if (a.low >= n - 1) {
        a.low = a.high = n - 1;
      } else {
        a.part = from - static_cast<double>(a.low);
      }
    }
    out->push_back(a);
  }
}

struct Bin {
  std::vector<Along> rows, columns;
};

template <class T>
Status summarise(const T* x, int64_t width, const Bin& bin, bool most, double* out) {
  double sum = 0;
  bool first = true;
  for (const Along& r : bin.rows) {
    if (bin.columns.size() > 4096 && cancelled())
      return fail(TENON_CANCELLED, "T0001: The run was cancelled.");
    for (const Along& c : bin.columns) {
      double parts[4] = {};
      if (r.inside && c.inside) {
        const double weights[] = {(1 - r.part) * (1 - c.part), (1 - r.part) * c.part,
                                  r.part * (1 - c.part), r.part * c.part};
        const int64_t at[] = {r.low * width + c.low, r.low * width + c.high, r.high * width + c.low,
                              r.high * width + c.high};
        for (int k = 0; k < 4; ++k) parts[k] = weights[k] * static_cast<double>(number(x[at[k]]));
      }
      for (double part : parts) {
        sum = !most ? sum + part : first ? part : std::max(sum, part);
        first = false;
      }
    }
  }
  *out =
      most ? sum : sum / std::max(1.0, static_cast<double>(bin.rows.size() * bin.columns.size()));
  return {};
}

// One region, placed on x according to the op's attributes.
struct Roi {
  double y = 0, x = 0, bin_height = 0, bin_width = 0;
  int64_t batch = 0, rows = 0, columns = 0;
};

Roi roi_of(const NativeCall& call, int64_t index, int64_t bins_high, int64_t bins_wide) {
  const double scale = double_of(call.parameters[0]), shift = call.parameters[1] != 0 ? 0.5 : 0;
  double v[4];
  read_doubles(call.inputs[1], index * 4, index * 4 + 4, v);
  for (double& at : v) at = at * scale - shift;
  double h = v[3] - v[1], w = v[2] - v[0];
  if (shift == 0) {
    h = std::max(h, 1.0);
    w = std::max(w, 1.0);
  }
  Roi out = {v[1], v[0], h / static_cast<double>(bins_high), w / static_cast<double>(bins_wide)};
  const auto samples = [&](double size) {
    return call.parameters[3] > 0
               ? call.parameters[3]
               : std::clamp<int64_t>(saturate<int64_t>(std::ceil(size)), 0, 65536);
  };
  out.rows = samples(out.bin_height);
  out.columns = samples(out.bin_width);
  const NativeArray& batches = call.inputs[2];
  out.batch = load_int(batches.dtype, batches.data + index * dtype_bytes(batches.dtype));
  return out;
}

template <class T>
Status align(const NativeCall& call, std::span<const int64_t> dims, char* y) {
  const NativeArray& x = call.inputs[0];
  const int64_t channels = dims[1], bins_high = dims[2], bins_wide = dims[3], height = x.dims[2],
                width = x.dims[3];
  const int64_t bins = bins_high * bins_wide;
  const bool most = call.parameters[2] != 0;
  const int64_t grain = std::max<int64_t>(1, 4096 / std::max<int64_t>(channels, 1));
  return native_parallel(dims[0] * bins, grain, [&](int64_t begin, int64_t end) -> Status {
    Bin bin;
    for (int64_t item = begin; item < end; ++item) {
      const int64_t index = item / bins, row = item % bins / bins_wide, column = item % bins_wide;
      const Roi roi = roi_of(call, index, bins_high, bins_wide);
      if (roi.batch < 0 || roi.batch >= x.dims[0]) {
        return fail(TENON_OUT_OF_RANGE, cat(call.place, ": region ", index, " names the batch ",
                                            roi.batch, ", x has ", x.dims[0], "."));
      }
      places_along(roi.y, row, roi.bin_height, roi.rows, height, &bin.rows);
      places_along(roi.x, column, roi.bin_width, roi.columns, width, &bin.columns);
      for (int64_t c = 0; c < channels; ++c) {
        double value = 0;
        TENON_TRY(summarise(x.as<T>() + (roi.batch * channels + c) * height * width, width, bin,
                            most, &value));
        const int64_t at = (index * channels + c) * bins + item % bins;
        store_double(x.dtype, y + at * dtype_bytes(x.dtype), value);
      }
    }
    return {};
  });
}

Status run_roi(NativeCall& call) {
  const int64_t dims[] = {call.inputs[1].dims[0], call.inputs[0].dims[1], call.parameters[4],
                          call.parameters[5]};
  char* y = nullptr;
  TENON_TRY(call.make(0, std::span<const int64_t>(dims), &y));
  switch (call.inputs[0].dtype) {
    case TENON_F16:
      return align<Half>(call, dims, y);
    case TENON_BF16:
      return align<Brain>(call, dims, y);
    case TENON_F32:
      return align<float>(call, dims, y);
    default:
      return align<double>(call, dims, y);
  }
}

}  // namespace

std::span<const NativeOp> native_regions() {
  static constexpr NativeOp kTable[] = {
      {"nms", nms_parameters, takes_nms, run_nms},
      {"roi_align", roi_parameters, takes_roi, run_roi},
  };
  return kTable;
}

}  // namespace tenon::cpu
