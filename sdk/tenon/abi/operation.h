/* Tenon ABI: operations (tenon.host.operation/1): what is asked of the host as an object, so that
 * one of several threads' work can be cancelled, watched, or done in the background.
 *
 *     op->create(op->self, &options, &o);
 *     op->enter(op->self, o);                  this thread's compile, load, run, call belong to it
 *     session->compile(...);                   another thread may cancel it
 *     op->leave(op->self, o);
 *
 *     op->start_call(op->self, program, &call, o);     returns at once
 *     op->wait(op->self, o, UINT64_MAX);               then the call's outputs
 *
 *
 * Stability: stable.
 */
#ifndef TENON_ABI_OPERATION_H_
#define TENON_ABI_OPERATION_H_

#include "tenon/abi/call.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TENON_HOST_OPERATION_ID "tenon.host.operation/1"
#define TENON_HOST_OPERATION_MINOR 0u

typedef struct tenon_operation_t tenon_operation_t;

/* Functions may be null. None may call the host, except that `done` may call `cancel`, nor unwind.
 * The context lives until the operation has been released. */
typedef struct tenon_operation_options_t {
  uint32_t size_bytes;
  uint32_t reserved;
  void* context; /* for the functions */
  /* Asked while the operation works, at most every 10 ms, and only on a thread that entered it or
   * is in `wait`: not 0 cancels it. Where an interpreter handles its signals. It may be asked
   * inside of a plugin's function, and while the host holds locks of a device. */
  uint32_t (*poll)(void* context);
  /* Progress of long work: "compile", 3 of 12; total 0: unknown. On any thread of the operation. */
  void (*progress)(void* context, tenon_str_t phase, uint64_t done, uint64_t total);
  /* A started call has ended with this code, and `wait` will not wait; it may have returned
   * already. On a thread of the host. */
  void (*done)(void* context, tenon_code_t code);
} tenon_operation_options_t;

typedef struct tenon_host_operation_t {
  uint32_t size_bytes;
  void* self;

  /* options: may be null. Safe. */
  tenon_code_t (*create)(void* self, const tenon_operation_options_t* options,
                         tenon_operation_t** out_operation);
  /* Waits for a started call and its `done`, cancels nothing. Not while a thread is in it. Null is
   * fine; so is a forked child, where it stays in memory. What uses it later: as session.h says of
   * all objects; `cancel` does nothing. */
  void (*release)(void* self, tenon_operation_t* operation);
  /* Asks it to stop, for good; what belongs to it fails with CANCELLED soon. Work that devices have
   * begun, copies, and the compilation of another thread that it waits for end first. Safe, also
   * from a signal handler. */
  void (*cancel)(void* self, tenon_operation_t* operation);

  /* Until `leave`, what the calling thread asks of the host belongs to the operation. Several
   * threads may be in one, and a thread in several: the last one counts. */
  tenon_code_t (*enter)(void* self, tenon_operation_t* operation);
  /* FAILED_PRECONDITION if the operation is not the one that this thread entered last. */
  tenon_code_t (*leave)(void* self, tenon_operation_t* operation);

  /* Begins a call (tenon_host_call_t::call) on a thread of the operation and returns. The program,
   * the record and all that it names are borrowed until the call has ended. FAILED_PRECONDITION,
   * T0622, while a call that it started has not been waited for. Not after fork. Safe. */
  tenon_code_t (*start_call)(void* self, tenon_program_t* program, tenon_program_call_t* call,
                             tenon_operation_t* operation);
  /* Returns what the started call returns, with its failure as this thread's last one.
   * DEADLINE_EXCEEDED if it has not ended in time; it goes on. FAILED_PRECONDITION, T0622, if none
   * was started. Safe, for one waiting thread. */
  tenon_code_t (*wait)(void* self, tenon_operation_t* operation, uint64_t timeout_ns);
} tenon_host_operation_t;

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif
