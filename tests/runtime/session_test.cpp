#include <gtest/gtest.h>

#include <atomic>
#include <cfenv>
#include <cmath>
#include <thread>

#include <tenon/abi/form.h>
#include <tenon/abi/host.h>
#include <tenon/abi/inspect.h>
#include <tenon/abi/memory.h>
#include <tenon/cpp/session.hpp>

namespace {

using tenon::ArrayView;

constexpr std::string_view kModel = R"(tenon.tir 1
graph @g<n in [1, 64]>(%x: f32[n, 3], %z: f32[n, 3]) -> (e: f32[n, 3], y: f32[n, 3], again: f32[n, 3], same: f32[n, 3]) {
  %y = add(%x, %z) : f32[n, 3]
  %m = mul(%y, %z) : f32[n, 3]
  %e = exp(%m) : f32[n, 3]
  yield %e, %y, %y, %x
}
)";

class SessionTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    ASSERT_TRUE(session.open().ok());
    ASSERT_TRUE(session.load_bytes(kModel, "g.tir", &model).ok()) << tenon::failure_text();
    fill(4);
  }
  void fill(int64_t rows) {
    n = rows;
    x.resize(rows * 3);
    z.resize(rows * 3);
    for (int64_t i = 0; i < rows * 3; ++i) {
      x[i] = 0.25f * static_cast<float>(i % 7) - 1;
      z[i] = 0.5f - 0.125f * static_cast<float>(i % 5);
    }
  }
  bool compile(std::string_view device, tenon::Program* out, bool no_fallback = false) {
    return model.compile({.device = device, .no_fallback = no_fallback}, out).ok();
  }
  void bind(tenon::Binding* b) {
    ASSERT_TRUE(b->input("x", ArrayView::of(x, {n, 3})).ok()) << tenon::failure_text();
    ASSERT_TRUE(b->input("z", ArrayView::of(z, {n, 3})).ok()) << tenon::failure_text();
  }
  void expect_right(tenon::Binding* b) {
    ArrayView e, y, again, same;
    ASSERT_TRUE(b->output("e", &e).ok()) << tenon::failure_text();
    ASSERT_TRUE(b->output("y", &y).ok());
    ASSERT_TRUE(b->output("again", &again).ok());
    ASSERT_TRUE(b->output("same", &same).ok());
    ASSERT_EQ(e.dims, (std::vector<int64_t>{n, 3}));
    for (int64_t i = 0; i < n * 3; ++i) {
      const float sum = x[i] + z[i];
      ASSERT_FLOAT_EQ(y.as<float>()[i], sum);
      ASSERT_FLOAT_EQ(again.as<float>()[i], sum);
      ASSERT_FLOAT_EQ(same.as<float>()[i], x[i]);
      ASSERT_NEAR(e.as<float>()[i], std::exp(sum * z[i]), 1e-5);
    }
  }
  tenon::Session session;
  tenon::Model model;
  std::vector<float> x, z;
  int64_t n = 0;
};

TEST(ModelTest, WithoutASessionIsAnError) {
  const tenon::Model model;
  tenon_model_info_t info;
  EXPECT_FALSE(model.info(&info).ok());
  tenon::Program program;
  EXPECT_FALSE(model.compile({}, &program).ok());
}

TEST_P(SessionTest, RunsWithChangingSizes) {
  tenon::Program program;
  ASSERT_TRUE(compile(GetParam(), &program)) << tenon::failure_text();
  tenon::Binding b;
  ASSERT_TRUE(program.bind(&b).ok());
  for (int64_t rows : {4, 64, 1, 4}) {
    fill(rows);
    bind(&b);
    ASSERT_TRUE(b.run().ok()) << tenon::failure_text();
    expect_right(&b);
  }
}

TEST_P(SessionTest, RunsFromManyThreads) {
  tenon::Program program;
  ASSERT_TRUE(compile(GetParam(), &program)) << tenon::failure_text();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      tenon::Binding b;
      ASSERT_TRUE(program.bind(&b).ok());
      bind(&b);
      for (int i = 0; i < 5; ++i) {
        ASSERT_TRUE(b.run().ok()) << tenon::failure_text();
        expect_right(&b);
      }
    });
  }
  for (std::thread& t : threads) t.join();
}

