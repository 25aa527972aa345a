#include "server/restore.h"

#include <iostream>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "calibd/core/status_macros.h"
#include "server/executor/thread_pool.h"
#include "server/executor/usable_cpus.h"
#include "server/ingest/recovery.h"
#include "server/state/model_registry.h"
#include "server/store/local/archive_restore.h"

namespace calibd::server {
namespace {

std::string TimeText(std::int64_t time_us) {
  return absl::FormatTime("%Y-%m-%d %H:%M:%E3S UTC", absl::FromUnixMicros(time_us),
                          absl::UTCTimeZone());
}

void PrintModels(const RestoredStore& restored, const ModelRegistry& registry) {
  const auto models = registry.List("", std::numeric_limits<std::size_t>::max());
  if (!models.ok()) return;
  for (const std::shared_ptr<Model>& model : *models) {
    std::cout << "  " << model->declaration()->name.ToString() << ": "
              << model->snapshot()->observations << " observations";
    if (const auto newest = restored.newest.find(model->id()); newest != restored.newest.end()) {
      std::cout << ", the newest batch is " << newest->second.log_id << " of "
                << TimeText(newest->second.time_us);
    }
    std::cout << '\n';
  }
}

absl::Status Restore(const RestoreArguments& arguments) {
  CALIBD_ASSIGN_OR_RETURN(const RestoredStore restored,
                          RestoreArchive(arguments.archive, arguments.folder, arguments.store_id));
  for (const std::string& problem : restored.problems) std::cerr << "calibd: " << problem << '\n';
  ThreadPool writers("calibd-writer", UsableCpus());
  ModelRegistry registry({.max_models = std::numeric_limits<std::size_t>::max()}, writers);
  Recovery recovery;
  CALIBD_RETURN_IF_ERROR(
      Recover(*restored.store, registry, std::numeric_limits<std::size_t>::max(), recovery));
  for (const std::string& warning : recovery.warnings) std::cerr << "calibd: " << warning << '\n';
  registry.FinishRestoring();
  std::cout << arguments.folder << " has the store of " << restored.base << " and of "
            << restored.log_files << (restored.log_files == 1 ? " log file" : " log files")
            << " with " << restored.batches
            << (restored.batches == 1 ? " batch.\n" : " batches.\n");
  if (restored.until_us != 0) {
    std::cout << "All that was acknowledged until " << TimeText(restored.until_us)
              << " is restored. What was acknowledged later is lost, except up to the newest batch "
                 "of each model below.\n";
  } else if (restored.log_files == 0) {
    std::cout << "No log file continues this base; what was acknowledged after it is lost.\n";
  } else {
    std::cout << "What was acknowledged after the batches below is lost.\n";
  }
  PrintModels(restored, registry);
  std::cout << "Start calibd with --data-dir " << arguments.folder << ".\n";
  return restored.store->Close();
}

}  // namespace

int RunRestore(const RestoreArguments& arguments) {
  const absl::Status status = Restore(arguments);
  if (status.ok()) return 0;
  std::cerr << "calibd: " << std::string(status.message()) << '\n';
  return 1;
}

}  // namespace calibd::server
