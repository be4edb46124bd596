#include "objects/cdf.h"

#include <array>
#include <optional>
#include <string>

#include "base/numbers.h"

namespace lzy {
namespace {

// Tags of lists.
constexpr std::uint32_t kDimensions = 0x0A, kVariables = 0x0B, kAttributes = 0x0C;
constexpr std::uint64_t kMostEntries = 10'000'000;
constexpr std::uint64_t kMostName = 4096;
constexpr std::size_t kMostRank = 1024;

// Bytes of an element of each type: byte, char, short, int, float, double; CDF-5: ubyte, ushort, uint, int64, uint64.
std::uint64_t ElementSize(std::uint64_t type) {
  constexpr std::array<std::uint64_t, 12> kSizes = {0, 1, 1, 2, 4, 4, 8, 1, 2, 4, 8, 8};
  return type < kSizes.size() ? kSizes[type] : 0;
}

struct Dimension {
  std::uint64_t length = 0;  // 0: the record dimension
};

struct Variable {
  std::string name;
  std::uint64_t entry = 0, entry_end = 0;  // in the header
  std::vector<std::uint64_t> shape;        // of one record, if it has records
  bool has_records = false;
  std::uint64_t element_size = 0;
  std::uint64_t begin = 0;
  std::uint64_t elements = 1;  // of one record, or all

  std::uint64_t bytes() const { return SaturatedProduct(elements, element_size); }
};

class Parser {
 public:
  Parser(const ObjectSource& source, bool trust) : source_(source), trust_(trust) {}

  // If this fails, the part that was read before is kept.
  bool Header() {
    const auto magic = Bytes(4);
    if (!ok_ || !IsCdf(ByteSpan(reinterpret_cast<const std::uint8_t*>(magic.data()), 4))) return false;
    version_ = magic[3];
    records_ = Size();
    // A writer that died before it knew the number leaves all bits set.
    streaming_ = records_ == (version_ == 5 ? ~std::uint64_t{0} : 0xFFFFFFFFu);
    for (std::uint64_t n = ListOf(kDimensions); n > 0 && ok_; --n) {
      Name();
      dimensions_.push_back({Size()});
    }
    SkipAttributes();
    for (std::uint64_t n = ListOf(kVariables); n > 0 && ok_; --n) ReadVariable();
    return ok_;
  }

  void Fill(MapSink& sink) const;

 private:
  void ReadVariable() {
    Variable variable;
    variable.entry = at_;
    variable.name = Name();
    variable.name.insert(0, 1, '/');
    const std::uint64_t rank = Size();
    if (rank > kMostRank) ok_ = false;
    for (std::uint64_t d = 0; d < rank && ok_; ++d) {
      const std::uint64_t id = Size();
      if (id >= dimensions_.size()) ok_ = false;
      if (!ok_) break;
      const std::uint64_t length = dimensions_[id].length;
      if (length == 0 && d == 0) {
        variable.has_records = true;
        continue;
      }
      variable.shape.push_back(length);
      variable.elements = SaturatedProduct(variable.elements, length);
    }
    SkipAttributes();
    variable.element_size = ElementSize(Number(4));
    Size();  // vsize, which is too small a field for large variables
    variable.begin = Number(version_ == 1 ? 4 : 8);
    variable.entry_end = at_;
    if (variable.element_size == 0) ok_ = false;
    if (ok_) variables_.push_back(std::move(variable));
  }

  void SkipAttributes() {
    for (std::uint64_t n = ListOf(kAttributes); n > 0 && ok_; --n) {
      Name();
      const std::uint64_t size = ElementSize(Number(4));
      if (size == 0) ok_ = false;
      Skip(SaturatedProduct(size, Size()));
    }
  }

  // How many entries a list has. An absent one is two zeros.
  std::uint64_t ListOf(std::uint32_t tag) {
    const std::uint64_t found = Number(4);
    const std::uint64_t count = Size();
    if (found != tag && (found != 0 || count != 0)) ok_ = false;
    if (count > kMostEntries) ok_ = false;
    return ok_ ? count : 0;
  }

  std::string Name() {
    const std::uint64_t length = Size();
    if (length > kMostName) ok_ = false;
    if (!ok_) return "";
    std::string name = Bytes(length);
    Skip(0, length);
    return name;
  }

  // Values and names are padded to a multiple of 4.
  void Skip(std::uint64_t length, std::uint64_t before = 0) {
    const std::uint64_t padded = SaturatedSum(length, (4 - (SaturatedSum(length, before) % 4)) % 4);
    if (!ok_ || padded > source_.size || at_ > source_.size - padded || IsRefused(at_, padded)) {
      ok_ = false;
      return;
    }
    at_ += padded;
  }

  std::uint64_t Size() { return Number(version_ == 5 ? 8 : 4); }

