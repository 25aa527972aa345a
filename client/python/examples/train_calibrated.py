"""Trains a classifier in PyTorch with the log likelihood and the calibration loss, without a server."""
import torch

import calibd
from calibd.v1 import loss_pb2

CLASSES = 3


class CalibrationLoss(torch.autograd.Function):
    """The negative log likelihood of logits + weight x MMD^2, with the gradient of calibd.loss.

    bandwidth: of the distance between two predictions. Fixed, so that the loss of different batches
      means the same.
    """

    @staticmethod
    def forward(context, logits, labels, weight, bandwidth):
        settings = loss_pb2.LossSettings(penalty_weight=weight)
        settings.condition.forecast.bandwidth = bandwidth
        loss, gradient = calibd.loss(logits.detach(), labels, kind="logits", settings=settings)
        context.save_for_backward(torch.as_tensor(gradient, dtype=logits.dtype, device=logits.device))
        return logits.new_tensor(loss.value)

    @staticmethod
    def backward(context, output_gradient):
        gradient, = context.saved_tensors
        # Only the logits have a gradient.
        return output_gradient * gradient, None, None, None


def train(steps=30):
    """Trains on drawn data; returns the loss of each step."""
    generator = torch.Generator().manual_seed(7)
    features = torch.randn(256, 5, generator=generator)
    truth = features @ torch.randn(5, CLASSES, generator=generator)
    labels = torch.distributions.Categorical(logits=truth).probs.multinomial(
        1, generator=generator).flatten()
    model = torch.nn.Linear(5, CLASSES)
    torch.nn.init.zeros_(model.weight)
    torch.nn.init.zeros_(model.bias)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = CalibrationLoss.apply(model(features), labels, 10.0, 0.4)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


if __name__ == "__main__":
    history = train()
    print(f"loss {history[0]:.4f} -> {history[-1]:.4f}")
