"""Tensors and the example for PyTorch, where Debian's python3-torch is installed."""
import sys

import pytest

from conftest import ROOT

torch = pytest.importorskip("torch", reason="python3-torch is not installed")
sys.path.insert(0, str(ROOT / "client/python/examples"))
import train_calibrated  # noqa: E402


def test_backward_returns_the_numerical_gradient():
    generator = torch.Generator().manual_seed(1)
    logits = torch.randn(6, 3, dtype=torch.float64, generator=generator, requires_grad=True)
    labels = torch.tensor([0, 1, 2, 1, 0, 2])
    # The factor is what backward receives as the gradient of its output.
    assert torch.autograd.gradcheck(
        lambda values: 3 * train_calibrated.CalibrationLoss.apply(values, labels, 10.0, 0.4),
        logits)


def test_training_reduces_the_loss():
    losses = train_calibrated.train()
    # A uniform prediction of three classes has the log likelihood log 3.
    assert losses[0] > 1 and losses[-1] < 0.7 * losses[0]


def test_tensors_are_sent_as_they_are(client):
    client.create_model("real-tensors", 3, label_grace="7d")
    logits = torch.tensor([[2.0, 0.0, 0.0], [0.0, 2.0, 0.0]], requires_grad=True)
    probabilities = torch.softmax(logits, dim=1)
    labels, ids = torch.tensor([[0], [2]]), torch.tensor([7, 8])
    with client.stream("real-tensors") as stream:
        stream.send(probabilities, labels)
        stream.send(list(probabilities), list(labels[:, 0]))
        stream.send(logits.to(torch.bfloat16), labels, logits=True)
        stream.send(torch.tensor([[0.5, 0.25, 0.25]] * 2, dtype=torch.bfloat16), ids=ids)
        stream.label(ids, labels)
    client.observe("real-tensors", probabilities[0], labels[0, 0])
    scores = client.calibration("real-tensors").scores
    assert scores.observations == 7 and scores.accuracy == pytest.approx(4 / 7)
