// Files of several labels, sent to a served model.
#include <fstream>
#include <string>
#include <vector>

#include "integration/client/calibctl_served.h"
#include "support/temporary_folder.h"

namespace calibd::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class CalibctlLabelFilesTest : public CalibctlServedTest {
 protected:
  std::string Write(const std::string& name, const std::string& text) {
    const std::string path = folder_.path() / name;
    std::ofstream(path) << text;
    return path;
  }
  std::string Error(std::vector<std::string> arguments, int exit_code = 1) {
    const auto run = Run(std::move(arguments));
    EXPECT_EQ(run->exit_code(), exit_code) << run->output();
    return run->error();
  }
  void Create(const std::string& model, std::vector<std::string> more = {}) {
    std::vector<std::string> arguments = {"model", "create", model, "--labels", "rain,fog"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    RunJson(std::move(arguments));
  }
  nlohmann::json LabelsOf(const std::string& model) {
    return RunJson({"show", model}).at("labels").at("labels");
  }

  const TemporaryFolder folder_;
};

TEST_F(CalibctlLabelFilesTest, RowsCountWithTheTruthsThatAreKnown) {
  Create("weather");
  // The columns are in another order than the labels of the model.
  const std::string path = Write("w.csv",
                                 "prob_fog,prob_rain,label_rain,label_fog,station\n"
                                 "0.25,0.5,1,0,a\n0.75,0.5,0,,b\n0.5,1,1,1,c\n");
  EXPECT_EQ(RunJson({"send", "weather", path}).at("acceptedRows"), "3");
  const nlohmann::json labels = LabelsOf("weather");
  EXPECT_EQ(labels.at(0).at("name"), "rain");
  EXPECT_EQ(labels.at(0).at("truths"), "3");
  EXPECT_NEAR(labels.at(0).at("stated").get<double>(), 2. / 3, 1e-12);
  EXPECT_EQ(labels.at(1).at("truths"), "2");
  EXPECT_NEAR(labels.at(1).at("held").get<double>(), 0.5, 1e-12);
}

TEST_F(CalibctlLabelFilesTest, TruthsCanComeLaterById) {
  Create("late", {"--label-grace", "1h"});
  const std::string rows = Write("p.jsonl",
                                 "{\"id\": \"a\", \"prob_rain\": 0.5, \"prob_fog\": 0.25}\n"
                                 "{\"id\": \"b\", \"prob_rain\": 1, \"prob_fog\": 0}\n");
  EXPECT_EQ(RunJson({"send", "late", rows}).at("acceptedRows"), "2");
  const std::string truths = Write("t.csv", "label_fog,id,label_rain\n,a,1\n1,b,1\n0,c,0\n");
  const nlohmann::json sent = RunJson({"label", "late", truths});
  EXPECT_EQ(sent.at("matched"), "2");
  EXPECT_EQ(sent.at("unknown"), "0");
  EXPECT_EQ(sent.at("waiting"), "1");
}

TEST_F(CalibctlLabelFilesTest, ErrorsNameTheFileTheLineAndTheColumn) {
  Create("strict");
  const auto fault = [&](const std::string& text, std::vector<std::string> more = {},
                         int exit_code = 1) {
    std::vector<std::string> arguments = {"send", "strict", Write("s.csv", text)};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return Error(std::move(arguments), exit_code);
  };
  const std::string header = "prob_rain,prob_fog,label_rain,label_fog\n";
  EXPECT_THAT(fault(header + "0.5,0.5,1,0\n0.5,1.5,0,0\n"),
              HasSubstr("s.csv line 3, column 2 (\"prob_fog\") is 1.5"));
  EXPECT_THAT(fault(header + "0.5,0.5,1,2\n"),
              HasSubstr("s.csv line 2, column 4 (\"label_fog\"): truth \"2\", expected 0, 1"));
  EXPECT_THAT(fault("prob_rain,prob_hail,label_rain,label_hail\n0.5,0.5,1,0\n"),
              AllOf(HasSubstr("prob_NAME of \"hail\", \"rain\""),
                    HasSubstr("expected those of the labels \"rain\", \"fog\"")));
  EXPECT_THAT(fault("prob_rain,prob_fog\n0.5,0.5\n"), HasSubstr("has no columns label_NAME"));
  EXPECT_THAT(fault(header, {"--label-base", "0"}, 2), HasSubstr("this one has several labels"));
  EXPECT_THAT(fault(header, {"--label-column", "label_rain"}, 2), HasSubstr("leave out LABELS"));
  const std::string damaged = Write("d.csv", header + "0.5,0.5,1,0\n0.5,NA,0,0\n0.5,0.5,1,9\n");
  const nlohmann::json sent = RunJson({"send", "strict", damaged, "--drop-invalid"});
  EXPECT_EQ(sent.at("acceptedRows"), "1");
  EXPECT_EQ(sent.at("droppedRows"), "2");
  EXPECT_THAT(Error({"label", "strict", damaged}, 2), HasSubstr("no label grace"));
}

}  // namespace
}  // namespace calibd::testing
