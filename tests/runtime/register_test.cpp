// Plugins that a program registers (tenon.host.plugins/1): operators defined, run on each device
// and defined again; kernels after the first use of a device; what programs get wrong.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <thread>

#include <tenon/abi/host.h>
#include <tenon/cpp/pass.hpp>
#include <tenon/cpp/register.hpp>
#include <tenon/cpp/session.hpp>

namespace {

using tenon::ArrayView;
using tenon::CompileOptions;
using tenon::failure_text;
using tenon::Output;
using tenon::Registration;
using tenon::scalar::arg;

// ---- Operators ----

template <int kScale>
constexpr tenon::OpDraft scale_shift() {
  return tenon::op("demo.scale_shift", tenon::kElementwise, tenon::kByContent)
      .summary("A multiple of x, plus 1.")
      .operand("x", "numbers", tenon::kFloat)
      .result("y", "same type as x")
      .none_example("the factor changes in this test")
      .infer<tenon::infer_elementwise>()
      .scalar(arg(0) * kScale + 1);
}

template <int kScale>
tenon::Status scale_reference(const tenon::Eval& eval) {
  std::vector<double> values = eval.input(0).read<double>();
  for (double& v : values) v = v * kScale + 1;
  eval.output().write(values);
  return {};
}
// The same by a reference function: the cpu knows nothing of it.
template <int kScale>
constexpr tenon::OpDraft by_reference() {
  return tenon::op("demo.by_reference", tenon::kPure, tenon::kByContent)
      .summary("A multiple of x, plus 1.")
      .operand("x", "numbers", tenon::kFloat)
      .result("y", "same type as x")
      .none_example("the factor changes in this test")
      .infer<tenon::infer_same>()
      .reference<scale_reference<kScale>>();
}

tenon_code_t suits(const tenon_simple_call_t*, tenon_simple_plan_t* plan) {
  plan->cost_ns = 1;
  return TENON_OK;
}
std::atomic<int> g_kernel_runs{0};
template <int kScale>
tenon_code_t run_kernel(const tenon_simple_run_t* run) {
  ++g_kernel_runs;
  const auto* x = static_cast<const float*>(run->inputs[0].data);
  auto* out = static_cast<float*>(run->outputs[0].data);
  for (uint64_t i = 0; i < run->inputs[0].elements; ++i) out[i] = x[i] * kScale + 1;
  return TENON_OK;
}
template <int kScale>
std::vector<tenon_simple_kernel_t> kernels(const char* op = "demo.by_reference") {
  return {{op, TENON_DTYPE_BIT(TENON_F32), suits, run_kernel<kScale>}};
}

constexpr std::string_view kText = R"(tenon.tir 1
graph @g(%x: f32[4]) -> (y: f32[4]) {
  %y = OP(%x) : f32[4]
  yield %y
}
)";

std::string text_of(std::string_view op) {
  std::string text(kText);
  return text.replace(text.find("OP"), 2, op);
}

class RegisterTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(session.open().ok()); }
  void TearDown() override {
    for (const char* name : {"demo", "other", "third"}) (void)tenon::unregister(name);
  }

  tenon::Model model(std::string_view op) {
    tenon::Model made;
    EXPECT_TRUE(session.load_bytes(text_of(op), "g.tir", &made).ok()) << failure_text();
    return made;
  }
  tenon::Program program(const tenon::Model& model, std::string device = {}) {
    tenon::Program made;
    EXPECT_TRUE(model.compile(CompileOptions{.device = std::move(device)}, &made).ok())
        << failure_text();
    return made;
  }
  // The result for an x of 10.
  float value(const tenon::Program& program) {
    const std::vector<float> x = {10, 10, 10, 10};
    const tenon::Input in[] = {ArrayView::of(x, {4})};
    std::vector<Output> out(1);
    EXPECT_TRUE(program.call(in, out).ok()) << failure_text();
    return out[0].as<float>().empty() ? 0 : out[0].as<float>()[3];
  }
  float value(std::string_view op, std::string device = {}) {
    return value(program(model(op), std::move(device)));
  }
  std::string explain(std::string_view what, std::string_view filter) {
    std::string json;
    const tenon_sink_t sink = tenon::sink_to(&json);
    EXPECT_EQ(
        session.api().explain(session.api().self, tenon::str(what), tenon::str(filter), &sink),
        TENON_OK);
    return json;
  }
  // That of the current definition.
  std::string number(std::string_view op) {
    const std::string json = explain("ops", op), key = "\"version\":";
    const size_t at = json.find(key);
    if (at == std::string::npos) return {};
    const size_t digit = json.find_first_of("0123456789", at + key.size());
    return json.substr(digit, json.find_first_not_of("0123456789", digit) - digit);
  }
  const tenon_host_plugins_t& plugins() {
    return *tenon::context().query<tenon_host_plugins_t>(TENON_HOST_PLUGINS_ID);
  }

  tenon::Session session;
};

