// The operators of ONNX that have no importer, with the reason that the error gives.
#ifndef FRONTENDS_ONNX_GRAPH_NOT_IMPORTED_H_
#define FRONTENDS_ONNX_GRAPH_NOT_IMPORTED_H_

#include <algorithm>
#include <string_view>

namespace tenon::onnx {

struct NotImported {
  std::string_view op;
  std::string_view reason;  // follows "; "
};

inline constexpr std::string_view kStrings = "it works on strings, which Tenon does not have";
inline constexpr std::string_view kSequences = "it works on sequences, which Tenon does not have";
inline constexpr std::string_view kOptionals =
    "it works on optional values, which Tenon does not have";
inline constexpr std::string_view kNotYet = "it is not imported yet";

// ops_page.py compares it with the standard.
inline constexpr NotImported kNotImported[] = {
    {"CausalConvWithState", kNotYet},
    {"ConcatFromSequence", kSequences},
    {"DeformConv", kNotYet},
    {"ImageDecoder", kNotYet},
    {"LinearAttention", kNotYet},
    {"MaxRoiPool", kNotYet},
    {"MelWeightMatrix", kNotYet},
    {"Optional", kOptionals},
    {"OptionalGetElement", kOptionals},
    {"OptionalHasElement", kOptionals},
    {"RegexFullMatch", kStrings},
    {"SequenceAt", kSequences},
    {"SequenceConstruct", kSequences},
    {"SequenceEmpty", kSequences},
    {"SequenceErase", kSequences},
    {"SequenceInsert", kSequences},
    {"SequenceLength", kSequences},
    {"SequenceMap", kSequences},
    {"SplitToSequence", kSequences},
    {"StringConcat", kStrings},
    {"StringNormalizer", kStrings},
    {"StringSplit", kStrings},
    {"TfIdfVectorizer", kNotYet},
};

// Null for other operators.
inline const NotImported* not_imported(std::string_view op) {
  const auto* at = std::ranges::find(kNotImported, op, &NotImported::op);
  return at == std::end(kNotImported) ? nullptr : at;
}

}  // namespace tenon::onnx

#endif  // FRONTENDS_ONNX_GRAPH_NOT_IMPORTED_H_
