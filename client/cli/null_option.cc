#include "null_option.h"

#include <string>

namespace calibd::cli {

void AddNullOption(CLI::App& command, NullHypothesis& null) {
  command
      .add_option_function<std::string>(
          "--null",
          [&null](const std::string& name) {
            null = name == "forecast" ? NullHypothesis::kForecast : NullHypothesis::kForm;
          },
          "what the tests reject: forecast, that labels are drawn from the predictions "
          "(simulation, exact for every number of rows), or form, that the model is calibrated in "
          "the tested part (observations drawn with replacement, approximate); default form")
      ->check(CLI::IsMember({"form", "forecast"}));
}

}  // namespace calibd::cli