template <int kScale>
tenon::Status define() {
  return Registration("demo").ops<scale_shift<kScale>, by_reference<kScale>>().add();
}

TEST_F(RegisterTest, AnOpRunsOnEachDevice) {
  ASSERT_TRUE(define<2>().ok()) << failure_text();
  for (const char* device : {"reference", TENON_WITH_CPU ? "cpu" : "reference"}) {
    EXPECT_EQ(value("demo.scale_shift", device), 21) << device;
    EXPECT_EQ(value("demo.by_reference", device), 21) << device;
    std::string placed;
    ASSERT_TRUE(program(model("demo.scale_shift"), device).placement(&placed).ok());
    EXPECT_NE(placed.find("\"op\":\"demo.scale_shift\",\"device\":\"" + std::string(device)),
              std::string::npos)
        << placed;
  }
}

TEST_F(RegisterTest, ADefinitionAgainIsForNewGraphs) {
  ASSERT_TRUE(define<2>().ok()) << failure_text();
  for (const char* op : {"demo.scale_shift", "demo.by_reference"}) {
    ASSERT_TRUE(define<2>().ok()) << failure_text();
    const tenon::Model before = model(op);
    const tenon::Program old = program(before);
    ASSERT_TRUE(define<3>().ok()) << failure_text();
    EXPECT_EQ(value(old), 21) << op;
    EXPECT_EQ(value(program(before)), 21) << op;  // compiled now, from a graph of before
    EXPECT_EQ(value(op), 31) << op;
    ASSERT_TRUE(define<2>().ok()) << failure_text();  // and back: the same definition as the first
    EXPECT_EQ(value(op), 21) << op;
    EXPECT_EQ(value(old), 21) << op;
  }
}

TEST_F(RegisterTest, EqualDefinitionsHaveOneNumber) {
  ASSERT_TRUE(define<2>().ok());
  for (const char* op : {"demo.scale_shift", "demo.by_reference"}) {
    const std::string first = number(op);
    EXPECT_FALSE(first.empty());
    ASSERT_TRUE(define<3>().ok());
    EXPECT_NE(number(op), first);
    ASSERT_TRUE(define<2>().ok());
    EXPECT_EQ(number(op), first);
  }
}

// The number stands for the meaning: not for the documentation, and not for the declaring plugin.
TEST_F(RegisterTest, DocumentationAndProviderHaveNoNumber) {
  static tenon_op_def_t documented = tenon::detail::OpStorage<scale_shift<2>>::kDef;
  static int self;
  documented.summary = tenon::str("Another sentence.");
  documented.self = &self;
  ASSERT_TRUE(define<2>().ok());
  const std::string first = number("demo.scale_shift");
  const tenon::Program old = program(model("demo.scale_shift"));
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(Registration("demo").op(documented).add().ok()) << failure_text();
    EXPECT_EQ(number("demo.scale_shift"), first);
    EXPECT_NE(explain("ops", "demo.scale_shift").find("Another sentence."), std::string::npos);
    ASSERT_TRUE(define<2>().ok());
    EXPECT_EQ(explain("ops", "demo.scale_shift").find("Another sentence."), std::string::npos);
  }
  ASSERT_TRUE(tenon::unregister("demo").ok());
  ASSERT_TRUE(Registration("other").ops<scale_shift<2>>().add().ok()) << failure_text();
  EXPECT_EQ(number("demo.scale_shift"), first);
  EXPECT_EQ(value("demo.scale_shift"), 21);
  EXPECT_EQ(value(old), 21);
}

// A graph in text says which definition it means.
TEST_F(RegisterTest, TextNamesTheDefinition) {
  ASSERT_TRUE(define<2>().ok());
  std::string text;
  ASSERT_TRUE(program(model("demo.by_reference"), "reference").dump("graph", &text).ok())
      << failure_text();
  EXPECT_NE(text.find("demo.by_reference@"), std::string::npos) << text;
  ASSERT_TRUE(define<3>().ok());
  tenon::Model again;
  ASSERT_TRUE(session.load_bytes(text, "again.tir", &again).ok()) << failure_text();
  EXPECT_EQ(value(program(again)), 21);
}

TEST_F(RegisterTest, KernelsAfterTheFirstUseOfADevice) {
  if (!TENON_WITH_CPU) GTEST_SKIP() << "this build has no cpu device";
  ASSERT_TRUE(define<2>().ok());
  EXPECT_EQ(value("demo.by_reference", "cpu"), 21);  // on the reference device
  const int before = g_kernel_runs;
  ASSERT_TRUE(Registration("other").kernels("cpu", kernels<2>()).add().ok()) << failure_text();
  EXPECT_EQ(value("demo.by_reference", "cpu"), 21);
  EXPECT_EQ(g_kernel_runs, before + 1);
  ASSERT_TRUE(tenon::unregister("other").ok());
  EXPECT_EQ(value("demo.by_reference", "cpu"), 21);
  EXPECT_EQ(g_kernel_runs, before + 1);
}

