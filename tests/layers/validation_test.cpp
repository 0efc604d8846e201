// The layer `validation` on devices that do one thing wrong, and under callers that do: each breach
// is reported with its requirement.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <cfenv>
#include <cstddef>
#include <cstring>
#include <mutex>
#include <set>
#include <thread>

#include <tenon/abi/compile.h>
#include <tenon/abi/device.h>
#include <tenon/abi/queue.h>

#include "core/base/errors/failure.h"
#include "core/base/file.h"
#include "core/base/process/log.h"
#include "core/host/host_interfaces.h"
#include "core/host/loading/layers.h"
#include "core/host/plugin_host.h"
#include "core/ir/host_graph.h"

namespace tenon::host {
namespace {

// The requirements that the layer reported as broken. Lines come from any thread, also from two at
// once; where a test has no second thread it reads these without the lock.
std::mutex g_lock;
std::set<std::string> g_broken;
std::string g_text;
void receive(void*, std::string_view component, LogLevel, std::string_view line) {
  std::scoped_lock lock(g_lock);
  g_text += std::string(line) + "\n";
  const size_t at = line.find("R-");
  if (component == "validation" && at != std::string_view::npos &&
      line.find("is broken by") != std::string_view::npos) {
    g_broken.insert(std::string(line.substr(at, 5)));
  }
}
bool any_broken() {
  std::scoped_lock lock(g_lock);
  return !g_broken.empty();
}
std::set<std::string> of_plugin() {
  std::set<std::string> found;
  for (const std::string& id : g_broken) {
    if (!id.starts_with("R-M")) found.insert(id);
  }
  return found;
}

PluginHost& plugins() {
  static PluginHost* host = [] {
    register_service_interfaces();
    register_host_interface(TENON_HOST_GRAPH_ID, 0, ir::host_graph_table());
    set_log_receiver(receive, nullptr);
    setenv("TENON_PLUGIN_PROBE", "off", 1);
    setenv("TENON_LAYERS", "validation:data=1,most=1000", 1);
    setenv("CONFORM_MUTANT", "none", 1);
    char pattern[] = "/tmp/tenon_validation_test.XXXXXX";
    const std::string folder = mkdtemp(pattern);
    EXPECT_EQ(system(("cp " TENON_MUTANT " " + folder + "/mutant.so").c_str()), 0);
    EXPECT_TRUE(
        write_file(
            folder + "/mutant.plugin.json",
            R"({"schema":1,"name":"mutant","version":"0.1.0","library":"./mutant.so","provides":{"devices":["mutant"]}})")
            .ok());
    auto* made = new PluginHost({{folder, TENON_LAYER_MANIFEST}, nullptr, true});
    EXPECT_TRUE(made->load("mutant").ok());
    EXPECT_EQ(system(("rm -rf " + folder).c_str()), 0);
    return made;
  }();
  return *host;
}

tenon_copy_t copy_of(uint32_t direction, uint64_t length) {
  tenon_copy_t c = {};
  c.size_bytes = sizeof c;
  c.direction = direction;
  c.length_bytes = length;
  return c;
}

// ---- Mutants ----

// Calls everything of a device once, including calls that it must refuse.
void exercise(const tenon_device_api_t& d) {
  uint32_t count = 0;
  for (int i = 0; i < 2; ++i) (void)d.count(d.self, &count);
  for (uint32_t i : {0u, 1u, 0u, 77u}) {
    tenon_device_info_t info = {};
    info.size_bytes = sizeof info;
    (void)d.info(d.self, i, &info);
  }
  tenon_device_t* device = nullptr;
  (void)d.open(d.self, 77, &device);
  std::vector<unsigned char> host(4096, 7), back(4096);
  for (uint32_t ordinal : {0u, 1u}) {
    ASSERT_EQ(d.open(d.self, ordinal, &device), TENON_OK);
    tenon_buffer_t *a = nullptr, *b = nullptr, *none = nullptr;
    (void)d.alloc(d.self, device, UINT64_MAX - 63, &none);
    if (d.alloc(d.self, device, 0, &none) == TENON_OK) (void)d.free(d.self, device, none);
    ASSERT_EQ(d.alloc(d.self, device, 4096, &a), TENON_OK);
    ASSERT_EQ(d.alloc(d.self, device, 4096, &b), TENON_OK);
    std::vector<tenon_buffer_t*> many(30);
    for (tenon_buffer_t*& buffer : many) {
      void* data = nullptr;
      ASSERT_EQ(d.alloc(d.self, device, 256, &buffer), TENON_OK);
      for (int i = 0; i < 2; ++i) (void)d.map(d.self, device, buffer, &data);
    }
    for (size_t i = 0; i < host.size(); ++i) host[i] = static_cast<unsigned char>(i * 7 + 1);
    // A lost byte shows only if another one was there before.
    for (tenon_buffer_t* buffer : {a, b}) {
      tenon_copy_t fill = copy_of(TENON_COPY_FILL, 4096);
      fill.to = buffer;
      fill.pattern = 0xee;
      fill.pattern_bytes = 1;
      (void)d.copy(d.self, device, &fill);
    }
    tenon_copy_t c = copy_of(TENON_COPY_HOST_TO_DEVICE, 1000);
    c.to = a;
    c.to_offset_bytes = 3;
    c.host_from = host.data();
    (void)d.copy(d.self, device, &c);
    c.to_offset_bytes = 4000;  // beyond the end
    (void)d.copy(d.self, device, &c);
    c.to_offset_bytes = 4096;
    c.length_bytes = 0;
    (void)d.copy(d.self, device, &c);
    c = copy_of(TENON_COPY_DEVICE_TO_DEVICE, 500);
    c.from = a;
    c.from_offset_bytes = 100;
    c.to = b;
    (void)d.copy(d.self, device, &c);
    c = copy_of(TENON_COPY_FILL, 100);
    c.to = b;
    c.pattern = 0x0102030405060708;
    c.pattern_bytes = 4;
    (void)d.copy(d.self, device, &c);
    c.pattern_bytes = 3;
    (void)d.copy(d.self, device, &c);
    c = copy_of(TENON_COPY_DEVICE_TO_HOST, 100);
    c.from = a;
    c.host_to = back.data();
    (void)d.copy(d.self, device, &c);
    c.direction = 9;
    (void)d.copy(d.self, device, &c);
    uint64_t used = 0, peak = 0;
    (void)d.memory(d.self, device, &used, &peak);
    tenon_buffer_t* imported = nullptr;
    const tenon_memory_import_t memory = {sizeof memory, 0, host.data(), 512};
    if (d.import(d.self, device, &memory, &imported) == TENON_OK)
      (void)d.free(d.self, device, imported);
    for (tenon_buffer_t* buffer : many) (void)d.free(d.self, device, buffer);
    (void)d.free(d.self, device, a);
    (void)d.free(d.self, device, b);
    (void)d.close(d.self, device);
  }
}

struct Mutant {
  const char *name, *requirement;
};
class Mutants : public testing::TestWithParam<Mutant> {};
TEST_P(Mutants, IsNamed) {
  const auto plugin = plugins().load("mutant");
  ASSERT_TRUE(plugin.ok()) << plugin.status().text();
  const auto& api = *(*plugin)->table<tenon_device_api_t>(TENON_DEVICE_ID);
  g_broken.clear();
  setenv("CONFORM_MUTANT", GetParam().name, 1);
  exercise(api);
  setenv("CONFORM_MUTANT", "none", 1);
  std::fesetround(FE_TONEAREST);
  if (GetParam().requirement[0] == 0) {
    EXPECT_TRUE(of_plugin().empty()) << *of_plugin().begin() << "\n" << g_text;
  } else {
    EXPECT_EQ(of_plugin().count(GetParam().requirement), 1u) << g_text;
  }
}
INSTANTIATE_TEST_SUITE_P(All, Mutants,
                         testing::ValuesIn(std::vector<Mutant>{
                             {"none", ""},
                             {"silent_errors", "R-B17"},
                             {"other_code", "R-B17"},
                             {"silent_ranges", "R-B17"},
                             {"info_writes_on_failure", "R-B18"},
                             {"alloc_writes_on_failure", "R-B18"},
                             {"long_record", "R-B19"},
                             {"odd_kind", "R-C02"},
                             {"odd_alignment", "R-C03"},
                             {"odd_threading", "R-C03"},
                             {"changing_description", "R-C04"},
                             {"opens_any_ordinal", "R-C05"},
                             {"no_empty_buffers", "R-C08"},
                             {"shared_buffers", "R-C09"},
                             {"wrong_exhaustion", "R-C10"},
                             {"loses_last_byte", "R-C12"},
                             {"second_device_drops", "R-C12"},
                             {"ignores_from_offset", "R-C13"},
                             {"rounds_up", "R-C14"},
                             {"rounds_up_reads", "R-C14"},
                             {"fill_overshoots", "R-C14"},
                             {"big_endian_fill", "R-C15"},
                             {"any_width", "R-C16"},
                             {"no_empty_copies", "R-C18"},
                             {"any_direction", "R-C20"},
                             {"misaligned", "R-C22"},
                             {"moving_map", "R-C22"},
                             {"import_touches", "R-C24"},
                             {"import_shifts", "R-C24"},
                             {"alloc_sets_rounding", "R-I08"},
                             {"count_grows", "R-C01"},
                         }),
                         [](const auto& info) { return std::string(info.param.name); });

// ---- A device defined here, with queues and a compiler ----

struct Fence {
  uint64_t value = 0;
};
struct Device {
  std::string wrong;  // its fault
  uint32_t threading = TENON_THREADING_FREE;
  std::atomic<bool> hold = false;
  bool lost = false;
  int asked = 0;
  tenon_device_api_t device = {};
  tenon_queue_api_t queue = {};
  tenon_compile_api_t compile = {};

