#ifndef CALIBD_TESTS_INTEGRATION_STORE_STORE_DAMAGE_H_
#define CALIBD_TESTS_INTEGRATION_STORE_STORE_DAMAGE_H_

#include <cstdint>
#include <filesystem>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace calibd::testing {

// The files of a store in memory: contents by name. Without the lock, which has no content, and
// without the index of the write-ahead log, which SQLite recreates at each start.
using Folder = std::map<std::string, std::string>;

std::string ReadFile(const std::filesystem::path& path);
Folder ReadFolder(const std::filesystem::path& path);
// Creates the folder.
void WriteFolder(const Folder& folder, const std::filesystem::path& path);

struct Place {
  std::string file;
  std::uint64_t offset = 0;
};
void Overwrite(Folder& folder, const Place& place, const std::string& with);
// bit: 0 is the lowest bit of the byte.
void FlipBit(Folder& folder, const Place& place, std::uint64_t bit);

struct Damage {
  // Description of the damage.
  std::string text;
  // The damaged files.
  std::vector<std::string> files;
};

using Random = std::mt19937_64;
// Returns a number in 0..bound - 1.
std::uint64_t Below(std::uint64_t bound, Random& random);

// Draws a place. One in 20 is in the zeros at the end of a file, which are most bytes of the log's
// newest file. Two in 20 are in the first 100 bytes of a file, where the headers are; all files are
// equally likely. Of the others, half are in a file that is drawn first, and half are drawn from
// the bytes of all files.
Place DrawPlace(const Folder& folder, Random& random);
// Flips a bit of the byte at such a place.
Damage FlipAnyBit(Folder& folder, Random& random);
// Overwrites 1 byte to 16 KiB from such a place on, as disks do: with noise, with zeros, or with
// data from elsewhere in the file. All magnitudes of the length are equally likely.
Damage OverwriteAnyRange(Folder& folder, Random& random);

// A frame of the log; see FORMAT.md.
struct Frame {
  Place place;
  std::int64_t first_log_id = 0;
  std::uint64_t bytes = 0;
};
Frame NewestFrame(const Folder& folder);

// Damage to whole files.
struct DamagedFolder {
  Folder folder;
  Damage damage;
};
// Files are missing, truncated, empty, swapped, or replaced by files of the earlier or of the
// foreign folder; each file alone, and files that belong together.
std::vector<DamagedFolder> DamageFiles(const Folder& sound, const Folder& earlier,
                                       const Folder& foreign);

}  // namespace calibd::testing

#endif  // CALIBD_TESTS_INTEGRATION_STORE_STORE_DAMAGE_H_
