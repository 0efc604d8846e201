// Unit tests of the small parts of core/base.
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <cstdio>
#include <set>
#include <stdexcept>
#include <thread>

#include "core/base/checked.h"
#include "core/base/errors/error_codes.h"
#include "core/base/errors/guard.h"
#include "core/base/errors/status.h"
#include "core/base/intern.h"
#include "core/base/limits.h"
#include "core/base/process/activity.h"
#include "core/base/process/environment.h"
#include "core/base/process/log.h"
#include "core/base/process/operation.h"
#include "core/base/process/signal_mask.h"
#include "core/base/str.h"

namespace tenon {
namespace {

Status fail() {
  return error(TENON_INVALID_ARGUMENT, "T0110", "value {} is wrong", 7);
}
Status pass_on() {
  TENON_RETURN_IF_ERROR(fail(), "reading {}", "x.onnx");
  return Status();
}
Result<int> number(bool good) {
  if (!good) return fail();
  return 42;
}
Result<std::string> use(bool good) {
  TENON_ASSIGN_OR_RETURN(int n, number(good), "asking for a number");
  TENON_ASSIGN_OR_RETURN(const int m, number(good));
  return std::to_string(n + m);
}

TEST(Status, TextHasCodeMessageAndContext) {
  EXPECT_TRUE(Status().ok());
  Status status = pass_on();
  EXPECT_EQ(status.code(), TENON_INVALID_ARGUMENT);
  EXPECT_EQ(status.text(), "T0110: value 7 is wrong (while reading x.onnx)");
  status.add_context("running").add("limit", "7");
  EXPECT_EQ(status.text(), "T0110: value 7 is wrong (while running; while reading x.onnx)");
  EXPECT_EQ(status.evidence_value("limit"), "7");
  EXPECT_NE(status.text_with_advice().find("\n  "), std::string::npos);
}

TEST(Status, ResultCarriesValueOrFailure) {
  EXPECT_EQ(use(true).value(), "84");
  Result<std::string> bad = use(false);
  EXPECT_FALSE(bad.ok());
  EXPECT_EQ(bad.status().text(), "T0110: value 7 is wrong (while asking for a number)");
  Result<std::unique_ptr<int>> moved = std::make_unique<int>(3);
  EXPECT_EQ(*std::move(moved).value(), 3);
  EXPECT_DEATH((void)number(false).value(), "value.. of a failed Result: T0110");
}

// std::bad_alloc was caught but no other exception was stopped at the C ABI, and a detail with a
// false size ended the process.
TEST(Guard, EveryExceptionBecomesACode) {
  EXPECT_EQ(guarded([]() -> tenon_code_t { throw std::length_error("vector"); }),
            TENON_RESOURCE_EXHAUSTED);
  EXPECT_EQ(last_failure().error_code(), "T0111");
  EXPECT_EQ(guarded([]() -> Status { throw std::bad_alloc(); }), TENON_RESOURCE_EXHAUSTED);
  EXPECT_EQ(guarded([]() -> Status { throw std::runtime_error("out of ink"); }), TENON_INTERNAL);
  EXPECT_NE(last_failure().text().find("T0003: an exception ended the call: out of ink"),
            std::string::npos);
  EXPECT_EQ(guarded([]() -> Status { throw 7; }), TENON_INTERNAL);
  EXPECT_EQ(guarded_or(5u, []() -> unsigned { throw 7; }), 5u);
  guarded_void([] { throw 7; });
  record_failure(TENON_UNAVAILABLE, "P0801: as it was", {});
  EXPECT_EQ(guarded([] { return Status(); }),
            TENON_OK);  // leaves a failure that a plugin is returning
  EXPECT_EQ(last_failure().error_code(), "P0801");
  std::string text;
  const tenon_sink_t sink = sink_into(text);
  EXPECT_EQ(sink.write(sink.self, "abc", 3), TENON_OK);
  EXPECT_EQ(sink.write(sink.self, "abc", UINT64_MAX), TENON_RESOURCE_EXHAUSTED);
  EXPECT_EQ(text, "abc");
}

// A manifest of a plugin that never ran could get its own command run by a user who followed the
// advice.
TEST(Str, WordsForAShell) {
  EXPECT_EQ(shell_quoted("/usr/lib/x-1.so"), "/usr/lib/x-1.so");
  EXPECT_EQ(shell_quoted(""), "''");
  EXPECT_EQ(shell_quoted("a b; touch PWNED #"), "'a b; touch PWNED #'");
  EXPECT_EQ(shell_quoted("$(touch x)`y`"), "'$(touch x)`y`'");
  EXPECT_EQ(shell_quoted("it's"), "'it'\\''s'");
  EXPECT_EQ(shell_quoted("a\n'\\\x1b\xff"), "$'a\\x0a\\'\\\\\\x1b\\xff'");
}

// A fault on a thread of the library ended the process without the program's crash handler.
TEST(SignalMask, OwnThreadsTakeFaultsAndNothingElse) {
  sigset_t seen;
  {
    const SignalsBlocked blocked;
    std::thread([&] { pthread_sigmask(SIG_BLOCK, nullptr, &seen); }).join();
  }
  for (int open : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGPROF})
    EXPECT_EQ(sigismember(&seen, open), 0) << open;
  for (int shut : {SIGINT, SIGTERM, SIGCHLD, SIGUSR1, SIGALRM})
    EXPECT_EQ(sigismember(&seen, shut), 1) << shut;
  sigset_t after;
  pthread_sigmask(SIG_BLOCK, nullptr, &after);
  EXPECT_EQ(sigismember(&after, SIGINT), 0);
}

TEST(Failure, DetailsThatLieAboutTheirSizeAreCut) {
  const std::string long_text(10000, 'x');
  const tenon_key_value_t details[] = {{to_abi_str("a"), {"b", UINT64_MAX}},
                                       {{"k", UINT64_MAX}, to_abi_str("v")},
                                       {to_abi_str("l"), to_abi_str(long_text)}};
  record_failure(TENON_INTERNAL, "P0801: no", details);
  EXPECT_EQ(last_failure().evidence_value("a"),
            "(a text that claims to have 18446744073709551615 bytes)");
  EXPECT_EQ(last_failure().evidence_value("l").size(), 4096u);
  record_failure(TENON_INTERNAL, std::string_view("x", SIZE_MAX / 2), {});
  EXPECT_NE(last_failure().message().find("claims to have"), std::string_view::npos);
}

TEST(Failure, CrossesTheBorder) {
  tenon_key_value_t pair = {to_abi_str("device"), to_abi_str("null:0")};
  record_failure(TENON_UNAVAILABLE, "P0601: no card\x1b[0m", {&pair, 1});
  Status status = from_abi(TENON_UNAVAILABLE, "plugin `null`: open");
  EXPECT_EQ(status.text(), "P0601: no card\\x1b[0m");
  EXPECT_EQ(status.evidence_value("device"), "null:0");
  EXPECT_EQ(from_abi(TENON_UNAVAILABLE, "plugin `null`: open").text(),
            "T0002: plugin `null`: open failed with UNAVAILABLE and gave no reason");
  EXPECT_EQ(to_abi(fail()), TENON_INVALID_ARGUMENT);
  EXPECT_EQ(from_abi(TENON_OK, "").ok(), true);
}

TEST(ErrorCodes, UniqueAndComplete) {
  std::set<std::string_view> seen;
  for (const ErrorEntry& entry : error_entries()) {
    EXPECT_EQ(entry.id.size(), 5u) << entry.id;
    EXPECT_TRUE(seen.insert(entry.id).second) << entry.id;
    EXPECT_FALSE(entry.title.empty() || entry.explanation.empty() || entry.what_to_do.empty())
        << entry.id;
  }
  EXPECT_NE(find_error_entry("t0102"), nullptr);
  EXPECT_EQ(find_error_entry("T9999"), nullptr);
}

TEST(Str, QuotedIsSafeToShow) {
  EXPECT_EQ(quoted("a\n\x1b[31m\xff\x7f"), "`a\\n\\x1b[31m\\xff\\x7f`");
  EXPECT_EQ(quoted("z\xc3\xbc"), "`z\xc3\xbc`");
  EXPECT_EQ(quoted("\xc2\x9b"), "`\\u009b`");
  std::string cut = quoted(std::string(1000, 'x'));
  EXPECT_EQ(cut, "`" + std::string(256, 'x') + "...`");
  std::string wide;
  for (int i = 0; i < 200; ++i) wide += "\xe2\x82\xac";
  EXPECT_TRUE(is_valid_utf8(quoted(wide)));
  EXPECT_FALSE(is_valid_utf8("\xed\xa0\x80"));
  EXPECT_FALSE(is_valid_utf8("\xc0\x80"));
  EXPECT_EQ(json_quoted("a\"\\\n\x01\xff"), "\"a\\\"\\\\\\n\\u0001\xEF\xBF\xBD\"");
}

TEST(Str, Globs) {
  EXPECT_TRUE(glob_match("cpu", "CPU"));
  EXPECT_TRUE(glob_match("o*cl", "opencl"));
  EXPECT_TRUE(glob_match("*", ""));
  EXPECT_TRUE(glob_match("sim[0-9]", "sim3"));
  EXPECT_FALSE(glob_match("sim[!0-9]", "sim3"));
  EXPECT_FALSE(glob_match("cp", "cpu"));
  EXPECT_TRUE(glob_match("c?u", "cpu"));
  EXPECT_TRUE(glob_match("[", "["));
  std::string many(200, 'a');
  EXPECT_FALSE(glob_match("*a*a*a*a*a*a*a*a*b", many));
}

TEST(Str, SuggestionsAndNumbers) {
  std::vector<std::string> names = {"fold", "canonicalize", "cse"};
  EXPECT_EQ(did_you_mean("canonicalise", std::span<const std::string>(names)),
            "; did you mean `canonicalize`?");
  EXPECT_EQ(did_you_mean("zzzzzz", std::span<const std::string>(names)), "");
  uint64_t value = 0;
  EXPECT_TRUE(parse_u64(" 2g ", &value));
  EXPECT_EQ(value, uint64_t{2} << 30);
  EXPECT_FALSE(parse_u64("-1", &value));
  EXPECT_FALSE(parse_u64("99999999999999999999", &value));
  EXPECT_FALSE(parse_u64("99999999999g", &value));
  EXPECT_EQ(split(" a,, b ,", ',').size(), 2u);
}

TEST(Checked, Sizes) {
  std::vector<int64_t> huge = {int64_t{1} << 32, int64_t{1} << 32};
  EXPECT_EQ(element_count(huge).status().error_code(), "T0110");
  std::vector<int64_t> zero = {int64_t{1} << 62, 0, int64_t{1} << 62};
  EXPECT_EQ(element_count(zero).value(), 0u);
  EXPECT_FALSE(element_count(std::vector<int64_t>{-4}).ok());
  EXPECT_EQ(packed_bytes(3, 4).value(), 2u);
  EXPECT_FALSE(packed_bytes(UINT64_MAX, 8).ok());
  EXPECT_TRUE(range_inside(8, 0, 8));
  EXPECT_FALSE(range_inside(UINT64_MAX, 8, 8));
}

TEST(Limits, NamedInTheError) {
  set_limit(Limit::kDepth, 4);
  Status status = check_limit(Limit::kDepth, 5, "model `x`");
  EXPECT_EQ(status.text(),
            "T0102: model `x` asks for 5 levels of nesting, and the limit is 4 (set by "
            "TENON_LIMIT_DEPTH)");
  EXPECT_EQ(status.code(), TENON_RESOURCE_EXHAUSTED);
  set_limit(Limit::kDepth, 64);
}

TEST(Intern, ManyThreadsAgree) {
  constexpr int kNames = 20000, kThreads = 4;
  std::vector<tenon_sym_t> seen[kThreads];
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&seen, t] {
      for (int i = 0; i < kNames; ++i) seen[t].push_back(intern("name" + std::to_string(i)));
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int t = 1; t < kThreads; ++t) EXPECT_EQ(seen[0], seen[t]);
  EXPECT_EQ(std::set<tenon_sym_t>(seen[0].begin(), seen[0].end()).size(), size_t{kNames});
  EXPECT_EQ(sym_text(seen[0][777]), "name777");
  EXPECT_EQ(intern(""), 0u);
  EXPECT_EQ(sym_text(0), "");
  EXPECT_EQ(sym_text(UINT32_MAX), "");
  EXPECT_EQ(find_interned("never said"), 0u);
}

