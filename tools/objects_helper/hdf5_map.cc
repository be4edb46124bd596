#include "objects_helper/hdf5_map.h"

#include <hdf5.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <optional>
#include <set>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/numbers.h"
#include "objects_helper/tracing_driver.h"

namespace lzy {
namespace {

constexpr std::array<std::uint8_t, 8> kSignature = {0x89, 'H', 'D', 'F', '\r', '\n', 0x1A, '\n'};
constexpr std::size_t kMostObjects = 10'000'000;
constexpr std::size_t kMostDepth = 10'000;
// H5Dget_chunk_info takes time in proportion to the number of chunks. With more chunks it is not called for each of them.
constexpr std::uint64_t kFewChunks = 3000;
// Most possible places of chunks that are tried, in addition to four for each chunk.
constexpr std::uint64_t kMostEmptyPlaces = 4'000'000;
// Most objects for which the file is opened again to find the heaps that they use.
constexpr std::size_t kMostReopened = 1000;
// Most bytes that are read at once from a dataset with elements in heaps.
constexpr std::uint64_t kMostAtOnce = std::uint64_t{64} << 20;

/// Owns an identifier of libhdf5.
class Id {
 public:
  Id(hid_t id, herr_t (*close)(hid_t)) : id_(id), close_(close) {}
  Id(Id&& other) noexcept : id_(std::exchange(other.id_, -1)), close_(other.close_) {}
  Id& operator=(Id&&) = delete;
  ~Id() {
    if (id_ >= 0) close_(id_);
  }
  hid_t get() const { return id_; }
  bool ok() const { return id_ >= 0; }

 private:
  hid_t id_;
  herr_t (*close_)(hid_t);
};

struct Link {
  std::string name;
  haddr_t address;
};

// Collects hard links only. Other links lead to objects that also have a hard link, or to other files.
extern "C" herr_t NoteLink(hid_t, const char* name, const H5L_info_t* info, void* links) {
  auto& all = *static_cast<std::vector<Link>*>(links);
  if (info->type == H5L_TYPE_HARD) all.push_back({name, info->u.address});
  return all.size() < kMostObjects ? 0 : -1;
}

extern "C" herr_t IgnoreAttribute(hid_t, const char*, const H5A_info_t*, void*) {
  return 0;
}

/// A message of an object header that holds raw data or an attribute.
struct CompactData {
  std::size_t begin = 0, length = 0;  // within the bytes of the header block
};

// Finds the data of a compact dataset in its layout message (specification IV.A.2.i).
std::optional<CompactData> InLayout(ByteSpan message) {
  if (message.size() < 4) return std::nullopt;
  if (message[0] >= 3) {
    const std::size_t size = LoadLe<std::uint16_t>(&message[2]);
    if (message[1] != 0 || message.size() < 4 + size) return std::nullopt;
    return CompactData{4, size};
  }
  const std::size_t head = 8 + std::size_t{message[1]} * 4;
  if (message[2] != 0 || message.size() < head + 4) return std::nullopt;
  const std::size_t size = LoadLe<std::uint32_t>(&message[head]);
  if (message.size() - head - 4 < size) return std::nullopt;
  return CompactData{head + 4, size};
}

// Finds them in a block of messages: the first block of a header, or a continuation (IV.A.1).
std::optional<CompactData> FindCompactData(ByteSpan block, bool first) {
  constexpr unsigned kLayout = 8;
  std::size_t at = 0, end = block.size();
  bool new_format = false, ordered = false;
  if (first && block.size() >= 16 && std::memcmp(block.data(), "OHDR", 4) == 0) {
    const unsigned flags = block[5];
    new_format = true;
    ordered = (flags & 4) != 0;
    at = 6 + ((flags & 0x20) != 0 ? 16 : 0) + ((flags & 0x10) != 0 ? 4 : 0) + (std::size_t{1} << (flags & 3));
  } else if (!first && block.size() >= 8 && std::memcmp(block.data(), "OCHK", 4) == 0) {
    new_format = true;
    at = 4;
  } else if (first) {
    at = 16;
  }
  if (new_format) end -= 4;
  // Only the first block contains the flag `ordered`. So a continuation is parsed both ways.
  for (const bool with_order : {ordered, true}) {
    const std::size_t head = new_format ? (with_order ? 6 : 4) : 8;
    for (std::size_t i = at; i + head <= end;) {
      const unsigned type = new_format ? block[i] : LoadLe<std::uint16_t>(&block[i]);
      const std::size_t size = LoadLe<std::uint16_t>(&block[i + (new_format ? 1 : 2)]);
      if (size > end - i - head) break;
      if (type == kLayout) {
        if (auto data = InLayout(block.subspan(i + head, size))) return CompactData{i + head + data->begin, data->length};
      }
      i += head + size;
    }
    if (first || !new_format) break;
  }
  return std::nullopt;
}

/// Visits all objects of one file.
class Walk {
 public:
  Walk(const ObjectSource& source, bool trust, MapSink& sink) : sink_(sink) {
    file_.source = &source;
    file_.trust = trust;
    file_.on_metadata = [this](H5FD_mem_t type, std::uint64_t begin, std::uint64_t length, ByteSpan bytes) {
      NoteMetadata(type, begin, length, bytes);
    };
    file_.on_raw = [this](std::uint64_t begin, std::uint64_t length) { raw_ = {begin, begin + length}; };
  }

