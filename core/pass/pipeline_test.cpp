#include "core/pass/pipeline.h"

#include <gtest/gtest.h>

#include "core/base/errors/failure.h"
#include "core/pass/registry.h"

namespace tenon::pass {
namespace {

std::string message(std::string_view text) {
  const auto calls = parse_pipeline(text);
  return calls.ok() ? "ok" : std::string(calls.status().message());
}

TEST(Pipeline, NamesAndOptions) {
  const auto calls = parse_pipeline(" a , b{x=1, y=\"two, three\"} ,c{}");
  ASSERT_TRUE(calls.ok());
  ASSERT_EQ(calls->size(), 3u);
  EXPECT_EQ((*calls)[1].name, "b");
  ASSERT_EQ((*calls)[1].options.size(), 2u);
  EXPECT_EQ((*calls)[1].options[0].value, "1");
  EXPECT_EQ((*calls)[1].options[1].value, "two, three");
  EXPECT_EQ((*calls)[1].options[1].column, 13u);
  EXPECT_TRUE((*calls)[2].options.empty());
}

TEST(Pipeline, StandardStandsForThePassesOfTheStandard) {
  const auto calls = parse_pipeline("mine, standard, last"),
             standard = parse_pipeline(kStandardPipeline);
  ASSERT_TRUE(calls.ok());
  ASSERT_EQ(calls->size(), standard->size() + 2);
  EXPECT_EQ((*calls)[0].name, "mine");
  EXPECT_EQ((*calls)[1].name, (*standard)[0].name);
  EXPECT_EQ(calls->back().name, "last");
  EXPECT_EQ(message("standard{x=1}"),
            "`standard` (column 1) is a list of passes and has no options");
}

TEST(Pipeline, EmptyAndNone) {
  EXPECT_TRUE(parse_pipeline("")->empty());
  EXPECT_TRUE(parse_pipeline(" none ")->empty());
}

TEST(Pipeline, ErrorsTellTheColumn) {
  EXPECT_EQ(
      message("a,,b"),
      "the name of a pass is expected at column 3 of the pipeline `a,,b`, where `,` is found");
  EXPECT_EQ(message("a{x}"),
            "`=` is expected at column 4 of the pipeline `a{x}`, where `}` is found");
  EXPECT_EQ(message("a{x="),
            "a value is expected at column 5 of the pipeline `a{x=`, where it ends");
  EXPECT_EQ(message("a{x=1"), "the `{` at column 2 of the pipeline `a{x=1` is never closed");
  EXPECT_EQ(
      message("a b"),
      "`,`, `{` or the end is expected at column 3 of the pipeline `a b`, where `b` is found");
  EXPECT_EQ(message("a{x=1}}"),
            "`,` or the end is expected at column 7 of the pipeline `a{x=1}}`, where `}` is found");
}

constexpr tenon_pass_option_def_t kOptions[] = {
    {{"max_bytes", 9}, {"", 0}, TENON_ATTR_I64, 0, {"64", 2}},
    {{"ratio", 5}, {"", 0}, TENON_ATTR_F64, 0, {"0.5", 3}}};

std::string resolve(std::string_view text) {
  tenon_pass_def_t def = {};
  def.options = kOptions;
  def.option_count = 2;
  std::deque<std::string> texts;
  const auto calls = parse_pipeline(text);
  const auto attrs = resolve_options(def, (*calls)[0], texts);
  if (!attrs.ok()) return attrs.status().text();
  return fmt::format("{} {}", (*attrs)[0].u.i, (*attrs)[1].u.f);
}

TEST(Options, DefaultsAndValues) {
  EXPECT_EQ(resolve("p"), "64 0.5");
  EXPECT_EQ(resolve("p{ratio=2}"), "64 2");
}

TEST(Options, ApplyIsTakenOut) {
  PassCall call = {"a", {{"x", "1", 3}, {"apply", "2-17", 7}}, 1};
  const auto range = take_apply(call);
  ASSERT_TRUE(range.ok());
  EXPECT_EQ(**range, (std::pair<uint64_t, uint64_t>(2, 17)));
  ASSERT_EQ(call.options.size(), 1u);
  EXPECT_EQ(take_apply(call)->has_value(), false);
  for (const char* text : {"", "-", "x", "1-", "-2", "1-2-3", "-1", "1 -2"}) {
    PassCall wrong = {"a", {{"apply", text, 3}}, 1};
    EXPECT_EQ(take_apply(wrong).status().error_code(), "T0404") << text;
  }
  PassCall one = {"a", {{"apply", "5", 3}}, 1};
  EXPECT_EQ(**take_apply(one), (std::pair<uint64_t, uint64_t>(5, 5)));
}

TEST(Options, ErrorsSuggest) {
  EXPECT_EQ(resolve("p{max_byte=2}"),
            "T0404: the pass `p` has no option `max_byte` (column 3); did you mean `max_bytes`?");
  EXPECT_EQ(resolve("p{ratio=1,ratio=2}"),
            "T0404: the option `ratio` of the pass `p` is given twice (column 11)");
  EXPECT_EQ(resolve("p{max_bytes=1x}"),
            "T0404: `1x` is not a whole number (while the option `max_bytes` of the pass `p` "
            "(column 3))");
}

// A table from a plugin compiled when the rewrite record was smaller.
tenon_code_t never(void*, const tenon_builder_t*, tenon_node_t, tenon_value_t*, uint32_t* matched) {
  *matched = 0;
  return TENON_OK;
}
constexpr tenon_rewrite_t kRewrites[] = {
    {sizeof(tenon_rewrite_t), 1, {"low", 3}, {}, nullptr, never},
    {sizeof(tenon_rewrite_t), 5, {"high", 4}, {}, nullptr, never}};

class OneTable : public Source {
 public:
  OneTable() {
    def_.size_bytes = sizeof def_;
    def_.name = {"tidy", 4};
    def_.rewrites = kRewrites;
    def_.rewrite_count = 2;
    table_ = {sizeof table_, nullptr, defs_, 1};
  }
  Result<const tenon_passes_t*> table(std::string_view pass) override {
    if (pass == "tidy") return &table_;
    return error(TENON_NOT_FOUND, "P0101", "no plugin provides it");
  }
  std::vector<std::string> names() override { return {"tidy"}; }
  tenon_pass_def_t def_ = {};

 private:
  const tenon_pass_def_t* defs_[1] = {&def_};
  tenon_passes_t table_ = {};
};

TEST(Registry, OrdersByBenefitAndSuggests) {
  OneTable source;
  Registry registry(source);
  const auto found = registry.find("tidy");
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(from_abi_str((*found)->rewrites[0].name), "high");
  EXPECT_EQ(registry.find("tidi").status().message(),
            "there is no pass `tidi`; did you mean `tidy`?");
}

TEST(Registry, RefusesARecordThatDoesNothing) {
  OneTable source;
  source.def_.rewrite_count = 0;
  source.def_.rewrites = nullptr;
  Registry registry(source);
  EXPECT_EQ(registry.find("tidy").status().error_code(), "T0402");
}

}  // namespace
}  // namespace tenon::pass