  static Device& of(void* self) { return *static_cast<Device*>(self); }
  static bool is(void* self, const char* name) { return of(self).wrong == name; }
  static tenon_code_t refuse(tenon_code_t code) {
    return host_table()->fail(nullptr, code, to_abi_str("refused"), nullptr, 0);
  }
  static tenon_code_t count(void*, uint32_t* out) { return *out = 1, TENON_OK; }
  static tenon_code_t info(void* self, uint32_t, tenon_device_info_t* out) {
    *out = {};
    out->size_bytes = sizeof *out;
    out->threading = of(self).threading;
    out->kind = out->description = out->target = to_abi_str("fake");
    out->alignment_bytes = 64;
    out->memory_bytes = 1 << 20;
    return TENON_OK;
  }
  static tenon_code_t open(void* self, uint32_t ordinal, tenon_device_t** out) {
    auto* const device = reinterpret_cast<tenon_device_t*>(static_cast<char*>(self) + ordinal);
    return *out = is(self, "null_device") ? nullptr : device, TENON_OK;
  }
  static tenon_code_t reaches(void* self, tenon_queue_t*, tenon_device_t*, uint32_t* out) {
    return *out = !is(self, "reaches_no_more"), TENON_OK;
  }
  static tenon_code_t close(void*, tenon_device_t*) { return TENON_OK; }
  static tenon_code_t alloc(void* self, tenon_device_t*, uint64_t size, tenon_buffer_t** out) {
    while (of(self).hold) std::this_thread::yield();
    if (is(self, "throws")) throw std::runtime_error("thrown");
    if (is(self, "loses")) return of(self).wrong = "revives", refuse(TENON_DEVICE_LOST);
    static uint64_t next = 0;
    if (size > (1 << 20) && !is(self, "any_size")) return refuse(TENON_RESOURCE_EXHAUSTED);
    return *out = reinterpret_cast<tenon_buffer_t*>(is(self, "one_buffer") ? 4096
                                                                           : 8192 + 64 * ++next),
           TENON_OK;
  }
  static tenon_code_t free(void* self, tenon_device_t*, tenon_buffer_t*) {
    return is(self, "keeps") ? refuse(TENON_INTERNAL) : TENON_OK;
  }
  static tenon_code_t copy(void*, tenon_device_t*, const tenon_copy_t*) { return TENON_OK; }
  static tenon_code_t memory(void* self, tenon_device_t*, uint64_t* used, uint64_t* peak) {
    *used = 10;
    *peak = is(self, "low_peak") ? 5 : 10;
    return TENON_OK;
  }
  static Fence& fence_of(tenon_fence_t* fence) { return *reinterpret_cast<Fence*>(fence); }
  static tenon_code_t queue_create(void* self, tenon_device_t*, tenon_queue_t** out) {
    return *out = reinterpret_cast<tenon_queue_t*>(self), TENON_OK;
  }
  static tenon_code_t queue_destroy(void*, tenon_queue_t*) { return TENON_OK; }
  static tenon_code_t copy_async(void* self, tenon_queue_t*, const tenon_copy_t*,
                                 const tenon_fence_point_t*, uint32_t, tenon_fence_point_t signal) {
    if (is(self, "slow")) return TENON_OK;  // never completes
    if (is(self, "refuses")) return refuse(TENON_ABORTED);
    fence_of(signal.fence).value = signal.value;
    return is(self, "refuses_and_signals") ? refuse(TENON_ABORTED) : TENON_OK;
  }
  static tenon_code_t fence_create(void*, tenon_device_t*, uint64_t initial, tenon_fence_t** out) {
    return *out = reinterpret_cast<tenon_fence_t*>(new Fence{initial}), TENON_OK;
  }
  static tenon_code_t fence_destroy(void*, tenon_fence_t* fence) {
    return delete &fence_of(fence), TENON_OK;
  }
  static tenon_code_t fence_query(void* self, tenon_fence_t* fence, uint64_t* out) {
    if (is(self, "falls")) return *out = 0, TENON_OK;
    return *out = fence_of(fence).value + (is(self, "rises") ? 100 : 0), TENON_OK;
  }
  static tenon_code_t fence_signal(void*, tenon_fence_t* fence, uint64_t value) {
    return fence_of(fence).value = value, TENON_OK;
  }
  static tenon_code_t fence_wait(void* self, tenon_fence_t* fence, uint64_t value, uint64_t) {
    if (is(self, "good_after_failed") && value == 1) return refuse(TENON_ABORTED);
    return fence_of(fence).value >= value || is(self, "returns_early")
               ? TENON_OK
               : refuse(TENON_DEADLINE_EXCEEDED);
  }
  static tenon_code_t claim(void* self, tenon_str_t, tenon_graph_t*, const tenon_compile_options_t*,
                            const tenon_claim_sink_t* sink) {
    const tenon_node_t nodes[] = {1, 1};
    const tenon_claim_t twice = {sizeof twice, 0, nodes, 2, 0, 1};
    const tenon_claim_t flagged = {sizeof flagged, 6, nodes, 1, 0, 1};
    if (is(self, "strange_node")) return tenon_claim_node(sink, 1, 1);
    if (is(self, "claims_twice")) return sink->claim(sink->self, &twice);
    if (is(self, "strange_flags")) return sink->claim(sink->self, &flagged);
    if (is(self, "no_cost")) return tenon_claim_node(sink, 1, -1);
    if (is(self, "refuses_oddly")) return sink->refuse(sink->self, 1, TENON_INTERNAL, {nullptr, 0});
    return TENON_OK;
  }
  static tenon_code_t do_compile(void* self, tenon_str_t, tenon_graph_t*,
                                 const tenon_compile_options_t*, tenon_artifact_t** out) {
    return *out = reinterpret_cast<tenon_artifact_t*>(is(self, "null_artifact") ? nullptr : self),
           TENON_OK;
  }
  static void artifact_release(void*, tenon_artifact_t*) {}
  static tenon_code_t artifact_bytes(void* self, tenon_artifact_t*, const tenon_sink_t* sink) {
    static char byte = 0;
    if (is(self, "changing_bytes")) ++byte;
    return sink->write(sink->self, &byte, 1);
  }
  static tenon_code_t fits(void* self, tenon_str_t, const void*, uint64_t) {
    return is(self, "misfits") ? refuse(TENON_INTERNAL) : TENON_OK;
  }
  static tenon_code_t load(void* self, tenon_device_t*, const void*, uint64_t, tenon_blob_t* const*,
                           uint32_t, tenon_executable_t** out) {
    return *out =
               reinterpret_cast<tenon_executable_t*>(is(self, "null_executable") ? nullptr : self),
           TENON_OK;
  }
  static void executable_release(void*, tenon_executable_t*) {}
  static tenon_code_t needs(void* self, tenon_executable_t*, tenon_symbols_t, tenon_needs_t* out) {
    static uint64_t more = 0;
    *tenon_need(out, 0) = {64 + (is(self, "moody") ? ++more : 0), tenon_need(out, 0)->dims,
                           TENON_NO_ALIAS};
    if (is(self, "long_needs")) tenon_need(out, 1)->size_bytes_max = 0;
    out->workspace_bytes = 64;
    return TENON_OK;
  }
  static tenon_code_t execute(void* self, tenon_executable_t*, const tenon_call_t* call) {
    if (call->signal.fence != nullptr && !is(self, "slow"))
      fence_of(call->signal.fence).value = call->signal.value;
    if (is(self, "asks") && call->output != nullptr) {
      tenon_span_t span{};
      ++static_cast<Device*>(self)->asked;
      return call->output(call->output_self, 0, 64, &span.buffer, &span.offset_bytes);
    }
    return is(self, "fails_and_signals") ? refuse(TENON_ABORTED) : TENON_OK;
  }
};

class ValidationTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto layer = plugins().load("validation");
    ASSERT_TRUE(layer.ok()) << layer.status().text();
    b_.device = {sizeof b_.device, &b_,           Device::count, Device::info,
                 Device::open,     Device::close, Device::alloc, Device::free,
                 Device::copy,     nullptr,       nullptr,       Device::memory};
    b_.queue = {sizeof b_.queue,       &b_,
                Device::queue_create,  Device::queue_destroy,
                Device::copy_async,    Device::fence_create,
                Device::fence_destroy, Device::fence_query,
                Device::fence_signal,  Device::fence_wait,
                Device::reaches};
    b_.compile = {sizeof b_.compile,
                  &b_,
                  Device::claim,
                  Device::do_compile,
                  Device::artifact_release,
                  nullptr,
                  Device::artifact_bytes,
                  Device::fits,
                  Device::load,
                  Device::executable_release,
                  nullptr,
                  Device::needs,
                  Device::execute,
                  nullptr,
                  nullptr,
                  nullptr};
    adopted_.name = "fake";
    adopted_.interfaces = {{TENON_DEVICE_ID, 0, &b_.device},
                           {TENON_QUEUE_ID, 0, &b_.queue},
                           {TENON_COMPILE_ID, 0, &b_.compile}};
    const auto* api = (*layer)->table<tenon_layer_api_t>(TENON_LAYER_ID);
    ASSERT_TRUE(apply_layer(*api, {"validation", {{"most", "1000"}}}, 0, &adopted_).ok());
    d_ = static_cast<const tenon_device_api_t*>(adopted_.interfaces[0].table);
    q_ = static_cast<const tenon_queue_api_t*>(adopted_.interfaces[1].table);
    c_ = static_cast<const tenon_compile_api_t*>(adopted_.interfaces[2].table);
    EXPECT_EQ(d_->map, nullptr);
    g_broken.clear();
    g_text.clear();
    clear_failure();
  }
  void open() { ASSERT_EQ(d_->open(d_->self, 0, &device_), TENON_OK); }
  tenon_buffer_t* alloc(uint64_t size) {
    tenon_buffer_t* buffer = nullptr;
    (void)d_->alloc(d_->self, device_, size, &buffer);
    return buffer;
  }
  void open_queue() {
    open();
    ASSERT_EQ(q_->queue_create(q_->self, device_, &queue_), TENON_OK);
    ASSERT_EQ(q_->fence_create(q_->self, device_, 3, &fence_), TENON_OK);
  }
  tenon_code_t submit(tenon_buffer_t* to, uint64_t value) {
    tenon_copy_t c = copy_of(TENON_COPY_FILL, 4);
    c.to = to;
    c.pattern_bytes = 1;
    return q_->copy_async(q_->self, queue_, &c, nullptr, 0, {fence_, value});
  }
  void load() {
    open_queue();
    ASSERT_EQ(c_->load(c_->self, device_, nullptr, 0, nullptr, 0, &executable_), TENON_OK);
    ask_needs();
  }
  void ask_needs() {
    tenon_output_need_t need[2] = {};
    tenon_needs_t needs = {};
    needs.size_bytes = sizeof needs;
    needs.output_count = 1;
    needs.need_bytes = sizeof need[0];
    needs.outputs = need;
    ASSERT_EQ(c_->needs(c_->self, executable_, {}, &needs), TENON_OK);
  }
  tenon_code_t execute(tenon_span_t in, tenon_span_t out, tenon_span_t workspace,
                       bool queued = false) {
    tenon_call_t call = {};
    call.size_bytes = sizeof call;
    call.input_count = call.output_count = 1;
    call.inputs = &in;
    call.outputs = &out;
    call.span_bytes = sizeof in;
    call.workspace = workspace.buffer;
    call.workspace_offset_bytes = workspace.offset_bytes;
    if (queued) call.queue = queue_, call.signal = {fence_, 9};
    return c_->execute(c_->self, executable_, &call);
  }
  void expect(std::initializer_list<const char*> requirements) {
    std::set<std::string> wanted(requirements.begin(), requirements.end());
    EXPECT_EQ(g_broken, wanted) << g_text;
  }

