// The layer `validation`: checks every call to one plugin's device, queue, compile and kernels
// tables, before and after. What the plugin breaks is a requirement of docs/spec/plugin.md; what
// the host breaks, of docs/spec/host.md (R-Mnn).
//
// A call with an invalid handle, or with a null pointer for an output, is not forwarded: it fails
// with FAILED_PRECONDITION. All other calls are forwarded, so that the plugin's own answer is seen.
#ifndef TENON_PLUGINS_LAYERS_VALIDATION_VALIDATION_H_
#define TENON_PLUGINS_LAYERS_VALIDATION_VALIDATION_H_

#include <algorithm>
#include <cstring>
#include <deque>
#include <functional>
#include <span>

#include "objects.h"
#include "report.h"
#include "tenon/abi/record.h"
#include "tenon/cpp/layer.hpp"

namespace tenon::validation {

// What a call must preserve: the floating-point state, and the failure record, which only a failed
// call may change.
class Watch {
 public:
  Watch(Report& report, std::string_view slot);
  void after(tenon_code_t code);

 private:
  Report& report_;
  std::string_view slot_;
  uint32_t float_state_;
};

// A record with guard bytes after it.
template <class Record>
struct Guarded {
  Record record = {};
  unsigned char guard[64];
  Guarded() {
    std::memset(guard, 0xa5, sizeof guard);
    record.size_bytes = sizeof(Record);
  }
  bool overrun() const {
    for (unsigned char byte : guard) {
      if (byte != 0xa5) return true;
    }
    return false;
  }
};

// An object that a call refers to.
struct Used {
  ObjectRef object;
  bool written = false;
};

// A copy of the part of an input record that the caller has, zero-filled to its full size.
template <class Record>
Record whole(const Record& given) {
  Record record = {};
  std::memcpy(&record, &given, std::min<size_t>(given.size_bytes, sizeof record));
  return record;
}

// The points of a submission that name a fence.
std::vector<tenon_fence_point_t> points_of(const tenon_fence_point_t* points, uint32_t count);

class Validator {
 public:
  Status attach(LayerSubject& subject);
  static Status shutdown();

 private:
  // An output that was filled before an execution.
  struct Filled {
    uint32_t index;
    tenon_span_t span;
    uint64_t size_bytes;
  };
  // An execution that is to be done again.
  struct Again {
    ObjectRef executable;
    std::vector<int64_t> symbols;
    KnownNeeds needs;
    std::vector<tenon_span_t> inputs;
  };
  struct OwnCall;
  struct Work {
    const tenon_device_t* device;
    const tenon_queue_t* queue;
    std::vector<Used> used;
    tenon_fence_point_t signal;
    std::string_view slot;
    std::vector<tenon_fence_point_t> waits;
    std::vector<Filled> filled;
    std::optional<Again> again;
    bool must_fail = false;  // a copy that leaves a buffer
    bool seen = false;       // its signal was seen to be good, and checked
  };

  // ---- tenon.device/1: device.cpp
  void attach_device(LayerSubject& subject);
  tenon_code_t count(uint32_t* out);
  tenon_code_t info(uint32_t ordinal, tenon_device_info_t* out);
  tenon_code_t open(uint32_t ordinal, tenon_device_t** out);
  tenon_code_t close(tenon_device_t* device);
  tenon_code_t alloc(tenon_device_t* device, uint64_t size, tenon_buffer_t** out);
  tenon_code_t free(tenon_device_t* device, tenon_buffer_t* buffer);
  tenon_code_t free_behind(tenon_device_t* device, tenon_buffer_t* buffer,
                           const tenon_fence_point_t* points, uint32_t point_count);
  tenon_code_t copy(tenon_device_t* device, const tenon_copy_t* copy);
  tenon_code_t map(tenon_device_t* device, tenon_buffer_t* buffer, void** out);
  tenon_code_t import(tenon_device_t* device, const tenon_memory_import_t* memory,
                      tenon_buffer_t** out);
  tenon_code_t memory(tenon_device_t* device, uint64_t* used, uint64_t* peak);
  void check_info(uint32_t ordinal, const tenon_device_info_t& info);
  tenon_code_t checked_copy(const ObjectRef& device, const ObjectRef& from_device,
                            const tenon_copy_t& copy, std::string_view slot, bool complete,
                            const std::function<tenon_code_t(const tenon_copy_t&)>& pass_on);