  std::uint64_t Number(std::size_t width) {
    std::uint64_t value = 0;
    for (const char byte : Bytes(width)) value = value << 8 | static_cast<std::uint8_t>(byte);
    return value;
  }

  bool IsRefused(std::uint64_t offset, std::uint64_t length) const { return !trust_ && source_.IsWrong(offset, length); }

  // Reads from a window of the file, which moves on.
  std::string Bytes(std::uint64_t length) {
    if (!ok_ || at_ > source_.size || length > source_.size - at_ || IsRefused(at_, length)) ok_ = false;
    if (ok_ && (at_ < window_at_ || at_ + length > window_at_ + window_.size())) {
      window_.resize(std::min<std::uint64_t>(std::max<std::uint64_t>(length, kWindow), source_.size - at_));
      window_at_ = at_;
      // An unreadable sector must not hide the bytes before it.
      if (!source_.read(at_, window_)) {
        window_.resize(length);
        ok_ = source_.read(at_, window_);
      }
    }
    if (!ok_) return "";
    const auto from = window_.begin() + static_cast<std::ptrdiff_t>(at_ - window_at_);
    at_ += length;
    return {from, from + static_cast<std::ptrdiff_t>(length)};
  }

  static constexpr std::uint64_t kWindow = std::uint64_t{1} << 16;
  const ObjectSource& source_;
  const bool trust_;
  bool ok_ = true;
  std::uint64_t at_ = 0;
  std::vector<std::uint8_t> window_;
  std::uint64_t window_at_ = 0;
  int version_ = 0;
  std::uint64_t records_ = 0;
  bool streaming_ = false;
  std::vector<Dimension> dimensions_;
  std::vector<Variable> variables_;
};

void Parser::Fill(MapSink& sink) const {
  sink.SetFormat("cdf");
  const std::uint32_t header = sink.AddObject("/");
  // The header, up to the entries of variables. Includes a part that could not be parsed, if its beginning is known.
  const std::uint64_t head_end = variables_.empty() ? at_ : variables_.front().entry;
  if (head_end > 0) sink.AddExtent({.begin = 0, .length = head_end, .object = header});
  const bool broken = !ok_;
  // Records of all variables take turns. A single variable of records is not padded.
  std::uint64_t record_bytes = 0, record_variables = 0, first_record = ~std::uint64_t{0};
  for (const Variable& variable : variables_) {
    if (!variable.has_records) continue;
    ++record_variables;
    record_bytes = SaturatedSum(record_bytes, SaturatedSum(variable.bytes(), (4 - variable.bytes() % 4) % 4));
    first_record = std::min(first_record, variable.begin);
  }
  if (record_variables == 1) {
    for (const Variable& variable : variables_) record_bytes = variable.has_records ? variable.bytes() : record_bytes;
  }
  // If variables are missing, the distance of records is not known.
  const bool knows_records = !broken && record_bytes > 0;
  std::uint64_t records = records_;
  if (streaming_ && knows_records) records = source_.size > first_record ? CeilDiv(source_.size - first_record, record_bytes) : 0;
  std::uint64_t data_begin = source_.size;
  for (const Variable& variable : variables_) data_begin = std::min(data_begin, variable.begin);
  for (const Variable& variable : variables_) {
    const std::uint32_t object = sink.AddObject(variable.name);
    sink.AddExtent({.begin = variable.entry, .length = variable.entry_end - variable.entry, .object = object});
    if (variable.bytes() == 0 || (variable.has_records && (!knows_records || records == 0))) continue;
    RawLayout layout{variable.element_size, variable.shape, {}, false};
    if (variable.has_records) layout.shape.insert(layout.shape.begin(), records);
    sink.SetLayout(object, layout);
    ObjectExtent extent{.begin = variable.begin, .length = variable.bytes(), .object = object, .raw = true};
    if (variable.has_records) {
      extent.stride = record_bytes;
      extent.count = records;
    }
    sink.AddExtent(extent);
    sink.Finish(object);
  }
  // The rest of a header that is broken is header, up to the first data that are known.
  const std::uint64_t parsed = variables_.empty() ? head_end : variables_.back().entry_end;
  if (broken && parsed < data_begin && !variables_.empty()) {
    sink.AddExtent({.begin = parsed, .length = data_begin - parsed, .object = header});
  } else if (broken) {
    sink.AddExtent({.begin = parsed, .length = 1, .object = header});
  }
}

}  // namespace

bool IsCdf(ByteSpan head) {
  return head.size() >= 4 && head[0] == 'C' && head[1] == 'D' && head[2] == 'F' && (head[3] == 1 || head[3] == 2 || head[3] == 5);
}

bool MapCdf(const ObjectSource& source, bool trust, MapSink& sink) {
  Parser parser(source, trust);
  const bool whole = parser.Header();
  parser.Fill(sink);
  return whole;
}

}  // namespace lzy
