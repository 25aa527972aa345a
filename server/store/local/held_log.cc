#include "server/store/local/held_log.h"

#include <functional>
#include <future>

namespace calibd::server {
namespace {

// Waits until the storage thread has done it: after a transaction, whether that was committed or
// not, so a full disk is no error here.
absl::Status RunOnStorage(CommitQueue& commits, const std::function<void(Store&)>& action) {
  // If the queue has stopped, this is dropped, and the future says so by an exception.
  const auto done = std::make_shared<std::promise<absl::Status>>();
  std::future<absl::Status> result = done->get_future();
  commits.Call([done, &action](Store& store, const absl::Status& committed) {
    action(store);
    done->set_value(committed);
  });
  absl::Status status = result.get();
  return absl::IsResourceExhausted(status) ? absl::OkStatus() : status;
}

}  // namespace

absl::StatusOr<std::unique_ptr<HeldLog>> HeldLog::Hold(CommitQueue& commits) {
  absl::Status in_place;
  const absl::Status status = RunOnStorage(commits, [&](Store& store) {
    store.HoldLog();
    // The caller opens the files by their names, and would read others than the server writes.
    in_place = store.CheckInPlace();
    if (!in_place.ok()) commits.Fail(in_place);
  });
  // Also held after an error, and then released at once.
  std::unique_ptr<HeldLog> log(new HeldLog(commits));
  in_place.Update(status);
  if (!in_place.ok()) return in_place;
  return log;
}

HeldLog::~HeldLog() {
  commits_.Call([](Store& store, const absl::Status& /*committed*/) { store.ReleaseLog(); });
}

absl::StatusOr<std::vector<LogFiles::Extent>> HeldLog::extents() const {
  std::vector<LogFiles::Extent> extents;
  absl::Status status =
      RunOnStorage(commits_, [&extents](Store& store) { extents = store.extents(); });
  if (!status.ok()) return status;
  return extents;
}

absl::Status HeldLog::CheckMark() const {
  absl::Status checked;
  const absl::Status status =
      RunOnStorage(commits_, [&checked](Store& store) { checked = store.CheckMark(); });
  return status.ok() ? checked : status;
}

}  // namespace calibd::server
