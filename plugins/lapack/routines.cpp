#include "routines.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include <tenon/cpp/plugin.hpp>
#include <tenon/cpp/thread.hpp>

#include "lapack_symbols.h"

namespace tenon::lapack {
namespace {

// ---- Matrices ----

// A column-major matrix of our own.
template <class T>
struct Matrix {
  Int rows = 0, columns = 0;
  std::vector<T> values;
  Matrix(Int m, Int n) : rows(m), columns(n), values(std::max<size_t>(1, size_t(m) * size_t(n))) {}
  T* data() { return values.data(); }
  // LAPACK asks for a leading dimension of at least 1.
  Int lead() const { return std::max(rows, 1); }
  T& operator()(Int i, Int j) { return values[size_t(i) + size_t(j) * size_t(rows)]; }
};

template <class T>
bool finite(const T& v) {
  if constexpr (kIsComplex<T>) return std::isfinite(v.real()) && std::isfinite(v.imag());
  if constexpr (!kIsComplex<T>) return std::isfinite(v);
}
template <class T>
T conjugate(const T& v) {
  if constexpr (kIsComplex<T>) return std::conj(v);
  if constexpr (!kIsComplex<T>) return v;
}
template <class T>
T not_a_number() {
  using R = typename RealOf<T>::Type;
  if constexpr (kIsComplex<T>) {
    return T(std::numeric_limits<R>::quiet_NaN(), std::numeric_limits<R>::quiet_NaN());
  }
  return std::numeric_limits<R>::quiet_NaN();
}

// The matrices of an operand or a result, one after another.
template <class T>
struct Batch {
  T* data = nullptr;
  Int rows = 0, columns = 0;
  uint64_t size() const { return uint64_t(rows) * uint64_t(columns); }

