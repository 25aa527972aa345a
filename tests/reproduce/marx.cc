// Repeats results of Marx, Zalouk & Ermon, "Calibration by Distribution Matching: Trainable Kernel
// Calibration Metrics", NeurIPS 2023. Each line has the measured value, its expectation and a
// verdict.
#include "marx.h"

#include <filesystem>

#include "check.h"

int main(int argc, char** argv) {
  const std::filesystem::path data = argc > 1 ? argv[1] : "";
  calibd::reproduce::ReproduceExactness();
  calibd::reproduce::ReproducePower();
  calibd::reproduce::ReproduceEvidence();
  calibd::reproduce::ReproduceCrime(data / "uci");
  calibd::reproduce::ReproduceClasses(data / "uci");
  return calibd::reproduce::Finish();
}
