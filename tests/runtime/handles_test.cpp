// Handles that were released: every slot that takes one refuses it, a second release is a line in
// the log, and their memory is used again only after many others.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <mutex>
#include <thread>
#include <unordered_set>

#include <tenon/cpp/session.hpp>

namespace {

using tenon::ArrayView;

constexpr std::string_view kModel = R"(tenon.tir 1
graph @g<n in [1, 64]>(%x: f32[n]) -> (y: f32[n]) {
  %y = add(%x, %x) : f32[n]
  yield %y
}
)";
constexpr size_t kKept = 1024;  // as session.h says

std::mutex g_log_mutex;
std::vector<std::string> g_log;

void log(void*, uint32_t, tenon_str_t, tenon_str_t text) {
  const std::lock_guard lock(g_log_mutex);
  g_log.emplace_back(tenon::view(text));
}

std::vector<std::string> take_log() {
  const std::lock_guard lock(g_log_mutex);
  return std::exchange(g_log, {});
}

const tenon_host_session_t& sessions() {
  return *tenon::detail::g_session;
}
const tenon_host_call_t& calls() {
  return *tenon::detail::g_call;
}
const tenon_host_operation_t& operations() {
  return *tenon::detail::g_operation;
}
const tenon_host_package_t& packages() {
  return *tenon::detail::g_package;
}

// One handle of each kind.
struct Objects {
  tenon_model_t* model = nullptr;
  tenon_program_t* program = nullptr;
  tenon_tensor_t* tensor = nullptr;
  tenon_binding_t* binding = nullptr;
  tenon_operation_t* operation = nullptr;
};

class Handles : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(session_.load_bytes(kModel, "g.tir", &model_).ok()) << tenon::failure_text();
    ASSERT_TRUE(model_.compile({.device = "reference"}, &program_).ok()) << tenon::failure_text();
    take_log();
  }
  // Of the loaded model; the caller releases them.
  Objects make() {
    Objects all;
    tenon_graph_t* graph = nullptr;
    const auto& s = sessions();
    EXPECT_EQ(s.model_graph(s.self, model_.get(), &graph), TENON_OK);
    EXPECT_EQ(s.model_from_graph(s.self, graph, &all.model), TENON_OK);
    tenon::context().graph->release(tenon::context().graph->self, graph);
    auto options = tenon::sized<tenon_session_options_t>();
    options.device = tenon::str("reference");
    EXPECT_EQ(s.compile(s.self, all.model, &options, &all.program), TENON_OK);
    EXPECT_EQ(s.binding_create(s.self, all.program, &all.binding), TENON_OK);
    EXPECT_EQ(operations().create(operations().self, nullptr, &all.operation), TENON_OK);
    all.tensor = make_tensor();
    return all;
  }
  tenon_tensor_t* make_tensor() {
    tenon_tensor_t* tensor = nullptr;
    const tenon_array_t array = tenon::detail::raw(view_);
    EXPECT_EQ(calls().tensor_wrap(calls().self, &array, nullptr, nullptr, &tensor), TENON_OK);
    return tensor;
  }
  static void release(const Objects& all) {
    const auto& s = sessions();
    operations().release(operations().self, all.operation);
    calls().tensor_release(calls().self, all.tensor);
    s.binding_release(s.self, all.binding);
    s.program_release(s.self, all.program);
    s.model_release(s.self, all.model);
  }
  static void expect_reported(tenon_code_t code, std::string_view kind, std::string_view where) {
    EXPECT_EQ(code, TENON_FAILED_PRECONDITION) << where;
    const std::string text = tenon::failure_text();
    EXPECT_TRUE(text.starts_with("T0626")) << where << ": " << text;
    EXPECT_NE(text.find(tenon::cat("the ", kind, " was released")), std::string::npos)
        << where << ": " << text;
    EXPECT_NE(text.find("release it after its last use"), std::string::npos) << text;
  }
  // A call of `program` with `tensor` as its input.
  tenon_code_t call(tenon_program_t* program, tenon_tensor_t* tensor, uint32_t flags = 0) {
    tenon_input_t input = {sizeof input, flags, nullptr, tensor};
    auto array = tenon::sized<tenon_array_t>();
    tenon_output_t output = {sizeof output, TENON_OUTPUT_OWNED, &array, nullptr};
    auto record = tenon::sized<tenon_program_call_t>();
    record.input_count = record.output_count = 1;
    record.inputs = &input;
    record.outputs = &output;
    const tenon_code_t code = calls().call(calls().self, program, &record);
    calls().tensor_release(calls().self, output.tensor);
    return code;
  }

  tenon::Session session_;
  tenon::Model model_;
  tenon::Program program_;
  std::vector<float> values_{1, 2, 3, 4};
  ArrayView view_ = ArrayView::of(values_, {4});
};

