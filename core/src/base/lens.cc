#include "calibd/core/lens.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <type_traits>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "calibd/core/status_macros.h"

namespace calibd {

namespace {

using Parameters = std::vector<std::int32_t>;

template <Lens (*kMake)()>
std::optional<Lens> WithoutParameters(const Parameters& parameters) {
  return parameters.empty() ? std::optional(kMake()) : std::nullopt;
}

template <Lens (*kMake)(std::size_t)>
std::optional<Lens> WithNumber(const Parameters& parameters) {
  if (parameters.size() != 1 || parameters[0] < 0) return std::nullopt;
  return kMake(static_cast<std::size_t>(parameters[0]));
}

// Names of a kind of lens.
struct Entry {
  // In answers and metrics. A number and a closing bracket follow an open one.
  absl::string_view name;
  // On the command line: the name, and after a colon the parameters, which '/' separates.
  absl::string_view syntax;
  absl::string_view blind_spot;
  // Unset if this kind does not have such parameters.
  std::optional<Lens> (*make)(const Parameters& parameters);
};

// In the order of Lens::Kind.
constexpr std::array<Entry, std::variant_size_v<Lens::Kind>> kEntries = {{
    {"canonical", "canonical", "nothing in the long run, but needs the most data",
     WithoutParameters<Lens::Canonical>},
    {"top_label", "top_label", "errors in the other probabilities",
     WithoutParameters<Lens::TopLabel>},
    {"class_wise", "class_wise", "dependence between classes", WithoutParameters<Lens::ClassWise>},
    {"class_wise[", "class:K", "errors in other classes", WithNumber<Lens::OneClass>},
    {"top_k[", "top_k:K", "which class has which rank, or errors within the rest",
     WithNumber<Lens::TopK>},
    {"grouped", "grouped:G0/G1/... with the group of each class", "errors within a group",
     [](const Parameters& groups) -> std::optional<Lens> {
       if (groups.empty()) return std::nullopt;
       return Lens::Grouped(groups);
     }},
}};
static_assert(!kEntries.back().name.empty());

// The number of groups; 0 without a group that is not negative.
std::size_t GroupCount(const GroupedLens& lens) {
  const auto largest = std::max_element(lens.group_of_class.begin(), lens.group_of_class.end());
  if (largest == lens.group_of_class.end() || *largest < 0) return 0;
  return static_cast<std::size_t>(*largest) + 1;
}

absl::Status CheckKind(const auto& /*any class count*/, std::size_t /*class_count*/) {
  return absl::OkStatus();
}

absl::Status CheckKind(const OneClassLens& lens, std::size_t class_count) {
  if (lens.k < class_count) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("class is ", lens.k, ", expected [0, ", class_count, ")"));
}

absl::Status CheckKind(const TopKLens& lens, std::size_t class_count) {
  if (lens.k >= 1 && lens.k < class_count) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("top_k is ", lens.k, ", expected 1..", class_count - 1));
}

absl::Status CheckKind(const GroupedLens& lens, std::size_t class_count) {
  const std::vector<std::int32_t>& groups = lens.group_of_class;
  if (groups.size() != class_count) {
    return absl::InvalidArgumentError(absl::StrCat(
        "groups has ", groups.size(), " entries, expected ", class_count, ", one for each class"));
  }
  std::vector<bool> seen(std::min(GroupCount(lens), class_count));
  for (std::size_t k = 0; k < class_count; ++k) {
    if (groups[k] < 0 || static_cast<std::size_t>(groups[k]) >= seen.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("groups[", k, "] is ", groups[k], ", expected [0, ", class_count, ")"));
    }
    seen[static_cast<std::size_t>(groups[k])] = true;
  }
  const auto gap = std::find(seen.begin(), seen.end(), false);
  if (gap != seen.end()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "groups has no class in group ", gap - seen.begin(), ", expected groups without gaps"));
  }
  if (seen.size() >= 2) return absl::OkStatus();
  return absl::InvalidArgumentError("groups holds 1 group, expected at least 2");
}

