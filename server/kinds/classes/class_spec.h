#ifndef CALIBD_SERVER_KINDS_CLASSES_CLASS_SPEC_H_
#define CALIBD_SERVER_KINDS_CLASSES_CLASS_SPEC_H_

#include <cstddef>
#include <string>
#include <vector>

#include "calibd/core/validation.h"
#include "calibd/v1/model_service.pb.h"
#include "server/kinds/prediction_kind.h"
#include "server/model/model_declaration.h"

namespace calibd::server {

// The parts of ClassPredictions() that know v1.Classes.

// Fills in the spec; see PredictionKind::CheckSpec.
[[nodiscard]] bool CheckClassSpec(const v1::Classes& declared, const SpecContext& context,
                                  ClassesSpec& spec, std::vector<Violation>& violations);
// Replaces the fields that an update may change.
void CheckClassSettings(const v1::Classes& declared, ClassesSpec& spec,
                        std::vector<Violation>& violations);

// True if a lens chooses its bandwidth from the first predictions.
[[nodiscard]] bool NeedsClassWarmup(const ClassesSpec& spec);
// The longest warm-up whose median bandwidths take a writer thread seconds.
[[nodiscard]] std::size_t MostClassWarmup(const ClassesSpec& spec);
// Returns the declared warm-up; 0 if none is declared or needed, or if it is invalid. window: the
// most observations of a warm-up.
[[nodiscard]] std::size_t CheckClassWarmup(const v1::BandwidthRule& rule, const ClassesSpec& spec,
                                           std::size_t window, std::vector<Violation>& violations);

// See PredictionKind::Compare. was, is: the specs as messages.
void CompareClassSpecs(const ClassesSpec& existing, const ClassesSpec& declared,
                       const v1::Classes& was, const v1::Classes& is,
                       std::vector<std::string>& differences);
// See PredictionKind::FillFrom.
void FillClassesFrom(const v1::Classes& existing, v1::Classes& declared);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_KINDS_CLASSES_CLASS_SPEC_H_
