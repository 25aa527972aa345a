#ifndef CALIBD_TESTS_SUPPORT_TEMPORARY_FOLDER_H_
#define CALIBD_TESTS_SUPPORT_TEMPORARY_FOLDER_H_

#include <filesystem>

namespace calibd::testing {

// A temporary folder; the destructor deletes it with its content.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace calibd::testing

#endif  // CALIBD_TESTS_SUPPORT_TEMPORARY_FOLDER_H_
