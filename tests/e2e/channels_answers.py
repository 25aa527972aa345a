"""Everything that calibd says about a model: each channel is asked once, while nothing changes."""
import concurrent.futures
import dataclasses
import itertools
import json
import re
import subprocess
import urllib.request

import numpy as np

GATES = ("over-limit", "miscalibration", "drift", "undecided")
EVALUATION_GATES = ("over-limit", "miscalibration", "undecided")
REPLICATES = "99"
# An evaluation of more rows takes seconds, and so does a test with more rows.
MOST_EVALUATED_ROWS = 10000
MOST_TESTED_ROWS = 4000


@dataclasses.dataclass
class Answers:
    """The answers about one model.

    facts: of GET /v1/models/MODEL/calibration. others: the same message of other channels, by name.
    listed: its entry in the list of all models. text, line: of `calibctl show` and `watch`. declared,
    settings: its declaration over HTTP, and the text of `calibctl model show`.
    evaluated, evaluation_text: of `calibctl evaluate` of its rows in a file; None without rows.
    served: of `calibctl evaluate --model` of the rows that the server has; None if it was not asked.
    exit_codes: by command.
    """

    facts: dict
    others: dict
    listed: dict
    text: str
    python_text: str
    declared: dict
    settings: str
    verbose: str
    line: str
    list_row: str
    alarms: str
    alarm_facts: list
    history: dict
    history_text: str
    history_python: dict
    failed_on: list
    exit_codes: dict
    metrics: dict
    evaluated: dict | None = None
    evaluation_text: str = ""
    served: dict | None = None

    def said(self, line):
        """A sentence of the answer; empty without one."""
        return self.facts["reading"].get(line, {}).get("text", "")

    def active(self, kind=None):
        """The alarms that are not acknowledged, of all kinds or of one."""
        return [alarm for alarm in self.facts.get("alarms", [])
                if "acknowledgeTime" not in alarm and kind in (None, alarm["kind"])]


@dataclasses.dataclass
class Everything:
    """The list of all models: in JSON, as text with all gates, and of Python."""

    listed: dict
    text: str
    of_python: dict


