#include "server/ingest/decode.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

namespace calibd::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

ModelDeclaration Declaration() {
  ModelDeclaration declaration;
  auto& classes = declaration.kind.emplace<ClassesSpec>();
  classes.count = 2;
  classes.names = {"cat", "dog"};
  classes.row_sum_tolerance = 1e-3;
  return declaration;
}

v1::Observations Valid() {
  v1::Observations observations;
  for (const double value : {0.25, 0.75, 0.5, 0.5}) {
    observations.mutable_probabilities()->add_values(value);
  }
  observations.add_labels(0);
  observations.add_labels(1);
  return observations;
}

LogRow DecodeAfter(const std::function<void(v1::Observations&)>& change) {
  v1::Observations observations = Valid();
  change(observations);
  return Decode(observations, Declaration());
}

std::string Refusal(const std::function<void(v1::Observations&)>& change) {
  const LogRow batch = DecodeAfter(change);
  EXPECT_EQ(batch.validity().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(batch.values(), nullptr);
  return std::string(batch.validity().message());
}

TEST(DecodeTest, FloatsBecomeTheSameDoubles) {
  const LogRow doubles = Decode(Valid(), Declaration());
  ASSERT_TRUE(doubles.validity().ok()) << doubles.validity();
  EXPECT_THAT(doubles.values()->values, ElementsAre(0.25, 0.75, 0.5, 0.5));
  const LogRow floats = DecodeAfter([](auto& o) {
    for (const float value : {0.25F, 0.75F, 0.5F, 0.5F}) {
      o.mutable_probabilities_float32()->add_values(value);
    }
  });
  ASSERT_TRUE(floats.validity().ok());
  EXPECT_TRUE(floats.values()->single_precision);
  EXPECT_EQ(floats.values()->values, doubles.values()->values);
  EXPECT_EQ(floats.content_hash, doubles.content_hash);
}

TEST(DecodeTest, LogitsAreConvertedByTheSoftmax) {
  const LogRow batch = DecodeAfter([](auto& o) {
    for (const double value : {0.0, 0.0, 1000.0, 1000.0}) o.mutable_logits()->add_values(value);
  });
  ASSERT_TRUE(batch.validity().ok()) << batch.validity();
  EXPECT_THAT(batch.values()->values, ElementsAre(0.5, 0.5, 0.5, 0.5));
}

TEST(DecodeTest, ARoundingAwayFromAProbabilityIsItsNearestOne) {
  const auto set = [](v1::Observations& o) {
    o.mutable_probabilities()->set_values(0, 1.00000012);
    o.mutable_probabilities()->set_values(1, -1.2e-7);
  };
  const LogRow batch = DecodeAfter(set);
  ASSERT_TRUE(batch.validity().ok()) << batch.validity();
  EXPECT_THAT(batch.values()->values, ElementsAre(1, 0, 0.5, 0.5));
  const LogRow skipping = DecodeAfter([&](v1::Observations& o) {
    set(o);
    o.mutable_probabilities()->set_values(2, 1.00001);
    o.set_skip_invalid_rows(true);
  });
  ASSERT_TRUE(skipping.validity().ok()) << skipping.validity();
  EXPECT_THAT(skipping.values()->values, ElementsAre(1, 0));
  EXPECT_EQ(skipping.skipped.rows, 1);
  const LogRow positive = DecodeAfter([](v1::Observations& o) {
    o.mutable_probabilities()->clear_values();
    for (const double value : {1.00000012, -1.2e-7}) o.mutable_probabilities()->add_values(value);
    o.set_positive_class(1);
  });
  ASSERT_TRUE(positive.validity().ok()) << positive.validity();
  EXPECT_THAT(positive.values()->values, ElementsAre(0, 1, 1, 0));
}

TEST(DecodeTest, ErrorsNameRowAndValue) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  const auto set = [](int i, double value) {
    return [i, value](v1::Observations& o) { o.mutable_probabilities()->set_values(i, value); };
  };
  EXPECT_THAT(Refusal(set(2, kNan)), HasSubstr("rows[1].probabilities"));
  EXPECT_THAT(Refusal(set(2, -0.1)), HasSubstr("-0.1"));
  EXPECT_THAT(Refusal(set(1, 1.06)), HasSubstr("rows[0].probabilities"));
  EXPECT_THAT(Refusal(set(1, 0.9)), HasSubstr("sums to 1.15"));
  EXPECT_THAT(Refusal([](auto& o) { o.set_labels(1, 2); }), HasSubstr("labels[1]"));
  EXPECT_THAT(Refusal([](auto& o) { o.set_labels(1, -1); }), HasSubstr("-1"));
  EXPECT_THAT(Refusal([](auto& o) {
                o.mutable_logits()->add_values(std::numeric_limits<double>::infinity());
                o.mutable_logits()->add_values(0);
                o.mutable_labels()->Truncate(1);
              }),
              HasSubstr("rows[0]"));
}

