// The instruction sets that kernels are generated for, and the choice of one for this processor.
// They are of two families, x86-64 and AArch64. Code is compiled for either on any machine.
#ifndef TENON_PLUGINS_CPU_ISA_H_
#define TENON_PLUGINS_CPU_ISA_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tenon::cpu {

// Those of x86-64 in order, each includes the previous ones; then AArch64's; then AVX2 with
// AVX-VNNI, which the sets with AVX-512 do not include. Artifacts hold the numbers.
enum class Isa : uint8_t { kBaseline, kAvx2, kAvx512, kAvx512Vnni, kAvx512Bf16, kNeon, kAvx2Vnni };

// For numbers that were read somewhere.
constexpr bool is_isa(uint32_t number) {
  return number <= static_cast<uint32_t>(Isa::kAvx2Vnni);
}

std::string_view name_of(Isa isa);  // "baseline", "avx2", "avx2_vnni", "avx512", ..., "neon"
std::optional<Isa> isa_named(std::string_view name);

// Whether a machine with one set runs code for the other.
bool runs_on(Isa code, Isa machine);
// Whether this processor runs code for it.
bool runs_here(Isa code);
// The first set of the same family.
Isa lowest_like(Isa isa);

// TENON_CLANG_X86_64 or TENON_CLANG_AARCH64.
uint32_t clang_machine(Isa isa);
// clang's name for it: "x86-64", "x86-64-v3", "x86-64-v4", "generic".
std::string_view clang_cpu(Isa isa);
// Features beyond that name: "+avx512bf16,+avx512vnni", "+avx512vnni", "+avxvnni", or nothing.
std::string_view clang_features(Isa isa);

// The best that this processor and its operating system can run.
Isa detected_isa();

// detected_isa(), limited by `setting` (the value of TENON_CPU_ISA; empty: not set). Nullopt, with
// a sentence in `why`, for an unknown name or a set that this processor lacks.
std::optional<Isa> chosen_isa(std::string_view setting, std::string& why);

// "cpu isa=avx2", the target of the device, and back; nullopt for the target of another device.
// "aarch64" is short for "cpu isa=neon".
std::string target_text(Isa isa);
std::optional<Isa> isa_of_target(std::string_view target);
// All of them for a message: "cpu isa=neon", "cpu isa=avx512_bf16", ... and "cpu isa=baseline".
std::string target_choices();

// For people: "AMD EPYC 9B14".
std::string processor_name();

}  // namespace tenon::cpu
#endif
