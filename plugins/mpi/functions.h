// The functions of an MPI library, opened at run time.
#ifndef TENON_PLUGINS_MPI_FUNCTIONS_H_
#define TENON_PLUGINS_MPI_FUNCTIONS_H_

#include "mpi_types.h"
#include "tenon/cpp/library.hpp"
#include "tenon/cpp/plugin.hpp"

namespace tenon::mpi {

template <class Abi>
struct Functions {
  using Comm = typename Abi::Comm;
  using Datatype = typename Abi::Datatype;
  using Op = typename Abi::Op;
  using Group = typename Abi::Group;
  using Request = typename Abi::Request;

  void* library = nullptr;
  int (*Init_thread)(int*, char***, int, int*) = nullptr;
  int (*Initialized)(int*) = nullptr;
  int (*Finalized)(int*) = nullptr;
  int (*Finalize)() = nullptr;
  int (*Abort)(Comm, int) = nullptr;
  int (*Error_string)(int, char*, int*) = nullptr;
  int (*Comm_set_errhandler)(Comm, typename Abi::Errhandler) = nullptr;
  int (*Comm_rank)(Comm, int*) = nullptr;
  int (*Comm_size)(Comm, int*) = nullptr;
  int (*Comm_group)(Comm, Group*) = nullptr;
  int (*Group_incl)(Group, int, const int*, Group*) = nullptr;
  int (*Group_free)(Group*) = nullptr;
  int (*Comm_idup)(Comm, Comm*, Request*) = nullptr;
  int (*Comm_create_group)(Comm, Group, int, Comm*) = nullptr;
  int (*Comm_free)(Comm*) = nullptr;
  int (*Iallreduce)(const void*, void*, int, Datatype, Op, Comm, Request*) = nullptr;
  int (*Iallgather)(const void*, int, Datatype, void*, int, Datatype, Comm, Request*) = nullptr;
  int (*Ireduce_scatter_block)(const void*, void*, int, Datatype, Op, Comm, Request*) = nullptr;
  int (*Ialltoall)(const void*, int, Datatype, void*, int, Datatype, Comm, Request*) = nullptr;
  int (*Ibcast)(void*, int, Datatype, int, Comm, Request*) = nullptr;
  int (*Isend)(const void*, int, Datatype, int, int, Comm, Request*) = nullptr;
  int (*Irecv)(void*, int, Datatype, int, int, Comm, Request*) = nullptr;
  int (*Testall)(int, Request*, int*, void*) = nullptr;

  // UNAVAILABLE with the name of a function that the library lacks.
  Status find(void* opened) {
    library = opened;
    const char* missing = nullptr;
    const auto look = [&](const char* name, auto* out) {
      if (!find_function(library, name, out) && missing == nullptr) missing = name;
    };
    look("MPI_Init_thread", &Init_thread);
    look("MPI_Initialized", &Initialized);
    look("MPI_Finalized", &Finalized);
    look("MPI_Finalize", &Finalize);
    look("MPI_Abort", &Abort);
    look("MPI_Error_string", &Error_string);
    look("MPI_Comm_set_errhandler", &Comm_set_errhandler);
    look("MPI_Comm_rank", &Comm_rank);
    look("MPI_Comm_size", &Comm_size);
    look("MPI_Comm_group", &Comm_group);
    look("MPI_Group_incl", &Group_incl);
    look("MPI_Group_free", &Group_free);
    look("MPI_Comm_idup", &Comm_idup);
    look("MPI_Comm_create_group", &Comm_create_group);
    look("MPI_Comm_free", &Comm_free);
    look("MPI_Iallreduce", &Iallreduce);
    look("MPI_Iallgather", &Iallgather);
    look("MPI_Ireduce_scatter_block", &Ireduce_scatter_block);
    look("MPI_Ialltoall", &Ialltoall);
    look("MPI_Ibcast", &Ibcast);
    look("MPI_Isend", &Isend);
    look("MPI_Irecv", &Irecv);
    look("MPI_Testall", &Testall);
    if (missing == nullptr) return {};
    return fail(TENON_UNAVAILABLE, cat("T0902: the MPI library has no ", missing));
  }

  // T0906 with the library's text unless `code` is success.
  Status check(int code, std::string_view function) const {
    if (code == 0) return {};
    char text[1024] = {};  // MPI_MAX_ERROR_STRING is at most this in all of them
    int length = 0;
    if (Error_string(code, text, &length) != 0) length = 0;
    return fail(TENON_INTERNAL, cat("T0906: ", function, ": ", static_cast<const char*>(text)));
  }
};

}  // namespace tenon::mpi

#endif