  Device b_;
  AdoptedPlugin adopted_;
  const tenon_device_api_t* d_ = nullptr;
  const tenon_queue_api_t* q_ = nullptr;
  const tenon_compile_api_t* c_ = nullptr;
  tenon_device_t* device_ = nullptr;
  tenon_queue_t* queue_ = nullptr;
  tenon_fence_t* fence_ = nullptr;
  tenon_executable_t* executable_ = nullptr;
};

// The device of this test ignores waits: it has done all when a submission returns.
TEST_F(ValidationTest, SignalBeforeAWait) {
  open_queue();
  tenon_fence_t* gate = nullptr;
  ASSERT_EQ(q_->fence_create(q_->self, device_, 0, &gate), TENON_OK);
  const tenon_fence_point_t wait = {gate, 1};
  tenon_copy_t c = copy_of(TENON_COPY_FILL, 4);
  c.to = alloc(64);
  c.pattern_bytes = 1;
  EXPECT_EQ(q_->copy_async(q_->self, queue_, &c, &wait, 1, {fence_, 4}), TENON_OK);
  expect({"R-D03"});
  EXPECT_NE(g_text.find("its signal 4 was made, and 1 of the fence"), std::string::npos) << g_text;
  g_broken.clear();
  EXPECT_EQ(q_->fence_signal(q_->self, gate, 1), TENON_OK);
  EXPECT_EQ(q_->copy_async(q_->self, queue_, &c, &wait, 1, {fence_, 5}), TENON_OK);
  expect({});
}

