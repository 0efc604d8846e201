// Shared by the ops that several processes compute together: their attributes, and groups of ranks.
//
// An operand is what one process has, and the result what it gets. `stack` gives the meaning: the
// values of all N processes of the mesh with a new dim 0. There, `grouped` splits N into G groups
// of M members each, so that an op works along dim 1.
#ifndef TENON_PLUGINS_OPS_COLLECTIVE_H_
#define TENON_PLUGINS_OPS_COLLECTIVE_H_

#include "common.h"
#include "tenon/cpp/mesh.hpp"

namespace tenon::ops {

inline constexpr std::string_view kMeshRule = "mesh has names of axes and sizes of at least 1";
inline constexpr std::string_view kAxesRule = "axes are distinct axes of the mesh";

// Never computed again and never folded: all processes must agree on how often it runs.
inline constexpr uint64_t kCollective = kPrimitive | TENON_TRAIT_NO_RECOMPUTE;

constexpr tenon_attr_def_t mesh_attr() {
  return {str("mesh"),
          str("the mesh of processes, as in \"data=2,model=3\""),
          TENON_ATTR_STRING,
          TENON_ATTR_REQUIRED,
          0,
          0,
          {},
          {}};
}
constexpr tenon_attr_def_t axes_attr() {
  return {str("axes"),
          str("the axes of the mesh along which the processes of a group lie, separated by commas; "
              "the first varies slowest"),
          TENON_ATTR_STRING,
          TENON_ATTR_REQUIRED,
          0,
          0,
          {},
          {}};
}
constexpr tenon_attr_def_t combine_attr() {
  return {str("kind"),
          str("how the elements of the processes are combined; with a NaN, min and max "
              "give NaN"),
          TENON_ATTR_STRING,
          0,
          0,
          0,
          str("sum"),
          str("sum|min|max")};
}

class Group {
 public:
  // Returns why the attributes are refused: the label of the rule, and the reason.
  std::pair<std::string_view, std::string> read(std::string_view mesh, std::string_view axes) {
    if (std::string why = Mesh::parse(mesh, &mesh_); !why.empty()) return {"M1", why};
    if (std::string why = mesh_.find(axes, &axes_); !why.empty()) return {"M2", why};
    return {};
  }
  // Of a node: its inference has checked the attributes.
  static Group of(const Node& node) {
    Group group;
    (void)group.read(node.text("mesh"), node.text("axes"));
    return group;
  }

  const Mesh& mesh() const { return mesh_; }
  int64_t members() const { return mesh_.member_count(axes_); }

  // [N, ...] as [G, M, ...].
  Value grouped(Builder& b, Value x) const {
    Dims apart;
    for (const Mesh::Axis& axis : mesh_.axes()) apart.push_back(b.dim(axis.size));
    const Dims rest = tail(x, 1);
    apart.insert(apart.end(), rest.begin(), rest.end());
    const Value turned = transposed(b, reshaped(b, x, apart), order(rest.size()));
    Dims together = {b.dim(mesh_.rank_count() / members()), b.dim(members())};
    together.insert(together.end(), rest.begin(), rest.end());
    return reshaped(b, turned, together);
  }
  // The inverse: [G, M, ...] as [N, ...].
  Value stacked(Builder& b, Value x) const {
    const Dims rest = tail(x, 2);
    const Axes turn = order(rest.size());
    Dims apart;
    Axes back(turn.size());
    for (size_t i = 0; i < turn.size(); ++i)
      back[static_cast<size_t>(turn[i])] = static_cast<int64_t>(i);
    for (size_t i = 0; i < mesh_.axes().size(); ++i)
      apart.push_back(b.dim(mesh_.axes()[static_cast<size_t>(turn[i])].size));
    apart.insert(apart.end(), rest.begin(), rest.end());
    Dims together = {b.dim(mesh_.rank_count())};
    together.insert(together.end(), rest.begin(), rest.end());
    return reshaped(b, transposed(b, reshaped(b, x, apart), back), together);
  }
  // One value for each group, [G, ...], as that of every member: [N, ...].
  Value for_all(Builder& b, Value x) const {
    Dims shape = x.dims();
    shape.insert(shape.begin() + 1, b.dim(members()));
    Axes kept = {0};
    for (int64_t i = 2; i < static_cast<int64_t>(shape.size()); ++i) kept.push_back(i);
    return stacked(b, b.broadcast(x, shape, kept));
  }

  static Value reshaped(Builder& b, Value x, const Dims& shape) {
    return x.dims() == shape ? x : b.build("reshape", {x}, {{"shape", shape}});
  }
  static Value transposed(Builder& b, Value x, const Axes& perm) {
    return is_identity(perm) ? x : b.build("transpose", {x}, {{"perm", perm}});
  }
  static Dims tail(Value x, size_t from) {
    const Dims dims = x.dims();
    return Dims(dims.begin() + static_cast<std::ptrdiff_t>(from), dims.end());
  }