// A binding serves one thread at a time: the second one gets an error, and changes nothing.
TEST_P(SessionTest, ASecondThreadOfABindingIsRefused) {
  tenon::Program program;
  ASSERT_TRUE(compile(GetParam(), &program)) << tenon::failure_text();
  tenon::Binding b;
  ASSERT_TRUE(program.bind(&b).ok());
  bind(&b);
  ASSERT_TRUE(b.run().ok()) << tenon::failure_text();
  const auto& api = *tenon::context().query<tenon_host_session_t>(TENON_HOST_SESSION_ID);
  // The first thread is inside profile_write as long as its sink waits.
  struct Meeting {
    std::atomic<bool> inside = false, leave = false;
  } meeting;
  const tenon_sink_t waits = {&meeting, [](void* self, const void*, uint64_t) -> tenon_code_t {
                                auto& m = *static_cast<Meeting*>(self);
                                m.inside = true;
                                while (!m.leave) std::this_thread::yield();
                                return TENON_OK;
                              }};
  std::thread first([&] {
    EXPECT_EQ(api.profile_write(api.self, b.get(), TENON_PROFILE_TABLE, &waits), TENON_OK);
  });
  while (!meeting.inside) std::this_thread::yield();
  const auto refused = [](tenon::Status status) {
    EXPECT_EQ(status.code(), TENON_FAILED_PRECONDITION);
    EXPECT_TRUE(tenon::failure_text().starts_with("T0622")) << tenon::failure_text();
  };
  ArrayView out;
  tenon_run_info_t info{};
  std::string ignored;
  const tenon_sink_t sink = tenon::sink_to(&ignored);
  refused(b.input("x", ArrayView::of(z, {n, 3})));
  refused(api.bind_size(api.self, b.get(), tenon::str("n"), 7));
  refused(b.run());
  refused(b.output("e", &out));
  refused(b.info(&info));
  refused(api.profile_enable(api.self, b.get(), 1));
  refused(api.profile_write(api.self, b.get(), TENON_PROFILE_TABLE, &sink));
  meeting.leave = true;
  first.join();
  expect_right(&b);
  ASSERT_TRUE(b.run().ok()) << tenon::failure_text();
  expect_right(&b);
}

TEST_P(SessionTest, TwoThreadsRunOneBinding) {
  tenon::Program program;
  ASSERT_TRUE(compile(GetParam(), &program)) << tenon::failure_text();
  tenon::Binding b;
  ASSERT_TRUE(program.bind(&b).ok());
  bind(&b);
  std::atomic<int> ran{0}, wrong{0};
  const auto work = [&] {
    for (int i = 0; i < 50; ++i) {
      if (b.run().ok()) {
        ++ran;
      } else if (!tenon::failure_text().starts_with("T0622")) {
        ++wrong;
      }
    }
  };
  std::thread other(work);
  work();
  other.join();
  EXPECT_GE(ran, 1);
  EXPECT_EQ(wrong, 0);
  expect_right(&b);
}

TEST_P(SessionTest, CompilesOnManyThreadsAtOnce) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      tenon::Program program;
      ASSERT_TRUE(compile(GetParam(), &program)) << tenon::failure_text();
      tenon::Binding b;
      ASSERT_TRUE(program.bind(&b).ok());
      bind(&b);
      ASSERT_TRUE(b.run().ok()) << tenon::failure_text();
      expect_right(&b);
    });
  }
  for (std::thread& t : threads) t.join();
}

