#ifndef CALIBD_SERVER_NET_CERTIFICATE_NAMES_H_
#define CALIBD_SERVER_NET_CERTIFICATE_NAMES_H_

#include <openssl/x509.h>

#include <chrono>
#include <string>
#include <vector>

namespace calibd::server {

// The names by which a certificate identifies its owner; see PeerIdentity::names. A name that has
// other characters than printable ASCII without spaces is left out, and so is a URI of the scheme
// dns, which would look like a DNS name. Throws std::bad_alloc.
[[nodiscard]] std::vector<std::string> CertificateNames(const X509& certificate);

// The end of the certificate's validity. A time that the clock cannot represent is cut to the year
// 2200.
[[nodiscard]] std::chrono::system_clock::time_point NotAfter(const X509& certificate);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_NET_CERTIFICATE_NAMES_H_