TEST(Environment, UnknownVariablesAreNamed) {
  setenv("TENON_NUM_THREAD", "2", 1);
  setenv("TENON_SPECIAL", "2", 1);
  std::vector<std::string> more = {"TENON_SPECIAL"};
  EXPECT_EQ(unknown_variables(more), std::vector<std::string>{"TENON_NUM_THREAD"});
  unsetenv("TENON_NUM_THREAD");
  unsetenv("TENON_SPECIAL");
  setenv("TENON_PLUGIN_STRICT", "on", 1);
  EXPECT_TRUE(env_flag("TENON_PLUGIN_STRICT", false));
  unsetenv("TENON_PLUGIN_STRICT");
  EXPECT_FALSE(env_flag("TENON_PLUGIN_STRICT", false));
}

// Runs this program again as a setuid copy: a privileged process must ignore its user's variables.
TEST(Environment, IgnoredWhenPrivileged) {
  if (getenv("TENON_TEST_INNER") != nullptr) {
    std::printf("privileged %d, sees %d\n", is_privileged_process(),
                env("TENON_TEST_INNER").has_value());
    return;
  }
  if (geteuid() != 0) GTEST_SKIP() << "only root can make a program setuid to another user";
  std::string command =
      "d=$(mktemp -d) && cp /proc/" + std::to_string(getpid()) +
      "/exe $d/t && chown 65534 $d/t && chmod 4755 $d/t && chmod 755 $d && "
      "TENON_TEST_INNER=1 $d/t --gtest_filter=Environment.IgnoredWhenPrivileged; rm -rf $d";
  FILE* child = popen(command.c_str(), "r");
  ASSERT_NE(child, nullptr);
  std::string output;
  char buffer[512];
  while (fgets(buffer, sizeof(buffer), child) != nullptr) output += buffer;
  pclose(child);
  if (output.find("privileged 0") != std::string::npos)
    GTEST_SKIP() << "this file system ignores the setuid bit";
  EXPECT_NE(output.find("privileged 1, sees 0"), std::string::npos) << output;
}