  // ---- copies with their data: copies.cpp
  tenon_code_t copy_and_compare(const Object& device, const tenon_copy_t& copy,
                                const std::function<tenon_code_t(const tenon_copy_t&)>& pass_on);
  bool read_back(tenon_device_t* device, tenon_buffer_t* buffer, uint64_t offset, uint64_t length,
                 std::vector<unsigned char>* out);

  // ---- tenon.exchange/1: exchange.cpp
  void attach_exchange(LayerSubject& subject);
  struct Import {
    std::string_view slot, requirement, output;
    Kind kind;
  };
  template <class Handle, class Call>
  ObjectRef imported(const Import& of, tenon_device_t* device, const void* record, const void* out,
                     Handle** handle, tenon_code_t* code, Call call);
  tenon_code_t import_memory(tenon_device_t* device, const tenon_native_memory_t* memory,
                             tenon_buffer_t** out);
  tenon_code_t import_queue(tenon_device_t* device, const tenon_native_handle_t* stream,
                            tenon_queue_t** out);
  tenon_code_t import_fence(tenon_device_t* device, const tenon_native_handle_t* native,
                            tenon_fence_point_t* out);

  // ---- tenon.queue/1: queue.cpp
  void attach_queue(LayerSubject& subject);
  tenon_code_t queue_create(tenon_device_t* device, tenon_queue_t** out);
  tenon_code_t queue_destroy(tenon_queue_t* queue);
  tenon_code_t copy_async(tenon_queue_t* queue, const tenon_copy_t* copy,
                          const tenon_fence_point_t* waits, uint32_t wait_count,
                          tenon_fence_point_t signal);
  tenon_code_t fence_create(tenon_device_t* device, uint64_t initial, tenon_fence_t** out);
  tenon_code_t fence_destroy(tenon_fence_t* fence);
  tenon_code_t fence_query(tenon_fence_t* fence, uint64_t* out);
  tenon_code_t fence_signal(tenon_fence_t* fence, uint64_t value);
  tenon_code_t fence_wait(tenon_fence_t* fence, uint64_t value, uint64_t timeout_ns);
  tenon_code_t reaches(tenon_queue_t* queue, tenon_device_t* from, uint32_t* out);
  void check_reached(const Object& queue, const tenon_copy_t& copy);
  // Checks the fences of a submission: alive, with growing values. False when it cannot be
  // forwarded.
  bool check_points(std::string_view slot, const tenon_fence_point_t* waits, uint32_t wait_count,
                    tenon_fence_point_t signal);
  void submitted(const Object& queue, Work work);
  // The fence is at `value`, and good: what work with a signal up to it waited for must be reached,
  // and its outputs written.
  void check_signalled(tenon_fence_t* fence, uint64_t value);
  void check_work(const Work& work);
  void check_unsignalled(std::string_view requirement, std::string_view slot,
                         tenon_fence_point_t signal);
  // Whether submitted work in flight refers to an object or, if `written`, writes it.
  bool in_flight(const Object& object, bool written = false);
  // For calls that complete before they return: R-M19 if submitted work uses the buffer.
  void check_waited(std::string_view slot, const ObjectRef& buffer, bool writes,
                    std::string_view what);
  void forget_work_of(const tenon_device_t* device, const tenon_queue_t* queue);

  // ---- outputs that are not written, with the option data: outputs.cpp
  std::vector<Filled> fill_outputs(const Object& executable, const tenon_call_t& call);
  bool fill(const Object& executable, const tenon_call_t& call, const Filled& output);
  // of: an object of the device, such as the executable.
  void check_filled(const Object& of, std::span<const Filled> outputs);