std::string g_text;
const tenon_sink_t* sink() {
  static const tenon_sink_t to_text = tenon::sink_to(&g_text);
  return &to_text;
}

struct Door {
  const char* name;
  std::function<tenon_code_t()> open;
};

TEST_F(Handles, AReleasedModelIsRefused) {
  const Objects all = make();
  release(all);
  const auto& s = sessions();
  auto info = tenon::sized<tenon_model_info_t>();
  tenon_graph_t* graph = nullptr;
  tenon_program_t* program = nullptr;
  const Door doors[] = {
      {"model_info", [&] { return s.model_info(s.self, all.model, &info); }},
      {"model_graph", [&] { return s.model_graph(s.self, all.model, &graph); }},
      {"compile", [&] { return s.compile(s.self, all.model, nullptr, &program); }},
      {"save",
       [&] { return packages().save(packages().self, all.model, nullptr, tenon::str("no.tpk")); }}};
  for (const Door& door : doors) expect_reported(door.open(), "model", door.name);
  EXPECT_EQ(graph, nullptr);
  EXPECT_EQ(program, nullptr);
}

TEST_F(Handles, AReleasedProgramIsRefused) {
  const Objects all = make();
  release(all);
  const auto& s = sessions();
  auto info = tenon::sized<tenon_program_info_t>();
  auto ports = tenon::sized<tenon_model_info_t>();
  auto record = tenon::sized<tenon_program_call_t>();
  tenon_graph_t* graph = nullptr;
  tenon_binding_t* binding = nullptr;
  tenon::Operation operation;
  ASSERT_TRUE(operation.open().ok());
  const Door doors[] = {
      {"program_info", [&] { return s.program_info(s.self, all.program, &info); }},
      {"placement", [&] { return s.placement(s.self, all.program, sink()); }},
      {"placement_summary", [&] { return s.placement_summary(s.self, all.program, sink()); }},
      {"dump", [&] { return s.dump(s.self, all.program, tenon::str("graph"), sink()); }},
      {"binding_create", [&] { return s.binding_create(s.self, all.program, &binding); }},
      {"ports", [&] { return packages().ports(packages().self, all.program, &ports); }},
      {"signature", [&] { return packages().signature(packages().self, all.program, &graph); }},
      {"call", [&] { return calls().call(calls().self, all.program, &record); }},
      {"start_call", [&] {
         return operations().start_call(operations().self, all.program, &record, operation.get());
       }}};
  for (const Door& door : doors) expect_reported(door.open(), "program", door.name);
  EXPECT_EQ(binding, nullptr);
  EXPECT_EQ(graph, nullptr);
}

TEST_F(Handles, AReleasedBindingIsRefused) {
  const Objects all = make();
  release(all);
  const auto& s = sessions();
  auto info = tenon::sized<tenon_run_info_t>();
  auto out = tenon::sized<tenon_array_t>();
  const tenon_array_t array = tenon::detail::raw(view_);
  const tenon_str_t name = tenon::str("x");
  tenon_binding_t* const b = all.binding;
  const Door doors[] = {
      {"bind_input", [&] { return s.bind_input(s.self, b, name, &array); }},
      {"bind_size", [&] { return s.bind_size(s.self, b, tenon::str("n"), 4); }},
      {"run", [&] { return s.run(s.self, b); }},
      {"output", [&] { return s.output(s.self, b, name, &out); }},
      {"run_info", [&] { return s.run_info(s.self, b, &info); }},
      {"profile_enable", [&] { return s.profile_enable(s.self, b, 1); }},
      {"profile_write", [&] { return s.profile_write(s.self, b, TENON_PROFILE_TABLE, sink()); }}};
  for (const Door& door : doors) expect_reported(door.open(), "binding", door.name);
}

