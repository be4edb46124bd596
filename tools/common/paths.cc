#include "common/paths.h"

#include <map>
#include <optional>
#include <sstream>
#include <vector>

namespace lzy {
namespace {

// The words of a command at the beginning of `text`, without the quotes that ShellQuote makes. Ends before a character that ends a
// command. nullopt: a word is quoted as $'...'.
std::optional<std::vector<std::string>> WordsOf(const std::string& text) {
  std::vector<std::string> words(1);
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\'') {
      quoted = !quoted;
    } else if (quoted) {
      words.back() += c;
    } else if (c == '\\' && i + 1 < text.size()) {
      words.back() += text[++i];
    } else if (c == '$') {
      return std::nullopt;
    } else if (c == ' ') {
      words.emplace_back();
    } else if (std::string_view(";&()\n").find(c) != std::string_view::npos) {
      break;
    } else {
      words.back() += c;
    }
  }
  std::erase(words, "");
  return words;
}

}  // namespace

bool IsThere(FileSystem& fs, const std::string& path) {
  return fs.Stat(path, /*follow=*/false).ok();
}

std::string FreeName(FileSystem& fs, const std::string& path) {
  std::string away = path + ".away";
  while (IsThere(fs, away)) away += "1";
  return away;
}

std::string ShortPath(FileSystem& fs, const std::string& path) {
  const auto here = fs.RealPath(".");
  const std::string above = here.ok() ? (*here == "/" ? *here : *here + "/") : path;
  return path.size() > above.size() && path.starts_with(above) ? path.substr(above.size()) : path;
}

bool HasOutdatedMove(FileSystem& fs, const std::string& text) {
  static const std::string kMove = "mv -n ";
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::map<std::string, bool> changed;  // whether it is there, after the moves before
    const auto is_there = [&](const std::string& path) {
      const auto at = changed.find(path);
      return at != changed.end() ? at->second : IsThere(fs, path);
    };
    for (std::size_t at = line.find(kMove); at != std::string::npos; at = line.find(kMove, at + 1)) {
      const auto words = WordsOf(line.substr(at + kMove.size()));
      if (!words || words->size() != 2) continue;  // several files, into a directory
      const auto to = fs.Stat(words->back());
      const bool into = to.ok() && to->type == FileStat::Type::kDirectory;
      if (!is_there(words->front()) || (is_there(words->back()) && !into)) return true;
      changed[words->front()] = false;
      if (!into) changed[words->back()] = true;
    }
  }
  return false;
}

}  // namespace lzy
