/* Tenon ABI: engines that move data between processes (tenon.collective/1): MPI, NCCL, a
 * framework's process groups. An engine wraps a library that exists, and opens it at run time. The
 * device `mesh` uses engines for the ops of several processes (all_reduce, all_gather, ...).
 *
 * The processes of a communicator start the same works in the same order. The caller guarantees
 * this, and the engine need not check it. A work is one or several transfers that start together.
 *
 * No slot but `open`, `close` and `comm_create` blocks. The caller asks `test` again and again,
 * yields to other processes in between, and gives up after its own time limit.
 *
 *
 * Stability: unstable.
 */
#ifndef TENON_ABI_COLLECTIVE_H_
#define TENON_ABI_COLLECTIVE_H_

#include "tenon/abi/exchange.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TENON_COLLECTIVE_ID "tenon.collective/1"
#define TENON_COLLECTIVE_MINOR 1u

typedef struct tenon_engine_t tenon_engine_t; /* an engine that is open in this process */
typedef struct tenon_comm_t tenon_comm_t;     /* an ordered group of processes: a communicator */
typedef struct tenon_work_t tenon_work_t;     /* transfers on their way */

/* ---- What a launcher says ---- */

/* Filled from the launcher's environment variables, before the engine is open. The texts live as
 * long as the process. */
typedef struct tenon_launch_t {
  uint32_t size_bytes;
  uint32_t is_launched; /* 0: no launcher that the engine knows has started this process */
  uint32_t rank, rank_count;
  uint32_t local_rank, local_rank_count; /* among the processes of this machine */
  tenon_str_t launcher;                  /* "mpirun of Open MPI" */
  tenon_str_t library;                   /* what `open` would open: a path or a file name */
} tenon_launch_t;

/* ---- Abilities ---- */

#define TENON_COLLECTIVE_PROGRESSES (1u << 0) /* works move on without calls of `test` */
#define TENON_COLLECTIVE_ABORT_ENDS (1u << 1) /* `abort` ends the processes of the job */
/* Any slot may be called from any thread, several at once. Without it the caller makes one call at
 * a time. */
#define TENON_COLLECTIVE_FREE_THREADED (1u << 2)

/* What a transfer does. Members are the processes of the communicator, in order of rank. */
#define TENON_TRANSFER_ALL_REDUCE 1u     /* each gets the combination of all `from` */
#define TENON_TRANSFER_ALL_GATHER 2u     /* each gets all `from`, one after the other */
#define TENON_TRANSFER_REDUCE_SCATTER 3u /* member i gets part i of the combination */
#define TENON_TRANSFER_ALL_TO_ALL 4u     /* member i gets part i of each `from`, in order */
#define TENON_TRANSFER_BROADCAST 5u      /* each gets what `peer` has */
#define TENON_TRANSFER_SEND 6u           /* `from` goes to `peer` */
#define TENON_TRANSFER_RECEIVE 7u        /* `to` comes from `peer` */

#define TENON_COMBINE_NONE 0u
#define TENON_COMBINE_SUM 1u
#define TENON_COMBINE_MIN 2u /* NaN if any is NaN */
#define TENON_COMBINE_MAX 3u

/* A question: can the engine do this? The caller asks before it starts such a transfer for the
 * first time, and composes what the engine refuses: a sum from ALL_TO_ALL, a sum of its own and
 * ALL_GATHER. */
typedef struct tenon_transfer_kind_t {
  uint32_t size_bytes;
  uint32_t transfer, combine;
  tenon_dtype_t dtype;
  uint16_t reserved;
  uint64_t elements; /* of the larger side */
} tenon_transfer_kind_t;

/* ---- Transfers ---- */

/* Both sides are dense. They do not overlap. Counts are equal in all members. A side without
 * elements may have a null address. */
typedef struct tenon_transfer_t {
  uint32_t size_bytes;
  uint32_t transfer, combine;
  tenon_dtype_t dtype;
  uint16_t reserved;
  uint32_t peer;                  /* BROADCAST: the root; SEND, RECEIVE: the other one */
  uint32_t tag;                   /* SEND, RECEIVE: those of one tag match in order; below 32768 */
  uint64_t from_elements;         /* 0 for RECEIVE, and for BROADCAST except at the root */
  uint64_t to_elements;           /* 0 for SEND */
  tenon_native_memory_t from, to; /* of a kind in `memory_kinds` */
} tenon_transfer_t;

/* What records and messages say about a work. */
typedef struct tenon_work_info_t {
  uint32_t size_bytes;
  uint32_t reserved;
  uint64_t sequence; /* of the communicator, from 1; the same in all processes */
  tenon_str_t place; /* the node of the user's model, where it is known */
} tenon_work_info_t;

/* ---- Bootstrap ---- */

/* Brings the processes together where no launcher of the engine does: all members call all_gather
 * with as many bytes each, and get those of all in order of rank. So an engine exchanges addresses
 * or an id over what the caller has. */