TEST_P(SessionTest, EveryKindOfWrongInputIsNamedAndTheBindingStaysUsable) {
  tenon::Program program;
  ASSERT_TRUE(compile(GetParam(), &program)) << tenon::failure_text();
  tenon::Binding b;
  ASSERT_TRUE(program.bind(&b).ok());
  ArrayView out;
  EXPECT_FALSE(b.output("e", &out).ok());
  EXPECT_TRUE(tenon::failure_text().starts_with("T0614")) << tenon::failure_text();
  EXPECT_FALSE(b.run().ok());
  EXPECT_TRUE(tenon::failure_text().starts_with("T0601")) << tenon::failure_text();
  EXPECT_NE(tenon::failure_text().find("`x`"), std::string::npos);
  EXPECT_NE(tenon::failure_text().find("`z`"), std::string::npos);
  EXPECT_FALSE(b.input("xx", ArrayView::of(x, {n, 3})).ok());
  EXPECT_NE(tenon::failure_text().find("did you mean `x`"), std::string::npos)
      << tenon::failure_text();
  EXPECT_FALSE(b.input("x", {TENON_I32, {n, 3}, x.data()}).ok());
  EXPECT_TRUE(tenon::failure_text().starts_with("T0603")) << tenon::failure_text();
  EXPECT_FALSE(b.input("x", ArrayView::of(x, {n * 3})).ok());
  EXPECT_TRUE(tenon::failure_text().starts_with("T0604")) << tenon::failure_text();
  EXPECT_FALSE(b.input("x", ArrayView::of(x, {6, 2})).ok());
  EXPECT_TRUE(tenon::failure_text().starts_with("T0605")) << tenon::failure_text();
  ASSERT_TRUE(b.input("x", ArrayView::of(x, {4, 3})).ok());
  EXPECT_FALSE(b.input("z", ArrayView::of(z, {2, 3})).ok());
  EXPECT_TRUE(tenon::failure_text().starts_with("T0606")) << tenon::failure_text();
  // The current binding counts: rebinding an input forgets its size; the others keep theirs.
  tenon::Binding again;
  ASSERT_TRUE(program.bind(&again).ok());
  ASSERT_TRUE(again.input("x", ArrayView::of(x, {4, 3})).ok());
  ASSERT_TRUE(again.input("z", ArrayView::of(z, {4, 3})).ok());
  EXPECT_FALSE(again.input("x", ArrayView::of(x, {2, 3})).ok());
  EXPECT_TRUE(tenon::failure_text().starts_with("T0606")) << tenon::failure_text();
  ASSERT_TRUE(again.input("z", ArrayView::of(z, {2, 3})).ok()) << tenon::failure_text();
  ASSERT_TRUE(again.input("x", ArrayView::of(x, {2, 3})).ok()) << tenon::failure_text();
  std::vector<float> large(65 * 3);
  tenon::Binding wide;
  ASSERT_TRUE(program.bind(&wide).ok());
  ASSERT_TRUE(wide.input("x", ArrayView::of(large, {65, 3})).ok());
  ASSERT_TRUE(wide.input("z", ArrayView::of(large, {65, 3})).ok());
  EXPECT_FALSE(wide.run().ok());
  EXPECT_TRUE(tenon::failure_text().starts_with("T0608")) << tenon::failure_text();
  bind(&b);
  ASSERT_TRUE(b.run().ok()) << tenon::failure_text();
  expect_right(&b);
}

TEST_P(SessionTest, CancelledRunsStopAndTheNextIsRight) {
  tenon::Program program;
  ASSERT_TRUE(compile(GetParam(), &program)) << tenon::failure_text();
  tenon::Binding b;
  ASSERT_TRUE(program.bind(&b).ok());
  bind(&b);
  session.api().cancel(session.api().self, 1);
  EXPECT_EQ(b.run().code(), TENON_CANCELLED);
  session.api().cancel(session.api().self, 0);
  ASSERT_TRUE(b.run().ok()) << tenon::failure_text();
  expect_right(&b);
}

TEST_P(SessionTest, ProfileNamesTheDevice) {
  tenon::Program program;
  ASSERT_TRUE(compile(GetParam(), &program)) << tenon::failure_text();
  tenon::Binding b;
  ASSERT_TRUE(program.bind(&b).ok());
  bind(&b);
  ASSERT_EQ(session.api().profile_enable(session.api().self, b.get(), 1), TENON_OK);
  ASSERT_TRUE(b.run().ok()) << tenon::failure_text();
  std::string text;
  const tenon_sink_t sink = tenon::sink_to(&text);
  ASSERT_EQ(session.api().profile_write(session.api().self, b.get(), TENON_PROFILE_PERFETTO, &sink),
            TENON_OK);
  EXPECT_NE(text.find("\"cat\":\"kernel\""), std::string::npos) << text;
}

#if TENON_WITH_CPU
#define TENON_GENERAL "cpu"
#define TENON_MIXES "null,reference", "null,cpu", "null,sim", "sim,null,cpu"
INSTANTIATE_TEST_SUITE_P(Devices, SessionTest,
                         testing::Values("reference", "cpu", "sim", "null", "null,sim",
                                         "sim,cpu,null"));
#else  // the cpu plugin's toolchain builds sim's kernels
#define TENON_GENERAL "reference"
#define TENON_MIXES "null,reference"
INSTANTIATE_TEST_SUITE_P(Devices, SessionTest,
                         testing::Values("reference", "null", "null,reference"));
#endif

// Graphs that move back and forth between devices: `null` can only add.
std::string random_graph(uint32_t seed, int nodes) {
  std::string text =
      "tenon.tir 1\ngraph @r<n in [1, 64]>(%v0: f32[n, 3], %v1: f32[n, 3]) -> (a: f32[n, 3], b: "
      "f32[n, 3]) {\n";
  const char* const ops[] = {"add", "add", "sub", "max", "min"};
  uint32_t state = seed;
  auto next = [&state](uint32_t n) {
    state = state * 1664525u + 1013904223u;
    return (state >> 8) % n;
  };
  for (int i = 2; i < nodes + 2; ++i) {
    const uint32_t recent = static_cast<uint32_t>(i);
    text += tenon::cat("  %v", i, " = ", ops[next(5)], "(%v", next(recent), ", %v", next(recent),
                       ") : f32[n, 3]\n");
  }
  return text + tenon::cat("  yield %v", nodes + 1, ", %v", nodes, "\n}\n");
}

