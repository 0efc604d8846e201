#include "frontends/python/native/arrays/tensor.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <utility>

#include "frontends/python/native/arrays/capsules.h"
#include "frontends/python/native/arrays/device_memory.h"
#include "frontends/python/native/arrays/numpy_arrays.h"
#include "frontends/python/native/arrays/scalars.h"
#include "frontends/python/native/host/guarded.h"
#include "frontends/python/native/host/host.h"
#include "tenon/cpp/elements.hpp"
#include "tenon/cpp/record.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace tenon::python {
namespace {

void drop_tensor(tenon_tensor_t* tensor) {
  // A library may free an array on a thread without the GIL, which then blocks no other thread.
  if (PyGILState_Check() != 0) {
    release_tensor(tensor);
  } else {
    g_tables.call->tensor_release(g_tables.call->self, tensor);
  }
}

// ---- Making tensors ----

// What a wrapped array keeps alive until the host needs its memory no more.
struct Lent {
  Argument argument;
  PyObject* object = nullptr;
  std::shared_ptr<Loan> loan = std::make_shared<Loan>();
  ~Lent() {
    loan->object = nullptr;
    argument.release();
    Py_XDECREF(object);
  }
};

void end_loan(Lent* lent) {
  delete lent;
}

tenon_tensor_t* copy_of(const tenon_array_t& array, const std::string& device) {
  tenon_tensor_t* tensor = nullptr;
  ask([&] {
    return g_tables.call->tensor_copy(g_tables.call->self, &array, text(device), &tensor);
  });
  return tensor;
}

// A new tensor of the host, and whose memory it uses.
struct Made {
  tenon_tensor_t* tensor;
  std::shared_ptr<Loan> loan;
};

Made wrapped(std::unique_ptr<Lent> lent) {
  const tenon_array_t array = lent->argument.array;
  std::shared_ptr<Loan> loan = lent->loan;
  loan->object = lent->object;
  PyObject* capsule = capsule_with<end_loan>(lent.release(), "tenon.lent").release().ptr();
  tenon_tensor_t* tensor = nullptr;
  const auto give_back = [](void* context) { drop_later(static_cast<PyObject*>(context)); };
  const tenon_code_t code = without_gil([&] {
    return g_tables.call->tensor_wrap(g_tables.call->self, &array, capsule, give_back, &tensor);
  });
  if (code != TENON_OK) {
    Py_DECREF(capsule);
    raise_failure(code);
  }
  return {tensor, std::move(loan)};
}

Made tensor_from(nb::object value, const std::optional<std::string>& device, bool copy) {
  auto lent = std::make_unique<Lent>();
  const Expected expected{"the value", TENON_DTYPE_NONE, 0, true};
  lent->argument.read_owning(value.ptr(), expected);
  if (lent->argument.tensor != nullptr) {
    tenon_array_t array = sized<tenon_array_t>();
    ask([&] {
      return g_tables.call->tensor_array(g_tables.call->self, lent->argument.tensor, &array);
    });
    return {copy_of(array, device.value_or("")), nullptr};
  }
  const bool is_scalar = lent->argument.kind == Kind::kNone && lent->argument.array.rank == 0;
  if (copy || device || is_scalar || lent->argument.array.strides_bytes != nullptr)
    return {copy_of(lent->argument.array, device.value_or("")), nullptr};
  lent->object = value.release().ptr();
  return wrapped(std::move(lent));
}

// ---- As other arrays ----

const char* format_of(tenon_dtype_t dtype) {
  switch (dtype) {
    case TENON_PRED:
      return "?";
    case TENON_I8:
      return "b";
    case TENON_I16:
      return "h";
    case TENON_I32:
      return "i";
    case TENON_I64:
      return "q";
    case TENON_U8:
      return "B";
    case TENON_U16:
      return "H";
    case TENON_U32:
      return "I";
    case TENON_U64:
      return "Q";
    case TENON_F16:
      return "e";
    case TENON_F32:
      return "f";
    case TENON_F64:
      return "d";
    case TENON_C64:
      return "Zf";
    case TENON_C128:
      return "Zd";
    default:
      return nullptr;
  }
}

struct BufferRoom {
  std::vector<Py_ssize_t> dims, strides;
};

// The tensor's memory as a buffer without owner. Raises.
void fill_buffer(const Tensor& tensor, const char* format, int flags, Py_buffer* view) {
  auto room = std::make_unique<BufferRoom>();
  Py_ssize_t step = dtype_bits(tensor.dtype()) / 8;
  room->dims.assign(tensor.dims().begin(), tensor.dims().end());
  room->strides.resize(room->dims.size());
  for (size_t i = room->dims.size(); i-- > 0; step *= room->dims[i]) room->strides[i] = step;
  view->buf = const_cast<void*>(tensor.data());
  view->len = static_cast<Py_ssize_t>(tensor.bytes());
  view->readonly = 1;
  view->itemsize = dtype_bits(tensor.dtype()) / 8;
  view->format = (flags & PyBUF_FORMAT) != 0 ? const_cast<char*>(format) : nullptr;
  view->ndim = static_cast<int>(room->dims.size());
  view->shape = (flags & PyBUF_ND) != 0 ? room->dims.data() : nullptr;
  view->strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? room->strides.data() : nullptr;
  view->suboffsets = nullptr;
  view->internal = room.release();
}

int get_buffer(PyObject* self, Py_buffer* view, int flags) noexcept {
  auto* tensor = nb::inst_ptr<Tensor>(self);
  view->obj = nullptr;
  if ((flags & PyBUF_WRITABLE) != 0) {
    PyErr_SetString(PyExc_BufferError, "a tenon.Tensor is read-only");
    return -1;
  }
  const char* format = format_of(tensor->dtype());
  if (format == nullptr) {
    PyErr_Format(PyExc_BufferError, "the buffer protocol has no elements of %s; use __dlpack__",
                 dtype_name(tensor->dtype()));
    return -1;
  }
  const auto work = [&] {
    fill_buffer(*tensor, format, flags, view);
    view->obj = Py_NewRef(self);
    return 0;
  };
  return guarded(work, -1);
}

void release_buffer(PyObject*, Py_buffer* view) {
  delete static_cast<BufferRoom*>(view->internal);
}

// A tensor whose memory is that of an object which refers to the tensor is collected.
int traverse(PyObject* self, visitproc visit, void* arg) noexcept {
  Py_VISIT(Py_TYPE(self));
  if (nb::inst_ready(self)) Py_VISIT(nb::inst_ptr<Tensor>(self)->lender());
  return 0;
}

int clear(PyObject* self) noexcept {
  if (nb::inst_ready(self)) nb::inst_ptr<Tensor>(self)->give_up();
  return 0;
}

PyType_Slot kTensorSlots[] = {{Py_tp_traverse, reinterpret_cast<void*>(traverse)},
                              {Py_tp_clear, reinterpret_cast<void*>(clear)},
                              {Py_bf_getbuffer, reinterpret_cast<void*>(get_buffer)},
                              {Py_bf_releasebuffer, reinterpret_cast<void*>(release_buffer)},
                              {0, nullptr}};

struct DropTensor {
  void operator()(tenon_tensor_t* tensor) const { drop_tensor(tensor); }
};

nb::object to_dlpack(nb::handle self, nb::object stream, nb::object max_version,
                     nb::object dl_device, nb::object copy) {
  const Tensor& tensor = *nb::inst_ptr<Tensor>(self);
  if (dlpack::type_of(tensor.dtype()).lanes == 0) {
    PyErr_Format(PyExc_BufferError, "DLPack has no elements of %s here",
                 dtype_name(tensor.dtype()));
    throw nb::python_error();
  }
  const bool versioned = !max_version.is_none() && nb::cast<int>(max_version[0]) >= 1;
  const bool copied = !copy.is_none() && nb::cast<bool>(copy);
  // Its value is there, so whatever stream the consumer names need not wait.
  const dlpack::Vendor* vendor =
      dl_device.is_none() ? nullptr : dlpack::vendor_of(nb::cast<int32_t>(dl_device[0]));
  if (vendor != nullptr && !copied && !tensor.stream())
    return device_capsule(self, *vendor, nb::cast<int32_t>(dl_device[1]), versioned, stream);
  if (!stream.is_none() || (!dl_device.is_none() && !dl_device.equal(nb::make_tuple(1, 0)))) {
    PyErr_SetString(PyExc_BufferError,
                    "a tenon.Tensor is handed out in host memory, without stream, or on a GPU that "
                    "dl_device= names");
    throw nb::python_error();
  }
  if (copied) {
    PyErr_SetString(PyExc_BufferError,
                    "a tenon.Tensor is handed out without a copy: copy the result");
    throw nb::python_error();
  }
  return capsule_over(tensor, {const_cast<void*>(tensor.data()), 0, {dlpack::kCpu, 0}}, versioned,
                      Keeper(self.inc_ref().ptr()));
}

nb::object to_numpy(nb::handle self) {
  const Tensor& tensor = *nb::inst_ptr<Tensor>(self);
  const auto rank = static_cast<uint32_t>(tensor.dims().size());
  nb::module_::import_("numpy");
  if (tensor.count() == 0)
    return nb::steal(numpy_empty(tensor.dtype(), rank, tensor.dims().data()));
  return nb::steal(numpy_over(tensor.dtype(), rank, tensor.dims().data(),
                              const_cast<void*>(tensor.data()), false, self.inc_ref().ptr()));
}

nb::object to_array(nb::handle self, nb::object dtype, nb::object copy) {
  const nb::object array = to_numpy(self);
  if (dtype.is_none() && (copy.is_none() || !nb::cast<bool>(copy))) return array;
  return nb::module_::import_("numpy").attr("array")(array, "dtype"_a = dtype, "copy"_a = copy);
}

// ---- Elements ----

nb::object item(const Tensor& tensor) {
  if (tensor.count() != 1) {
    PyErr_Format(
        PyExc_ValueError, "a tensor of shape %s is not one element",
        shape_text(tensor.dims().data(), static_cast<uint32_t>(tensor.dims().size())).c_str());
    throw nb::python_error();
  }
  return nb::steal(read_scalar(tensor.dtype(), tensor.data()));
}

nb::object nested(const Tensor& tensor, size_t axis, const char** at) {
  if (axis == tensor.dims().size()) {
    nb::object element = nb::steal(read_scalar(tensor.dtype(), *at));
    *at += dtype_bits(tensor.dtype()) / 8;
    return element;
  }
  nb::list list;
  for (int64_t i = 0; i < tensor.dims()[axis]; ++i) list.append(nested(tensor, axis + 1, at));
  return std::move(list);
}

nb::object to_list(const Tensor& tensor) {
  const auto* at = static_cast<const char*>(tensor.data());
  return nested(tensor, 0, &at);
}

nb::tuple shape_of(const Tensor& tensor) {
  return nb::tuple(nb::cast(tensor.dims()));
}

std::string repr(const Tensor& tensor) {
  std::string out = "tenon.Tensor(shape=";
  out += shape_text(tensor.dims().data(), static_cast<uint32_t>(tensor.dims().size()));
  return out + ", dtype=" + dtype_name(tensor.dtype()) + ", on " + tensor.places() + ")";
}

nb::tuple reduce(nb::handle self) {
  const Tensor& tensor = *nb::inst_ptr<Tensor>(self);
  const nb::object restore = nb::module_::import_("tenon._host").attr("restore_tensor");
  return nb::make_tuple(restore, nb::make_tuple(nb::bytes(static_cast<const char*>(tensor.data()),
                                                          static_cast<size_t>(tensor.bytes())),
                                                dtype_name(tensor.dtype()), shape_of(tensor)));
}

Tensor* tensor_of_bytes(nb::bytes bytes, const std::string& dtype,
                        const std::vector<int64_t>& shape) {
  auto array = sized<tenon_array_t>();
  array.dtype = dtype_named(dtype);
  array.rank = static_cast<uint32_t>(shape.size());
  array.dims = shape.data();
  array.data = const_cast<char*>(bytes.c_str());
  uint64_t count = dtype_bits(array.dtype);
  for (const int64_t dim : shape) {
    if (dim < 0 || __builtin_mul_overflow(count, static_cast<uint64_t>(dim), &count)) count = 1;
  }
  if ((count + 7) / 8 != bytes.size() || array.dtype == TENON_DTYPE_NONE)
    raise_usage(TENON_DATA_LOSS, "T0624", "the bytes are not those of a tensor of this shape.");
  return new Tensor(copy_of(array, ""));
}

// A tensor's own record of itself: without data.
tenon_array_t record_of(tenon_tensor_t* tensor) {
  auto info = sized<tenon_tensor_info_t>();
  if (g_tables.call->tensor_info(g_tables.call->self, tensor, &info) != TENON_OK)
    raise_failure(TENON_INTERNAL);
  auto array = sized<tenon_array_t>();
  array.dtype = info.dtype;
  array.rank = info.rank;
  array.dims = info.dims;
  return array;
}

}  // namespace

