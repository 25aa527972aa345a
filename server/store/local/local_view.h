#ifndef CALIBD_SERVER_STORE_LOCAL_LOCAL_VIEW_H_
#define CALIBD_SERVER_STORE_LOCAL_LOCAL_VIEW_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/store/local/log_files.h"
#include "server/store/local/sqlite.h"
#include "server/store/maintenance.h"

namespace calibd::server {

class LocalStore;

// A view of a store in a folder: a read transaction of its own connection, and the files of the
// log, which it holds. While it exists, the write-ahead log is not begun anew and no file of the
// log is removed or replaced.
class LocalView final : public StoreView {
 public:
  // database: must have a deferred transaction.
  LocalView(LocalStore& store, Database database);
  ~LocalView() override;
  LocalView(const LocalView&) = delete;
  LocalView& operator=(const LocalView&) = delete;

  // The copy is one database, which also holds the needed batches of the log. Commits go on
  // meanwhile.
  [[nodiscard]] absl::StatusOr<std::unique_ptr<StoreCopy>> Copy(
      const OnProgress& progress) const override;
  // Memory: O(1) rows.
  [[nodiscard]] absl::Status Verify(StoreContents& contents,
                                    const OnProgress& progress) const override;
  [[nodiscard]] absl::StatusOr<End> end() const override;
  [[nodiscard]] absl::StatusOr<ArchiveFile> WriteArchiveBase(
      std::int64_t number, const std::string& folder, const OnProgress& progress) const override;
  [[nodiscard]] absl::StatusOr<ArchiveFile> WriteArchiveLog(
      store::v1::ArchiveHeader& header, const std::string& folder) const override;

 private:
  // Makes a complete copy in a new file.
  [[nodiscard]] absl::Status MakeCopy(const std::string& path, const OnProgress& progress) const;

  LocalStore& store_;
  const std::string folder_;
  mutable Database database_;
  // The status of the beginning of the read transaction.
  absl::Status begun_;
  // The result of LocalStore::CheckMark.
  absl::Status mark_;
  std::vector<LogFiles::Extent> extents_;
};

// Removes a copy, complete or not, and the files that SQLite keeps beside it.
void RemoveCopy(const std::string& path);
// Removes the incomplete copy of an earlier process.
void RemoveUnfinishedCopy(const std::string& folder);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_STORE_LOCAL_LOCAL_VIEW_H_