// Kernels claim by name. Those of one definition never run another one.
TEST_F(RegisterTest, KernelsBelongToTheDefinitionThatTheyCameWith) {
  if (!TENON_WITH_CPU) GTEST_SKIP() << "this build has no cpu device";
  ASSERT_TRUE(Registration("demo").ops<by_reference<2>>().kernels("cpu", kernels<2>()).add().ok());
  const tenon::Model before = model("demo.by_reference");
  const tenon::Program old = program(before, "cpu");
  int runs = g_kernel_runs;
  EXPECT_EQ(value(old), 21);
  EXPECT_EQ(g_kernel_runs, ++runs);
  ASSERT_TRUE(Registration("demo").ops<by_reference<3>>().kernels("cpu", kernels<3>()).add().ok());
  EXPECT_EQ(value("demo.by_reference", "cpu"), 31);
  EXPECT_EQ(g_kernel_runs, ++runs);
  EXPECT_EQ(value(old), 21);
  EXPECT_EQ(g_kernel_runs, ++runs);
  EXPECT_EQ(value(program(before, "cpu")), 21);  // by its reference: the new kernel is not for it
  EXPECT_EQ(g_kernel_runs, runs);
}

// Also when they are another plugin's.
TEST_F(RegisterTest, KernelsOfOtherPluginsBelongToTheDefinitionOfTheirTime) {
  if (!TENON_WITH_CPU) GTEST_SKIP() << "this build has no cpu device";
  ASSERT_TRUE(define<2>().ok());
  ASSERT_TRUE(Registration("other").kernels("cpu", kernels<2>()).add().ok());
  int runs = g_kernel_runs;
  EXPECT_EQ(value("demo.by_reference", "cpu"), 21);
  EXPECT_EQ(g_kernel_runs, ++runs);
  ASSERT_TRUE(define<3>().ok());
  EXPECT_EQ(value("demo.by_reference", "cpu"), 31);
  EXPECT_EQ(g_kernel_runs, runs);
  ASSERT_TRUE(define<2>().ok());
  EXPECT_EQ(value("demo.by_reference", "cpu"), 21);
  EXPECT_EQ(g_kernel_runs, ++runs);
}

// ---- Programs in files ----

// What means something in this process only stays here.
TEST_F(RegisterTest, OpsByFunctionsCannotBePutInAFile) {
  ASSERT_TRUE(define<2>().ok());
  const std::string path = testing::TempDir() + "/op.tpk";
  for (const char* device : {"reference", TENON_WITH_CPU ? "cpu" : "reference"}) {
    EXPECT_FALSE(model("demo.by_reference").save({.device = device}, path).ok()) << device;
    EXPECT_EQ(failure_text().substr(0, 65),
              "T0520: the op `demo.by_reference` was registered by this program ")
        << failure_text();
    ASSERT_TRUE(model("demo.scale_shift").save({.device = device}, path).ok()) << failure_text();
    tenon::Program loaded;
    ASSERT_TRUE(session.load_package(path, &loaded).ok()) << failure_text();
    EXPECT_EQ(value(loaded), 21) << device;
  }
  std::filesystem::remove(path);
}

// Kernels are found by the name of their plugin. Those of the last registration count.
TEST_F(RegisterTest, PackagesUseKernelsOfAPluginThatIsRegistered) {
  if (!TENON_WITH_CPU) GTEST_SKIP() << "this build has no cpu device";
  std::string text = text_of("neg");  // so large that kernels are worth their call
  for (size_t at; (at = text.find("[4]")) != std::string::npos;) text.replace(at, 3, "[1048576]");
  const std::vector<float> x(1048576, 10);
  const tenon::Input in[] = {ArrayView::of(x, {1048576})};
  const std::string path = testing::TempDir() + "/kernels.tpk";
  const auto result = [&] {
    tenon::Program loaded;
    std::vector<Output> out(1);
    if (!session.load_package(path, &loaded).ok() || !loaded.call(in, out).ok())
      return failure_text();
    return std::to_string(static_cast<int>(out[0].as<float>()[3]));
  };
  ASSERT_TRUE(Registration("other").kernels("cpu", kernels<2>("neg")).add().ok());
  tenon::Model large;
  ASSERT_TRUE(session.load_bytes(text, "g.tir", &large).ok()) << failure_text();
  ASSERT_TRUE(large.save({.device = "cpu"}, path).ok()) << failure_text();
  EXPECT_EQ(result(), "21");
  ASSERT_TRUE(Registration("other").kernels("cpu", kernels<3>("neg")).add().ok());
  EXPECT_EQ(result(), "31");
  ASSERT_TRUE(tenon::unregister("other").ok());
  EXPECT_NE(result().find("the kernels of plugin `other` are not here"), std::string::npos);
  EXPECT_EQ(result().substr(0, 5), "T0523");
  std::filesystem::remove(path);
}