Tensor::Tensor(tenon_tensor_t* tensor, std::shared_ptr<Loan> loan)
    : Tensor(tensor, record_of(tensor)) {
  loan_ = std::move(loan);
}

Tensor::Tensor(tenon_tensor_t* tensor, WorkStream stream) : Tensor(tensor, record_of(tensor)) {
  stream.device = places();  // Tenon's own name of it, which calls need not look up
  stream_ = std::make_unique<const WorkStream>(std::move(stream));
}

Tensor::Tensor(tenon_tensor_t* tensor, const tenon_array_t& array)
    : tensor_(tensor), dtype_(array.dtype), dims_(array.dims, array.dims + array.rank) {
  bytes_ = (count() * dtype_bits(dtype_) + 7) / 8;
}

bool Tensor::begin_use(bool donated) {
  if (donated ? uses_ != 0 : uses_ == kDonated) return false;
  uses_ = donated ? kDonated : uses_ + 1;
  return true;
}

Tensor::~Tensor() {
  give_up();
}

void Tensor::give_up() {
  loan_.reset();
  if (tensor_ != nullptr) drop_tensor(std::exchange(tensor_, nullptr));
}

void Tensor::check() const {
  if (tensor_ == nullptr)
    raise_usage(TENON_FAILED_PRECONDITION, "T0624", "the tensor was taken apart with a cycle.");
}

