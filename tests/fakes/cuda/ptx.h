// PTX as a program: what the tests' driver makes of a module's text. It knows the instructions that
// clang 19 makes of kernelgen's kernels, and refuses others by name.
#ifndef TENON_TESTS_FAKES_CUDA_PTX_H_
#define TENON_TESTS_FAKES_CUDA_PTX_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace fake_cuda {

// Element types of instructions. kPred is one bit.
enum class Type : uint8_t {
  kNone,
  kPred,
  kU8,
  kU16,
  kU32,
  kU64,
  kS8,
  kS16,
  kS32,
  kS64,
  kF16,
  kF32,
  kF64
};
int bytes_of(Type type);
bool is_signed(Type type);
bool is_float(Type type);

enum class Op : uint8_t {
  kAbs,
  kAdd,
  kAnd,
  kBarrier,
  kBfe,
  kBfi,
  kBra,
  kBrev,
  kClz,
  kCopysign,
  kCvt,
  kDiv,
  kFma,
  kLd,
  kMad,
  kMax,
  kMin,
  kMov,
  kMul,
  kNeg,
  kNop,
  kNot,
  kOr,
  kPack,
  kPopc,
  kPrmt,
  kRcp,
  kRem,
  kRet,
  kSelp,
  kSetp,
  kShf,
  kShfl,
  kShl,
  kShr,
  kSqrt,
  kSt,
  kSub,
  kTrap,
  kUnpack,
  kXor,
};
enum class Space : uint8_t { kGeneric, kParam, kGlobal, kShared, kLocal };

// Places in a thread's array of 64-bit registers: registers by name, then constants.
using Slot = uint32_t;
constexpr Slot kNoSlot = ~0u;

struct Instruction {
  Op op = Op::kNop;
  Type type = Type::kNone, from = Type::kNone;  // from: the source of cvt
  Space space = Space::kGeneric;
  // setp: the comparison; mul, mad: l(o), h(i), w(ide); cvt: rounding; shf: l or r; shfl: the mode.
  uint8_t mode = 0;
  uint8_t flags = 0;
  Slot guard = kNoSlot;
  bool unless = false;  // the guard is negated
  uint8_t width = 1;    // ld, st: elements
  Slot dst[4] = {kNoSlot, kNoSlot, kNoSlot, kNoSlot};
  Slot src[5] = {kNoSlot, kNoSlot, kNoSlot, kNoSlot, kNoSlot};
  uint32_t target = 0;  // bra
  int64_t offset = 0;   // of an address
  uint32_t line = 0;
};
// Instruction::flags
constexpr uint8_t kSaturate = 1, kClamp = 2, kWithAnd = 4, kWithOr = 8, kWithXor = 16;
// Instruction::mode of setp
enum Compare : uint8_t {
  kEq,
  kNe,
  kLt,
  kLe,
  kGt,
  kGe,
  kEqu,
  kNeu,
  kLtu,
  kLeu,
  kGtu,
  kGeu,
  kNum,
  kNan
};
// of cvt
enum Rounding : uint8_t { kNearest, kZero, kDown, kUp, kNearestInt, kZeroInt, kDownInt, kUpInt };
// of shfl
enum Shuffle : uint8_t { kShuffleUp, kShuffleDown, kShuffleXor, kShuffleIndex };
// of mul and mad
enum Part : uint8_t { kLow, kHigh, kWide };

// Addresses of shared and local variables, also as generic addresses.
constexpr uint64_t kSharedBase = uint64_t{1} << 60, kLocalBase = uint64_t{1} << 61;

struct Kernel {
  std::string name;
  std::vector<uint32_t> parameter_offsets;
  uint32_t parameter_bytes = 0, shared_bytes = 0, local_bytes = 0, max_threads = 1024;
  std::vector<uint64_t> initial;  // the registers of a thread at its start: constants are last
  Slot registers = 0;             // of which are not constants
  Slot tid = kNoSlot, ctaid = kNoSlot, ntid = kNoSlot, laneid = kNoSlot, nctaid = kNoSlot;
  std::vector<Instruction> code;
  std::vector<std::string> lines;  // the text of instructions, for messages
};

struct Module {
  std::map<std::string, std::unique_ptr<Kernel>, std::less<>> kernels;
  struct Variable {
    uint64_t address = 0;
    std::vector<unsigned char> bytes;
  };
  std::map<std::string, Variable, std::less<>> globals;
  int version = 0;  // 78 is PTX 7.8
  std::string target;
};

// Places a variable of this size in the device's memory.
struct Placement {
  virtual ~Placement() = default;
  virtual uint64_t place(uint64_t bytes) = 0;
};

// False: *why names the line and the instruction that is unknown.
bool parse(std::string_view text, Placement& placement, Module* out, std::string* why);

}  // namespace fake_cuda
#endif
