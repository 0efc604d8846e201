#include "target.h"

#include <charconv>
#include <optional>

#include "cuda_symbols.h"
#include "nvrtc.h"
#include "tenon/cpp/plugin.hpp"

namespace tenon::cuda {
namespace {

constexpr std::string_view kPrefix = "cuda ", kOn = " on ", kArchitecture = "sm_";
constexpr const char* kSetting = "TENON_CUDA_COMPILER";

struct Architecture {
  int capability = 0;
  bool only = false;  // runs on that capability alone: "sm_90a"
  bool operator==(const Architecture&) const = default;
};

// What the toolchain compiles for, oldest first. A device gets the newest that runs on it.
constexpr Architecture kOfClang[] = {{70}, {72}, {75}, {80}, {86}, {87}, {89}, {90}, {90, true}};
constexpr Architecture kNewestPlain = {90};

std::string name_of(const Architecture& a) {
  return cat(kArchitecture, a.capability, a.only ? "a" : "");
}

bool clang_knows(const Architecture& a) {
  for (const Architecture& known : kOfClang) {
    if (known == a) return true;
  }
  return false;
}

std::optional<Architecture> read(std::string_view word) {
  if (!word.starts_with(kArchitecture)) return std::nullopt;
  word.remove_prefix(kArchitecture.size());
  Architecture out;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), out.capability);
  const std::string_view rest = word.substr(static_cast<size_t>(end - word.data()));
  out.only = rest == "a";
  if (error != std::errc() || !(rest.empty() || out.only) || word.starts_with('0') ||
      out.capability < kOldestCapability)
    return std::nullopt;
  return out;
}

// "cuda sm_90 on sm_130 threads=128": the code's architecture, and the GPU's capability.
struct Parts {
  std::optional<Architecture> code;
  int gpu = 0;
};

std::optional<Parts> split(std::string_view target) {
  if (target.starts_with(kPrefix)) target.remove_prefix(kPrefix.size());
  target = stream::without_limits(target);
  const size_t on = target.find(kOn);
  Parts out;
  out.code = read(target.substr(0, on));
  const auto gpu = on == std::string_view::npos ? out.code : read(target.substr(on + kOn.size()));
  if (!out.code || !gpu || (on != std::string_view::npos && gpu->only)) return std::nullopt;
  out.gpu = gpu->capability;
  return out;
}

enum class Choice { kAuto, kClang, kNvrtc };

Status choice(Choice* out) {
  const std::string_view word = setting(kSetting);
  *out = word == "clang" ? Choice::kClang : word == "nvrtc" ? Choice::kNvrtc : Choice::kAuto;
  if (word.empty() || word == "auto" || *out != Choice::kAuto) return {};
  return fail(TENON_INVALID_ARGUMENT,
              cat("cuda: ", kSetting, " is ", quoted(word), "; it may be auto, clang or nvrtc"));
}

Status no_code(std::string_view target, std::string_view more) {
  std::string names;
  for (const Architecture& a : kOfClang) names += cat(names.empty() ? "" : ", ", name_of(a));
  return fail(TENON_INVALID_ARGUMENT, cat("cuda: the target ", quoted(target), " is none of ",
                                          names, ". Newer devices run the code for sm_90", more));
}

// A GPU runs the code of older architectures; code with a letter runs on its own GPUs alone.
Status check_parts(std::string_view target, const Parts& parts) {
  const Architecture& a = *parts.code;
  if (a.only ? a.capability == parts.gpu : a.capability <= parts.gpu) return {};
  const std::string words =
      a.only ? cat("code for ", name_of(a), " runs on GPUs of sm_", a.capability, " alone")
             : cat("a GPU of sm_", parts.gpu, " runs no code for ", name_of(a));
  return fail(TENON_INVALID_ARGUMENT,
              cat("cuda: the target ", quoted(target), " is none: ", words,
                  ". The code's architecture comes first, then the GPU's: \"sm_90 on sm_120\""));
}

// The one whose code the driver of this machine takes.
const Nvrtc* nvrtc_here(int capability, std::string* why) {
  std::string no_driver;
  const Driver* const here = driver(&no_driver);
  return nvrtc(capability, here == nullptr ? 0 : here->version, why);
}