TEST(DecodeTest, RefusesWrongShapes) {
  EXPECT_THAT(Refusal([](auto& o) { o.add_labels(0); }), HasSubstr("4 values with 3 labels"));
  EXPECT_THAT(Refusal([](auto& o) { o.mutable_probabilities()->add_values(1); }),
              HasSubstr("5 values"));
  EXPECT_THAT(Refusal([](auto& o) {
                o.clear_labels();
                o.mutable_probabilities()->clear_values();
              }),
              HasSubstr("n >= 1"));
  EXPECT_THAT(Refusal([](auto& o) { o.clear_probabilities(); }), HasSubstr("is not set"));
  EXPECT_THAT(Refusal([](auto& o) { o.mutable_labels()->Resize(kMaxRowsPerBatch + 1, 0); }),
              HasSubstr("at most 65536"));
  EXPECT_THAT(Refusal([](auto& o) { o.set_dropped_rows(-1); }), HasSubstr("dropped_rows is -1"));
  EXPECT_THAT(Refusal([](auto& o) { o.set_dropped_labels(-1); }),
              HasSubstr("dropped_labels is -1"));
}

TEST(DecodeTest, ClassNamesMustBeTheModelsInOrder) {
  EXPECT_TRUE(DecodeAfter([](auto& o) {
                o.add_class_names("cat");
                o.add_class_names("dog");
              })
                  .validity()
                  .ok());
  EXPECT_THAT(Refusal([](auto& o) {
                o.add_class_names("dog");
                o.add_class_names("cat");
              }),
              HasSubstr("class_names[0] is \"dog\", expected \"cat\""));
  EXPECT_THAT(Refusal([](auto& o) { o.add_class_names("cat"); }), HasSubstr("has 1 names"));
}

TEST(DecodeTest, HashDistinguishesContents) {
  const std::uint64_t hash = Decode(Valid(), Declaration()).content_hash;
  EXPECT_EQ(DecodeAfter([](auto&) {}).content_hash, hash);
  EXPECT_NE(DecodeAfter([](auto& o) { o.set_labels(0, 1); }).content_hash, hash);
  EXPECT_NE(
      DecodeAfter([](auto& o) { o.mutable_probabilities()->set_values(0, 0.251); }).content_hash,
      hash);
  EXPECT_NE(DecodeAfter([](auto& o) { o.set_dropped_rows(1); }).content_hash, hash);
  EXPECT_NE(DecodeAfter([](auto& o) { o.set_dropped_labels(1); }).content_hash, hash);
  EXPECT_NE(DecodeAfter([](auto& o) { o.add_labels(0); }).content_hash, hash);
}

ModelDeclaration WithBaseline() {
  ModelDeclaration declaration = Declaration();
  std::get<ClassesSpec>(declaration.kind).baseline = "3";
  return declaration;
}

// The observations of Valid with these values of the baseline.
v1::Observations ValidWithBaseline(const std::vector<double>& values = {0.5, 0.5, 0.125, 0.875}) {
  v1::Observations observations = Valid();
  observations.mutable_baseline_probabilities()->mutable_values()->Add(values.begin(),
                                                                       values.end());
  return observations;
}

std::string BaselineRefusal(const v1::Observations& observations,
                            const ModelDeclaration& declaration = WithBaseline()) {
  const LogRow row = Decode(observations, declaration);
  EXPECT_EQ(row.values(), nullptr);
  return std::string(row.validity().message());
}

