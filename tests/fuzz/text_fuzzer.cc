// Short texts from clients and command lines: names, page tokens, addresses, durations, times,
// lenses, bins. The first byte of an input selects the kind. Accepted text must survive being
// written and read again.
#include <cstdint>
#include <string>

#include "client/cli/commands/lens_option.h"
#include "client/cli/commands/time_option.h"
#include "fuzz/require.h"
#include "server/api/pagination.h"
#include "server/base/listen_address.h"
#include "server/model/model_name.h"

namespace calibd {
namespace {

using testing::Require;

void CheckModelName(const std::string& text) {
  const auto name = server::ParseModelName("model", text);
  Require(!name.ok() || name->ToString() == text, "a name is written as it was read");
}

void CheckPageToken(const std::string& text) {
  const auto page = server::ParsePage(0, text);
  if (page.ok()) {
    const auto again = server::ParsePage(0, server::MakePageToken(page->after));
    Require(again.ok() && again->after == page->after, "a token names the same page again");
  }
  const auto own = server::ParsePage(1, server::MakePageToken(text));
  Require(own.ok() && own->after == text && own->size == 1, "each name has a token");
}

void CheckListenAddress(const std::string& text) {
  const auto endpoint = server::ParseListenAddress(text);
  if (endpoint.ok()) {
    const auto again = server::ParseListenAddress(server::FormatAddress(*endpoint));
    Require(again.ok() && *again == *endpoint, "an address is read as it is written");
  }
}

void CheckDuration(const std::string& text) {
  const auto duration = cli::ParseDuration(text);
  if (duration.ok()) {
    Require(duration->seconds() > 0 || duration->nanos() > 0, "a duration is positive");
    Require(duration->nanos() >= 0 && duration->nanos() <= 999'999'999, "nanoseconds are in range");
    static_cast<void>(cli::ShortDuration(*duration));
  }
}

void CheckTime(const std::string& text) {
  google::protobuf::Timestamp now;
  now.set_seconds(1'700'000'000);
  const auto time = cli::ParseTime(text, now);
  if (time.ok()) {
    Require(time->nanos() >= 0 && time->nanos() <= 999'999'999, "nanoseconds are in range");
  }
}

}  // namespace
}  // namespace calibd

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace calibd;
  if (size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(data + 1), size - 1);
  switch (data[0] % 7) {
    case 0:
      CheckModelName(text);
      break;
    case 1:
      CheckPageToken(text);
      break;
    case 2:
      CheckListenAddress(text);
      break;
    case 3:
      CheckDuration(text);
      break;
    case 4:
      CheckTime(text);
      break;
    case 5:
      static_cast<void>(cli::ParseLens(text));
      break;
    default:
      static_cast<void>(cli::ParseBins(text));
  }
  return 0;
}
