// Reports of calibctl as a process. tests/e2e/report_test.py opens them in a browser.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "calibd/core/generator.h"
#include "integration/client/calibctl_served.h"
#include "support/temporary_folder.h"

namespace calibd::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

PredictionSet DrawReported(std::size_t n) {
  auto generator = Generator::Create(GeneratorSpec::M2(), 7);
  PredictionSet set;
  generator->Draw(n, set);
  return set;
}

std::string ContentOf(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// The data of a report, which follow the last script.
nlohmann::json DataOf(const std::string& report) {
  const std::string begin = "<script type=\"application/json\" id=\"report\">";
  const std::string end = "</script>\n";
  EXPECT_THAT(report, AllOf(StartsWith("<!doctype html>"), HasSubstr(begin), EndsWith(end)));
  const std::size_t from = report.rfind(begin) + begin.size();
  const std::string data = report.substr(from, report.size() - end.size() - from);
  EXPECT_EQ(data.find('<'), std::string::npos);
  return nlohmann::json::parse(data);
}

std::vector<std::string> NamesIn(const fs::path& folder) {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    names.push_back(entry.path().filename());
  }
  std::ranges::sort(names);
  return names;
}

class CalibctlReportTest : public CalibctlServedTest {
 protected:
  std::string Path(const char* name) const { return folder_.path() / name; }

  TemporaryFolder folder_;
};

TEST_F(CalibctlReportTest, HasTheAnswersOfTheServer) {
  RunJson({"model", "create", "reported", "--classes", "10", "--bandwidth", "0.3"});
  Send("reported", PredictionFiles(DrawReported(400), 0));
  const std::string path = Path("report.html");
  std::ofstream(path) << "older";
  const nlohmann::json written = RunJson({"report", "reported", "-o", path});
  EXPECT_EQ(written,
            nlohmann::json({{"file", path}, {"sizeBytes", std::to_string(fs::file_size(path))}}));
  const nlohmann::json data = DataOf(ContentOf(path));
  EXPECT_EQ(data.at("name"), "models/reported");
  EXPECT_EQ(data.at("model"), RunJson({"model", "show", "reported"}));
  nlohmann::json shown = RunJson({"show", "reported"});
  // Times differ, and the age of the newest row.
  nlohmann::json reported = data.at("calibration");
  for (nlohmann::json* const answer : {&shown, &reported}) {
    answer->at("reading").erase("data");
    answer->at("provenance").erase("computeTime");
  }
  EXPECT_EQ(reported, shown);
  EXPECT_EQ(data.at("evaluation").at("reliability").size(), 11);
  EXPECT_EQ(data.at("estimate").at("estimators").size(), 6);
  EXPECT_EQ(data.at("histories").at("MINUTE").at("buckets").size(), 1);
  EXPECT_EQ(data.at("histories").at("DAY").at("buckets").size(), 1);
  EXPECT_THAT(NamesIn(folder_.path()), ElementsAre("report.html"));
  // A link stays a link, and what is not a file is written as it is.
  fs::create_symlink("report.html", Path("link.html"));
  EXPECT_EQ(Run({"report", "reported", "-o", Path("link.html")})->exit_code(), 0);
  EXPECT_TRUE(fs::is_symlink(Path("link.html")));
  const auto printed = Run({"report", "reported", "-o", "/dev/stdout"});
  EXPECT_EQ(printed->exit_code(), 0) << printed->error();
  EXPECT_THAT(printed->output(), StartsWith("<!doctype html>"));
}

TEST_F(CalibctlReportTest, OfAModelWithFewRowsHasNoDiagram) {
  RunJson({"model", "create", "newcomer", "--classes", "10"});
  RunJson({"report", "newcomer", "-o", Path("report.html")});
  const nlohmann::json data = DataOf(ContentOf(Path("report.html")));
  EXPECT_FALSE(data.contains("evaluation"));
  EXPECT_FALSE(data.contains("estimate"));
}

TEST_F(CalibctlReportTest, ErrorsSayWhatToDo) {
  const auto no_model = Run({"report", "absent", "-o", Path("report.html")});
  EXPECT_EQ(no_model->exit_code(), 1);
  EXPECT_THAT(no_model->error(), HasSubstr("models/absent"));
  const auto no_folder = Run({"report", "absent", "-o", Path("none/report.html")});
  EXPECT_EQ(no_folder->exit_code(), 2);
  EXPECT_THAT(no_folder->error(),
              HasSubstr("there is no folder " + Path("none") + ": create it first"));
  EXPECT_EQ(Run({"report", "absent"})->exit_code(), 2);
  std::ofstream(Path("rows.csv")) << "0.5,0.5,1\n";
  const auto of_file = Run({"report", Path("rows.csv"), "-o", Path("report.html")});
  EXPECT_EQ(of_file->exit_code(), 2);
  EXPECT_THAT(of_file->error(), HasSubstr("is a file, not a model of the server: `calibctl "
                                          "evaluate`, `evaluate-forecasts` and "
                                          "`evaluate-labels` have --report"));
  RunJson({"model", "create", "reported", "--classes", "10"});
  const auto is_folder = Run({"report", "reported", "-o", folder_.path()});
  EXPECT_EQ(is_folder->exit_code(), 1);
  EXPECT_THAT(is_folder->error(), HasSubstr("cannot write "));
  EXPECT_THAT(NamesIn(folder_.path()), ElementsAre("rows.csv"));
}

TEST_F(CalibctlReportTest, OfFilesHasWhatIsPrinted) {
  const PredictionFiles files(DrawReported(300), 0);
  std::ofstream(Path("normals.csv")) << "0,1,0.5\n1,1,2.5\n0,2,-1\n";
  std::ofstream(Path("labels.csv")) << "prob_fog,label_fog\n0.5,1\n0.25,0\n";
  for (const auto& [kind, arguments] :
       std::vector<std::pair<std::string, std::vector<std::string>>>{
           {"predictions", {"evaluate", files.predictions(), files.labels(), "--label-base", "0"}},
           {"normals", {"evaluate-forecasts", "--normals", Path("normals.csv")}},
           {"labels", {"evaluate-labels", Path("labels.csv")}}}) {
    std::vector<std::string> all = arguments;
    all.insert(all.end(), {"--report", Path("report.html"), "--output", "json"});
    CalibctlRun run(all);
    ASSERT_EQ(run.exit_code(), 0) << run.error();
    nlohmann::json printed = run.json();
    printed.erase("fileRows");
    const nlohmann::json data = DataOf(ContentOf(Path("report.html")));
    if (kind == "normals") {
      EXPECT_EQ(data.at("evaluation").at("testedObservations"), printed.at("testedObservations"));
      printed.erase("testedObservations");
    }
    EXPECT_EQ(data.at("name"), kind + ".csv");
    EXPECT_EQ(kind == "labels"    ? data.at("labels")
              : kind == "normals" ? data.at("evaluation").at("forecast")
                                  : data.at("evaluation"),
              printed);
  }
}

}  // namespace
}  // namespace calibd::testing
