/* Tenon ABI: calls of a program (tenon.host.call/1). Inputs and outputs go by position, any thread
 * may call at any time, and values stay where the program can use them again. This is the path for
 * servers and for the bindings of other languages; tenon_binding_t (session.h) does the same by
 * name, one run after another, and profiles.
 *
 *     tenon_array_t x = {sizeof x, TENON_F32, 0, 2, 0, data, dims, NULL}, y = {sizeof y};
 *     tenon_input_t in = {sizeof in, 0, &x, NULL};
 *     tenon_output_t out = {sizeof out, TENON_OUTPUT_OWNED, &y, NULL};
 *     tenon_program_call_t c = {sizeof c, 1, 1, 0, &in, &out};
 *     calls->call(calls->self, program, &c);     then y, until tensor_release(out.tensor)
 *
 * A decoder keeps its state on the device: its output is LEFT there, and DONATED to the next call.
 *
 *
 * Stability: unstable.
 */
#ifndef TENON_ABI_CALL_H_
#define TENON_ABI_CALL_H_

#include "tenon/abi/exchange.h"
#include "tenon/abi/session.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TENON_HOST_CALL_ID "tenon.host.call/1"
#define TENON_HOST_CALL_MINOR 1u /* 1: tensor_use */

/* ---- Tensors ---- */

/* An immutable value with memory of its own: on the host, on a device, or on several. A tensor that
 * was an input remembers where calls have copied it, so that it goes to a device only once. It
 * outlives programs. Its memory counts against TENON_MEMORY_LIMIT, unless it is the caller's. It
 * must not be touched once the process runs its exit functions. Threads: safe, but for donation.
 * As every slot of this table, releasing it may wait for a thread that is in the device's plugin:
 * who holds a lock that a callback of an operation takes gives it back around every slot. */
typedef struct tenon_tensor_t tenon_tensor_t;

typedef struct tenon_tensor_info_t {
  uint32_t size_bytes;
  tenon_dtype_t dtype;
  uint16_t reserved;
  uint32_t rank;
  uint32_t reserved2;
  const int64_t* dims; /* borrowed from the tensor */
  uint64_t bytes;      /* of its elements */
  /* Where it is: "host", "sim", "sim:1,host". Borrowed until the thread's next call of this slot.
   */
  tenon_str_t places;
} tenon_tensor_info_t;

/* ---- Inputs ---- */

/* The caller permits that the tensor's memory becomes that of an output. After a call that succeeds
 * the tensor has no value, whether its memory was used or not: T0621 where it is used again, and
 * its arrays are not to be read. After one that fails it has its value, unless an output was to be
 * written to its memory, or the failure came from work that was still running when all steps had
 * been submitted. Memory of the caller (tensor_wrap) is never written. No other call may use the
 * tensor at the same time. T0621 if it occurs twice in this call. */
#define TENON_INPUT_DONATED 1u

typedef struct tenon_input_t {
  uint32_t size_bytes;
  uint32_t flags; /* TENON_INPUT_*; 0 with an array */
  /* Exactly one of these two. The array is host memory, read until the call returns. */
  const tenon_array_t* array;
  tenon_tensor_t* tensor;
} tenon_input_t;

/* ---- Outputs ---- */

#define TENON_OUTPUT_OWNED 0u /* the host gives dense memory that the host can read */
#define TENON_OUTPUT_GIVEN 1u /* the caller gives memory, dense or strided */
#define TENON_OUTPUT_LEFT 2u  /* it stays on the device that made it */
/* As GIVEN, and its memory may be written while the memory of an input is read that it is: a dense
 * array of the same type that has exactly this memory, such as a parameter that a step of an
 * optimizer changes. Nothing is allocated for it then, where the device can do that. A call that
 * fails may have written parts of it. */
#define TENON_OUTPUT_IN_PLACE 3u

