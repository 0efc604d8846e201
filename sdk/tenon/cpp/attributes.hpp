// The attributes that a call of inference or evaluation brings, by name. They stand in the order of
// the op's declaration, and always all of them.
#ifndef TENON_CPP_ATTRIBUTES_HPP_
#define TENON_CPP_ATTRIBUTES_HPP_

#include <span>
#include <string_view>

#include "tenon/abi/ops.h"
#include "tenon/cpp/status.hpp"

namespace tenon::inline sdk {

class Attributes {
 public:
  Attributes(const tenon_op_def_t* op, const tenon_attr_t* attrs, uint32_t count)
      : op_(op), attrs_(attrs), count_(count) {}

  // A zero of no kind where the op has none of that name.
  const tenon_attr_t& attr(std::string_view name) const {
    static constexpr tenon_attr_t kAbsent = {};
    for (uint32_t i = 0; i < count_; ++i) {
      if (view(tenon_op_attr(op_, i)->name) == name) return attrs_[i];
    }
    return kAbsent;
  }
  int64_t i64(std::string_view name) const { return attr(name).u.i; }
  double f64(std::string_view name) const { return attr(name).u.f; }
  tenon_dtype_t dtype(std::string_view name) const {
    return static_cast<tenon_dtype_t>(attr(name).u.i);
  }
  std::string_view text(std::string_view name) const { return view(attr(name).u.s); }
  std::span<const int64_t> i64s(std::string_view name) const {
    const tenon_attr_t& a = attr(name);
    return {a.u.is, static_cast<size_t>(a.count)};
  }
  std::span<const double> f64s(std::string_view name) const {
    const tenon_attr_t& a = attr(name);
    return {a.u.fs, static_cast<size_t>(a.count)};
  }

 private:
  const tenon_op_def_t* op_;
  const tenon_attr_t* attrs_;
  uint32_t count_;
};

}  // namespace tenon::inline sdk

#endif
