#include "client/cli/commands/shared_options.h"

#include "client/cli/commands/command.h"

namespace calibd::cli {

void AddModelArgument(CLI::App& command, std::string& model) {
  command.add_option("MODEL", model, "name, or NAME@VERSION")->required();
}

CLI::Option* AddWindowOption(CLI::App& command, std::int32_t& window, const std::string& help) {
  return command.add_option("--window", window, help)->check(CLI::Range(2, 1000000));
}

void AddModelSource(CLI::App& command, std::string& model, std::int32_t& window,
                    const std::string& help) {
  CLI::Option* const source = command.add_option("--model", model, help)->type_name("MODEL");
  AddWindowOption(
      command, window,
      "with --model: use only this many of the newest observations; default: the whole window")
      ->needs(source);
}

void AddSeedOption(CLI::App& command, std::optional<std::uint64_t>& seed, const std::string& help) {
  command.add_option("--seed", seed, help)->check(SeedRange());
}

void AddFollowOption(CLI::App& command, bool& predictions_follow_labels) {
  command.add_flag(
      "--predictions-follow-labels", predictions_follow_labels,
      "predictions may have been made from labels of earlier rows, as with online "
      "learning or a feature such as yesterday's outcome; rows must be in the order of "
      "time. The interval of the error is then valid for this too, and may be wider");
}

void AddThreadsOption(CLI::App& command, unsigned& threads) {
  command
      .add_option("--threads", threads,
                  "number of threads for files; default: one per CPU. The results do not "
                  "depend on it")
      ->check(CLI::Range(1, 1024));
}

void AddFloat32Option(CLI::App& command, bool& float32) {
  command.add_flag("--float32", float32,
                   "estimate in float32: about twice as fast, with an error below a thousandth of "
                   "the standard deviation under calibration");
}

void AddNullOption(CLI::App& command, NullHypothesis& null, const std::string& help,
                   const std::vector<std::string>& names) {
  command
      .add_option_function<std::string>(
          "--null",
          [&null](const std::string& name) {
            null = name == "forecast" ? NullHypothesis::kForecast
                   : name == "form"   ? NullHypothesis::kForm
                                      : NullHypothesis::kPearson;
          },
          help)
      ->check(CLI::IsMember(names));
}

}  // namespace calibd::cli
