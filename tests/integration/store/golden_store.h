#ifndef CALIBD_TESTS_INTEGRATION_STORE_GOLDEN_STORE_H_
#define CALIBD_TESTS_INTEGRATION_STORE_GOLDEN_STORE_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "calibd/client/client.h"
#include "calibd/v1/calibration_service.pb.h"
#include "calibd/v1/ingest_service.grpc.pb.h"
#include "support/server_process.h"

namespace calibd::testing {

// Stores that are kept as files, made by a calibd of their format. Beside each are the answers of
// that calibd, by model. name: "classes".
std::filesystem::path GoldenStore(const std::string& name, const std::string& suffix);

// The log file in the data folder of a store whose log begins with it.
inline constexpr char kFirstLogFile[] = "log-0000000000000001";

// Makes `data` a data folder with this store, as if it had been closed just now: pending
// predictions are still pending.
void CopyGoldenStore(const std::string& name, const std::filesystem::path& data);
// Keeps the store in `data`, of a calibd that was killed, with its answers.
void KeepGoldenStore(const std::string& name, const std::filesystem::path& data,
                     const nlohmann::json& answers);

nlohmann::json ToJson(const v1::LabelArrivals& coverage);
// The evidence and the drift.
nlohmann::json ToJson(const v1::Watch& watch);
// The alarms of an answer, with their times.
nlohmann::json AlarmsJson(const v1::GetCalibrationResponse& answer);

// The part of an answer that is kept and compared: exact numbers that do not depend on the time.
nlohmann::json ToJson(const v1::GetCalibrationResponse& answer);

// Expects the answers that were kept with this store of models of classes.
void ExpectGoldenAnswers(const std::string& name, client::Client& client);

// Expects that everything in `actual` is also in `expected`, which may contain more. Numbers that
// are no integers may differ by `tolerance` times the expected one.
void ExpectIn(const nlohmann::json& expected, const nlohmann::json& actual,
              const std::string& where, double tolerance);

// A calibd with a data folder, which may contain a golden store.
class GoldenTest : public ::testing::Test {
 protected:
  void Start(std::vector<std::string> arguments = {});
  void Stop();
  // Ends the server so that rows remain in the log after the newest snapshots. A query then brings
  // the write-ahead log into the database.
  void Kill();

  v1::ObserveResponse Observe(const v1::ObserveRequest& request,
                              grpc::StatusCode expected = grpc::StatusCode::OK);
  std::int64_t Query(const std::string& sql) const;
  // The row of the log of the newest snapshot of a model, or 0.
  std::int64_t SnapshotOf(int model_id) const;

  const TemporaryFolder folder_;
  const std::filesystem::path data_ = folder_.path() / "data";
  std::unique_ptr<ServerProcess> server_;
  std::unique_ptr<client::Client> client_;
  std::unique_ptr<v1::IngestService::Stub> ingest_;
};

}  // namespace calibd::testing

#endif  // CALIBD_TESTS_INTEGRATION_STORE_GOLDEN_STORE_H_