TEST(DecodeTest, ABaselineComesInEveryKindOfValues) {
  const LogRow doubles = Decode(ValidWithBaseline(), WithBaseline());
  ASSERT_TRUE(doubles.validity().ok()) << doubles.validity();
  EXPECT_THAT(doubles.values()->baseline_values, ElementsAre(0.5, 0.5, 0.125, 0.875));
  EXPECT_THAT(doubles.values()->values, ElementsAre(0.25, 0.75, 0.5, 0.5));

  v1::Observations floats = Valid();
  for (const float value : {0.5F, 0.5F, 0.125F, 0.875F}) {
    floats.mutable_baseline_probabilities_float32()->add_values(value);
  }
  EXPECT_EQ(Decode(floats, WithBaseline()).values()->baseline_values,
            doubles.values()->baseline_values);

  v1::Observations logits = Valid();
  for (const double value : {0.0, 0.0, 5.0, 5.0}) {
    logits.mutable_baseline_logits()->add_values(value);
  }
  const LogRow converted = Decode(logits, WithBaseline());
  ASSERT_TRUE(converted.validity().ok()) << converted.validity();
  EXPECT_THAT(converted.values()->baseline_values, ElementsAre(0.5, 0.5, 0.5, 0.5));
  EXPECT_THAT(converted.values()->values, ElementsAre(0.25, 0.75, 0.5, 0.5));

  v1::Observations one = ValidWithBaseline({0.25, 1});
  one.mutable_probabilities()->mutable_values()->Truncate(2);
  one.set_positive_class(1);
  const LogRow both = Decode(one, WithBaseline());
  ASSERT_TRUE(both.validity().ok()) << both.validity();
  EXPECT_THAT(both.values()->baseline_values, ElementsAre(0.75, 0.25, 0, 1));
}

TEST(DecodeTest, ErrorsOfTheBaselineSayWhatIsWrong) {
  EXPECT_THAT(
      BaselineRefusal(ValidWithBaseline(), Declaration()),
      HasSubstr("baseline_probabilities are given, expected none because the model has no"));
  EXPECT_THAT(BaselineRefusal(Valid()),
              HasSubstr("baseline_probabilities are not set, expected the predictions of the "
                        "model's baseline \"3\" for the same rows"));
  EXPECT_THAT(BaselineRefusal(ValidWithBaseline({0.5, 0.5})),
              HasSubstr("baseline_probabilities has 2 values, expected 4 as in probabilities"));
  EXPECT_THAT(BaselineRefusal(ValidWithBaseline({})), HasSubstr("has 0 values, expected 4"));
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THAT(BaselineRefusal(ValidWithBaseline({0.5, 0.5, nan, 0.5})),
              HasSubstr("rows[1].baseline_probabilities[0] is nan, expected a number in [0, 1]"));
  EXPECT_THAT(BaselineRefusal(ValidWithBaseline({0.5, 0.75, 0.5, 0.5})),
              HasSubstr("rows[0].baseline_probabilities sums to 1.25"));
  v1::Observations logits = Valid();
  for (const double value : {0.0, 0.0, nan, 0.0}) {
    logits.mutable_baseline_logits()->add_values(value);
  }
  EXPECT_THAT(BaselineRefusal(logits), HasSubstr("rows[1].baseline_logits[0] is nan"));
}

TEST(DecodeTest, ARowWithAnInvalidBaselineIsSkippedWithItsPrediction) {
  v1::Observations observations = ValidWithBaseline({0.5, 0.75, 0.125, 0.875});
  observations.set_skip_invalid_rows(true);
  const LogRow row = Decode(observations, WithBaseline());
  ASSERT_TRUE(row.validity().ok()) << row.validity();
  EXPECT_EQ(row.skipped.rows, 1);
  EXPECT_EQ(PathOf(row.skipped.violations[0]), "rows[0].baseline_probabilities");
  EXPECT_THAT(row.values()->values, ElementsAre(0.5, 0.5));
  EXPECT_THAT(row.values()->baseline_values, ElementsAre(0.125, 0.875));
}

