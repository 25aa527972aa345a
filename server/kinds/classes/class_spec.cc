#include "server/kinds/classes/class_spec.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "calibd/convert/kernel.h"
#include "calibd/core/row_sum.h"
#include "calibd/core/running_lens.h"
#include "server/base/errors.h"

namespace calibd::server {
namespace {

constexpr std::size_t kDefaultBlockSize = 100;
// With 2, which is always present.
constexpr std::size_t kMaxBlockSizes = 4;
// Maximum number of differences |x_k - z_k| in one pass of the median bandwidth of one model,
// warmup^2 / 2 * m. This takes a writer thread seconds.
constexpr double kMaxBandwidthWork = 2e9;
// Maximum number of multiplications of the running estimators of all lenses per received
// probability. The largest batch then takes a writer thread a second or two.
constexpr double kMaxOperationsPerProbability = 4000;

// Checks the fields of v1.Classes.
class ClassSpecChecker {
 public:
  ClassSpecChecker(const v1::Classes& declared, const SpecContext& context, ClassesSpec& spec,
                   std::vector<Violation>& violations)
      : declared_(declared), context_(context), spec_(spec), violations_(violations) {}

  bool Check() {
    TakeClasses();
    if (!violations_.empty()) return false;
    TakeTolerance();
    spec_.baseline = declared_.baseline();
    CheckKernel();
    CheckLenses();
    if (!violations_.empty()) return false;
    CheckBlockSizes();
    CheckOperations();
    return true;
  }

  void TakeTolerance() {
    const double tolerance = declared_.row_sum_tolerance();
    spec_.row_sum_tolerance = tolerance == 0 ? DefaultRowSumTolerance(spec_.count) : tolerance;
  }

 private:
  template <typename... Parts>
  void Add(const std::string& field, const Parts&... parts) {
    Violate(violations_, field, parts...);
  }

  void TakeClasses() {
    const std::int64_t names = declared_.names_size();
    const std::int64_t count = declared_.count() == 0 ? names : declared_.count();
    // The rules do not say how many names there are without a count.
    if (count < static_cast<std::int64_t>(kMinClassCount) ||
        count > static_cast<std::int64_t>(kMaxClassCount)) {
      Add("model.classes.count", "is ", count, ", expected ", kMinClassCount, "..", kMaxClassCount);
      return;
    }
    if (names != 0 && names != count) {
      Add("model.classes.names", "has ", names, " names, expected count = ", count, " or none");
      return;
    }
    spec_.count = static_cast<std::size_t>(count);
    spec_.names.assign(declared_.names().begin(), declared_.names().end());
  }

  // The message of a conversion error begins with the field.
  void ViolateByMessage(std::string_view message) {
    const std::size_t space = message.find(' ');
    Add(absl::StrCat("model.classes.", absl::string_view(message.data(), space)),
        absl::string_view(message.data() + space + 1, message.size() - space - 1));
  }

  void CheckKernel() {
    absl::StatusOr<KernelSpec> kernel =
        convert::FromProto(declared_.kernel(), declared_.bandwidth(), spec_.count);
    if (!kernel.ok()) {
      const absl::string_view message = kernel.status().message();
      ViolateByMessage({message.data(), message.size()});
      return;
    }
    spec_.kernel = *std::move(kernel);
  }

  void CheckLenses() {
    for (int i = 0; i < declared_.lenses_size(); ++i) {
      const std::string field = absl::StrCat("model.classes.lenses[", i, "]");
      absl::StatusOr<Lens> lens = convert::FromProto(declared_.lenses(i), spec_.count);
      if (!lens.ok()) {
        Add(field, lens.status().message());
      } else if (std::find(spec_.lenses.begin(), spec_.lenses.end(), *lens) != spec_.lenses.end()) {
        Add(field, "is ", lens->name(),
            lens->is_canonical() ? ", which is always present"
                                 : " again, expected distinct lenses");
      } else {
        spec_.lenses.push_back(*std::move(lens));
      }
    }
  }

  void CheckBlockSizes() {
    std::set<std::size_t> sizes{2};
    sizes.insert(declared_.block_sizes().begin(), declared_.block_sizes().end());
    // By default, the window is more important than the second estimator.
    if (declared_.block_sizes_size() == 0 &&
        RunningBlockSkce::MaxMemory(kDefaultBlockSize, spec_.count) <= context_.memory_limit / 4) {
      sizes.insert(kDefaultBlockSize);
    }
    if (sizes.size() > kMaxBlockSizes) {
      Add("model.classes.block_sizes", "has ", sizes.size(),
          " sizes with 2, which is always present, expected at most ", kMaxBlockSizes);
    }
    spec_.block_sizes.assign(sizes.begin(), sizes.end());
  }

