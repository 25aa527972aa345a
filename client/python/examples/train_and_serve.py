"""Trains a classifier of digits and serves it beside a recalibrated version of itself.

    train_and_serve.py [HOST:PORT]

The labels arrive later. Needs scikit-learn, whose digits are used.
"""
import sys

import numpy as np
from sklearn.datasets import load_digits
from sklearn.naive_bayes import GaussianNB

import calibd

PLAIN, RECALIBRATED = "handwriting", "handwriting@recalibrated"
TRAINING_IMAGES = 300
# The plain model is served alone to so many images; then the recalibration is fitted.
ALONE = 700
ROUND = 100
# A real service would wait for days.
LABEL_GRACE = "5s"


def wait_for(client, model, observations):
    """Returns the calibration once that many labelled predictions are counted."""
    return next(answer for answer in client.watch(model, min_interval=0.1)
                if answer.observations >= observations)


def train_and_serve(address):
    images, digits = load_digits(return_X_y=True)
    order = np.random.default_rng(1).permutation(len(digits))
    images, digits = images[order], digits[order]
    # The smoothing suits the pixels, which are whole numbers from 0 to 16.
    classifier = GaussianNB(var_smoothing=0.01).fit(images[:TRAINING_IMAGES],
                                                    digits[:TRAINING_IMAGES])
    images, digits = images[TRAINING_IMAGES:], digits[TRAINING_IMAGES:]

    client = calibd.Client(address)
    for model in (PLAIN, RECALIBRATED):
        client.create_model(model, classifier.classes_, label_grace=LABEL_GRACE, error_limit=0.05)
    recalibration = None
    for start in range(0, len(digits), ROUND):
        if start == ALONE:
            wait_for(client, PLAIN, ALONE)
            recalibration = client.recalibrate(PLAIN)
            print(recalibration)
        rows = slice(start, min(start + ROUND, len(digits)))
        ids = [f"image-{i}" for i in range(rows.start, rows.stop)]
        probabilities = {PLAIN: classifier.predict_proba(images[rows])}
        if recalibration is not None:
            probabilities[RECALIBRATED] = recalibration.transform(probabilities[PLAIN])
        for model, predictions in probabilities.items():
            with client.stream(model) as stream:
                stream.send(predictions, ids=ids)
        # Someone has looked at the images of this round.
        for model in probabilities:
            with client.stream(model) as stream:
                stream.label(ids, digits[rows])

    for model, observations in ((PLAIN, len(digits)), (RECALIBRATED, len(digits) - ALONE)):
        print(wait_for(client, model, observations))


if __name__ == "__main__":
    try:
        train_and_serve(sys.argv[1] if len(sys.argv) > 1 else None)
    except calibd.CalibdError as error:
        sys.exit(str(error))
