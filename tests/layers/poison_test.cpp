// The layer `poison` on a device that writes nothing: exactly the memory that it should have
// written holds the pattern.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <cmath>
#include <cstring>

#include <tenon/abi/compile.h>
#include <tenon/abi/copy.h>
#include <tenon/abi/device.h>
#include <tenon/abi/kernels.h>
#include <tenon/abi/layer.h>
#include <tenon/abi/queue.h>
#include <tenon/cpp/dtype.hpp>

#include "core/host/host_interfaces.h"
#include "core/host/loading/layers.h"
#include "core/host/plugin_host.h"

namespace tenon::host {
namespace {

using Bytes = std::vector<unsigned char>;

// Host memory; executables and kernels leave it unchanged.
struct Device {
  uint64_t copied_with_waits = 0, copies = 0, most = UINT64_MAX;  // it refuses more copies
  uint64_t ended = 0;  // copies before the last wait for a fence
  bool fails = false;
  uint32_t alias = TENON_NO_ALIAS;

  static Device& of(void* self) { return *static_cast<Device*>(self); }
  static Bytes& bytes(tenon_buffer_t* buffer) { return *reinterpret_cast<Bytes*>(buffer); }

  static tenon_code_t alloc(void*, tenon_device_t*, uint64_t size, tenon_buffer_t** out) {
    return *out = reinterpret_cast<tenon_buffer_t*>(new Bytes(size, 1)), TENON_OK;
  }
  static tenon_code_t free(void*, tenon_device_t*, tenon_buffer_t* buffer) {
    return delete &bytes(buffer), TENON_OK;
  }
  static tenon_code_t copy(void* self, tenon_device_t*, const tenon_copy_t* copy) {
    const bool refuses = of(self).fails || (of(self).copies == of(self).most && copy->length_bytes);
    if (refuses || tenon_copy_kind_fault(copy) != nullptr) return TENON_ABORTED;
    if (tenon_copy_range_fault(copy, 0, bytes(copy->to).size()) != nullptr)
      return TENON_OUT_OF_RANGE;
    ++of(self).copies;
    return tenon_copy_perform(copy, nullptr, bytes(copy->to).data()), TENON_OK;
  }
  static tenon_code_t map(void*, tenon_device_t*, tenon_buffer_t* buffer, void** out) {
    return *out = bytes(buffer).data(), TENON_OK;
  }
  static tenon_code_t copy_async(void* self, tenon_queue_t*, const tenon_copy_t* c,
                                 const tenon_fence_point_t*, uint32_t waits,
                                 tenon_fence_point_t signal) {
    if (waits == 1 && signal.fence == nullptr) ++of(self).copied_with_waits;
    return copy(self, nullptr, c);
  }
  static tenon_code_t fence_create(void* self, tenon_device_t*, uint64_t, tenon_fence_t** out) {
    return *out = reinterpret_cast<tenon_fence_t*>(self), TENON_OK;
  }
  static tenon_code_t fence_destroy(void*, tenon_fence_t*) { return TENON_OK; }
  static tenon_code_t fence_wait(void* self, tenon_fence_t*, uint64_t, uint64_t) {
    return of(self).ended = of(self).copies, TENON_OK;
  }
  static tenon_code_t load(void* self, tenon_device_t*, const void*, uint64_t, tenon_blob_t* const*,
                           uint32_t, tenon_executable_t** out) {
    return *out = reinterpret_cast<tenon_executable_t*>(self), TENON_OK;
  }
  static void executable_release(void*, tenon_executable_t*) {}
  // Two outputs: 3 bytes for each unit of the symbol, and one of data-dependent size.
  static tenon_code_t needs(void* self, tenon_executable_t*, tenon_symbols_t symbols,
                            tenon_needs_t* out) {
    *tenon_need(out, 0) = {3 * static_cast<uint64_t>(symbols.values[0]), nullptr, of(self).alias};
    *tenon_need(out, 1) = {TENON_SIZE_UNKNOWN, nullptr, TENON_NO_ALIAS};
    out->workspace_bytes = 8;
    return TENON_OK;
  }
  static tenon_code_t execute(void* self, tenon_executable_t*, const tenon_call_t* call) {
    tenon_span_t span = {};
    of(self).fails = true;  // during the request it holds a lock that a copy would wait for
    const tenon_code_t code =
        call->output == nullptr
            ? TENON_OK
            : call->output(call->output_self, 1, 6, &span.buffer, &span.offset_bytes);
    return of(self).fails = false, code;
  }
  static tenon_code_t create(void* self, tenon_device_t*, const tenon_kernel_call_t*,
                             tenon_kernel_t** out) {
    return *out = reinterpret_cast<tenon_kernel_t*>(self), TENON_OK;
  }
  static void destroy(void*, tenon_kernel_t*) {}
  static tenon_code_t run(void*, tenon_kernel_t*, const tenon_kernel_args_t*) { return TENON_OK; }
};

PluginHost& plugins() {
  static PluginHost* host = [] {
    register_service_interfaces();
    setenv("TENON_PLUGIN_PROBE", "off", 1);
    return new PluginHost({{TENON_LAYER_MANIFEST}, nullptr, true});
  }();
  return *host;
}

// Whether all of it holds the pattern.
bool poisoned(const unsigned char* at, size_t size) {
  for (size_t i = 0; i < size; ++i) {
    if (at[i] != (i % 2 == 0 ? 0xfd : 0x7f)) return false;
  }
  return true;
}

class PoisonTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto layer = plugins().load("poison");
    ASSERT_TRUE(layer.ok()) << layer.status().text();
    device_table_.size_bytes = sizeof device_table_;
    device_table_.self = &below_;
    device_table_.alloc = Device::alloc;
    device_table_.free = Device::free;
    device_table_.copy = Device::copy;
    device_table_.map = Device::map;
    queue_table_.size_bytes = sizeof queue_table_;
    queue_table_.self = &below_;
    queue_table_.copy_async = Device::copy_async;
    queue_table_.fence_create = Device::fence_create;
    queue_table_.fence_destroy = Device::fence_destroy;
    queue_table_.fence_wait = Device::fence_wait;
    compile_table_.size_bytes = sizeof compile_table_;
    compile_table_.self = &below_;
    compile_table_.load = Device::load;
    compile_table_.executable_release = Device::executable_release;
    compile_table_.needs = Device::needs;
    compile_table_.execute = Device::execute;
    kernels_table_.size_bytes = sizeof kernels_table_;
    kernels_table_.self = &below_;
    kernels_table_.create = Device::create;
    kernels_table_.destroy = Device::destroy;
    kernels_table_.run = Device::run;
    adopted_.name = "blank";
    adopted_.interfaces = {{TENON_DEVICE_ID, 0, &device_table_},
                           {TENON_QUEUE_ID, 0, &queue_table_},
                           {TENON_COMPILE_ID, 0, &compile_table_},
                           {TENON_KERNELS_ID, 0, &kernels_table_}};
    const auto* api = (*layer)->table<tenon_layer_api_t>(TENON_LAYER_ID);
    ASSERT_TRUE(apply_layer(*api, {"poison", {}}, 0, &adopted_).ok());
    d_ = static_cast<const tenon_device_api_t*>(adopted_.interfaces[0].table);
    c_ = static_cast<const tenon_compile_api_t*>(adopted_.interfaces[2].table);
    k_ = static_cast<const tenon_kernels_api_t*>(adopted_.interfaces[3].table);
  }