  void CheckOperations() {
    double sum = 0;
    std::size_t bytes = 0;
    for (const Lens& lens : spec_.lenses) {
      bytes +=
          RunningLens::MaxMemory(lens, spec_.count, spec_.block_sizes, spec_.kernel.matrix.get());
      sum += RunningLens::OperationsPerRow(lens, spec_.count, spec_.block_sizes,
                                           spec_.kernel.matrix.get());
    }
    if (bytes > kMaxSnapshotBytes) {
      Add("model.classes.block_sizes", "need with these lenses ", bytes,
          " bytes, expected at most ", kMaxSnapshotBytes);
    }
    const double each = std::ceil(sum / static_cast<double>(spec_.count));
    if (each > kMaxOperationsPerProbability) {
      Add("model.classes.block_sizes", "cost with these lenses ", each,
          " multiplications for each probability, expected at most ", kMaxOperationsPerProbability,
          "; smaller blocks or fewer lenses cost less");
    }
  }

  const v1::Classes& declared_;
  const SpecContext& context_;
  ClassesSpec& spec_;
  std::vector<Violation>& violations_;
};

std::string LensNames(const std::vector<Lens>& lenses) {
  return absl::StrJoin(
      lenses, ",", [](std::string* out, const Lens& lens) { absl::StrAppend(out, lens.name()); });
}

std::string Shown(const std::string& text) { return text.empty() ? "(none)" : text; }

void Compare(const char* field, const auto& was, const auto& is,
             std::vector<std::string>& differences) {
  if (was != is) differences.push_back(absl::StrCat(field, " is ", was, ", declared ", is));
}

}  // namespace

bool CheckClassSpec(const v1::Classes& declared, const SpecContext& context, ClassesSpec& spec,
                    std::vector<Violation>& violations) {
  return ClassSpecChecker(declared, context, spec, violations).Check();
}

void CheckClassSettings(const v1::Classes& declared, ClassesSpec& spec,
                        std::vector<Violation>& violations) {
  const SpecContext context;
  ClassSpecChecker checker(declared, context, spec, violations);
  checker.TakeTolerance();
}

std::size_t MostClassWarmup(const ClassesSpec& spec) {
  // Each lens computes its own median.
  const auto values = static_cast<double>(spec.count * spec.lenses.size());
  return std::max<std::size_t>(2,
                               static_cast<std::size_t>(std::sqrt(2 * kMaxBandwidthWork / values)));
}

bool NeedsClassWarmup(const ClassesSpec& spec) {
  return std::ranges::any_of(spec.lenses, [&spec](const Lens& lens) {
    const KernelSpec kernel = KernelOfLens(lens, spec.kernel);
    return kernel.matrix == nullptr && kernel.rule.bandwidth.needs_predictions();
  });
}

std::size_t CheckClassWarmup(const v1::BandwidthRule& rule, const ClassesSpec& spec,
                             std::size_t window, std::vector<Violation>& violations) {
  if (!NeedsClassWarmup(spec)) return 0;
  const char* const field = rule.has_median_off_diagonal() ? "median_off_diagonal" : "median";
  const std::int64_t warmup =
      rule.has_median_off_diagonal() ? rule.median_off_diagonal().warmup() : rule.median().warmup();
  const std::size_t work_limit = MostClassWarmup(spec);
  const std::size_t most = std::min(work_limit, window);
  if (warmup != 0 && (warmup < 2 || warmup > static_cast<std::int64_t>(most))) {
    Violate(violations, absl::StrCat("model.classes.bandwidth.", field, ".warmup"), "is ", warmup,
            ", expected 2..", most,
            most == work_limit ? absl::StrCat(", the most for ", spec.count, " classes and ",
                                              spec.lenses.size(), " lenses")
                               : std::string(", the window"));
    return 0;
  }
  return static_cast<std::size_t>(warmup);
}

void CompareClassSpecs(const ClassesSpec& existing, const ClassesSpec& declared,
                       const v1::Classes& was, const v1::Classes& is,
                       std::vector<std::string>& differences) {
  Compare("classes.count", existing.count, declared.count, differences);
  if (existing.names != declared.names) differences.emplace_back("classes.names differ");
  if (was.kernel().SerializeAsString() != is.kernel().SerializeAsString()) {
    // Matrices are too long to show.
    differences.emplace_back("classes.kernel differs");
  }
  Compare("classes.bandwidth", was.bandwidth().ShortDebugString(),
          is.bandwidth().ShortDebugString(), differences);
  if (existing.lenses != declared.lenses) {
    const std::string names = LensNames(existing.lenses);
    const std::string other = LensNames(declared.lenses);
    differences.push_back(names == other
                              ? std::string("the groups of a lens differ")
                              : absl::StrCat("classes.lenses is ", names, ", declared ", other));
  }
  Compare("classes.block_sizes", absl::StrJoin(existing.block_sizes, ","),
          absl::StrJoin(declared.block_sizes, ","), differences);
  Compare("classes.baseline", Shown(existing.baseline), Shown(declared.baseline), differences);
}

void FillClassesFrom(const v1::Classes& existing, v1::Classes& declared) {
  if (declared.block_sizes().empty()) *declared.mutable_block_sizes() = existing.block_sizes();
  if (declared.row_sum_tolerance() == 0) {
    declared.set_row_sum_tolerance(existing.row_sum_tolerance());
  }
}

}  // namespace calibd::server
