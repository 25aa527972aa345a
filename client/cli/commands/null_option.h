#ifndef CALIBD_CLIENT_CLI_COMMANDS_NULL_OPTION_H_
#define CALIBD_CLIENT_CLI_COMMANDS_NULL_OPTION_H_

#include <CLI/CLI.hpp>
#include <string>

#include "calibd/core/bootstrap.h"

namespace calibd::cli {

inline constexpr char kNullHelp[] =
    "what the tests reject: forecast, that labels are drawn from the predictions (simulation, "
    "exact for every number of rows), or form, that the model is calibrated in the tested part "
    "(observations drawn with replacement, approximate); default form";

// Adds --null. null: set to the option's value; keeps its value without the option. help: says what
// the values mean, and the default.
void AddNullOption(CLI::App& command, NullHypothesis& null, const std::string& help = kNullHelp);

}  // namespace calibd::cli

#endif  // CALIBD_CLIENT_CLI_COMMANDS_NULL_OPTION_H_
