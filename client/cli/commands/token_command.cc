#include <openssl/evp.h>
#include <openssl/rand.h>

#include <array>
#include <chrono>
#include <string>
#include <string_view>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/commands/command.h"
#include "client/cli/commands/time_option.h"
#include "client/cli/output.pb.h"

namespace calibd::cli {
namespace {

constexpr std::size_t kRandomBytes = 32;
// Scanners of repositories find a leaked token by this prefix and verify it by its checksum.
constexpr char kPrefix[] = "calibd_";
constexpr std::size_t kChecksumDigits = 8;
constexpr std::chrono::days kDefaultLife{365};

absl::StatusOr<std::string> Sha256Hex(std::string_view text) {
  std::array<unsigned char, 32> hash{};
  unsigned size = hash.size();
  if (EVP_Digest(text.data(), text.size(), hash.data(), &size, EVP_sha256(), nullptr) != 1) {
    return absl::InternalError("SHA-256 is not available");
  }
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(hash.data()), hash.size()));
}

absl::StatusOr<std::string> MakeToken() {
  std::array<unsigned char, kRandomBytes> bytes{};
  // OpenSSL's generator gets its seed from the operating system.
  if (RAND_priv_bytes(bytes.data(), kRandomBytes) != 1) {
    return absl::UnavailableError("the system has no random numbers");
  }
  const std::string random = absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  CALIBD_ASSIGN_OR_RETURN(const std::string checksum, Sha256Hex(random));
  return absl::StrCat(kPrefix, random, checksum.substr(0, kChecksumDigits));
}

// The last day of a token, "YYYY-MM-DD". expires: the option; empty for the default.
absl::StatusOr<std::string> LastDay(const std::string& expires) {
  const auto today = std::chrono::floor<std::chrono::days>(std::chrono::system_clock::now());
  std::chrono::sys_days day = today + kDefaultLife;
  if (!expires.empty()) {
    const auto time = ParseTime(expires, google::protobuf::Timestamp());
    if (!time.ok() || expires.size() != 10) {
      return UsageFault(
          absl::StrCat("--expires is ", expires, ", expected a day such as 2027-01-31"));
    }
    day = std::chrono::floor<std::chrono::days>(
        std::chrono::sys_seconds(std::chrono::seconds(time->seconds())));
    if (day < today) {
      return UsageFault(absl::StrCat("--expires is ", expires,
                                     ", which is in the past, expected today or a later day"));
    }
  }
  const std::chrono::year_month_day date(day);
  return absl::StrFormat("%04d-%02d-%02d", static_cast<int>(date.year()),
                         static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()));
}

absl::StatusOr<ExitCode> CreateToken(const Context& context, const std::string& expires) {
  CALIBD_ASSIGN_OR_RETURN(const std::string day, LastDay(expires));
  CALIBD_ASSIGN_OR_RETURN(const std::string token, MakeToken());
  CALIBD_ASSIGN_OR_RETURN(const std::string hash, Sha256Hex(token));
  CreatedToken created;
  created.set_token(token);
  created.set_entry(absl::StrCat("sha256:", hash, ":", day));
  if (context.json()) {
    PrintJson(ToJson(created));
  } else {
    Print(
        absl::StrCat("This is the token. It is shown only once and stored nowhere:\n", token,
                     "\n\nFor the principal in the server's --access-file, valid until the end of ",
                     day, " (UTC):\ntokens = [\"", created.entry(), "\"]\n"));
  }
  return ExitCode::kOk;
}

}  // namespace

void AddTokenCommand(CLI::App& app, Context& context) {
  CLI::App* const token = app.add_subcommand("token", "Make tokens for calibd's --access-file");
  RequireCommand(*token, context);
  const auto [create, expires] = AddCommand(
      *token, context, "create", "Print a new token, and its line for the file", CreateToken);
  create->footer(
      "Works without a server. The token has 256 random bits. The line has only its hash: whoever "
      "reads the file cannot call the server with it.\n"
      "Example: calibctl token create --expires 2027-01-31");
  create->add_option(
      "--expires", *expires,
      "last day on which the token is valid, YYYY-MM-DD in UTC; default: 365 days from today");
}

}  // namespace calibd::cli