TEST(DecodeTest, TheHashCoversTheBaseline) {
  const std::uint64_t hash = Decode(ValidWithBaseline(), WithBaseline()).content_hash;
  EXPECT_NE(Decode(Valid(), WithBaseline()).content_hash, hash);
  EXPECT_NE(Decode(ValidWithBaseline({0.5, 0.5, 0.25, 0.75}), WithBaseline()).content_hash, hash);
  v1::Observations logits = Valid();
  for (const double value : {0.5, 0.5, 0.125, 0.875}) {
    logits.mutable_baseline_logits()->add_values(value);
  }
  EXPECT_NE(Decode(logits, WithBaseline()).content_hash, hash);
}

TEST(DecodeTest, OneValuePerRowIsTheProbabilityOfThePositiveClass) {
  const auto one_per_row = [](std::int32_t positive) {
    return DecodeAfter([&](auto& o) {
      o.mutable_probabilities()->clear_values();
      o.mutable_probabilities()->add_values(0.25);
      o.mutable_probabilities()->add_values(1);
      o.set_positive_class(positive);
    });
  };
  const LogRow second = one_per_row(1);
  ASSERT_TRUE(second.validity().ok()) << second.validity();
  EXPECT_THAT(second.values()->values, ElementsAre(0.75, 0.25, 0, 1));
  const LogRow first = one_per_row(0);
  EXPECT_THAT(first.values()->values, ElementsAre(0.25, 0.75, 1, 0));
  EXPECT_NE(first.content_hash, second.content_hash);
  // 1 - p is not a single-precision number.
  const LogRow floats = DecodeAfter([](auto& o) {
    o.mutable_probabilities_float32()->add_values(1e-9F);
    o.mutable_probabilities_float32()->add_values(0.5F);
    o.set_positive_class(1);
  });
  ASSERT_TRUE(floats.validity().ok()) << floats.validity();
  EXPECT_FALSE(floats.values()->single_precision);
  EXPECT_EQ(floats.values()->values[0], 1 - static_cast<double>(1e-9F));
  const LogRow logits = DecodeAfter([](auto& o) {
    o.mutable_logits()->add_values(0);
    o.mutable_logits()->add_values(-2);
    o.set_positive_class(1);
  });
  ASSERT_TRUE(logits.validity().ok()) << logits.validity();
  EXPECT_EQ(logits.values()->values[1], 0.5);
  EXPECT_DOUBLE_EQ(logits.values()->values[3], 1 / (1 + std::exp(2.0)));
}

TEST(DecodeTest, ErrorsOfPositiveClassSayWhatIsWrong) {
  const auto remove_two = [](v1::Observations& o) {
    o.mutable_probabilities()->mutable_values()->Truncate(2);
  };
  EXPECT_THAT(Refusal(remove_two), HasSubstr("set positive_class"));
  EXPECT_THAT(Refusal([](auto& o) { o.set_positive_class(1); }), HasSubstr("n x 1 values"));
  EXPECT_THAT(Refusal([&](auto& o) {
                remove_two(o);
                o.set_positive_class(2);
              }),
              HasSubstr("positive_class is 2, expected 0..1"));
  for (const std::int32_t positive : {0, 1}) {
    EXPECT_THAT(Refusal([&](auto& o) {
                  remove_two(o);
                  o.mutable_probabilities()->set_values(1, 1.5);
                  o.set_positive_class(positive);
                }),
                HasSubstr("rows[1].probabilities[" + std::to_string(positive) + "] is 1.5"));
  }
  ModelDeclaration three = Declaration();
  std::get<ClassesSpec>(three.kind).count = 3;
  v1::Observations observations = Valid();
  observations.set_positive_class(1);
  EXPECT_THAT(std::string(Decode(observations, three).validity().message()),
              HasSubstr("expected none because the model has 3 classes"));
}

ModelDeclaration DeclarationWithGrace() {
  ModelDeclaration declaration = Declaration();
  declaration.label_grace = std::chrono::seconds(1);
  declaration.max_pending = 10;
  return declaration;
}

