#include "server/net/certificate_names.h"

#include <openssl/asn1.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <ctime>
#include <memory>
#include <string_view>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace calibd::server {
namespace {

constexpr std::string_view kDnsPrefix = "dns:";
// 2200-01-01, in seconds since 1970. The clock of the system counts nanoseconds until 2262.
constexpr std::time_t kLatestEnd = 7258118400;

std::string_view AsnText(const ASN1_STRING& text) {
  return {reinterpret_cast<const char*>(ASN1_STRING_get0_data(&text)),
          static_cast<std::size_t>(ASN1_STRING_length(&text))};
}

bool IsUsable(std::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(),
                                      [](unsigned char c) { return absl::ascii_isgraph(c); });
}

}  // namespace

std::vector<std::string> CertificateNames(const X509& certificate) {
  std::vector<std::string> names;
  const std::unique_ptr<GENERAL_NAMES, decltype(&GENERAL_NAMES_free)> all(
      static_cast<GENERAL_NAMES*>(
          X509_get_ext_d2i(&certificate, NID_subject_alt_name, nullptr, nullptr)),
      &GENERAL_NAMES_free);
  for (int i = 0; i < sk_GENERAL_NAME_num(all.get()); ++i) {
    const GENERAL_NAME& name = *sk_GENERAL_NAME_value(all.get(), i);
    if (name.type == GEN_URI) {
      const std::string_view uri = AsnText(*name.d.uniformResourceIdentifier);
      const absl::string_view text(uri.data(), uri.size());
      if (IsUsable(uri) && !absl::StartsWithIgnoreCase(text, "dns:")) names.emplace_back(uri);
    } else if (name.type == GEN_DNS) {
      const std::string_view dns = AsnText(*name.d.dNSName);
      if (IsUsable(dns)) {
        names.push_back(
            absl::StrCat(std::string(kDnsPrefix), absl::AsciiStrToLower({dns.data(), dns.size()})));
      }
    }
  }
  return names;
}

std::chrono::system_clock::time_point NotAfter(const X509& certificate) {
  std::tm end{};
  if (ASN1_TIME_to_tm(X509_get0_notAfter(&certificate), &end) != 1) return {};
  const std::time_t seconds = std::clamp<std::time_t>(timegm(&end), 0, kLatestEnd);
  return std::chrono::system_clock::from_time_t(seconds);
}

}  // namespace calibd::server
