// Blocked layouts of ONNX Runtime (domain com.microsoft.nchwc). A blocked tensor keeps its dims,
// [batch, channels, height, width], with channels filled up to whole blocks; only the order of its
// elements differs. Here it is a plain tensor: reordering an input fills up its channels,
// reordering an output cuts them, and filters are put back into their order.
#include <array>

#include "frontends/onnx/ops/fused.h"

namespace tenon::onnx {
namespace {

constexpr std::string_view kNchwc = "com.microsoft.nchwc";

// Filters as blocks of output channels, within which lie the input channels or blocks of them, and
// the window.
Value plain_filters(NodeContext& n, int64_t groups) {
  const Value w = n.value(1);
  if (!n.ok() || !w.valid()) return Value();
  const Dims d = w.dims();
  const int64_t block = n.channel_block();
  for (const Dim size : d) {
    if (!size.is_constant()) return refuse(n, "blocked filters need constant dims", "T0714");
  }
  if (d.size() != 4) return refuse(n, "its filters need rank 4");
  const int64_t outputs = d[0].constant(), inputs = d[1].constant();
  const bool depthwise = groups > 1 && inputs == 1 && outputs == groups;
  const bool whole_inputs = depthwise || (groups == 1 && inputs < block);
  if (outputs % block != 0 || (!whole_inputs && inputs % block != 0))
    return refuse(n, cat("its filters are not whole blocks of ", block, " channels"));
  const Dim b = n.dim(block), blocks = n.dim(outputs / block);
  if (whole_inputs) {
    const Value rows = n.reshape(w, {blocks, d[1], d[2], d[3], b});
    return n.reshape(n.transpose(rows, {0, 4, 1, 2, 3}), d);
  }
  const Value tiles = n.reshape(w, {blocks, n.dim(inputs / block), d[2], d[3], b, b});
  return n.reshape(n.transpose(tiles, {0, 5, 1, 4, 2, 3}), d);
}

bool conv(NodeContext& n) {
  if (!n.arity(2, 4)) return false;
  return fused_convolution(n, n.value(0), plain_filters(n, n.integer("group", 1)));
}

bool reorder_input(NodeContext& n) {
  if (!n.arity(1, 1)) return false;
  if (n.rank(0) != 4) return n.fail("T0713", "its input needs rank 4");
  Value x = n.value(0);
  if (n.integer("channels_last", 0) != 0) x = n.transpose(x, {0, 3, 1, 2});
  if (!n.ok() || !x.valid()) return n.ok();
  const int64_t block = n.channel_block();
  if (!x.dims()[1].is_constant()) return n.fail("T0714", "its channels must be a constant dim");
  const int64_t lack = (block - x.dims()[1].constant() % block) % block;
  if (lack == 0) return n.set(0, x);
  return n.set(0, n.build("pad", {x, n.scalar(x.dtype(), 0)},
                          {{"low", {0, 0, 0, 0}}, {"high", {0, lack, 0, 0}}}));
}

bool reorder_output(NodeContext& n) {
  if (!n.arity(1, 1)) return false;
  if (n.rank(0) != 4) return n.fail("T0713", "its input needs rank 4");
  const int64_t channels = n.integer("channels", 0);
  const Value x = n.value(0);
  if (!n.ok() || !x.valid()) return n.ok();
  Dims limit = x.dims();
  if (channels < 1 || (limit[1].is_constant() && channels > limit[1].constant()))
    return n.fail("T0708",
                  cat("attribute 'channels' is ", channels, ", beyond those of its input"));
  Value y = x;
  if (!limit[1].is(channels)) {
    limit[1] = n.dim(channels);
    y = n.build("slice", {x}, {{"start", Dims(4, n.dim(0))}, {"limit", limit}});
  }
  if (n.integer("channels_last", 0) != 0 && y.valid()) y = n.transpose(y, {0, 2, 3, 1});
  return n.set(0, y);
}

constexpr auto kTable = std::to_array<OpImporter>({
    {"Conv", 1, conv, kNchwc},
    {"ReorderInput", 1, reorder_input, kNchwc},
    {"ReorderOutput", 1, reorder_output, kNchwc},
});

}  // namespace

std::span<const OpImporter> nchwc_importers() {
  return kTable;
}

}  // namespace tenon::onnx