TEST(DecodeTest, ABatchOfDroppedRowsNeedsNoRow) {
  v1::Observations observations;
  observations.set_dropped_rows(7);
  const ModelDeclaration declaration = Declaration();
  const LogRow batch = Decode(observations, declaration, std::chrono::system_clock::now());
  ASSERT_TRUE(batch.validity().ok()) << batch.validity();
  EXPECT_EQ(batch.As<RejectedRow>()->rows, 0);
  EXPECT_EQ(batch.As<RejectedRow>()->dropped.rows, 7);
  v1::Observations of_labels;
  of_labels.set_dropped_labels(2);
  const LogRow labels = Decode(of_labels, declaration, std::chrono::system_clock::now());
  ASSERT_TRUE(labels.validity().ok()) << labels.validity();
  EXPECT_EQ(labels.As<RejectedRow>()->dropped.labels, 2);
  // Values without rows are invalid as before.
  observations.mutable_probabilities()->add_values(0.5);
  EXPECT_FALSE(Decode(observations, declaration, std::chrono::system_clock::now()).validity().ok());
  observations.clear_probabilities();
  observations.clear_dropped_rows();
  EXPECT_FALSE(Decode(observations, declaration, std::chrono::system_clock::now()).validity().ok());
}

TEST(DecodeTest, InvalidRowsAreSkippedOnRequest) {
  const LogRow batch = DecodeAfter([](auto& o) {
    for (const double value : {0.5, 0.8, 1.0, 0.0, 2.0, 0.0}) {
      o.mutable_probabilities()->add_values(value);
    }
    for (const std::int32_t label : {0, 7, 0}) o.add_labels(label);
    o.set_dropped_rows(3);
    o.set_skip_invalid_rows(true);
  });
  ASSERT_TRUE(batch.validity().ok()) << batch.validity();
  EXPECT_THAT(batch.values()->values, ElementsAre(0.25, 0.75, 0.5, 0.5));
  EXPECT_THAT(batch.values()->truths.labels, ElementsAre(0, 1));
  EXPECT_EQ(batch.As<ObservationsRow>()->dropped.rows, 3);
  EXPECT_EQ(batch.skipped.rows, 3);
  ASSERT_EQ(batch.skipped.violations.size(), 3U);
  EXPECT_EQ(PathOf(batch.skipped.violations[0]), "rows[2].probabilities");
  EXPECT_THAT(batch.skipped.violations[0].description, HasSubstr("sums to 1.3, off by 0.3"));
  EXPECT_EQ(PathOf(batch.skipped.violations[1]), "labels[3]");
  EXPECT_EQ(PathOf(batch.skipped.violations[2]), "rows[4].probabilities[0]");
  EXPECT_EQ(DecodeAfter([](auto& o) { o.set_skip_invalid_rows(true); }).skipped.rows, 0);
  // An error that is not in one row rejects the batch.
  EXPECT_THAT(Refusal([](auto& o) {
                o.add_labels(0);
                o.set_skip_invalid_rows(true);
              }),
              HasSubstr("4 values with 3 labels"));
}

TEST(DecodeTest, SkippedRowsTakeTheirIdsAndGroupsWithThem) {
  ModelDeclaration declaration = DeclarationWithGrace();
  declaration.monitoring.group_tag = "region";
  v1::Observations observations = Valid();
  observations.clear_labels();
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  observations.mutable_logits();
  for (const double value : {0., 0., kNan, 0., 5., 5., 1., 1., 3., 3.}) {
    observations.mutable_logits()->add_values(value);
  }
  for (const char* id : {"a", "b", "", "d", "e"}) observations.add_prediction_ids(id);
  for (const char* group : {"r", "s", "t", "\n", "v"}) observations.add_group_values(group);
  observations.set_skip_invalid_rows(true);
  const LogRow batch = Decode(observations, declaration);
  ASSERT_TRUE(batch.validity().ok()) << batch.validity();
  EXPECT_EQ(batch.skipped.rows, 3);
  EXPECT_EQ(PathOf(batch.skipped.violations[0]), "rows[1].logits[0]");
  EXPECT_EQ(PathOf(batch.skipped.violations[1]), "prediction_ids[2]");
  EXPECT_EQ(PathOf(batch.skipped.violations[2]), "group_values[3]");
  EXPECT_THAT(batch.As<PredictionsRow>()->ids, ElementsAre(HashId("a"), HashId("e")));
  EXPECT_EQ(batch.As<PredictionsRow>()->predicted_classes.size(), 2U);
  EXPECT_THAT(batch.values()->group_values, ElementsAre("r", "v"));
  EXPECT_THAT(batch.values()->values, ElementsAre(0.5, 0.5, 0.5, 0.5));
}