typedef struct tenon_output_t {
  uint32_t size_bytes;
  uint32_t kind; /* TENON_OUTPUT_* */
  /* GIVEN: read. Element type and dims must be those of the result, which is known after the run.
   * Strides must not let elements share bytes, nor interleave axes in other ways than slices and
   * transposes do; elements of less than a byte take none. From its first to its last byte it must
   * not overlap another GIVEN output. It may be the memory of an array of this call: inputs are
   * read before such an output is written. A device that works in host memory writes the output
   * there at once, if it is dense, aligned to 8 bytes, and not also the memory of an input.
   * OWNED and LEFT: filled. data and dims live as long as `tensor`; data is aligned as the device
   * allocates, and may be null when there are no elements, as dims when there are none. The caller
   * may write to OWNED data until the tensor is an input of a call. Of LEFT, data is null if the
   * host cannot read it, and it must not be written: the tensor may be one of the inputs. */
  tenon_array_t* array;
  tenon_tensor_t* tensor; /* OWNED and LEFT: set on success, else untouched; to be released */
} tenon_output_t;

/* ---- The call ---- */

/* A value: that of a symbolic size (tenon_model_info_t::symbol_names). Needed for a size that
 * something uses and that follows from no input's dims, else T0623; for others it must agree with
 * them. */
typedef struct tenon_size_t {
  tenon_str_t name;
  int64_t value;
} tenon_size_t;

/* A stream or a fence of another library on one of the program's devices. */
typedef struct tenon_call_native_t {
  uint32_t size_bytes;
  uint32_t reserved;
  tenon_str_t device; /* "sim:1"; "cuda#1": by the vendor's number (tenon_device_info_t) */
  /* flags: 0. What the plugin of the device takes (exchange.h: import_queue, import_fence). */
  const tenon_native_handle_t* handle;
} tenon_call_native_t;

typedef struct tenon_program_call_t {
  uint32_t size_bytes;
  uint32_t input_count, output_count; /* those of the model */
  uint32_t reserved;
  /* In the model's order; records are as far apart as the first one's size_bytes says. Borrowed for
   * the call, and not for another one at the same time. */
  const tenon_input_t* inputs;
  tenon_output_t* outputs;
  /* Filled on success. Strided inputs that were made dense, and inputs that rarely change and came
   * with a new value (tenon_session_options_t::stable_inputs); what went between host and device
   * memory; results that were copied into GIVEN memory or away from memory that is not theirs. */
  uint64_t repacked_bytes, transferred_bytes, copied_out_bytes;
  const tenon_size_t* sizes; /* may be null if size_count is 0 */
  uint32_t size_count;
  uint32_t stream_count, wait_count, signal_count;
  /* Each may be null if its count is 0; records are as far apart as the first one's size_bytes
   * says. T0634 for a device on which the program has no work; T0635 for a device that
   * takes none of other libraries, or none of this kind; else as its plugin refuses.
   * streams: the work of the call on a device goes to the first stream that is for it, after what
   * is in all streams that are for it. Tensors that were adopted on that device may still be
   * written by what is in one of them. waits: the call's thread waits for these fences before
   * anything of the call is submitted, and may be cancelled meanwhile. T0636 if one fails. A device
   * waits by itself for what its stream waits for. An event, as any fence that does not count, must
   * be recorded before the call. signals: signalled by the device when all work of the call on it
   * is done. An event is recorded by then, so it may be waited for once the call has returned; a
   * fence that counts, at any time. A call that fails may have signalled on devices whose own work
   * succeeded, and on no other. */
  const tenon_call_native_t* streams;
  const tenon_call_native_t* waits;
  const tenon_call_native_t* signals;
} tenon_program_call_t;