// The classes of each part.
std::size_t ClassesOf(const CanonicalLens& /*lens*/, std::size_t class_count) {
  return class_count;
}
std::size_t ClassesOf(const ScalarLens& /*lens*/, std::size_t /*class_count*/) { return 2; }
std::size_t ClassesOf(const TopKLens& lens, std::size_t /*class_count*/) { return lens.k + 1; }
std::size_t ClassesOf(const GroupedLens& lens, std::size_t /*class_count*/) {
  return GroupCount(lens);
}

// A labelled prediction and where its reduction goes, see Lens::Reduce.
struct Reduction {
  std::span<const double> g;
  std::size_t label;
  std::span<double> probabilities;
  std::span<std::int32_t> labels;
  std::span<std::uint32_t> order;

  // The part of a scalar lens that shows class k.
  void SetScalar(std::size_t part, std::size_t k) const {
    probabilities[2 * part] = g[k];
    probabilities[2 * part + 1] = 1 - g[k];
    labels[part] = k == label ? 0 : 1;
  }
};

void ReduceTo(const Reduction& out, const CanonicalLens& /*lens*/) {
  std::copy(out.g.begin(), out.g.end(), out.probabilities.begin());
  out.labels[0] = static_cast<std::int32_t>(out.label);
}

void ReduceTo(const Reduction& out, const TopLabelLens& /*lens*/) {
  const auto top = std::max_element(out.g.begin(), out.g.end());
  out.SetScalar(0, static_cast<std::size_t>(top - out.g.begin()));
}

void ReduceTo(const Reduction& out, const ClassWiseLens& /*lens*/) {
  for (std::size_t k = 0; k < out.g.size(); ++k) out.SetScalar(k, k);
}

void ReduceTo(const Reduction& out, const OneClassLens& lens) { out.SetScalar(0, lens.k); }

void ReduceTo(const Reduction& out, const TopKLens& lens) {
  const std::span<const double> g = out.g;
  const std::span<std::uint32_t> order = out.order;
  std::iota(order.begin(), order.end(), 0U);
  const auto end = order.begin() + static_cast<std::ptrdiff_t>(lens.k);
  std::partial_sort(order.begin(), end, order.end(), [g](std::uint32_t a, std::uint32_t b) {
    return g[a] != g[b] ? g[a] > g[b] : a < b;
  });
  const auto found = std::find(order.begin(), end, out.label);
  out.labels[0] = static_cast<std::int32_t>(found - order.begin());
  for (std::size_t rank = 0; rank < lens.k; ++rank) out.probabilities[rank] = g[order[rank]];
  double rest = 0;
  for (auto at = end; at != order.end(); ++at) rest += g[*at];
  out.probabilities[lens.k] = rest;
}

void ReduceTo(const Reduction& out, const GroupedLens& lens) {
  std::fill(out.probabilities.begin(), out.probabilities.end(), 0.0);
  for (std::size_t k = 0; k < out.g.size(); ++k) {
    out.probabilities[static_cast<std::size_t>(lens.group_of_class[k])] += out.g[k];
  }
  out.labels[0] = lens.group_of_class[out.label];
}

}  // namespace

absl::StatusOr<Lens> Lens::Parse(absl::string_view text) {
  const auto name_of = [](absl::string_view option) { return option.substr(0, option.find(':')); };
  Parameters parameters;
  bool are_numbers = true;
  if (const std::size_t colon = text.find(':'); colon != absl::string_view::npos) {
    for (const absl::string_view number : absl::StrSplit(text.substr(colon + 1), '/')) {
      are_numbers = absl::SimpleAtoi(number, &parameters.emplace_back()) && are_numbers;
    }
  }
  for (const Entry& entry : kEntries) {
    if (!are_numbers || name_of(text) != name_of(entry.syntax)) continue;
    if (std::optional<Lens> lens = entry.make(parameters)) return *std::move(lens);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("lens '", text, "' is not known, expected ", Syntax()));
}