template <int kScale>
const tenon_op_def_t& on_own() {
  static const tenon_op_def_t def = [] {
    tenon_op_def_t made = tenon::detail::OpStorage<by_reference<kScale>>::kDef;
    made.name = tenon::str("demo.on_own");
    return made;
  }();
  return def;
}

// Those that a registered device has itself, too.
TEST_F(RegisterTest, KernelsOfARegisteredDeviceBelongToTheDefinitionOfTheirTime) {
  void* library = dlopen(OWN_DEVICE, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  const auto query = reinterpret_cast<tenon_plugin_query_t>(dlsym(library, "tenon_plugin_query"));
  const tenon_plugin_t* record = nullptr;
  ASSERT_EQ(query(TENON_ABI_VERSION, tenon::context().host, &record), TENON_OK);
  const std::string_view manifest =
      R"({"schema": 1, "name": "own", "version": "0.1.0", "priority": -10,
          "provides": {"devices": ["own"], "kernels": ["own"]}})";
  const auto is_on_own = [&] {
    std::string placed;
    EXPECT_TRUE(program(model("demo.on_own"), "own").placement(&placed).ok()) << failure_text();
    return placed.find("\"op\":\"demo.on_own\",\"device\":\"own\"") != std::string::npos;
  };
  ASSERT_TRUE(Registration("demo").op(on_own<2>()).add().ok()) << failure_text();
  ASSERT_EQ(plugins().plugin_register(plugins().self, record, tenon::str(manifest)), TENON_OK)
      << failure_text();
  EXPECT_EQ(value("demo.on_own", "own"), 21);
  EXPECT_TRUE(is_on_own());
  ASSERT_TRUE(Registration("demo").op(on_own<3>()).add().ok()) << failure_text();
  EXPECT_EQ(value("demo.on_own", "own"), 31);
  EXPECT_FALSE(is_on_own());
}

TEST_F(RegisterTest, IsListedAndTakenBack) {
  ASSERT_TRUE(define<2>().ok());
  const std::string listed = explain("plugins", "demo");
  EXPECT_NE(listed.find("the program, which registered it"), std::string::npos) << listed;
  EXPECT_NE(listed.find("demo.scale_shift"), std::string::npos) << listed;
  const tenon::Program old = program(model("demo.scale_shift"));
  ASSERT_TRUE(tenon::unregister("demo").ok()) << failure_text();
  EXPECT_EQ(explain("plugins", "demo").find("demo.scale_shift"), std::string::npos);
  EXPECT_EQ(value(old), 21);
  tenon::Model gone;
  EXPECT_FALSE(session.load_bytes(text_of("demo.scale_shift"), "g.tir", &gone).ok());
  EXPECT_NE(failure_text().find("there is no op `demo.scale_shift`"), std::string::npos)
      << failure_text();
  EXPECT_EQ(tenon::unregister("demo").code(), TENON_NOT_FOUND);
}

// ---- Passes ----

template <int kCount>
tenon::Status run_pass(tenon_graph_t*, const tenon::PassContext& context) {
  context.count("seen", kCount);
  return {};
}
constexpr tenon_str_t kStatistics[] = {tenon::str("seen")};
template <int kCount>
constexpr tenon::PassRecord kPass =
    tenon::pass("demo-pass", "Counts.").statistics(kStatistics).template run<run_pass<kCount>>();

TEST_F(RegisterTest, APassIsReplaced) {
  tenon_graph_t* graph = nullptr;
  const auto statistics = [&] {
    std::string json;
    const tenon_sink_t sink = tenon::sink_to(&json);
    EXPECT_EQ(session.api().passes_run(session.api().self, graph, tenon::str("demo-pass"), {}, 0,
                                       nullptr, &sink),
              TENON_OK)
        << failure_text();
    return json;
  };
  const tenon_host_graph_t& api = *tenon::context().graph;
  ASSERT_EQ(api.create(api.self, tenon::str("g"), &graph), TENON_OK);
  ASSERT_TRUE(Registration("demo").pass(kPass<41>.def).add().ok()) << failure_text();
  EXPECT_NE(statistics().find("41"), std::string::npos);
  ASSERT_TRUE(Registration("demo").pass(kPass<42>.def).add().ok()) << failure_text();
  EXPECT_NE(statistics().find("42"), std::string::npos);
  api.release(api.self, graph);
}

