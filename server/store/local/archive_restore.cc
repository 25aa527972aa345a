#include "server/store/local/archive_restore.h"

#include <fcntl.h>
#include <google/protobuf/io/zero_copy_stream_impl.h>
#include <google/protobuf/util/delimited_message_util.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "calibd/core/status_macros.h"
#include "calibd/store/v1/archive.pb.h"
#include "server/base/errors.h"
#include "server/store/local/archive_file.h"
#include "server/store/local/database_state.h"
#include "server/store/local/file.h"
#include "server/store/local/open_store.h"
#include "server/store/local/schema.h"
#include "server/store/local/table.h"

namespace calibd::server {
namespace {

namespace io = google::protobuf::io;

// A file of the archive.
struct ArchivedFile {
  ArchiveName name;
  std::string path;
};

// A log file whose checksum is right.
struct ArchivedLog {
  ArchivedFile file;
  store::v1::ArchiveHeader header;
};

// Reads one message after another from a log file of an archive.
class LogReader {
 public:
  static absl::StatusOr<std::unique_ptr<LogReader>> Open(const std::string& path) {
    CALIBD_ASSIGN_OR_RETURN(File file, File::Open(path, O_RDONLY, "read"));
    return std::unique_ptr<LogReader>(new LogReader(std::move(file)));
  }
  // Returns false at the end of the file. Errors: DataLoss.
  absl::StatusOr<bool> Next(google::protobuf::MessageLite& message) {
    bool at_end = false;
    if (google::protobuf::util::ParseDelimitedFromZeroCopyStream(&message, &stream_, &at_end)) {
      return true;
    }
    if (at_end && stream_.GetErrno() == 0) return false;
    return absl::DataLossError(absl::StrCat(file_.path(), " cannot be parsed"));
  }

 private:
  explicit LogReader(File file) : file_(std::move(file)), stream_(file_.get()) {}
  const File file_;
  io::FileInputStream stream_;
};

absl::StatusOr<store::v1::ArchiveHeader> ReadHeader(const ArchivedFile& file) {
  const std::string& path = file.path;
  CALIBD_ASSIGN_OR_RETURN(const std::unique_ptr<LogReader> reader, LogReader::Open(path));
  store::v1::ArchiveHeader header;
  CALIBD_ASSIGN_OR_RETURN(const bool has_header, reader->Next(header));
  if (!has_header) return absl::DataLossError(absl::StrCat(path, " is empty"));
  if (header.version() > kArchiveVersion) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, " was written by a newer calibd; restore with that version"));
  }
  if (header.number() != file.name.number ||
      absl::BytesToHexString(header.store_id()) != file.name.store) {
    return absl::DataLossError(
        absl::StrCat(path, " has the content of another file: its name is wrong"));
  }
  return header;
}

// The files of one store in an archive.
class ArchiveFiles {
 public:
  ArchiveFiles(std::vector<ArchivedFile> files, std::vector<std::string>& problems)
      : problems_(problems) {
    // The newest file first.
    std::sort(files.begin(), files.end(), [](const ArchivedFile& a, const ArchivedFile& b) {
      return a.name.number > b.name.number;
    });
    for (ArchivedFile& file : files) {
      (file.name.kind == ArchiveKind::kBase ? bases_ : logs_).push_back(std::move(file));
    }
  }

  // The base and the log files from which most can be restored.
  struct Chain {
    ArchivedFile base;
    std::vector<ArchivedLog> logs;
    [[nodiscard]] std::int64_t number() const {
      return logs.empty() ? base.name.number : logs.back().header.number();
    }
  };
  // Errors: NotFound without a base; DataLoss if no base is intact.
  absl::StatusOr<Chain> FindChain() {
    if (bases_.empty()) {
      return absl::NotFoundError("the archive has no base: no file whose name has -base- in it");
    }
    std::optional<Chain> best;
    for (const ArchivedFile& base : bases_) {
      // An intact log file that follows an older base may go further than the newest base.
      if (best.has_value() && CountNewer(best->number()) == 0) break;
      if (!IsIntact(base)) continue;
      Chain chain{.base = base, .logs = FollowingLogs(base.name.number)};
      if (!best.has_value() || chain.number() > best->number()) best = std::move(chain);
    }
    if (!best.has_value()) {
      return absl::DataLossError(
          absl::StrCat("no base of the archive is intact: ", absl::StrJoin(problems_, "; ")));
    }
    ReportUnused(*best);
    return *std::move(best);
  }