TEST_F(SessionTest, RandomGraphsOnMixedDevicesEqualTheReference) {
  for (uint32_t seed = 1; seed <= 12; ++seed) {
    tenon::Model random;
    ASSERT_TRUE(session.load_bytes(random_graph(seed, 30), "random.tir", &random).ok())
        << tenon::failure_text();
    std::vector<float> expected[2];
    for (const char* device : {"reference", TENON_MIXES}) {
      tenon::Program program;
      ASSERT_TRUE(random.compile({.device = device}, &program).ok())
          << device << ": " << tenon::failure_text();
      tenon::Binding b;
      ASSERT_TRUE(program.bind(&b).ok());
      for (int run = 0; run < 2; ++run) {
        ASSERT_TRUE(b.input("v0", ArrayView::of(x, {n, 3})).ok()) << tenon::failure_text();
        ASSERT_TRUE(b.input("v1", ArrayView::of(z, {n, 3})).ok());
        ASSERT_TRUE(b.run().ok()) << device << ": " << tenon::failure_text();
        for (int o = 0; o < 2; ++o) {
          ArrayView out;
          ASSERT_TRUE(b.output(o == 0 ? "a" : "b", &out).ok());
          const auto values = out.as<float>();
          if (expected[o].empty()) expected[o].assign(values.begin(), values.end());
          for (size_t i = 0; i < values.size(); ++i)
            ASSERT_FLOAT_EQ(values[i], expected[o][i]) << device << " seed " << seed;
        }
      }
    }
  }
}

TEST_F(SessionTest, TheCallersRoundingChangesNothingAndComesBack) {
  tenon::Program program;
  ASSERT_TRUE(compile("reference", &program)) << tenon::failure_text();
  tenon::Binding b;
  ASSERT_TRUE(program.bind(&b).ok());
  for (float& v : x) v += 1e-7f;
  bind(&b);
  ArrayView y;
  ASSERT_TRUE(b.run().ok());
  ASSERT_TRUE(b.output("y", &y).ok());
  const std::vector<float> nearest(y.as<float>().begin(), y.as<float>().end());
  ASSERT_EQ(std::fesetround(FE_UPWARD), 0);
  const bool ran = b.run().ok();
  EXPECT_EQ(std::fegetround(), FE_UPWARD);
  std::fesetround(FE_TONEAREST);
  ASSERT_TRUE(ran);
  ASSERT_TRUE(b.output("y", &y).ok());
  for (size_t i = 0; i < nearest.size(); ++i) EXPECT_EQ(y.as<float>()[i], nearest[i]);
}

TEST_F(SessionTest, PlacementShowsWhichDeviceTookWhat) {
  tenon::Program program;
  ASSERT_TRUE(compile("null", &program)) << tenon::failure_text();
  std::string json, line;
  ASSERT_TRUE(program.placement(&json).ok());
  EXPECT_NE(json.find("\"schema\":1"), std::string::npos);
  EXPECT_NE(json.find("\"device\":\"null\",\"code\":12"), std::string::npos) << json;
  ASSERT_TRUE(program.summary(&line).ok());
  EXPECT_TRUE(line.starts_with("2 of 3 nodes on " TENON_GENERAL ": exp, mul")) << line;
  tenon::Program refused;
  EXPECT_FALSE(compile("null", &refused, true));
  EXPECT_TRUE(tenon::failure_text().starts_with("T0504")) << tenon::failure_text();
  EXPECT_NE(tenon::failure_text().find("exp("), std::string::npos) << tenon::failure_text();
}

// Also if one other device took everything, and if it was not named first.
TEST_F(SessionTest, ANamedDeviceThatTakesNothingIsReported) {
  tenon::Model exponents;
  ASSERT_TRUE(session
                  .load_bytes("tenon.tir 1\ngraph @g(%x: f32[3]) -> (y: f32[3]) {\n"
                              "  %y = exp(%x) : f32[3]\n  yield %y\n}\n",
                              "exp.tir", &exponents)
                  .ok())
      << tenon::failure_text();
  for (const char* device : {"null", "reference,null"}) {
    tenon::Program program;
    std::string line;
    ASSERT_TRUE(exponents.compile({.device = device}, &program).ok()) << tenon::failure_text();
    ASSERT_TRUE(program.summary(&line).ok());
    EXPECT_TRUE(line.starts_with("null takes none of 1 nodes: exp: ")) << line;
  }
  tenon::Program program;
  std::string line;
  ASSERT_TRUE(exponents.compile({.device = "reference"}, &program).ok()) << tenon::failure_text();
  ASSERT_TRUE(program.summary(&line).ok());
  EXPECT_EQ(line, "");
}

