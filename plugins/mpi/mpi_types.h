// The three binary interfaces of MPI, as far as they are used here: types of handles, and where the
// predefined ones are. Facts of mpi.h of Open MPI 4 and 5 and of MPICH 4 and 5, and of mpi_abi.h of
// the MPI 5 standard; tests/mpi/headers.py compares them with these headers.
#ifndef TENON_PLUGINS_MPI_MPI_TYPES_H_
#define TENON_PLUGINS_MPI_MPI_TYPES_H_

#include <dlfcn.h>

#include <cstdint>

#include "tenon/abi/base.h"

namespace tenon::mpi {

// What is predefined.
struct Types {
  enum Name { kU8, kU16, kU32, kU64, kI8, kI16, kI32, kI64, kF32, kF64, kCount };
};

// Handles of MPICH and of libraries that are compatible with it, as Intel's, are numbers.
struct MpichAbi {
  using Comm = int;
  using Datatype = int;
  using Op = int;
  using Group = int;
  using Request = int;
  using Errhandler = int;
  static constexpr intptr_t kInPlace = -1, kStatusesIgnore = 1;
  static constexpr int kThreadMultiple = 3;
  static Comm world(void*) { return 0x44000000; }
  static Errhandler errors_return(void*) { return 0x54000001; }
  static Datatype type(void*, Types::Name name) {
    constexpr Datatype kTypes[Types::kCount] = {0x4c00013b, 0x4c00023c, 0x4c00043d, 0x4c00083e,
                                                0x4c000137, 0x4c000238, 0x4c000439, 0x4c00083a,
                                                0x4c00040a, 0x4c00080b};
    return kTypes[name];
  }
  static Op sum(void*) { return 0x58000003; }
  static Op max(void*) { return 0x58000001; }
  static Op min(void*) { return 0x58000002; }
};

// Those of Open MPI are addresses of objects in its library.
struct OpenMpiAbi {
  using Comm = void*;
  using Datatype = void*;
  using Op = void*;
  using Group = void*;
  using Request = void*;
  using Errhandler = void*;
  static constexpr intptr_t kInPlace = 1, kStatusesIgnore = 0;
  static constexpr int kThreadMultiple = 3;
  static Comm world(void* library) { return ::dlsym(library, "ompi_mpi_comm_world"); }
  static Errhandler errors_return(void* library) {
    return ::dlsym(library, "ompi_mpi_errors_return");
  }
  static Datatype type(void* library, Types::Name name) {
    constexpr const char* kTypes[Types::kCount] = {
        "ompi_mpi_uint8_t", "ompi_mpi_uint16_t", "ompi_mpi_uint32_t", "ompi_mpi_uint64_t",
        "ompi_mpi_int8_t",  "ompi_mpi_int16_t",  "ompi_mpi_int32_t",  "ompi_mpi_int64_t",
        "ompi_mpi_float",   "ompi_mpi_double"};
    return ::dlsym(library, kTypes[name]);
  }
  static Op sum(void* library) { return ::dlsym(library, "ompi_mpi_op_sum"); }
  static Op max(void* library) { return ::dlsym(library, "ompi_mpi_op_max"); }
  static Op min(void* library) { return ::dlsym(library, "ompi_mpi_op_min"); }
};

// Those of the standard are pointers with fixed values.
struct StandardAbi {
  using Comm = void*;
  using Datatype = void*;
  using Op = void*;
  using Group = void*;
  using Request = void*;
  using Errhandler = void*;
  static constexpr intptr_t kInPlace = 1, kStatusesIgnore = 0;
  static constexpr int kThreadMultiple = 4096;
  static void* handle(intptr_t value) { return reinterpret_cast<void*>(value); }
  static Comm world(void*) { return handle(0x101); }
  static Errhandler errors_return(void*) { return handle(0x143); }
  static Datatype type(void*, Types::Name name) {
    constexpr intptr_t kTypes[Types::kCount] = {0x241, 0x249, 0x251, 0x259, 0x240,
                                                0x248, 0x250, 0x258, 0x210, 0x214};
    return handle(kTypes[name]);
  }
  static Op sum(void*) { return handle(0x21); }
  static Op max(void*) { return handle(0x23); }
  static Op min(void*) { return handle(0x22); }
};

}  // namespace tenon::mpi

#endif
