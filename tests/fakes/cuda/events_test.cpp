// Events of another library in calls, on the tests' drivers. Compiled for CUDA, and for HIP
// (TENON_TEST_HIP), whose driver is CUDA's under other names.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>

#include <tenon/cpp/session.hpp>

namespace tenon {
namespace {

#ifdef TENON_TEST_HIP
constexpr const char *kDevice = "rocm", *kLibrary = "libamdhip64.so.6", *kKind = "rocm.event",
                     *kStreamKind = "rocm.stream";
constexpr const char *kStreamCreate = "hipStreamCreateWithFlags",
                     *kStreamDestroy = "hipStreamDestroy",
                     *kEventCreate = "hipEventCreateWithFlags", *kEventDestroy = "hipEventDestroy",
                     *kEventRecord = "hipEventRecord", *kEventElapsed = "hipEventElapsedTime",
                     *kEventQuery = "hipEventQuery", *kCaptureBegin = "hipStreamBeginCapture",
                     *kCaptureEnd = "hipStreamEndCapture", *kGraphDestroy = "hipGraphDestroy";

// The tests' HIP runs the text that its code was made of, and finds it in a file.
class HipText : public testing::Environment {
 public:
  void SetUp() override {
    const std::string print = TENON_TEST_PROGRAM
                              " run " TENON_TEST_MODELS
                              "/mlp.onnx --device rocm --seed 1 --dump rocm/source >" +
                              path_;
    ASSERT_EQ(std::system(print.c_str()), 0);
    ASSERT_GT(std::filesystem::file_size(path_), 0u);
    setenv("FAKE_HIP_SOURCE", path_.c_str(), 1);
  }
  void TearDown() override { std::filesystem::remove(path_); }

 private:
  const std::string path_ = testing::TempDir() + "events." + std::to_string(getpid()) + ".hip";
};
const testing::Environment* const kText = testing::AddGlobalTestEnvironment(new HipText);
#else
constexpr const char *kDevice = "cuda", *kLibrary = "libcuda.so.1", *kKind = "cuda.event",
                     *kStreamKind = "cuda.stream";
constexpr const char *kStreamCreate = "cuStreamCreate", *kStreamDestroy = "cuStreamDestroy_v2",
                     *kEventCreate = "cuEventCreate", *kEventDestroy = "cuEventDestroy_v2",
                     *kEventRecord = "cuEventRecord", *kEventElapsed = "cuEventElapsedTime",
                     *kEventQuery = "cuEventQuery", *kCaptureBegin = "cuStreamBeginCapture_v2",
                     *kCaptureEnd = "cuStreamEndCapture", *kGraphDestroy = "cuGraphDestroy";
#endif

template <class F>
F function(const char* name) {
  return reinterpret_cast<F>(dlsym(dlopen(kLibrary, RTLD_NOW), name));
}
using MakesObject = int (*)(void**, unsigned);
using TakesObject = int (*)(void*);
using TakesTwo = int (*)(void*, void*);

// Another library of the process, with a stream of its own in the device's context.
class EventsOfOthers : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(put_, nullptr) << "LD_LIBRARY_PATH does not lead to the tests' " << kLibrary;
    ASSERT_TRUE(session_.open().ok());
    ASSERT_TRUE(session_.load(TENON_TEST_MODELS "/mlp.onnx", &model_).ok()) << failure_text();
    ASSERT_TRUE(model_.compile({.device = kDevice, .no_fallback = true}, &program_).ok())
        << failure_text();
    ASSERT_TRUE(program_.call(inputs_, out_).ok()) << failure_text();
    right_ = out_[0].as<float>()[0];
    enter();
    ASSERT_EQ(function<MakesObject>(kStreamCreate)(&stream_, 1), 0);
    ASSERT_EQ(function<MakesObject>(kEventCreate)(&event_, 0), 0);
  }
  void TearDown() override {
    open_ = true;
    EXPECT_EQ(function<TakesObject>(kStreamDestroy)(stream_), 0);
    EXPECT_EQ(function<TakesObject>(kEventDestroy)(event_), 0);
    leave();
  }
#ifdef TENON_TEST_HIP
  void enter() {}
  void leave() {}
#else
  void enter() {
    void* context = nullptr;
    ASSERT_EQ(function<int (*)(void**, int)>("cuDevicePrimaryCtxRetain")(&context, 0), 0);
    ASSERT_EQ(function<TakesObject>("cuCtxPushCurrent_v2")(context), 0);
  }
  void leave() {
    void* context = nullptr;
    EXPECT_EQ(function<int (*)(void**)>("cuCtxPopCurrent_v2")(&context), 0);
    EXPECT_EQ(function<int (*)(int)>("cuDevicePrimaryCtxRelease_v2")(0), 0);
  }
#endif