// ---- Rewrites of ops ----

// Shows that it was applied: the node is gone, and x is the result.
tenon::Status drop(tenon::Builder&, const tenon::Node& node, std::vector<tenon::Value>* out) {
  *out = {node.operand(0)};
  return {};
}
constexpr tenon_rewrite_t kDrop[] = {tenon::rewrite<drop>("drop", "demo.by_reference")};

// They reach the canonicaliser, which may have read the rewrites of all ops before, and are not
// applied to nodes of another definition.
TEST_F(RegisterTest, RewritesAreForTheirDefinition) {
  static const tenon_op_def_t with_rewrite = [] {
    tenon_op_def_t def = tenon::detail::OpStorage<by_reference<2>>::kDef;
    def.rewrites = kDrop;
    def.rewrite_count = 1;
    return def;
  }();
  ASSERT_TRUE(define<2>().ok());
  const tenon::Model before = model("demo.by_reference");
  EXPECT_EQ(value(program(before)), 21);
  ASSERT_TRUE(Registration("demo").op(with_rewrite).add().ok()) << failure_text();
  EXPECT_EQ(value("demo.by_reference"), 10);
  EXPECT_EQ(value(program(before)), 21);
  ASSERT_TRUE(define<2>().ok());
  EXPECT_EQ(value("demo.by_reference"), 21);
}

// Its root says any op; it knows one of them.
tenon::Status drop_ours(tenon::Builder& builder, const tenon::Node& node,
                        std::vector<tenon::Value>* out) {
  if (node.view().op != tenon::intern("demo.by_reference")) return {};
  return drop(builder, node, out);
}
constexpr tenon_rewrite_t kDropAny[] = {tenon::rewrite<drop_ours>("drop", "")};

// Neither are those that match every op.
TEST_F(RegisterTest, RewritesOfEveryOpAreForCurrentDefinitions) {
  static const tenon_op_def_t with_rewrite = [] {
    tenon_op_def_t def = tenon::detail::OpStorage<by_reference<2>>::kDef;
    def.rewrites = kDropAny;
    def.rewrite_count = 1;
    return def;
  }();
  ASSERT_TRUE(define<2>().ok());
  const tenon::Model before = model("demo.by_reference");
  ASSERT_TRUE(Registration("demo").op(with_rewrite).add().ok()) << failure_text();
  EXPECT_EQ(value("demo.by_reference"), 10);
  EXPECT_EQ(value(program(before)), 21);
}

// ---- Definitions that use others ----

// Builds demo.scale_shift by name.
tenon::Status use_inner(tenon::Builder& builder, const tenon::Node& node, tenon_value_t* out) {
  const tenon::Value operands[] = {node.operand(0)};
  const tenon::Node made = builder.build_node("demo.scale_shift", operands);
  if (!builder.status().ok()) return builder.status();
  out[0] = made.result(0).id();
  return {};
}
constexpr tenon::OpDraft outer() {
  return tenon::op("other.outer", tenon::kPure | TENON_TRAIT_COMPOSITE, tenon::kByContent)
      .summary("demo.scale_shift, whatever that is.")
      .operand("x", "numbers", tenon::kFloat)
      .result("y", "same type as x")
      .none_example("the op inside changes in this test")
      .infer<tenon::infer_same>()
      .decompose<use_inner>();
}
tenon::Status rewrite_to_inner(tenon::Builder& builder, const tenon::Node& node,
                               std::vector<tenon::Value>* out) {
  tenon_value_t made = 0;
  TENON_TRY(use_inner(builder, node, &made));
  *out = {tenon::Value(node.graph(), made)};
  return {};
}
tenon_code_t fold_to_inner(void*, const tenon_builder_t* raw, tenon_node_t id,
                           tenon_value_t* out_results, uint32_t* out_matched) {
  tenon::Builder builder(*raw);
  TENON_TRY(use_inner(builder, tenon::Node(raw->graph, id), out_results));
  *out_matched = 1;
  return TENON_OK;
}