std::string Lens::Syntax() {
  std::string text(kEntries.front().syntax);
  for (std::size_t i = 1; i < kEntries.size(); ++i) {
    absl::StrAppend(&text, i + 1 < kEntries.size() ? ", " : ", or ", kEntries[i].syntax);
  }
  return text;
}

absl::Status Lens::Check(std::size_t class_count) const {
  return std::visit([=](const auto& lens) { return CheckKind(lens, class_count); }, kind_);
}

std::string Lens::name() const {
  std::string name(kEntries[kind_.index()].name);
  std::visit(
      [&name](const auto& lens) {
        if constexpr (requires { lens.k; }) absl::StrAppend(&name, lens.k, "]");
      },
      kind_);
  return name;
}

bool Lens::is_scalar() const noexcept {
  return std::visit(
      [](const auto& lens) { return std::is_base_of_v<ScalarLens, std::decay_t<decltype(lens)>>; },
      kind_);
}

std::size_t Lens::parts(std::size_t class_count) const noexcept {
  return std::holds_alternative<ClassWiseLens>(kind_) ? class_count : 1;
}

std::size_t Lens::reduced_class_count(std::size_t class_count) const noexcept {
  return std::visit([=](const auto& lens) { return ClassesOf(lens, class_count); }, kind_);
}

double Lens::DistributionFreeBound() const noexcept {
  // A scalar residual is at most 1; a sum over all classes is at most |d| |d'| <= 2.
  return is_scalar() && !std::holds_alternative<ClassWiseLens>(kind_) ? 1.0 : 2.0;
}

void Lens::Reduce(std::span<const double> g, std::int32_t y, std::span<double> probabilities,
                  std::span<std::int32_t> labels, std::span<std::uint32_t> order) const noexcept {
  const Reduction out{g, static_cast<std::size_t>(y), probabilities, labels, order};
  std::visit([&out](const auto& lens) { ReduceTo(out, lens); }, kind_);
}

absl::string_view BlindSpot(absl::string_view name) noexcept {
  const std::size_t bracket = name.find('[');
  if (bracket != absl::string_view::npos) name = name.substr(0, bracket + 1);
  for (const Entry& entry : kEntries) {
    if (entry.name == name) return entry.blind_spot;
  }
  return "errors in what it does not show";
}

std::vector<PredictionBatch> LensBatch::views() const {
  std::vector<PredictionBatch> views;
  views.reserve(parts.size());
  for (const PredictionSet& part : parts) views.push_back(part.view());
  return views;
}

absl::StatusOr<LensBatch> ApplyLens(const PredictionBatch& batch, const Lens& lens) {
  CALIBD_RETURN_IF_ERROR(lens.Check(batch.class_count));
  const std::size_t n = batch.size();
  const std::size_t parts = lens.parts(batch.class_count);
  const std::size_t m = lens.reduced_class_count(batch.class_count);
  LensBatch reduced;
  reduced.weight = lens.weight();
  reduced.bound = lens.DistributionFreeBound();
  reduced.parts.resize(parts);
  for (PredictionSet& part : reduced.parts) {
    part.class_count = m;
    part.probabilities.resize(n * m);
    part.labels.resize(n);
  }
  std::vector<double> probabilities(parts * m);
  std::vector<std::int32_t> labels(parts);
  std::vector<std::uint32_t> order(lens.ScratchSize(batch.class_count));
  for (std::size_t i = 0; i < n; ++i) {
    lens.Reduce(batch.row(i), batch.labels[i], probabilities, labels, order);
    for (std::size_t part = 0; part < parts; ++part) {
      std::copy_n(&probabilities[part * m], m, &reduced.parts[part].probabilities[i * m]);
      reduced.parts[part].labels[i] = labels[part];
    }
  }
  return reduced;
}

}  // namespace calibd
