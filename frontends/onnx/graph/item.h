// What an ONNX name refers to.
#ifndef FRONTENDS_ONNX_GRAPH_ITEM_H_
#define FRONTENDS_ONNX_GRAPH_ITEM_H_

#include <memory>
#include <utility>
#include <variant>

#include <tenon/cpp/graph.hpp>

#include "frontends/onnx/graph/extent.h"
#include "frontends/onnx/graph/weights.h"
#include "frontends/onnx/reader/model.h"

namespace tenon::onnx {

// One of three: a refused definition, an unused initializer, or a tensor. A tensor is made from
// data, from known integers, or from a value of the graph. The other forms are added when something
// needs them; none is ever replaced.
class Item {
 public:
  Item() = default;  // refused: its users report nothing
  static Item pending(const TensorProto& initializer) {
    Item out;
    out.is_ = &initializer;
    return out;
  }
  static Item of(std::shared_ptr<const Constant> constant, Dims dims) {
    const tenon_dtype_t dtype = constant->dtype;
    return Tensor{.dtype = dtype, .dims = std::move(dims), .constant = std::move(constant)};
  }
  // `elements` is row-major.
  static Item of(tenon_dtype_t dtype, Dims dims, Extents elements) {
    return Tensor{.dtype = dtype,
                  .dims = std::move(dims),
                  .elements = std::make_shared<Extents>(std::move(elements))};
  }
  static Item of(Value value) {
    return Tensor{.dtype = value.dtype(), .dims = value.dims(), .value = value};
  }
  // A value whose numbers are of `declared`, held in the value's own type (quantise.h).
  static Item held(Value value, tenon_dtype_t declared) {
    if (!value.valid()) return Item();
    return Tensor{.dtype = declared, .dims = value.dims(), .value = value};
  }
  // An input of the model, which has a value in each run.
  static Item of(Value value, const ValueProto& input) {
    return Tensor{.dtype = value.dtype(), .dims = value.dims(), .value = value, .input = &input};
  }

  bool refused() const { return std::holds_alternative<Refused>(is_); }
  const TensorProto* pending() const {
    const auto* initializer = std::get_if<const TensorProto*>(&is_);
    return initializer != nullptr ? *initializer : nullptr;
  }

  // Of a tensor; otherwise there is no type, no dims, nothing known. The value has another type
  // where the declared one is held in it.
  tenon_dtype_t dtype() const { return tensor().dtype; }
  const Dims& dims() const { return tensor().dims; }
  Value value() const { return tensor().value; }  // invalid until something needs it
  const Constant* constant() const { return tensor().constant.get(); }
  const Extents* elements() const { return tensor().elements.get(); }
  const ValueProto* input() const { return tensor().input; }

  // Adds a form to a tensor.
  void set_value(Value value) { std::get<Tensor>(is_).value = value; }
  void set_constant(std::shared_ptr<const Constant> constant) {
    std::get<Tensor>(is_).constant = std::move(constant);
  }
  void set_elements(Extents elements) {
    std::get<Tensor>(is_).elements = std::make_shared<Extents>(std::move(elements));
  }

 private:
  struct Refused {};
  struct Tensor {
    tenon_dtype_t dtype = TENON_DTYPE_NONE;
    Dims dims;
    Value value;
    std::shared_ptr<const Constant> constant;  // data from the file, or computed from it
    std::shared_ptr<const Extents> elements;
    const ValueProto* input = nullptr;
  };

  Item(Tensor tensor) : is_(std::move(tensor)) {}
  const Tensor& tensor() const {
    static const Tensor kNone;
    const auto* tensor = std::get_if<Tensor>(&is_);
    return tensor != nullptr ? *tensor : kNone;
  }

  std::variant<Refused, const TensorProto*, Tensor> is_;
};

}  // namespace tenon::onnx

#endif  // FRONTENDS_ONNX_GRAPH_ITEM_H_