// What an op means does not change when an op inside it does, whatever function builds that.
TEST_F(RegisterTest, DefinitionsKeepTheDefinitionsThatTheyUse) {
  static constexpr tenon_rewrite_t kToInner[] = {
      tenon::rewrite<rewrite_to_inner>("to-inner", "other.outer")};
  static const tenon_op_def_t decomposed = tenon::detail::OpStorage<outer>::kDef;
  static tenon_op_def_t rewritten = decomposed, folded = decomposed;
  rewritten.rewrites = kToInner;
  rewritten.rewrite_count = 1;
  folded.fold = fold_to_inner;
  const tenon_op_def_t* const forms[] = {&decomposed, &rewritten, &folded};
  for (const tenon_op_def_t* def : forms) {
    for (const char* device : {"reference", TENON_WITH_CPU ? "cpu" : "reference"}) {
      ASSERT_TRUE(define<2>().ok());
      ASSERT_TRUE(Registration("other").op(*def).add().ok()) << failure_text();
      const tenon::Model before = model("other.outer");
      const tenon::Program old = program(before, device);
      EXPECT_EQ(value(old), 21) << device;
      ASSERT_TRUE(define<3>().ok());
      EXPECT_EQ(value(old), 21) << device;
      EXPECT_EQ(value(program(before, device)), 21) << device;
      EXPECT_EQ(value("other.outer", device), 21) << device;  // not registered again
      ASSERT_TRUE(Registration("other").op(*def).add().ok());
      EXPECT_EQ(value("other.outer", device), 31) << device;  // another number than before
      EXPECT_EQ(value(program(before, device)), 21) << device;
      ASSERT_TRUE(tenon::unregister("demo").ok());
      EXPECT_EQ(value(old), 21) << device;
      EXPECT_EQ(value(program(before, device)), 21) << device;
      ASSERT_TRUE(tenon::unregister("other").ok());
    }
  }
}

// In one plugin too, where the op that is used may come first or last.
TEST_F(RegisterTest, AnOpAndWhatItUsesChangeTogether) {
  const auto both = [](auto inner) {
    static const tenon_op_def_t whole = [] {
      tenon_op_def_t def = tenon::detail::OpStorage<outer>::kDef;
      def.name = tenon::str("demo.outer");
      return def;
    }();
    return Registration("demo").op(whole).template ops<scale_shift<inner>>().add();
  };
  ASSERT_TRUE(both(std::integral_constant<int, 2>()).ok()) << failure_text();
  const tenon::Model before = model("demo.outer");
  EXPECT_EQ(value(program(before)), 21);
  ASSERT_TRUE(both(std::integral_constant<int, 3>()).ok());
  EXPECT_EQ(value(program(before)), 21);
  EXPECT_EQ(value("demo.outer"), 31);
  ASSERT_TRUE(both(std::integral_constant<int, 2>()).ok());
  EXPECT_EQ(value("demo.outer"), 21);
}

template <int kBound>
constexpr tenon::OpDraft at_least() {
  return tenon::op("demo.at_least", tenon::kElementwise | TENON_TRAIT_IDEMPOTENT, tenon::kByContent)
      .summary("x, or a number.")
      .operand("x", "numbers", tenon::kFloat)
      .result("y", "same type as x")
      .none_example("the number changes in this test")
      .infer<tenon::infer_elementwise>()
      .scalar(max(arg(0), arg(0) * 0 + kBound));
}

TEST_F(RegisterTest, TwoDefinitionsOfAnIdempotentOpAreBothDone) {
  ASSERT_TRUE(Registration("demo").ops<at_least<20>>().add().ok()) << failure_text();
  const std::string first = number("demo.at_least");
  ASSERT_TRUE(Registration("demo").ops<at_least<15>>().add().ok());
  const std::string second = number("demo.at_least");
  ASSERT_NE(first, second);
  tenon::Model made;
  ASSERT_TRUE(session
                  .load_bytes("tenon.tir 1\ngraph @g(%x: f32[4]) -> (y: f32[4]) {\n"
                              "  %a = demo.at_least@" +
                                  first + "(%x) : f32[4]\n  %y = demo.at_least@" + second +
                                  "(%a) : f32[4]\n  yield %y\n}\n",
                              "g.tir", &made)
                  .ok())
      << failure_text();
  EXPECT_EQ(value(program(made)), 20);
}

// ---- Frontends ----

// Files of `.demo` hold nothing: the graph is that of the frontend.
template <int kOutputs>
tenon_code_t load_demo(void*, const tenon_source_t*, tenon_graph_t** out) {
  tenon::Graph graph;
  TENON_TRY(tenon::Graph::create("demo", &graph));
  const tenon::Region main = tenon::main_region(graph.get());
  tenon::Value x;
  TENON_TRY(tenon::argument(main, {TENON_F32, {2}}, "x", &x));
  const std::string names[] = {"a", "b"};
  const tenon::Value results[] = {x, x};
  TENON_TRY(tenon::yield(main, std::span(results, kOutputs), std::span(names, kOutputs)));
  *out = graph.release();
  return TENON_OK;
}
uint32_t accepts_demo(void*, tenon_str_t name, const void*, uint64_t) {
  return tenon::view(name).ends_with(".demo") ? 10 : 0;
}
template <int kOutputs>
const tenon_frontend_api_t& demo_frontend() {
  static const tenon_frontend_api_t table = [] {
    auto made = tenon::sized<tenon_frontend_api_t>();
    made.name = tenon::str("demo-format");
    made.extensions = tenon::str(".demo");
    made.accepts = accepts_demo;
    made.load = load_demo<kOutputs>;
    return made;
  }();
  return table;
}