typedef struct tenon_gather_t {
  uint32_t size_bytes;
  uint32_t rank, rank_count;
  uint32_t reserved;
  void* self;
  tenon_code_t (*all_gather)(void* self, const void* mine, uint64_t mine_bytes, void* out_all);
} tenon_gather_t;

/* ---- The engine ---- */

typedef struct tenon_collective_api_t {
  uint32_t size_bytes;
  uint32_t reserved;
  void* self;
  tenon_str_t name;         /* "mpi": the NAME of TENON_ENGINE */
  tenon_str_t memory_kinds; /* kinds of memory, as in exchange.h, separated by commas: "host" */
  tenon_str_t stream_kinds; /* kinds of streams: "cuda.stream"; empty: none */

  /* Reads the environment and looks for the library. It opens nothing. UNAVAILABLE with what is
   * missing, and which package has it, where a launcher has started this process and the library
   * that it needs is not there. Safe. */
  tenon_code_t (*launched)(void* self, tenon_launch_t* out_launch);
  /* Opens the engine, once for each rank that lives in this process. Where the program has
   * initialised the library itself, the engine uses it and does not end it. gather: null where the
   * launcher brings the processes together. FAILED_PRECONDITION with both numbers if the library
   * sees other processes than the launcher has started: the two are of different kinds. */
  tenon_code_t (*open)(void* self, const tenon_gather_t* gather, uint32_t* out_flags,
                       tenon_engine_t** out_engine, tenon_comm_t** out_world);
  /* All communicators but the world have been released. */
  tenon_code_t (*close)(void* self, tenon_engine_t* engine);
  /* Some members of `comm`, in this order, as a communicator of its own. Each of them calls it with
   * the same list, and no other process does. Works of different communicators are not ordered. */
  tenon_code_t (*comm_create)(void* self, tenon_comm_t* comm, const uint32_t* members,
                              uint32_t member_count, tenon_comm_t** out_comm);
  tenon_code_t (*comm_release)(void* self, tenon_comm_t* comm);
  /* OK, or UNIMPLEMENTED with a reason. The answer is the same in all members. Safe. */
  tenon_code_t (*takes)(void* self, tenon_comm_t* comm, const tenon_transfer_kind_t* kind);
  /* Starts transfers as one work, and returns at once. The memory stays valid, and what is read
   * stays unchanged, until the work is done. stream: null, or of a kind in `stream_kinds`: the work
   * begins after what is in the stream, and what is put there later begins after the work. On error
   * nothing was started. */
  tenon_code_t (*start)(void* self, tenon_comm_t* comm, const tenon_transfer_t* transfers,
                        uint32_t count, const tenon_native_handle_t* stream,
                        const tenon_work_info_t* info, tenon_work_t** out_work);
  /* Whether the work is done. It moves all works of the engine on. ABORTED once the communicator
   * was aborted; UNAVAILABLE with the rank if a process is known to be lost. */
  tenon_code_t (*test)(void* self, tenon_work_t* work, uint32_t* out_done);
  /* Of a work that is done, failed or aborted. */
  tenon_code_t (*work_release)(void* self, tenon_work_t* work);
  /* Gives up all works of the communicator. With ABORT_ENDS this may end the process. Without it
   * every work ends with ABORTED within a second, in all members. Safe. */
  tenon_code_t (*abort)(void* self, tenon_comm_t* comm, uint32_t exit_status, tenon_str_t reason);

  /* ---- Optional ---- */
  /* Writes the words of a command line, each ended by a zero byte, that starts a program as `count`
   * processes which this engine connects: the caller adds the words of the program. UNAVAILABLE
   * with what is missing. */
  tenon_code_t (*launcher)(void* self, uint32_t count, const tenon_sink_t* words);

  /* Minor 1. */

  /* Of an engine whose groups the program has made itself, such as the process groups of a
   * framework: the communicator of the group that is the only axis of a mesh, with the place of
   * this process in it, and how many it has. NOT_FOUND if the engine has no such group.
   *
   * The members need not call it together, and it exchanges nothing. The program starts works of
   * its own in the same groups, so the caller adds none: no agreements, and no messages about the
   * end of a process. A work whose `test` fails is over, and its memory is free. `open` and
   * `comm_create` of such an engine may be UNIMPLEMENTED; then `launched` says that no launcher has
   * started the process. */
  tenon_code_t (*group)(void* self, tenon_str_t name, tenon_comm_t** out_comm, uint32_t* out_rank,
                        uint32_t* out_count);

  /* Returns once the work is over, whether it failed or not, and after timeout_ns at the latest:
   * `test` says which. For engines whose works go on by themselves; null for others, which the
   * caller asks again and again. The caller may hold a lock that its other threads need, so it
   * gives a millisecond or less. */
  tenon_code_t (*wait)(void* self, tenon_work_t* work, uint64_t timeout_ns);
} tenon_collective_api_t;

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif
