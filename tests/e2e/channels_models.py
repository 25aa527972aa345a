"""The models of channels_test: what they declare, and what happens to them, with fixed seeds.

SITUATIONS has one entry for each model. Its steps are rows, which are sent in this order, and
functions of a client and the name of the model, such as an acknowledgement.
"""
import dataclasses
import datetime
import http.client
import json
from typing import Any, Callable

import numpy as np
from calibd.v1 import model_service_pb2
from wait_for import wait_for

LEVELS = [0.05, 0.25, 0.5, 0.75, 0.95]
DRAWS = 10


@dataclasses.dataclass
class Rows:
    """Predictions with their truths, which may be the numbers or the groups of several rows."""

    predictions: np.ndarray
    truths: np.ndarray
    groups: Any = None
    baseline: Any = None

    def __len__(self):
        return len(self.truths)


@dataclasses.dataclass
class Feed:
    """Rows that come in another way than as a stream with labels.

    send: a function of a client, the address of HTTP, the name of the model and the rows.
    """

    rows: Rows
    send: Callable


@dataclasses.dataclass
class Situation:
    """A model.

    declare: arguments of Client.create_model. expected: the words of its verdict. is_settled: whether
    an answer is the last one; it is waited for when all models have their rows.
    """

    declare: dict
    steps: list
    expected: str
    is_settled: Callable = lambda answer: True

    @property
    def rows(self):
        """All rows that are counted, in the order of the predictions."""
        fed = (step.rows if isinstance(step, Feed) else step for step in self.steps)
        return [rows for rows in fed if isinstance(rows, Rows)]


def joined(parts, choose):
    """The rows of several parts in one array; None if the parts have no such values."""
    values = [choose(part) for part in parts]
    return None if not values or values[0] is None else np.concatenate(values)


# --- rows ---

def classes(seed, count, shift=0.0, width=10, sharp=True):
    """The stated probability of the top label is `shift` larger than its frequency."""
    rng = np.random.default_rng(seed)
    top = rng.integers(width, size=count)
    low, high = (0.96, 0.999) if sharp else (0.6, 0.95)
    confidence = rng.uniform(low, high, count)
    p = np.repeat(((1 - confidence) / (width - 1))[:, None], width, axis=1)
    p[np.arange(count), top] = confidence
    is_right = rng.random(count) < confidence - shift
    other = (top + rng.integers(1, width, size=count)) % width
    return Rows(p, np.where(is_right, top, other))


def two_classes(seed, count, shift=0.0, low=0.02, high=0.98):
    """The stated probability of class 1 is `shift` larger than its frequency."""
    rng = np.random.default_rng(seed)
    score = rng.uniform(low, high, count)
    labels = rng.random(count) < np.clip(score - shift, 0, 1)
    return Rows(np.column_stack([1 - score, score]), labels.astype(np.int64))


def bad_class(seed, count):
    """Class 0 is never true when it has its usual small probability."""
    rng = np.random.default_rng(seed)
    rows = classes(seed, count, sharp=False)
    wrong = (rows.truths == 0) & (rows.predictions[:, 0] < 0.5)
    rows.truths[wrong] = rng.integers(1, 10, size=np.count_nonzero(wrong))
    return rows