TEST(DecodeTest, ABatchOfSkippedRowsIsSettledWithoutObservations) {
  const LogRow batch = DecodeAfter([](auto& o) {
    o.set_labels(0, -1);
    o.set_labels(1, -1);
    o.set_skip_invalid_rows(true);
  });
  EXPECT_TRUE(batch.validity().ok());
  EXPECT_EQ(batch.values(), nullptr);
  EXPECT_EQ(batch.rows(), 0);
  EXPECT_EQ(batch.skipped.rows, 2);
}

TEST(DecodeTest, LabelsMustComeWithPredictionsIfTheModelSaysSo) {
  ModelDeclaration declaration = DeclarationWithGrace();
  declaration.labels_come_with_predictions = true;
  v1::Observations observations = Valid();
  observations.add_prediction_ids("a");
  observations.add_prediction_ids("b");
  EXPECT_TRUE(Decode(observations, declaration).validity().ok());
  observations.clear_labels();
  EXPECT_THAT(std::string(Decode(observations, declaration).validity().message()),
              HasSubstr("labels_come_with_predictions"));
  v1::Labels labels;
  labels.add_prediction_ids("a");
  labels.add_labels(0);
  EXPECT_THAT(std::string(Decode(labels, declaration).validity().message()),
              HasSubstr("labels_come_with_predictions"));
}

TEST(DecodeTest, PredictionsWithIdsNeedNoLabels) {
  v1::Observations observations = Valid();
  observations.add_prediction_ids("a");
  observations.add_prediction_ids("b");
  const LogRow labelled = Decode(observations, DeclarationWithGrace());
  ASSERT_TRUE(labelled.validity().ok()) << labelled.validity();
  ASSERT_NE(labelled.As<PredictionsRow>(), nullptr);
  EXPECT_THAT(labelled.values()->truths.labels, ElementsAre(0, 1));
  EXPECT_THAT(labelled.tracked_ids(), ElementsAre(HashId("a"), HashId("b")));
  observations.clear_labels();
  const LogRow waiting = Decode(observations, DeclarationWithGrace());
  ASSERT_TRUE(waiting.validity().ok()) << waiting.validity();
  EXPECT_TRUE(waiting.values()->truths.labels.empty());
  EXPECT_EQ(waiting.rows(), 2);
  EXPECT_NE(waiting.content_hash, labelled.content_hash);
  observations.set_prediction_ids(1, "c");
  EXPECT_NE(Decode(observations, DeclarationWithGrace()).content_hash, waiting.content_hash);
}

