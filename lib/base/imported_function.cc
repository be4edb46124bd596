#include "base/imported_function.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace lzy {
namespace {

#if defined(__x86_64__)
constexpr std::uint32_t kSlotTypes[] = {R_X86_64_JUMP_SLOT, R_X86_64_GLOB_DAT};
#elif defined(__aarch64__)
constexpr std::uint32_t kSlotTypes[] = {R_AARCH64_JUMP_SLOT, R_AARCH64_GLOB_DAT};
#else
constexpr std::uint32_t kSlotTypes[] = {0};  // R_*_NONE: never in a table of a library
#endif

using Address = ElfW(Addr);
using Relocation = ElfW(Rela);

/// The dynamic section of a library.
class Dynamic {
 public:
  explicit Dynamic(const link_map& library) : library_(library) {}
  /// 0 if there is no such entry.
  Address Value(ElfW(Sxword) tag) const {
    for (const ElfW(Dyn)* entry = library_.l_ld; entry != nullptr && entry->d_tag != DT_NULL; ++entry) {
      if (entry->d_tag == tag) return entry->d_un.d_val;
    }
    return 0;
  }
  /// With glibc on most machines, the dynamic linker has already turned these offsets into addresses.
  template <class Item>
  const Item* Pointer(ElfW(Sxword) tag) const {
    const Address value = Value(tag);
    return value == 0 ? nullptr : reinterpret_cast<const Item*>(value < library_.l_addr ? value + library_.l_addr : value);
  }
  std::span<const Relocation> Relocations(ElfW(Sxword) table, ElfW(Sxword) bytes) const {
    const auto* first = Pointer<Relocation>(table);
    return {first, first == nullptr ? 0 : Value(bytes) / sizeof(Relocation)};
  }

 private:
  const link_map& library_;
};

bool IsSlot(const Relocation& relocation) {
  for (const std::uint32_t type : kSlotTypes) {
    if (type != 0 && ELF64_R_TYPE(relocation.r_info) == type) return true;
  }
  return false;
}

Address PageOf(Address address) {
  static const auto page_size = static_cast<Address>(sysconf(_SC_PAGESIZE));
  return address & ~(page_size - 1);
}

/// Whether the dynamic linker has write-protected the page of `address`: it does so with whole pages only.
bool IsProtected(const link_map& library, Address address) {
  struct Question {
    const link_map& library;
    Address address;
    bool yes;
  } question{library, address, false};
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* to) {
        auto& asked = *static_cast<Question*>(to);
        if (info->dlpi_addr != asked.library.l_addr) return 0;
        for (const ElfW(Phdr)& part : std::span(info->dlpi_phdr, info->dlpi_phnum)) {
          if (part.p_type != PT_GNU_RELRO) continue;
          const Address begin = info->dlpi_addr + part.p_vaddr;
          asked.yes = PageOf(begin) <= asked.address && asked.address < PageOf(begin + part.p_memsz);
        }
        return asked.yes ? 1 : 0;
      },
      &question);
  return question.yes;
}

}  // namespace

ImportedFunction::ImportedFunction(const link_map& library, const char* name) noexcept {
  const Dynamic dynamic(library);
  const auto* symbols = dynamic.Pointer<ElfW(Sym)>(DT_SYMTAB);
  const auto* strings = dynamic.Pointer<char>(DT_STRTAB);
  if (symbols == nullptr || strings == nullptr) return;
  // Functions that are resolved at their first call, and those that are resolved at the start.
  for (const auto& relocations : {dynamic.Relocations(DT_JMPREL, DT_PLTRELSZ), dynamic.Relocations(DT_RELA, DT_RELASZ)}) {
    for (const Relocation& relocation : relocations) {
      if (!IsSlot(relocation)) continue;
      const ElfW(Sym)& symbol = symbols[ELF64_R_SYM(relocation.r_info)];
      if (symbol.st_shndx != SHN_UNDEF || std::strcmp(strings + symbol.st_name, name) != 0) continue;
      slot_ = reinterpret_cast<void**>(library.l_addr + relocation.r_offset);
      read_only_ = IsProtected(library, reinterpret_cast<Address>(slot_));
      return;
    }
  }
}

// A slot is aligned, so it lies in one page.
bool ImportedFunction::Replace(void* function) const noexcept {
  auto* const page = reinterpret_cast<void*>(PageOf(reinterpret_cast<Address>(slot_)));
  if (read_only_ && mprotect(page, 1, PROT_READ | PROT_WRITE) != 0) return false;
  __atomic_store_n(slot_, function, __ATOMIC_RELEASE);
  if (read_only_) (void)mprotect(page, 1, PROT_READ);
  return true;
}

}  // namespace lzy
