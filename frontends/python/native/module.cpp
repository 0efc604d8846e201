// tenon._native: what tenon/*.py is made of.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "frontends/python/native/arrays/tensor.h"
#include "frontends/python/native/eager/array_base.h"
#include "frontends/python/native/eager/eager.h"
#include "frontends/python/native/host/host.h"
#include "frontends/python/native/host/openmp.h"
#include "frontends/python/native/ops/ops.h"
#include "frontends/python/native/ops/trace.h"
#include "frontends/python/native/program/background.h"
#include "frontends/python/native/program/program.h"
#include "frontends/python/native/program/results.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

std::string explain(const std::string& what, const std::string& filter) {
  using namespace tenon::python;
  std::string out;
  const tenon_sink_t sink = sink_to(&out);
  ask([&] {
    return g_tables.session->explain(g_tables.session->self, text(what), text(filter), &sink);
  });
  return out;
}

std::string describe_package(const std::string& path) {
  using namespace tenon::python;
  std::string out;
  const tenon_sink_t sink = sink_to(&out);
  ask([&] { return g_tables.package->describe(g_tables.package->self, text(path), &sink); });
  return out;
}

void set_thread_count(uint32_t count) {
  using namespace tenon::python;
  ask([&] { return g_tables.threads->set_count(g_tables.threads->self, count); });
}

uint32_t thread_count() {
  using namespace tenon::python;
  uint32_t count = 0;
  ask([&] {
    count = g_tables.threads->count(g_tables.threads->self);
    return tenon_code_t{TENON_OK};
  });
  return count;
}

nb::tuple progress() {
  const tenon::python::Progress last = tenon::python::last_progress();
  return nb::make_tuple(last.phase, last.done, last.total);
}

void use_functions(uintptr_t parallel, uintptr_t thread_num, uintptr_t max_threads) {
  tenon::python::OpenMp openmp;
  openmp.parallel = reinterpret_cast<decltype(openmp.parallel)>(parallel);
  openmp.thread_num = reinterpret_cast<decltype(openmp.thread_num)>(thread_num);
  openmp.max_threads = reinterpret_cast<decltype(openmp.max_threads)>(max_threads);
  tenon::python::use_openmp(openmp);
}

}  // namespace

NB_MODULE(_native, m) {
  using namespace tenon::python;
  // A program that exits while it holds tensors leaks nothing: the process takes its memory back.
  nb::set_leak_warnings(false);
  m.def("open", open_host, "paths"_a, "Starts the host of the process, or finds it.");
  m.def("watch_cache", watch_cache, "Logs lookups in the cache on disk. Once.");
  m.def("use_openmp", use_functions, "parallel"_a, "thread_num"_a, "max_threads"_a,
        "Computes with the threads of an OpenMP runtime: the addresses of its GOMP_parallel, "
        "omp_get_thread_num and omp_get_max_threads. It must not be unloaded.");
  m.def("describe_package", describe_package, "path"_a, "What a package holds, as JSON.");
  m.def("set_thread_count", set_thread_count, "count"_a,
        "The size of the host's pool of threads; 0: the default.");
  m.def("thread_count", thread_count, "Threads of the pool, the caller included.");
  m.def("progress", progress, nb::sig("def progress() -> tuple[str, int, int]"),
        "How far the main thread's last long work is: phase, done, total.");
  m.def("measure_peaks", measure_peaks,
        "The measured peak rates of the processor, as JSON; empty without a toolchain.");
  m.def("explain", explain, "what"_a, "filter"_a = "");
  m.def("end", end_queues, "Called when the interpreter ends.");
  bind_results(m);
  bind_tensor(m);
  bind_samples(m);
  bind_program(m);
  bind_background(m);
  bind_trace(m);
  bind_values(m);
  bind_eager(m);
  bind_flush(m);
  bind_array_base(m);
  bind_ops(m);
  bind_importers(m);
  bind_kernels(m);
  bind_engines(m);
}
