"""The real calibd for the tests of the Python SDK."""
import os
import pathlib
import sys

import numpy as np
import pytest

import calibd

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/support"))
from calibd_server import CalibdServer  # noqa: E402

# A bandwidth of its own spares a model the warm-up.
BANDWIDTH = 0.3


@pytest.fixture(scope="session")
def server():
    with CalibdServer(os.environ["CALIBD_BINARY"]) as running:
        yield running


@pytest.fixture
def own_server():
    """A server that the test may kill."""
    with CalibdServer(os.environ["CALIBD_BINARY"]) as running:
        yield running


@pytest.fixture
def client(server):
    with calibd.Client(server.grpc) as opened:
        yield opened


@pytest.fixture
def model(request, client):
    """The name of a model of three classes."""
    name = request.node.name.replace("[", "-").replace("]", "")
    client.create_model(name, 3, bandwidth=BANDWIDTH)
    return name


def calibrated(n, classes=3, seed=1):
    """n predictions and labels of a calibrated model."""
    random = np.random.default_rng(seed)
    predictions = random.dirichlet(np.ones(classes), size=n)
    labels = (predictions.cumsum(axis=1) < random.random((n, 1))).sum(axis=1)
    return predictions, np.minimum(labels, classes - 1)
