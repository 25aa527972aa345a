#include "client/cli/commands/null_option.h"

#include <string>

namespace calibd::cli {

void AddNullOption(CLI::App& command, NullHypothesis& null, const std::string& help) {
  command
      .add_option_function<std::string>(
          "--null",
          [&null](const std::string& name) {
            null = name == "forecast" ? NullHypothesis::kForecast : NullHypothesis::kForm;
          },
          help)
      ->check(CLI::IsMember({"form", "forecast"}));
}

}  // namespace calibd::cli