 private:
  // Whether the content has the checksum in the name. Reports it otherwise.
  bool IsIntact(const ArchivedFile& file) {
    const absl::StatusOr<std::string> checksum = ChecksumOf(file.path);
    if (checksum.ok() && *checksum == file.name.checksum) return true;
    problems_.push_back(checksum.ok() ? absl::StrCat(file.path, " is damaged or incomplete")
                                      : std::string(checksum.status().message()));
    return false;
  }

  // Reads the log files that are newer than this number, once.
  void ReadLogs(std::int64_t number) {
    while (read_ < logs_.size() && logs_[read_].name.number > number) {
      const ArchivedFile& file = logs_[read_++];
      if (!IsIntact(file)) continue;
      absl::StatusOr<store::v1::ArchiveHeader> header = ReadHeader(file);
      if (header.ok()) {
        intact_.push_back({.file = file, .header = *std::move(header)});
      } else {
        problems_.emplace_back(header.status().message());
      }
    }
  }

  // If several log files follow the same one, calibd was killed while it handed over the older
  // ones, and continued after the newest.
  const ArchivedLog* FindNewest(const std::function<bool(const ArchivedLog&)>& follows) const {
    const auto found = std::find_if(intact_.begin(), intact_.end(), follows);
    return found == intact_.end() ? nullptr : &*found;
  }

  std::vector<ArchivedLog> FollowingLogs(std::int64_t base) {
    ReadLogs(base);
    std::vector<ArchivedLog> logs;
    const ArchivedLog* next = FindNewest([base](const ArchivedLog& log) {
      const auto& bases = log.header.base_numbers();
      return std::find(bases.begin(), bases.end(), base) != bases.end();
    });
    while (next != nullptr) {
      logs.push_back(*next);
      const ArchivedLog& last = logs.back();
      next = FindNewest([&last](const ArchivedLog& log) {
        return log.header.previous() == last.file.name.checksum &&
               log.header.number() > last.header.number() &&
               log.header.first_log_id() == last.header.end_log_id();
      });
    }
    return logs;
  }

  // Number of intact log files after this number. Call it after ReadLogs of the number.
  [[nodiscard]] std::int64_t CountNewer(std::int64_t number) const {
    return std::count_if(intact_.begin(), intact_.end(),
                         [number](const ArchivedLog& log) { return log.header.number() > number; });
  }

  void ReportUnused(const Chain& chain) {
    const std::int64_t unused = CountNewer(chain.number());
    if (unused == 0) return;
    problems_.push_back(
        absl::StrCat(unused, " newer log files cannot be used, because a file between them and ",
                     chain.logs.empty() ? chain.base.path : chain.logs.back().file.path,
                     " is missing or damaged; fetch it from the archive and restore again"));
  }

  std::vector<std::string>& problems_;
  std::vector<ArchivedFile> bases_;
  std::vector<ArchivedFile> logs_;
  // How many of the log files were read, and those of them that are intact; the newest first.
  std::size_t read_ = 0;
  std::vector<ArchivedLog> intact_;
};

