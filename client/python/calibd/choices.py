"""Names of a caller for parts of a request: lenses, estimators and null hypotheses."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, Union

from calibd import arguments, errors
from calibd.arguments import choose, shown
from calibd.v1 import calibration_service_pb2 as service
from calibd.v1 import evaluation_pb2 as evaluation
from calibd.v1 import kernel_pb2 as kernel

OnProgress = Callable[[float], None]
Lens = Union[kernel.Lens, Literal["canonical", "top_label", "class_wise"]]
EstimateLens = Union[kernel.Lens, Literal["canonical", "top_label", "class_wise"]]
Null = Literal["form", "forecast", "pearson"]
# An int is an EstimatorOutcome.Estimator of the protocol.
Estimator = Union[int, Literal["fifteen_bins", "bins", "kernel_density", "product_ridge",
                               "function_ridge", "debiased_bins"]]

# The tests of an evaluation of classes, as calibctl evaluate has them.
CONSISTENCY_REPLICATES = 999
CME_LOCATIONS = 10

NULLS = {None: evaluation.QuadraticTestResult.UNSPECIFIED, "form": evaluation.QuadraticTestResult.FORM,
         "forecast": evaluation.QuadraticTestResult.FORECAST,
         "pearson": evaluation.QuadraticTestResult.PEARSON}
_LENSES = {"canonical": kernel.Lens(canonical=kernel.Lens.Canonical()),
           "top_label": kernel.Lens(top_label=kernel.Lens.TopLabel()),
           "class_wise": kernel.Lens(class_wise=kernel.Lens.ClassWise())}
_ESTIMATORS = {name.lower(): number
               for name, number in service.EstimatorOutcome.Estimator.items() if number}


def lens(name: Lens | None) -> kernel.Lens | None:
    """The lens of a name."""
    return choose("lens", name, _LENSES) if isinstance(name, str) else name


def estimate_lens(name: Any) -> kernel.Lens:
    """The lens of an estimate."""
    kinds = ("canonical", "top_label", "class_wise", "one_class")
    if isinstance(name, kernel.Lens) and name.WhichOneof("kind") in kinds:
        return name
    if isinstance(name, str) and name in kinds[:3]:
        return _LENSES[name]
    raise errors.invalid("lens", f"is {shown(name)}, expected canonical, top_label, "
                         "class_wise, or a message Lens with one_class")


def lenses(names: Any) -> list[Any]:
    """The lenses of a list of names."""
    return [lens(name) for name in arguments.listed("lenses", names, "expected a list of lenses")]


def estimators(names: Any) -> list[Any]:
    """The estimators of a list of names."""
    expected = f"expected a list of {', '.join(_ESTIMATORS)}"
    return [choose("estimators", one, _ESTIMATORS) if isinstance(one, str) else one
            for one in arguments.listed("estimators", names, expected)]
