// How much memory and how many bytes of a snapshot a model of each kind takes. A change that makes
// a model larger must say why, and then change the numbers here.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include "server/ingest/decode.h"
#include "server/state/check_declaration.h"
#include "server/state/declaration_size.h"
#include "server/state/model.h"

namespace calibd::server {
namespace {

constexpr std::size_t kSizedClasses = 10;
constexpr int kSizedRows = 1000;

v1::Model SizedModel(v1::Model::KindCase kind) {
  v1::Model model;
  model.set_name("models/size");
  switch (kind) {
    case v1::Model::kClasses:
      model.mutable_classes()->set_count(kSizedClasses);
      break;
    case v1::Model::kForecast:
      model.mutable_forecast()->mutable_normal();
      break;
    case v1::Model::kLabels:
      for (const char* const name : {"rain", "fog", "wind"}) {
        model.mutable_labels()->add_names(name);
      }
      break;
    default:
      ADD_FAILURE() << "a kind without a declaration here";
  }
  return model;
}

v1::Observations ObservationsOf(v1::Model::KindCase kind) {
  v1::Observations rows;
  for (int i = 0; i < kSizedRows; ++i) {
    if (kind == v1::Model::kClasses) {
      const double top = 0.3 + 0.05 * (i % 10);
      for (int k = 0; k < static_cast<int>(kSizedClasses); ++k) {
        rows.mutable_probabilities()->add_values(k == i % 10 ? top : (1 - top) / 9);
      }
      rows.add_labels(i % 3 == 0 ? i % 10 : i % 7);
    } else if (kind == v1::Model::kLabels) {
      for (int k = 0; k < 3; ++k) {
        rows.mutable_probabilities()->add_values(0.1 + 0.05 * ((i + k) % 17));
        rows.add_labels((i + k) % 4 == 0 ? -1 : (i * (k + 2)) % 2);
      }
    } else {
      rows.mutable_forecasts()->add_values(i % 13);
      rows.mutable_forecasts()->add_values(1 + i % 5);
      rows.add_outcomes(i % 13 + 2 * std::sin(i));
    }
  }
  return rows;
}

struct ModelSize {
  v1::Model::KindCase kind;
  // What the server reserves for a model.
  std::size_t memory;
  // A snapshot after 1000 rows.
  std::size_t snapshot;
};

constexpr ModelSize kSizes[] = {
    {.kind = v1::Model::kClasses, .memory = 2751600, .snapshot = 37282},
    {.kind = v1::Model::kForecast, .memory = 1523426, .snapshot = 6977},
    {.kind = v1::Model::kLabels, .memory = 433164, .snapshot = 5457},
};

TEST(ModelSizeTest, IsWhatItWas) {
  ThreadPool pool("test", 1);
  for (const ModelSize& size : kSizes) {
    SCOPED_TRACE(size.kind);
    const auto declaration = CheckDeclaration(SizedModel(size.kind), std::size_t{1} << 30);
    ASSERT_TRUE(declaration.ok()) << declaration.status();
    EXPECT_EQ(StateMemory(*declaration), size.memory);
    Model model(1, *declaration, {}, {}, pool, nullptr);
    model.strand_state().Apply(Decode(ObservationsOf(size.kind), *declaration), 1,
                               std::chrono::seconds(1));
    ASSERT_EQ(model.strand_state().Save().observations(), kSizedRows);
    EXPECT_EQ(model.strand_state().Save().ByteSizeLong(), size.snapshot);
  }
}

}  // namespace
}  // namespace calibd::server