Status by_name(std::string_view target, const Architecture& a, const Nvrtc** out) {
  std::string why;
  const Nvrtc* const compiler = nvrtc_here(a.capability, &why);
  if (compiler == nullptr) return fail(TENON_UNAVAILABLE, cat("cuda: ", kSetting, "=nvrtc: ", why));
  if (!compiler->knows(a.capability))
    return fail(TENON_INVALID_ARGUMENT, cat("cuda: ", compiler->unknown(target)));
  *out = compiler;
  return {};
}

// What is wrong with what TENON_CUDA_COMPILER=nvrtc makes for a GPU and its driver; empty: nothing.
std::string fault_by_name(const Architecture& code, int driver_version) {
  std::string why;
  const Nvrtc* const compiler = nvrtc(code.capability, driver_version, &why);
  if (compiler == nullptr) return cat(kSetting, "=nvrtc: ", why);
  if (!compiler->knows(code.capability))
    return cat(kSetting, "=nvrtc: ", compiler->unknown(name_of(code)));
  if (compiler->version <= driver_version) return {};
  return cat(kSetting, "=nvrtc: the driver is too old for the code of ", compiler->name,
             "; update it, install an NVRTC of CUDA ", driver_version / 1000, ".",
             driver_version % 1000 / 10, " or older, or unset the variable");
}

}  // namespace

Status compiler_of(std::string_view target, const Nvrtc** out, std::string* architecture) {
  Choice chosen = Choice::kAuto;
  TENON_TRY(choice(&chosen));
  const auto parts = split(target);
  if (!parts) return no_code(target, "");
  TENON_TRY(check_parts(target, *parts));
  TENON_TRY(stream::check_limits("cuda", target));
  const Architecture& a = *parts->code;
  *architecture = name_of(a);
  if (chosen == Choice::kNvrtc) return by_name(target, a, out);
  *out = nullptr;
  if (clang_knows(a)) return {};
  if (chosen == Choice::kClang)
    return no_code(target, cat("; ", kSetting, "=auto compiles for more where NVRTC is there"));
  std::string why;
  const Nvrtc* const compiler = nvrtc_here(a.capability, &why);
  if (compiler == nullptr) return no_code(target, cat("; NVRTC compiles for more. ", why));
  if (!compiler->knows(a.capability))
    return no_code(target, cat("; ", compiler->unknown(name_of(a))));
  *out = compiler;
  return {};
}

std::string target_of(int capability, int driver_version, std::string* note) {
  constexpr int kFirstWithLetters = 12000;  // CUDA 12.0 has PTX 8.0
  Architecture code;
  for (const Architecture& a : kOfClang) {
    if (a.only ? a.capability == capability && driver_version >= kFirstWithLetters
               : a.capability <= capability)
      code = a;
  }
  if (code.capability == 0) return {};
  Choice chosen = Choice::kAuto;
  // An invalid setting is reported when code is made.
  if (!choice(&chosen).ok()) chosen = Choice::kClang;
  if (capability > kNewestPlain.capability && chosen != Choice::kClang) {
    std::string why;
    const Nvrtc* const compiler = nvrtc(0, driver_version, &why);
    if (compiler == nullptr) {
      *note = cat("code for ", name_of(code), ": ", why);
    } else if (compiler->version > driver_version) {
      *note = cat("code for ", name_of(code), ": the driver is older than ", compiler->name);
    } else {
      for (int c : compiler->capabilities) {
        if (c > code.capability && c <= capability) code = {c};
      }
      if (!clang_knows(code)) *note = cat("code by ", compiler->name);
    }
  }
  if (chosen == Choice::kNvrtc) {
    if (std::string fault = fault_by_name(code, driver_version); !fault.empty())
      *note = std::move(fault);
  }
  return cat(kPrefix, name_of(code),
             code.capability == capability ? std::string() : cat(kOn, kArchitecture, capability));
}

bool runs_on(std::string_view made_for, std::string_view device) {
  const auto a = split(made_for), b = split(device);
  if (!a || !b) return false;
  if (!stream::fits(stream::limits_of(made_for, kLimits), stream::limits_of(device, kLimits)))
    return false;
  if (!a->code->only) return a->code->capability <= b->gpu;
  // A GPU that clang knows says by its own target whether its driver takes such code.
  return a->code == b->code || (a->code->capability == b->gpu && !clang_knows(*a->code));
}

}  // namespace tenon::cuda
