"""Declares a model, sends labelled predictions and prints its calibration.

    send_predictions.py [HOST:PORT]
"""
import sys

import numpy as np

import calibd

# Four predictions, one row each: the probabilities of the three classes.
PREDICTIONS = np.array([[0.7, 0.2, 0.1],
                        [0.1, 0.8, 0.1],
                        [0.3, 0.3, 0.4],
                        [0.9, 0.1, 0.0]])
# The true classes, counted from 0.
LABELS = [0, 1, 0, 0]


def send_predictions(address):
    client = calibd.Client(address)
    client.create_model("weather-python", classes=3, bandwidth=0.2)
    # A repeated run with the same key and the same rows counts them once.
    with client.stream("weather-python", idempotency_key="2026-11-23") as stream:
        stream.send(PREDICTIONS, LABELS)
    counts = stream.counts
    print(f"accepted rows: {counts.accepted_rows}, counted before: {counts.duplicate_rows}")
    print(client.calibration("weather-python"))


if __name__ == "__main__":
    try:
        send_predictions(sys.argv[1] if len(sys.argv) > 1 else None)
    except calibd.CalibdError as error:
        sys.exit(str(error))