  // A buffer whose bytes are 7.
  tenon_buffer_t* buffer(uint64_t size) {
    buffers_.push_back(std::make_unique<Bytes>(size, 7));
    return reinterpret_cast<tenon_buffer_t*>(buffers_.back().get());
  }

  void load(int64_t symbol) {
    symbol_ = symbol;
    ASSERT_EQ(c_->load(c_->self, nullptr, nullptr, 0, nullptr, 0, &executable_), TENON_OK);
    tenon_output_need_t outputs[2] = {};
    tenon_needs_t needs = {};
    needs.size_bytes = sizeof needs;
    needs.output_count = 2;
    needs.need_bytes = sizeof outputs[0];
    needs.outputs = outputs;
    ASSERT_EQ(c_->needs(c_->self, executable_, {&symbol_, 1}, &needs), TENON_OK);
  }
  tenon_call_t call_of(const tenon_span_t* in, const tenon_span_t* out,
                       tenon_span_t workspace) const {
    tenon_call_t call = {};
    call.size_bytes = sizeof call;
    call.input_count = 1;
    call.output_count = 2;
    call.inputs = in;
    call.outputs = out;
    call.span_bytes = sizeof *in;
    call.workspace = workspace.buffer;
    call.workspace_offset_bytes = workspace.offset_bytes;
    call.symbols = {&symbol_, 1};
    return call;
  }

