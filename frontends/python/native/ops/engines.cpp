// Engines that are Python objects: they move data within groups of processes that a library of
// Python has made, such as the process groups of PyTorch. Registered while the program runs.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <memory>
#include <string>

#include "frontends/python/native/arrays/arrays.h"
#include "frontends/python/native/host/host.h"
#include "frontends/python/native/ops/ops.h"
#include "frontends/python/native/ops/python_slots.h"
#include "tenon/abi/collective.h"
#include "tenon/cpp/record.hpp"

namespace nb = nanobind;
using namespace nb::literals;

struct tenon_comm_t {
  PyObject* group = nullptr;
};
struct tenon_work_t {
  PyObject* work = nullptr;
};

namespace tenon::python {
namespace {

// It lives as long as the process, as the host requires.
struct PythonEngine {
  std::string name, plugin_name, manifest;
  PyObject* engine = nullptr;
  // What the library combines itself, by TENON_COMBINE_*.
  std::array<tenon_dtypes_t, TENON_COMBINE_MAX + 1> combines = {};
  tenon_collective_api_t table = {};
  tenon_interface_t interface = {};
  tenon_plugin_t plugin = {};
};

constexpr const char* kTransfers[] = {"",           "all_reduce", "all_gather", "reduce_scatter",
                                      "all_to_all", "broadcast"};
constexpr const char* kCombines[] = {"", "sum", "min", "max"};

PythonEngine& of(void* self) {
  return *static_cast<PythonEngine*>(self);
}
tenon_code_t refuse(tenon_code_t code, const std::string& message) {
  return g_tables.host->fail(g_tables.host->self, code, text(message), nullptr, 0);
}
bool combines(uint32_t transfer) {
  return transfer == TENON_TRANSFER_ALL_REDUCE || transfer == TENON_TRANSFER_REDUCE_SCATTER;
}

tenon_code_t launched_slot(void*, tenon_launch_t* out) noexcept {
  const auto made = sized<tenon_launch_t>();
  return tenon_record_give(out, &made, sizeof made);
}
tenon_code_t open_slot(void* self, const tenon_gather_t*, uint32_t*, tenon_engine_t**,
                       tenon_comm_t**) noexcept {
  return refuse(TENON_UNIMPLEMENTED,
                "T0902: the program makes the groups of the engine " + of(self).name);
}
tenon_code_t close_slot(void*, tenon_engine_t*) noexcept {
  return TENON_OK;
}
tenon_code_t comm_create_slot(void* self, tenon_comm_t*, const uint32_t*, uint32_t,
                              tenon_comm_t**) noexcept {
  return open_slot(self, nullptr, nullptr, nullptr, nullptr);
}
tenon_code_t comm_release_slot(void*, tenon_comm_t* comm) noexcept {
  drop_later(comm->group);
  delete comm;
  return TENON_OK;
}

// The engine's `group` gives the group, the place of this process in it and its size, or None.
tenon_code_t group_slot(void* self, tenon_str_t name, tenon_comm_t** out, uint32_t* out_rank,
                        uint32_t* out_count) noexcept {
  bool found = false;
  const tenon_code_t code = in_python(of(self).name, [&] {
    const nb::object made =
        nb::borrow(of(self).engine).attr("group")(nb::str(name.data, name.size));
    if (made.is_none()) return;
    *out_rank = nb::cast<uint32_t>(made[1]);
    *out_count = nb::cast<uint32_t>(made[2]);
    *out = new tenon_comm_t{nb::object(made[0]).release().ptr()};
    found = true;
  });
  if (code != TENON_OK || found) return code;
  return refuse(TENON_NOT_FOUND, "the engine " + of(self).name + " has no such group");
}

tenon_code_t takes_slot(void* self, tenon_comm_t*, const tenon_transfer_kind_t* kind) noexcept {
  if (kind->transfer >= std::size(kTransfers))
    return refuse(TENON_UNIMPLEMENTED, of(self).name + " does not send to one process");
  const tenon_dtypes_t types = of(self).combines[kind->combine & 3u];
  if (combines(kind->transfer) && (types & TENON_DTYPE_BIT(kind->dtype)) == 0)
    return refuse(TENON_UNIMPLEMENTED, of(self).name + " does not combine such elements");
  return TENON_OK;
}

// Memory as a memoryview, or None for a side without elements.
nb::object bytes_of(const tenon_native_memory_t& memory, uint64_t elements) {
  if (elements == 0) return nb::none();
  PyObject* made =
      PyMemoryView_FromMemory(reinterpret_cast<char*>(memory.handle),
                              static_cast<Py_ssize_t>(memory.length_bytes), PyBUF_WRITE);
  if (made == nullptr) nb::raise_python_error();
  return nb::steal(made);
}

tenon_code_t start_slot(void* self, tenon_comm_t* comm, const tenon_transfer_t* transfers,
                        uint32_t count, const tenon_native_handle_t*, const tenon_work_info_t*,
                        tenon_work_t** out) noexcept {
  const tenon_transfer_t& move = transfers[0];
  if (count != 1 || move.transfer >= std::size(kTransfers))
    return refuse(TENON_UNIMPLEMENTED, of(self).name + " does not send to one process");
  return in_python(of(self).name, [&] {
    nb::object work = nb::borrow(of(self).engine)
                          .attr("start")(nb::borrow(comm->group), kTransfers[move.transfer],
                                         kCombines[move.combine & 3u], dtype_name(move.dtype),
                                         move.peer, bytes_of(move.from, move.from_elements),
                                         bytes_of(move.to, move.to_elements));
    *out = new tenon_work_t{work.release().ptr()};
  });
}

tenon_code_t test_slot(void* self, tenon_work_t* work, uint32_t* out_done) noexcept {
  return in_python(of(self).name, [&] {
    const nb::object done = nb::borrow(of(self).engine).attr("test")(nb::borrow(work->work));
    *out_done = nb::cast<bool>(done) ? 1u : 0u;
  });
}

tenon_code_t wait_slot(void* self, tenon_work_t* work, uint64_t timeout_ns) noexcept {
  return in_python(of(self).name, [&] {
    nb::borrow(of(self).engine).attr("wait")(nb::borrow(work->work), timeout_ns);
  });
}

tenon_code_t work_release_slot(void*, tenon_work_t* work) noexcept {
  drop_later(work->work);
  delete work;
  return TENON_OK;
}

tenon_code_t abort_slot(void* self, tenon_comm_t* comm, uint32_t, tenon_str_t reason) noexcept {
  return in_python(of(self).name, [&] {
    nb::borrow(of(self).engine)
        .attr("abort")(nb::borrow(comm->group), nb::str(reason.data, reason.size));
  });
}

void make_table(PythonEngine& made) {
  tenon_collective_api_t& table = made.table;
  table.size_bytes = sizeof table;
  table.self = &made;
  table.name = text(made.name);
  table.memory_kinds = text("host");
  table.launched = launched_slot;
  table.open = open_slot;
  table.close = close_slot;
  table.comm_create = comm_create_slot;
  table.comm_release = comm_release_slot;
  table.takes = takes_slot;
  table.start = start_slot;
  table.test = test_slot;
  table.work_release = work_release_slot;
  table.abort = abort_slot;
  table.group = group_slot;
  table.wait = wait_slot;
}

tenon_dtypes_t types_of(const std::vector<std::string>& names) {
  tenon_dtypes_t types = 0;
  for (const std::string& name : names) types |= TENON_DTYPE_BIT(dtype_named(name));
  return types;
}

// A device calls the engine while it runs, and nothing that builds or changes graphs does. So slots
// of graphs may still keep the GIL.
void register_engine(const std::string& name, const nb::object& engine,
                     const std::vector<std::string>& sums,
                     const std::vector<std::string>& extremes) {
  auto made = std::make_unique<PythonEngine>();
  made->name = name;
  made->engine = engine.ptr();
  made->combines[TENON_COMBINE_SUM] = types_of(sums);
  made->combines[TENON_COMBINE_MIN] = made->combines[TENON_COMBINE_MAX] = types_of(extremes);
  make_table(*made);
  describe_plugin(*made, TENON_COLLECTIVE_ID, &made->table, "collectives",
                  "\"" + made->name + "\"");
  register_plugin(made->plugin, made->manifest, false);
  Py_INCREF(made->engine);
  (void)made.release();  // the host keeps it
}

}  // namespace

void bind_engines(nb::module_& m) {
  m.def("register_engine", register_engine, "name"_a, "engine"_a, "sums"_a, "extremes"_a,
        "An engine between processes, whose groups the program makes. sums, extremes: types that "
        "it combines itself.");
}

}  // namespace tenon::python
