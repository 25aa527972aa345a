"""The example for PyTorch, where Debian's python3-torch is installed."""
import sys

import pytest

from conftest import ROOT

torch = pytest.importorskip("torch", reason="python3-torch is not installed")
sys.path.insert(0, str(ROOT / "client/python/examples"))
import train_calibrated  # noqa: E402


def test_backward_returns_the_numerical_gradient(client):
    generator = torch.Generator().manual_seed(1)
    logits = torch.randn(6, 3, dtype=torch.float64, generator=generator, requires_grad=True)
    labels = torch.tensor([0, 1, 2, 1, 0, 2])
    # The factor is what backward receives as the gradient of its output.
    assert torch.autograd.gradcheck(
        lambda values: 3 * train_calibrated.CalibrationLoss.apply(values, labels, client, 10.0, 0.4),
        logits)


def test_training_reduces_the_loss(client):
    losses = train_calibrated.train(client)
    # A uniform prediction of three classes has the log likelihood log 3.
    assert losses[0] > 1 and losses[-1] < 0.7 * losses[0]
