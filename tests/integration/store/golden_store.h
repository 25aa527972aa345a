#ifndef CALIBD_TESTS_INTEGRATION_STORE_GOLDEN_STORE_H_
#define CALIBD_TESTS_INTEGRATION_STORE_GOLDEN_STORE_H_

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "calibd/client/client.h"
#include "calibd/v1/calibration_service.pb.h"

namespace calibd::testing {

// Stores of each format that are kept as files, made by the calibd of their time; since format 3
// with a log file. Beside each are the answers of that calibd, by model.
std::filesystem::path GoldenStore(int format, const std::string& suffix);

// The log file in the data folder of a store whose log begins with it.
inline constexpr char kFirstLogFile[] = "log-0000000000000001";

// Makes `data` a data folder with this store, as if it had been closed just now: pending
// predictions are still pending.
void CopyGoldenStore(int format, const std::filesystem::path& data);

// The part of an answer that is kept and compared: exact numbers that do not depend on the time.
nlohmann::json ToJson(const v1::GetCalibrationResponse& answer);

void ExpectGoldenAnswers(int format, client::Client& client);

}  // namespace calibd::testing

#endif  // CALIBD_TESTS_INTEGRATION_STORE_GOLDEN_STORE_H_