TEST_F(RegisterTest, AFrontendIsReplaced) {
  const auto outputs = [&] {
    tenon::Model made;
    tenon_model_info_t info{};
    EXPECT_TRUE(session.load_bytes("anything", "x.demo", &made).ok()) << failure_text();
    if (made.get() != nullptr) EXPECT_TRUE(made.info(&info).ok());
    return info.output_count;
  };
  ASSERT_TRUE(Registration("demo").frontend(demo_frontend<1>()).add().ok()) << failure_text();
  EXPECT_EQ(outputs(), 1u);
  ASSERT_TRUE(Registration("demo").frontend(demo_frontend<2>()).add().ok()) << failure_text();
  EXPECT_EQ(outputs(), 2u);
}

// ---- Bad input ----

constexpr std::string_view kManifest =
    R"({"schema": 1, "name": "third", "version": "1", "provides": {"ops": ["third.op"]}})";

struct Bad {
  tenon_op_def_t op = tenon::detail::OpStorage<scale_shift<2>>::kDef;
  tenon_operand_def_t operand = *op.operands;
  tenon_result_def_t result = *op.results;
  const tenon_op_def_t* ops[2] = {&op, &op};
  tenon_ops_t table = {sizeof table, nullptr, ops, 1};
  tenon_interface_t interface = tenon::offer(TENON_OPS_ID, table);
  tenon_plugin_t record = {};
  std::string manifest{kManifest};
  Bad() {
    op.name = tenon::str("third.op");
    op.operands = &operand;
    op.results = &result;
    record.size_bytes = sizeof record;
    record.abi = TENON_TARGET_ABI;
    record.name = tenon::str("third");
    record.version = tenon::str("1");
    record.interfaces = &interface;
    record.interface_count = 1;
    record.interface_bytes = sizeof(tenon_interface_t);
  }
  void rename(std::string_view op_name) {
    op.name = tenon::str(op_name);
    manifest.replace(manifest.find("third.op"), 8, op_name);
  }
};