TEST_F(SessionTest, UnknownDevicesAreErrorsThatListTheKnown) {
  tenon::Program program;
  EXPECT_EQ(model.compile({.device = TENON_GENERAL "u"}, &program).code(), TENON_NOT_FOUND);
  EXPECT_NE(tenon::failure_text().find("did you mean `" TENON_GENERAL "`"), std::string::npos)
      << tenon::failure_text();
  EXPECT_NE(tenon::failure_text().find("reference"), std::string::npos);
  EXPECT_EQ(model.compile({.device = "reference:7"}, &program).code(), TENON_NOT_FOUND);
  EXPECT_EQ(model.compile({.device = "reference:x"}, &program).code(), TENON_INVALID_ARGUMENT);
}

TEST_F(SessionTest, DumpsAndExplanations) {
  tenon::Program program;
  ASSERT_TRUE(compile("null", &program)) << tenon::failure_text();
  std::string text;
  ASSERT_TRUE(program.dump("graph", &text).ok()) << tenon::failure_text();
  EXPECT_NE(text.find("add("), std::string::npos);
  text.clear();
  ASSERT_TRUE(program.dump("partition", &text).ok());
  EXPECT_NE(text.find("// segment 1 on " TENON_GENERAL ": 2 nodes"), std::string::npos) << text;
  EXPECT_EQ(program.dump("nothing", &text).code(), TENON_NOT_FOUND);
  EXPECT_TRUE(tenon::failure_text().starts_with("T0508"));
  for (const char* what :
       {"plugins", "devices", "ops", "passes", "frontends", "settings", "errors"}) {
    text.clear();
    const tenon_sink_t sink = tenon::sink_to(&text);
    EXPECT_EQ(session.api().explain(session.api().self, tenon::str(what), {}, &sink), TENON_OK)
        << tenon::failure_text();
    EXPECT_NE(text.find(std::string("\"") + what + "\""), std::string::npos) << text;
  }
  const tenon_sink_t sink = tenon::sink_to(&text);
  EXPECT_EQ(session.api().explain(session.api().self, tenon::str("devicess"), {}, &sink),
            TENON_NOT_FOUND);
}

// If a record's size was forgotten, it would be read as empty: another device, other settings.
TEST_F(SessionTest, RecordsThatDoNotSayTheirSizeAreRefused) {
  const tenon_host_session_t& api = session.api();
  tenon_session_options_t options{};
  options.device = tenon::str("null");
  options.no_fallback = 1;
  tenon_program_t* made = nullptr;
  EXPECT_EQ(api.compile(api.self, model.get(), &options, &made), TENON_INVALID_ARGUMENT);
  EXPECT_TRUE(tenon::failure_text().starts_with("T0616")) << tenon::failure_text();
  EXPECT_EQ(made, nullptr);
  tenon::Program program;
  ASSERT_TRUE(compile("reference", &program)) << tenon::failure_text();
  tenon::Binding b;
  ASSERT_TRUE(program.bind(&b).ok());
  tenon_array_t array{};
  EXPECT_EQ(api.bind_input(api.self, b.get(), tenon::str("x"), &array), TENON_INVALID_ARGUMENT);
  EXPECT_TRUE(tenon::failure_text().starts_with("T0616")) << tenon::failure_text();
  tenon_file_tensor_t tensor{};
  EXPECT_EQ(api.tensor_write(api.self, tenon::str("/nonexistent/t.npy"), &tensor),
            TENON_INVALID_ARGUMENT);
  EXPECT_TRUE(tenon::failure_text().starts_with("T0616")) << tenon::failure_text();
  // Null options mean the defaults.
  ASSERT_EQ(api.compile(api.self, model.get(), nullptr, &made), TENON_OK) << tenon::failure_text();
  api.program_release(api.self, made);
}