TEST_F(ValidationTest, GoodAfterFailedWork) {
  open_queue();
  tenon_fence_t* failed = nullptr;
  ASSERT_EQ(q_->fence_create(q_->self, device_, 0, &failed), TENON_OK);
  b_.wrong = "good_after_failed";
  const tenon_fence_point_t wait = {failed, 1};
  tenon_copy_t c = copy_of(TENON_COPY_FILL, 4);
  c.to = alloc(64);
  c.pattern_bytes = 1;
  EXPECT_EQ(q_->copy_async(q_->self, queue_, &c, &wait, 1, {fence_, 4}), TENON_OK);
  expect({"R-D17"});
}

TEST_F(ValidationTest, GoodBeyondABuffer) {
  open_queue();
  tenon_copy_t c = copy_of(TENON_COPY_FILL, 4);
  c.to = alloc(64);
  c.to_offset_bytes = 62;
  c.pattern_bytes = 1;
  EXPECT_EQ(q_->copy_async(q_->self, queue_, &c, nullptr, 0, {fence_, 4}), TENON_OK);
  expect({"R-M07", "R-D10"});
}

TEST_F(ValidationTest, RightUseIsSilent) {
  load();
  tenon_buffer_t *in = alloc(64), *out = alloc(64), *work = alloc(64);
  EXPECT_EQ(execute({in, 0}, {out, 0}, {work, 0}), TENON_OK);
  EXPECT_EQ(execute({in, 0}, {out, 0}, {work, 0}, true), TENON_OK);
  EXPECT_EQ(q_->fence_wait(q_->self, fence_, 9, 0), TENON_OK);
  EXPECT_EQ(submit(in, 10), TENON_OK);
  c_->executable_release(c_->self, executable_);
  for (tenon_buffer_t* buffer : {in, out, work})
    EXPECT_EQ(d_->free(d_->self, device_, buffer), TENON_OK);
  EXPECT_EQ(q_->queue_destroy(q_->self, queue_), TENON_OK);
  EXPECT_EQ(q_->fence_destroy(q_->self, fence_), TENON_OK);
  EXPECT_EQ(d_->close(d_->self, device_), TENON_OK);
  expect({});
}

