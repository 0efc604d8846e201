// Pipelines as text: "canonicalize,fold{max_bytes=64},cse".
#pragma once
#include <tenon/abi/pass.h>

#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/errors/status.h"

namespace tenon::pass {

// The default pipeline before placement. Norms are recognised before fold, which may spread small
// scales over their shape. After legalize, the parts of what no device took whole are simplified
// once more.
inline constexpr std::string_view kStandardPipeline =
    "canonicalize,cse,compose-activations,compose-norms,fold,canonicalize,cse,compose-attention,"
    "dce,"
    "legalize,compose-quantised,fold,canonicalize,cse,dce";

struct OptionText {
  std::string name, value;
  size_t column = 0;
};
struct PassCall {
  std::string name;
  std::vector<OptionText> options;
  size_t column = 0;  // 1-based, in the pipeline's text
};

// Blanks are allowed between all parts; a value may be in double quotes. "" and "none" are the
// empty pipeline, and the name `standard` is replaced by the standard passes: "my-pass,standard".
// INVALID_ARGUMENT T0403 with the column and the text around it.
Result<std::vector<PassCall>> parse_pipeline(std::string_view text);

// The option that every pass of rewrites has: `apply=17` or `apply=1-17`, the numbers of the
// applications to make. It is taken out of the call. Nothing if it is not given; T0404 for another
// text.
inline constexpr std::string_view kApplyOption = "apply";
Result<std::optional<std::pair<uint64_t, uint64_t>>> take_apply(PassCall& call);

// The options of one call, one attribute per declared option, with defaults filled in. `texts`
// stores the strings. T0404 for an unknown option (with a suggestion), one given twice, or a value
// of another kind.
Result<std::vector<tenon_attr_t>> resolve_options(const tenon_pass_def_t& def, const PassCall& call,
                                                  std::deque<std::string>& texts);

}  // namespace tenon::pass
