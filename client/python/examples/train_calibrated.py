"""Trains a classifier in PyTorch with the log likelihood and the calibration loss of the server.

    train_calibrated.py [HOST:PORT]
"""
import sys

import torch

import calibd
from calibd.v1 import ingest_service_pb2, loss_pb2

CLASSES = 3


class CalibrationLoss(torch.autograd.Function):
    """The negative log likelihood of logits + weight x MMD^2, with the gradient of ComputeLoss.

    bandwidth: of the distance between two predictions. Fixed, so that the loss of different batches
      means the same.
    """

    @staticmethod
    def forward(context, logits, labels, client, weight, bandwidth):
        request = loss_pb2.ComputeLossRequest(
            logits=ingest_service_pb2.DoubleValues(values=logits.detach().double().flatten().tolist()),
            labels=labels.tolist(), mmd_weight=weight, compute_gradient=True)
        request.condition.forecast.bandwidth = bandwidth
        answer = client.loss(request)
        gradient = torch.tensor(answer.gradient.values, dtype=logits.dtype, device=logits.device)
        context.save_for_backward(gradient.reshape(logits.shape))
        return logits.new_tensor(answer.value)

    @staticmethod
    def backward(context, output_gradient):
        gradient, = context.saved_tensors
        # Only the logits have a gradient.
        return output_gradient * gradient, None, None, None, None


def train(client, steps=30):
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
        loss = CalibrationLoss.apply(model(features), labels, client, 10.0, 0.4)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


if __name__ == "__main__":
    try:
        history = train(calibd.Client(sys.argv[1] if len(sys.argv) > 1 else None))
    except calibd.CalibdError as error:
        sys.exit(str(error))
    print(f"loss {history[0]:.4f} -> {history[-1]:.4f}")
