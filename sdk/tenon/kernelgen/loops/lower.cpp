// Picks the lowering for the shape of a schedule.
#include "tenon/kernelgen/loops/lower_internal.h"

namespace tenon::kernelgen {
namespace {

using Lowering = bool (*)(Emitter& e, const Schedule& schedule, std::string* why);

Lowering loops_of(const Schedule& schedule) {
  if (schedule.together)
    return schedule.shape == Shape::kContraction ? lower_group_contraction : lower_group_rows;
  if (schedule.wide > 1) return lower_wide_items;
  if (schedule.lines) return lower_lines;
  switch (schedule.shape) {
    case Shape::kContraction:
      return lower_contraction;
    case Shape::kConvolution:
      return lower_convolution;
    case Shape::kOrdered:
      return lower_ordered;
    case Shape::kAttention:
      return lower_attention;
    case Shape::kPointwise:
    case Shape::kRowReduction:
    case Shape::kColumnReduction:
    case Shape::kTranspose:
      break;
  }
  return lower_rows;
}

}  // namespace

bool lower(Prepared& prepared, const Schedule& schedule, LoopTree* out, std::string* why) {
  out->extent_count = static_cast<uint32_t>(prepared.kernel.pool.extents().size());
  out->lanes = schedule.lanes;
  out->values.push_back({TENON_I64, 1});
  out->values.push_back({TENON_I64, 1});
  out->begin = 0;
  out->end = 1;
  Emitter e(prepared, out);
  out->group = schedule.group;
  out->together = schedule.together;
  if (!loops_of(schedule)(e, schedule, why)) return false;
  out->body = e.close();
  return true;
}

}  // namespace tenon::kernelgen
