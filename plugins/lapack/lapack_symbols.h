// The functions of LAPACK and BLAS, opened when they are first needed. The declarations are our
// own: the calling convention of Fortran, with 32-bit integers, and the length of each text as a
// hidden last argument. No other file of the plugin knows where the functions come from.
#ifndef TENON_PLUGINS_LAPACK_SYMBOLS_H_
#define TENON_PLUGINS_LAPACK_SYMBOLS_H_

#include <complex>
#include <cstddef>
#include <string>

namespace tenon::lapack {

using Int = int;
using Text = const char*;
using Length = size_t;

template <class T>
struct RealOf {
  using Type = T;
};
template <class R>
struct RealOf<std::complex<R>> {
  using Type = R;
};
template <class T>
inline constexpr bool kIsComplex = !std::is_same_v<T, typename RealOf<T>::Type>;

// The functions for one element type. Arrays are in column-major order.
template <class T>
struct Functions {
  using R = typename RealOf<T>::Type;
  void (*potrf)(Text uplo, const Int* n, T* a, const Int* lda, Int* info, Length) = nullptr;
  void (*trsm)(Text side, Text uplo, Text trans, Text diag, const Int* m, const Int* n,
               const T* alpha, const T* a, const Int* lda, T* b, const Int* ldb, Length, Length,
               Length, Length) = nullptr;
  void (*getrf)(const Int* m, const Int* n, T* a, const Int* lda, Int* pivots, Int* info) = nullptr;
  void (*geqrf)(const Int* m, const Int* n, T* a, const Int* lda, T* tau, T* work, const Int* lwork,
                Int* info) = nullptr;
  // orgqr, ungqr
  void (*form_q)(const Int* m, const Int* n, const Int* k, T* a, const Int* lda, const T* tau,
                 T* work, const Int* lwork, Int* info) = nullptr;
  // syevd and heevd, gesdd, geev: one of the two, by the element type.
  void (*syevd)(Text jobz, Text uplo, const Int* n, T* a, const Int* lda, R* w, T* work,
                const Int* lwork, Int* iwork, const Int* liwork, Int* info, Length,
                Length) = nullptr;
  void (*heevd)(Text jobz, Text uplo, const Int* n, T* a, const Int* lda, R* w, T* work,
                const Int* lwork, R* rwork, const Int* lrwork, Int* iwork, const Int* liwork,
                Int* info, Length, Length) = nullptr;
  void (*gesdd)(Text jobz, const Int* m, const Int* n, T* a, const Int* lda, R* s, T* u,
                const Int* ldu, T* vt, const Int* ldvt, T* work, const Int* lwork, Int* iwork,
                Int* info, Length) = nullptr;
  void (*gesdd_complex)(Text jobz, const Int* m, const Int* n, T* a, const Int* lda, R* s, T* u,
                        const Int* ldu, T* vt, const Int* ldvt, T* work, const Int* lwork, R* rwork,
                        Int* iwork, Int* info, Length) = nullptr;
  void (*geev)(Text left, Text right, const Int* n, T* a, const Int* lda, R* wr, R* wi, T* vl,
               const Int* ldvl, T* vr, const Int* ldvr, T* work, const Int* lwork, Int* info,
               Length, Length) = nullptr;
  void (*geev_complex)(Text left, Text right, const Int* n, T* a, const Int* lda, T* w, T* vl,
                       const Int* ldvl, T* vr, const Int* ldvr, T* work, const Int* lwork, R* rwork,
                       Int* info, Length, Length) = nullptr;
};

struct Library {
  Functions<float> s;
  Functions<double> d;
  Functions<std::complex<float>> c;
  Functions<std::complex<double>> z;

  template <class T>
  const Functions<T>& of() const {
    if constexpr (std::is_same_v<T, float>) return s;
    if constexpr (std::is_same_v<T, double>) return d;
    if constexpr (std::is_same_v<T, std::complex<float>>) return c;
    if constexpr (std::is_same_v<T, std::complex<double>>) return z;
  }
};

// Opens the library on first use: OpenBLAS, else any LAPACK. Null if there is none: *why says why.
// Threads: safe.
const Library* library(std::string* why);

}  // namespace tenon::lapack

#endif