  Device below_;
  tenon_device_api_t device_table_ = {};
  tenon_queue_api_t queue_table_ = {};
  tenon_compile_api_t compile_table_ = {};
  tenon_kernels_api_t kernels_table_ = {};
  AdoptedPlugin adopted_;
  const tenon_device_api_t* d_ = nullptr;
  const tenon_compile_api_t* c_ = nullptr;
  const tenon_kernels_api_t* k_ = nullptr;
  tenon_executable_t* executable_ = nullptr;
  int64_t symbol_ = 0;
  std::vector<std::unique_ptr<Bytes>> buffers_;
};

TEST(PoisonPattern, IsNanInEveryFloatAndNoPredicate) {
  Bytes bytes;
  for (int i = 0; i < 4; ++i) bytes.insert(bytes.end(), {0xfd, 0x7f});
  for (const tenon_dtype_t dtype : {TENON_F16, TENON_BF16, TENON_F32, TENON_F64}) {
    EXPECT_TRUE(std::isnan(load_double(dtype, bytes.data()))) << dtype_name(dtype);
  }
  EXPECT_EQ(load_int(TENON_I16, bytes.data()), 32765);
  EXPECT_EQ(load_int(TENON_I32, bytes.data()), 2147319805);
  EXPECT_GT(bytes[0], 1);
  EXPECT_GT(bytes[1], 1);
}

TEST_F(PoisonTest, NewMemory) {
  tenon_buffer_t* made = nullptr;
  ASSERT_EQ(d_->alloc(d_->self, nullptr, 7, &made), TENON_OK);
  EXPECT_TRUE(poisoned(Device::bytes(made).data(), 6));
  EXPECT_EQ(Device::bytes(made)[6], 0xfd);
  Device::free(nullptr, nullptr, made);
  below_.fails = true;
  EXPECT_EQ(d_->alloc(d_->self, nullptr, 7, &made), TENON_ABORTED);
  EXPECT_EQ(made, nullptr);
  below_.fails = false;
  ASSERT_EQ(d_->alloc(d_->self, nullptr, 0, &made), TENON_OK);
  Device::free(nullptr, nullptr, made);
}

TEST_F(PoisonTest, OutputsAndWorkspace) {
  load(5);
  const tenon_span_t in = {buffer(15), 0}, outs[] = {{buffer(40), 16}, {}};
  tenon_buffer_t* work = buffer(9);
  tenon_call_t call = call_of(&in, outs, {work, 0});
  EXPECT_EQ(c_->execute(c_->self, executable_, &call), TENON_OK);
  const Bytes& out = Device::bytes(outs[0].buffer);
  EXPECT_EQ(out[15], 7);
  EXPECT_TRUE(poisoned(&out[16], 15));
  EXPECT_EQ(out[31], 7);  // as many bytes as `needs` reported for this symbol
  EXPECT_TRUE(poisoned(Device::bytes(work).data(), 8));
  EXPECT_EQ(Device::bytes(work)[8], 7);
  EXPECT_EQ(Device::bytes(in.buffer), Bytes(15, 7));
}

TEST_F(PoisonTest, AnOutputInTheMemoryOfAnInputIsLeftAlone) {
  below_.alias = 0;
  load(5);
  const tenon_span_t in = {buffer(15), 0}, shared[] = {in, {}}, apart[] = {{buffer(15), 0}, {}};
  tenon_call_t call = call_of(&in, shared, {buffer(8), 0});
  EXPECT_EQ(c_->execute(c_->self, executable_, &call), TENON_OK);
  EXPECT_EQ(Device::bytes(in.buffer), Bytes(15, 7));
  call.outputs = apart;
  EXPECT_EQ(c_->execute(c_->self, executable_, &call), TENON_OK);
  EXPECT_TRUE(poisoned(Device::bytes(apart[0].buffer).data(), 15));
}

