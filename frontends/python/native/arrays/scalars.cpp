#include "frontends/python/native/arrays/scalars.h"

#include <cmath>
#include <cstring>

#include "frontends/python/native/host/host.h"
#include "tenon/cpp/elements.hpp"

namespace nb = nanobind;

namespace tenon::python {
namespace {

template <class T>
bool put(void* out, T value) {
  std::memcpy(out, &value, sizeof value);
  return true;
}

bool write_integer(PyObject* number, tenon_dtype_t dtype, void* out) {
  if (!PyLong_Check(number) || PyBool_Check(number)) return false;
  if (dtype == TENON_U64) {
    const unsigned long long value = PyLong_AsUnsignedLongLong(number);
    if (PyErr_Occurred() != nullptr) return PyErr_Clear(), false;
    return put(out, static_cast<uint64_t>(value));
  }
  int overflow = 0;
  const int64_t value = PyLong_AsLongLongAndOverflow(number, &overflow);
  if (overflow != 0 || value < elements::lowest_integer(dtype) ||
      value > elements::highest_integer(dtype)) {
    return false;
  }
  elements::store_integer(dtype, out, value);
  return true;
}

bool write_float(PyObject* number, tenon_dtype_t dtype, void* out) {
  if (PyBool_Check(number) || PyComplex_Check(number)) return false;
  const double value = PyFloat_AsDouble(number);
  if (PyErr_Occurred() != nullptr) return PyErr_Clear(), false;
  switch (dtype) {
    case TENON_F16:
      return put(out, elements::f16_from(value));
    case TENON_BF16:
      return put(out, elements::bf16_from(value));
    case TENON_F32:
      return put(out, static_cast<float>(value));
    case TENON_F64:
      return put(out, value);
    default:
      return false;
  }
}

bool write_complex(PyObject* number, tenon_dtype_t dtype, void* out) {
  if (PyBool_Check(number)) return false;
  const Py_complex value = PyComplex_AsCComplex(number);
  if (PyErr_Occurred() != nullptr) return PyErr_Clear(), false;
  if (dtype == TENON_C128) return put(out, value);
  const float pair[2] = {static_cast<float>(value.real), static_cast<float>(value.imag)};
  std::memcpy(out, pair, sizeof pair);
  return true;
}

// The value of a pattern with `mantissa` stored bits, as all formats of IEEE's kind have it.
double of_pattern(uint32_t bits, int width, int mantissa, int bias, bool has_infinity) {
  const double sign = (bits >> (width - 1) & 1) != 0 ? -1 : 1;
  const uint32_t exponent_max = (1u << (width - 1 - mantissa)) - 1;
  const uint32_t exponent = bits >> mantissa & exponent_max;
  const uint32_t fraction = bits & ((1u << mantissa) - 1);
  if (has_infinity && exponent == exponent_max)
    return fraction != 0 ? std::nan("") : sign * HUGE_VAL;
  if (!has_infinity && exponent == exponent_max && fraction == (1u << mantissa) - 1)
    return std::nan("");
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias - mantissa);
  return sign *
         std::ldexp(fraction + (1u << mantissa), static_cast<int>(exponent) - bias - mantissa);
}

double float_at(tenon_dtype_t dtype, const void* at) {
  switch (dtype) {
    case TENON_F8E4M3FN:
      return of_pattern(elements::load_as<uint8_t>(at), 8, 3, 7, false);
    case TENON_F8E5M2:
      return of_pattern(elements::load_as<uint8_t>(at), 8, 2, 15, true);
    case TENON_F16:
      return of_pattern(elements::load_as<uint16_t>(at), 16, 10, 15, true);
    case TENON_BF16:
      return of_pattern(elements::load_as<uint16_t>(at), 16, 7, 127, true);
    case TENON_F32:
      return elements::load_as<float>(at);
    default:
      return elements::load_as<double>(at);
  }
}

}  // namespace

bool write_scalar(PyObject* number, tenon_dtype_t dtype, void* out) {
  if (dtype == TENON_PRED)
    return PyBool_Check(number) && put(out, static_cast<uint8_t>(number == Py_True));
  if (elements::dtype_bits(dtype) < 8) return false;
  if (elements::dtype_is_integer(dtype)) return write_integer(number, dtype, out);
  if (elements::dtype_is_complex(dtype)) return write_complex(number, dtype, out);
  return write_float(number, dtype, out);
}

PyObject* read_scalar(tenon_dtype_t dtype, const void* at) {
  PyObject* made = nullptr;
  if (elements::dtype_bits(dtype) < 8) {
    raise_usage(TENON_UNIMPLEMENTED, "T0624", "elements of 4 bits have no Python value.");
  } else if (dtype == TENON_PRED) {
    made = PyBool_FromLong(elements::load_as<uint8_t>(at));
  } else if (dtype == TENON_U64) {
    made = PyLong_FromUnsignedLongLong(elements::load_as<uint64_t>(at));
  } else if (elements::dtype_is_integer(dtype)) {
    made = PyLong_FromLongLong(elements::load_integer(dtype, at));
  } else if (dtype == TENON_C64) {
    const auto* pair = static_cast<const float*>(at);
    made = PyComplex_FromDoubles(pair[0], pair[1]);
  } else if (dtype == TENON_C128) {
    const auto* pair = static_cast<const double*>(at);
    made = PyComplex_FromDoubles(pair[0], pair[1]);
  } else {
    made = PyFloat_FromDouble(float_at(dtype, at));
  }
  if (made == nullptr) throw nb::python_error();
  return made;
}

}  // namespace tenon::python