absl::StatusOr<std::vector<ArchivedFile>> ListArchive(const std::string& archive,
                                                      const std::string& store_id) {
  std::vector<ArchivedFile> files;
  // The stores, with the time at which the newest file of each was written.
  std::map<std::string, absl::Time> stores;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(archive, error), end; !error && entry != end;
       entry.increment(error)) {
    std::optional<ArchiveName> name = ArchiveName::Parse(entry->path().filename().string());
    if (!name.has_value()) continue;
    absl::Time& newest = stores.try_emplace(name->store, absl::InfinitePast()).first->second;
    struct stat status {};
    if (stat(entry->path().c_str(), &status) == 0) {
      newest = std::max(newest, absl::TimeFromTimespec(status.st_mtim));
    }
    if (!store_id.empty() && name->store != store_id) continue;
    files.push_back({.name = *std::move(name), .path = entry->path().string()});
  }
  if (error) return FileError(archive, "read", error.value());
  if (stores.empty()) {
    return absl::NotFoundError(absl::StrCat(
        archive, " has no file of an archive: their names begin with calibd- and a store id"));
  }
  const std::string list = absl::StrJoin(stores, ", ", [](std::string* out, const auto& store) {
    absl::StrAppend(out, store.first, " (newest file of ",
                    absl::FormatTime("%Y-%m-%d %H:%M UTC", store.second, absl::UTCTimeZone()), ")");
  });
  if (store_id.empty() && stores.size() > 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        archive, " has files of several stores, and a store is restored from its own files only; ",
        "name one of them with --store-id: ", list));
  }
  if (files.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--store-id ", store_id, ": ", archive, " has only files of ", list));
  }
  return files;
}

// Adds log files to a copy of their base.
class BaseUpdate {
 public:
  BaseUpdate(const ArchiveFiles::Chain& chain, RestoredStore& restored)
      : chain_(chain), restored_(restored) {}

  absl::Status Run(const std::string& path) {
    CALIBD_ASSIGN_OR_RETURN(Database database, Database::OpenExisting(path));
    CALIBD_ASSIGN_OR_RETURN(const std::int64_t version, CheckFormat(database, path));
    if (version == 0) return absl::DataLossError(absl::StrCat(path, " has no tables"));
    CALIBD_RETURN_IF_ERROR(
        database.Execute("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; BEGIN IMMEDIATE"));
    CALIBD_ASSIGN_OR_RETURN(state_, ReadState(database));
    CALIBD_ASSIGN_OR_RETURN(StateWriter writer, StateWriter::Prepare(database));
    CALIBD_RETURN_IF_ERROR(ReadBase(database));
    if (Continues()) {
      CALIBD_RETURN_IF_ERROR(AddModels(database));
      CALIBD_RETURN_IF_ERROR(AddBatches(database));
    }
    ++state_.commit_number;
    CALIBD_RETURN_IF_ERROR(writer.WriteAll(state_));
    return database.Execute("COMMIT");
  }

  // The models of the base that were deleted since.
  [[nodiscard]] const std::set<std::int64_t>& deleted() const noexcept { return deleted_; }

 private:
  // Whether there are log files and the first begins where the base ends, or before. The others
  // begin where the one before them ends.
  bool Continues() {
    if (chain_.logs.empty()) return false;
    const ArchivedLog& first = chain_.logs.front();
    if (first.header.first_log_id() <= state_.first_log_id) return true;
    restored_.problems.push_back(
        absl::StrCat(first.file.path, " begins with batch ", first.header.first_log_id(),
                     " of the log, but the base ends before batch ", state_.first_log_id,
                     ": this log file and ", chain_.logs.size() - 1, " after it cannot be used"));
    return false;
  }

  absl::Status ReadBase(const Database& database) {
    CALIBD_ASSIGN_OR_RETURN(Statement ids, Statement::Prepare(database, "SELECT id FROM models"));
    absl::StatusOr<bool> row = ids.Next();
    for (; row.ok() && *row; row = ids.Next()) models_.insert(ids.Integer(0));
    CALIBD_RETURN_IF_ERROR(row.status());
    CALIBD_ASSIGN_OR_RETURN(
        Statement newest,
        Statement::Prepare(database,
                           "SELECT model_id, id, max(time_us) FROM log GROUP BY model_id"));
    for (row = newest.Next(); row.ok() && *row; row = newest.Next()) {
      restored_.newest[newest.Integer(0)] = {.log_id = newest.Integer(1),
                                             .time_us = newest.Integer(2)};
    }
    return row.status();
  }