  bool Run();

 private:
  struct Todo {
    std::string path;
    haddr_t address;
  };

  void NoteMetadata(H5FD_mem_t type, std::uint64_t begin, std::uint64_t length, ByteSpan bytes);
  void Visit(hid_t file, const Todo& todo);
  void VisitGroup(hid_t group, const std::string& path);
  void VisitDataset(hid_t dataset);
  void VisitChunks(hid_t dataset, const RawLayout& layout);
  bool VisitChunk(hid_t dataset, const std::vector<hsize_t>& offset, std::uint64_t number);
  void AddCompactData();
  void VisitHeaps(std::optional<Id> file, hid_t properties);
  static hid_t Open(hid_t properties);
  void ReadHeapData(hid_t dataset);
  void LookForNetcdf(hid_t root);
  void Fail() { ++failures_; }

  MapSink& sink_;
  TracedFile file_;
  Interval raw_;
  std::optional<std::uint64_t> superblock_;
  std::uint32_t root_ = 0;
  std::uint32_t object_ = 0;  // the object to which reads of the library are attributed
  std::uint64_t failures_ = 0;
  std::unordered_set<std::uint64_t> noted_;    // offsets of metadata that were added
  std::unordered_set<haddr_t> visited_;
  std::deque<Todo> todo_;
  /// Objects with attributes or elements that may be in global heaps.
  std::vector<std::pair<std::uint32_t, haddr_t>> heaped_;
  /// Blocks of the header of the object that is being opened, if keeps_header_.
  struct HeaderBlock {
    std::uint64_t begin, length;
    std::vector<std::uint8_t> bytes;
  };
  bool keeps_header_ = false;
  std::vector<HeaderBlock> header_;
  bool is_netcdf_ = false;
};

void Walk::NoteMetadata(H5FD_mem_t type, std::uint64_t begin, std::uint64_t length, ByteSpan bytes) {
  if (type == H5FD_MEM_SUPER) {
    // To find the signature, the library also reads in the user block. Such reads are not noted.
    const bool signature = bytes.size() >= kSignature.size() && std::memcmp(bytes.data(), kSignature.data(), kSignature.size()) == 0;
    if (signature) superblock_ = begin;
    if (!superblock_ && !bytes.empty()) return;
    // The library reads the superblock several times, each time with more bytes.
    sink_.AddExtent({.begin = begin, .length = length, .object = object_});
    return;
  }
  if (keeps_header_ && type == H5FD_MEM_OHDR && !bytes.empty()) {
    // True for the rest of a block of which the library has read the first bytes before.
    HeaderBlock* const last = header_.empty() ? nullptr : &header_.back();
    if (last != nullptr && last->bytes.size() < last->length && begin == last->begin + last->bytes.size()) {
      last->bytes.insert(last->bytes.end(), bytes.begin(), bytes.end());
      return;
    }
    header_.push_back({begin, length, {bytes.begin(), bytes.end()}});
  }
  // Metadata that several objects read are attributed to the first of them. Only global heaps are attributed to all.
  const bool shared = type == H5FD_MEM_GHEAP;
  if (shared || noted_.insert(begin).second) sink_.AddExtent({.begin = begin, .length = length, .object = object_}, shared);
}

void Walk::Visit(hid_t file, const Todo& todo) {
  object_ = sink_.AddObject(todo.path);
  const std::uint64_t failures = failures_, refused = file_.refused;
  header_.clear();
  keeps_header_ = true;
  const Id object(H5Oopen_by_addr(file, todo.address), H5Oclose);
  keeps_header_ = false;
  if (!object.ok()) return Fail();
  H5O_info_t info;
  // H5O_INFO_META_SIZE makes the library read all B-trees and heaps of the object, to add up their sizes.
  if (H5Oget_info2(object.get(), &info, H5O_INFO_BASIC | H5O_INFO_NUM_ATTRS | H5O_INFO_META_SIZE) < 0) {
    Fail();
    if (H5Oget_info2(object.get(), &info, H5O_INFO_BASIC) < 0) return;
    info.num_attrs = 1;
  }
  if (info.num_attrs > 0) {
    hsize_t at = 0;
    if (H5Aiterate2(object.get(), H5_INDEX_NAME, H5_ITER_NATIVE, &at, IgnoreAttribute, nullptr) < 0) Fail();
    if (!is_netcdf_ && H5Aexists(object.get(), "_Netcdf4Dimid") > 0) {
      is_netcdf_ = true;
      sink_.SetFormat("netcdf4");
    }
    heaped_.emplace_back(object_, todo.address);
  }
  if (info.type == H5O_TYPE_GROUP) VisitGroup(object.get(), todo.path);
  if (info.type == H5O_TYPE_DATASET) VisitDataset(object.get());
  if (failures == failures_ && refused == file_.refused) sink_.Finish(object_);
}

void Walk::VisitGroup(hid_t group, const std::string& path) {
  if (path == "/") LookForNetcdf(group);
  std::vector<Link> links;
  hsize_t at = 0;
  // Links that were listed before a failure count. Uses the library's own order, because some versions crash over damage
  // when they sort.
  if (H5Literate(group, H5_INDEX_NAME, H5_ITER_NATIVE, &at, NoteLink, &links) < 0) Fail();
  // If an object has several names, the first of the shortest paths is used.
  std::ranges::sort(links, {}, &Link::name);
  for (const Link& link : links) {
    if (visited_.size() >= kMostObjects || path.size() > kMostDepth * 2) return Fail();
    if (!visited_.insert(link.address).second) continue;
    todo_.push_back({path == "/" ? "/" + link.name : path + "/" + link.name, link.address});
  }
}

void Walk::LookForNetcdf(hid_t root) {
  if (H5Aexists(root, "_NCProperties") <= 0) return;
  is_netcdf_ = true;
  sink_.SetFormat("netcdf4");
}

// Whether values are in global heaps: strings and sequences of variable length, and references to regions.
bool IsInHeap(hid_t type, int depth = 0) {
  if (type < 0 || depth > 32) return false;
  if (H5Tis_variable_str(type) > 0) return true;
  switch (H5Tget_class(type)) {
    case H5T_VLEN:
    case H5T_REFERENCE:
      return true;
    case H5T_ARRAY: {
      const Id inner(H5Tget_super(type), H5Tclose);
      return IsInHeap(inner.get(), depth + 1);
    }
    case H5T_COMPOUND: {
      const int members = H5Tget_nmembers(type);
      for (int i = 0; i < members; ++i) {
        const Id member(H5Tget_member_type(type, static_cast<unsigned>(i)), H5Tclose);
        if (IsInHeap(member.get(), depth + 1)) return true;
      }
      return false;
    }
    default:
      return false;
  }
}

void Walk::VisitDataset(hid_t dataset) {
  const Id properties(H5Dget_create_plist(dataset), H5Pclose);
  const Id type(H5Dget_type(dataset), H5Tclose);
  if (!properties.ok() || !type.ok()) return Fail();
  const H5D_layout_t storage = H5Pget_layout(properties.get());
  // The data of a virtual dataset belong to other datasets.
  if (storage == H5D_VIRTUAL) return;
  const Id space(H5Dget_space(dataset), H5Sclose);
  if (!space.ok()) return Fail();
  RawLayout layout;
  layout.element_size = H5Tget_size(type.get());
  const int rank = H5Sget_simple_extent_ndims(space.get());
  if (rank < 0 || rank > H5S_MAX_RANK || layout.element_size == 0) return Fail();
  layout.shape.resize(static_cast<std::size_t>(rank));
  if (rank > 0 && H5Sget_simple_extent_dims(space.get(), reinterpret_cast<hsize_t*>(layout.shape.data()), nullptr) < 0) return Fail();
  if (H5Sget_simple_extent_type(space.get()) == H5S_NULL) return;
  if (IsInHeap(type.get())) {
    // The object is in the list already if it has attributes.
    H5O_info_t info;
    if (H5Oget_info2(dataset, &info, H5O_INFO_BASIC) >= 0 && (heaped_.empty() || heaped_.back().first != object_)) {
      heaped_.emplace_back(object_, info.addr);
    }
  }
  if (storage == H5D_CHUNKED) {
    std::array<hsize_t, H5S_MAX_RANK> chunk{};
    if (rank == 0 || H5Pget_chunk(properties.get(), rank, chunk.data()) != rank) return Fail();
    layout.chunk.assign(chunk.begin(), chunk.begin() + rank);
    layout.filtered = H5Pget_nfilters(properties.get()) > 0;
    if (!IsSound(layout)) return Fail();
    sink_.SetLayout(object_, layout);
    return VisitChunks(dataset, layout);
  }
  sink_.SetLayout(object_, layout);
  if (storage == H5D_COMPACT) return AddCompactData();
  // External data are in other files.
  if (storage != H5D_CONTIGUOUS || H5Pget_external_count(properties.get()) > 0) return;
  const haddr_t begin = H5Dget_offset(dataset);
  if (begin == HADDR_UNDEF) return;
  sink_.AddExtent({.begin = begin, .length = H5Dget_storage_size(dataset), .object = object_, .raw = true});
}

// The data are inside a message of the header. The rest of the header is metadata.
void Walk::AddCompactData() {
  for (std::size_t i = 0; i < header_.size(); ++i) {
    const HeaderBlock& block = header_[i];
    const auto data = FindCompactData(block.bytes, i == 0);
    if (!data || data->length == 0) continue;
    sink_.AddExtent({.begin = block.begin + data->begin, .length = data->length, .object = object_, .raw = true});
    return;
  }
}

// H5Dread_chunk finds a chunk by its place, in any index, and requests it from the driver, which shows its address. The
// driver returns no data, so no buffer of its size is needed.
bool Walk::VisitChunk(hid_t dataset, const std::vector<hsize_t>& offset, std::uint64_t number) {
  hsize_t size = 0;
  if (H5Dget_chunk_storage_size(dataset, offset.data(), &size) < 0) {
    Fail();
    return false;
  }
  if (size == 0) return false;
  raw_ = {};
  std::uint32_t filters = 0;
  std::uint64_t nothing = 0;
  file_.only_place = true;
  if (H5Dread_chunk(dataset, H5P_DEFAULT, offset.data(), &filters, &nothing) < 0) Fail();
  file_.only_place = false;
  if (raw_.end == raw_.begin) return false;
  sink_.AddExtent({.begin = raw_.begin, .length = raw_.end - raw_.begin, .object = object_, .raw = true, .first = number});
  return true;
}

void Walk::VisitChunks(hid_t dataset, const RawLayout& layout) {
  const std::size_t rank = layout.shape.size();
  std::vector<std::uint64_t> grid(rank);
  std::uint64_t places = 1;
  for (std::size_t d = 0; d < rank; ++d) {
    grid[d] = CeilDiv(layout.shape[d], layout.chunk[d]);
    places = SaturatedProduct(places, grid[d]);
  }
  hsize_t chunks = 0;
  const Id space(H5Dget_space(dataset), H5Sclose);
  const bool counted = H5Dget_num_chunks(dataset, space.get(), &chunks) >= 0;
  if (!counted) Fail();
  if ((counted && chunks == 0) || places == 0) return;
  std::vector<hsize_t> offset(rank);
  // Try all places in row-major order, unless there are far more places than chunks.
  if (places <= SaturatedSum(kMostEmptyPlaces, SaturatedProduct(chunks, 4))) {
    std::vector<std::uint64_t> at(rank);
    std::uint64_t found = 0;
    for (std::uint64_t number = 0; number < places; ++number) {
      for (std::size_t d = 0; d < rank; ++d) offset[d] = at[d] * layout.chunk[d];
      found += VisitChunk(dataset, offset, number);
      if (counted && found == chunks) break;
      if (sink_.HasEnough()) break;
      for (std::size_t d = rank; d-- > 0;) {
        if (++at[d] < grid[d]) break;
        at[d] = 0;
      }
    }
    return;
  }
  if (!counted || chunks > kFewChunks) return Fail();
  for (hsize_t i = 0; i < chunks; ++i) {
    haddr_t address = 0;
    hsize_t size = 0;
    unsigned filters = 0;
    if (H5Dget_chunk_info(dataset, space.get(), i, offset.data(), &filters, &address, &size) < 0) {
      Fail();
      continue;
    }
    std::uint64_t number = 0;
    for (std::size_t d = 0; d < rank; ++d) number = number * grid[d] + offset[d] / layout.chunk[d];
    VisitChunk(dataset, offset, number);
  }
}

// Reads all elements of variable length. The driver sees in which heaps they are.
void Walk::ReadHeapData(hid_t dataset) {
  const Id type(H5Dget_type(dataset), H5Tclose);
  const Id properties(H5Dget_create_plist(dataset), H5Pclose);
  if (!type.ok() || !properties.ok() || !IsInHeap(type.get()) || H5Pget_layout(properties.get()) == H5D_VIRTUAL) return;
  if (H5Pget_external_count(properties.get()) > 0) return;
  const Id space(H5Dget_space(dataset), H5Sclose);
  const Id memory_type(H5Tget_native_type(type.get(), H5T_DIR_DEFAULT), H5Tclose);
  const int rank = H5Sget_simple_extent_ndims(space.get());
  const hssize_t points = H5Sget_simple_extent_npoints(space.get());
  if (!space.ok() || !memory_type.ok() || rank < 0 || points <= 0) return;
  std::vector<hsize_t> shape(static_cast<std::size_t>(rank)), start(shape.size()), count;
  if (rank > 0) H5Sget_simple_extent_dims(space.get(), shape.data(), nullptr);
  const std::uint64_t size = H5Tget_size(memory_type.get());
  const std::uint64_t rows = rank == 0 ? 1 : shape[0];
  const std::uint64_t row_bytes = SaturatedProduct(static_cast<std::uint64_t>(points) / rows, size);
  if (row_bytes == 0 || row_bytes > kMostAtOnce) return Fail();
  const std::uint64_t step = kMostAtOnce / row_bytes;
  count = shape;
  std::vector<std::uint8_t> buffer;
  for (std::uint64_t row = 0; row < rows; row += step) {
    const std::uint64_t some = std::min(step, rows - row);
    if (rank > 0) {
      start[0] = row;
      count[0] = some;
      if (H5Sselect_hyperslab(space.get(), H5S_SELECT_SET, start.data(), nullptr, count.data(), nullptr) < 0) return Fail();
    }
    const Id memory(rank > 0 ? H5Screate_simple(rank, count.data(), nullptr) : H5Screate(H5S_SCALAR), H5Sclose);
    buffer.assign(some * row_bytes, 0);
    if (H5Dread(dataset, memory_type.get(), memory.get(), space.get(), H5P_DEFAULT, buffer.data()) < 0) {
      Fail();
      continue;
    }
    H5Dvlen_reclaim(memory_type.get(), memory.get(), H5P_DEFAULT, buffer.data());
    if (sink_.HasEnough()) return;
  }
}

extern "C" herr_t ReadAttribute(hid_t object, const char* name, const H5A_info_t*, void* failures) {
  const Id attribute(H5Aopen(object, name, H5P_DEFAULT), H5Aclose);
  const Id type(H5Aget_type(attribute.get()), H5Tclose);
  if (!attribute.ok() || !type.ok() || !IsInHeap(type.get())) return 0;
  const Id memory_type(H5Tget_native_type(type.get(), H5T_DIR_DEFAULT), H5Tclose);
  const Id space(H5Aget_space(attribute.get()), H5Sclose);
  const hssize_t points = H5Sget_simple_extent_npoints(space.get());
  const std::uint64_t bytes = SaturatedProduct(H5Tget_size(memory_type.get()), points > 0 ? static_cast<std::uint64_t>(points) : 0);
  if (bytes == 0) return 0;
  if (bytes > kMostAtOnce) {
    ++*static_cast<std::uint64_t*>(failures);
    return 0;
  }
  std::vector<std::uint8_t> buffer(bytes);
  if (H5Aread(attribute.get(), memory_type.get(), buffer.data()) < 0) {
    ++*static_cast<std::uint64_t*>(failures);
    return 0;
  }
  H5Dvlen_reclaim(memory_type.get(), space.get(), H5P_DEFAULT, buffer.data());
  return 0;
}

// Runs last, and only if some wanted range still has no object, because it must read raw data. A heap may have values of
// many objects, and the library caches heaps until the file is closed. So the file is opened again for each object.
void Walk::VisitHeaps(std::optional<Id> file, hid_t properties) {
  std::size_t opened = 0;
  for (const auto& [number, address] : heaped_) {
    if (sink_.HasEnough()) return;
    object_ = root_;
    if (++opened <= kMostReopened) {
      file.reset();
      file.emplace(Open(properties), H5Fclose);
      if (!file->ok()) return Fail();
    }
    object_ = number;
    const Id object(H5Oopen_by_addr(file->get(), address), H5Oclose);
    if (!object.ok()) {
      Fail();
      continue;
    }
    hsize_t at = 0;
    if (H5Aiterate2(object.get(), H5_INDEX_NAME, H5_ITER_NATIVE, &at, ReadAttribute, &failures_) < 0) Fail();
    if (H5Iget_type(object.get()) == H5I_DATASET) ReadHeapData(object.get());
  }
}

// A writer that has the file open, or died before closing it, left a mark in the superblock. The mark is ignored, as by
// h5clear. The mode for a second reader would wait until wrong bytes become right.
hid_t Walk::Open(hid_t properties) {
  const hid_t opened = H5Fopen("file", H5F_ACC_RDONLY, properties);
  const hbool_t clear = 1;
  if (opened >= 0 || H5Pset(properties, "clear_status_flags", &clear) < 0) return opened;
  return H5Fopen("file", H5F_ACC_RDONLY, properties);
}

bool Walk::Run() {
  const Id properties(TracingProperties(file_), H5Pclose);
  if (!properties.ok()) return false;
  sink_.SetFormat("hdf5");
  object_ = root_ = sink_.AddObject("/");
  std::optional<Id> file(std::in_place, Open(properties.get()), H5Fclose);
  if (!file->ok()) return false;
  // The bytes before the superblock are not of HDF5: another program uses them.
  if (superblock_.value_or(0) > 0) {
    sink_.AddExtent({.begin = 0, .length = *superblock_, .object = sink_.AddObject("user block"), .raw = true});
  }
  H5O_info_t info;
  if (H5Oget_info_by_name2(file->get(), "/", &info, H5O_INFO_BASIC, H5P_DEFAULT) < 0) return false;
  visited_.insert(info.addr);
  todo_.push_back({"/", info.addr});
  while (!todo_.empty() && !sink_.HasEnough()) {
    const Todo next = std::move(todo_.front());
    todo_.pop_front();
    Visit(file->get(), next);
  }
  if (!sink_.HasEnough()) VisitHeaps(std::move(file), properties.get());
  return failures_ == 0 && file_.refused == 0;
}

}  // namespace

bool IsHdf5(const ObjectSource& source) {
  std::array<std::uint8_t, kSignature.size()> head{};
  for (std::uint64_t at = 0; at + head.size() <= source.size; at = at == 0 ? 512 : at * 2) {
    if (source.read(at, head) && head == kSignature) return true;
  }
  return false;
}

// Plugins are disabled: a hostile file could make the library load code.
bool PrepareHdf5() {
  return H5open() >= 0 && H5PLset_loading_state(0) >= 0 && H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr) >= 0;
}

bool MapHdf5(const ObjectSource& source, bool trust, MapSink& sink) {
  return Walk(source, trust, sink).Run();
}

}  // namespace lzy