  Matrix<T> read(uint64_t index) const {
    Matrix<T> out(rows, columns);
    const T* from = data + index * size();
    for (Int i = 0; i < rows; ++i) {
      for (Int j = 0; j < columns; ++j) out(i, j) = *from++;
    }
    return out;
  }
  // The leading part of a matrix that may be larger.
  void write(uint64_t index, Matrix<T>& a) const {
    T* to = data + index * size();
    for (Int i = 0; i < rows; ++i) {
      for (Int j = 0; j < columns; ++j) *to++ = a(i, j);
    }
  }
  void fill(uint64_t index, T value) const { std::fill_n(data + index * size(), size(), value); }
};

Status fits_int(const tenon_simple_tensor_t& t) {
  for (uint32_t i = 0; i < t.rank; ++i) {
    if (t.dims[i] > std::numeric_limits<Int>::max() / 8)
      return fail(TENON_UNIMPLEMENTED, cat("lapack: an extent of ", t.dims[i], " is too large"));
  }
  return {};
}
// vector: the last dim is one column for each matrix.
template <class T>
Batch<T> batch(const tenon_simple_tensor_t& t, bool vector = false) {
  const Int last = static_cast<Int>(t.dims[t.rank - 1]);
  return {static_cast<T*>(t.data), vector ? last : static_cast<Int>(t.dims[t.rank - 2]),
          vector ? 1 : last};
}
uint64_t matrix_count(const tenon_simple_tensor_t& t) {
  uint64_t n = 1;
  for (uint32_t i = 0; i + 2 < t.rank; ++i) n *= static_cast<uint64_t>(t.dims[i]);
  return n;
}

// Calls body(index) for every matrix. The host may stop between two.
template <class Body>
Status each(const tenon_simple_run_t& run, Body&& body, uint32_t operands = 1) {
  for (uint32_t i = 0; i < operands; ++i) TENON_TRY(fits_int(run.inputs[i]));
  const uint64_t n = matrix_count(run.inputs[0]);
  for (uint64_t i = 0; i < n; ++i) {
    if (cancelled()) return TENON_CANCELLED;
    TENON_TRY(body(i));
  }
  return {};
}
// Calls body with a value of the operand's type and LAPACK's functions for it.
template <class Body>
Status with_type(const tenon_simple_run_t& run, Body&& body) {
  std::string why;
  const Library* lapack = library(&why);
  if (lapack == nullptr) return fail(TENON_UNAVAILABLE, why);
  switch (run.inputs[0].dtype) {
    case TENON_F32:
      return body(float{}, lapack->s);
    case TENON_F64:
      return body(double{}, lapack->d);
    case TENON_C64:
      return body(std::complex<float>{}, lapack->c);
    default:
      return body(std::complex<double>{}, lapack->z);
  }
}
Status wrong(std::string_view routine, Int info) {
  return fail(TENON_INTERNAL, cat("lapack: ", routine, " returns ", info));
}
// A count that LAPACK gives as a number of the matrix's type, which may have been rounded down.
template <class R>
Int size_in(R asked) {
  const R enough = std::nextafter(asked, std::numeric_limits<R>::max());
  return static_cast<Int>(std::clamp<double>(enough, 1, std::numeric_limits<Int>::max()));
}
template <class R>
Int size_in(const std::complex<R>& asked) {
  return size_in(asked.real());
}
template <class T>
bool all_finite(const Matrix<T>& a) {
  return std::all_of(a.values.begin(), a.values.end(), [](const T& v) { return finite(v); });
}
template <class T>
bool triangle_is_finite(Matrix<T>& a, bool upper) {
  for (Int j = 0; j < a.columns; ++j) {
    const Int first = upper ? 0 : j, end = upper ? j + 1 : a.rows;
    for (Int i = first; i < end; ++i) {
      if (!finite(a(i, j))) return false;
    }
  }
  return true;
}
// The routine computes this count in its own integers: 1 + 6 n + 2 n^2 numbers are the most it
// needs.
Status fits_work_of_eigh(int64_t n) {
  if (1 + 6 * n + 2 * n * n <= std::numeric_limits<Int>::max()) return {};
  return fail(TENON_UNIMPLEMENTED, cat("lapack: eigh of ", n, " rows is too large"));
}

}  // namespace

// ---- Factors ----

Status run_cholesky(const tenon_simple_run_t& run) {
  const bool upper = run.plan->params[kUpper] != 0;
  return with_type(run, [&]<class T>(T, const Functions<T>& f) {
    const auto in = batch<T>(run.inputs[0]), out = batch<T>(run.outputs[0]);
    return each(run, [&](uint64_t index) -> Status {
      Matrix<T> a = in.read(index);
      Int info = 0;
      const Int lead = a.lead();
      f.potrf(upper ? "U" : "L", &a.rows, a.data(), &lead, &info, 1);
      if (info < 0) return wrong("potrf", info);
      for (Int i = 0; i < a.rows; ++i) {
        for (Int j = 0; j < a.rows; ++j) {
          if (upper ? i > j : i < j) {
            a(i, j) = 0;
          } else if (info > 0 && std::max(i, j) >= info - 1) {
            a(i, j) = not_a_number<T>();  // from the first pivot on that is not positive
          }
        }
      }
      out.write(index, a);
      return {};
    });
  });
}

Status run_triangular_solve(const tenon_simple_run_t& run) {
  const int64_t* p = run.plan->params;
  const char* form = p[kForm] == kPlain ? "N" : p[kForm] == kTransposed ? "T" : "C";
  return with_type(run, [&]<class T>(T, const Functions<T>& f) {
    const auto left = batch<T>(run.inputs[0]), right = batch<T>(run.inputs[1]),
               out = batch<T>(run.outputs[0]);
    return each(
        run,
        [&](uint64_t index) -> Status {
          Matrix<T> a = left.read(index), b = right.read(index);
          const T one = 1;
          const Int lead_a = a.lead(), lead_b = b.lead();
          f.trsm("L", p[kUpper] != 0 ? "U" : "L", form, p[kUnit] != 0 ? "U" : "N", &b.rows,
                 &b.columns, &one, a.data(), &lead_a, b.data(), &lead_b, 1, 1, 1, 1);
          out.write(index, b);
          return {};
        },
        2);
  });
}

Status run_lu(const tenon_simple_run_t& run) {
  return with_type(run, [&]<class T>(T, const Functions<T>& f) {
    const auto in = batch<T>(run.inputs[0]), out = batch<T>(run.outputs[0]);
    auto* orders = static_cast<int64_t*>(run.outputs[1].data);
    auto* signs = static_cast<int32_t*>(run.outputs[2].data);
    return each(run, [&](uint64_t index) -> Status {
      Matrix<T> a = in.read(index);
      std::vector<Int> pivots(size_t(std::max(1, std::min(a.rows, a.columns))));
      Int info = 0;
      const Int lead = a.lead();
      f.getrf(&a.rows, &a.columns, a.data(), &lead, pivots.data(), &info);
      if (info < 0) return wrong("getrf", info);
      int64_t* order = orders + index * uint64_t(a.rows);
      std::iota(order, order + a.rows, int64_t{0});
      int32_t sign = 1;
      for (Int k = 0; k < std::min(a.rows, a.columns); ++k) {
        const Int other = pivots[size_t(k)] - 1;
        if (other < k || other >= a.rows)
          return wrong("getrf", other + 1);  // of NaN, in some libraries
        if (other == k) continue;
        std::swap(order[k], order[other]);
        sign = -sign;
      }
      signs[index] = sign;
      out.write(index, a);
      return {};
    });
  });
}

Status run_qr(const tenon_simple_run_t& run) {
  return with_type(run, [&]<class T>(T, const Functions<T>& f) {
    const auto in = batch<T>(run.inputs[0]), q_out = batch<T>(run.outputs[0]),
               r_out = batch<T>(run.outputs[1]);
    return each(run, [&](uint64_t index) -> Status {
      Matrix<T> a = in.read(index);
      const Int k = std::min(a.rows, a.columns), lead = a.lead(), query = -1;
      std::vector<T> tau(size_t(std::max(k, 1)));
      T asked = 0, asked_q = 0;
      Int info = 0;
      f.geqrf(&a.rows, &a.columns, a.data(), &lead, tau.data(), &asked, &query, &info);
      Matrix<T> q(a.rows, std::max(q_out.columns, 0));
      f.form_q(&q.rows, &q.columns, &k, q.data(), &lead, tau.data(), &asked_q, &query, &info);
      if (info != 0) return wrong("orgqr", info);
      const Int size = std::max(size_in(asked), size_in(asked_q));
      std::vector<T> work(static_cast<size_t>(size));
      f.geqrf(&a.rows, &a.columns, a.data(), &lead, tau.data(), work.data(), &size, &info);
      if (info != 0) return wrong("geqrf", info);
      for (Int i = 0; i < a.rows; ++i) {
        for (Int j = 0; j < std::min(q.columns, a.columns); ++j) q(i, j) = a(i, j);
        for (Int j = 0; j < std::min(i, a.columns); ++j) a(i, j) = 0;
      }
      f.form_q(&q.rows, &q.columns, &k, q.data(), &lead, tau.data(), work.data(), &size, &info);
      if (info != 0) return wrong("orgqr", info);
      q_out.write(index, q);
      r_out.write(index, a);
      return {};
    });
  });
}

// ---- Eigenvalues and singular values ----

Status run_eigh(const tenon_simple_run_t& run) {
  const bool upper = run.plan->params[kUpper] != 0;
  const char* uplo = upper ? "U" : "L";
  return with_type(run, [&]<class T>(T, const Functions<T>& f) {
    using R = typename RealOf<T>::Type;
    const auto in = batch<T>(run.inputs[0]), vectors = batch<T>(run.outputs[1]);
    const auto values = batch<R>(run.outputs[0], true);
    return each(run, [&](uint64_t index) -> Status {
      TENON_TRY(fits_work_of_eigh(in.rows));
      Matrix<T> a = in.read(index);
      if (!triangle_is_finite(a, upper)) {
        values.fill(index, not_a_number<R>());
        vectors.fill(index, not_a_number<T>());
        return {};
      }
      std::vector<T> work(1);
      std::vector<R> w(size_t(a.lead())), rwork(1);
      std::vector<Int> iwork(1);
      Int info = 0, lwork = -1, lrwork = -1, liwork = -1;
      const Int lead = a.lead();
      const auto call = [&] {
        if constexpr (kIsComplex<T>) {
          f.heevd("V", uplo, &a.rows, a.data(), &lead, w.data(), work.data(), &lwork, rwork.data(),
                  &lrwork, iwork.data(), &liwork, &info, 1, 1);
        } else {
          f.syevd("V", uplo, &a.rows, a.data(), &lead, w.data(), work.data(), &lwork, iwork.data(),
                  &liwork, &info, 1, 1);
        }
      };
      call();
      lwork = size_in(work[0]), lrwork = size_in(rwork[0]), liwork = std::max(1, iwork[0]);
      work.resize(size_t(lwork)), rwork.resize(size_t(lrwork)), iwork.resize(size_t(liwork));
      if (info == 0) call();
      if (info < 0) return wrong("syevd", info);
      if (info > 0) return fail(TENON_ABORTED, "lapack: the eigenvalues do not converge");
      std::copy_n(w.begin(), a.rows, values.data + index * values.size());
      vectors.write(index, a);
      return {};
    });
  });
}

Status run_svd(const tenon_simple_run_t& run) {
  const char* job = run.plan->params[kFull] != 0 ? "A" : "S";
  return with_type(run, [&]<class T>(T, const Functions<T>& f) {
    using R = typename RealOf<T>::Type;
    const auto in = batch<T>(run.inputs[0]), u_out = batch<T>(run.outputs[0]),
               v_out = batch<T>(run.outputs[2]);
    const auto values = batch<R>(run.outputs[1], true);
    return each(run, [&](uint64_t index) -> Status {
      Matrix<T> a = in.read(index), u(u_out.rows, u_out.columns), v(v_out.rows, v_out.columns);
      const Int small = std::min(a.rows, a.columns), large = std::max(a.rows, a.columns);
      if (!all_finite(a)) {
        u_out.fill(index, not_a_number<T>());
        v_out.fill(index, not_a_number<T>());
        values.fill(index, not_a_number<R>());
        return {};
      }
      if (small == 0) {  // LAPACK writes nothing then
        for (Int i = 0; i < std::min(u.rows, u.columns); ++i) u(i, i) = 1;
        for (Int i = 0; i < std::min(v.rows, v.columns); ++i) v(i, i) = 1;
        u_out.write(index, u);
        v_out.write(index, v);
        return {};
      }
      std::vector<T> work(1);
      std::vector<R> s(size_t(std::max(1, small)));
      std::vector<Int> iwork(size_t(std::max(1, 8 * small)));
      // As the routine's documentation asks for, whichever way it takes.
      const size_t k = size_t(small), m = size_t(large);
      std::vector<R> rwork(
          kIsComplex<T> ? std::max<size_t>(1, k * std::max(5 * k + 7, 2 * m + 2 * k + 1)) : 1);
      Int info = 0, lwork = -1;
      const Int lead = a.lead(), lead_u = u.lead(), lead_v = v.lead();
      const auto call = [&] {
        if constexpr (kIsComplex<T>) {
          f.gesdd_complex(job, &a.rows, &a.columns, a.data(), &lead, s.data(), u.data(), &lead_u,
                          v.data(), &lead_v, work.data(), &lwork, rwork.data(), iwork.data(), &info,
                          1);
        } else {
          f.gesdd(job, &a.rows, &a.columns, a.data(), &lead, s.data(), u.data(), &lead_u, v.data(),
                  &lead_v, work.data(), &lwork, iwork.data(), &info, 1);
        }
      };
      call();
      lwork = size_in(work[0]);
      work.resize(size_t(lwork));
      if (info == 0) call();
      if (info < 0) return wrong("gesdd", info);
      if (info > 0) return fail(TENON_ABORTED, "lapack: the singular values do not converge");
      std::copy_n(s.begin(), small, values.data + index * values.size());
      u_out.write(index, u);
      v_out.write(index, v);
      return {};
    });
  });
}

Status run_eig(const tenon_simple_run_t& run) {
  return with_type(run, [&]<class T>(T, const Functions<T>& f) {
    using R = typename RealOf<T>::Type;
    using C = std::complex<R>;
    const auto in = batch<T>(run.inputs[0]);
    const auto values = batch<C>(run.outputs[0], true);
    const auto vectors = batch<C>(run.outputs[1]);
    return each(run, [&](uint64_t index) -> Status {
      Matrix<T> a = in.read(index), right(a.rows, a.rows), left(1, 1);
      if (!all_finite(a)) {
        values.fill(index, not_a_number<C>());
        vectors.fill(index, not_a_number<C>());
        return {};
      }
      const Int n = a.rows, lead = a.lead(), one = 1;
      std::vector<T> work(1);
      std::vector<C> w(static_cast<size_t>(lead));
      std::vector<R> wr(static_cast<size_t>(lead)), wi(static_cast<size_t>(lead)),
          rwork(2 * static_cast<size_t>(lead));
      Int info = 0, lwork = -1;
      const auto call = [&] {
        if constexpr (kIsComplex<T>) {
          f.geev_complex("N", "V", &n, a.data(), &lead, w.data(), left.data(), &one, right.data(),
                         &lead, work.data(), &lwork, rwork.data(), &info, 1, 1);
        } else {
          f.geev("N", "V", &n, a.data(), &lead, wr.data(), wi.data(), left.data(), &one,
                 right.data(), &lead, work.data(), &lwork, &info, 1, 1);
        }
      };
      call();
      lwork = size_in(work[0]);
      work.resize(size_t(lwork));
      if (info == 0) call();
      if (info < 0) return wrong("geev", info);
      if (info > 0) return fail(TENON_ABORTED, "lapack: the eigenvalues do not converge");
      Matrix<C> v(n, n);
      if constexpr (kIsComplex<T>) {
        v.values = right.values;
      } else {
        // A pair of conjugate eigenvectors is stored as the real and the imaginary parts of one.
        for (Int j = 0; j < n; ++j) {
          w[size_t(j)] = C(wr[size_t(j)], wi[size_t(j)]);
          const bool pair = wi[size_t(j)] != 0 && j + 1 < n;
          if (pair) w[size_t(j) + 1] = std::conj(w[size_t(j)]);
          for (Int i = 0; i < n; ++i) {
            v(i, j) = pair ? C(right(i, j), right(i, j + 1)) : C(right(i, j), 0);
            if (pair) v(i, j + 1) = std::conj(v(i, j));
          }
          if (pair) ++j;
        }
      }
      std::copy_n(w.begin(), n, values.data + index * values.size());
      vectors.write(index, v);
      return {};
    });
  });
}

}  // namespace tenon::lapack
