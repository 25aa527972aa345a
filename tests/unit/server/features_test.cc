// Features of the cases: their declaration, their checks and their form in the log.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "server/ingest/decode.h"
#include "server/model/model_declaration.h"
#include "server/rows/row_codec.h"
#include "server/state/check_declaration.h"
#include "server/state/declaration_size.h"
#include "server/state/disk_use.h"

namespace calibd::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::size_t kRoom = std::size_t{1} << 30;

v1::Model ForecastModel() {
  v1::Model model;
  model.set_name("models/m");
  model.mutable_forecast()->mutable_normal();
  model.add_feature_names("age");
  model.add_feature_names("income");
  return model;
}

v1::Observations TwoForecasts() {
  v1::Observations observations;
  for (const double value : {1.0, 0.5, 2.0, 0.25}) {
    observations.mutable_forecasts()->add_values(value);
  }
  observations.add_outcomes(1.5);
  observations.add_outcomes(1.75);
  for (const double value : {31.0, 0.1, 47.0, 0.3}) {
    observations.mutable_features()->add_values(value);
  }
  return observations;
}

std::string RefusalOf(const v1::Model& model) {
  return std::string(CheckDeclaration(model, kRoom).status().message());
}

std::string FeatureRefusal(const std::function<void(v1::Observations&)>& change,
                           const v1::Model& model = ForecastModel()) {
  v1::Observations observations = TwoForecasts();
  change(observations);
  return std::string(
      Decode(observations, CheckDeclaration(model, kRoom).value()).validity().message());
}

TEST(FeaturesTest, TheirNamesAreDeclared) {
  const auto with = CheckDeclaration(ForecastModel(), kRoom);
  ASSERT_TRUE(with.ok()) << with.status();
  EXPECT_THAT(with->feature_names, ElementsAre("age", "income"));
  EXPECT_EQ(CheckDeclaration(ToProto(*with), kRoom).value(), *with);
  v1::Model model = ForecastModel();
  model.clear_feature_names();
  const auto without = CheckDeclaration(model, kRoom);
  EXPECT_NE(*with, *without);
  EXPECT_EQ(with->values_per_row(), 4U);
  EXPECT_GE(StateMemory(*with), StateMemory(*without) + 10000 * 2 * sizeof(double));
  EXPECT_GE(DiskUse(*with), DiskUse(*without) + 10000 * 2 * sizeof(double));
  v1::Model classes;
  classes.set_name("models/m");
  classes.mutable_classes()->set_count(3);
  classes.add_feature_names("age");
  EXPECT_EQ(CheckDeclaration(classes, kRoom)->values_per_row(), 4U);

  model.add_feature_names("age");
  model.add_feature_names("age");
  EXPECT_THAT(RefusalOf(model), HasSubstr("model.feature_names[1] is \"age\" again"));
  model.set_feature_names(1, "");
  EXPECT_THAT(RefusalOf(model), HasSubstr("model.feature_names[1] is \"\", expected 1..64 bytes"));
  model = ForecastModel();
  for (int i = 0; i < 255; ++i) model.add_feature_names("x" + std::to_string(i));
  EXPECT_THAT(RefusalOf(model), HasSubstr("has 257 names, expected at most 256"));
  model = ForecastModel();
  model.mutable_forecast()->mutable_quantiles()->add_levels(0.5);
  EXPECT_EQ(CheckDeclaration(model, kRoom)->values_per_row(), 3U);
}

TEST(FeaturesTest, TheyAreRequiredAndFinite) {
  EXPECT_THAT(FeatureRefusal([](auto&) {}), IsEmpty());
  EXPECT_THAT(FeatureRefusal([](auto& o) { o.clear_features(); }),
              HasSubstr("features is not set, expected 2 x 2 values because the model has 2"));
  EXPECT_THAT(FeatureRefusal([](auto& o) { o.mutable_features()->add_values(1); }),
              HasSubstr("features has 5 values, expected 2 x 2"));
  EXPECT_THAT(FeatureRefusal([](auto& o) {
                o.mutable_features()->set_values(3, std::numeric_limits<double>::infinity());
              }),
              HasSubstr("rows[1].features[1] (\"income\") is inf, expected a finite number"));
  v1::Model without = ForecastModel();
  without.clear_feature_names();
  EXPECT_THAT(FeatureRefusal([](auto&) {}, without),
              HasSubstr("features are given, expected none because the model has no"));
  // One invalid row is skipped with its features.
  v1::Observations observations = TwoForecasts();
  observations.mutable_features()->set_values(0, std::numeric_limits<double>::quiet_NaN());
  observations.set_skip_invalid_rows(true);
  const LogRow row = Decode(observations, CheckDeclaration(ForecastModel(), kRoom).value());
  ASSERT_NE(row.values(), nullptr) << row.validity();
  EXPECT_EQ(row.skipped.rows, 1);
  EXPECT_THAT(row.values()->features, ElementsAre(47.0, 0.3));
  EXPECT_THAT(row.values()->truths.outcomes, ElementsAre(1.75));
}

TEST(FeaturesTest, TheContentOfABatchIncludesThem) {
  const ModelDeclaration declaration = CheckDeclaration(ForecastModel(), kRoom).value();
  v1::Observations observations = TwoForecasts();
  const std::uint64_t hash = Decode(observations, declaration).content_hash;
  EXPECT_EQ(Decode(observations, declaration).content_hash, hash);
  observations.mutable_features()->set_values(2, 48);
  EXPECT_NE(Decode(observations, declaration).content_hash, hash);
}

TEST(FeaturesTest, TheLogHoldsThemInTheSmallestExactPrecision) {
  const ModelDeclaration declaration = CheckDeclaration(ForecastModel(), kRoom).value();
  v1::Observations observations = TwoForecasts();
  const std::string doubles = EncodeRow(Decode(observations, declaration));
  for (double& value : *observations.mutable_features()->mutable_values()) value = 0.5;
  const LogRow row = Decode(observations, declaration);
  const std::string floats = EncodeRow(row);
  EXPECT_EQ(floats.size() + 4 * sizeof(float), doubles.size());
  const auto read = DecodeRow(doubles, declaration.row_shape());
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_THAT(read->values()->features, ElementsAre(31.0, 0.1, 47.0, 0.3));
  EXPECT_EQ(read->values()->feature_count, 2U);
  EXPECT_EQ(DecodeRow(floats, declaration.row_shape())->values()->features,
            std::vector<double>(4, 0.5));
  // Rows of another number of features are damage.
  RowShape other = declaration.row_shape();
  other.features = 1;
  EXPECT_TRUE(absl::IsDataLoss(DecodeRow(doubles, other).status()));
}

}  // namespace
}  // namespace calibd::server
