#include "server/base/error_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <sstream>
#include <string>
#include <vector>

namespace calibd::server {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

class ErrorLogTest : public ::testing::Test {
 protected:
  ErrorLogTest() {
    auto logger = std::make_shared<spdlog::logger>(
        "test", std::make_shared<spdlog::sinks::ostream_sink_mt>(text_));
    logger->set_pattern("%l %v");
    spdlog::set_default_logger(std::move(logger));
  }
  ~ErrorLogTest() override { spdlog::set_default_logger(former_); }

  // Returns the lines that were logged since the last call.
  std::vector<std::string> Lines() {
    std::istringstream text(text_.str());
    text_.str("");
    std::vector<std::string> lines;
    for (std::string line; std::getline(text, line);) lines.push_back(line);
    return lines;
  }

 private:
  const std::shared_ptr<spdlog::logger> former_ = spdlog::default_logger();
  std::ostringstream text_;
};

TEST_F(ErrorLogTest, LogsEachMessageOnce) {
  ErrorLog log("damaged places");
  for (const char* message : {"table a", "table b", "table a", "table b"}) log.Log(message);
  EXPECT_THAT(Lines(), ElementsAre("error table a", "error table b"));
}

TEST_F(ErrorLogTest, CountsFurtherErrors) {
  ErrorLog log("damaged places");
  for (std::size_t i = 0; i < ErrorLog::kMostLines; ++i) log.Log(std::to_string(i));
  EXPECT_THAT(Lines(), SizeIs(ErrorLog::kMostLines));
  for (int i = 0; i < 7; ++i) log.Log("more " + std::to_string(i));
  EXPECT_THAT(Lines(),
              ElementsAre("error further damaged places that are not logged individually: 1",
                          "error further damaged places that are not logged individually: 2",
                          "error further damaged places that are not logged individually: 4"));
}

TEST_F(ErrorLogTest, LogsAMessageAgainInTheNextInterval) {
  ErrorLog log("failed calls", ErrorLog::Clock::duration::zero());
  log.Log("a");
  log.Log("a");
  EXPECT_THAT(Lines(), ElementsAre("error a", "error a"));
}

}  // namespace
}  // namespace calibd::server