struct Captured {
  std::vector<std::string> lines;
  Captured() {
    set_log_receiver(
        [](void* self, std::string_view component, LogLevel, std::string_view text) {
          static_cast<Captured*>(self)->lines.push_back(std::string(component) + ": " +
                                                        std::string(text));
        },
        this);
  }
  ~Captured() {
    set_log_receiver(nullptr, nullptr);
    set_logs("");
  }
};

TEST(Log, ChosenByComponent) {
  Captured captured;
  set_logs("+codegen,-dispatch,plugns");
  log_detail("codegen", "a {}", 1);
  log_detail("ir", "b");
  log_warning("dispatch", "c");
  log_error("dispatch", "d\x1b");
  EXPECT_EQ(captured.lines, (std::vector<std::string>{"codegen: a 1", "dispatch: d\\x1b"}));
  captured.lines.clear();
  warn_unknown_log_names({});
  warn_unknown_log_names({});
  ASSERT_EQ(captured.lines.size(), 1u);
  EXPECT_NE(captured.lines[0].find("`plugns`, which is not a component; did you mean `plugins`?"),
            std::string::npos);
}

TEST(Log, CheckAborts) {
  EXPECT_DEATH(TENON_CHECK(1 == 2, "x is {}", 3),
               "check failed at base_test.cpp:[0-9]+: 1 == 2: x is 3");
}