TEST_F(Handles, AReleasedTensorIsRefused) {
  const Objects all = make();
  release(all);
  auto info = tenon::sized<tenon_tensor_info_t>();
  auto array = tenon::sized<tenon_array_t>();
  auto memory = tenon::sized<tenon_native_memory_t>();
  const auto& c = calls();
  const Door doors[] = {
      {"tensor_info", [&] { return c.tensor_info(c.self, all.tensor, &info); }},
      {"tensor_array", [&] { return c.tensor_array(c.self, all.tensor, &array); }},
      {"tensor_native",
       [&] {
         return c.tensor_native(c.self, all.tensor, tenon::str("sim"), tenon::str("sim.handle"),
                                &memory);
       }},
      {"tensor_use",
       [&] {
         auto stream = tenon::sized<tenon_native_handle_t>();
         stream.kind = tenon::str("sim.queue");
         auto on = tenon::sized<tenon_call_native_t>();
         on.device = tenon::str("sim");
         on.handle = &stream;
         return c.tensor_use(c.self, all.tensor, &on);
       }},
      {"an input", [&] { return call(program_.get(), all.tensor); }},
      {"a donated input", [&] { return call(program_.get(), all.tensor, TENON_INPUT_DONATED); }}};
  for (const Door& door : doors) expect_reported(door.open(), "tensor", door.name);
  EXPECT_EQ(call(program_.get(), all.tensor), TENON_FAILED_PRECONDITION);
  EXPECT_NE(tenon::failure_text().find("input 0"), std::string::npos) << tenon::failure_text();
}

TEST_F(Handles, AReleasedOperationIsRefused) {
  const Objects all = make();
  release(all);
  auto record = tenon::sized<tenon_program_call_t>();
  const auto& o = operations();
  const Door doors[] = {
      {"enter", [&] { return o.enter(o.self, all.operation); }},
      {"leave", [&] { return o.leave(o.self, all.operation); }},
      {"start_call", [&] { return o.start_call(o.self, program_.get(), &record, all.operation); }},
      {"wait", [&] { return o.wait(o.self, all.operation, 0); }}};
  for (const Door& door : doors) expect_reported(door.open(), "operation", door.name);
  o.cancel(o.self, all.operation);
  EXPECT_EQ(take_log(), std::vector<std::string>());
}

TEST_F(Handles, ASecondReleaseIsALineInTheLog) {
  const Objects all = make();
  release(all);
  EXPECT_EQ(take_log(), std::vector<std::string>());
  release(all);
  const std::vector<std::string> lines = take_log();
  ASSERT_EQ(lines.size(), 5u);
  const char* const kinds[] = {"operation", "tensor", "binding", "program", "model"};
  for (size_t i = 0; i < lines.size(); ++i) {
    EXPECT_NE(lines[i].find(kinds[i]), std::string::npos) << lines[i];
    EXPECT_NE(lines[i].find("was released before"), std::string::npos) << lines[i];
  }
  // The first one after them works, and so does its release.
  const Objects more = make();
  EXPECT_EQ(call(more.program, more.tensor), TENON_OK) << tenon::failure_text();
  release(more);
  EXPECT_EQ(take_log(), std::vector<std::string>());
}

TEST_F(Handles, NullIsReleasedInSilence) {
  release({});
  EXPECT_EQ(take_log(), std::vector<std::string>());
}

TEST_F(Handles, AnObjectOfAnotherKindIsRefused) {
  auto info = tenon::sized<tenon_model_info_t>();
  auto* const wrong = reinterpret_cast<tenon_model_t*>(program_.get());
  EXPECT_EQ(sessions().model_info(sessions().self, wrong, &info), TENON_INVALID_ARGUMENT);
  EXPECT_NE(tenon::failure_text().find("is not a model"), std::string::npos)
      << tenon::failure_text();
  sessions().model_release(sessions().self, wrong);
  EXPECT_EQ(take_log().size(), 1u);
  std::string placement;
  EXPECT_TRUE(program_.placement(&placement).ok()) << tenon::failure_text();
}

// Handles that the wrappers of C++ hold may be released without them.
TEST_F(Handles, TheWrappersReportTheSame) {
  {
    tenon::Model model;
    tenon::Program program;
    tenon::Binding binding;
    tenon::Tensor tensor;
    tenon::Operation operation;
    ASSERT_TRUE(session_.load_bytes(kModel, "g.tir", &model).ok());
    ASSERT_TRUE(model.compile({.device = "reference"}, &program).ok());
    ASSERT_TRUE(program.bind(&binding).ok());
    ASSERT_TRUE(tenon::Tensor::copy(view_, &tensor).ok());
    ASSERT_TRUE(operation.open().ok());
    release({model.get(), program.get(), tensor.get(), binding.get(), operation.get()});
    tenon_model_info_t info;
    expect_reported(model.info(&info).code(), "model", "Model");
    expect_reported(program.ports(&info).code(), "program", "Program");
    expect_reported(binding.run().code(), "binding", "Binding");
    ArrayView array;
    expect_reported(tensor.array(&array).code(), "tensor", "Tensor");
    tenon::Output output;
    expect_reported(program_.call({{tensor}}, {&output, 1}).code(), "tensor", "Call");
    expect_reported(operation.wait().code(), "operation", "Operation");
    EXPECT_EQ(take_log(), std::vector<std::string>());
  }
  EXPECT_EQ(take_log().size(), 5u);
}