TEST(DecodeTest, ErrorsOfIdsSayWhatIsWrong) {
  const auto refusal = [](const std::function<void(v1::Observations&)>& change,
                          const ModelDeclaration& declaration) {
    v1::Observations observations = Valid();
    observations.add_prediction_ids("a");
    observations.add_prediction_ids("b");
    change(observations);
    const LogRow batch = Decode(observations, declaration);
    EXPECT_EQ(batch.validity().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_FALSE(batch.tracked());
    return std::string(batch.validity().message());
  };
  const ModelDeclaration declaration = DeclarationWithGrace();
  EXPECT_THAT(refusal([](auto&) {}, Declaration()), HasSubstr("no label_grace"));
  EXPECT_THAT(refusal([](auto& o) { o.set_prediction_ids(1, ""); }, declaration),
              HasSubstr("prediction_ids[1] is \"\" of 0 bytes, expected 1..128"));
  EXPECT_THAT(refusal([](auto& o) { o.set_prediction_ids(0, std::string(129, 'x')); }, declaration),
              HasSubstr("of 129 bytes"));
  EXPECT_THAT(refusal([](auto& o) { o.mutable_labels()->RemoveLast(); }, declaration),
              HasSubstr("has 2 ids with 1 labels"));
  EXPECT_THAT(refusal([](auto& o) { o.mutable_prediction_ids()->RemoveLast(); }, declaration),
              HasSubstr("has 1 ids with 2 labels"));
  EXPECT_THAT(refusal(
                  [](auto& o) {
                    o.clear_labels();
                    o.add_prediction_ids("c");
                  },
                  declaration),
              HasSubstr("has 4 values with 3 ids"));
}

TEST(DecodeTest, LabelsByIdAreChecked) {
  v1::Labels labels;
  for (const char* id : {"a", "b"}) labels.add_prediction_ids(id);
  labels.add_labels(1);
  const auto message = [&labels](const ModelDeclaration& declaration) {
    return std::string(Decode(labels, declaration).validity().message());
  };
  EXPECT_THAT(message(DeclarationWithGrace()), HasSubstr("has 2 ids with 1 labels"));
  labels.add_labels(2);
  EXPECT_THAT(message(DeclarationWithGrace()), HasSubstr("labels[1] is 2, expected 0..1"));
  labels.set_labels(1, 0);
  EXPECT_THAT(message(Declaration()), HasSubstr("no label_grace"));
  const LogRow batch = Decode(labels, DeclarationWithGrace());
  ASSERT_TRUE(batch.validity().ok()) << batch.validity();
  ASSERT_NE(batch.As<LabelsRow>(), nullptr);
  EXPECT_EQ(batch.rows(), 2);
  EXPECT_THAT(batch.As<LabelsRow>()->truths.labels, ElementsAre(1, 0));
  EXPECT_THAT(batch.tracked_ids(), ElementsAre(HashId("a"), HashId("b")));
  labels.Clear();
  EXPECT_THAT(message(DeclarationWithGrace()), HasSubstr("expected 1.."));
}

TEST(DecodeTest, PredictionTimesAreLimited) {
  using std::chrono::system_clock;
  const system_clock::time_point now = std::chrono::sys_days(std::chrono::days(20000));
  const std::int64_t now_s = std::int64_t{20000} * 86400;
  const auto decode = [&](const std::vector<std::int64_t>& times) {
    v1::Observations observations = Valid();
    for (const std::int64_t time : times) observations.add_prediction_times()->set_seconds(time);
    return Decode(observations, Declaration(), now);
  };
  const LogRow each = decode({now_s - std::int64_t{1000} * 86400, now_s + 300});
  ASSERT_TRUE(each.validity().ok()) << each.validity();
  EXPECT_EQ(each.values()->time_s(1), now_s + 300);
  const LogRow one = decode({now_s});
  ASSERT_TRUE(one.validity().ok()) << one.validity();
  EXPECT_EQ(one.values()->time_s(1), now_s);
  EXPECT_NE(each.content_hash, one.content_hash);
  EXPECT_NE(decode({}).content_hash, one.content_hash);
  EXPECT_EQ(decode({}).values()->time_s(1), RowValues::kNoTime);
  const auto refusal = [&](const std::vector<std::int64_t>& times) {
    const LogRow row = decode(times);
    EXPECT_EQ(row.rows(), 2);
    return std::string(row.validity().message());
  };
  EXPECT_THAT(refusal({now_s, now_s + 301}),
              HasSubstr("prediction_times[1] is 2024-10-04T00:05:01Z, expected "
                        "2022-01-08T00:00:00Z to 2024-10-04T00:05:00Z"));
  EXPECT_THAT(refusal({now_s - std::int64_t{1000} * 86400 - 1}),
              HasSubstr("prediction_times[0] is 2022-01-07T23:59:59Z"));
  EXPECT_THAT(refusal({std::numeric_limits<std::int64_t>::max()}), HasSubstr("not a time"));
  EXPECT_THAT(refusal({now_s, now_s, now_s}), HasSubstr("has 3 times with 2 predictions"));

  v1::Observations skipping = Valid();
  skipping.set_skip_invalid_rows(true);
  skipping.add_prediction_times()->set_seconds(now_s + 301);
  skipping.add_prediction_times()->set_seconds(now_s);
  const LogRow skipped = Decode(skipping, Declaration(), now);
  ASSERT_EQ(skipped.rows(), 1) << skipped.validity();
  EXPECT_EQ(skipped.values()->time_s(0), now_s);
  EXPECT_EQ(PathOf(skipped.skipped.violations[0]), "prediction_times[0]");
}

}  // namespace
}  // namespace calibd::server
