// Meshes of processes. The attribute `mesh` of an op that several processes compute together names
// the axes and their sizes, "data=2,model=3", and `axes` names those that the op works along,
// "model". Rank r of the mesh has the coordinates of r in row-major order: the last axis varies
// fastest. The ranks that differ only along `axes` are a group, ordered by these axes as `axes`
// lists them.
#ifndef TENON_CPP_MESH_HPP_
#define TENON_CPP_MESH_HPP_

#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/cpp/status.hpp"
#include "tenon/cpp/text.hpp"

namespace tenon::inline sdk {

class Mesh {
 public:
  static constexpr int64_t kRanksMax = 1 << 20;

  struct Axis {
    std::string name;
    int64_t size = 1;
  };

  // Returns why it is not a mesh; empty if it is one.
  static std::string parse(std::string_view text, Mesh* out) {
    *out = {};
    for (std::string_view part : tenon::text::split(text, ',')) {
      const size_t equals = part.find('=');
      Axis axis{std::string(part.substr(0, equals)), 0};
      if (equals != std::string_view::npos) read(part.substr(equals + 1), &axis.size);
      if (!is_name(axis.name) || axis.size < 1)
        return cat(quoted(part), " is not an axis and its size, as in data=2");
      if (out->index_of(axis.name) >= 0)
        return cat("the axis ", quoted(axis.name), " is there twice");
      if (axis.size > kRanksMax / out->rank_count())
        return cat("it has more than ", kRanksMax, " ranks");
      out->axes_.push_back(axis);
    }
    return out->axes_.empty() ? "it has no axis" : "";
  }

  const std::vector<Axis>& axes() const { return axes_; }
  int64_t rank_count() const {
    int64_t count = 1;
    for (const Axis& axis : axes_) count *= axis.size;
    return count;
  }
  // Indices of the axes that a list names, in its order. Returns why there are none, as parse does.
  std::string find(std::string_view list, std::vector<size_t>* out) const {
    out->clear();
    for (std::string_view name : tenon::text::split(list, ',')) {
      const int64_t index = index_of(name);
      if (index < 0) return cat("the mesh has no axis ", quoted(name));
      for (const size_t other : *out) {
        if (other == static_cast<size_t>(index))
          return cat("the axis ", quoted(name), " is named twice");
      }
      out->push_back(static_cast<size_t>(index));
    }
    return out->empty() ? "no axis is named" : "";
  }
  int64_t member_count(const std::vector<size_t>& axes) const {
    int64_t count = 1;
    for (const size_t axis : axes) count *= axes_[axis].size;
    return count;
  }
  // The ranks of the group of `rank` along `axes`, in its order.
  std::vector<int64_t> members(const std::vector<size_t>& axes, int64_t rank) const {
    std::vector<int64_t> out;
    for (int64_t m = 0; m < member_count(axes); ++m) {
      int64_t member = rank, rest = m;
      for (size_t i = axes.size(); i-- > 0;) {
        const int64_t size = axes_[axes[i]].size, step = stride(axes[i]);
        member += (rest % size - member / step % size) * step;
        rest /= size;
      }
      out.push_back(member);
    }
    return out;
  }
  // Where `rank` is in its group.
  int64_t position(const std::vector<size_t>& axes, int64_t rank) const {
    int64_t out = 0;
    for (const size_t axis : axes)
      out = out * axes_[axis].size + rank / stride(axis) % axes_[axis].size;
    return out;
  }

 private:
  static void read(std::string_view text, int64_t* out) {
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), *out);
    if (code != std::errc() || end != text.data() + text.size()) *out = 0;
  }
  static bool is_name(std::string_view name) {
    if (name.empty() || name.size() > 64) return false;
    for (const char c : name) {
      if ((c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_')
        return false;
    }
    return true;
  }
  int64_t index_of(std::string_view name) const {
    for (size_t i = 0; i < axes_.size(); ++i) {
      if (axes_[i].name == name) return static_cast<int64_t>(i);
    }
    return -1;
  }
  int64_t stride(size_t axis) const {
    int64_t out = 1;
    for (size_t i = axis + 1; i < axes_.size(); ++i) out *= axes_[i].size;
    return out;
  }

  std::vector<Axis> axes_;
};

}  // namespace tenon::inline sdk

#endif
