#include "integration/store/store_damage.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iomanip>
#include <iterator>
#include <sstream>
#include <utility>

namespace calibd::testing {
namespace {

// The header of an SQLite database has this length; those of the other files are shorter.
constexpr std::uint64_t kHeaderBytes = 100;

class FileDamages {
 public:
  explicit FileDamages(const Folder& sound) : sound_(sound) {}

  // Replaces these files by those of another folder, or removes them if it does not have them.
  void Replace(const std::vector<std::string>& files, const Folder& by, const std::string& what) {
    Folder folder = sound_;
    std::string text = what + ":";
    for (const std::string& file : files) {
      text += " " + file;
      folder.erase(file);
      if (const auto other = by.find(file); other != by.end()) folder.insert(*other);
    }
    if (folder != sound_) result_.push_back({folder, {text, files}});
  }

  void Put(const std::string& file, const std::string& content, const std::string& what) {
    Replace({file}, {{file, content}}, what);
  }

  void Swap(const std::string& one, const std::string& other) {
    Replace({one, other}, {{one, sound_.at(other)}, {other, sound_.at(one)}}, "swapped");
  }

  [[nodiscard]] std::vector<DamagedFolder> result() && { return std::move(result_); }

 private:
  const Folder& sound_;
  std::vector<DamagedFolder> result_;
};

// Returns the name of the segment that begins with this batch.
std::string SegmentName(std::uint64_t first_log_id) {
  std::ostringstream name;
  name << "log-" << std::setw(16) << std::setfill('0') << std::hex << first_log_id;
  return name.str();
}

// "log.compacted", "log.new" and "log.spare..." come after all segments.
Folder::const_iterator NewestSegment(const Folder& folder) {
  return std::prev(folder.lower_bound("log."));
}

}  // namespace

std::string ReadFile(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream content;
  content << file.rdbuf();
  return content.str();
}

Folder ReadFolder(const std::filesystem::path& path) {
  Folder folder;
  for (const auto& entry : std::filesystem::directory_iterator(path)) {
    const std::string name = entry.path().filename().string();
    if (!name.ends_with("-shm")) folder[name] = ReadFile(entry.path());
  }
  return folder;
}

void WriteFolder(const Folder& folder, const std::filesystem::path& path) {
  std::filesystem::create_directories(path);
  for (const auto& [name, content] : folder) {
    std::ofstream(path / name, std::ios::binary) << content;
  }
}

void Overwrite(Folder& folder, const Place& place, const std::string& with) {
  folder.at(place.file).replace(place.offset, with.size(), with);
}

void FlipBit(Folder& folder, const Place& place, std::uint64_t bit) {
  char& byte = folder.at(place.file)[place.offset];
  byte = static_cast<char>(static_cast<unsigned char>(byte) ^ (1U << bit));
}

std::uint64_t Below(std::uint64_t bound, Random& random) {
  return std::uniform_int_distribution<std::uint64_t>(0, bound - 1)(random);
}

Place DrawPlace(const Folder& folder, Random& random) {
  const std::uint64_t drawn = Below(20, random);
  const bool in_zeros = drawn == 0;
  const bool in_header = drawn == 1 || drawn == 2;
  struct Range {
    std::string file;
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
  };
  std::vector<Range> ranges;
  std::uint64_t total = 0;
  for (const auto& [name, content] : folder) {
    const std::uint64_t written = content.find_last_not_of('\0') + 1;
    const Range range = in_zeros ? Range{name, written, content.size()} : Range{name, 0, written};
    if (range.begin == range.end) continue;
    ranges.push_back(range);
    total += range.end - range.begin;
  }
  if (in_zeros || (!in_header && Below(2, random) == 0)) {
    std::uint64_t at = Below(total, random);
    for (const Range& range : ranges) {
      if (at < range.end - range.begin) return {range.file, range.begin + at};
      at -= range.end - range.begin;
    }
  }
  const Range& range = ranges[Below(ranges.size(), random)];
  const std::uint64_t bytes = range.end - range.begin;
  return {range.file,
          range.begin + Below(in_header ? std::min(bytes, kHeaderBytes) : bytes, random)};
}

Damage FlipAnyBit(Folder& folder, Random& random) {
  const Place place = DrawPlace(folder, random);
  const std::uint64_t bit = Below(8, random);
  FlipBit(folder, place, bit);
  return {.text = "bit " + std::to_string(bit) + " of byte " + std::to_string(place.offset) +
                  " of " + place.file + " flipped",
          .files = {place.file}};
}

Damage OverwriteAnyRange(Folder& folder, Random& random) {
  const Place place = DrawPlace(folder, random);
  const std::string& content = folder.at(place.file);
  const double magnitude = std::uniform_real_distribution<double>(0, 14)(random);
  const std::uint64_t length = std::min<std::uint64_t>(
      static_cast<std::uint64_t>(std::exp2(magnitude)), content.size() - place.offset);
  std::string with(length, '\0');
  std::string kind = "zeros";
  const std::uint64_t drawn = Below(4, random);
  if (drawn < 2) {
    kind = "noise";
    for (char& byte : with) byte = static_cast<char>(Below(256, random));
  } else if (drawn == 2) {
    const std::uint64_t from = Below(content.size() - length + 1, random);
    kind = "the bytes at " + std::to_string(from);
    with = content.substr(from, length);
  }
  Overwrite(folder, place, with);
  return {.text = std::to_string(length) + " bytes at " + std::to_string(place.offset) + " of " +
                  place.file + " overwritten with " + kind,
          .files = {place.file}};
}

Frame NewestFrame(const Folder& folder) {
  const auto newest = NewestSegment(folder);
  const std::string& content = newest->second;
  Frame frame{.place = {newest->first, content.rfind("logframe")}};
  std::memcpy(&frame.first_log_id, content.data() + frame.place.offset + 8, 8);
  std::memcpy(&frame.bytes, content.data() + frame.place.offset + 24, 8);
  return frame;
}

std::vector<DamagedFolder> DamageFiles(const Folder& sound, const Folder& earlier,
                                       const Folder& foreign) {
  FileDamages damages(sound);
  std::vector<std::string> segments;
  std::vector<std::string> others;
  for (const auto& [name, content] : sound) {
    (name.starts_with("log-") ? segments : others).push_back(name);
    damages.Replace({name}, {}, "missing");
    damages.Replace({name}, foreign, "foreign");
    damages.Replace({name}, earlier, "older");
    damages.Put(name, "", "empty");
    damages.Put(name, content.substr(0, content.size() / 2), "half of it");
    damages.Put(name, content.substr(0, content.size() - 1), "without the last byte");
    damages.Put(name, content + std::string(4096, '\0'), "longer");
  }
  const std::vector<std::string> database{"calibd.db", "calibd.db-wal"};
  const std::vector<std::string> database_and_mark{"calibd.db", "calibd.db-wal", "store"};
  for (const auto& files : {database, database_and_mark, segments, others}) {
    damages.Replace(files, {}, "missing");
    damages.Replace(files, foreign, "foreign");
    damages.Replace(files, earlier, "older");
  }
  // Files that are never read.
  for (const char* const name :
       {"calibd.db-shm", "log.compacted", "log.new", "log.spare", "log.spare-1", "store.new"}) {
    damages.Put(name, std::string(32768, '\x5a'), "noise");
  }
  for (std::size_t i = 0; i + 1 < segments.size(); ++i) damages.Swap(segments[i], segments[i + 1]);
  damages.Swap("calibd.db", segments.back());
  const std::string& oldest = sound.at(segments.front());
  const std::string& newest = sound.at(segments.back());
  const std::uint64_t newest_id = std::stoull(segments.back().substr(4), nullptr, 16);
  damages.Put(SegmentName(newest_id + 1), newest, "duplicated");
  damages.Put(SegmentName(newest_id + 1000), newest, "duplicated");
  damages.Put(SegmentName(newest_id + 1000), oldest, "duplicated");
  damages.Put(SegmentName(1), oldest, "duplicated");
  damages.Put(SegmentName(newest_id + 1000), NewestSegment(foreign)->second, "foreign");
  return std::move(damages).result();
}

}  // namespace calibd::testing
