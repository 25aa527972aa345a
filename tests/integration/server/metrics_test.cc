#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <regex>
#include <set>
#include <sstream>
#include <string>

#include "integration/server/service_client.h"
#include "support/http_get.h"
#include "support/server_process.h"

namespace calibd::testing {
namespace {

using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

class MetricsTest : public ::testing::Test {
 protected:
  void Start(const std::vector<std::string>& arguments = {}) {
    server_ = ServerProcess::Start(arguments);
    ASSERT_NE(server_, nullptr);
    client_.emplace(server_->grpc_address());
  }

  void Observe(const std::string& model, const PredictionSet& set) {
    v1::ObserveRequest request;
    request.set_model(model);
    *request.mutable_observations() = ToProto(set.view());
    ASSERT_TRUE(client_->Observe(request).ok());
  }

  std::string Scrape() const { return HttpGet(server_->http_address(), "/metrics").body; }

  std::unique_ptr<ServerProcess> server_;
  std::optional<ServiceClient> client_;
};

TEST_F(MetricsTest, UnknownIsAbsentAndDeletedModelsVanish) {
  Start();
  client_->CreateFixed("models/m/versions/2", 10);
  std::string text = Scrape();
  EXPECT_THAT(text, HasSubstr("calibd_observations_total{model=\"m\",version=\"2\"} 0\n"));
  EXPECT_THAT(text, Not(HasSubstr("calibd_skce{")));
  EXPECT_THAT(text, Not(HasSubstr("calibd_last_observation_timestamp_seconds{")));
  EXPECT_THAT(text, Not(HasSubstr("nan")));
  EXPECT_THAT(text, HasSubstr("calibd_build_info{version=\""));

  Observe("models/m/versions/2", Draw(50));
  text = Scrape();
  const std::string labels =
      "{model=\"m\",version=\"2\",lens=\"canonical\",estimator=\"block_2\"} ";
  EXPECT_THAT(text, HasSubstr("calibd_observations_total{model=\"m\",version=\"2\"} 50\n"));
  EXPECT_THAT(text, HasSubstr("calibd_skce" + labels));
  EXPECT_THAT(text, HasSubstr("calibd_estimate_samples" + labels + "50\n"));
  // The test needs 30 blocks.
  for (const char* name :
       {"calibd_test_p_value", "calibd_test_statistic", "calibd_skce_lower_bound"}) {
    EXPECT_THAT(text, Not(HasSubstr(name + labels)));
  }
  Observe("models/m/versions/2", Draw(10, 10, 2));
  text = Scrape();
  for (const char* name :
       {"calibd_test_p_value", "calibd_test_statistic", "calibd_skce_lower_bound"}) {
    EXPECT_THAT(text, HasSubstr(name + labels));
  }
  EXPECT_THAT(text, HasSubstr("# HELP calibd_test_p_value "));
  EXPECT_THAT(text, HasSubstr("For one look only"));

  ASSERT_TRUE(client_->Delete("models/m/versions/2").ok());
  EXPECT_THAT(Scrape(), Not(HasSubstr("model=\"m\"")));
}

TEST_F(MetricsTest, MonitoringIsExported) {
  Start();
  client_->CreateFixed("models/m", 10);
  std::string text = Scrape();
  EXPECT_THAT(text,
              HasSubstr("calibd_alarm_active{model=\"m\",version=\"\",kind=\"evidence\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("calibd_alarms_total{model=\"m\",version=\"\",kind=\"drift\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("calibd_watch_observations{model=\"m\",version=\"\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("calibd_log10_e_value{model=\"m\",version=\"\"} 0\n"));
  EXPECT_THAT(text, Not(HasSubstr("calibd_effect_skce{")));
  // The default is a day.
  EXPECT_THAT(text, HasSubstr("calibd_stale_after_seconds{model=\"m\",version=\"\"} 86400\n"));
  // No observation was counted, so this is the time of the model's creation.
  EXPECT_THAT(text, HasSubstr("calibd_last_counted_timestamp_seconds{model=\"m\",version=\"\"} "));
  Observe("models/m", Draw(500));
  text = Scrape();
  EXPECT_THAT(text,
              HasSubstr("calibd_alarm_active{model=\"m\",version=\"\",kind=\"evidence\"} 1\n"));
  EXPECT_THAT(text,
              HasSubstr("calibd_alarms_total{model=\"m\",version=\"\",kind=\"evidence\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("calibd_watch_observations{model=\"m\",version=\"\"} 500\n"));
  const v1::GetCalibrationResponse answer = client_->GetCalibration("models/m");
  const auto value = [&](const std::string& name) {
    const std::string series = "\n" + name + "{model=\"m\",version=\"\"} ";
    const std::size_t at = text.find(series);
    EXPECT_NE(at, std::string::npos) << name;
    return at == std::string::npos ? 0 : std::stod(text.substr(at + series.size()));
  };
  const v1::Watch& watch = answer.watch();
  EXPECT_DOUBLE_EQ(value("calibd_log10_e_value"), watch.evidence().log10_e_value());
  EXPECT_DOUBLE_EQ(value("calibd_log10_e_value_max"), watch.evidence().max_log10_e_value());
  EXPECT_DOUBLE_EQ(value("calibd_drift_log10_statistic"), watch.drift().log10_statistic());
  EXPECT_DOUBLE_EQ(value("calibd_effect_skce"), watch.effect_size().skce());
  EXPECT_DOUBLE_EQ(value("calibd_effect_skce_lower_bound"), watch.effect_size().skce_lower_bound());
  EXPECT_DOUBLE_EQ(value("calibd_effect_skce_upper_bound"), watch.effect_size().skce_upper_bound());
  EXPECT_DOUBLE_EQ(value("calibd_effect_skce_noise_floor"), watch.effect_size().noise_floor());
  EXPECT_DOUBLE_EQ(value("calibd_confidence_minus_accuracy"), answer.verdict().direction().gap());
  EXPECT_NEAR(value("calibd_last_counted_timestamp_seconds"),
              static_cast<double>(answer.last_observation_time().seconds()), 1);
  ASSERT_TRUE(client_->Delete("models/m").ok());
  EXPECT_THAT(Scrape(), Not(HasSubstr("model=\"m\"")));
}

TEST_F(MetricsTest, GroupsAreExported) {
  Start();
  v1::Model model;
  model.set_name("models/m");
  model.mutable_classes()->set_count(10);
  model.mutable_classes()->mutable_bandwidth()->set_fixed(0.5);
  model.mutable_monitoring()->set_group_tag("region");
  model.mutable_monitoring()->set_max_groups(1);
  ASSERT_TRUE(client_->Create(model).ok());
  v1::ObserveRequest request;
  request.set_model("models/m");
  *request.mutable_observations() = ToProto(Draw(3).view());
  for (const char* value : {"eu", "us", "asia"}) {
    request.mutable_observations()->add_group_values(value);
  }
  ASSERT_TRUE(client_->Observe(request).ok());
  const std::string text = Scrape();
  const std::string name = "calibd_group_log10_e_value{model=\"m\",version=\"\",";
  EXPECT_THAT(text, HasSubstr(name + "group=\"eu\",overflow=\"false\"} "));
  EXPECT_THAT(text, HasSubstr(name + "group=\"\",overflow=\"true\"} "));
  EXPECT_THAT(text, Not(HasSubstr("asia")));
}

// Returns the metrics in the expressions of the alert rules.
std::set<std::string> MetricsOfAlertRules() {
  std::set<std::string> names;
  std::ifstream rules(CALIBD_ALERT_RULES);
  const std::regex key("^ *(expr|for|labels):.*");
  const std::regex metric("calibd_[a-z0-9_]+");
  bool in_expression = false;
  for (std::string line; std::getline(rules, line);) {
    if (std::smatch match; std::regex_match(line, match, key)) in_expression = match[1] == "expr";
    if (!in_expression) continue;
    for (std::sregex_iterator it(line.begin(), line.end(), metric), end; it != end; ++it) {
      names.insert(it->str());
    }
  }
  return names;
}

TEST_F(MetricsTest, MetricsOfTheAlertRulesAreExported) {
  Start({"--archive-command", "true %p %f"});
  client_->CreateFixed("models/direct", 10);
  Observe("models/direct", Draw(50));
  v1::Model later;
  later.set_name("models/later");
  later.mutable_classes()->set_count(10);
  later.mutable_classes()->mutable_bandwidth()->set_fixed(0.5);
  later.mutable_label_grace()->set_seconds(60);
  ASSERT_TRUE(client_->Create(later).ok());
  const std::string text = Scrape();
  std::set<std::string> names = MetricsOfAlertRules();
  EXPECT_THAT(names, Contains("calibd_alarm_active"));
  // Only a server with TLS has it; the hostile tests of TLS read it.
  EXPECT_EQ(names.erase("calibd_tls_certificate_expiry_timestamp_seconds"), 1);
  // Only a server with its store in PostgreSQL has it; TakeoverTest reads it.
  EXPECT_EQ(names.erase("calibd_store_synchronous"), 1);
  for (const std::string& name : names) {
    EXPECT_THAT(text, AnyOf(HasSubstr("\n" + name + "{"), HasSubstr("\n" + name + " ")));
  }
}

TEST_F(MetricsTest, AnEmptyStoreIsSmall) {
  Start();
  const std::string text = Scrape();
  for (const std::string part : {"log", "database"}) {
    const std::string series = "\ncalibd_store_size_bytes{part=\"" + part + "\"} ";
    const std::size_t at = text.find(series);
    ASSERT_NE(at, std::string::npos) << part;
    const double bytes = std::stod(text.substr(at + series.size()));
    EXPECT_GT(bytes, 0) << part;
    // The database contains its tables, and the write-ahead log what created them.
    EXPECT_LT(bytes, part == "log" ? 1000 : 1 << 20) << part;
  }
}

TEST_F(MetricsTest, FailedCallsAreCountedToo) {
  Start();
  EXPECT_EQ(client_->Delete("models/absent").error_code(), grpc::NOT_FOUND);
  const std::string labels =
      "{grpc_type=\"unary\",grpc_service=\"calibd.v1.ModelService\",grpc_method=\"DeleteModel\"";
  EXPECT_TRUE(WaitFor([&] {
    const std::string text = Scrape();
    return text.find("grpc_server_handled_total" + labels + ",grpc_code=\"NotFound\"} 1\n") !=
               std::string::npos &&
           text.find("grpc_server_handling_seconds_count" + labels + "} 1\n") != std::string::npos;
  }));
}

TEST_F(MetricsTest, SeriesOfModelsAreCapped) {
  Start({"--max-series", "20"});
  for (int i = 0; i < 10; ++i) client_->CreateFixed("models/m" + std::to_string(i), 2);
  std::istringstream lines(Scrape());
  int series = 0;
  bool counted = false;
  for (std::string line; std::getline(lines, line);) {
    series += line.find("model=\"") == std::string::npos ? 0 : 1;
    counted = counted || (line.rfind("calibd_series_dropped_total ", 0) == 0 &&
                          line != "calibd_series_dropped_total 0");
  }
  EXPECT_EQ(series, 20);
  EXPECT_TRUE(counted);
}

TEST_F(MetricsTest, AlarmsAndAgesOfAllModelsComeBeforeDetails) {
  constexpr int kModels = 10;
  Start({"--max-series", "110"});
  for (int i = 0; i < kModels; ++i) client_->CreateFixed("models/m" + std::to_string(i), 2);
  const std::string text = Scrape();
  for (int i = 0; i < kModels; ++i) {
    const std::string labels = "{model=\"m" + std::to_string(i) + "\",version=\"\"";
    for (const char* name :
         {"calibd_verdict", "calibd_alarm_active", "calibd_last_counted_timestamp_seconds",
          "calibd_stale_after_seconds", "calibd_model_info"}) {
      EXPECT_THAT(text, HasSubstr(name + labels)) << i;
    }
  }
  // The details follow model by model.
  EXPECT_THAT(text, HasSubstr("calibd_error_limit{model=\"m0\""));
  EXPECT_THAT(text, Not(HasSubstr("calibd_observations_total{model=\"m9\"")));
}

// Predictions of two classes that state class 1 with .3 or .7, 10 points too often: for the top
// label these errors cancel.
PredictionSet CancellingErrors(int rows) {
  PredictionSet set;
  set.class_count = 2;
  for (int i = 0; i < rows; ++i) {
    const bool high = i % 2 == 1;
    set.probabilities.insert(set.probabilities.end(), {high ? 0.3 : 0.7, high ? 0.7 : 0.3});
    set.labels.push_back(i / 2 % 10 < (high ? 6 : 2) ? 1 : 0);
  }
  return set;
}

TEST_F(MetricsTest, TheErrorHasASeriesForClass1AndOutlastsAcknowledgements) {
  Start();
  client_->CreateFixed("models/m", 2);
  Observe("models/m", CancellingErrors(3000));
  const auto value = [this](const std::string& series) {
    const std::string text = Scrape();
    const std::size_t at = text.find("\n" + series + "} ");
    EXPECT_NE(at, std::string::npos) << series;
    return at == std::string::npos ? -1 : std::stod(text.substr(at + series.size() + 3));
  };
  const auto error = [&](const std::string& event) {
    return value("calibd_binned_error{model=\"m\",version=\"\",event=\"" + event + "\"");
  };
  EXPECT_NEAR(error("top_label"), 0, 1e-9);
  EXPECT_NEAR(error("class_1"), 0.1, 1e-9);
  EXPECT_GT(value("calibd_binned_error_lower_bound{model=\"m\",version=\"\",event=\"class_1\""),
            0.02);
  const std::string since =
      "calibd_alarm_raise_timestamp_seconds{model=\"m\",version=\"\",kind=\"over_limit\"";
  EXPECT_GT(value(since), 0);
  const std::string effect = "calibd_effect_skce{model=\"m\",version=\"\"";
  const double effect_before = value(effect);

  const v1::GetCalibrationResponse found = client_->GetCalibration("models/m");
  for (const v1::Alarm& alarm : found.alarms()) {
    v1::AcknowledgeAlarmRequest request;
    request.set_model("models/m");
    request.set_alarm_id(alarm.id());
    v1::AcknowledgeAlarmResponse response;
    CallContext context;
    ASSERT_TRUE(client_->calibration->AcknowledgeAlarm(&context, request, &response).ok());
  }
  EXPECT_THAT(Scrape(), Not(HasSubstr(since)));
  EXPECT_NEAR(error("class_1"), 0.1, 1e-9) << "since the start";
  EXPECT_EQ(value(effect), effect_before);
  EXPECT_THAT(Scrape(), HasSubstr("limit_status=\"OVER_LIMIT\",recent=\"false\","
                                  "acknowledged=\"true\""));

  PredictionSet calibrated = CancellingErrors(100);
  for (std::size_t i = 0; i < calibrated.labels.size(); ++i) {
    calibrated.labels[i] = i / 2 % 10 < (i % 2 == 1 ? 7 : 3) ? 1 : 0;
  }
  Observe("models/m", calibrated);
  EXPECT_NEAR(error("class_1"), 0, 1e-9) << "since the acknowledgement";
  EXPECT_NE(value(effect), effect_before);
}

TEST_F(MetricsTest, TheNewestErrorIsExportedWithItsInterval) {
  Start();
  client_->CreateFixed("models/m", 2);
  PredictionSet set = CancellingErrors(20000);
  for (std::size_t i = 0; i < set.labels.size(); ++i) {
    // Calibrated, and at last 40 points off.
    const int shift = i >= 19000 ? 4 : 0;
    set.labels[i] = static_cast<int>(i / 2 % 10) < (i % 2 == 1 ? 7 - shift : 3 + shift) ? 1 : 0;
  }
  Observe("models/m", set);
  const v1::CalibrationError error = client_->GetCalibration("models/m").error();
  ASSERT_TRUE(error.is_recent());
  const std::string text = Scrape();
  const auto value = [&text](const std::string& series) {
    const std::size_t at = text.find("\n" + series + "} ");
    EXPECT_NE(at, std::string::npos) << series;
    return at == std::string::npos ? -1 : std::stod(text.substr(at + series.size() + 3));
  };
  EXPECT_EQ(error.newest().observations(), 20000 - 18 * 1024);
  EXPECT_EQ(value("calibd_newest_error_observations{model=\"m\",version=\"\""), 20000 - 18 * 1024);
  const std::string of_class_1 = "{model=\"m\",version=\"\",event=\"class_1\"";
  const v1::ErrorInterval& class_1 = error.newest().class_1();
  EXPECT_DOUBLE_EQ(value("calibd_newest_error" + of_class_1), class_1.estimate());
  EXPECT_DOUBLE_EQ(value("calibd_newest_error_lower_bound" + of_class_1), class_1.lower());
  EXPECT_DOUBLE_EQ(value("calibd_newest_error_upper_bound" + of_class_1), class_1.upper());
  EXPECT_GT(class_1.lower(), 0.02);
  EXPECT_THAT(text,
              HasSubstr("\ncalibd_newest_error{model=\"m\",version=\"\",event=\"top_label\""));
  EXPECT_THAT(text, HasSubstr("recent=\"true\""));
  EXPECT_EQ(value("calibd_alarm_recovered{model=\"m\",version=\"\",kind=\"over_limit\""), 0);
}

TEST_F(MetricsTest, PromtoolReportsNoProblems) {
  Start();
  client_->CreateFixed("models/m", 10);
  Observe("models/m", Draw(500));
  const TemporaryFolder folder;
  const std::string file = (folder.path() / "metrics.txt").string();
  std::ofstream(file) << Scrape();
  ChildProcess promtool({"sh", "-c", "promtool check metrics < \"$0\"", file},
                        folder.path() / "output.txt");
  const auto code = promtool.WaitForExit();
  if (code == 127) GTEST_SKIP() << "promtool is not installed";
  EXPECT_EQ(code, 0) << promtool.Output();
  EXPECT_EQ(promtool.Output(), "");
}

TEST_F(MetricsTest, PrometheusScrapesAndAnswers) {
  Start();
  client_->CreateFixed("models/m", 10);
  Observe("models/m", Draw(123));
  const TemporaryFolder folder;
  const std::string config = (folder.path() / "prometheus.yml").string();
  std::ofstream(config) << "scrape_configs:\n"
                           "  - job_name: calibd\n"
                           "    scrape_interval: 1s\n"
                           "    static_configs: [{targets: ['"
                        << server_->http_address() << "']}]\n";
  ChildProcess prometheus({"prometheus", "--config.file=" + config,
                           "--storage.tsdb.path=" + (folder.path() / "tsdb").string(),
                           "--web.listen-address=127.0.0.1:0"},
                          folder.path() / "output.txt");
  // The log names the port that it got.
  std::string address;
  ASSERT_TRUE(WaitFor([&] {
    const std::string output = prometheus.Output();
    const std::size_t at = output.find("msg=\"Listening on\" address=");
    if (at != std::string::npos) {
      const std::size_t from = output.find("127.0.0.1:", at);
      const std::size_t to = output.find('\n', at);
      address = from < to && to != std::string::npos ? output.substr(from, to - from) : "";
    }
    return !address.empty() || prometheus.WaitForExit(std::chrono::milliseconds(0)).has_value();
  })) << prometheus.Output();
  if (address.empty() && prometheus.WaitForExit(std::chrono::milliseconds(0)) == 127) {
    GTEST_SKIP() << "prometheus is not installed";
  }
  nlohmann::json result;
  EXPECT_TRUE(WaitFor([&] {
    const HttpAnswer answer = HttpGet(address, "/api/v1/query?query=calibd_observations_total");
    const auto body = nlohmann::json::parse(answer.body, nullptr, /*allow_exceptions=*/false);
    if (!body.is_object() || body.value("status", "") != "success") return false;
    result = body["data"]["result"];
    return !result.empty();
  })) << prometheus.Output();
  ASSERT_EQ(result.size(), 1U);
  EXPECT_EQ(result[0]["metric"]["model"], "m");
  EXPECT_EQ(result[0]["value"][1], "123");
}

}  // namespace
}  // namespace calibd::testing