uint64_t Tensor::count() const {
  uint64_t n = 1;
  for (const int64_t dim : dims_) n *= static_cast<uint64_t>(dim);
  return n;
}

std::string Tensor::places() const {
  check();
  auto info = sized<tenon_tensor_info_t>();
  if (g_tables.call->tensor_info(g_tables.call->self, tensor_, &info) != TENON_OK)
    raise_failure(TENON_INTERNAL);
  return std::string(view(info.places));
}

const void* Tensor::data() const {
  check();
  if (stream_) {
    raise_usage(TENON_FAILED_PRECONDITION, "T0624",
                "the tensor is memory of another library on " + stream_->device +
                    ", which work there may still write: pass it to a model, or copy it to the "
                    "host by its library.");
  }
  auto array = sized<tenon_array_t>();
  ask([&] { return g_tables.call->tensor_array(g_tables.call->self, tensor_, &array); });
  return array.data;
}

Tensor* tensor_of(PyObject* o, bool* donated) {
  static PyTypeObject* const tensor_type =
      reinterpret_cast<PyTypeObject*>(nb::type<Tensor>().ptr());
  static PyTypeObject* const donated_type =
      reinterpret_cast<PyTypeObject*>(nb::type<Donated>().ptr());
  if (Py_TYPE(o) == tensor_type) return nb::inst_ptr<Tensor>(o);
  if (Py_TYPE(o) != donated_type) return nullptr;
  *donated = true;
  return nb::inst_ptr<Tensor>(nb::inst_ptr<Donated>(o)->tensor);
}

