// Threads of an OpenMP runtime that another package brought, as a team of the host.
#ifndef FRONTENDS_PYTHON_NATIVE_HOST_OPENMP_H_
#define FRONTENDS_PYTHON_NATIVE_HOST_OPENMP_H_

namespace tenon::python {

// Functions of the runtime, by the names that GCC's and LLVM's have.
struct OpenMp {
  void (*parallel)(void (*work)(void*), void* data, unsigned threads,
                   unsigned flags) = nullptr;  // GOMP_parallel; threads 0: max_threads()
  int (*thread_num)() = nullptr;               // omp_get_thread_num
  int (*max_threads)() = nullptr;              // omp_get_max_threads
};

// From now on the host computes with the runtime's threads, unless a number of threads was stated.
// The first runtime stays. It must not be unloaded. Raises tenon.Error. With the GIL.
void use_openmp(const OpenMp& openmp);

}  // namespace tenon::python
#endif
