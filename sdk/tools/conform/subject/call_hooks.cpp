#include "sdk/tools/conform/subject/call_hooks.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

namespace tenon::conform {
namespace {

#if defined(__x86_64__)
constexpr uint32_t kJumpSlot = R_X86_64_JUMP_SLOT, kGlobal = R_X86_64_GLOB_DAT, kWord = R_X86_64_64;
#elif defined(__aarch64__)
constexpr uint32_t kJumpSlot = R_AARCH64_JUMP_SLOT, kGlobal = R_AARCH64_GLOB_DAT,
                   kWord = R_AARCH64_ABS64;
#else
constexpr uint32_t kJumpSlot = ~0u, kGlobal = ~0u, kWord = ~0u;  // matches no relocation
#endif

// The dynamic section of an open library, in which the loader has turned offsets into addresses.
struct Dynamic {
  const Elf64_Sym* symbols = nullptr;
  const char* names = nullptr;
  const Elf64_Rela* lists[2] = {};
  uint64_t sizes_bytes[2] = {};
};
Dynamic dynamic_of(const link_map& map) {
  Dynamic out;
  for (const Elf64_Dyn* entry = map.l_ld; entry->d_tag != DT_NULL; ++entry) {
    const auto at = entry->d_un.d_ptr;
    if (entry->d_tag == DT_SYMTAB) out.symbols = reinterpret_cast<const Elf64_Sym*>(at);
    if (entry->d_tag == DT_STRTAB) out.names = reinterpret_cast<const char*>(at);
    if (entry->d_tag == DT_JMPREL) out.lists[0] = reinterpret_cast<const Elf64_Rela*>(at);
    if (entry->d_tag == DT_PLTRELSZ) out.sizes_bytes[0] = entry->d_un.d_val;
    if (entry->d_tag == DT_RELA) out.lists[1] = reinterpret_cast<const Elf64_Rela*>(at);
    if (entry->d_tag == DT_RELASZ) out.sizes_bytes[1] = entry->d_un.d_val;
  }
  return out;
}

void set_slot(uint64_t address, void* function) {
  const auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  void* base = reinterpret_cast<void*>(address / page * page);
  // The loader may have made it read-only. It stays writable, since this process ends with its
  // check.
  if (::mprotect(base, page, PROT_READ | PROT_WRITE) != 0) return;
  std::memcpy(reinterpret_cast<void*>(address), &function, sizeof(function));
}

}  // namespace

bool hook_calls(const Session& session, std::string_view name, void* function) {
  link_map* map = nullptr;
  if (session.library() == nullptr || ::dlinfo(session.library(), RTLD_DI_LINKMAP, &map) != 0)
    return false;
  const Dynamic dynamic = dynamic_of(*map);
  if (dynamic.symbols == nullptr || dynamic.names == nullptr) return false;
  bool found = false;
  for (int list = 0; list < 2; ++list) {
    const uint64_t count =
        dynamic.lists[list] == nullptr ? 0 : dynamic.sizes_bytes[list] / sizeof(Elf64_Rela);
    for (uint64_t i = 0; i < count; ++i) {
      const Elf64_Rela& relocation = dynamic.lists[list][i];
      const uint32_t type = ELF64_R_TYPE(relocation.r_info);
      if (type != kJumpSlot && type != kGlobal && type != kWord) continue;
      const Elf64_Sym& symbol = dynamic.symbols[ELF64_R_SYM(relocation.r_info)];
      if (dynamic.names + symbol.st_name != name) continue;
      set_slot(map->l_addr + relocation.r_offset, function);
      found = true;
    }
  }
  return found;
}

}  // namespace tenon::conform
