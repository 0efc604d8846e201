#include "isa.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <cstring>

#include "compiler/compiler.h"
#include "tenon/cpp/status.hpp"

namespace tenon::cpu {
namespace {

constexpr Isa kAll[] = {Isa::kBaseline,   Isa::kAvx2,       Isa::kAvx2Vnni, Isa::kAvx512,
                        Isa::kAvx512Vnni, Isa::kAvx512Bf16, Isa::kNeon};
constexpr std::string_view kTargetPrefix = "cpu isa=";
constexpr std::string_view kAarch64 = "aarch64";

std::string choices() {
  std::string out;
  for (Isa isa : kAll) {
    if (runs_here(isa)) {
      out = std::string(name_of(isa)) + (out.empty() ? "" : ", ") + out;
    }
  }
  return out;
}

}  // namespace

std::string_view name_of(Isa isa) {
  switch (isa) {
    case Isa::kBaseline:
      return "baseline";
    case Isa::kAvx2:
      return "avx2";
    case Isa::kAvx2Vnni:
      return "avx2_vnni";
    case Isa::kAvx512:
      return "avx512";
    case Isa::kAvx512Vnni:
      return "avx512_vnni";
    case Isa::kAvx512Bf16:
      return "avx512_bf16";
    case Isa::kNeon:
      return "neon";
  }
  return "";
}

std::optional<Isa> isa_named(std::string_view name) {
  for (Isa isa : kAll) {
    if (name == name_of(isa)) {
      return isa;
    }
  }
  return std::nullopt;
}

bool runs_on(Isa code, Isa machine) {
  if (code == Isa::kAvx2Vnni || machine == Isa::kAvx2Vnni) {
    return code == machine || (code <= Isa::kAvx2 && machine == Isa::kAvx2Vnni);
  }
  return lowest_like(code) == lowest_like(machine) && code <= machine;
}

Isa lowest_like(Isa isa) {
  return isa == Isa::kNeon ? Isa::kNeon : Isa::kBaseline;
}

uint32_t clang_machine(Isa isa) {
  return isa == Isa::kNeon ? TENON_CLANG_AARCH64 : TENON_CLANG_X86_64;
}

std::string_view clang_cpu(Isa isa) {
  switch (isa) {
    case Isa::kBaseline:
      return "x86-64";
    case Isa::kAvx2:
    case Isa::kAvx2Vnni:
      return "x86-64-v3";
    case Isa::kAvx512:
    case Isa::kAvx512Vnni:
    case Isa::kAvx512Bf16:
      return "x86-64-v4";
    case Isa::kNeon:
      return "generic";
  }
  return "";
}

std::string_view clang_features(Isa isa) {
  return isa == Isa::kAvx512Bf16   ? "+avx512bf16,+avx512vnni"
         : isa == Isa::kAvx512Vnni ? "+avx512vnni"
         : isa == Isa::kAvx2Vnni   ? "+avxvnni"
                                   : "";
}

#if defined(__x86_64__)
namespace {

// The compiler's builtin also checks that the operating system saves the wide registers.
bool has_v3() {
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
}

bool has_avx2_vnni() {
  return has_v3() && __builtin_cpu_supports("avxvnni");
}

}  // namespace

Isa detected_isa() {
  const bool v3 = has_v3();
  const bool v4 = v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
                  __builtin_cpu_supports("avx512cd");
  // Processors with the second have the first.
  if (v4 && __builtin_cpu_supports("avx512vnni")) {
    return __builtin_cpu_supports("avx512bf16") ? Isa::kAvx512Bf16 : Isa::kAvx512Vnni;
  }
  return v4 ? Isa::kAvx512 : has_avx2_vnni() ? Isa::kAvx2Vnni : v3 ? Isa::kAvx2 : Isa::kBaseline;
}
#elif defined(__aarch64__)
namespace {

bool has_avx2_vnni() {
  return false;
}

}  // namespace

Isa detected_isa() {
  return Isa::kNeon;  // Every processor of the family has it.
}
#else
#error "Name this architecture's instruction sets here."
#endif

bool runs_here(Isa code) {
  return code == Isa::kAvx2Vnni ? has_avx2_vnni() : runs_on(code, detected_isa());
}

std::optional<Isa> chosen_isa(std::string_view setting, std::string& why) {
  if (setting.empty()) {
    return detected_isa();
  }
  const std::optional<Isa> asked = isa_named(setting);
  if (!asked) {
    why = cat("TENON_CPU_ISA is ", quoted(setting), ", which names no instruction set; use one of ",
              choices(), ", or unset it");
    return std::nullopt;
  }
  if (!runs_here(*asked)) {
    why = cat("TENON_CPU_ISA asks for ", name_of(*asked),
              ", which this processor does not have; use one of ", choices(), ", or unset it");
    return std::nullopt;
  }
  return asked;
}

std::string target_text(Isa isa) {
  return cat(kTargetPrefix, name_of(isa));
}

std::optional<Isa> isa_of_target(std::string_view target) {
  if (target == kAarch64) {
    return Isa::kNeon;
  }
  if (!target.starts_with(kTargetPrefix)) {
    return std::nullopt;
  }
  return isa_named(target.substr(kTargetPrefix.size()));
}

std::string target_choices() {
  std::string out;
  for (size_t i = std::size(kAll); i-- > 0;) {
    const bool last = i == 0;
    out = cat(out, out.empty() ? "" : last ? " and " : ", ", '"', target_text(kAll[i]), '"');
  }
  return out;
}

#if defined(__x86_64__)
std::string processor_name() {
  unsigned words[12] = {};
  if (__get_cpuid_max(0x80000000u, nullptr) < 0x80000004u) {
    return "x86-64 processor";
  }
  for (unsigned i = 0; i < 3; ++i) {
    __get_cpuid(0x80000002u + i, &words[4 * i], &words[4 * i + 1], &words[4 * i + 2],
                &words[4 * i + 3]);
  }
  char text[sizeof words + 1] = {};
  std::memcpy(text, words, sizeof words);
  std::string_view name(text);
  while (!name.empty() && name.front() == ' ') name.remove_prefix(1);
  while (!name.empty() && name.back() == ' ') name.remove_suffix(1);
  return std::string(name);
}
#else
std::string processor_name() {
  return "AArch64 processor";
}
#endif

}  // namespace tenon::cpu
