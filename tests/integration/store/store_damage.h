#ifndef CALIBD_TESTS_INTEGRATION_STORE_STORE_DAMAGE_H_
#define CALIBD_TESTS_INTEGRATION_STORE_STORE_DAMAGE_H_

#include <cstdint>
#include <filesystem>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace calibd::testing {

// The files of a store in memory: contents by name, without the lock, which has no content, and
// without the index of the write-ahead log, which SQLite makes anew at each start.
using Folder = std::map<std::string, std::string>;

std::string ReadFile(const std::filesystem::path& path);
Folder ReadFolder(const std::filesystem::path& path);
// Makes the folder.
void WriteFolder(const Folder& folder, const std::filesystem::path& path);

struct Place {
  std::string file;
  std::uint64_t offset = 0;
};
void Overwrite(Folder& folder, const Place& place, const std::string& with);
// bit: 0 is the lowest of the byte at the place.
void FlipBit(Folder& folder, const Place& place, std::uint64_t bit);

struct Damage {
  // What was done where.
  std::string text;
  // The damaged files.
  std::vector<std::string> files;
};

using Random = std::mt19937_64;
// 0..bound - 1.
std::uint64_t Below(std::uint64_t bound, Random& random);

// One place in 20 is in the zeros that end a file: most bytes of the log's newest file, where
// nothing was written yet. Two in 20 are in the first 100 bytes of a file, each file alike, where
// the headers are. Of the others half are in a file that is drawn first, each file alike, and half
// are drawn from the bytes of all files, each byte alike.
Place DrawPlace(const Folder& folder, Random& random);
// Flips a bit of the byte at such a place.
Damage FlipAnyBit(Folder& folder, Random& random);
// Overwrites 1 byte to 16 KiB, lengths of each magnitude alike, from such a place on, as disks do:
// with noise, with zeros, or with what belongs elsewhere in the file.
Damage OverwriteAnyRange(Folder& folder, Random& random);

// The log's newest frame: see FORMAT.md.
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
// Files are missing, cut, empty, or in each other's place, or files of the earlier or of the
// foreign folder are in their place; for each file alone, and for those that belong together.
std::vector<DamagedFolder> DamageFiles(const Folder& sound, const Folder& earlier,
                                       const Folder& foreign);

}  // namespace calibd::testing

#endif  // CALIBD_TESTS_INTEGRATION_STORE_STORE_DAMAGE_H_
