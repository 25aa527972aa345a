#include "client/cli/commands/kernel_option.h"

#include <cerrno>
#include <fstream>
#include <iterator>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "calibd/convert/json_reader.h"
#include "calibd/core/status_macros.h"

namespace calibd::cli {
namespace {

constexpr std::size_t kMaxFileBytes = std::size_t{64} << 20;

absl::Status ReadKernel(const std::string& path, v1::Kernel& kernel) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return absl::ErrnoToStatus(errno, absl::StrCat("--kernel: cannot read ", path));
  const std::string text(std::istreambuf_iterator<char>(file), {});
  if (text.size() > kMaxFileBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("--kernel: ", path, " is larger than ", kMaxFileBytes, " bytes"));
  }
  const auto fault = convert::ReadJson(text, kernel);
  if (!fault.has_value()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--kernel: ", path, " is not a calibd.v1.Kernel in JSON: ",
                   fault->field.empty() ? "it" : fault->field, " ", fault->description));
}

absl::Status ParseFamily(const std::string& text, v1::Kernel& kernel) {
  absl::string_view rest = text;
  if (absl::ConsumePrefix(&rest, "file:")) return ReadKernel(std::string(rest), kernel);
  v1::ExponentialKernel& exponential = *kernel.mutable_exponential();
  if (text == "total_variation") {
    exponential.set_distance(v1::ExponentialKernel::TOTAL_VARIATION);
  } else if (text == "cityblock") {
    exponential.set_distance(v1::ExponentialKernel::CITYBLOCK);
  } else if (text == "euclidean") {
    exponential.set_distance(v1::ExponentialKernel::EUCLIDEAN);
  } else if (text == "gaussian") {
    kernel.mutable_gaussian();
  } else {
    return absl::InvalidArgumentError(
        absl::StrCat("--kernel is '", text,
                     "', expected total_variation, cityblock, euclidean, gaussian or file:PATH"));
  }
  return absl::OkStatus();
}

absl::Status ParseRule(const std::string& text, std::size_t class_count, v1::BandwidthRule& rule) {
  absl::Status error = absl::InvalidArgumentError(
      absl::StrCat("--bandwidth is '", text,
                   "', expected a number > 0, median, median_off_diagonal or "
                   "mean_total_variation:ALPHA with one alpha or one for each class"));
  absl::string_view rest = text;
  double fixed = 0;
  if (text == "median") {
    rule.mutable_median();
  } else if (text == "median_off_diagonal") {
    rule.mutable_median_off_diagonal();
  } else if (absl::ConsumePrefix(&rest, "mean_total_variation:")) {
    auto& alpha = *rule.mutable_mean_total_variation()->mutable_alpha();
    for (const absl::string_view part : absl::StrSplit(rest, ',')) {
      double value = 0;
      if (!absl::SimpleAtod(part, &value)) return error;
      alpha.Add(value);
    }
    const double first = alpha.Get(0);
    if (alpha.size() == 1) alpha.Resize(static_cast<int>(class_count), first);
  } else if (absl::SimpleAtod(text, &fixed) && fixed > 0) {
    rule.set_fixed(fixed);
  } else {
    return error;
  }
  return absl::OkStatus();
}

}  // namespace

void AddKernelOptions(CLI::App& command, KernelOptions& options) {
  command.add_option("--kernel", options.kernel,
                     "exp(-d/nu) over the distance d = total_variation (default), cityblock or "
                     "euclidean; gaussian: exp(-|x-z|^2/nu); file:PATH: a calibd.v1.Kernel in "
                     "JSON, e.g. a matrix-valued one");
  command.add_option(
      "--bandwidth", options.bandwidth,
      "nu: a number; median (default) of all pairwise distances; median_off_diagonal; "
      "mean_total_variation:ALPHA, the mean for Dirichlet(ALPHA) predictions");
}

absl::Status ParseKernel(const KernelOptions& options, std::size_t class_count, v1::Kernel& kernel,
                         v1::BandwidthRule& bandwidth) {
  CALIBD_RETURN_IF_ERROR(ParseFamily(options.kernel, kernel));
  // A matrix-valued kernel contains its bandwidths.
  if (kernel.has_matrix() && options.bandwidth == "median") return absl::OkStatus();
  return ParseRule(options.bandwidth, class_count, bandwidth);
}

}  // namespace calibd::cli
