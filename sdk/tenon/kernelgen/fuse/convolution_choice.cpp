#include "tenon/kernelgen/fuse/convolution_choice.h"

#include <algorithm>

#include "tenon/kernelgen/fuse/layout_internal.h"
#include "tenon/kernelgen/schedule/contraction.h"

namespace tenon::kernelgen {
namespace {

constexpr double kTapsMost = 2048;  // of the table that holds the positions of a filter

class Chooser {
 public:
  Chooser(Kernel& k, const Target& t, const Stage& s)
      : p_(k.pool), t_(t), s_(s), load_(operand(p_, s.b)), channels_(at(s.x_channel)) {}

  ConvolutionChoice choose() {
    out_.axes = contract_axes(p_, s_);
    for (uint32_t a : s_.reduce) (p_.uses_axis(channels_, a) ? out_.in : out_.spatial).push_back(a);
    const bool depthwise = out_.axes.only_a.empty() && out_.axes.both.size() == 1 &&
                           out_.in.empty() && side_by_side(out_.axes.both[0]);
    const bool integers = p_.type(s_.a) == TENON_I32;
    if (integers && !depthwise) out_.steps = channel_steps();
    if (const char* why = untiled(depthwise, integers)) {
      out_.reason = std::string("as a product: ") + why;
      return out_;
    }
    out_.form = depthwise ? ConvolutionForm::kDepthwise : ConvolutionForm::kTiles;
    out_.reason = depthwise ? "lanes along channels: each channel has its own filter"
                            : "register tiles of pixels by columns";
    return out_;
  }

 private:
  ExprId at(int32_t dim) const { return p_.args(load_)[2 + static_cast<size_t>(dim)]; }

  // Why tiles cannot compute it; null if they can.
  const char* untiled(bool depthwise, bool integers) const {
    if (!depthwise && widest_column(p_, s_, out_.axes.only_a) == ~0u)
      return "the output channels have no dim of the result for themselves";
    if (out_.in.size() > 1) return "its input channels run along several axes";
    // One pixel is a matrix-vector product, which is best read along its rows.
    if (out_.axes.only_b.empty()) return "one pixel, a product of a matrix and a vector";
    if (!known()) return "its filter has an unknown size, or too many positions";
    if (integers && !depthwise && out_.steps == 1)
      return "its channels do not fill the words in which integers are multiplied";
    return nullptr;
  }

  // Whether neighbours along the axis are neighbouring channels of the input, and nothing else
  // depends on it, so that lanes can load them as one vector. Reversed, strided or repeated
  // channels do not qualify.
  bool side_by_side(uint32_t axis) const {
    const std::vector<ExprId> args(p_.args(load_).begin(), p_.args(load_).end());
    if (args[0] != kNone && p_.uses_axis(args[0], axis)) return false;
    const uint32_t axes[] = {axis};
    for (size_t d = 0; d + 2 < args.size(); ++d) {
      std::vector<ExprId> c;
      ExprId rest;
      const bool channels = static_cast<int32_t>(d) == s_.x_channel;
      if (!channels && p_.uses_axis(args[d + 2], axis)) return false;
      if (channels && (!p_.affine(args[d + 2], axes, &c, &rest) || !p_.is_const(c[0], 1)))
        return false;
    }
    return true;
  }

  // Whether the filter has a known size, small enough for a table of its taps.
  bool known() const {
    double taps = 1;
    for (uint32_t a : out_.spatial) taps *= static_cast<double>(likely_size(p_, extent(a)));
    return taps <= kTapsMost && std::all_of(s_.reduce.begin(), s_.reduce.end(), [&](uint32_t a) {
             return p_.value(extent(a)).has_value();
           });
  }

  uint32_t channel_steps() const {
    if (out_.in.size() != 1) return 1;
    const int64_t channels = p_.value(extent(out_.in[0])).value_or(1);
    const auto fits = [&](uint32_t steps) { return channels % steps == 0; };
    const uint32_t steps = steps_of(t_, p_.type(s_.a), p_.type(operand(p_, s_.a)), p_.type(load_));
    if (fits(steps)) return steps;
    return steps == 4 && fits(2) ? 2 : 1;
  }

  ExprId extent(uint32_t axis) const { return p_.axes()[axis].extent; }

  Pool& p_;
  const Target& t_;
  const Stage& s_;
  ExprId load_, channels_;
  ConvolutionChoice out_;
};

}  // namespace

ConvolutionChoice choose_convolution(Kernel& kernel, const Target& target, const Stage& stage) {
  return Chooser(kernel, target, stage).choose();
}

}  // namespace tenon::kernelgen
