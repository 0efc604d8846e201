#include "frontends/python/native/arrays/arrays.h"

#include <nanobind/stl/string.h>

#include <array>
#include <cmath>
#include <cstring>
#include <string_view>

#include "frontends/python/native/arrays/capsules.h"
#include "frontends/python/native/arrays/numpy_arrays.h"
#include "frontends/python/native/arrays/scalars.h"
#include "frontends/python/native/arrays/tensor.h"
#include "frontends/python/native/host/host.h"
#include "tenon/cpp/elements.hpp"

namespace nb = nanobind;

namespace tenon::python {
namespace {

// As the user of NumPy writes them; null if NumPy has none.
constexpr const char* kNumpyNames[elements::kDtypeEnd] = {
    nullptr,   "bool",     nullptr,   nullptr,   "int8",      "int16",         "int32",
    "int64",   "uint8",    "uint16",  "uint32",  "uint64",    "float8_e4m3fn", "float8_e5m2",
    "float16", "bfloat16", "float32", "float64", "complex64", "complex128",
};

std::string type_name(PyObject* o) {
  const std::string name = Py_TYPE(o)->tp_name;
  return name;
}

[[noreturn]] void refuse(const Expected& expected, const std::string& what) {
  raise_usage(TENON_INVALID_ARGUMENT, "T0624", expected.where + ": the array " + what + ".");
}

[[noreturn]] void refuse_use(const Expected& expected, bool donated) {
  raise_usage(
      TENON_FAILED_PRECONDITION, "T0621",
      expected.where +
          (donated ? " is donated, and another input, or a call that has not ended, uses it."
                   : " is donated as another input, or to a call that has not ended."));
}

// What a library says when it hands nothing out: its first line, since a trace may follow.
[[noreturn]] void refuse_as(const Expected& expected, nb::python_error& error) {
  const std::string text = nb::cast<std::string>(nb::str(error.value()));
  refuse(expected, "is not handed out by its library: " + text.substr(0, text.find('\n')));
}

// A versioned capsule where the producer has them, else the old kind. Raises.
nb::object dlpack_capsule(nb::handle object, const Expected& expected) {
  try {
    const nb::object method = object.attr("__dlpack__");
    try {
      return method(nb::arg("max_version") = nb::make_tuple(dlpack::kMajor, dlpack::kMinor));
    } catch (nb::python_error& e) {
      if (!e.matches(PyExc_TypeError)) throw;
      return method();
    }
  } catch (nb::python_error& e) {
    if (e.matches(PyExc_KeyboardInterrupt)) throw;
    refuse_as(expected, e);
  }
}

[[noreturn]] void refuse_object(const Expected& expected, PyObject* o) {
  raise_usage(
      TENON_INVALID_ARGUMENT, "T0624",
      expected.where + ": " + type_name(o) +
          " is not an array. Arrays of NumPy and torch are read, and everything with "
          "__dlpack__, the buffer protocol or __array__; numpy.asarray makes one of a list." +
          (PyDict_Check(o) ? " Inputs by name are given as model(**feed) or model.run(feed)."
                           : ""));
}

// The element type of a buffer's format, as the struct module writes it.
tenon_dtype_t dtype_of_format(const char* format, Py_ssize_t item) {
  if (format == nullptr) return item == 1 ? TENON_U8 : TENON_DTYPE_NONE;
  std::string_view f(format);
  if (!f.empty() && (f[0] == '@' || f[0] == '=' || f[0] == '<')) f.remove_prefix(1);
  if (f == "Zf") return TENON_C64;
  if (f == "Zd") return TENON_C128;
  if (f.size() != 1) return TENON_DTYPE_NONE;
  const auto of_size = [item](std::array<tenon_dtype_t, 4> types) {
    return item == 1 ? types[0] : item == 2 ? types[1] : item == 4 ? types[2] : types[3];
  };
  switch (f[0]) {
    case '?':
      return TENON_PRED;
    case 'b':
    case 'h':
    case 'i':
    case 'l':
    case 'q':
    case 'n':
      return of_size({TENON_I8, TENON_I16, TENON_I32, TENON_I64});
    case 'B':
    case 'H':
    case 'I':
    case 'L':
    case 'Q':
    case 'N':
      return of_size({TENON_U8, TENON_U16, TENON_U32, TENON_U64});
    case 'e':
      return TENON_F16;
    case 'f':
      return TENON_F32;
    case 'd':
      return TENON_F64;
    default:
      return TENON_DTYPE_NONE;
  }
}

// ---- Tables of types ----

struct KnownType {
  PyTypeObject* type = nullptr;
  const ExchangeTable* table = nullptr;
};
std::array<KnownType, 4> g_known;  // with the GIL
size_t g_next = 0;

const ExchangeTable* look_up(PyTypeObject* type) {
  PyObject* capsule =
      PyObject_GetAttrString(reinterpret_cast<PyObject*>(type), "__dlpack_c_exchange_api__");
  if (capsule == nullptr) {
    PyErr_Clear();
    return nullptr;
  }
  auto* header = static_cast<ExchangeHeader*>(PyCapsule_GetPointer(capsule, "dlpack_exchange_api"));
  Py_DECREF(capsule);  // the table lives as long as its type
  if (header == nullptr) PyErr_Clear();
  while (header != nullptr && header->version.major != dlpack::kMajor) header = header->previous;
  return reinterpret_cast<const ExchangeTable*>(header);
}

// Names that are asked for in every call; never freed.
PyObject* interned(const char* name) {
  PyObject* made = PyUnicode_InternFromString(name);
  if (made == nullptr) throw nb::python_error();
  return made;
}

bool is_true(PyObject* value) {
  if (value == nullptr) PyErr_Clear();
  Py_XDECREF(value);
  return value == Py_True;  // which never dies
}

bool asked_of(PyObject* o, PyObject* method) {
  return is_true(PyObject_CallMethodNoArgs(o, method));
}

bool attribute_is_true(PyObject* o, PyObject* name) {
  return is_true(PyObject_GetAttr(o, name));
}

// Whether torch records gradients now; true also if it cannot be asked.
bool records_gradients() {
  const nb::object module = nb::steal(PyImport_GetModule(nb::str("torch").ptr()));
  static PyObject* const name = interned("is_grad_enabled");
  return !module.is_valid() || asked_of(module.ptr(), name);
}

// What a tensor's memory does not say: DLPack's table hands these out unresolved.
void refuse_hidden_state(PyObject* o, const dlpack::Tensor& tensor, const Expected& expected) {
  static PyObject *const requires_grad = interned("requires_grad"),
                         *const is_conj = interned("is_conj"), *const is_neg = interned("is_neg");
  if (attribute_is_true(o, requires_grad) && records_gradients())
    refuse(expected,
           "requires a gradient, and the result would have none: pass x.detach(), or call "
           "inside of torch.no_grad()");
  if (tensor.dtype.code == dlpack::kComplex && asked_of(o, is_conj))
    refuse(expected, "is a conjugated view: pass x.resolve_conj()");
  if (asked_of(o, is_neg)) refuse(expected, "is a negated view: pass x.resolve_neg()");
}

uint64_t count_of(const dlpack::Tensor& tensor) {
  uint64_t count = 1;
  for (int32_t i = 0; i < tensor.rank; ++i) count *= tensor.shape[i] == 0 ? 0 : 1;
  return count;
}

}  // namespace

const char* dtype_name(tenon_dtype_t dtype) {
  return elements::dtype_valid(dtype) ? elements::dtype_name(dtype).data() : "no type";
}

uint32_t dtype_bits(tenon_dtype_t dtype) {
  return elements::dtype_bits(dtype);
}

tenon_dtype_t dtype_named(std::string_view name) {
  for (tenon_dtype_t d = 1; d < elements::kDtypeEnd; ++d)
    if (kNumpyNames[d] != nullptr && name == kNumpyNames[d]) return d;
  return elements::dtype_from_name(name);
}

std::string shape_text(const int64_t* dims, uint32_t rank) {
  std::string out = "(";
  for (uint32_t i = 0; i < rank; ++i) out += (i == 0 ? "" : ", ") + std::to_string(dims[i]);
  return out + (rank == 1 ? ",)" : ")");
}

bool is_dense(const tenon_array_t& array) {
  if (array.strides_bytes == nullptr) return true;
  int64_t step = dtype_bits(array.dtype) / 8;
  for (uint32_t i = array.rank; i-- > 0;) {
    if (array.dims[i] == 0) return true;
    if (array.dims[i] != 1 && array.strides_bytes[i] != step) return false;
    step *= array.dims[i];
  }
  return true;
}

const ExchangeTable* exchange_of(PyTypeObject* type) {
  for (const KnownType& known : g_known)
    if (known.type == type) return known.table;
  // A type of Python's own never has one, and there are many.
  if ((type->tp_flags & Py_TPFLAGS_HEAPTYPE) == 0 && type->tp_dict != nullptr &&
      type->tp_base == &PyBaseObject_Type && std::strchr(type->tp_name, '.') == nullptr)
    return nullptr;
  KnownType& slot = g_known[g_next++ % g_known.size()];
  Py_INCREF(reinterpret_cast<PyObject*>(type));  // its address must not become another type's
  Py_XDECREF(reinterpret_cast<PyObject*>(slot.type));
  slot = {type, look_up(type)};
  return slot.table;
}

int64_t* Argument::room(uint32_t rank) {
  if (rank * 2 <= std::size(small_)) return small_;
  large_.resize(size_t{rank} * 2);
  return large_.data();
}

void Argument::use(tenon_dtype_t dtype, uint32_t rank, void* data, const int64_t* dims,
                   const int64_t* strides_bytes) {
  array.size_bytes = sizeof array;
  array.dtype = dtype;
  array.rank = rank;
  array.data = data;
  array.dims = dims;
  array.strides_bytes = strides_bytes;
}

void Argument::release() {
  tensor = nullptr;
  if (used_ != nullptr) used_->end_use();
  used_ = nullptr;
  if (has_buffer_) PyBuffer_Release(&buffer_);
  has_buffer_ = false;
  Py_CLEAR(held_);
}

uint64_t Argument::bytes() const {
  if (used_ != nullptr) return used_->bytes();
  uint64_t bits = dtype_bits(array.dtype);
  for (uint32_t i = 0; i < array.rank; ++i) bits *= static_cast<uint64_t>(array.dims[i]);
  return bits / 8;
}

void Argument::read_numpy(PyObject* o, const Expected& expected) {
  const NumpyView view = numpy_view(o);
  if (view.dtype == TENON_DTYPE_NONE) refuse(expected, view.why);
  // Dims and strides belong to the array, which lives as long as the call and could be reshaped in
  // place by another thread meanwhile: so they are copied.
  if (view.rank > TENON_RANK_MAX) refuse(expected, "has too many axes");
  int64_t* dims = room(view.rank);
  std::memcpy(dims, view.dims, view.rank * sizeof *dims);
  int64_t* strides = nullptr;
  if (!view.dense) {
    strides = dims + view.rank;
    std::memcpy(strides, view.strides, view.rank * sizeof *strides);
  }
  use(view.dtype, view.rank, view.data, dims, strides);
  writable = view.writable;
  kind = Kind::kNumpy;
}

void Argument::take(const dlpack::Tensor& t, const Expected& expected) {
  if (!dlpack::host_reads(t.device.type)) {
    refuse(expected, "is in memory of another device (DLPack's kind " +
                         std::to_string(t.device.type) +
                         "), which the host cannot read: copy it "
                         "to the host first, as in x.cpu(), or take it where it is with "
                         "tenon.tensor(x)");
  }
  tenon_array_t type;
  if (const std::string why = dlpack::read_type(t, &type); !why.empty()) refuse(expected, why);
  if (t.data == nullptr && count_of(t) != 0)
    refuse(expected,
           "has no memory, as zero tensors and fake tensors have none: make a real one "
           "first, as in x + 0");
  const uint32_t rank = type.rank;
  int64_t* dims = room(rank);
  int64_t* strides = nullptr;
  const int64_t element = dtype_bits(type.dtype) / 8;
  if (t.strides != nullptr) strides = dims + rank;
  for (uint32_t i = 0; i < rank; ++i) {
    dims[i] = t.shape[i];
    if (strides != nullptr) strides[i] = t.strides[i] * element;
  }
  use(type.dtype, rank, static_cast<char*>(t.data) + t.byte_offset, dims, strides);
  if (is_dense(array)) array.strides_bytes = nullptr;
}

void Argument::read_exchange(PyObject* o, const ExchangeTable& table, const Expected& expected) {
  dlpack::Tensor view{};
  kind = Kind::kExchange;
  user = o;
  if (table.view_of == nullptr) {
    if (!read_dlpack(o, expected)) refuse_object(expected, o);
    kind = Kind::kExchange;
    return;
  }
  if (table.view_of(o, &view) != 0) {
    nb::python_error error;
    refuse_as(expected, error);
  }
  refuse_hidden_state(o, view, expected);
  take(view, expected);
  writable = true;
}

bool Argument::read_dlpack(PyObject* o, const Expected& expected) {
  if (!nb::hasattr(nb::handle(o), "__dlpack__")) return false;
  nb::object capsule = dlpack_capsule(o, expected);
  // The capsule is kept and not consumed: it owns the tensor until this argument is released.
  const InCapsule in = in_capsule(capsule);
  if (in.tensor == nullptr) refuse(expected, "comes in another DLPack version");
  writable = in.writable;
  take(*in.tensor, expected);
  held_ = capsule.release().ptr();
  kind = Kind::kNamespace;
  user = o;
  return true;
}

bool Argument::read_buffer(PyObject* o, const Expected& expected) {
  if (!PyObject_CheckBuffer(o)) return false;
  if (PyObject_GetBuffer(o, &buffer_, PyBUF_RECORDS_RO) != 0) throw nb::python_error();
  has_buffer_ = true;
  const tenon_dtype_t dtype = dtype_of_format(buffer_.format, buffer_.itemsize);
  if (dtype == TENON_DTYPE_NONE || dtype_bits(dtype) != 8 * buffer_.itemsize) {
    refuse(expected, std::string("has elements of format '") +
                         (buffer_.format == nullptr ? "?" : buffer_.format) +
                         "', which Tenon does not have");
  }
  if (buffer_.ndim > static_cast<int>(TENON_RANK_MAX)) refuse(expected, "has too many axes");
  const auto rank = static_cast<uint32_t>(buffer_.ndim);
  int64_t* dims = room(rank);
  for (uint32_t i = 0; i < rank; ++i) dims[i] = buffer_.shape[i];
  int64_t* strides = nullptr;
  if (buffer_.strides != nullptr) {
    strides = dims + rank;
    for (uint32_t i = 0; i < rank; ++i) strides[i] = buffer_.strides[i];
  }
  use(dtype, rank, buffer_.buf, dims, strides);
  if (is_dense(array)) array.strides_bytes = nullptr;
  writable = buffer_.readonly == 0;
  return true;
}

bool Argument::read_scalar(PyObject* o, const Expected& expected) {
  const bool is_bool = PyBool_Check(o), is_int = PyLong_Check(o), is_float = PyFloat_Check(o);
  const bool is_complex = PyComplex_Check(o);
  if (!is_bool && !is_int && !is_float && !is_complex) return false;
  tenon_dtype_t dtype = expected.dtype;
  if (expected.any) {
    dtype = is_bool ? TENON_PRED : is_int ? TENON_I64 : is_float ? TENON_F64 : TENON_C128;
  }
  if (!write_scalar(o, dtype, scalar_)) {
    raise_usage(TENON_INVALID_ARGUMENT, "T0603",
                expected.where + ": the " + type_name(o) + " " +
                    nb::cast<std::string>(nb::repr(nb::handle(o))) + " is not a value of " +
                    dtype_name(dtype) + ".");
  }
  use(dtype, 0, scalar_, small_, nullptr);
  return true;
}

bool Argument::read_quickly(PyObject* o, const Expected& expected) {
  if (is_plain_numpy(o)) {
    read_numpy(o, expected);
    return true;
  }
  if (Tensor* t = tensor_of(o, &donated)) {
    tensor = t->get();
    if (tensor == nullptr) refuse(expected, "was taken apart by the collector of cycles");
    if (!t->begin_use(donated)) refuse_use(expected, donated);
    used_ = t;
    kind = Kind::kTensor;
    return true;
  }
  if (const ExchangeTable* table = exchange_of(Py_TYPE(o))) {
    read_exchange(o, *table, expected);
    return true;
  }
  return false;
}

void Argument::read(PyObject* o, const Expected& expected) {
  kind = Kind::kNone;
  donated = false;
  tensor = nullptr;
  if (read_quickly(o, expected) || read_scalar(o, expected)) return;
  if (PyType_Check(o)) refuse_object(expected, o);  // it has the methods of its objects
  if (is_numpy(o)) {
    if (std::strstr(Py_TYPE(o)->tp_name, "Masked") != nullptr)
      refuse(expected, "has a mask, which would be ignored: pass x.filled(value)");
    read_numpy(o, expected);
    return;
  }
  if (PyBytes_Check(o) || PyByteArray_Check(o) || read_dlpack(o, expected)) {
    if (kind == Kind::kNone) read_buffer(o, expected);
    return;
  }
  if (read_buffer(o, expected)) return;
  // A list has no such method, and an object of pandas does.
  if (nb::hasattr(nb::handle(o), "__array__")) {
    nb::object made = nb::handle(o).attr("__array__")();
    if (is_numpy(made.ptr())) {
      read_numpy(made.ptr(), expected);
      held_ = made.release().ptr();
      return;
    }
  }
  refuse_object(expected, o);
}

void Argument::read_owning(PyObject* o, const Expected& expected) {
  read(o, expected);
  if (kind != Kind::kExchange || held_ != nullptr) return;
  // torch hands out the tensor itself, whose memory `x.data = y` replaces: so a view of it is
  // taken.
  nb::object view = nb::borrow(o);
  if (nb::hasattr(view, "detach")) view = view.attr("detach")();
  (void)read_dlpack(view.ptr(), expected);
  kind = Kind::kExchange;
}

}  // namespace tenon::python
