// Functions that the C++ library lacks, in double precision, and rounding of doubles to narrow
// floats in one step.
#pragma once
#include <cstdint>

namespace tenon::op {

double erf_inv(double x);    // infinite at -1 and 1, NaN beyond
double digamma(double x);    // NaN at 0, -1, -2...
double log_gamma(double x);  // infinite at 0, -1, -2...

uint16_t f16_from_double(double x);
uint16_t bf16_from_double(double x);

}  // namespace tenon::op