TEST_F(SessionTest, PackedInputsAreBoundAndOutputsOutliveThem) {
  tenon::Model packed;
  ASSERT_TRUE(session
                  .load_bytes("tenon.tir 1\ngraph @g(%x: i4[5]) -> (y: i4[5]) {\n  yield %x\n}\n",
                              "i4.tir", &packed)
                  .ok())
      << tenon::failure_text();
  tenon::Program program;
  ASSERT_TRUE(packed.compile({.device = "reference"}, &program).ok()) << tenon::failure_text();
  tenon::Binding b;
  ASSERT_TRUE(program.bind(&b).ok());
  std::vector<uint8_t> first = {0x21, 0x43, 0x05}, second = {0, 0, 0};
  ASSERT_TRUE(b.input("x", {TENON_I4, {5}, first.data()}).ok()) << tenon::failure_text();
  ASSERT_TRUE(b.run().ok()) << tenon::failure_text();
  ArrayView y;
  ASSERT_TRUE(b.output("y", &y).ok());
  // From here on the first array is no longer borrowed.
  ASSERT_TRUE(b.input("x", {TENON_I4, {5}, second.data()}).ok());
  first.assign(3, 0);
  const auto* bytes = static_cast<const uint8_t*>(y.data);
  EXPECT_EQ((std::vector<uint8_t>(bytes, bytes + 3)), (std::vector<uint8_t>{0x21, 0x43, 0x05}));
  // The product of the dims overflows: the host refuses it, and nothing computes strides first.
  EXPECT_FALSE(b.input("x", {TENON_I4, {INT64_MAX, INT64_MAX}, second.data()}).ok());
}

// ---- Memory that counts against TENON_MEMORY_LIMIT ----

const tenon_host_memory_t& memory() {
  static const auto* table = tenon::context().query<tenon_host_memory_t>(TENON_HOST_MEMORY_ID);
  return *table;
}
constexpr uint64_t kLimit = uint64_t{1} << 62;  // the default

uint64_t memory_in_use() {
  EXPECT_NE(memory().reserve(memory().self, kLimit + 1, tenon::str("a test")), TENON_OK);
  const std::string text = tenon::failure_text();
  const size_t at = text.find("; ");
  return at == std::string::npos ? UINT64_MAX : std::stoull(text.substr(at + 2));
}
// Leaves room for this many bytes.
class Full {
 public:
  explicit Full(uint64_t room) : bytes_(kLimit - memory_in_use() - room) {
    EXPECT_EQ(memory().reserve(memory().self, bytes_, tenon::str("a test")), TENON_OK);
  }
  ~Full() { memory().give_back(memory().self, bytes_); }
  Full(const Full&) = delete;

 private:
  uint64_t bytes_;
};

constexpr std::string_view kSum = R"(tenon.tir 1
graph @g(%x: f32[2], %z: f32[2]) -> (y: f32[2]) {
  %y = add(%x, %z) : f32[2]
  yield %y
}
)";

constexpr std::string_view kSort = R"(tenon.tir 1
graph @g(%x: f32[1000], %i: i32[1000]) -> (a: f32[1000], b: i32[1000]) {
  %a, %b = sort(%x, %i) : f32[1000], i32[1000]
  yield %a, %b
}
)";

// Records of a plugin that was built later: longer, with garbage after what this host knows.
TEST_F(SessionTest, ArraysAreWalkedByTheSizeOfTheirRecords) {
  struct Later {
    tenon_array_t known;
    uint64_t more[3] = {~0ull, ~0ull, ~0ull};
  };
  tenon::Model sum;
  ASSERT_TRUE(session.load_bytes(kSum, "sum.tir", &sum).ok()) << tenon::failure_text();
  tenon_graph_t* graph = nullptr;
  ASSERT_EQ(session.api().model_graph(session.api().self, sum.get(), &graph), TENON_OK);
  const auto& registry = *tenon::context().query<tenon_host_registry_t>(TENON_HOST_REGISTRY_ID);
  const float a[] = {1, 2}, b[] = {10, 20};
  const int64_t dims[] = {2};
  Later inputs[2], output;
  for (Later* later : {&inputs[0], &inputs[1], &output}) {
    later->known = {sizeof(Later), TENON_F32, 0, 1, 0, nullptr, dims, nullptr};
  }
  float sums[2] = {};
  inputs[0].known.data = const_cast<float*>(a);
  inputs[1].known.data = const_cast<float*>(b);
  output.known.data = sums;
  ASSERT_EQ(
      registry.evaluate(registry.self, graph, 0, nullptr, 0, &inputs[0].known, 2, &output.known, 1),
      TENON_OK)
      << tenon::failure_text();
  EXPECT_EQ(sums[0], 11);
  EXPECT_EQ(sums[1], 22);
  EXPECT_EQ(output.more[0], ~0ull);
  inputs[0].known.size_bytes = 0;
  EXPECT_EQ(
      registry.evaluate(registry.self, graph, 0, nullptr, 0, &inputs[0].known, 2, &output.known, 1),
      TENON_INVALID_ARGUMENT);
  EXPECT_TRUE(tenon::failure_text().starts_with("T0671")) << tenon::failure_text();
  tenon::context().graph->release(tenon::context().graph->self, graph);
}

