// Changes what a sidecar says and makes its hashes right again, as somebody would who wants a tool to believe it.
//
// usage: forge_sidecar SIDECAR [name=HEX] [domain=HEX] [uid=N] [gid=N] [mode=N] [rank=N] [members=N] [size=N]
//        forge_sidecar SIDECAR intent
// domain, uid, gid and mode are set in the records of all members, size in that of the data. `intent`: a program
// is writing the file.
#include <cstdio>
#include <cstdlib>
#include <string>

#include "sidecar/sidecar.h"

namespace {

std::string FromHex(const std::string& hex) {
  std::string out;
  for (std::size_t at = 0; at + 1 < hex.size(); at += 2) {
    out += static_cast<char>(std::strtoul(hex.substr(at, 2).c_str(), nullptr, 16));
  }
  return out;
}

bool Change(lzy::SidecarContents& contents, const std::string& field, const std::string& text) {
  const auto number = static_cast<std::uint32_t>(std::strtoull(text.c_str(), nullptr, 0));
  if (field == "name") {
    contents.info.name = FromHex(text);
  } else if (field == "rank") {
    contents.superblock.rank = number;
  } else if (field == "members") {
    contents.superblock.members = number;
  } else if (field == "size") {
    contents.superblock.stamp.size = std::strtoull(text.c_str(), nullptr, 0);
  } else if (field == "domain" || field == "uid" || field == "gid" || field == "mode") {
    for (lzy::MemberRecord& member : contents.info.members) {
      if (field == "domain") member.domain = FromHex(text);
      if (field == "uid") member.uid = number;
      if (field == "gid") member.gid = number;
      if (field == "mode") member.mode = number;
    }
  } else {
    return false;
  }
  return true;
}

/// In the ordinary form, which has room for any lie. The parity is copied.
lzy::Status BuildAnew(lzy::Sidecar& old, lzy::SidecarContents contents) {
  lzy::FileSystem& fs = lzy::PosixFileSystem();
  const std::string path = old.path();
  contents.superblock.compact = false;
  std::vector<std::uint8_t> parity(contents.superblock.parity_size);
  LZY_RETURN_IF_ERROR(lzy::ReadExactly(old.file(), old.ParityFileOffset(0), parity));
  LZY_ASSIGN_OR_RETURN(const auto fresh, lzy::Sidecar::Create(fs, path + ".forged", contents, old.file()));
  LZY_RETURN_IF_ERROR(fresh->file().WriteAt(fresh->ParityFileOffset(0), parity));
  LZY_RETURN_IF_ERROR(fresh->WriteAll(std::move(contents)));
  return fs.Rename(path + ".forged", path);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 3;
  auto sidecar = lzy::Sidecar::Load(lzy::PosixFileSystem(), argv[1], lzy::OpenMode::kReadWrite);
  lzy::Status status = sidecar.status();
  if (status.ok() && argc == 3 && std::string(argv[2]) == "intent") {
    lzy::Intent intent;
    intent.flags = lzy::kIntentWholeFile;
    status = (*sidecar)->SetIntent(intent);
  } else if (status.ok()) {
    lzy::SidecarContents contents = (*sidecar)->contents();
    for (int i = 2; i < argc; ++i) {
      const std::string word = argv[i];
      const std::size_t equals = word.find('=');
      if (equals != std::string::npos && Change(contents, word.substr(0, equals), word.substr(equals + 1))) continue;
      std::fprintf(stderr, "forge_sidecar: %s\n", argv[i]);
      return 3;
    }
    status = (*sidecar)->WriteAll(contents);
    if (status.code() == lzy::Code::kNewerFormat) status = BuildAnew(**sidecar, contents);
  }
  if (!status.ok()) std::fprintf(stderr, "forge_sidecar: %s\n", status.message().c_str());
  return status.ok() ? 0 : 1;
}