// ---- Faults of a caller ----

TEST_F(ValidationTest, HandlesThatAreNone) {
  open();
  tenon_buffer_t* buffer = alloc(64);
  EXPECT_EQ(d_->free(d_->self, device_, buffer), TENON_OK);
  expect({});
  EXPECT_EQ(d_->free(d_->self, device_, buffer), TENON_FAILED_PRECONDITION);
  EXPECT_NE(g_text.find("was released before"), std::string::npos) << g_text;
  EXPECT_EQ(d_->free(d_->self, device_, nullptr), TENON_FAILED_PRECONDITION);
  uint64_t used = 0, peak = 0;
  EXPECT_EQ(d_->memory(d_->self, reinterpret_cast<tenon_device_t*>(64), &used, &peak),
            TENON_FAILED_PRECONDITION);
  EXPECT_NE(g_text.find("is none that this plugin made"), std::string::npos) << g_text;
  EXPECT_EQ(q_->fence_signal(q_->self, nullptr, 1), TENON_FAILED_PRECONDITION);
  c_->executable_release(c_->self, nullptr);
  expect({"R-M01"});
}

TEST_F(ValidationTest, NullAndShort) {
  open();
  EXPECT_EQ(d_->count(d_->self, nullptr), TENON_FAILED_PRECONDITION);
  EXPECT_EQ(d_->alloc(d_->self, device_, 8, nullptr), TENON_FAILED_PRECONDITION);
  EXPECT_EQ(d_->copy(d_->self, device_, nullptr), TENON_FAILED_PRECONDITION);
  expect({"R-M02"});
  g_broken.clear();
  tenon_device_info_t info = {};
  EXPECT_EQ(d_->info(d_->self, 0, &info), TENON_FAILED_PRECONDITION);
  expect({"R-M03"});
  EXPECT_EQ(info.size_bytes, 0u);
}