typedef struct tenon_host_call_t {
  uint32_t size_bytes;
  void* self;

  /* Runs the program to its end; it must not be released before. Calls of one program run at the
   * same time, each with working memory of its own, which is kept for later calls until memory is
   * short. Where shapes follow from values of inputs, the program is compiled first. Fails as
   * tenon_host_session_t::bind_input and run do, with T0601 for another number of inputs or
   * outputs, and with T0620 for an output that does not fit; then no output is given, and GIVEN
   * memory may have been written.
   * Cancelled by tenon_host_session_t::cancel, with all other operations of the process. Not after
   * fork. Safe. */
  tenon_code_t (*call)(void* self, tenon_program_t* program, tenon_program_call_t* call);

  /* Makes a tensor of dense host memory without copying it. The memory must stay as it is until
   * `release` is called, once, on any thread, when nothing uses it any more: outputs that were LEFT
   * may be this tensor. null: it lives as long as the process. The host holds no lock while it
   * calls `release`, which must not call the host but for tensor_release. It is not called if this
   * fails, when tensors are still there at the end of the process, nor once a device that imported
   * the memory was given up. Safe.
   */
  tenon_code_t (*tensor_wrap)(void* self, const tenon_array_t* array, void* context,
                              void (*release)(void* context), tenon_tensor_t** out_tensor);
  /* Makes a tensor with a copy of an array, which may have strides, in memory of a device: "cpu",
   * "sim:1"; empty: of the host. T0502 and T0503 for the device. Safe. */
  tenon_code_t (*tensor_copy)(void* self, const tenon_array_t* array, tenon_str_t device,
                              tenon_tensor_t** out_tensor);
  tenon_code_t (*tensor_info)(void* self, tenon_tensor_t* tensor, tenon_tensor_info_t* out_info);
  /* Its elements on the host, dense, as long as the tensor lives; not to be written. The first call
   * copies them if the host cannot read them where they are. T0621 once it was given up. Safe. */
  tenon_code_t (*tensor_array)(void* self, tenon_tensor_t* tensor, tenon_array_t* out_array);
  /* Makes a tensor of memory of another library, where it is: `memory` names it as the device's
   * plugin demands (exchange.h). array: type and dims; its data and strides are null. The memory
   * must stay as it is, and `release` is called, as for tensor_wrap; all work that writes it is
   * done, or in the stream that each call that uses it gets for its device. T0502, T0503 and T0633
   * for the device, the last also for a kind that it does not take; T0613 if length_bytes are not
   * the array's; else as the plugin refuses it. Safe. */
  tenon_code_t (*tensor_adopt)(void* self, const tenon_array_t* array, tenon_str_t device,
                               const tenon_native_memory_t* memory, void* context,
                               void (*release)(void* context), tenon_tensor_t** out_tensor);
  /* The handle of the tensor's memory on a device, dense, valid as long as the tensor lives; not to
   * be written. Copied there first if it is not there. kind: as the plugin knows it. T0502, T0503
   * and T0633 for the device and the kind, T0621 once the tensor was given up; else as the plugin
   * refuses. Safe. */
  tenon_code_t (*tensor_native)(void* self, tenon_tensor_t* tensor, tenon_str_t device,
                                tenon_str_t kind, tenon_native_memory_t* out_memory);
  /* Null is fine. What uses it later: as session.h says of all objects. May call the device's
   * plugin, and so replace this thread's last failure. Safe. */
  void (*tensor_release)(void* self, tenon_tensor_t* tensor);
  /* What is in a stream now may use the tensor's memory on the stream's device, of which
   * tensor_native gave the handle. That memory is not freed, and becomes no output's, before this
   * work is done, also if the tensor is released meanwhile; nothing waits for it, unless the device
   * cannot free memory after a fence. The program that hands memory out calls this when that use
   * ends, and keeps the tensor until then. Where the stream cannot be followed, the memory is kept
   * until the process ends, since the end of the work is unknown: T0502, T0503 and T0635 for the
   * device and the kind; else as the plugin refuses the stream. Safe. */
  tenon_code_t (*tensor_use)(void* self, tenon_tensor_t* tensor, const tenon_call_native_t* stream);
} tenon_host_call_t;

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif
