// The files that a view of a store writes for an archive.
#include <fcntl.h>
#include <google/protobuf/io/zero_copy_stream_impl.h>
#include <google/protobuf/util/delimited_message_util.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "calibd/core/status_macros.h"
#include "server/store/local/archive_file.h"
#include "server/store/local/database_state.h"
#include "server/store/local/local_store.h"
#include "server/store/local/local_view.h"
#include "server/store/local/table.h"

namespace calibd::server {
namespace {

// A base leaves this room on the disk, for the batches that come while it is handed over.
constexpr std::uint64_t kRoomBesideBase = 2 * LogFiles::kSegmentBytes;

absl::Status CheckRoomForBase(const std::string& folder, std::uint64_t bytes) {
  std::error_code error;
  const std::uintmax_t available = std::filesystem::space(folder, error).available;
  if (error || available > bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat("a base of the archive needs ", bytes,
                                                   " bytes of disk, but ", available, " are free"));
}

// Adds the ids of all models, and the declarations of new ones.
absl::Status AddModels(const Database& database, store::v1::ArchiveHeader& header) {
  CALIBD_ASSIGN_OR_RETURN(CheckedRows rows,
                          CheckedRows::Select(database, Table::kModels, "ORDER BY id"));
  absl::StatusOr<bool> row = rows.Next();
  for (; row.ok() && *row; row = rows.Next()) {
    header.add_model_ids(rows.Integer(0));
    if (rows.Integer(0) < header.first_model_id()) continue;
    store::v1::ArchivedModel& model = *header.add_models();
    model.set_id(rows.Integer(0));
    model.set_declaration(std::string(rows.Blob(1)));
  }
  return row.status();
}

// Writes the header and the batches that it names.
absl::Status WriteLog(const store::v1::ArchiveHeader& header, const LogFiles::Extent& extent,
                      const File& file) {
  google::protobuf::io::FileOutputStream stream(file.get());
  const auto write = [&](const google::protobuf::MessageLite& message) {
    return google::protobuf::util::SerializeDelimitedToZeroCopyStream(message, &stream)
               ? absl::OkStatus()
               : FileError(file.path(), "write", stream.GetErrno());
  };
  CALIBD_RETURN_IF_ERROR(write(header));
  std::int64_t next = header.first_log_id();
  store::v1::ArchivedBatch stored;
  CALIBD_RETURN_IF_ERROR(
      LogFiles::ReadExtent(extent, [&](const StoredBatch& batch, bool /*needed*/) -> absl::Status {
        if (batch.log_id != next) return absl::OkStatus();
        ++next;
        stored.set_log_id(batch.log_id);
        stored.set_model_id(batch.model_id);
        stored.set_time_us(batch.time_us);
        stored.set_data(std::string(batch.data));
        return write(stored);
      }));
  if (next != header.end_log_id()) {
    return absl::FailedPreconditionError(
        absl::StrCat("the log no longer has batch ", next, ", which the archive needs"));
  }
  return stream.Flush() ? absl::OkStatus() : FileError(file.path(), "write", stream.GetErrno());
}

}  // namespace

absl::StatusOr<StoreView::End> LocalView::end() const {
  CALIBD_ASSIGN_OR_RETURN(const DatabaseState state, ReadState(database_));
  return End{.log_id = extents_.back().end_log_id, .model_id = state.next_model_id};
}

absl::StatusOr<ArchiveFile> LocalView::WriteArchiveBase(std::int64_t number,
                                                        const std::string& folder,
                                                        const OnProgress& progress) const {
  const std::string path = folder + "/base";
  RemoveCopy(path);
  std::uint64_t bytes = kRoomBesideBase + static_cast<std::uint64_t>(store_.sizes().catalog_bytes);
  for (const LogFiles::Extent& extent : extents_) bytes += extent.needed_bytes;
  CALIBD_RETURN_IF_ERROR(CheckRoomForBase(folder, bytes));
  absl::Cleanup remove_unfinished = [&path] { RemoveCopy(path); };
  CALIBD_RETURN_IF_ERROR(MakeCopy(path, progress));
  CALIBD_ASSIGN_OR_RETURN(ArchiveFile file,
                          DescribeArchiveFile(path, extents_.back().store_id.view(), number,
                                              ArchiveKind::kBase, progress));
  std::move(remove_unfinished).Cancel();
  return file;
}

absl::StatusOr<ArchiveFile> LocalView::WriteArchiveLog(store::v1::ArchiveHeader& header,
                                                       const std::string& folder) const {
  CALIBD_RETURN_IF_ERROR(begun_);
  const auto extent = std::find_if(extents_.begin(), extents_.end(), [&](const auto& one) {
    return header.first_log_id() < one.end_log_id;
  });
  const LogFiles::Extent& source = extent == extents_.end() ? extents_.back() : *extent;
  const std::string_view id = source.store_id.view();
  CALIBD_ASSIGN_OR_RETURN(const End all, end());
  header.set_version(kArchiveVersion);
  header.set_store_id(std::string(id));
  header.set_end_log_id(source.end_log_id);
  header.set_end_model_id(all.model_id);
  if (source.end_log_id < all.log_id) header.set_time_us(0);
  header.clear_model_ids();
  header.clear_models();
  CALIBD_RETURN_IF_ERROR(AddModels(database_, header));
  const std::string path = folder + "/log";
  // A killed command may still read the former file.
  std::remove(path.c_str());
  absl::Cleanup remove_unfinished = [&path] { std::remove(path.c_str()); };
  {
    CALIBD_ASSIGN_OR_RETURN(const File file,
                            File::Open(path, O_WRONLY | O_CREAT | O_EXCL, "write"));
    CALIBD_RETURN_IF_ERROR(WriteLog(header, source, file));
  }
  CALIBD_ASSIGN_OR_RETURN(
      ArchiveFile file,
      DescribeArchiveFile(path, id, header.number(), ArchiveKind::kLog, /*progress=*/nullptr));
  std::move(remove_unfinished).Cancel();
  return file;
}

}  // namespace calibd::server
