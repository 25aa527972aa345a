# The extension module that CMake's target calibd_python_native builds from client/python/native.
#
# Each function returns the code of a gRPC status, the message of the error, and a serialized message of the
# protocol, and some of them more. Arrays are in C order.
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

_Doubles = npt.NDArray[np.float64]
_Labels = npt.NDArray[np.int32]
_Progress = Callable[[float], None] | None
_Answer = tuple[int, str, bytes]

def evaluate(
    probabilities: _Doubles, labels: _Labels, class_count: int, class_names: Sequence[str], request: bytes,
    bandwidth: float | None, groups: Sequence[str], features: _Doubles, error_limit: float,
    significance_level: float, threads: int, on_progress: _Progress, /) -> _Answer: ...
def estimate(
    probabilities: _Doubles, labels: _Labels, class_count: int, class_names: Sequence[str], request: bytes, threads: int,
    on_progress: _Progress, /) -> _Answer: ...
def recalibrate(
    probabilities: _Doubles, labels: _Labels, class_count: int, class_names: Sequence[str], threads: int,
    on_progress: _Progress, /) -> _Answer: ...
def compare(
    model: _Doubles, baseline: _Doubles, labels: _Labels, class_count: int, /) -> _Answer: ...
def evaluate_forecasts(
    kind: str, levels: Sequence[float], forecasts: _Doubles, outcomes: _Doubles, request: bytes,
    groups: _Labels, features: _Doubles, feature_names: Sequence[str],
    local_features: Sequence[int], error_limit: float, significance_level: float, threads: int,
    on_progress: _Progress, /) -> _Answer: ...
def recalibrate_forecasts(
    kind: str, levels: Sequence[float], forecasts: _Doubles, outcomes: _Doubles,
    on_progress: _Progress, /) -> _Answer: ...
def evaluate_labels(
    probabilities: _Doubles, truths: npt.NDArray[np.int8], names: Sequence[str],
    error_limit: float, significance_level: float, /) -> tuple[int, str, bytes, str, int]: ...
def loss(
    kind: str, values: _Doubles, width: int, labels: _Labels, outcomes: _Doubles, request: bytes,
    threads: int, /) -> tuple[int, str, bytes, _Doubles]: ...