TEST_F(SessionTest, AnEvaluationThatFailsAtItsSecondOutputKeepsNothing) {
  tenon::Model sort;
  ASSERT_TRUE(session.load_bytes(kSort, "sort.tir", &sort).ok()) << tenon::failure_text();
  tenon_graph_t* graph = nullptr;
  ASSERT_EQ(session.api().model_graph(session.api().self, sort.get(), &graph), TENON_OK);
  const auto& registry = *tenon::context().query<tenon_host_registry_t>(TENON_HOST_REGISTRY_ID);
  std::vector<float> keys(1000, 1);
  std::vector<int32_t> values(1000, 2);
  const int64_t dims[1] = {1000}, strides[1] = {4};
  const tenon_array_t inputs[2] = {
      {sizeof(tenon_array_t), TENON_F32, 0, 1, 0, keys.data(), dims, strides},
      {sizeof(tenon_array_t), TENON_I32, 0, 1, 0, values.data(), dims, strides}};
  tenon_array_t outputs[2] = {tenon::sized<tenon_array_t>(), tenon::sized<tenon_array_t>()};
  const auto evaluate = [&] {
    return registry.evaluate(registry.self, graph, 0, nullptr, 0, inputs, 2, outputs, 2);
  };
  const uint64_t before = memory_in_use();
  {
    const Full full(6000);
    EXPECT_EQ(evaluate(), TENON_RESOURCE_EXHAUSTED);
    EXPECT_TRUE(tenon::failure_text().find("T0609") != std::string::npos) << tenon::failure_text();
  }
  for (const tenon_array_t& output : outputs) EXPECT_EQ(output.data, nullptr);
  EXPECT_EQ(memory_in_use(), before);
  ASSERT_EQ(evaluate(), TENON_OK) << tenon::failure_text();
  EXPECT_EQ(memory_in_use(), before + 8000);
  for (tenon_array_t& output : outputs) registry.array_free(registry.self, &output);
  EXPECT_EQ(memory_in_use(), before);
  tenon::context().graph->release(tenon::context().graph->self, graph);
}

TEST_F(SessionTest, ConstantsOfADeviceOfSingleKernelsAreCounted) {
  std::string text =
      "tenon.tir 1\ngraph @g(%x: f32[64]) -> (y: f32[64]) {\n  %w = const f32[64] [0";
  for (int i = 1; i < 64; ++i) text += tenon::cat(", ", i);
  text += "]\n  %y = add(%x, %w) : f32[64]\n  yield %y\n}\n";
  tenon::Model constants;
  ASSERT_TRUE(session.load_bytes(text, "constants.tir", &constants).ok()) << tenon::failure_text();
  const uint64_t before = memory_in_use();
  tenon::Program program;
  {
    const Full full(255);
    EXPECT_EQ(constants.compile({.device = "null", .no_fallback = true}, &program).code(),
              TENON_RESOURCE_EXHAUSTED);
    EXPECT_NE(tenon::failure_text().find("T0609"), std::string::npos) << tenon::failure_text();
  }
  EXPECT_EQ(memory_in_use(), before);
  ASSERT_TRUE(constants.compile({.device = "null", .no_fallback = true}, &program).ok())
      << tenon::failure_text();
  EXPECT_EQ(memory_in_use(), before + 256);
  tenon_program_info_t info;
  ASSERT_TRUE(program.info(&info).ok());
  EXPECT_EQ(info.constant_bytes, 256u);
  program = tenon::Program();
  EXPECT_EQ(memory_in_use(), before);
}

// ---- Slots that plugins of this tree have no use for ----

template <class Table>
const Table& host_table(std::string_view id) {
  const auto* table = tenon::context().query<Table>(id);
  EXPECT_NE(table, nullptr) << id;
  return *table;
}

