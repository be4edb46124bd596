#include "mend/mend_guests.h"

#include <utility>

#include "encode/node_files.h"

namespace lzy {
namespace {

// A file that may not be there.
Status PutMaybe(ByteWriter& out, File* file) {
  out.Put<std::uint8_t>(file != nullptr);
  return file != nullptr ? PutOpenFile(out, *file) : Status::Ok();
}

void PutTree(ByteWriter& out, const Tree* tree) {
  out.Put<std::uint8_t>(tree != nullptr);
  if (tree == nullptr) return;
  out.Put(tree->bytes());
  out.Put(tree->leaf_count());
  for (std::uint64_t i = 0; i < tree->leaf_count(); ++i) out.PutBytes(tree->leaf(i).bytes);
}

Status TakeTree(ByteReader& in, TreeKind kind, std::optional<Tree>& tree) {
  if (in.Get<std::uint8_t>() == 0) return Status::Ok();
  const auto bytes = in.Get<std::uint64_t>();
  const auto count = in.Get<std::uint64_t>();
  if (!in.ok() || count > in.remaining() / sizeof(Hash::bytes)) return {Code::kInternal, "leaves of a rank are malformed"};
  std::vector<Hash> leaves(count);
  for (Hash& leaf : leaves) {
    const ByteSpan raw = in.GetBytes(leaf.bytes.size());
    std::copy(raw.begin(), raw.end(), leaf.bytes.begin());
  }
  tree = Tree::Build(kind, std::move(leaves), bytes);
  return Status::Ok();
}

std::uint64_t LeavesOf(const BlockStream& stream) {
  return stream.expected == nullptr ? 0 : stream.expected->leaf_count();
}

// What a rank has open of its own members, for the others.
Status TellOwn(const Context& context, const Layout& layout, int ranks, const std::vector<bool>& own, const RowStreams& streams,
               const std::vector<MendOutputs*>& outputs, ByteWriter& out) {
  std::uint64_t leaves = 0;
  for (std::uint32_t f = 0; f < layout.files(); ++f) {
    if (!own[f]) continue;
    leaves += LeavesOf(streams.data[f]) + LeavesOf(streams.parity[f]);
    if (leaves * sizeof(Hash) * static_cast<std::uint64_t>(ranks) > context.options.memory / 4) {
      return {Code::kNoMemory, "too many leaves for all ranks to have them"};
    }
    out.Put(f);
    LZY_RETURN_IF_ERROR(PutMaybe(out, streams.data[f].file));
    LZY_RETURN_IF_ERROR(PutMaybe(out, streams.parity[f].file));
    out.Put(streams.parity[f].base);
    PutTree(out, streams.data[f].expected);
    PutTree(out, streams.parity[f].expected);
    LZY_RETURN_IF_ERROR(PutMaybe(out, outputs[f]->data));
    LZY_RETURN_IF_ERROR(PutMaybe(out, outputs[f]->parity));
    out.Put(outputs[f]->parity_base);
    out.Put<std::uint8_t>(outputs[f]->data_expected != nullptr);
    out.Put<std::uint8_t>(outputs[f]->parity_expected != nullptr);
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

Status MendGuests::OpenTold(ByteReader& in, FileSystem& fs, Guest& guest, OpenMode mode, File*& file) {
  if (in.Get<std::uint8_t>() == 0) return Status::Ok();
  LZY_ASSIGN_OR_RETURN(auto opened, OpenTheSame(in, fs, mode));
  file = opened.get();
  guest.files.push_back(std::move(opened));
  return Status::Ok();
}

Status MendGuests::TakeGuest(const Context& context, const Layout& layout, const std::vector<bool>& own, std::vector<bool>& told,
                             ByteReader& in) {
  const auto f = in.Get<std::uint32_t>();
  if (!in.ok() || f >= layout.files() || own[f] || told[f]) return {Code::kInternal, "what a rank tells is malformed"};
  told[f] = true;
  Guest& guest = guests_[f];
  MendOutputs& to = guest.outputs;
  File* data = nullptr;
  File* parity = nullptr;
  LZY_RETURN_IF_ERROR(OpenTold(in, context.fs, guest, OpenMode::kRead, data));
  LZY_RETURN_IF_ERROR(OpenTold(in, context.fs, guest, OpenMode::kRead, parity));
  const auto base = in.Get<std::uint64_t>();
  LZY_RETURN_IF_ERROR(TakeTree(in, TreeKind::kData, guest.data_tree));
  LZY_RETURN_IF_ERROR(TakeTree(in, TreeKind::kParity, guest.parity_tree));
  LZY_RETURN_IF_ERROR(OpenTold(in, context.fs, guest, OpenMode::kReadWrite, to.data));
  LZY_RETURN_IF_ERROR(OpenTold(in, context.fs, guest, OpenMode::kReadWrite, to.parity));
  to.parity_base = in.Get<std::uint64_t>();
  if (in.Get<std::uint8_t>() != 0 && guest.data_tree) to.data_expected = &*guest.data_tree;
  if (in.Get<std::uint8_t>() != 0 && guest.parity_tree) to.parity_expected = &*guest.parity_tree;
  if (!in.ok()) return {Code::kInternal, "what a rank tells is malformed"};
  to.MakeRoom(layout, f);
  guest.data = DataStream(layout, f, data, guest.data_tree ? &*guest.data_tree : nullptr, context.options.key.get());
  guest.parity =
      ParityStream(layout, f, parity, base, guest.parity_tree ? &*guest.parity_tree : nullptr, context.options.key.get());
  return Status::Ok();
}

Result<bool> MendGuests::Open(const Context& context, const Layout& layout, Communicator& comm,
                              const std::vector<bool>& own, RowStreams& streams, std::vector<MendOutputs*>& outputs) {
  if (comm.size() == 1 || !context.share_page_cache) return false;
  guests_.resize(layout.files());
  std::vector<bool> told(layout.files());
  const auto tell = [&](ByteWriter& out) { return TellOwn(context, layout, comm.size(), own, streams, outputs, out); };
  const auto take = [&](ByteReader& in) { return TakeGuest(context, layout, own, told, in); };
  LZY_ASSIGN_OR_RETURN(const bool shared, ShareOnNode(comm, tell, take));
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
