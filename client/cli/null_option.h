#ifndef CALIBD_CLI_NULL_OPTION_H_
#define CALIBD_CLI_NULL_OPTION_H_

#include <CLI/CLI.hpp>

#include "calibd/core/bootstrap.h"

namespace calibd::cli {

// Adds --null. null: set to the option's value; keeps its value without the option.
void AddNullOption(CLI::App& command, NullHypothesis& null);

}  // namespace calibd::cli

#endif  // CALIBD_CLI_NULL_OPTION_H_