// Records have grown, so a caller's record may be shorter than the layer's.
TEST_F(ValidationTest, RecordsOfOlderCallers) {
  load();
  tenon_device_info_t info = {}, whole = {};
  std::memset(static_cast<void*>(&info), 0x5a, sizeof info);
  info.size_bytes = offsetof(tenon_device_info_t, copy_latency_ns);
  whole.size_bytes = sizeof whole;
  EXPECT_EQ(d_->info(d_->self, 0, &info), TENON_OK);
  EXPECT_EQ(d_->info(d_->self, 0, &whole), TENON_OK);
  EXPECT_EQ(info.size_bytes, offsetof(tenon_device_info_t, copy_latency_ns));
  EXPECT_EQ(info.alignment_bytes, whole.alignment_bytes);
  const auto* next = reinterpret_cast<const unsigned char*>(&info.copy_latency_ns);
  EXPECT_EQ(next[0], 0x5a);
  tenon_output_need_t need[1] = {};
  tenon_needs_t needs = {};
  needs.size_bytes = offsetof(tenon_needs_t, lower_bound_bytes);
  needs.output_count = 1;
  needs.need_bytes = sizeof need[0];
  needs.outputs = need;
  needs.lower_bound_bytes = 77;
  ASSERT_EQ(c_->needs(c_->self, executable_, {}, &needs), TENON_OK);
  EXPECT_EQ(needs.workspace_bytes, 64u);
  EXPECT_EQ(needs.lower_bound_bytes, 77u);
  EXPECT_EQ(needs.size_bytes, offsetof(tenon_needs_t, lower_bound_bytes));
  tenon_span_t in{alloc(64), 0}, out{alloc(64), 0};
  tenon_call_t call = {};
  call.size_bytes = offsetof(tenon_call_t, output_self);
  call.input_count = call.output_count = 1;
  call.inputs = &in;
  call.outputs = &out;
  call.span_bytes = sizeof in;
  call.workspace = alloc(64);
  call.output = [](void*, uint32_t, uint64_t, tenon_buffer_t**, uint64_t*) {
    return TENON_INTERNAL;
  };  // past the end of the caller's record
  b_.wrong = "asks";
  EXPECT_EQ(c_->execute(c_->self, executable_, &call), TENON_OK);
  expect({});
  call.size_bytes = 16;
  EXPECT_EQ(c_->execute(c_->self, executable_, &call), TENON_FAILED_PRECONDITION);
  expect({"R-M03"});
}

// A serial device that requests an output during its call: the host's allocation for it is part of
// that call.
TEST_F(ValidationTest, OutputsThatAreAskedFor) {
  b_.threading = TENON_THREADING_SERIAL;
  b_.wrong = "asks";
  load();
  tenon_span_t in{alloc(64), 0}, out{alloc(64), 0};
  tenon_call_t call = {};
  call.size_bytes = sizeof call;
  call.input_count = call.output_count = 1;
  call.inputs = &in;
  call.outputs = &out;
  call.span_bytes = sizeof in;
  call.workspace = alloc(64);
  call.output_self = this;
  call.output = [](void* self, uint32_t, uint64_t size, tenon_buffer_t** out_buffer,
                   uint64_t* out_offset_bytes) {
    *out_buffer = static_cast<ValidationTest_OutputsThatAreAskedFor_Test*>(self)->alloc(size);
    return *out_offset_bytes = 0, TENON_OK;
  };
  EXPECT_EQ(c_->execute(c_->self, executable_, &call), TENON_OK);
  expect({});
  EXPECT_EQ(b_.asked, 1);
}

TEST_F(ValidationTest, WhatIsNotWaitedFor) {
  load();
  b_.wrong = "slow";
  tenon_buffer_t *in = alloc(64), *out = alloc(64), *work = alloc(64);
  EXPECT_EQ(submit(in, 4), TENON_OK);
  EXPECT_EQ(execute({in, 0}, {out, 0}, {work, 0}), TENON_OK);
  expect({"R-M19"});
  g_broken.clear();
  tenon_copy_t c = copy_of(TENON_COPY_FILL, 4);
  c.to = in;
  c.pattern_bytes = 1;
  EXPECT_EQ(d_->copy(d_->self, device_, &c), TENON_OK);
  expect({"R-M19"});
  g_broken.clear();
  EXPECT_EQ(q_->queue_destroy(q_->self, queue_), TENON_OK);  // waits for its work
  EXPECT_EQ(q_->queue_create(q_->self, device_, &queue_), TENON_OK);
  EXPECT_EQ(d_->copy(d_->self, device_, &c), TENON_OK);
  EXPECT_EQ(execute({in, 0}, {out, 0}, {work, 0}), TENON_OK);
  expect({});
  // Two readers do not conflict.
  EXPECT_EQ(execute({in, 0}, {out, 0}, {work, 0}, true), TENON_OK);
  unsigned char host[4];
  c = copy_of(TENON_COPY_DEVICE_TO_HOST, 4);
  c.from = in;
  c.host_to = host;
  EXPECT_EQ(d_->copy(d_->self, device_, &c), TENON_OK);
  expect({});
}

