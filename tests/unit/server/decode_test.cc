#include "server/ingest/decode.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <limits>
#include <string>

namespace calibd::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

ModelDeclaration Declaration() {
  ModelDeclaration declaration;
  declaration.class_count = 2;
  declaration.class_names = {"cat", "dog"};
  declaration.row_sum_tolerance = 1e-3;
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
  EXPECT_THAT(doubles.values()->probabilities, ElementsAre(0.25, 0.75, 0.5, 0.5));
  const LogRow floats = DecodeAfter([](auto& o) {
    for (const float value : {0.25F, 0.75F, 0.5F, 0.5F}) {
      o.mutable_probabilities_float32()->add_values(value);
    }
  });
  ASSERT_TRUE(floats.validity().ok());
  EXPECT_TRUE(floats.values()->single_precision);
  EXPECT_EQ(floats.values()->probabilities, doubles.values()->probabilities);
  EXPECT_EQ(floats.content_hash, doubles.content_hash);
}

TEST(DecodeTest, LogitsAreConvertedByTheSoftmax) {
  const LogRow batch = DecodeAfter([](auto& o) {
    for (const double value : {0.0, 0.0, 1000.0, 1000.0}) o.mutable_logits()->add_values(value);
  });
  ASSERT_TRUE(batch.validity().ok()) << batch.validity();
  EXPECT_THAT(batch.values()->probabilities, ElementsAre(0.5, 0.5, 0.5, 0.5));
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
  EXPECT_NE(DecodeAfter([](auto& o) { o.add_labels(0); }).content_hash, hash);
}

ModelDeclaration DeclarationWithGrace() {
  ModelDeclaration declaration = Declaration();
  declaration.label_grace = std::chrono::seconds(1);
  declaration.max_pending = 10;
  return declaration;
}

TEST(DecodeTest, PredictionsWithIdsNeedNoLabels) {
  v1::Observations observations = Valid();
  observations.add_prediction_ids("a");
  observations.add_prediction_ids("b");
  const LogRow labelled = Decode(observations, DeclarationWithGrace());
  ASSERT_TRUE(labelled.validity().ok()) << labelled.validity();
  ASSERT_NE(labelled.As<PredictionsRow>(), nullptr);
  EXPECT_THAT(labelled.values()->labels, ElementsAre(0, 1));
  EXPECT_THAT(labelled.tracked_ids(), ElementsAre(HashId("a"), HashId("b")));
  observations.clear_labels();
  const LogRow waiting = Decode(observations, DeclarationWithGrace());
  ASSERT_TRUE(waiting.validity().ok()) << waiting.validity();
  EXPECT_TRUE(waiting.values()->labels.empty());
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
  EXPECT_THAT(batch.As<LabelsRow>()->labels, ElementsAre(1, 0));
  EXPECT_THAT(batch.tracked_ids(), ElementsAre(HashId("a"), HashId("b")));
  labels.Clear();
  EXPECT_THAT(message(DeclarationWithGrace()), HasSubstr("expected 1.."));
}

}  // namespace
}  // namespace calibd::server
