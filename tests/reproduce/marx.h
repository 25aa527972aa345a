#ifndef CALIBD_TESTS_REPRODUCE_MARX_H_
#define CALIBD_TESTS_REPRODUCE_MARX_H_

#include <filesystem>

// The lines of tests/reproduce/run marx. folder: the folder of the data sets of the UCI repository.
// A line without its data says that it is left out.
namespace calibd::reproduce {

// F1: exact tests reject calibrated forecasts as often as promised.
void ReproduceExactness();
// F2: which form of calibration sees which error.
void ReproducePower();
// F3: the evidence of forecasts that are watched.
void ReproduceEvidence();
// F4: a network for CRIME, trained with and without the discrepancy given the features.
void ReproduceCrime(const std::filesystem::path& folder);
// F5: a network for BREAST-CANCER.
void ReproduceClasses(const std::filesystem::path& folder);

// F7 and F10: Tables 4 and 5. uci, folder: the folders of the data sets.
void ReproduceTables(const std::filesystem::path& uci, const std::filesystem::path& folder);
// F8 and F9: Tables 3, with the rows of recalibrated forecasts, and 7.
void ReproduceRegression(const std::filesystem::path& uci, const std::filesystem::path& folder);
// F12: the quantile error of recalibrated forecasts, which depends on the number of rows alone.
void ReproducePostHocErrors();
// F11: the local calibration error of Figure 1.
void ReproduceMap(const std::filesystem::path& folder);

// F6: values of an independent implementation.
void ReproduceSmallCases();

}  // namespace calibd::reproduce

#endif  // CALIBD_TESTS_REPRODUCE_MARX_H_
