#ifndef CALIBD_TESTS_INTEGRATION_STORE_GOLDEN_STORE_H_
#define CALIBD_TESTS_INTEGRATION_STORE_GOLDEN_STORE_H_

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "calibd/client/client.h"
#include "calibd/v1/calibration_service.pb.h"

namespace calibd::testing {

// Databases kept as files, each made by the calibd of its format; since format 3 with a file of the
// log. Beside each what that calibd answered, by model.
std::filesystem::path GoldenStore(int format, const std::string& suffix);

// The log's file in the data folder of a store whose log begins with it.
inline constexpr char kFirstLogFile[] = "log-0000000000000001";

// Makes `data` a data folder with the database, as if it had been closed just now: what
// waited in it still waits.
void CopyGoldenStore(int format, const std::filesystem::path& data);

// What of an answer is kept and compared: exact numbers, none that time changes.
nlohmann::json ToJson(const v1::GetCalibrationResponse& answer);

void ExpectGoldenAnswers(int format, client::Client& client);

}  // namespace calibd::testing

#endif  // CALIBD_TESTS_INTEGRATION_STORE_GOLDEN_STORE_H_
