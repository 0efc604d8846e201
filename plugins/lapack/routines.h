// One matrix of each op, in terms of LAPACK. Matrices of callers are row-major; LAPACK's are
// column-major, so each is transposed on the way in and out.
#ifndef TENON_PLUGINS_LAPACK_ROUTINES_H_
#define TENON_PLUGINS_LAPACK_ROUTINES_H_

#include <tenon/abi/simple_kernels.h>
#include <tenon/cpp/status.hpp>

namespace tenon::lapack {

// What `suits` learns about a call and its runs need.
enum Param { kUpper, kUnit, kForm, kFull };
enum Form : int64_t { kPlain, kTransposed, kAdjoint };

// Runs a call of the op: every matrix of the batch. NaN and infinities give NaN without asking
// LAPACK, whose iterations may not end for them.
Status run_cholesky(const tenon_simple_run_t& run);
Status run_triangular_solve(const tenon_simple_run_t& run);
Status run_lu(const tenon_simple_run_t& run);
Status run_qr(const tenon_simple_run_t& run);
Status run_eigh(const tenon_simple_run_t& run);
Status run_svd(const tenon_simple_run_t& run);
Status run_eig(const tenon_simple_run_t& run);

}  // namespace tenon::lapack

#endif
