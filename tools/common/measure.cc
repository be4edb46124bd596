#include "common/measure.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "base/bytes.h"
#include "erasure/codec.h"
#include "storage/parallel.h"

namespace lzy {
namespace {

constexpr std::uint64_t kMostBytes = 256u << 20;
constexpr std::uint64_t kLeastFree = 64u << 20;
constexpr std::size_t kPiece = 4u << 20;
constexpr double kMostSeconds = 3;
// Fills it with data that cannot be compressed, because some file systems compress.
AlignedBuffer MakeBuffer(std::size_t bytes) {
  AlignedBuffer buffer(bytes);
  std::mt19937_64 random(1);
  for (std::size_t i = 0; i < bytes; i += 8) StoreLe(buffer.data() + i, static_cast<std::uint64_t>(random()));
  return buffer;
}

double Since(std::chrono::steady_clock::time_point begin) {
  return std::max(1e-9, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
}

Status MeasureFile(FileSystem& fs, const std::string& directory, MeasuredRates& out) {
  const std::string path = fmt::format("{}/.lzy-plan.{}", directory, getpid());
  LZY_ASSIGN_OR_RETURN(const std::unique_ptr<File> file, fs.Open(path, OpenMode::kCreateNew, false));
  LZY_RETURN_IF_ERROR(fs.Remove(path));
  AlignedBuffer buffer = MakeBuffer(kPiece);
  auto begin = std::chrono::steady_clock::now();
  while (out.bytes < kMostBytes && (out.bytes == 0 || Since(begin) < kMostSeconds)) {
    LZY_RETURN_IF_ERROR(file->WriteAt(out.bytes, {buffer.data(), kPiece}));
    out.bytes += kPiece;
  }
  LZY_RETURN_IF_ERROR(file->Sync());
  out.write = static_cast<double>(out.bytes) / Since(begin);
  begin = std::chrono::steady_clock::now();
  std::uint64_t read = 0;
  while (read < out.bytes && (read == 0 || Since(begin) < kMostSeconds)) {
    LZY_ASSIGN_OR_RETURN(const std::size_t got, file->ReadAtUncached(read, {buffer.data(), kPiece}));
    if (got == 0) return {Code::kIo, fmt::format("{}: ends early at offset {}", path, read)};
    read += got;
  }
  out.read = static_cast<double>(read) / Since(begin);
  return Status::Ok();
}

// Data bytes a second, for one parity: with two, each byte counts twice.
Status MeasureParity(MeasuredRates& out) {
  constexpr std::uint32_t kDevices = 8, kParity = 2;
  constexpr std::size_t kLength = 4u << 20;  // from memory, not from caches
  LZY_ASSIGN_OR_RETURN(const Codec codec, Codec::Create(kDevices, kParity));
  LZY_ASSIGN_OR_RETURN(const Plan plan, codec.EncodePlan());
  AlignedBuffer buffer = MakeBuffer(kDevices * kLength);
  std::vector<std::uint32_t> which(kDevices - kParity);
  std::iota(which.begin(), which.end(), 0u);
  std::vector<const std::uint8_t*> inputs;
  std::vector<std::uint8_t*> outputs;
  for (std::size_t i = 0; i < kDevices; ++i) {
    std::uint8_t* const at = buffer.data() + i * kLength;
    i < which.size() ? inputs.push_back(at) : outputs.push_back(at);
  }
  double bytes = 0;
  const auto begin = std::chrono::steady_clock::now();
  while (Since(begin) < 0.1) {
    plan.Apply(which, inputs.data(), outputs.data(), kLength, false);
    bytes += static_cast<double>(which.size() * kLength * kParity);
  }
  out.parity = bytes / Since(begin);
  return Status::Ok();
}

}  // namespace

Result<MeasuredRates> MeasureRates(FileSystem& fs, const std::string& directory) {
  if (!IsDirectory(fs, directory)) {
    return Status(Code::kInvalidArgument, fmt::format("--measure: '{}' is not accepted: a directory that exists", directory));
  }
  const auto free = fs.FreeBytes(directory);
  if (free.ok() && *free < kLeastFree) {
    return Status(Code::kInvalidArgument, fmt::format("--measure: '{}' is not accepted: only {} bytes are free there; at least {} are needed",
                                                      directory, *free, kLeastFree));
  }
  MeasuredRates out;
  LZY_RETURN_IF_ERROR(MeasureFile(fs, directory, out));
  LZY_RETURN_IF_ERROR(MeasureParity(out));
  return out;
}

}  // namespace lzy