  // ---- executions done again, with the option again: again.cpp
  std::optional<Again> again(const ObjectRef& executable, const tenon_call_t& call);
  void check_again(const Again& of);
  bool gives_same_bits(const Object& device);
  bool make_own(const Again& of, OwnCall* out);
  bool run_own(const Again& of, OwnCall* own);
  void free_own(const Again& of, const OwnCall& own);

  // ---- tenon.compile/1: compile.cpp
  void attach_compile(LayerSubject& subject);
  tenon_code_t claim(tenon_str_t target, tenon_graph_t* graph,
                     const tenon_compile_options_t* options, const tenon_claim_sink_t* sink);
  tenon_code_t properties(tenon_str_t target, tenon_compile_properties_t* out);
  tenon_code_t compile(tenon_str_t target, tenon_graph_t* graph,
                       const tenon_compile_options_t* options, tenon_artifact_t** out);
  void artifact_release(tenon_artifact_t* artifact);
  tenon_code_t artifact_info(tenon_artifact_t* artifact, tenon_artifact_info_t* out);
  tenon_code_t artifact_bytes(tenon_artifact_t* artifact, const tenon_sink_t* sink);
  tenon_code_t fits(tenon_str_t target, const void* bytes, uint64_t size);
  tenon_code_t load(tenon_device_t* device, const void* bytes, uint64_t size,
                    tenon_blob_t* const* constants, uint32_t count, tenon_executable_t** out);
  void executable_release(tenon_executable_t* executable);
  tenon_code_t executable_info(tenon_executable_t* executable, tenon_executable_info_t* out);
  tenon_code_t needs(tenon_executable_t* executable, tenon_symbols_t symbols, tenon_needs_t* needs);
  tenon_code_t execute(tenon_executable_t* executable, const tenon_call_t* call);
  tenon_code_t dump(tenon_artifact_t* artifact, tenon_str_t what, const tenon_sink_t* sink);
  bool need_blobs(std::string_view slot, std::string_view what, tenon_blob_t* const* blobs,
                  uint32_t count);
  tenon_code_t pack(tenon_str_t target, const void* bytes, uint64_t size,
                    tenon_blob_t* const* constants, uint32_t count,
                    const tenon_packed_sink_t* sink);
  tenon_code_t load_packed(tenon_device_t* device, const void* bytes, uint64_t size,
                           tenon_blob_t* const* packed, uint32_t count, tenon_executable_t** out);
  bool check_graph(std::string_view slot, tenon_graph_t* graph);
  bool check_call(const Object& executable, const tenon_call_t& call, std::vector<Used>* used);

  // ---- tenon.kernels/1: kernels.cpp
  void attach_kernels(LayerSubject& subject);
  tenon_code_t query(tenon_str_t target, const tenon_kernel_call_t* call,
                     tenon_kernel_candidate_t* out);
  tenon_code_t create(tenon_device_t* device, const tenon_kernel_call_t* call,
                      tenon_kernel_t** out);
  void destroy(tenon_kernel_t* kernel);
  tenon_code_t run(tenon_kernel_t* kernel, const tenon_kernel_args_t* args);
  bool check_queue(const Object& kernel, const tenon_kernel_args_t& args, ObjectRef* out_queue);
  tenon_code_t prepack(tenon_kernel_t* kernel, uint32_t operand, const void* data, uint64_t size,
                       const tenon_sink_t* sink);
  tenon_code_t save(tenon_kernel_t* kernel, const tenon_sink_t* sink);
  tenon_code_t restore(tenon_device_t* device, const void* bytes, uint64_t size,
                       tenon_kernel_t** out);

  // ---- For all: validation.cpp
  void broken(std::string_view requirement, std::string_view slot, std::string_view text) {
    report_->broken(requirement, slot, text);
  }
  // The object of a handle; null if there is none, which breaks R-M01. Buffers need their device.
  ObjectRef need(std::string_view slot, Kind kind, const void* handle,
                 tenon_device_t* device = nullptr);
  // False, and R-M02, for a null pointer where one is required.
  bool need_pointer(std::string_view slot, const void* pointer, std::string_view what);
  // least: the size of the first layout of this version, or of the part that the caller fills.
  // Records have grown since.
  bool need_size(std::string_view slot, uint32_t size_bytes, uint64_t least, std::string_view what);
  static tenon_code_t refuse(std::string_view slot);
  // Registers an object that a call made; reports a null handle, or one that is already alive.
  ObjectRef made(std::string_view slot, std::string_view requirement, Kind kind, const void* handle,
                 tenon_device_t* device);
  void note_lost(Object& device, std::string_view slot, tenon_code_t code, bool is_release = false);