  // Adds the models that were created after the base, without those that were deleted since.
  absl::Status AddModels(const Database& database) {
    const store::v1::ArchiveHeader& last = chain_.logs.back().header;
    const std::set<std::int64_t> remaining(last.model_ids().begin(), last.model_ids().end());
    for (const std::int64_t id : models_) {
      if (!remaining.contains(id)) deleted_.insert(id);
    }
    CALIBD_ASSIGN_OR_RETURN(TableWriter table, TableWriter::Prepare(database, Table::kModels,
                                                                    &state_.sum(Table::kModels)));
    for (const ArchivedLog& log : chain_.logs) {
      for (const store::v1::ArchivedModel& model : log.header.models()) {
        if (!remaining.contains(model.id()) || !models_.insert(model.id()).second) continue;
        CALIBD_RETURN_IF_ERROR(
            table.Insert({std::int64_t{model.id()}, std::string_view(model.declaration())}));
      }
    }
    for (const std::int64_t id : remaining) {
      if (models_.contains(id)) continue;
      restored_.problems.push_back(absl::StrCat(
          "model ", id, " is missing, because no file has its declaration; its batches are lost"));
    }
    state_.next_model_id = std::max(state_.next_model_id, last.end_model_id());
    return absl::OkStatus();
  }

  absl::Status AddBatches(const Database& database) {
    CALIBD_ASSIGN_OR_RETURN(TableWriter table,
                            TableWriter::Prepare(database, Table::kLog, &state_.sum(Table::kLog)));
    for (const ArchivedLog& log : chain_.logs) {
      const absl::Status status = AddBatches(log, table);
      if (absl::IsDataLoss(status)) {
        // What is before it is restored.
        restored_.problems.emplace_back(status.message());
        return absl::OkStatus();
      }
      CALIBD_RETURN_IF_ERROR(status);
      ++restored_.log_files;
      if (log.header.time_us() != 0) restored_.until_us = log.header.time_us();
    }
    return absl::OkStatus();
  }

  absl::Status AddBatches(const ArchivedLog& log, TableWriter& table) {
    CALIBD_ASSIGN_OR_RETURN(const std::unique_ptr<LogReader> reader,
                            LogReader::Open(log.file.path));
    store::v1::ArchiveHeader header;
    CALIBD_RETURN_IF_ERROR(reader->Next(header).status());
    store::v1::ArchivedBatch batch;
    absl::StatusOr<bool> more = reader->Next(batch);
    for (; more.ok() && *more; more = reader->Next(batch)) {
      // The base holds the batches before.
      if (batch.log_id() < state_.first_log_id) continue;
      if (batch.log_id() > state_.first_log_id) break;
      ++state_.first_log_id;
      if (!models_.contains(batch.model_id()) || deleted_.contains(batch.model_id())) continue;
      CALIBD_RETURN_IF_ERROR(
          table.Insert({std::int64_t{batch.log_id()}, std::int64_t{batch.model_id()},
                        std::int64_t{batch.time_us()}, std::string_view(batch.data())}));
      restored_.newest[batch.model_id()] = {.log_id = batch.log_id(), .time_us = batch.time_us()};
      ++restored_.batches;
    }
    CALIBD_RETURN_IF_ERROR(more.status());
    return state_.first_log_id >= header.end_log_id()
               ? absl::OkStatus()
               : absl::DataLossError(absl::StrCat(log.file.path, " lacks batch ",
                                                  state_.first_log_id, " of the log"));
  }