TEST(Operation, CancelIsSeen) {
  Operation operation;
  EXPECT_FALSE(cancelled());
  OperationScope scope(&operation);
  operation.cancel_requested = true;
  EXPECT_EQ(check_cancelled().error_code(), "T0001");
}

}  // namespace
TEST(ActivityTest, TheInnermostIsDescribedAndCut) {
  char text[64];
  EXPECT_EQ(Activity::current(), nullptr);
  const Activity outer("the pass", "first", nullptr);
  {
    const Activity inner("a run on device", "x\x1b[2J", nullptr);
    EXPECT_EQ(Activity::current()->describe(text, sizeof text), 23u);
    EXPECT_STREQ(text, "a run on device `x?[2J`");
    EXPECT_EQ(Activity::current()->describe(text, 6), 5u);
    EXPECT_STREQ(text, "a run");
    EXPECT_EQ(Activity::current()->describe(text, 0), 0u);
  }
  EXPECT_EQ(Activity::current(), &outer);
  EXPECT_FALSE(outer.save().ok());
  std::thread([] { EXPECT_NE(Activity::current(), nullptr); }).join();  // works for another
}

// Each thread sees its own; what a thread that has ended noted is gone.
TEST(ActivityTest, ThreadsNoteApart) {
  const auto note = [](const char* name) {
    for (int i = 0; i < 1000; ++i) {
      const Activity outer("the pass", name, nullptr);
      const Activity inner("a run on device", name, nullptr);
      ASSERT_EQ(Activity::current(), &inner);
    }
  };
  for (int round = 0; round < 3; ++round) {  // later threads take the notes of earlier ones
    std::vector<std::thread> threads;
    for (const char* name : {"a", "b", "c", "d"}) threads.emplace_back(note, name);
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(Activity::current(), nullptr);
  }
}

}  // namespace tenon
