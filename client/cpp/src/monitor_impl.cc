#include <cstdlib>
#include <exception>
#include <utility>

#include "absl/strings/str_cat.h"
#include "calibd/client/monitor.h"
#include "monitor_delivery.h"
#include "monitor_process.h"
#include "tls.h"

namespace calibd::client {
namespace {

constexpr char kDefaultAddress[] = "127.0.0.1:8460";

absl::Status CheckOptions(const MonitorOptions& options) {
  if (options.max_buffer_bytes == 0) {
    return absl::InvalidArgumentError("max_buffer_bytes is 0, expected at least 1");
  }
  if (options.stall_timeout.count() <= 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "stall_timeout is ", options.stall_timeout.count(), " ms, expected a positive time"));
  }
  if (options.close_timeout.count() <= 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "close_timeout is ", options.close_timeout.count(), " ms, expected a positive time"));
  }
  if (options.positive_class.value_or(0) != 0 && options.positive_class != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("positive_class is ", *options.positive_class, ", expected 0 or 1"));
  }
  return absl::OkStatus();
}

QueuedRow CopyOf(const Observation& observation) {
  QueuedRow row;
  std::visit([&](auto values) { row.values = std::vector(values.begin(), values.end()); },
             observation.values);
  if (const auto* label = std::get_if<std::int32_t>(&observation.label)) {
    row.labels = {*label};
  } else if (const auto* truths = std::get_if<std::span<const std::int32_t>>(&observation.label)) {
    row.labels.assign(truths->begin(), truths->end());
  }
  row.outcome = observation.outcome;
  row.kind = observation.kind;
  row.id = observation.id;
  row.group = observation.group;
  row.features.assign(observation.features.begin(), observation.features.end());
  row.time = observation.time;
  return row;
}

QueuedRow CopyOf(std::string_view id, std::span<const std::int32_t> truths,
                 std::optional<double> outcome) {
  QueuedRow row;
  row.is_label = true;
  row.id = id;
  row.labels.assign(truths.begin(), truths.end());
  row.outcome = outcome;
  return row;
}

// Gives a copy to the delivery. A handler must not fail because there is no memory, nor because the
// system refuses a lock.
template <typename Copy>
bool Accept(MonitorDelivery& delivery, bool is_label, const Copy& copy) noexcept {
  try {
    return delivery.Accept(copy());
  } catch (const std::exception&) {
    delivery.DropUnread(is_label);
    return false;
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<Monitor>> Monitor::Create(std::string model,
                                                         const MonitorOptions& options) {
  if (absl::Status status = CheckOptions(options); !status.ok()) return status;
  MonitorOptions complete = options;
  if (complete.address.empty()) {
    const char* variable = std::getenv("CALIBD_SERVER");
    complete.address = variable != nullptr && *variable != '\0' ? variable : kDefaultAddress;
  }
  if (complete.tls.ca.empty()) complete.tls = TlsOfEnvironment();
  if (absl::Status status = CheckConnection(complete.address, complete.tls, complete.token);
      !status.ok()) {
    return status;
  }
  return std::unique_ptr<Monitor>(new Monitor(std::make_unique<MonitorDelivery>(
      std::move(model), std::move(complete), MonitorProcess::InheritsGrpc())));
}

Monitor::Monitor(std::unique_ptr<MonitorDelivery> delivery) : delivery_(std::move(delivery)) {
  MonitorProcess::Add(*this);
}

Monitor::~Monitor() {
  // A fork meanwhile must still find the connection.
  (void)Close();
  MonitorProcess::Remove(*this);
}

bool Monitor::Observe(const Observation& observation) noexcept {
  return Accept(*delivery_, /*is_label=*/false, [&] { return CopyOf(observation); });
}

bool Monitor::Label(std::string_view id, std::int32_t label) noexcept {
  return Label(id, std::span(&label, 1));
}

bool Monitor::Label(std::string_view id, std::span<const std::int32_t> truths) noexcept {
  return Accept(*delivery_, /*is_label=*/true, [&] { return CopyOf(id, truths, std::nullopt); });
}

bool Monitor::LabelOutcome(std::string_view id, double outcome) noexcept {
  return Accept(*delivery_, /*is_label=*/true, [&] { return CopyOf(id, {}, outcome); });
}

absl::Status Monitor::Flush(std::chrono::milliseconds timeout) { return delivery_->Flush(timeout); }

StreamCounts Monitor::Close(std::optional<std::chrono::milliseconds> timeout) {
  delivery_->BeginClose();
  delivery_->EndClose(
      MonitorDelivery::Clock::now() + timeout.value_or(delivery_->options().close_timeout),
      "was closed");
  return counts();
}

StreamCounts Monitor::counts() const { return delivery_->counts(); }

absl::Status Monitor::status() const { return delivery_->status(); }

}  // namespace calibd::client