TEST_F(PoisonTest, OnAQueueAfterTheWaits) {
  load(4);
  const tenon_span_t in = {buffer(12), 0}, outs[] = {{buffer(12), 0}, {}};
  tenon_call_t call = call_of(&in, outs, {buffer(8), 0});
  const tenon_fence_point_t wait = {reinterpret_cast<tenon_fence_t*>(&below_), 1};
  call.queue = reinterpret_cast<tenon_queue_t*>(&below_);
  call.waits = &wait;
  call.wait_count = 1;
  EXPECT_EQ(c_->execute(c_->self, executable_, &call), TENON_OK);
  EXPECT_EQ(below_.copied_with_waits, 2u);
  EXPECT_EQ(below_.copies, 2u);
  EXPECT_TRUE(poisoned(Device::bytes(outs[0].buffer).data(), 12));
  EXPECT_EQ(below_.ended, 0u);
  // The second fill is refused: the first has ended when the call returns, as it waits for a copy
  // of nothing.
  below_.most = below_.copies + 1;
  EXPECT_EQ(c_->execute(c_->self, executable_, &call), TENON_ABORTED);
  EXPECT_EQ(below_.copies, 4u);
  EXPECT_EQ(below_.ended, 4u);
  below_.fails = true;
  EXPECT_EQ(c_->execute(c_->self, executable_, &call), TENON_ABORTED);
}

TEST_F(PoisonTest, AnOutputThatTheDeviceAsksFor) {
  load(4);
  const tenon_span_t in = {buffer(12), 0}, outs[] = {{buffer(12), 0}, {}};
  tenon_call_t call = call_of(&in, outs, {buffer(8), 0});
  tenon_span_t late = {buffer(8), 0};
  call.output_self = &late;
  call.output = [](void* self, uint32_t index, uint64_t size, tenon_buffer_t** out_buffer,
                   uint64_t* out_offset_bytes) -> tenon_code_t {
    EXPECT_EQ(index, 1u);
    EXPECT_EQ(size, 6u);
    const auto* given = static_cast<const tenon_span_t*>(self);
    return *out_buffer = given->buffer, *out_offset_bytes = given->offset_bytes, TENON_OK;
  };
  EXPECT_EQ(c_->execute(c_->self, executable_, &call), TENON_OK);
  EXPECT_TRUE(poisoned(Device::bytes(late.buffer).data(), 6));
  EXPECT_EQ(Device::bytes(late.buffer)[6], 7);
}

TEST_F(PoisonTest, Kernels) {
  const int64_t dims[] = {3, 2};
  tenon_type_t type = {};
  type.dtype = TENON_F16;
  type.rank = 2;
  tenon_kernel_call_t described = {};
  described.size_bytes = sizeof described;
  described.result_count = 1;
  described.results = &type;
  tenon_kernel_t* kernel = nullptr;
  ASSERT_EQ(k_->create(k_->self, nullptr, &described, &kernel), TENON_OK);
  tenon_buffer_t* out = buffer(16);
  const uint64_t offset = 2;
  const int64_t* shape = dims;
  tenon_kernel_args_t args = {};
  args.size_bytes = sizeof args;
  args.output_count = 1;
  args.part_count = 1;
  args.outputs = &out;
  args.output_offsets_bytes = &offset;
  args.output_dims = &shape;
  EXPECT_EQ(k_->run(k_->self, kernel, &args), TENON_OK);
  EXPECT_EQ(Device::bytes(out)[1], 7);
  EXPECT_TRUE(poisoned(&Device::bytes(out)[2], 12));
  EXPECT_EQ(Device::bytes(out)[14], 7);
  Device::bytes(out).assign(16, 7);
  args.part_count = 2;  // parts may run at once: none may wipe what another wrote
  EXPECT_EQ(k_->run(k_->self, kernel, &args), TENON_OK);
  EXPECT_EQ(Device::bytes(out), Bytes(16, 7));
  k_->destroy(k_->self, kernel);
}

TEST_F(PoisonTest, TakesNoOptions) {
  const auto* api = (*plugins().load("poison"))->table<tenon_layer_api_t>(TENON_LAYER_ID);
  EXPECT_EQ(apply_layer(*api, {"poison", {{"bytes", "1"}}}, 0, &adopted_).error_code(), "P1002");
}

}  // namespace
}  // namespace tenon::host
