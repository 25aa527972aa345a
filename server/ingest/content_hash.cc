#include "server/ingest/content_hash.h"

#include <array>
#include <cstddef>
#include <limits>
#include <memory>
#include <new>
#include <string>

#include "server/base/xxh3.h"

namespace calibd::server {
namespace {

// Hashes the lengths of values too, so that different contents are never the same sequence of
// bytes.
class ContentHash {
 public:
  ContentHash() : state_(XXH3_createState(), XXH3_freeState) {
    if (state_ == nullptr) throw std::bad_alloc();
    XXH3_64bits_reset(state_.get());
  }

  template <typename T>
  void Add(const T* values, std::size_t count) {
    XXH3_64bits_update(state_.get(), &count, sizeof(count));
    if (count > 0) XXH3_64bits_update(state_.get(), values, count * sizeof(T));
  }

  [[nodiscard]] std::uint64_t Digest() const { return XXH3_64bits_digest(state_.get()); }

 private:
  std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state_;
};

// Only a rejected batch has names in place of labels.
void AddNames(const google::protobuf::RepeatedPtrField<std::string>& names, ContentHash& hash) {
  if (names.empty()) return;
  // Between the largest length and the mark of features.
  const std::int64_t mark = std::numeric_limits<std::int64_t>::max() / 4;
  hash.Add(&mark, 1);
  for (const std::string& name : names) hash.Add(name.data(), name.size());
}

}  // namespace

std::uint64_t HashContent(const v1::Observations& observations, const std::vector<double>& values,
                          const std::vector<double>& baseline) {
  ContentHash hash;
  const std::array<std::int64_t, 2> header{AreLogits(observations) ? 1 : 0,
                                           observations.dropped_rows()};
  hash.Add(header.data(), header.size());
  if (observations.dropped_labels() > 0) {
    const std::int64_t labels = observations.dropped_labels();
    hash.Add(&labels, 1);
  }
  if (observations.has_positive_class() || observations.skip_invalid_rows()) {
    const std::array<std::int64_t, 3> options{observations.has_positive_class() ? 1 : 0,
                                              observations.positive_class(),
                                              observations.skip_invalid_rows() ? 1 : 0};
    hash.Add(options.data(), options.size());
  }
  hash.Add(values.data(), values.size());
  hash.Add(observations.labels().data(), static_cast<std::size_t>(observations.labels_size()));
  for (const std::string& name : observations.class_names()) hash.Add(name.data(), name.size());
  for (const std::string& id : observations.prediction_ids()) hash.Add(id.data(), id.size());
  if (observations.group_values_size() > 0) {
    // Negative, unlike the lengths with which ids and names begin.
    const std::int64_t count = -observations.group_values_size();
    hash.Add(&count, 1);
    for (const std::string& value : observations.group_values()) {
      hash.Add(value.data(), value.size());
    }
  }
  if (observations.prediction_times_size() > 0) {
    // Less than the number of group values.
    const std::int64_t count =
        std::numeric_limits<std::int64_t>::min() + observations.prediction_times_size();
    hash.Add(&count, 1);
    for (const google::protobuf::Timestamp& time : observations.prediction_times()) {
      const std::array<std::int64_t, 2> parts{time.seconds(), time.nanos()};
      hash.Add(parts.data(), parts.size());
    }
  }
  if (observations.outcomes_size() > 0) {
    // Less than the negative numbers above, by which other contents begin.
    const std::int64_t count =
        std::numeric_limits<std::int64_t>::min() / 2 - observations.outcomes_size();
    hash.Add(&count, 1);
    hash.Add(observations.outcomes().data(),
             static_cast<std::size_t>(observations.outcomes_size()));
  }
  if (!baseline.empty()) {
    // Greater than any length.
    constexpr std::int64_t kMark = std::numeric_limits<std::int64_t>::max();
    const std::int64_t kind = kMark - (AreBaselineLogits(observations) ? 1 : 0);
    hash.Add(&kind, 1);
    hash.Add(baseline.data(), baseline.size());
  }
  if (observations.has_features()) {
    // Between the largest length and the numbers above.
    const std::int64_t mark = std::numeric_limits<std::int64_t>::max() / 2;
    hash.Add(&mark, 1);
    const auto& features = observations.features().values();
    hash.Add(features.data(), static_cast<std::size_t>(features.size()));
  }
  AddNames(observations.label_names(), hash);
  return hash.Digest();
}

std::uint64_t HashContent(const v1::Labels& labels) {
  ContentHash hash;
  // Observations begin with 0 or 1.
  const std::int64_t kind = 2;
  hash.Add(&kind, 1);
  hash.Add(labels.labels().data(), static_cast<std::size_t>(labels.labels_size()));
  for (const std::string& id : labels.prediction_ids()) hash.Add(id.data(), id.size());
  if (labels.outcomes_size() > 0) {
    const std::int64_t count = -labels.outcomes_size();
    hash.Add(&count, 1);
    hash.Add(labels.outcomes().data(), static_cast<std::size_t>(labels.outcomes_size()));
  }
  AddNames(labels.label_names(), hash);
  return hash.Digest();
}

}  // namespace calibd::server