PyObject* as_tensor(tenon_tensor_t* tensor, const tenon_array_t& array) {
  return nb::cast(new Tensor(tensor, array), nb::rv_policy::take_ownership).release().ptr();
}

PyObject* as_numpy(tenon_tensor_t* tensor, const tenon_array_t& array) {
  nb::object owner = capsule_with<release_tensor>(tensor, "tenon.tensor");
  if (array.data != nullptr)
    return numpy_over(array.dtype, array.rank, array.dims, array.data, true, owner.release().ptr());
  return numpy_empty(array.dtype, array.rank, array.dims);
}

namespace {
template <class Owner>
PyObject* exchanged(Owner owner, const tenon_array_t& array, const ExchangeTable& table) {
  auto* managed = dlpack::manage<dlpack::ManagedTensorVersioned>(
      {array.data, 0, {dlpack::kCpu, 0}}, array.dtype, {array.dims, array.rank}, 0,
      std::move(owner));
  void* object = nullptr;
  if (table.object_of(managed, &object) != 0) {
    dlpack::call_deleter(managed);
    throw nb::python_error();
  }
  return static_cast<PyObject*>(object);
}
}  // namespace

PyObject* as_exchanged(tenon_tensor_t* tensor, const tenon_array_t& array,
                       const ExchangeTable& table) {
  return exchanged(std::unique_ptr<tenon_tensor_t, DropTensor>(tensor), array, table);
}

