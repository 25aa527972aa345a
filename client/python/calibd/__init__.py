"""Client of calibd, which tells whether predicted probabilities can be trusted.

    import calibd
    with calibd.Client().stream("digits", classes=10) as stream:
        stream.send(classifier.predict_proba(X), y)
    print(calibd.Client().calibration("digits"))

The messages of the protocol are in calibd.v1.
"""
from calibd.aio import AsyncClient, AsyncStream
from calibd.arguments import escape_id
from calibd.client import Client
from calibd.errors import (Aborted, AlreadyExists, CalibdError, Cancelled, DataLoss, DeadlineExceeded,
                           FailedPrecondition, FieldError, Internal, InvalidArgument, NotFound,
                           OutOfRange, PermissionDenied, ResourceExhausted, Unauthenticated,
                           Unavailable, Unimplemented, Unknown)
from calibd.monitor import Monitor
from calibd.offline import (Recalibrator, assert_within_limit, compare, estimate, evaluate,
                            evaluate_forecasts, evaluate_labels, loss, recalibrate,
                            recalibrate_forecasts)
from calibd.recalibration import load_map, transform
from calibd.report_file import report
from calibd.results import (Calibration, Comparison, Estimate, Evaluation, History, LabelEvaluation,
                            Recalibration, Status, TestResult, Verdicts)
from calibd.stream import ObservationStream
from calibd.tls import Tls
from calibd.window import RejectedBatch, StreamCounts

__version__ = "0.1.0"

__all__ = [
    "Aborted", "AlreadyExists", "AsyncClient", "AsyncStream", "CalibdError", "Calibration",
    "Cancelled", "Client", "Comparison", "DataLoss", "DeadlineExceeded", "Estimate", "Evaluation",
    "FailedPrecondition", "FieldError", "History", "Internal", "InvalidArgument", "LabelEvaluation",
    "Monitor", "NotFound", "ObservationStream", "OutOfRange", "PermissionDenied", "Recalibration",
    "Recalibrator", "RejectedBatch", "ResourceExhausted", "Status", "StreamCounts", "TestResult", "Tls",
    "Unauthenticated", "Unavailable", "Unimplemented", "Unknown", "Verdicts", "assert_within_limit",
    "compare", "escape_id", "estimate", "evaluate", "evaluate_forecasts", "evaluate_labels",
    "load_map", "loss", "recalibrate", "recalibrate_forecasts", "report", "transform"]
