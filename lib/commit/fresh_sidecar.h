#pragma once
// The contents of a new sidecar, and FreshSidecar, which makes the first sidecar of a file.
//
// commit/protect* use the Fill functions. copy/ uses FreshSidecar: a copy has no committed state to judge. Everything here
// is local to one rank.

#include <memory>
#include <optional>
#include <string>

#include "encode/encode.h"
#include "request/context.h"
#include "sidecar/sidecar.h"

namespace lzy {

/// Prepares `job` for the leaves of file `f` of the layout. Fills in the fields of `contents` that follow from layout,
/// options and job; job.before becomes the stamp. The trees get their size, but no leaves.
void FillShape(FileSystem& fs, const Options& options, DatasetKind kind, const Layout& layout, std::uint32_t f,
               FileJob& job, SidecarContents& contents);
/// Fills in the remaining fields for a shared file with base name `name`, except uuid, generation and parts.
void FillSharedShape(const Layout& layout, const std::string& name, const FileJob& job, SidecarContents& contents);
/// The record of a member in a sidecar. The caller sets the roots when they are known.
MemberRecord RecordOf(std::uint32_t rank, const FileStat& stat, std::uint64_t parity_size, const std::string& domain);
/// Moves the trees of a shared file's job into `contents`, and sets the roots and the time of the commit.
void FillSharedRoots(FileJob& job, SidecarContents& contents);

/// Makes the first sidecar of a shared file, under the temporary name `path`. Call Begin, Encode and Finish in this order.
/// The caller renames the sidecar, and removes it if anything fails.
class FreshSidecar {
 public:
  /// `data` is read once, by several threads; its Stat() becomes the stamp. The sidecar gets no wider access than `like`
  /// has. `name` is the base name of the data file. All arguments must outlive this object.
  FreshSidecar(const Context& context, const Options& options, File& data, File& like, std::string name,
               std::string path)
      : context_(context),
        options_(options),
        data_(data),
        like_(like),
        name_(std::move(name)),
        path_(std::move(path)),
        pass_(context) {}

  /// Creates the sidecar file. The constructor touches no file.
  Status Begin();
  /// Reads the data, and writes the parity.
  Status Encode();
  /// Writes the metadata and makes the whole sidecar durable. Call it when the data are durable.
  Status Finish();

  const SidecarContents& contents() const { return contents_; }

 private:
  const Context& context_;
  Options options_;
  File& data_;
  File& like_;
  const std::string name_;
  const std::string path_;
  EncodePass pass_;
  FileJob job_;
  std::optional<Layout> layout_;
  SidecarContents contents_;
  std::unique_ptr<Sidecar> sidecar_;
};

}  // namespace lzy
