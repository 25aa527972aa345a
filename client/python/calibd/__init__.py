"""Client of calibd, which tells whether predicted probabilities can be trusted.

    import calibd
    with calibd.Client().stream("digits", classes=10) as stream:
        stream.send(classifier.predict_proba(X), y)
    print(calibd.Client().calibration("digits"))

The messages of the protocol are in calibd.v1.
"""
from calibd.aio import AsyncClient, AsyncStream
from calibd.client import Client, escape_id
from calibd.errors import (Aborted, AlreadyExists, CalibdError, Cancelled, DataLoss, DeadlineExceeded,
                           FailedPrecondition, FieldError, Internal, InvalidArgument, NotFound,
                           OutOfRange, PermissionDenied, ResourceExhausted, Unauthenticated,
                           Unavailable, Unimplemented, Unknown)
from calibd.monitor import Monitor
from calibd.recalibration import load_map, transform
from calibd.results import (Calibration, Comparison, Estimate, Evaluation, History, Recalibration,
                            TestResult, Verdicts)
from calibd.stream import ObservationStream
from calibd.window import RejectedBatch, StreamCounts

__all__ = [
    "Aborted", "AlreadyExists", "AsyncClient", "AsyncStream", "CalibdError", "Calibration",
    "Cancelled", "Client", "Comparison", "DataLoss", "DeadlineExceeded", "Estimate", "Evaluation",
    "FailedPrecondition", "FieldError", "History", "Internal", "InvalidArgument", "Monitor",
    "NotFound", "ObservationStream", "OutOfRange", "PermissionDenied", "Recalibration",
    "RejectedBatch", "ResourceExhausted", "StreamCounts", "TestResult", "Unauthenticated",
    "Unavailable", "Unimplemented", "Unknown", "Verdicts", "escape_id", "load_map", "transform"]