  // Calls the plugin, and checks its code, its text, exceptions and side effects.
  template <class Call>
  tenon_code_t ask(std::string_view slot, Call call) {
    report_->count_call();
    Watch watch(*report_, slot);
    tenon_code_t code = TENON_INTERNAL;
    try {
      code = call();
    } catch (...) {
      broken("R-B23", slot, "an exception left it");
      return fail(TENON_INTERNAL, cat("validation: an exception left ", slot)).code();
    }
    watch.after(code);
    return code;
  }
  // The same for a call with one handle, number or address as output: on failure it must not change
  // it.
  template <class Out, class Call>
  tenon_code_t ask_for(std::string_view slot, Out* out, Call call) {
    Out local;
    std::memset(&local, 0x5c, sizeof local);
    const Out before = local;
    const tenon_code_t code = ask(slot, [&] { return call(&local); });
    if (code == TENON_OK) {
      *out = local;
    } else if (local != before) {
      broken("R-B18", slot, cat("it failed with ", code, " and changed its output"));
    }
    return code;
  }
  // The same for a record: no byte after it may be written. The caller's record may be shorter
  // than this layer's and the plugin's.
  template <class Record, class Call>
  tenon_code_t ask_for_record(std::string_view slot, Record* out, Guarded<Record>& guarded,
                              Call call) {
    const Guarded<Record> before = guarded;
    const tenon_code_t code = ask(slot, [&] { return call(&guarded.record); });
    if (guarded.overrun())
      broken("R-B19", slot, cat("it wrote past the record of ", sizeof(Record), " bytes"));
    if (code == TENON_OK) {
      (void)tenon_record_give(out, &guarded.record, sizeof(Record));
    } else if (std::memcmp(&guarded.record, &before.record, sizeof(Record)) != 0) {
      broken("R-B18", slot, cat("it failed with ", code, " and changed its output"));
    }
    return code;
  }

  // Counts the calls inside a device or queue that allows one at a time. Excludes those that the
  // host makes while a call of the same device is asking it for an output.
  class Inside {
   public:
    Inside(Validator& v, const ObjectRef& object, std::string_view slot, bool exclusive);
    ~Inside();

   private:
    ObjectRef object_;
  };
  Inside enter(const ObjectRef& device, std::string_view slot) {
    return Inside(*this, device, slot,
                  device != nullptr && device->threading == TENON_THREADING_SERIAL);
  }

  // Sits between an execution and the host, when the execution asks for an output.
  struct AskedOutput {
    const Object* device;
    const tenon_call_t& call;
    static tenon_code_t give(void* self, uint32_t index, uint64_t size_bytes,
                             tenon_buffer_t** out_buffer, uint64_t* out_offset_bytes);
  };

  std::unique_ptr<Report> report_;
  Objects objects_;
  bool data_ = false, again_ = false;
  const tenon_device_api_t* device_ = nullptr;
  const tenon_queue_api_t* queue_ = nullptr;
  const tenon_compile_api_t* compile_ = nullptr;
  const tenon_kernels_api_t* kernels_ = nullptr;
  tenon_device_api_t device_table_ = {};
  tenon_queue_api_t queue_table_ = {};
  const tenon_exchange_api_t* exchange_ = nullptr;
  tenon_exchange_api_t exchange_table_ = {};
  tenon_compile_api_t compile_table_ = {};
  tenon_kernels_api_t kernels_table_ = {};
  std::mutex mutex_;  // guards the fields below
  int64_t count_ = -1;
  std::map<uint32_t, std::pair<tenon_device_info_t, std::string>> infos_;
  std::deque<Work> work_;
};

}  // namespace tenon::validation

#endif