TEST_F(ValidationTest, ClosedWhileInUse) {
  open_queue();
  alloc(8);
  EXPECT_EQ(d_->close(d_->self, device_), TENON_OK);
  expect({"R-M04"});
  EXPECT_NE(g_text.find("1 buffer, 1 queue, 1 fence"), std::string::npos) << g_text;
}

TEST_F(ValidationTest, FreedWhileInFlight) {
  open_queue();
  b_.wrong = "slow";
  tenon_buffer_t* buffer = alloc(64);
  EXPECT_EQ(submit(buffer, 4), TENON_OK);
  EXPECT_EQ(d_->free(d_->self, device_, buffer), TENON_OK);
  expect({"R-M05"});
  g_broken.clear();
  EXPECT_EQ(q_->fence_destroy(q_->self, fence_), TENON_OK);
  expect({"R-M13"});
}

TEST_F(ValidationTest, WrongCopies) {
  open();
  tenon_buffer_t* buffer = alloc(64);
  tenon_copy_t c = copy_of(TENON_COPY_DEVICE_TO_DEVICE, 32);
  c.from = c.to = buffer;
  c.to_offset_bytes = 16;
  EXPECT_EQ(d_->copy(d_->self, device_, &c), TENON_OK);
  expect({"R-M07"});
  g_broken.clear();
  c.to_offset_bytes = 60;  // the device returns OK, so both sides are wrong
  EXPECT_EQ(d_->copy(d_->self, device_, &c), TENON_OK);
  expect({"R-M07", "R-C17"});
}

TEST_F(ValidationTest, CopiesFromAnotherDevice) {
  open_queue();
  tenon_device_t* other = nullptr;
  ASSERT_EQ(d_->open(d_->self, 1, &other), TENON_OK);
  tenon_buffer_t *there = nullptr, *here = alloc(64);
  ASSERT_EQ(d_->alloc(d_->self, other, 64, &there), TENON_OK);
  tenon_copy_t c = copy_of(TENON_COPY_DEVICE_TO_DEVICE, 64);
  c.from = there;
  c.to = here;
  c.from_device = other;
  const auto submit_copy = [&](uint64_t value) {
    return q_->copy_async(q_->self, queue_, &c, nullptr, 0, {fence_, value});
  };
  EXPECT_EQ(submit_copy(4), TENON_OK);
  expect({"R-M21"});  // `reaches` was not called
  g_broken.clear();
  uint32_t yes = 0;
  EXPECT_EQ(q_->reaches(q_->self, queue_, other, &yes), TENON_OK);
  EXPECT_EQ(yes, 1u);
  EXPECT_EQ(submit_copy(5), TENON_OK);
  expect({});
  c.from = here;  // not of that device
  EXPECT_NE(submit_copy(6), TENON_OK);
  expect({"R-M01"});
  g_broken.clear();
  b_.wrong = "reaches_no_more";
  EXPECT_EQ(q_->reaches(q_->self, queue_, other, &yes), TENON_OK);
  expect({"R-D31"});
}

TEST_F(ValidationTest, TwoCallsAtOnce) {
  b_.threading = TENON_THREADING_SERIAL;
  open();
  b_.hold = true;
  std::thread first([&] { alloc(8); });
  uint64_t used = 0, peak = 0;
  while (!any_broken()) (void)d_->memory(d_->self, device_, &used, &peak);
  b_.hold = false;
  first.join();
  expect({"R-M10"});
}

TEST_F(ValidationTest, FenceValuesThatDoNotGrow) {
  open_queue();
  tenon_buffer_t* buffer = alloc(64);
  EXPECT_EQ(submit(buffer, 3), TENON_OK);
  EXPECT_EQ(q_->fence_signal(q_->self, fence_, 7), TENON_OK);
  EXPECT_EQ(submit(buffer, 6), TENON_OK);
  expect({"R-M12"});
}

TEST_F(ValidationTest, WrongCalls) {
  load();
  tenon_buffer_t *in = alloc(64), *out = alloc(64), *work = alloc(64), *small = alloc(32),
                 *large = alloc(256);
  EXPECT_EQ(execute({in, 0}, {small, 0}, {work, 0}), TENON_OK);
  EXPECT_EQ(execute({large, 3}, {out, 0}, {work, 0}), TENON_OK);
  EXPECT_EQ(execute({in, 0}, {out, 0}, {}), TENON_FAILED_PRECONDITION);
  expect({"R-M16"});
  g_broken.clear();
  EXPECT_EQ(execute({in, 0}, {in, 0}, {work, 0}), TENON_OK);
  expect({"R-M17"});
  g_broken.clear();
  EXPECT_EQ(execute({in, 0}, {nullptr, 0}, {work, 0}), TENON_FAILED_PRECONDITION);
  expect({"R-M01"});
}

// Of an input without elements it was said that it needs a byte.
TEST_F(ValidationTest, AnInputWithoutElementsNeedsNoBytes) {
  load();
  EXPECT_EQ(execute({alloc(0), 0}, {alloc(64), 0}, {alloc(64), 0}), TENON_OK);
  expect({});
}

// ---- Faults of the plugin ----