TEST_F(SessionTest, NamesAndLocationsOfGraphs) {
  const auto& g = *tenon::context().graph;
  tenon_graph_t *graph = nullptr, *copy = nullptr;
  ASSERT_EQ(session.api().model_graph(session.api().self, model.get(), &graph), TENON_OK);
  ASSERT_EQ(g.clone(g.self, graph, &copy), TENON_OK);
  auto main = tenon::sized<tenon_region_view_t>();
  ASSERT_EQ(g.region_view(g.self, copy, 0, &main), TENON_OK);
  const tenon_value_t first = main.arguments[0];
  EXPECT_EQ(g.value_name(g.self, graph, first, tenon::str("w")), TENON_FAILED_PRECONDITION);
  ASSERT_EQ(g.value_name(g.self, copy, first, tenon::str("w")), TENON_OK);
  auto value = tenon::sized<tenon_value_view_t>();
  ASSERT_EQ(g.value_view(g.self, copy, first, &value), TENON_OK);
  EXPECT_EQ(tenon::sym_text(value.name), "w");
  tenon_loc_t locs[2] = {}, both = 0;
  ASSERT_EQ(g.loc_make(g.self, copy, tenon::str("a.py"), tenon::str("dot"), 7, &locs[0]), TENON_OK);
  ASSERT_EQ(g.loc_make(g.self, copy, tenon::str("a.py"), tenon::str("add"), 8, &locs[1]), TENON_OK);
  ASSERT_EQ(g.loc_fuse(g.self, copy, locs, 2, &both), TENON_OK);
  std::string text;
  const tenon_sink_t sink = tenon::sink_to(&text);
  ASSERT_EQ(g.loc_text(g.self, copy, both, &sink), TENON_OK);
  EXPECT_NE(text.find("dot"), std::string::npos) << text;
  EXPECT_NE(text.find("add"), std::string::npos) << text;
  // A form is that of the structure: names are not part of it.
  const auto& form = host_table<tenon_host_form_t>(TENON_HOST_FORM_ID);
  uint64_t before[2] = {}, after[2] = {1, 1};
  ASSERT_EQ(form.hash(form.self, graph, 16, before), TENON_OK);
  ASSERT_EQ(form.hash(form.self, copy, 16, after), TENON_OK);
  EXPECT_TRUE(before[0] == after[0] && before[1] == after[1]);
  g.release(g.self, copy);
  g.release(g.self, graph);
}

TEST_F(SessionTest, ScratchFilesAndWatchersOfTheCache) {
  const auto& cache = host_table<tenon_host_cache_t>(TENON_HOST_CACHE_ID);
  const auto& inspect = host_table<tenon_host_inspect_t>(TENON_HOST_INSPECT_ID);
  std::string path;
  const tenon_sink_t to_path = tenon::sink_to(&path);
  ASSERT_EQ(cache.scratch_path(cache.self, tenon::str("code.so"), &to_path), TENON_OK)
      << tenon::failure_text();
  EXPECT_TRUE(path.ends_with("/code.so")) << path;
  // A sink without a size, and one without a function.
  tenon_cache_lookup_sink_t bad = {};
  EXPECT_EQ(inspect.cache_watch(inspect.self, &bad), TENON_INVALID_ARGUMENT);
  bad.size_bytes = sizeof bad;
  EXPECT_EQ(inspect.cache_watch(inspect.self, &bad), TENON_INVALID_ARGUMENT);
}

TEST_F(SessionTest, TypesWithALayoutAreRefused) {
  const auto& g = *tenon::context().graph;
  tenon_graph_t* graph = nullptr;
  ASSERT_EQ(g.create(g.self, tenon::str("g"), &graph), TENON_OK);
  const int64_t dims[] = {2};
  tenon_type_t type = {
      TENON_F32, TENON_KIND_TENSOR, 1, dims, 0, 0, reinterpret_cast<const tenon_layout_t*>(&dims)};
  tenon_value_t value = 0;
  EXPECT_EQ(g.argument_add(g.self, graph, 0, &type, tenon::str("x"), &value), TENON_UNIMPLEMENTED);
  EXPECT_TRUE(tenon::failure_text().starts_with("T0670")) << tenon::failure_text();
  type.layout = nullptr;
  EXPECT_EQ(g.argument_add(g.self, graph, 0, &type, tenon::str("x"), &value), TENON_OK);
  g.release(g.self, graph);
}

TEST_F(SessionTest, GarbageIsRefused) {
  tenon::Model bad;
  EXPECT_FALSE(session.load_bytes("tenon.tir 1\ngraph @g(%x: f32[2", "bad.tir", &bad).ok());
  EXPECT_FALSE(session.load_bytes("", "empty.tir", &bad).ok());
  EXPECT_FALSE(session.load_bytes("abc", "x.unknown", &bad).ok());
  EXPECT_TRUE(tenon::failure_text().starts_with("T079")) << tenon::failure_text();
  EXPECT_FALSE(session.load("/nonexistent/m.onnx", &bad).ok());
  EXPECT_TRUE(tenon::failure_text().starts_with("T0101")) << tenon::failure_text();
}

}  // namespace
