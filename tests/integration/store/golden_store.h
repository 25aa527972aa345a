#ifndef CALIBD_TESTS_INTEGRATION_STORE_GOLDEN_STORE_H_
#define CALIBD_TESTS_INTEGRATION_STORE_GOLDEN_STORE_H_

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "calibd/client/client.h"
#include "calibd/v1/calibration_service.pb.h"

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

// The part of an answer that is kept and compared: exact numbers that do not depend on the time.
nlohmann::json ToJson(const v1::GetCalibrationResponse& answer);

// Expects the answers that were kept with this store of models of classes.
void ExpectGoldenAnswers(const std::string& name, client::Client& client);

// Expects that everything in `actual` is also in `expected`, which may contain more. Numbers that
// are no integers may differ by `tolerance` times the expected one.
void ExpectIn(const nlohmann::json& expected, const nlohmann::json& actual,
              const std::string& where, double tolerance);

}  // namespace calibd::testing

#endif  // CALIBD_TESTS_INTEGRATION_STORE_GOLDEN_STORE_H_