TEST_F(ValidationTest, Objects) {
  b_.wrong = "null_device";
  EXPECT_EQ(d_->open(d_->self, 0, &device_), TENON_OK);
  expect({"R-C06"});
  g_broken.clear();
  b_.wrong = "one_buffer";
  open();
  alloc(8);
  alloc(8);
  expect({"R-C09"});
  g_broken.clear();
  b_.wrong = "any_size";
  alloc(2 << 20);
  expect({"R-C10"});
  g_broken.clear();
  b_.wrong = "low_peak";
  uint64_t used = 0, peak = 0;
  EXPECT_EQ(d_->memory(d_->self, device_, &used, &peak), TENON_OK);
  expect({"R-C25"});
  g_broken.clear();
  b_.wrong = "keeps";
  EXPECT_EQ(d_->free(d_->self, device_, alloc(8)), TENON_INTERNAL);
  expect({"R-C11"});
  g_broken.clear();
  b_.wrong = "throws";
  EXPECT_EQ(alloc(8), nullptr);
  expect({"R-B23"});
  g_broken.clear();
  b_.wrong = "loses";
  EXPECT_EQ(alloc(8), nullptr);
  expect({});
  alloc(8);
  expect({"R-C30"});
}

TEST_F(ValidationTest, Fences) {
  open_queue();
  tenon_buffer_t* buffer = alloc(64);
  EXPECT_EQ(submit(buffer, 4), TENON_OK);
  uint64_t value = 0;
  EXPECT_EQ(q_->fence_query(q_->self, fence_, &value), TENON_OK);
  EXPECT_EQ(value, 4u);
  expect({});
  const auto with = [&](const char* wrong, const char* requirement, auto call) {
    g_broken.clear();
    b_.wrong = wrong;
    call();
    expect({requirement});
  };
  with("falls", "R-D05", [&] { (void)q_->fence_query(q_->self, fence_, &value); });
  with("rises", "R-D06", [&] { (void)q_->fence_query(q_->self, fence_, &value); });
  with("returns_early", "R-D07", [&] { (void)q_->fence_wait(q_->self, fence_, 50, 1000); });
  with("", "R-D08", [&] { (void)q_->fence_wait(q_->self, fence_, 200, UINT64_MAX); });
  with("refuses_and_signals", "R-D12", [&] { (void)submit(buffer, 300); });
}

TEST_F(ValidationTest, Compilers) {
  const tenon_host_graph_t* host = ir::host_graph_table();
  tenon_graph_t* graph = nullptr;
  ASSERT_EQ(host->create(host->self, to_abi_str("g"), &graph), TENON_OK);
  tenon_artifact_t* artifact = nullptr;
  EXPECT_EQ(c_->compile(c_->self, {}, graph, nullptr, &artifact), TENON_OK);
  expect({"R-M15"});
  host->freeze(host->self, graph);
  const tenon_compile_options_t options = {sizeof options, 0, nullptr, 0, 0};
  tenon_claim_sink_t sink = {
      sizeof sink, 0, nullptr, [](void*, const tenon_claim_t*) { return TENON_OK; },
      [](void*, tenon_node_t, tenon_code_t, tenon_str_t) { return TENON_OK; }};
  for (const char* wrong : {"strange_node", "claims_twice", "strange_flags", "no_cost"}) {
    g_broken.clear();
    b_.wrong = wrong;
    EXPECT_EQ(c_->claim(c_->self, {}, graph, &options, &sink), TENON_OK);
    expect({"R-E02"});
  }
  const auto with = [&](const char* wrong, const char* requirement, auto call) {
    g_broken.clear();
    b_.wrong = wrong;
    call();
    expect({requirement});
  };
  tenon_sink_t bytes = {nullptr, [](void*, const void*, uint64_t) { return TENON_OK; }};
  with("refuses_oddly", "R-E04", [&] { (void)c_->claim(c_->self, {}, graph, &options, &sink); });
  with("changing_bytes", "R-E06", [&] { (void)c_->artifact_bytes(c_->self, artifact, &bytes); });
  with("misfits", "R-E07", [&] { (void)c_->artifact_bytes(c_->self, artifact, &bytes); });
  with("null_artifact", "R-E05",
       [&] { (void)c_->compile(c_->self, {}, graph, nullptr, &artifact); });
  b_.wrong = "";
  load();
  with("moody", "R-E10", [&] { ask_needs(), ask_needs(); });
  with("long_needs", "R-B19", [&] { ask_needs(); });
  g_broken.clear();
  b_.wrong = "fails_and_signals";
  EXPECT_EQ(execute({alloc(64), 0}, {alloc(128), 0}, {alloc(64), 0}, true), TENON_ABORTED);
  expect({"R-E16"});
  with("null_executable", "R-E08",
       [&] { (void)c_->load(c_->self, device_, nullptr, 0, nullptr, 0, &executable_); });
  host->release(host->self, graph);
}

TEST_F(ValidationTest, Options) {
  const auto* api = (*plugins().load("validation"))->table<tenon_layer_api_t>(TENON_LAYER_ID);
  EXPECT_EQ(apply_layer(*api, {"validation", {{"mots", "1"}}}, 0, &adopted_).error_code(), "P1002");
  EXPECT_EQ(apply_layer(*api, {"validation", {{"most", "x"}}}, 0, &adopted_).error_code(), "P1002");
}

}  // namespace
}  // namespace tenon::host
