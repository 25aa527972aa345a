"""Models of each kind, with their predictions of the last 30 hours, as the page shows them."""
import datetime
import json

import numpy as np

HOURS = 30
HOSTILE = "<img src=x onerror=alert(1)>"
RIGHT_TO_LEFT = "\u05e9\u05dc\u05d5\u05dd"


def tempered(probabilities, exponent):
    """What an over-confident model states (exponent above 1) where these probabilities are right."""
    powers = probabilities ** exponent
    return powers / powers.sum(axis=1, keepdims=True)


class PageModels:
    """server: a JsonServer."""

    def __init__(self, server, seed=11):
        self.server = server
        self.generator = np.random.default_rng(seed)

    def create(self, name, **fields):
        self._post("/v1/models", {"model": {"name": f"models/{name}", **fields}})

    def send(self, name, hours_ago, observations):
        """The batch has one time for all of its rows."""
        now = datetime.datetime.now(datetime.timezone.utc)
        time = (now - datetime.timedelta(hours=hours_ago)).isoformat()
        self._post(f"/v1/models/{name}:observe",
                   {"observations": {"predictionTimes": [time], **observations}})

    def classes(self, name, hours_ago, rows, count=2, exponent=1.0, concentration=1.0, **fields):
        right = self.generator.dirichlet([concentration] * count, rows)
        drawn = (right.cumsum(axis=1) > self.generator.random((rows, 1))).argmax(axis=1)
        self.send(name, hours_ago, {"probabilities": values(tempered(right, exponent)),
                                    "labels": drawn.tolist(), **fields})

    def labels(self, name, hours_ago, rows, count, exponent):
        """The second label holds less often than it is said to hold."""
        stated = self.generator.beta(0.7, 1.5, (rows, count))
        right = stated.copy()
        right[:, 1] **= exponent
        holds = self.generator.random((rows, count)) < right
        self.send(name, hours_ago, {"probabilities": values(stated),
                                    "labels": holds.astype(int).ravel().tolist()})

    def normal(self, name, hours_ago, rows, scale):
        mean = self.generator.normal(20, 5, rows)
        deviation = np.exp(0.3 * self.generator.normal(size=rows))
        outcome = mean + scale * deviation * self.generator.normal(size=rows)
        self.send(name, hours_ago, {"forecasts": values(np.stack([mean, deviation], axis=1)),
                                    "outcomes": outcome.round(6).tolist()})

    def quantiles(self, name, hours_ago, rows):
        mean = self.generator.normal(100, 20, (rows, 1))
        scores = np.array([-1.64485, -1.28155, -0.67449, 0, 0.67449, 1.28155, 1.64485])
        outcome = mean[:, 0] + 8 * self.generator.normal(size=rows)
        self.send(name, hours_ago, {"forecasts": values(mean + 8 * scores),
                                    "outcomes": outcome.round(6).tolist()})

    def samples(self, name, hours_ago, rows, shift):
        """20 draws; the outcomes are larger than these by `shift` standard deviations."""
        mean = self.generator.normal(10, 4, (rows, 1))
        outcome = mean[:, 0] + 2 * (shift + self.generator.normal(size=rows))
        self.send(name, hours_ago, {"forecasts": values(mean + 2 * self.generator.normal(size=(rows, 20))),
                                    "outcomes": outcome.round(6).tolist()})

    def late_labels(self, name, hours_ago, rows, share, **fields):
        right = self.generator.dirichlet([0.3] * 12, rows)
        drawn = (right.cumsum(axis=1) > self.generator.random((rows, 1))).argmax(axis=1)
        ids = [f"{hours_ago}-{row}" for row in range(rows)]
        self.send(name, hours_ago, {"probabilities": values(tempered(right, 1.3)),
                                    "baselineProbabilities": values(right), "predictionIds": ids})
        come = [row for row in range(rows) if self.generator.random() < share]
        self._post(f"/v1/models/{name}:label",
                   {"labels": {"predictionIds": [ids[row] for row in come],
                               "labels": [int(drawn[row]) for row in come]}})

    def declare(self):
        classes = {"fraud": ["genuine", "fraud"], "weather": ["sun", "rain", "fog"],
                   "churn": ["stays", "leaves"], "churn/versions/2": ["stays", "leaves"],
                   "triage": ["low", "medium", "high", "critical"],
                   "archive/versions/2024-11": ["no", "yes"], "newcomer": ["no", "yes"]}
        for name, names in classes.items():
            self.create(name, classes={"names": names},
                        **{"triage": {"monitoring": {"errorLimit": 0.1}},
                           "archive/versions/2024-11": {"monitoring": {"disabled": True}}}.get(name, {}))
        self.create("credit", classes={"names": ["paid", "default"]},
                    monitoring={"groupTag": "region"})
        self.create("topics", labels={"names": ["politics", "sport", "science", "arts", "travel"]})
        self.create("demand", forecast={"normal": {}})
        self.create("energy", forecast={"quantiles": {"levels": [.05, .1, .25, .5, .75, .9, .95]}})
        self.create("rainfall", forecast={"samples": {"draws": 20}})
        self.create("intent", classes={"count": 12, "baseline": "v1"}, labelGrace="2s")
        self.create("markup", description=HOSTILE,
                    classes={"names": [HOSTILE, "</script><b>", RIGHT_TO_LEFT]},
                    monitoring={"groupTag": "who"})

    def stream(self):
        """Every hour until now, each model that is not new sends some hundred rows."""
        for hours_ago in range(HOURS, -1, -1):
            hour = HOURS - hours_ago
            self.classes("weather", hours_ago, 700, 3)
            self.classes("fraud", hours_ago, 700, exponent=2.2, concentration=0.6)
            # A change, which lasts.
            self.classes("churn", hours_ago, 700, exponent=1 if hour < 20 else 2.6)
            self.classes("churn/versions/2", hours_ago, 300)
            # An error that was repaired.
            self.classes("triage", hours_ago, 2000, 4, exponent=3 if hour < 10 else 1)
            for region, exponent in (("north", 1), ("south", 1), ("east", 2.5)):
                self.classes("credit", hours_ago, 200, exponent=exponent, groupValues=[region])
            self.labels("topics", hours_ago, 400, 5, exponent=2.2)
            self.normal("demand", hours_ago, 500, 1 if hour < 8 else 1.5)
            self.quantiles("energy", hours_ago, 500)
            self.samples("rainfall", hours_ago, 300, 0 if hour < 20 else 1.2)
            self.late_labels("intent", hours_ago, 400, 0.8)
            if hour < 3:
                self.classes("archive/versions/2024-11", hours_ago, 300, exponent=1.5)
            self.classes("markup", hours_ago, 60, 3, exponent=3,
                         groupValues=[("<b>bold</b>", '"quoted" & co')[hour % 2]])

    def _post(self, path, body):
        status, _, text = self.server.post(path, body)
        assert status == 200, f"{path}: {text}"
        return json.loads(text)


def values(array):
    return {"values": array.round(6).ravel().tolist()}
