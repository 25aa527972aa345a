#!/usr/bin/python3
"""What people would use instead: numpy and scipy on one thread.

  baseline.py [NAME...]   all baselines, or only these

Prints one JSON object: seconds of the best of three runs, by name, such as "n=10000/m=10".
The quadratic estimator goes over the tiles of the upper triangle, which fit into the
cache: cdist cityblock, exp, and the product of the residuals. top_label is its scalar form.
class_loss is the quadratic estimator with its gradient, over all tiles.
distribution_mmd is the unbiased MMD of Normal forecasts given the forecasts, over the same tiles.
simulation is the test with 999 times labels drawn from the predictions, with 64 random frequencies.
"""
import json
import os
import sys
import time

for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"

import numpy as np  # noqa: E402
from scipy.spatial.distance import cdist  # noqa: E402

TILE = 128
BANDWIDTH = 0.9


def skce_unbiased(points, residuals, scale):
    n = len(points)
    total = 0.0
    for i in range(0, n, TILE):
        for j in range(i, n, TILE):
            kernel = np.exp(cdist(points[i:i + TILE], points[j:j + TILE], "cityblock") * -scale)
            kernel *= residuals[i:i + TILE] @ residuals[j:j + TILE].T
            total += (np.triu(kernel, 1) if i == j else kernel).sum()
    return 2 * total / (n * (n - 1))


def simulation(predictions, replicates=999, frequencies=64):
    rng = np.random.default_rng(2)
    n, m = predictions.shape
    phases = predictions @ (rng.standard_cauchy((m, frequencies)) * 0.5 / BANDWIDTH)
    features = np.hstack([np.cos(phases), np.sin(phases)]) / np.sqrt(frequencies)
    centre = predictions.T @ features
    cumulative = predictions.cumsum(1)
    squares = (predictions ** 2).sum(1)
    rows = np.arange(n)
    for _ in range(replicates):
        labels = (cumulative < rng.random((n, 1))).sum(1).clip(max=m - 1)
        one_hot = np.zeros((n, m))
        one_hot[rows, labels] = 1
        sums = one_hot.T @ features - centre
        (sums ** 2).sum() - (1 - 2 * predictions[rows, labels] + squares).sum()


def class_loss(points, residuals, scale):
    """The loss and its gradient."""
    n = len(points)
    total = 0.0
    gradient = np.zeros_like(points)
    for i in range(0, n, TILE):
        rows = points[i:i + TILE]
        for j in range(0, n, TILE):
            others = points[j:j + TILE]
            kernel = np.exp(cdist(rows, others, "cityblock") * -scale)
            if i == j:
                np.fill_diagonal(kernel, 0)
            terms = kernel * (residuals[i:i + TILE] @ residuals[j:j + TILE].T)
            total += terms.sum()
            gradient[i:i + TILE] -= kernel @ residuals[j:j + TILE]
            for k in range(points.shape[1]):
                signs = np.sign(rows[:, k, None] - others[None, :, k])
                gradient[i:i + TILE, k] -= scale * np.einsum("ij,ij->i", terms, signs)
    return total / (n * (n - 1)), gradient * 2 / (n * (n - 1))


def distribution_mmd(mean, sd, outcome, gamma, gamma_z):
    variance = sd ** 2
    inverse = 1 / (1 + 2 * gamma * variance)
    root = np.sqrt(inverse)
    n = len(mean)
    total = 0.0
    for i in range(0, n, TILE):
        a = np.s_[i:i + TILE, None]
        for j in range(i, n, TILE):
            b = np.s_[None, j:j + TILE]
            square = (mean[a] - mean[b]) ** 2
            of_both = 1 / (1 + 2 * gamma * (variance[a] + variance[b]))
            terms = np.exp(-gamma * (outcome[a] - outcome[b]) ** 2)
            terms += np.sqrt(of_both) * np.exp(-gamma * square * of_both)
            terms -= root[a] * np.exp(-gamma * inverse[a] * (mean[a] - outcome[b]) ** 2)
            terms -= root[b] * np.exp(-gamma * inverse[b] * (mean[b] - outcome[a]) ** 2)
            terms *= np.exp(-gamma_z * (square + (sd[a] - sd[b]) ** 2))
            total += (np.triu(terms, 1) if i == j else terms).sum()
    return 2 * total / (n * (n - 1))


def kernel_ridge_fit(points, residuals, tolerance=1e-12, max_rank=1024):
    n = len(points)
    factor = np.zeros((max_rank, n))
    left = np.ones(n)
    rank = 0
    while rank < max_rank and left.max() > tolerance:
        pivot = left.argmax()
        column = np.exp(-0.5 * ((points - points[pivot]) ** 2).sum(1))
        column -= factor[:rank, pivot] @ factor[:rank]
        factor[rank] = column / np.sqrt(left[pivot])
        left -= factor[rank] ** 2
        left[pivot] = 0
        rank += 1
    factor = factor[:rank]
    values, vectors = np.linalg.eigh(factor @ factor.T)
    keep = values > 1e-15 * values[-1]
    return (vectors[:, keep].T @ (factor @ residuals)) / np.sqrt(values[keep])[:, None]


def draw_classes(rng, n, m):
    """Predictions and their residuals."""
    predictions = rng.dirichlet([0.1] * m, n)
    labels = (predictions.cumsum(1) < rng.random((n, 1))).sum(1).clip(max=m - 1)
    residuals = -predictions
    residuals[np.arange(n), labels] += 1
    return predictions, residuals, labels


def best(call, repeats):
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def main():
    rng = np.random.default_rng(1)
    results = {}

    def measure(name, call, repeats=3):
        if name in sys.argv[1:] or not sys.argv[1:]:
            results[name] = best(call, repeats)

    for n, m in ((10000, 10), (10000, 100), (2000, 1000)):
        predictions, residuals, labels = draw_classes(rng, n, m)
        measure(f"n={n}/m={m}", lambda: skce_unbiased(predictions, residuals, 0.5 / BANDWIDTH))
        if (n, m) == (10000, 10):
            measure("kernel_ridge/n=8000/m=10",
                    lambda: kernel_ridge_fit(predictions[:8000], residuals[:8000]))
            measure("simulation/n=10000", lambda: simulation(predictions), repeats=1)
            top = predictions.max(1, keepdims=True)
            hit = (predictions.argmax(1) == labels)[:, None] - top
            measure("top_label/n=10000", lambda: skce_unbiased(top, hit, 1 / BANDWIDTH))
    for n, m in ((256, 10), (4096, 100)):
        predictions, residuals, _ = draw_classes(rng, n, m)
        measure(f"class_loss/n={n}/m={m}",
                lambda: class_loss(predictions, residuals, 0.5 / BANDWIDTH))
    n = 10000
    mean = rng.standard_normal(n)
    sd = np.exp(0.35 * rng.standard_normal(n))
    outcome = mean + sd * rng.standard_normal(n)
    measure("distribution_mmd/n=10000", lambda: distribution_mmd(mean, sd, outcome, 0.15, 0.3))
    print(json.dumps(results))


if __name__ == "__main__":
    main()
