"""Declares a model, sends labelled predictions and reads the running estimate.

    send_predictions.py [HOST:PORT]

Plain gRPC with stubs generated from proto/ (see README.md).
"""
import sys

import grpc

from calibd.v1 import calibration_service_pb2 as calibration
from calibd.v1 import calibration_service_pb2_grpc as calibration_grpc
from calibd.v1 import ingest_service_pb2 as ingest
from calibd.v1 import ingest_service_pb2_grpc as ingest_grpc
from calibd.v1 import kernel_pb2 as kernels
from calibd.v1 import model_service_pb2 as models
from calibd.v1 import model_service_pb2_grpc as models_grpc

# Four predictions, one row each: the probabilities of the three classes.
PREDICTIONS = [[0.7, 0.2, 0.1],
               [0.1, 0.8, 0.1],
               [0.3, 0.3, 0.4],
               [0.9, 0.1, 0.0]]
# What came true, counted from 0.
LABELS = [0, 1, 0, 0]


def send_predictions(address):
    with grpc.insecure_channel(address) as channel:
        model = models.Model(name="models/weather-python", class_count=3,
                             bandwidth=kernels.BandwidthRule(fixed=0.2))
        models_grpc.ModelServiceStub(channel).CreateModel(
            models.CreateModelRequest(model=model), timeout=10)

        answer = ingest_grpc.IngestServiceStub(channel).Observe(
            ingest.ObserveRequest(
                model=model.name,
                observations=ingest.Observations(
                    probabilities=ingest.DoubleValues(
                        values=[p for row in PREDICTIONS for p in row]),
                    labels=LABELS),
                # Number the batches 1, 2, 3, ...: a repeated call is then counted once.
                producer=ingest.ObserveRequest.Producer(
                    producer_id="weather-station", epoch=0, sequence=1)),
            timeout=10)
        print(f"accepted rows: {answer.accepted_rows}, counted before: {answer.duplicate_rows}")

        known = calibration_grpc.CalibrationServiceStub(channel).GetCalibration(
            calibration.GetCalibrationRequest(model=model.name), timeout=10)
        for estimate in known.estimates:
            if estimate.HasField("skce"):
                print(f"SKCE (blocks of {estimate.block_size}): {estimate.skce}")


if __name__ == "__main__":
    try:
        send_predictions(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:8460")
    except grpc.RpcError as error:
        sys.exit(f"{error.code().name}: {error.details()}")