def sorted_rows(seed, count):
    """Calibrated rows in the order of whether the top label was right, a hundred at a time."""
    rows = classes(seed, count, sharp=False)
    is_right = rows.truths == rows.predictions.argmax(axis=1)
    order = np.lexsort((is_right, np.arange(count) // 100))
    return Rows(rows.predictions[order], rows.truths[order])


def constant(seed, count):
    """All predictions are equal and right on average."""
    p = np.full(10, 0.04)
    p[3] = 0.64
    rng = np.random.default_rng(seed)
    return Rows(np.repeat(p[None], count, axis=0), rng.choice(10, size=count, p=p))


def with_baseline(seed, count, better):
    """Rows of a calibrated model and of a baseline that is over-confident; or the other way round."""
    rows = classes(seed, count, sharp=False)
    sharper = rows.predictions**3
    sharper /= sharper.sum(axis=1, keepdims=True)
    predictions, baseline = (rows.predictions, sharper) if better else (sharper, rows.predictions)
    return Rows(predictions, rows.truths, baseline=baseline)


def grouped(seed, shares):
    """shares: rows by group. All rows in random order."""
    names = np.repeat(list(shares), [len(rows) for rows in shares.values()])
    parts = list(shares.values())
    order = np.random.default_rng(seed).permutation(len(names))
    return Rows(joined(parts, lambda part: part.predictions)[order],
                joined(parts, lambda part: part.truths)[order], [str(name) for name in names[order]])


def numbers(seed, count, scale=1.0, shift=0.0, kind="normal"):
    """Outcomes have the deviation `scale` and the mean `shift`, in units of their forecasts."""
    rng = np.random.default_rng(seed)
    mean = rng.normal(100, 20, count)
    outcomes = mean + 7 * (shift + scale * rng.standard_normal(count))
    if kind == "normal":
        return Rows(np.column_stack([mean, np.full(count, 7.0)]), outcomes)
    if kind == "median":
        return Rows(mean[:, None], outcomes)
    if kind == "quantiles":
        # The quantiles of the standard normal distribution at LEVELS.
        return Rows(mean[:, None] + 7 * np.array([-1.6448536, -0.6744898, 0, 0.6744898, 1.6448536]),
                    outcomes)
    return Rows(mean[:, None] + 7 * rng.standard_normal((count, DRAWS)), outcomes)


def several_labels(seed, count, shifts, known=1.0):
    """The stated probability of label k is shifts[k] larger than its frequency. known: the share of
    truths that are known."""
    rng = np.random.default_rng(seed)
    p = rng.uniform(0.02, 0.98, (count, len(shifts)))
    truths = (rng.random(p.shape) < np.clip(p - np.array(shifts), 0, 1)).astype(float)
    truths[rng.random(p.shape) >= known] = np.nan
    return Rows(p, truths)


# --- what else happens ---

def active(client, name):
    """The active alarms, the oldest first."""
    return [alarm for alarm in reversed(client.calibration(name).alarms)
            if alarm.acknowledge_time is None]


def acknowledge(client, name):
    for alarm in active(client, name):
        client.acknowledge_alarm(name, alarm.id, note="known")


def acknowledge_limit(client, name):
    for alarm in active(client, name):
        if alarm.kind == "OVER_LIMIT":
            client.acknowledge_alarm(name, alarm.id, note="known")


def update(**fields) -> Callable:
    return lambda client, name: client.update_model(name, **fields)


def recalibrate(client, name):
    client.recalibrate(name, window=1000)


def first(count, rows):
    return Rows(rows.predictions[:count], rows.truths[:count])


def sharpened(rows):
    """Predictions that are more certain than these."""
    predictions = rows.predictions**2
    return Rows(predictions / predictions.sum(axis=1, keepdims=True), rows.truths)


def with_invalid_rows(rows):
    """Sends the rows and 30 more whose probabilities do not sum to 1, which the SDK drops."""
    def step(client, name):
        invalid = np.full((30, rows.predictions.shape[1]), 0.5)
        with client.stream(name, on_invalid="drop") as stream:
            stream.send(np.concatenate([rows.predictions, invalid]),
                        np.concatenate([rows.truths, np.zeros(30, np.int64)]))
    return step


def labels_later(rows, labelled):
    """Sends rows by id, and the labels of the first ones of them."""
    def step(client, name):
        ids = [f"row-{i}" for i in range(len(rows))]
        with client.stream(name) as stream:
            stream.send(rows.predictions, ids=ids)
        with client.stream(name) as stream:
            stream.label(ids[:labelled], rows.truths[:labelled])
    return step


def events(client, address, name, rows):
    """Sends rows as the answers of a model server, 50 in each event, and their labels by id."""
    connection = http.client.HTTPConnection(address, timeout=60)
    ids = []
    for first_row in range(0, len(rows), 50):
        predictions = rows.predictions[first_row:first_row + 50].tolist()
        body = json.dumps({"predictions": predictions})
        connection.request("POST", f"/v1/models/{name}:inference", body, {
            "Content-Type": "application/json", "ce-specversion": "1.0", "ce-id": f"event-{first_row}",
            "ce-source": "test", "ce-type": "org.kubeflow.serving.inference.response"})
        answer = connection.getresponse()
        text = answer.read()
        if answer.status != 200:
            raise RuntimeError(f"{name}: {answer.status} {text}")
        ids += [f"event-{first_row}/{i}" for i in range(len(predictions))]
    connection.close()
    with client.stream(name) as stream:
        stream.label(ids, rows.truths)


def labels_first(client, _, name, rows):
    """Sends the labels of the rows, and then their predictions."""
    ids = [f"row-{i}" for i in range(len(rows))]
    for part in np.array_split(np.arange(len(rows)), 4):
        part_ids = ids[part[0]:part[-1] + 1]
        with client.stream(name) as stream:
            stream.label(part_ids, rows.truths[part])
        with client.stream(name) as stream:
            stream.send(rows.predictions[part], ids=part_ids)


def declared(**monitoring):
    """Fields of the declaration that create_model has no arguments for."""
    return model_service_pb2.Model(monitoring=monitoring)


def situations():
    ten = {"classes": 10, "bandwidth": 0.5}
    two = {"classes": 2, "bandwidth": 0.5}
    region = {"declaration": declared(group_tag="region")}
    labels = {"labels": ["rain", "fog", "wind"]}
    return {
        "ten_calibrated": Situation(ten, [classes(1, 20000)], "WITHIN_LIMIT NOT_REJECTED"),
        "ten_undecided": Situation(ten, [classes(104, 3000, sharp=False)], "UNDECIDED NOT_REJECTED"),
        "ten_over": Situation(ten, [classes(3, 4000, 0.15)], "OVER_LIMIT MISCALIBRATED"),
        "ten_under": Situation(ten, [classes(4, 4000, -0.12, sharp=False)],
                               "OVER_LIMIT MISCALIBRATED"),
        "ten_small_error": Situation({**ten, "error_limit": 0.08}, [classes(5, 20000, 0.04)],
                                     "WITHIN_LIMIT MISCALIBRATED"),
        "ten_changed": Situation(ten, [classes(6, 12000), classes(7, 2500, 0.2)],
                                 "OVER_LIMIT MISCALIBRATED"),
        "ten_recovered": Situation(
            {**ten, "error_limit": 0.05}, [classes(8, 2000, 0.15), classes(9, 12000)],
            "OVER_LIMIT MISCALIBRATED"),
        "ten_recovered_acknowledged": Situation(
            {**ten, "error_limit": 0.05},
            [classes(8, 2000, 0.15), classes(9, 12000), acknowledge, classes(10, 3000)],
            "WITHIN_LIMIT NOT_REJECTED"),
        "ten_off_again": Situation(
            {**ten, "error_limit": 0.05},
            [classes(8, 2000, 0.15), classes(9, 8000), classes(11, 2500, 0.15)],
            "OVER_LIMIT MISCALIBRATED"),
        "ten_acknowledged": Situation(ten, [classes(12, 3000, 0.15), acknowledge],
                                      "OVER_LIMIT INSUFFICIENT_DATA"),
        "ten_acknowledged_again_off": Situation(
            ten, [classes(12, 3000, 0.1), acknowledge, classes(13, 3000, 0.1)],
            "OVER_LIMIT MISCALIBRATED"),
        "ten_limit_raised": Situation(
            ten, [classes(14, 3000, 0.1), update(error_limit=0.2), classes(15, 3000, 0.1)],
            "WITHIN_LIMIT MISCALIBRATED"),
        # The error is above the new limit too, or the new limit is between the ends of its interval.
        "ten_limit_slightly_raised": Situation(
            ten, [classes(14, 3000, 0.1), update(error_limit=0.03), classes(15, 1000, 0.1)],
            "OVER_LIMIT MISCALIBRATED"),
        "ten_limit_raised_to_error": Situation(
            ten, [classes(14, 3000, 0.1), update(error_limit=0.1), classes(15, 1000, 0.1)],
            "UNDECIDED MISCALIBRATED"),
        "ten_drifted": Situation(ten, [classes(16, 30000), classes(17, 250, 0.3)],
                                 "OVER_LIMIT DRIFTED"),
        # It becomes worse than its reference; the other one stays as wrong as it was there.
        "ten_reference": Situation({**ten, "reference_rows": 2000},
                                   [classes(19, 3000), classes(20, 1500, 0.25)],
                                   "OVER_LIMIT MISCALIBRATED CHANGED"),
        "ten_as_the_reference": Situation({**ten, "reference_rows": 2000}, [classes(23, 5000, 0.15)],
                                          "OVER_LIMIT MISCALIBRATED NOT_CHANGED"),
        "ten_repaired": Situation(ten, [classes(18, 3000, 0.15), recalibrate],
                                  "OVER_LIMIT MISCALIBRATED"),
        "ten_empty": Situation(ten, [], "UNDECIDED INSUFFICIENT_DATA"),
        "ten_fifty": Situation(ten, [classes(19, 50, 0.3)], "UNDECIDED INSUFFICIENT_DATA"),
        "ten_bad_group": Situation(
            {**ten, "error_limit": 0.1, **region},
            [grouped(20, {"us": classes(21, 8000), "eu": classes(22, 1500, 0.4)})],
            "OVER_LIMIT MISCALIBRATED"),
        "ten_bad_class": Situation({**ten, "error_limit": 0.1}, [bad_class(23, 8000)],
                                   "WITHIN_LIMIT MISCALIBRATED"),
        "ten_sorted": Situation({**ten, "error_limit": 0.1}, [sorted_rows(24, 5000)],
                                "OVER_LIMIT MISCALIBRATED"),
        "ten_constant": Situation({**ten, "error_limit": 0.1}, [constant(25, 3000)],
                                  "WITHIN_LIMIT NOT_REJECTED"),
        "ten_late": Situation(
            {**ten, "label_grace": datetime.timedelta(seconds=8)},
            [labels_later(classes(26, 1500), 1200)], "UNDECIDED NOT_REJECTED",
            is_settled=lambda answer: answer.label_arrivals.matured == 1500),
        "ten_events": Situation(
            {**ten, "label_grace": datetime.timedelta(seconds=8)}, [Feed(classes(102, 1500, 0.15), events)],
            "OVER_LIMIT MISCALIBRATED", is_settled=lambda answer: answer.label_arrivals.matured == 1500),
        "ten_early_labels": Situation(
            {**ten, "label_grace": datetime.timedelta(seconds=8)},
            [Feed(classes(103, 1500, 0.15), labels_first)],
            "OVER_LIMIT MISCALIBRATED", is_settled=lambda answer: answer.label_arrivals.matured == 1500),
        "ten_better": Situation({**ten, "baseline": "old"}, [with_baseline(27, 3000, True)],
                                "UNDECIDED NOT_REJECTED"),
        "ten_worse": Situation({**ten, "baseline": "old"}, [with_baseline(28, 3000, False)],
                               "OVER_LIMIT MISCALIBRATED"),
        "ten_unmonitored": Situation({**ten, "declaration": declared(disabled=True)},
                                     [classes(29, 1000)], ""),
        "two_calibrated": Situation({**two, "error_limit": 0.05}, [two_classes(30, 20000)],
                                    "WITHIN_LIMIT NOT_REJECTED"),
        "two_class_1_off": Situation({**two, "classes": ["no", "yes"]},
                                     [two_classes(31, 4000, 0.08)], "OVER_LIMIT MISCALIBRATED"),
        "two_rare": Situation(two, [two_classes(32, 4000, -0.04, 0.02, 0.2)],
                              "OVER_LIMIT MISCALIBRATED"),
        "two_recovered": Situation(
            {**two, "error_limit": 0.08}, [two_classes(33, 2000, 0.2), two_classes(34, 12000)],
            "OVER_LIMIT MISCALIBRATED"),
        "two_groups": Situation(
            {**two, "error_limit": 0.1, **region},
            [grouped(35, {"us": two_classes(36, 6000), "eu": two_classes(37, 1500, 0.3)}),
             acknowledge_limit], "OVER_LIMIT MISCALIBRATED"),
        "number_calibrated": Situation({"forecast": "normal"}, [numbers(40, 15000)],
                                       "WITHIN_LIMIT NOT_REJECTED"),
        "number_narrow": Situation({"forecast": "normal", "decision": 110}, [numbers(41, 3000, 1.5)],
                                   "OVER_LIMIT MISCALIBRATED"),
        "number_changed": Situation({"forecast": "normal"},
                                    [numbers(42, 12000), numbers(43, 2500, 1.0, 1.0)],
                                    "OVER_LIMIT MISCALIBRATED"),
        "number_recovered": Situation(
            {"forecast": "normal", "error_limit": 0.1}, [numbers(44, 2000, 2.0), numbers(45, 15000)],
            "OVER_LIMIT MISCALIBRATED"),
        "number_groups": Situation(
            {"forecast": "normal", "error_limit": 0.15, **region},
            [grouped(46, {"us": numbers(47, 4000), "eu": numbers(48, 1000, 1.0, 2.0)})],
            "OVER_LIMIT MISCALIBRATED"),
        "number_fifty": Situation({"forecast": "normal"}, [numbers(49, 50)],
                                  "UNDECIDED INSUFFICIENT_DATA"),
        "quantiles_low": Situation({"forecast": LEVELS}, [numbers(50, 3000, 1.0, 0.6, "quantiles")],
                                   "OVER_LIMIT MISCALIBRATED"),
        "quantiles_undecided": Situation({"forecast": LEVELS}, [numbers(51, 2500, kind="quantiles")],
                                         "UNDECIDED NOT_REJECTED"),
        "samples_wide": Situation({"forecast": DRAWS}, [numbers(52, 800, 0.4, kind="samples")],
                                  "OVER_LIMIT MISCALIBRATED"),
        "samples_empty": Situation({"forecast": DRAWS}, [], "UNDECIDED INSUFFICIENT_DATA"),
        "labels_calibrated": Situation({**labels, "error_limit": 0.05},
                                       [several_labels(60, 15000, (0, 0, 0))],
                                       "WITHIN_LIMIT NOT_REJECTED"),
        "labels_one_off": Situation(labels, [several_labels(61, 4000, (0, 0, 0.15), known=0.8)],
                                    "OVER_LIMIT MISCALIBRATED"),
        "labels_recovered": Situation(
            {**labels, "error_limit": 0.08},
            [several_labels(62, 2000, (0, 0.25, 0.25)), several_labels(63, 15000, (0, 0, 0))],
            "OVER_LIMIT MISCALIBRATED"),
        "labels_acknowledged": Situation(
            labels, [several_labels(64, 3000, (0.15, 0.1, 0.15)), acknowledge],
            "OVER_LIMIT INSUFFICIENT_DATA"),
        "labels_without_truths": Situation(labels, [several_labels(65, 200, (0, 0, 0), known=0)],
                                           "UNDECIDED INSUFFICIENT_DATA"),
        # --- rarer situations ---
        "ten_warming": Situation({"classes": 10}, [classes(70, 300)], "UNDECIDED INSUFFICIENT_DATA"),
        "ten_no_bandwidth": Situation({"classes": 10}, [constant(71, 700)],
                                      "UNDECIDED INSUFFICIENT_DATA"),
        "ten_updated": Situation(
            ten, [classes(72, 3000, 0.15), update(significance_level=0.01), classes(73, 1500, 0.15)],
            "OVER_LIMIT MISCALIBRATED"),
        "ten_just_updated": Situation(
            ten, [classes(72, 3000, 0.15), update(significance_level=0.01)],
            "OVER_LIMIT MISCALIBRATED"),
        "ten_group_recovered": Situation(
            {**ten, "error_limit": 0.15, **region},
            [grouped(74, {"us": classes(75, 1000), "eu": classes(76, 1000, 0.5)}),
             grouped(77, {"us": classes(78, 1000), "eu": classes(79, 7000)})],
            "OVER_LIMIT MISCALIBRATED"),
        "ten_other_groups": Situation(
            {**ten, "error_limit": 0.1, "declaration": declared(group_tag="region", max_groups=2)},
            [grouped(80, {"us": classes(81, 3000)}), classes(82, 1000),
             grouped(83, {"eu": classes(84, 1000, 0.4), "asia": classes(85, 1000, 0.4)})],
            "OVER_LIMIT MISCALIBRATED"),
        "ten_pending": Situation(
            {**ten, "label_grace": datetime.timedelta(hours=1)},
            [labels_later(classes(86, 300), 200)], "UNDECIDED INSUFFICIENT_DATA"),
        "ten_dropped": Situation(ten, [with_invalid_rows(classes(87, 1200))],
                                 "WITHIN_LIMIT NOT_REJECTED"),
        "ten_version@2": Situation(ten, [classes(88, 2000, 0.15)], "OVER_LIMIT MISCALIBRATED"),
        "named": Situation({"classes": ["cat", "dog", "owl"], "bandwidth": 0.5},
                           [classes(89, 3000, 0.15, width=3)], "OVER_LIMIT MISCALIBRATED"),
        "two_over": Situation(two, [sharpened(two_classes(90, 4000))], "OVER_LIMIT MISCALIBRATED"),
        "two_fifty": Situation(two, [first(50, sharpened(two_classes(90, 4000)))],
                               "UNDECIDED INSUFFICIENT_DATA"),
        "two_very_rare": Situation(two, [two_classes(91, 6000, 0.045, 0.05, 0.06)],
                                   "OVER_LIMIT MISCALIBRATED"),
        "two_limit_raised": Situation(
            two, [two_classes(92, 4000, 0.08), update(error_limit=0.2), two_classes(93, 500, 0.08)],
            "WITHIN_LIMIT MISCALIBRATED"),
        "number_costs": Situation({"forecast": "normal", "decision": (110, 1, 5)},
                                  [numbers(94, 2000, 1.5)], "OVER_LIMIT MISCALIBRATED"),
        "number_acknowledged": Situation(
            {"forecast": "normal"}, [numbers(95, 3000, 1.5), acknowledge, numbers(96, 1200, 1.5)],
            "OVER_LIMIT MISCALIBRATED"),
        "number_limit_raised": Situation(
            {"forecast": "normal"}, [numbers(97, 3000, 1.5), update(error_limit=0.3)],
            "WITHIN_LIMIT MISCALIBRATED"),
        "median": Situation({"forecast": [0.5]}, [numbers(98, 2000, 1.0, 0.5, "median")],
                            "OVER_LIMIT MISCALIBRATED"),
        "labels_growing": Situation(
            labels, [first(2300, several_labels(61, 4000, (0, 0, 0.15), known=0.8))],
            "OVER_LIMIT MISCALIBRATED"),
        "labels_many": Situation(
            {"labels": [f"topic{k}" for k in range(25)]},
            [several_labels(99, 3000, [0.2 if k == 7 else 0 for k in range(25)])],
            "OVER_LIMIT MISCALIBRATED"),
        "labels_single": Situation({"labels": ["rain"]}, [several_labels(100, 2000, [0.1])],
                                   "OVER_LIMIT MISCALIBRATED"),
        "labels_limit_raised": Situation(
            labels, [several_labels(101, 3000, (0.15, 0, 0)), update(error_limit=0.3)],
            "WITHIN_LIMIT MISCALIBRATED"),
    }


def populate(client, address, models):
    """Declares the models and does their steps. address: of HTTP."""
    for name, situation in models.items():
        client.create_model(name, **situation.declare)
        for step in situation.steps:
            if isinstance(step, Rows):
                with client.stream(name) as stream:
                    stream.send(step.predictions, step.truths, groups=step.groups,
                                baseline=step.baseline)
            elif isinstance(step, Feed):
                step.send(client, address, name, step.rows)
            else:
                step(client, name)
    for name, situation in models.items():
        if not wait_for(lambda: situation.is_settled(client.calibration(name))):
            raise TimeoutError(f"{name}: {client.calibration(name).message}")