 private:
  // The axes of the mesh that are not the group's, then the group's, then `more` dims.
  Axes order(size_t more) const {
    const Axes own(axes_.begin(), axes_.end());
    const auto count = static_cast<int64_t>(mesh_.axes().size());
    Axes out = others(count, own);
    out.insert(out.end(), own.begin(), own.end());
    for (size_t i = 0; i < more; ++i) out.push_back(count + static_cast<int64_t>(i));
    return out;
  }

  Mesh mesh_;
  std::vector<size_t> axes_;
};

inline Status read_group(const InferQuery& q, Group* out) {
  const auto [label, why] = out->read(q.text("mesh"), q.text("axes"));
  return why.empty() ? Status() : q.fail(label, why);
}

// Dim d of the result is `factor` times that of x, or a `divisor`th of it.
inline Status infer_scaled(const InferQuery& q, int64_t dim, int64_t factor, int64_t divisor) {
  Dims dims = q.dims(0);
  Dim& d = dims[static_cast<size_t>(dim)];
  d = d * q.constant(factor) / q.constant(divisor);
  return q.result(q.dtype(0), dims);
}
// Requires that a dim of x can be divided among the members.
inline Status require_divisible(const InferQuery& q, std::string_view label, int64_t dim,
                                int64_t members) {
  const Dim d = q.dim(0, static_cast<uint32_t>(dim)), m = q.constant(members);
  return q.require(label, TENON_REL_EQ, d / m * m, d,
                   cat("dim ", dim, ", as a multiple of the ", members, " members,"));
}

// The op with the same mesh and axes.
inline Value together(Builder& b, const Node& node, std::string_view op, Value x,
                      std::initializer_list<Attr> more = {}) {
  Attrs attrs = {Attr("mesh", node.text("mesh")), Attr("axes", node.text("axes"))};
  attrs.insert(attrs.end(), more.begin(), more.end());
  return b.build_node(op, std::vector<Value>{x}, attrs).result(0);
}

// The op along dim 0, between two transpositions: engines move whole rows. Invalid if it works
// along dim 0 already.
inline Value in_front(Builder& b, const Node& node, std::string_view attribute) {
  const int64_t dim = node.i64(attribute);
  if (dim == 0) return {};
  const auto rank = static_cast<int64_t>(node.operand(0).rank());
  Axes front = {dim}, back(static_cast<size_t>(rank));
  for (const int64_t i : others(rank, front)) front.push_back(i);
  for (int64_t i = 0; i < rank; ++i) back[static_cast<size_t>(front[static_cast<size_t>(i)])] = i;
  Attrs attrs = attributes_of(node, {attribute});
  attrs.push_back(Attr(attribute, 0));
  const std::vector<Value> moved = {Group::transposed(b, node.operand(0), front)};
  return Group::transposed(b, b.build_node(node.op(), moved, attrs).result(0), back);
}

// The combination of the members of each group: [G, M, ...] as [G, ...].
inline Value combined(Builder& b, std::string_view kind, Value x) {
  return reduce(b, cat("reduce_", kind), x, Axes{1});
}

// For minima and maxima: 1 divided by the number of members whose element is the result, where that
// of this process is; else 0.
inline Value share_of(Builder& b, const Node& node, Value x, Value result) {
  const Value is_chosen = b.build("compare", {x, result}, {{"direction", TENON_CMP_EQ}});
  const Value one = b.convert(is_chosen, x.dtype());
  return b.build("div", {one, together(b, node, "all_reduce", one)});
}

// The meaning for a mesh of one process, where a transfer moves nothing.
inline Status alone(std::string_view mesh_text, const Eval& e, bool* out_alone) {
  Mesh mesh;
  (void)Mesh::parse(mesh_text, &mesh);
  *out_alone = mesh.rank_count() == 1;
  if (*out_alone) return {};
  return fail(TENON_FAILED_PRECONDITION,
              cat("T0903: ", view(e.raw().op->name), " is computed by the ", mesh.rank_count(),
                  " processes of the mesh ", quoted(mesh_text),
                  " together, and one process alone computes it here: outside of loops and "
                  "branches, the device mesh connects the processes"));
}
inline Status same_alone(const Eval& e) {
  bool is_alone = false;
  TENON_TRY(alone(e.text("mesh"), e, &is_alone));
  const Array x = e.input(0), y = e.output();
  each_index(y.dims(), [&](const Index& i) { y.copy_from(i, x, i); });
  return {};
}

}  // namespace tenon::ops

#endif