#if TENON_WITH_CPU
// Calls that repeat the one before have a way of their own.
TEST_F(Handles, ResultsOfRepeatedCallsAreHandles) {
  tenon::Program program;
  ASSERT_TRUE(model_.compile({.device = "cpu"}, &program).ok()) << tenon::failure_text();
  const std::vector<float> x{1, 2, 3, 4};
  const std::vector<tenon::Input> inputs = {ArrayView::of(x, {4})};
  for (int i = 0; i < 8; ++i) {
    tenon::Output y;
    ASSERT_TRUE(program.call(inputs, {&y, 1}).ok()) << tenon::failure_text();
    tenon_tensor_info_t info;
    ASSERT_TRUE(y.tensor().info(&info).ok()) << i << ": " << tenon::failure_text();
    EXPECT_EQ(info.bytes, 16u);
  }
  EXPECT_EQ(take_log(), std::vector<std::string>());
  tenon_tensor_t* const tensor = make_tensor();
  for (int i = 0; i < 4; ++i) EXPECT_EQ(call(program.get(), tensor), TENON_OK);
  calls().tensor_release(calls().self, tensor);
  expect_reported(call(program.get(), tensor), "tensor", "a repeated call");
}
#endif

// Other threads use the handle while its neighbours come and go.
TEST_F(Handles, EveryThreadGetsTheFailure) {
  tenon_tensor_t* const tensor = make_tensor();
  calls().tensor_release(calls().self, tensor);
  std::atomic<int> failures{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      auto array = tenon::sized<tenon_array_t>();
      for (int i = 0; i < 200; ++i)
        failures += calls().tensor_array(calls().self, tensor, &array) == TENON_FAILED_PRECONDITION;
    });
  }
  for (size_t i = 0; i + 1 < kKept; ++i) calls().tensor_release(calls().self, make_tensor());
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures, 4 * 200);
}

// Made and released on many threads, each handle belongs to one of them.
TEST_F(Handles, ThreadsShareTheMemory) {
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      const std::vector<float> own(3, static_cast<float>(t));
      for (int i = 0; i < 5000; ++i) {
        tenon::Tensor tensor;
        ArrayView array;
        const bool right = tenon::Tensor::borrow(ArrayView::of(own, {3}), &tensor).ok() &&
                           tensor.array(&array).ok() && array.data == own.data();
        wrong += right ? 0 : 1;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(Handles, AMillionComeAndGoInTheMemoryOfFew) {
  std::unordered_set<const void*> tensors;
  for (int i = 0; i < 1'000'000; ++i) {
    tenon_tensor_t* const tensor = make_tensor();
    tensors.insert(tensor);
    calls().tensor_release(calls().self, tensor);
  }
  // Those that earlier tests released count, too.
  EXPECT_LE(tensors.size(), 2 * kKept + 10);
  std::unordered_set<const void*> others[2];
  for (size_t i = 0; i < 4 * kKept; ++i) {
    Objects all;
    const auto& s = sessions();
    ASSERT_EQ(s.binding_create(s.self, program_.get(), &all.binding), TENON_OK);
    ASSERT_EQ(operations().create(operations().self, nullptr, &all.operation), TENON_OK);
    others[0].insert(all.binding);
    others[1].insert(all.operation);
    release(all);
  }
  EXPECT_LE(others[0].size(), 2 * kKept);
  EXPECT_LE(others[1].size(), 2 * kKept);
}

// The list of released handles is whole in a child, whatever other threads of the parent did.
TEST_F(Handles, AForkedChildReleasesHandles) {
  std::atomic<bool> stop{false};
  std::thread busy([&] {
    while (!stop) calls().tensor_release(calls().self, make_tensor());
  });
  tenon_tensor_t* const tensor = make_tensor();
  for (int i = 0; i < 20; ++i) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      alarm(20);
      calls().tensor_release(calls().self, tensor);
      auto array = tenon::sized<tenon_array_t>();
      const bool failed =
          calls().tensor_array(calls().self, tensor, &array) == TENON_FAILED_PRECONDITION;
      _exit(failed ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  stop = true;
  busy.join();
  calls().tensor_release(calls().self, tensor);
  EXPECT_EQ(take_log(), std::vector<std::string>());
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  auto options = tenon::sized<tenon_host_options_t>();
  options.log = log;
  tenon::Session session;
  if (!session.open(&options).ok()) return 1;
  return RUN_ALL_TESTS();
}