  // Work of the other library that ends when `open_` is set, and then the event.
  void record_after_work() {
    put_(
        stream_,
        [](void*, void* self) {
          while (!static_cast<EventsOfOthers*>(self)->open_)
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        },
        this);
    ASSERT_EQ(function<TakesTwo>(kEventRecord)(event_, stream_), 0);
  }
  // Starts a call that waits for `event_`. Returns when the event is queried again: the import has
  // queried it once.
  void start_waiting(Call* call, Operation* operation) {
    ASSERT_TRUE(operation->open().ok());
    call->wait_for(kDevice, native(event_));
    const uint64_t asked = calls_of_("cuEventQuery");
    ASSERT_TRUE(call->start(*operation).ok()) << failure_text();
    while (calls_of_("cuEventQuery") < asked + 2)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  // An event that was never recorded has no time.
  bool is_recorded(void* event) const {
    float ms = 0;
    return function<int (*)(float*, void*, void*)>(kEventElapsed)(&ms, event, event) == 0;
  }
  tenon_native_handle_t native(void* event) const {
    auto out = sized<tenon_native_handle_t>();
    out.kind = str(kKind);
    out.handle = reinterpret_cast<uint64_t>(event);
    return out;
  }
  void expect_right() {
    ASSERT_EQ(out_[0].as<float>().size(), 10u);
    EXPECT_EQ(out_[0].as<float>()[0], right_);
  }

  void (*put_)(void*, void (*)(void*, void*), void*) = function<decltype(put_)>("fake_cuda_put");
  void (*fail_calls_)(const char*, int) = function<decltype(fail_calls_)>("fake_cuda_fail_calls");
  uint64_t (*calls_of_)(const char*) = function<decltype(calls_of_)>("fake_cuda_calls_of");
  Session session_;
  Model model_;
  Program program_;
  const std::vector<float> x_ = std::vector<float>(32, 0.5f);
  const std::vector<Input> inputs_ = {ArrayView::of(x_, {1, 32})};
  std::vector<Output> out_ = std::vector<Output>(1);
  float right_ = 0;
  void *stream_ = nullptr, *event_ = nullptr;
  std::atomic<bool> open_{false};
};

TEST_F(EventsOfOthers, ACallFollowsOne) {
  record_after_work();
  Operation operation;
  ASSERT_TRUE(operation.open().ok());
  Call call(program_, inputs_, out_);
  call.wait_for(kDevice, native(event_));
  ASSERT_TRUE(call.start(operation).ok()) << failure_text();
  EXPECT_EQ(operation.wait(30'000'000).code(), TENON_DEADLINE_EXCEEDED);
  open_ = true;
  ASSERT_TRUE(call.finish(operation).ok()) << failure_text();
  expect_right();
}

// One that never comes takes nothing with it.
TEST_F(EventsOfOthers, ACallThatFollowsOneIsCancelled) {
  record_after_work();
  Operation operation;
  ASSERT_TRUE(operation.open().ok());
  Call call(program_, inputs_, out_);
  call.wait_for(kDevice, native(event_));
  ASSERT_TRUE(call.start(operation).ok()) << failure_text();
  EXPECT_EQ(operation.wait(20'000'000).code(), TENON_DEADLINE_EXCEEDED);
  operation.cancel();
  EXPECT_EQ(call.finish(operation).code(), TENON_CANCELLED);
  ASSERT_TRUE(program_.call(inputs_, out_).ok()) << failure_text();
  expect_right();
}

TEST_F(EventsOfOthers, ACallRecordsOne) {
  ASSERT_FALSE(is_recorded(event_));
  Call call(program_, inputs_, out_);
  call.signal(kDevice, native(event_));
  ASSERT_TRUE(call.run().ok()) << failure_text();
  EXPECT_TRUE(is_recorded(event_));
  expect_right();
}

TEST_F(EventsOfOthers, HandlesThatAreNone) {
  const auto refused = [&](tenon_native_handle_t handle, const char* why) {
    Call call(program_, inputs_, out_);
    call.wait_for(kDevice, handle);
    EXPECT_EQ(call.run().code(), TENON_INVALID_ARGUMENT);
    EXPECT_NE(failure_text().find(why), std::string::npos) << failure_text();
  };
  refused(native(&event_), "the handle is not one of an event: ");
  // The handle 0 is refused for all devices.
  Call none(program_, inputs_, out_);
  none.wait_for(kDevice, native(nullptr));
  EXPECT_EQ(none.run().code(), TENON_INVALID_ARGUMENT) << failure_text();
  ASSERT_TRUE(program_.call(inputs_, out_).ok()) << failure_text();
}

// A failure of the driver in each of the two calls that events take.
TEST_F(EventsOfOthers, TheDriverMayFail) {
  constexpr int kInvalidValue = 1;
  record_after_work();
  {
    Operation operation;
    Call call(program_, inputs_, out_);
    start_waiting(&call, &operation);
    fail_calls_("cuEventQuery", kInvalidValue);
    EXPECT_EQ(call.finish(operation).code(), TENON_INTERNAL);
    EXPECT_NE(failure_text().find("asking for an event"), std::string::npos) << failure_text();
    fail_calls_("", 0);
  }
  open_ = true;
  ASSERT_TRUE(program_.call(inputs_, out_).ok()) << failure_text();
  expect_right();
}

// A recording in the usual mode forbids every thread what no graph can hold, and ends if a thread
// does it all the same: allocations, waits, asking for events, loading code.
TEST_F(EventsOfOthers, GraphsOfOthersAreLeftAlone) {
  constexpr int kGlobal = 0, kNotSupportedInACapture = 900;
  void* graph = nullptr;
  ASSERT_EQ((function<int (*)(void*, int)>(kCaptureBegin)(stream_, kGlobal)), 0);
  // What an event of another thread's says is forbidden here.
  std::thread([&] {
    enter();
    Program fresh;
    EXPECT_TRUE(model_.compile({.device = kDevice, .no_fallback = true}, &fresh).ok())
        << failure_text();
    void *other = nullptr, *event = nullptr;
    EXPECT_EQ(function<MakesObject>(kStreamCreate)(&other, 1), 0);
    EXPECT_EQ(function<MakesObject>(kEventCreate)(&event, 0), 0);
    EXPECT_EQ(function<TakesTwo>(kEventRecord)(event, other), 0);
    for (Program* program : {&program_, &fresh}) {
      Call call(*program, inputs_, out_);
      call.wait_for(kDevice, native(event));
      EXPECT_TRUE(call.run().ok()) << failure_text();
      expect_right();
    }
    fresh = Program();
    EXPECT_EQ(function<TakesObject>(kStreamDestroy)(other), 0);
    EXPECT_EQ(function<TakesObject>(kEventDestroy)(event), 0);
    leave();
  }).join();
  EXPECT_EQ((function<int (*)(void*, void**)>(kCaptureEnd)(stream_, &graph)), 0);
  EXPECT_NE(graph, nullptr);
  EXPECT_EQ(function<TakesObject>(kGraphDestroy)(graph), 0);
  // The tests' driver would have ended it, and the thread is as it was before.
  ASSERT_EQ((function<int (*)(void*, int)>(kCaptureBegin)(stream_, kGlobal)), 0);
  std::thread([&] {
    EXPECT_EQ(function<TakesObject>(kEventQuery)(event_), kNotSupportedInACapture);
  }).join();
  EXPECT_EQ((function<int (*)(void*, void**)>(kCaptureEnd)(stream_, &graph)), 901);
  EXPECT_EQ(graph, nullptr);
  ASSERT_TRUE(program_.call(inputs_, out_).ok()) << failure_text();
  ASSERT_EQ((function<int (*)(void*, int)>(kCaptureBegin)(stream_, kGlobal)), 0);
  EXPECT_EQ(function<TakesObject>(kEventQuery)(event_), kNotSupportedInACapture)
      << "a call has left this thread in another mode";
  EXPECT_EQ((function<int (*)(void*, void**)>(kCaptureEnd)(stream_, &graph)), 901);
}

// It never happens by itself, and no fence may wait for it.
TEST_F(EventsOfOthers, OnesOfAGraphAreRefused) {
  void* graph = nullptr;
  ASSERT_EQ((function<int (*)(void*, int)>(kCaptureBegin)(stream_, 0)), 0);
  ASSERT_EQ(function<TakesTwo>(kEventRecord)(event_, stream_), 0);
  Call call(program_, inputs_, out_);
  call.wait_for(kDevice, native(event_));
  EXPECT_EQ(call.run().code(), TENON_INVALID_ARGUMENT);
  EXPECT_NE(failure_text().find("the event was recorded into a graph"), std::string::npos)
      << failure_text();
  EXPECT_EQ((function<int (*)(void*, void**)>(kCaptureEnd)(stream_, &graph)), 0);
  EXPECT_EQ(function<TakesObject>(kGraphDestroy)(graph), 0);
}

// The work of a call on it would run later, in the graph, on buffers that are others' by then; and
// the call's wait for it would end the recording.
TEST_F(EventsOfOthers, AStreamThatRecordsAGraphIsRefused) {
  void* graph = nullptr;
  auto stream = sized<tenon_native_handle_t>();
  stream.kind = str(kStreamKind);
  stream.handle = reinterpret_cast<uint64_t>(stream_);
  for (const int mode : {0, 1, 2}) {
    SCOPED_TRACE(mode);
    ASSERT_EQ((function<int (*)(void*, int)>(kCaptureBegin)(stream_, mode)), 0);
    Call call(program_, inputs_, out_);
    call.stream(kDevice, stream);
    EXPECT_EQ(call.run().code(), TENON_UNIMPLEMENTED);
    EXPECT_NE(failure_text().find("the stream records a graph"), std::string::npos)
        << failure_text();
    EXPECT_EQ((function<int (*)(void*, void**)>(kCaptureEnd)(stream_, &graph)), 0)
        << "the recording was spoiled";
    EXPECT_EQ(function<TakesObject>(kGraphDestroy)(graph), 0);
  }
  Call after(program_, inputs_, out_);
  after.stream(kDevice, stream);
  ASSERT_TRUE(after.run().ok()) << failure_text();
  expect_right();
}

// What a driver answers about captures says nothing about the event.
TEST_F(EventsOfOthers, ErrorsOfCapturesFailNoCall) {
  for (const int code : {900, 901, 906, 907}) {
    SCOPED_TRACE(code);
    open_ = false;
    record_after_work();
    Operation operation;
    Call call(program_, inputs_, out_);
    start_waiting(&call, &operation);
    fail_calls_("cuEventQuery", code);
    EXPECT_EQ(operation.wait(20'000'000).code(), TENON_DEADLINE_EXCEEDED);
    fail_calls_("", 0);
    open_ = true;
    EXPECT_TRUE(call.finish(operation).ok()) << failure_text();
    expect_right();
  }
}

#ifndef TENON_TEST_HIP
// Contexts are CUDA's alone. One may be waited for wherever it is from.
TEST_F(EventsOfOthers, OnesOfOtherContextsAreWaitedForAndNotSignalled) {
  void *context = nullptr, *popped = nullptr, *event = nullptr;
  ASSERT_EQ(function<int (*)(void**, unsigned, int)>("cuCtxCreate_v2")(&context, 0, 0), 0);
  ASSERT_EQ(function<MakesObject>(kEventCreate)(&event, 0), 0);
  ASSERT_EQ(function<int (*)(void**)>("cuCtxPopCurrent_v2")(&popped), 0);
  Call waits(program_, inputs_, out_);
  waits.wait_for(kDevice, native(event));
  EXPECT_TRUE(waits.run().ok()) << failure_text();
  Call signals(program_, inputs_, out_);
  signals.signal(kDevice, native(event));
  EXPECT_FALSE(signals.run().ok());
  EXPECT_NE(failure_text().find("must be one of this device's own context"), std::string::npos)
      << failure_text();
  ASSERT_TRUE(program_.call(inputs_, out_).ok()) << failure_text();
  expect_right();
  EXPECT_EQ(function<TakesObject>(kEventDestroy)(event), 0);
  EXPECT_EQ(function<TakesObject>("cuCtxDestroy_v2")(context), 0);
}
#endif

}  // namespace
}  // namespace tenon
