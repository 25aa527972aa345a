"""Models in many states: together they have a series of every metric."""
from json_server import observations
from page_models import PageModels


class MetricModels:
    """server: a JsonServer."""

    def __init__(self, server):
        self.server = server
        self.models = PageModels(server)

    def declare_and_stream(self):
        models = self.models
        models.declare()
        models.create("stale", classes={"count": 2}, monitoring={"staleAfter": "1s"})
        models.create("raised", classes={"count": 2})
        models.create("changed", classes={"count": 2}, monitoring={"referenceRows": 1000})
        models.create("equal", classes={"count": 2})
        models.create("rejected", classes={"count": 2})
        models.create("pending", classes={"count": 2}, labelGrace="3600s")
        models.create("decided", forecast={"normal": {}, "decision": {"threshold": 20}})
        models.stream()
        models.classes("raised", 0, 3000, exponent=3)
        self._update("raised", "monitoring.errorLimit", {"monitoring": {"errorLimit": 0.5}})
        models.classes("changed", 0, 1500)
        models.classes("changed", 0, 1500, exponent=4)
        # No bandwidth can be chosen from predictions that are all equal.
        models.send("equal", 0, {"probabilities": {"values": [0.5] * 1200}, "labels": [0, 1] * 300})
        models.send("pending", 0, {"probabilities": {"values": [0.5, 0.5]}, "predictionIds": ["a"]})
        models.normal("decided", 0, 2000, 1.5)

    def send_more(self, hours_ago):
        """Rows of some models, refused rows, and predictions without labels."""
        self.models.classes("fraud", hours_ago, 700, exponent=2.2, concentration=0.6)
        self.models.late_labels("intent", hours_ago, 400, 0.5)
        bad = observations(10)
        bad["probabilities"]["values"][0] = 7
        self.server.post("/v1/models/rejected:observe", {"observations": bad})

    def _update(self, name, mask, fields):
        status, _, text = self.server.post(f"/v1/models/{name}:update", {"model": fields, "updateMask": mask})
        assert status == 200, text
