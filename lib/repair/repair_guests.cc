#include "repair/repair_guests.h"

#include <utility>

// Both directions of the exchange: what an owner sends (DescribeOwn), and what another rank does with it (TakeGuest). After any
// failure, the ranks repair the members by messages (ShareOnNode), as they do on several nodes.

namespace lzy {
namespace {

// Describes `file`, which may be null.
Status DescribeIfOpen(File* file, std::optional<OpenedFile>& told) {
  if (file == nullptr) return Status::Ok();
  LZY_ASSIGN_OR_RETURN(told, DescribeFile(*file));
  return Status::Ok();
}

std::uint64_t LeavesOf(const BlockStream& stream) {
  return stream.expected == nullptr ? 0 : stream.expected->leaf_count();
}

Status DescribeBlocks(const BlockStream& stream, const RepairOutput& output, ToldBlocks& told) {
  LZY_RETURN_IF_ERROR(DescribeIfOpen(stream.file, told.in));
  LZY_RETURN_IF_ERROR(DescribeIfOpen(output.file, told.out));
  told.in_base = stream.base;
  told.out_base = output.base;
  told.has_tree = stream.expected != nullptr;
  if (told.has_tree) told.tree = {stream.expected->bytes(), LeavesOf(stream) == 0 ? std::vector<Hash>() : stream.expected->NodesOf(0)};
  told.expected = output.expected != nullptr;
  return Status::Ok();
}

// Describes this rank's members for the others. Every rank holds the leaves of all members; if these need more than a
// quarter of option memory, the members are not shared.
Status DescribeOwn(const Context& context, const Layout& layout, int ranks, const std::vector<bool>& own, const RowStreams& streams,
                   const std::vector<RepairOutputs*>& outputs, std::vector<ToldMember>& told) {
  std::uint64_t leaves = 0;
  for (std::uint32_t f = 0; f < layout.files(); ++f) {
    if (!own[f]) continue;
    leaves += LeavesOf(streams.data[f]) + LeavesOf(streams.parity[f]);
    if (leaves * sizeof(Hash) * static_cast<std::uint64_t>(ranks) > context.options.memory / 4) {
      return {Code::kNoMemory, "too many leaves for all ranks to have them"};
    }
    ToldMember& one = told.emplace_back();
    one.file = f;
    LZY_RETURN_IF_ERROR(DescribeBlocks(streams.data[f], outputs[f]->data, one.data));
    LZY_RETURN_IF_ERROR(DescribeBlocks(streams.parity[f], outputs[f]->parity, one.parity));
  }
  return Status::Ok();
}

}  // namespace

void RepairOutputs::MakeRoom(const Layout& layout, std::uint32_t file, const ScratchMaker& scratch) {
  for (const bool of_parity : {false, true}) {
    RepairOutput& output = of(of_parity);
    if (output.expected == nullptr) output.leaves.Init(layout.Blocks(of_parity, file), scratch);
  }
}

Status RepairGuests::OpenTold(const std::optional<OpenedFile>& told, FileSystem& fs, Guest& guest, OpenMode mode, File*& file) {
  if (!told) return Status::Ok();
  LZY_ASSIGN_OR_RETURN(auto opened, OpenTheSame(*told, fs, mode));
  file = opened.get();
  guest.files.push_back(std::move(opened));
  return Status::Ok();
}

Status RepairGuests::OpenBlocks(const ToldBlocks& told, TreeKind kind, FileSystem& fs, Guest& guest, std::optional<Tree>& tree,
                                RepairOutput& output, File*& in) {
  LZY_RETURN_IF_ERROR(OpenTold(told.in, fs, guest, OpenMode::kRead, in));
  LZY_RETURN_IF_ERROR(OpenTold(told.out, fs, guest, OpenMode::kReadWrite, output.file));
  if (told.has_tree) tree = Tree::Build(kind, told.tree.leaves, told.tree.bytes);
  output.base = told.out_base;
  if (told.expected && tree) output.expected = &*tree;
  return Status::Ok();
}

Status RepairGuests::TakeGuest(const Context& context, const Layout& layout, const std::vector<bool>& own, std::vector<bool>& known,
                               const ToldMember& told) {
  // A record from another process may be wrong: it must not replace an open member, nor name a file that does not exist.
  const std::uint32_t f = told.file;
  if (f >= layout.files() || own[f] || known[f]) return {Code::kInternal, "a member that is known already"};
  known[f] = true;
  Guest& guest = guests_[f];
  const LeafKey* key = context.options.key.get();
  File* data = nullptr;
  File* parity = nullptr;
  LZY_RETURN_IF_ERROR(OpenBlocks(told.data, TreeKind::kData, context.fs, guest, guest.data_tree, guest.outputs.data, data));
  LZY_RETURN_IF_ERROR(
      OpenBlocks(told.parity, TreeKind::kParity, context.fs, guest, guest.parity_tree, guest.outputs.parity, parity));
  guest.outputs.MakeRoom(layout, f, {});
  guest.data = DataStream(layout, f, data, guest.data_tree ? &*guest.data_tree : nullptr, key);
  guest.parity = ParityStream(layout, f, parity, told.parity.in_base, guest.parity_tree ? &*guest.parity_tree : nullptr, key);
  return Status::Ok();
}

Result<bool> RepairGuests::Open(const Context& context, const Layout& layout, Communicator& comm,
                                const std::vector<bool>& own, RowStreams& streams, std::vector<RepairOutputs*>& outputs) {
  if (comm.size() == 1 || !context.share_page_cache) return false;
  guests_.resize(layout.files());
  std::vector<bool> told(layout.files());
  const auto tell = [&](std::vector<ToldMember>& out) { return DescribeOwn(context, layout, comm.size(), own, streams, outputs, out); };
  const auto take = [&](const ToldMember& one) { return TakeGuest(context, layout, own, told, one); };
  LZY_ASSIGN_OR_RETURN(const bool shared, ShareOnNode<ToldMember>(comm, tell, take));
  if (!shared) {
    guests_.clear();  // the process may be short of descriptors
    return false;
  }
  for (std::uint32_t f = 0; f < layout.files(); ++f) {
    if (!told[f]) continue;
    streams.data[f] = guests_[f].data;
    streams.parity[f] = guests_[f].parity;
    outputs[f] = &guests_[f].outputs;
  }
  return true;
}

}  // namespace lzy