PyObject* as_exchanged(Block block, const tenon_array_t& array, const ExchangeTable& table) {
  return exchanged(std::move(block), array, table);
}

// The C library aligns memory by a slow way of its own.
void* Block::allocate(size_t bytes) {
  size_t room = bytes + kAlignment;
  memory_ = std::make_unique_for_overwrite<std::byte[]>(room);
  void* at = memory_.get();
  return std::align(kAlignment, bytes, at, room);
}

void bind_tensor(nb::module_& m) {
  const nb::class_<Donated> donated(m, "Donated",
                                    "A tensor that the call it is passed to may use up.");
  nb::class_<Tensor> tensor(
      m, "Tensor", nb::type_slots(kTensorSlots), nb::is_final(), nb::is_weak_referenceable(),
      "An immutable value that stays where it is: on the host, on a device, or on several.\n\n"
      "A tensor that was an argument remembers where calls copied it, so that weights go to a\n"
      "device once. It outlives models. `numpy.asarray(t)`, `torch.from_dlpack(t)` and\n"
      "`memoryview(t)` read it without a copy where the host can read its memory; the result is\n"
      "read-only. Safe on any thread.");
  tensor
      .def(
          "__init__",
          [](nb::pointer_and_handle<Tensor> self, nb::object value,
             const std::optional<std::string>& device, bool copy) {
            if (const dlpack::Vendor* vendor = vendor_of_array(value)) {
              if (device || copy)
                throw nb::value_error("an array in a GPU's memory is taken where it is");
              Taken taken = take_device_array(std::move(value), *vendor);
              new (self.p) Tensor(taken.tensor, std::move(taken.stream));
              return;
            }
            Made made = tensor_from(std::move(value), device, copy);
            new (self.p) Tensor(made.tensor, std::move(made.loan));
          },
          "value"_a, nb::kw_only(), "device"_a = nb::none(), "copy"_a = false,
          "Makes a tensor of an array or a number.\n\n"
          "Without `device` and `copy`, it shares the memory of a dense array, which must not be\n"
          "changed as long as the tensor is used. `device` (\"cpu\", \"sim:1\") copies it there.\n"
          "An array in a GPU's memory is taken where it is, by DLPack. Calls with the tensor run "
          "on\n"
          "its library's current stream, after what is there and what is in the stream that was\n"
          "current when the tensor was made, which must stay. Where the array's type names no\n"
          "stream (that of PyTorch does), they run on the default stream.\n"
          "Raises tenon.Error for what is not an array (T0624) and for devices (T0502, T0503).")
      .def_prop_ro("shape", shape_of, nb::sig("def shape(self) -> tuple[int, ...]"))
      .def_prop_ro(
          "dtype", [](const Tensor& t) { return dtype_name(t.dtype()); },
          "Tenon's name of the element type, such as \"f32\".")
      .def_prop_ro("ndim", [](const Tensor& t) { return t.dims().size(); })
      .def_prop_ro("size", &Tensor::count, "The number of elements.")
      .def_prop_ro("nbytes", &Tensor::bytes)
      .def_prop_ro("device", &Tensor::places, "Where it is: \"host\", \"sim\", \"sim:1,host\".")
      .def("numpy", to_numpy, nb::sig("def numpy(self) -> Any"),
           "A read-only NumPy array, copied only if the host cannot read it.")
      .def("item", item, nb::sig("def item(self) -> bool | int | float | complex"),
           "The only element, as a number of Python.")
      .def("tolist", to_list, nb::sig("def tolist(self) -> Any"), "The elements as nested lists.")
      .def(
          "donate", [](nb::object self) { return Donated{std::move(self)}; },
          "The tensor as an argument that the call may use up.\n\nAfter a call that succeeds it "
          "has "
          "no value (T0621): its memory may be that of a result. It is refused (T0621) while\n"
          "another call uses the tensor.")
      .def(
          "__float__", [](const Tensor& t) { return nb::steal(PyNumber_Float(item(t).ptr())); },
          nb::sig("def __float__(self) -> float"))
      .def(
          "__int__", [](const Tensor& t) { return nb::steal(PyNumber_Long(item(t).ptr())); },
          nb::sig("def __int__(self) -> int"))
      .def("__bool__", [](const Tensor& t) { return PyObject_IsTrue(item(t).ptr()) == 1; })
      .def("__len__",
           [](const Tensor& t) {
             if (t.dims().empty()) throw nb::type_error("a tensor without axes has no length");
             return t.dims()[0];
           })
      .def("__array__", to_array, "dtype"_a = nb::none(), "copy"_a = nb::none())
      .def("__dlpack__", to_dlpack, nb::kw_only(), "stream"_a = nb::none(),
           "max_version"_a = nb::none(), "dl_device"_a = nb::none(), "copy"_a = nb::none())
      .def(
          "__dlpack_device__", [](const Tensor&) { return nb::make_tuple(1, 0); },
          nb::sig("def __dlpack_device__(self) -> tuple[int, int]"))
      .def("__repr__", repr)
      .def(
          "__copy__", [](nb::object self) { return self; }, nb::sig("def __copy__(self) -> Tensor"))
      .def(
          "__deepcopy__", [](nb::object self, nb::object) { return self; }, "memo"_a,
          nb::sig("def __deepcopy__(self, memo: object) -> Tensor"))
      .def("__reduce__", reduce, nb::sig("def __reduce__(self) -> tuple[object, ...]"));
  m.def("tensor_of_bytes", tensor_of_bytes, "data"_a, "dtype"_a, "shape"_a,
        nb::rv_policy::take_ownership);
}

}  // namespace tenon::python