  const ArchiveFiles::Chain& chain_;
  RestoredStore& restored_;
  DatabaseState state_;
  // The models of the base and of the log files.
  std::set<std::int64_t> models_;
  std::set<std::int64_t> deleted_;
};

// This file is in the folder from the beginning of a restore until its end.
std::string MarkPath(const std::string& folder) { return folder + "/restore.unfinished"; }

absl::Status MakeEmptyFolder(const std::string& folder) {
  std::error_code error;
  if (std::filesystem::create_directories(folder, error)) {
    std::filesystem::permissions(folder, std::filesystem::perms::owner_all, error);
  }
  if (!error && std::filesystem::is_empty(folder, error)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      folder, error ? absl::StrCat(" cannot be used: ", error.message()) : " is not empty",
      "; name an empty or new folder"));
}

absl::Status SetMark(const std::string& folder) {
  CALIBD_ASSIGN_OR_RETURN(const File mark,
                          File::Open(MarkPath(folder), O_CREAT | O_WRONLY, "write"));
  CALIBD_RETURN_IF_ERROR(mark.Sync());
  return SyncFolder(folder);
}

absl::Status RemoveMark(const std::string& folder) {
  std::error_code error;
  std::filesystem::remove(MarkPath(folder), error);
  return error ? FileError(MarkPath(folder), "remove", error.value()) : SyncFolder(folder);
}

absl::Status DeleteModels(LocalStore& store, const std::set<std::int64_t>& ids) {
  if (ids.empty()) return absl::OkStatus();
  CALIBD_RETURN_IF_ERROR(store.Begin());
  for (const std::int64_t id : ids) CALIBD_RETURN_IF_ERROR(store.DeleteModel(id));
  return store.Commit();
}

}  // namespace

absl::Status CheckRestoreFinished(const std::string& folder) {
  std::error_code error;
  if (!std::filesystem::exists(MarkPath(folder), error)) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("the restore into ", folder, " has not finished, as ", MarkPath(folder),
                   " says: delete the content of the folder, and run calibd restore again"));
}

absl::StatusOr<RestoredStore> RestoreArchive(const std::string& archive, const std::string& folder,
                                             const std::string& store_id) {
  RestoredStore restored;
  CALIBD_ASSIGN_OR_RETURN(std::vector<ArchivedFile> files, ListArchive(archive, store_id));
  ArchiveFiles sorted(std::move(files), restored.problems);
  CALIBD_ASSIGN_OR_RETURN(const ArchiveFiles::Chain chain, sorted.FindChain());
  restored.base = chain.base.name.Text();
  CALIBD_RETURN_IF_ERROR(MakeEmptyFolder(folder));
  CALIBD_RETURN_IF_ERROR(SetMark(folder));
  const std::string unfinished = folder + "/restore.tmp";
  std::error_code error;
  std::filesystem::copy_file(chain.base.path, unfinished, error);
  // The files of an archive may be read-only.
  constexpr auto kOwner = std::filesystem::perms::owner_read | std::filesystem::perms::owner_write;
  if (!error) std::filesystem::permissions(unfinished, kOwner, error);
  BaseUpdate update(chain, restored);
  absl::Status status =
      error ? FileError(unfinished, "write", error.value()) : update.Run(unfinished);
  if (status.ok()) {
    CALIBD_ASSIGN_OR_RETURN(File file, File::Open(unfinished, O_RDWR, "write"));
    status = file.Sync();
    if (status.ok()) status = file.Rename(DatabasePath(folder));
  }
  if (!status.ok()) {
    std::filesystem::remove(unfinished, error);
    return status;
  }
  CALIBD_ASSIGN_OR_RETURN(restored.store, LocalStore::Open(folder));
  CALIBD_RETURN_IF_ERROR(DeleteModels(*restored.store, update.deleted()));
  for (const std::int64_t id : update.deleted()) restored.newest.erase(id);
  CALIBD_RETURN_IF_ERROR(RemoveMark(folder));
  return restored;
}

}  // namespace calibd::server
