#include "objects_helper/tracing_driver.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/numbers.h"

namespace lzy {
namespace {

constexpr char kName[] = "lzy";

/// The object that libhdf5 uses as an open file.
struct OpenFile {
  H5FD_t base;  // must be the first member
  haddr_t end_of_allocated;
};

TracedFile* the_file = nullptr;
bool is_open = false;

// While it is open, the library may try to open other files, such as those of a virtual dataset. This fails.
H5FD_t* Open(const char*, unsigned flags, hid_t, haddr_t) {
  if (is_open || (flags & H5F_ACC_RDWR) != 0) return nullptr;
  is_open = true;
  return &(new OpenFile())->base;
}

herr_t Close(H5FD_t* file) {
  is_open = false;
  delete reinterpret_cast<OpenFile*>(file);
  return 0;
}

int Compare(const H5FD_t* a, const H5FD_t* b) {
  return a < b ? -1 : a > b;
}

herr_t Query(const H5FD_t*, unsigned long* flags) {
  if (flags != nullptr) *flags = 0;
  return 0;
}

haddr_t EndOfAllocated(const H5FD_t* file, H5FD_mem_t) {
  return reinterpret_cast<const OpenFile*>(file)->end_of_allocated;
}

herr_t SetEndOfAllocated(H5FD_t* file, H5FD_mem_t, haddr_t end) {
  reinterpret_cast<OpenFile*>(file)->end_of_allocated = end;
  return 0;
}

// A large value: the library refuses to open a file that ends too early.
haddr_t EndOfFile(const H5FD_t*, H5FD_mem_t) {
  return haddr_t{1} << 62;
}

// The length of a structure, if its first bytes determine it. The first read of libhdf5 may be longer or shorter, because
// it does not know the length. The layouts are in the HDF5 File Format Specification 3.0, sections III.C, D, E and IV.A.
std::uint64_t TrueLength(H5FD_mem_t type, ByteSpan head, std::uint64_t asked) {
  const auto has = [&](const char* signature) { return head.size() >= 16 && std::memcmp(head.data(), signature, 4) == 0; };
  if (has("OHDR")) {
    const unsigned flags = head[5];
    const std::size_t at = 6 + ((flags & 0x20) != 0 ? 16 : 0) + ((flags & 0x10) != 0 ? 4 : 0);
    const std::size_t width = std::size_t{1} << (flags & 3);
    if (head.size() < at + width) return asked;
    std::uint64_t messages = 0;
    for (std::size_t i = width; i-- > 0;) messages = messages << 8 | head[at + i];
    return at + width + SaturatedSum(messages, 4);
  }
  if (has("GCOL")) return LoadLe<std::uint64_t>(&head[8]);
  if (has("HEAP") && head.size() >= 32) {
    // The data segment usually follows the header of the heap.
    const auto segment = LoadLe<std::uint64_t>(&head[8]);
    return std::min(asked, segment < asked ? 32 + segment : 32);
  }
  if (type == H5FD_MEM_OHDR && head.size() >= 16 && head[0] == 1 && head[1] == 0 && LoadLe<std::uint32_t>(&head[4]) != 0) {
    // In the first block of a header, this is a count of references, which is not 0. In a continuation block, these bytes
    // are flags of a message, which are mostly 0.
    return 16 + std::uint64_t{LoadLe<std::uint32_t>(&head[8])};
  }
  return asked;
}

herr_t Read(H5FD_t*, H5FD_mem_t type, hid_t, haddr_t begin, size_t length, void* to) {
  TracedFile& file = *the_file;
  const ObjectSource& source = *file.source;
  if (length == 0) return 0;
  // Beyond the end there are zeros, as in the library's own drivers.
  const std::uint64_t there = begin < source.size ? std::min<std::uint64_t>(length, source.size - begin) : 0;
  if (type == H5FD_MEM_DRAW && file.only_place) {
    file.on_raw(begin, length);
    return 0;
  }
  const MutableByteSpan all(static_cast<std::uint8_t*>(to), length);
  std::ranges::fill(all, std::uint8_t{0});
  if (there == 0) return type == H5FD_MEM_DRAW ? 0 : -1;
  // The first bytes determine the length of the structure.
  const std::uint64_t head = std::min<std::uint64_t>(there, 64);
  const bool head_right = (file.trust || !source.IsWrong(begin, head)) && source.read(begin, all.first(head));
  const std::uint64_t true_length = head_right ? TrueLength(type, all.first(head), there) : std::min<std::uint64_t>(there, 16);
  const std::uint64_t meant = std::min(true_length, there);
  const bool right = head_right && (file.trust || !source.IsWrong(begin, meant));
  // The bytes after the structure belong to other structures. If they cannot be read, only the structure is returned.
  const bool given = right && (source.read(begin, all.first(there)) || source.read(begin, all.first(meant)));
  if (!given) ++file.refused;
  // The library reads global heaps as it reads raw data.
  if (type == H5FD_MEM_DRAW && head_right && head >= 4 && std::memcmp(to, "GCOL", 4) == 0) type = H5FD_MEM_GHEAP;
  if (type != H5FD_MEM_DRAW) file.on_metadata(type, begin, true_length, given ? ByteSpan(all.first(meant)) : ByteSpan());
  return given ? 0 : -1;
}

herr_t Write(H5FD_t*, H5FD_mem_t, hid_t, haddr_t, size_t, const void*) {
  return -1;
}

}  // namespace

hid_t TracingProperties(TracedFile& file) {
  // Assigned field by field, because later versions of libhdf5 have more fields.
  static H5FD_class_t driver{};
#if H5_VERSION_GE(1, 14, 0)
  driver.version = H5FD_CLASS_VERSION;
  driver.value = static_cast<H5FD_class_value_t>(513);  // a value from the range for tests
#endif
  driver.name = kName;
  driver.maxaddr = static_cast<haddr_t>(kEverythingBehind);
  driver.fc_degree = H5F_CLOSE_STRONG;
  driver.open = Open;
  driver.close = Close;
  driver.cmp = Compare;
  driver.query = Query;
  driver.get_eoa = EndOfAllocated;
  driver.set_eoa = SetEndOfAllocated;
  driver.get_eof = EndOfFile;
  driver.read = Read;
  driver.write = Write;
  for (int type = 0; type < H5FD_MEM_NTYPES; ++type) driver.fl_map[type] = H5FD_MEM_DEFAULT;
  static const hid_t number = H5FDregister(&driver);
  const hid_t properties = H5Pcreate(H5P_FILE_ACCESS);
  if (number < 0 || properties < 0 || H5Pset_driver(properties, number, nullptr) < 0) return -1;
  the_file = &file;
  return properties;
}

}  // namespace lzy
