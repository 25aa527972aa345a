#include "server/observability/logging.h"

#include <google/protobuf/stubs/logging.h>
#include <spdlog/async.h>
#include <spdlog/fmt/chrono.h>
#include <spdlog/formatter.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <chrono>
#include <cstddef>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "calibd/text/printable.h"

namespace calibd::server {
namespace {

constexpr std::size_t kQueuedLines = 8192;

class LineFormatter final : public spdlog::formatter {
 public:
  explicit LineFormatter(bool json) : json_(json) {}

  void format(const spdlog::details::log_msg& message, spdlog::memory_buf_t& out) override {
    const auto seconds = std::chrono::floor<std::chrono::seconds>(message.time);
    const auto millis =
        std::chrono::duration_cast<std::chrono::milliseconds>(message.time - seconds).count();
    const std::string time =
        fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z",
                    fmt::gmtime(std::chrono::system_clock::to_time_t(seconds)), millis);
    const spdlog::string_view_t level = spdlog::level::to_string_view(message.level);
    const std::string text =
        EscapeUnprintable(std::string_view(message.payload.data(), message.payload.size()));
    std::string line;
    if (json_) {
      nlohmann::ordered_json object;
      object["time"] = time;
      object["level"] = std::string(level.data(), level.size());
      object["message"] = text;
      line = object.dump();
    } else {
      line = fmt::format("{} {:<8} {}", time, std::string(level.data(), level.size()), text);
    }
    line += '\n';
    out.append(line.data(), line.data() + line.size());
  }

  [[nodiscard]] std::unique_ptr<spdlog::formatter> clone() const override {
    return std::make_unique<LineFormatter>(json_);
  }

 private:
  const bool json_;
};

// libprotobuf writes a line to stderr for every string from a client that is not UTF-8. Such a
// message is refused anyway, so the lines only help debugging.
void LogOfProtobuf(google::protobuf::LogLevel level, const char* /*file*/, int /*line*/,
                   const std::string& message) {
  spdlog::log(level == google::protobuf::LOGLEVEL_FATAL ? spdlog::level::err : spdlog::level::debug,
              "protobuf: {}", message);
}

}  // namespace

void StartLogging(const std::string& format, const std::string& level) {
  spdlog::init_thread_pool(kQueuedLines, 1);
  auto logger = spdlog::create_async_nb<spdlog::sinks::stderr_sink_mt>("calibd");
  logger->set_formatter(std::make_unique<LineFormatter>(format == "json"));
  logger->set_level(spdlog::level::from_str(level));
  logger->flush_on(spdlog::level::trace);
  spdlog::set_default_logger(std::move(logger));
  google::protobuf::SetLogHandler(&LogOfProtobuf);
}

void StopLogging() {
  google::protobuf::SetLogHandler(nullptr);
  spdlog::shutdown();
}

}  // namespace calibd::server