class Channels:
    """Asks a server. folder: for files. client: calibd.Client of the server."""

    def __init__(self, calibctl, server, client, folder):
        self._calibctl = [calibctl, "--server", server.grpc]
        self._http = server.http
        self._client = client
        self._folder = folder

    def run(self, *arguments):
        """The exit code and the output of calibctl."""
        result = subprocess.run([*self._calibctl, *arguments], stdin=subprocess.DEVNULL,
                                capture_output=True, text=True, timeout=120, check=False)
        if result.returncode not in (0, 3):
            raise RuntimeError(f"{arguments}: exit code {result.returncode}\n{result.stderr}")
        return result.returncode, result.stdout

    def json(self, *arguments):
        return json.loads(self.run(*arguments, "--output", "json")[1])

    def first_line(self, *arguments):
        """The first line of an endless output of calibctl."""
        with subprocess.Popen([*self._calibctl, *arguments], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, text=True) as process:
            line = process.stdout.readline()
            process.kill()
        return line

    def get(self, path):
        with urllib.request.urlopen(f"http://{self._http}{path}", timeout=60) as answer:
            return answer.read().decode("utf-8")

    def first_event(self, path):
        """The calibration in the first event of a stream over HTTP."""
        address = f"http://{self._http}{path}/events"
        with urllib.request.urlopen(address, timeout=60) as events:
            data = next(line for line in events if line.startswith(b"data: "))
        return json.loads(data[len(b"data: "):])["calibration"]

    def metrics(self):
        """The value of each series, by model: {model: {(metric, labels without the model): value}}."""
        found = {}
        for line in self.get("/metrics").splitlines():
            match = re.fullmatch(r'(\w+)\{model="([^"]*)",version="([^"]*)",?(.*)\} (\S+)', line)
            if match:
                metric, model, version, labels, value = match.groups()
                name = f"{model}@{version}" if version else model
                found.setdefault(name, {})[metric, labels] = float(value)
        return found

    def everything(self, models):
        """The answers about all models, and the list of them."""
        listed = self.json("list")
        text = self.run("list", "--fail-on", ",".join(GATES))[1]
        rows = {row.split()[0]: row for row in text.splitlines()[1:-1]
                if not re.match(r"\S+ has \d+ (?:labelled )?rows?[,:]? ", row)}
        metrics = self.metrics()
        entries = {short_name(one["model"]): one for one in listed["models"]}
        # A small machine has two processors.
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            answers = dict(zip(models, pool.map(
                lambda name: self._answers(name, models[name], entries[name], rows[name],
                                           metrics.get(name, {})), models)))
        return answers, Everything(listed, text, self._client.verdicts().to_dict())

    def _answers(self, name, situation, listed, list_row, metrics):
        is_monitored = "verdict" in listed
        shown = ["show", name, *(["--fail-on", ",".join(GATES)] if is_monitored else [])]
        show_code, text = self.run(*shown)
        path = "/v1/" + listed["model"]
        gated = self.json(*shown)
        gate = gated.pop("gate", {})
        others = {
            "calibctl show": gated,
            "Python": self._client.calibration(name).to_dict(),
            "Python watch": next(iter(self._client.watch(name))).to_dict(),
            "events": self.first_event(path),
        }
        answers = Answers(
            facts=json.loads(self.get(f"{path}/calibration")), others=others, listed=listed,
            text=text, python_text=repr(self._client.calibration(name)),
            declared=json.loads(self.get(path))["model"], settings=self.run("model", "show", name)[1],
            verbose=self.run("show", name, "--verbose")[1],
            line=self.first_line("watch", name), list_row=list_row,
            alarms=self.run("alarms", name)[1], alarm_facts=self.json("alarms", name)["alarms"],
            history=self.json("history", name, "--resolution", "minute"),
            history_text=self.run("history", name, "--resolution", "minute")[1],
            history_python=self._client.history(name, "minute").to_dict(),
            failed_on=gate.get("failedOn", []), exit_codes={"show": show_code},
            metrics=metrics)
        if 0 < sum(map(len, situation.rows)) <= MOST_EVALUATED_ROWS:
            self._evaluate(name, situation, answers)
        return answers

    def _evaluate(self, name, situation, answers):
        """Evaluates all rows of the model, in their order, as a file."""
        error = answers.facts.get("error")
        limit = ["--error-limit", repr(error["limit"])] if error else []
        count = sum(map(len, situation.rows))
        gates = EVALUATION_GATES
        predictions = np.concatenate([rows.predictions for rows in situation.rows])
        truths = np.concatenate([rows.truths for rows in situation.rows])
        path = self._folder / f"{name}.npy"
        if "forecast" in situation.declare:
            kind = situation.declare["forecast"]
            np.save(path, np.column_stack([predictions, truths]))
            option = ("--normals" if kind == "normal" else
                      "--samples" if isinstance(kind, int) else "--quantiles")
            command = ["evaluate-forecasts", option, str(path), "--replicates", REPLICATES]
            if option == "--quantiles":
                command += ["--levels", ",".join(map(repr, kind))]
        elif "labels" in situation.declare:
            path = path.with_suffix(".csv")
            path.write_text(labels_csv(situation.declare["labels"], predictions, truths),
                            encoding="utf-8")
            command = ["evaluate-labels", str(path)]
        else:
            is_tested = count <= MOST_TESTED_ROWS
            np.save(path, predictions)
            np.save(path.with_suffix(".labels.npy"), truths)
            command = ["evaluate", str(path), str(path.with_suffix(".labels.npy")), "--label-base", "0",
                       "--bandwidth", str(situation.declare.get("bandwidth", "median")), "--lens",
                       "canonical",
                       "--cme-locations", "0", "--consistency-replicates", "0",
                       "--replicates", REPLICATES if is_tested else "0"]
            gates = gates if is_tested else ("over-limit", "undecided")
            if all(rows.groups is not None for rows in situation.rows):
                path = path.with_suffix(".csv")
                path.write_text(grouped_csv(situation, predictions, truths), encoding="utf-8")
                command[1:5] = [str(path), "--label-column", "label", "--label-base", "0",
                                "--group-column", "group"]
            if isinstance(situation.declare["classes"], list):
                command += ["--class-names", ",".join(situation.declare["classes"])]
        # The command runs twice, for text and for JSON, and both must draw the same random numbers.
        command += limit if "labels" in situation.declare else [*limit, "--seed", "1"]
        command += ["--fail-on", ",".join(gates)]
        code, answers.evaluation_text = self.run(*command)
        answers.exit_codes["evaluate"] = code
        answers.evaluated = self.json(*command)
        # The server has no evaluation of several labels.
        has_bandwidth = "forecast" in situation.declare or "bandwidth" in situation.declare
        if count <= MOST_TESTED_ROWS and "labels" not in situation.declare and has_bandwidth:
            served = [command[0], "--model", name]
            served += (["--replicates", REPLICATES] if "forecast" in situation.declare else
                       ["--replicates", "0", "--lens", "canonical", "--cme-locations", "0",
                        "--consistency-replicates", "0"])
            answers.served = self.json(*served)


def short_name(model):
    """The name of a model for people: NAME, or NAME@VERSION."""
    return model.removeprefix("models/").replace("/versions/", "@")


def labels_csv(names, predictions, truths):
    lines = [",".join(f"prob_{name},label_{name}" for name in names)]
    lines += [",".join(f"{p!r},{'' if truth != truth else int(truth)}" for p, truth in zip(*row))
              for row in zip(predictions.tolist(), truths.tolist())]
    return "\n".join(lines) + "\n"


def grouped_csv(situation, predictions, truths):
    width = predictions.shape[1]
    groups = itertools.chain.from_iterable(rows.groups for rows in situation.rows)
    lines = [",".join([*map(str, range(width)), "label", "group"])]
    lines += [",".join([*map(repr, row), str(truth), group])
              for row, truth, group in zip(predictions.tolist(), truths.tolist(), groups)]
    return "\n".join(lines) + "\n"
