#ifndef CALIBD_CLIENT_CLI_COMMANDS_SHARED_OPTIONS_H_
#define CALIBD_CLIENT_CLI_COMMANDS_SHARED_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "CLI/App.hpp"
#include "calibd/core/bootstrap.h"

namespace calibd::cli {

// Options that several commands have. Each function adds its options to a command, which sets the
// value. The value must outlive the command, and keeps its content without the option.

// Adds the argument MODEL, which is required.
void AddModelArgument(CLI::App& command, std::string& model);

// Adds --window, the number of newest observations that the command uses.
CLI::Option* AddWindowOption(CLI::App& command, std::int32_t& window,
                             const std::string& help =
                                 "use only this many of the newest observations; default: the "
                                 "whole window");

// Adds --model and, for it, --window: the command reads a model of the server instead of files.
// help: says what the command does with the model.
void AddModelSource(CLI::App& command, std::string& model, std::int32_t& window,
                    const std::string& help);

void AddSeedOption(CLI::App& command, std::optional<std::uint64_t>& seed,
                   const std::string& help =
                       "seed of all random draws; default: random, and shown with the result");

// Adds --predictions-follow-labels, for intervals that are valid for one look.
void AddFollowOption(CLI::App& command, bool& predictions_follow_labels);

void AddThreadsOption(CLI::App& command, unsigned& threads);

void AddFloat32Option(CLI::App& command, bool& float32);

// Adds --null. help: says what the values mean, and the default. names: its values.
void AddNullOption(
    CLI::App& command, NullHypothesis& null,
    const std::string& help =
        "what the tests reject: forecast, that labels are drawn from the predictions (simulation, "
        "exact for every number of rows); pearson, the same with a Pearson curve instead of "
        "replicates for the SKCE (approximate, fast); or form, that the model is calibrated in the "
        "tested part (observations drawn with replacement, approximate); default forecast",
    const std::vector<std::string>& names = {"form", "forecast", "pearson"});

}  // namespace calibd::cli

#endif  // CALIBD_CLIENT_CLI_COMMANDS_SHARED_OPTIONS_H_
