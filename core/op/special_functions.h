// Functions that the C++ library has not, in double precision.
#pragma once
namespace tenon::op {

double erf_inv(double x);    // infinite at -1 and 1, NaN beyond
double digamma(double x);    // NaN at 0, -1, -2...
double log_gamma(double x);  // infinite at 0, -1, -2...

}  // namespace tenon::op
