#pragma once
// What a new sidecar says about its file, and making one from nothing for a file that has none.
//
// commit/protect* fill in sidecars by the first functions here. copy/ uses FreshSidecar, since a copy knows that there
// is nothing to judge: each block of the data is new. Everything here is local to one rank.

#include <memory>
#include <optional>
#include <string>

#include "encode/encode.h"
#include "request/context.h"
#include "sidecar/sidecar.h"

namespace lzy {

/// Makes room for the leaves of file `f` of the layout, and fills in what follows from layout, options and job: of
/// job.before, the stamp. The trees have their size then, not their leaves.
void FillShape(FileSystem& fs, const Options& options, DatasetKind kind, const Layout& layout, std::uint32_t f,
               FileJob& job, SidecarContents& contents);
/// The rest of that for a shared file of the base name `name`, but for uuid, generation and parts.
void FillSharedShape(const Layout& layout, const std::string& name, const FileJob& job, SidecarContents& contents);
/// What a sidecar records of a member. Roots are filled in when they are known.
MemberRecord RecordOf(std::uint32_t rank, const FileStat& stat, std::uint64_t parity_size, const std::string& domain);
/// Takes the trees of a shared file's job, fills in the roots that follow from them, and the time.
void FillSharedRoots(FileJob& job, SidecarContents& contents);

/// The first sidecar of a shared file, built under the name `path`. Call Begin, Encode and Finish in this order. The
/// caller gives the file its name, and removes it if anything fails.
class FreshSidecar {
 public:
  /// `data` is what will be read and described: each block once, by several threads; its Stat() is the stamp. Access to
  /// the sidecar is no wider than to `like`. `name`: base name of the data file. All must outlive it.
  FreshSidecar(const Context& context, const Options& options, File& data, File& like, std::string name,
               std::string path)
      : context_(context),
        options_(options),
        data_(data),
        like_(like),
        name_(std::move(name)),
        path_(std::move(path)),
        pass_(context) {}

  /// Creates the file. Before it, nothing of that name is touched.
  Status Begin();
  /// Reads the data, and writes the parity.
  Status Encode();
  /// Writes the metadata. All of the file is durable then. Call it when the data are.
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