TEST_F(RegisterTest, WhatProgramsGetWrong) {
  struct Case {
    const char* expected;
    tenon_code_t code;
    void (*spoil)(Bad&);
  };
  const Case cases[] = {
      {"P0806", TENON_INVALID_ARGUMENT, [](Bad& b) { b.record.size_bytes = 0; }},
      {"P0803", TENON_FAILED_PRECONDITION, [](Bad& b) { b.record.name = tenon::str("fourth"); }},
      {"P0305", TENON_FAILED_PRECONDITION, [](Bad& b) { b.record.abi = 7u << 16; }},
      {"P0806", TENON_INVALID_ARGUMENT, [](Bad& b) { b.record.interfaces = nullptr; }},
      {"P0805", TENON_INVALID_ARGUMENT, [](Bad& b) { b.interface.table = nullptr; }},
      {"P0806", TENON_INVALID_ARGUMENT, [](Bad& b) { b.table.op_count = UINT64_MAX; }},
      {"P0805", TENON_INVALID_ARGUMENT, [](Bad& b) { b.ops[0] = nullptr; }},
      {"P0805", TENON_INVALID_ARGUMENT, [](Bad& b) { b.op.infer = nullptr; }},
      {"P0806", TENON_INVALID_ARGUMENT, [](Bad& b) { b.op.result_count = 1u << 30; }},
      {"P0806", TENON_INVALID_ARGUMENT, [](Bad& b) { b.op.results = nullptr; }},
      {"P0806", TENON_INVALID_ARGUMENT, [](Bad& b) { b.op.summary = {nullptr, 5}; }},
      {"P0806", TENON_INVALID_ARGUMENT, [](Bad& b) { b.op.doc = {nullptr, 5}; }},
      {"P0806", TENON_INVALID_ARGUMENT, [](Bad& b) { b.operand.name = {nullptr, 5}; }},
      {"P0806", TENON_INVALID_ARGUMENT, [](Bad& b) { b.operand.doc = {nullptr, 5}; }},
      {"P0806", TENON_INVALID_ARGUMENT, [](Bad& b) { b.result.name = {nullptr, 5}; }},
      {"P0806", TENON_INVALID_ARGUMENT,
       [](Bad& b) {
         static const tenon_attr_def_t kAttr = {tenon::str("a"), {}, TENON_ATTR_STRING, 0, 0, 0, {},
                                                {nullptr, 5}};
         b.op.attrs = &kAttr;
         b.op.attr_count = 1;
       }},
      {"T0320", TENON_INVALID_ARGUMENT, [](Bad& b) { b.op.version = 1; }},
      {"T0320", TENON_INVALID_ARGUMENT, [](Bad& b) { b.table.op_count = 2; }},
      {"T0320", TENON_INVALID_ARGUMENT, [](Bad& b) { b.rename("third"); }},
      {"T0320", TENON_INVALID_ARGUMENT, [](Bad& b) { b.rename(".op"); }},
      {"T0320", TENON_INVALID_ARGUMENT, [](Bad& b) { b.rename("Third.op"); }},
      {"P0909", TENON_ALREADY_EXISTS, [](Bad& b) { b.rename("demo.scale_shift"); }},
      {"P0809", TENON_INVALID_ARGUMENT, [](Bad& b) { b.op.name = tenon::str("third.b"); }},
      {"P0809", TENON_INVALID_ARGUMENT, [](Bad& b) { b.record.interface_count = 0; }},
      {"P0201", TENON_INVALID_ARGUMENT, [](Bad& b) { b.manifest = "{"; }},
      {"P0205", TENON_INVALID_ARGUMENT, [](Bad& b) { b.manifest = R"({"schema": 1})"; }},
      {"P0204", TENON_UNIMPLEMENTED, [](Bad& b) { b.manifest.replace(11, 1, "9"); }},
      {"P0206", TENON_INVALID_ARGUMENT,
       [](Bad& b) { b.manifest.insert(1, R"("library": "./x.so", )"); }},
      {"P0501", TENON_UNAVAILABLE,
       [](Bad& b) { b.manifest.insert(1, R"("requires": {"plugins": ["missing"]}, )"); }},
  };
  ASSERT_TRUE(define<2>().ok());
  const std::string before = explain("plugins", "");
  for (const Case& one : cases) {
    Bad bad;
    one.spoil(bad);
    EXPECT_EQ(plugins().plugin_register(plugins().self, &bad.record, tenon::str(bad.manifest)),
              one.code)
        << one.expected;
    EXPECT_NE(failure_text().find(one.expected), std::string::npos)
        << one.expected << ": " << failure_text();
    EXPECT_EQ(explain("plugins", ""), before) << one.expected;
    EXPECT_EQ(explain("ops", "third*").find("third"), std::string::npos) << one.expected;
  }
  EXPECT_EQ(plugins().plugin_register(plugins().self, nullptr, tenon::str(kManifest)),
            TENON_INVALID_ARGUMENT);
  Bad good;
  EXPECT_EQ(plugins().plugin_register(plugins().self, &good.record, {}), TENON_INVALID_ARGUMENT);
  EXPECT_EQ(plugins().plugin_unregister(plugins().self, {}), TENON_NOT_FOUND);
  EXPECT_EQ(plugins().plugin_unregister(plugins().self, tenon::str("ops")), TENON_NOT_FOUND);
  // Nothing of all that is in the way of a right one.
  EXPECT_EQ(value("demo.scale_shift"), 21);
}

TEST_F(RegisterTest, NamesOfFilesAreTaken) {
  Bad bad;
  bad.record.name = tenon::str("ops");
  bad.manifest.replace(bad.manifest.find("\"third\""), 7, "\"ops\"");
  EXPECT_EQ(plugins().plugin_register(plugins().self, &bad.record, tenon::str(bad.manifest)),
            TENON_ALREADY_EXISTS);
  EXPECT_NE(failure_text().find("P0909"), std::string::npos) << failure_text();
}

// ---- Threads ----

TEST_F(RegisterTest, WhileProgramsRunAndFromSeveralThreads) {
  ASSERT_TRUE(define<2>().ok());
  const tenon::Model before = model("demo.scale_shift");
  const tenon::Program old = program(before);
  constexpr int kRounds = 20;
  std::atomic<bool> done{false};
  std::atomic<int> wrong{0}, ready{0};
  std::vector<std::thread> threads;
  const auto loop = [&](auto body) {
    threads.emplace_back([&, body] {
      for (int i = 0; i < kRounds || !done; ++i) {
        wrong += !body();
        if (i == 0) ++ready;
      }
    });
  };
  for (int t = 0; t < 2; ++t) loop([&] { return value(old) == 21; });
  loop([&] {  // a graph that is built meanwhile means one of the two
    const float v = value("demo.by_reference", "reference");
    return v == 21 || v == 31;
  });
  loop([&] { return explain("plugins", "").find("demo") != std::string::npos; });
  loop([&] {
    static int rounds = 0;
    return rounds++ >= kRounds ||
           Registration("other").kernels("cpu", kernels<2>("demo.scale_shift")).add().ok();
  });
  while (ready < 5) std::this_thread::yield();
  for (int i = 0; i < kRounds; ++i) wrong += !(i % 2 ? define<2>() : define<3>()).ok();
  done = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
