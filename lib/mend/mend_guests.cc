#include "mend/mend_guests.h"

#include <utility>

namespace lzy {
namespace {

// A file that may not be there.
Status TellMaybe(File* file, std::optional<OpenedFile>& told) {
  if (file == nullptr) return Status::Ok();
  LZY_ASSIGN_OR_RETURN(told, TellFile(*file));
  return Status::Ok();
}

std::optional<ToldTree> TellTree(const Tree* tree) {
  if (tree == nullptr) return std::nullopt;
  return ToldTree{tree->bytes(), tree->leaf_count() == 0 ? std::vector<Hash>() : tree->levels()[0]};
}

std::optional<Tree> TakeTree(TreeKind kind, const std::optional<ToldTree>& told) {
  if (!told) return std::nullopt;
  return Tree::Build(kind, told->leaves, told->bytes);
}

std::uint64_t LeavesOf(const BlockStream& stream) {
  return stream.expected == nullptr ? 0 : stream.expected->leaf_count();
}

// Leaves are held by every rank. If those of all ranks took more than a quarter of the memory, the members are not
// shared.
// What a rank has open of its own members, for the others.
Status TellOwn(const Context& context, const Layout& layout, int ranks, const std::vector<bool>& own, const RowStreams& streams,
               const std::vector<MendOutputs*>& outputs, std::vector<ToldMember>& told) {
  std::uint64_t leaves = 0;
  for (std::uint32_t f = 0; f < layout.files(); ++f) {
    if (!own[f]) continue;
    leaves += LeavesOf(streams.data[f]) + LeavesOf(streams.parity[f]);
    if (leaves * sizeof(Hash) * static_cast<std::uint64_t>(ranks) > context.options.memory / 4) {
      return {Code::kNoMemory, "too many leaves for all ranks to have them"};
    }
    ToldMember& one = told.emplace_back();
    one.file = f;
    LZY_RETURN_IF_ERROR(TellMaybe(streams.data[f].file, one.data));
    LZY_RETURN_IF_ERROR(TellMaybe(streams.parity[f].file, one.parity));
    one.base = streams.parity[f].base;
    one.data_tree = TellTree(streams.data[f].expected);
    one.parity_tree = TellTree(streams.parity[f].expected);
    LZY_RETURN_IF_ERROR(TellMaybe(outputs[f]->data, one.data_out));
    LZY_RETURN_IF_ERROR(TellMaybe(outputs[f]->parity, one.parity_out));
    one.out_base = outputs[f]->parity_base;
    one.data_expected = outputs[f]->data_expected != nullptr;
    one.parity_expected = outputs[f]->parity_expected != nullptr;
  }
  return Status::Ok();
}

}  // namespace

void MendOutputs::MakeRoom(const Layout& layout, std::uint32_t file) {
  if (data_expected == nullptr) {
    data_leaves.resize(layout.data_blocks(file));
    data_known.resize(data_leaves.size());
  }
  if (parity_expected == nullptr) {
    parity_leaves.resize(layout.parity_blocks(file));
    parity_known.resize(parity_leaves.size());
  }
}

Status MendGuests::OpenTold(const std::optional<OpenedFile>& told, FileSystem& fs, Guest& guest, OpenMode mode, File*& file) {
  if (!told) return Status::Ok();
  LZY_ASSIGN_OR_RETURN(auto opened, OpenTheSame(*told, fs, mode));
  file = opened.get();
  guest.files.push_back(std::move(opened));
  return Status::Ok();
}

Status MendGuests::TakeGuest(const Context& context, const Layout& layout, const std::vector<bool>& own, std::vector<bool>& known,
                             const ToldMember& told) {
  const std::uint32_t f = told.file;
  if (f >= layout.files() || own[f] || known[f]) return {Code::kInternal, "a member that is known already"};
  known[f] = true;
  Guest& guest = guests_[f];
  MendOutputs& to = guest.outputs;
  File* data = nullptr;
  File* parity = nullptr;
  LZY_RETURN_IF_ERROR(OpenTold(told.data, context.fs, guest, OpenMode::kRead, data));
  LZY_RETURN_IF_ERROR(OpenTold(told.parity, context.fs, guest, OpenMode::kRead, parity));
  LZY_RETURN_IF_ERROR(OpenTold(told.data_out, context.fs, guest, OpenMode::kReadWrite, to.data));
  LZY_RETURN_IF_ERROR(OpenTold(told.parity_out, context.fs, guest, OpenMode::kReadWrite, to.parity));
  guest.data_tree = TakeTree(TreeKind::kData, told.data_tree);
  guest.parity_tree = TakeTree(TreeKind::kParity, told.parity_tree);
  const Tree* data_tree = guest.data_tree ? &*guest.data_tree : nullptr;
  const Tree* parity_tree = guest.parity_tree ? &*guest.parity_tree : nullptr;
  to.parity_base = told.out_base;
  if (told.data_expected) to.data_expected = data_tree;
  if (told.parity_expected) to.parity_expected = parity_tree;
  to.MakeRoom(layout, f);
  guest.data = DataStream(layout, f, data, data_tree, context.options.key.get());
  guest.parity = ParityStream(layout, f, parity, told.base, parity_tree, context.options.key.get());
  return Status::Ok();
}

Result<bool> MendGuests::Open(const Context& context, const Layout& layout, Communicator& comm,
                              const std::vector<bool>& own, RowStreams& streams, std::vector<MendOutputs*>& outputs) {
  if (comm.size() == 1 || !context.share_page_cache) return false;
  guests_.resize(layout.files());
  std::vector<bool> told(layout.files());
  const auto tell = [&](std::vector<ToldMember>& out) { return TellOwn(context, layout, comm.size(), own, streams, outputs, out); };
  const auto take = [&](const ToldMember& one) { return TakeGuest(context, layout, own, told, one); };
  LZY_ASSIGN_OR_RETURN(const bool shared, ShareOnNode<ToldMember>(comm, tell, take));
  if (!shared) {
    guests_.clear();  // descriptors may be what is short
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
