#ifndef CALIBD_TESTS_UNIT_CLIENT_NPZ_FILE_H_
#define CALIBD_TESTS_UNIT_CLIENT_NPZ_FILE_H_

#include <gtest/gtest.h>
#include <zip.h>

#include <string>
#include <utility>
#include <vector>

#include "unit/client/npy_bytes.h"

namespace calibd::testing {

// Writes a zip archive of the entries, given by name and content.
inline void WriteZip(const std::string& path,
                     const std::vector<std::pair<std::string, std::string>>& entries,
                     bool compressed) {
  zip_t* const archive = zip_open(path.c_str(), ZIP_CREATE | ZIP_TRUNCATE, nullptr);
  ASSERT_NE(archive, nullptr);
  for (const auto& [name, content] : entries) {
    zip_source_t* const source = zip_source_buffer(archive, content.data(), content.size(), 0);
    const zip_int64_t at = zip_file_add(archive, name.c_str(), source, 0);
    ASSERT_GE(at, 0);
    ASSERT_EQ(zip_set_file_compression(archive, static_cast<zip_uint64_t>(at),
                                       compressed ? ZIP_CM_DEFLATE : ZIP_CM_STORE, 0),
              0);
  }
  ASSERT_EQ(zip_close(archive), 0);
}

}  // namespace calibd::testing

#endif  // CALIBD_TESTS_UNIT_CLIENT_NPZ_FILE_H_
