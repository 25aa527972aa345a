"""The calls of a client by which the server computes something from the newest observations."""
from __future__ import annotations

from collections.abc import Sequence

from calibd import choices, results
from calibd.arguments import choose, expect, message, model_name
from calibd.arrays import POSITIVE_CLASS
from calibd.choices import Estimator, EstimateLens, Lens, Null, OnProgress
from calibd.observation import classes_of
from calibd.transport import Transport
from calibd.v1 import calibration_service_pb2 as service
from calibd.v1 import model_service_pb2 as models

LONG_TIMEOUT = 600.0


class Computations:
    """The computations of a Client, which has a transport and declarations.

    on_progress is called on the calling thread, with the completed fraction, and with 1 at the end.
    """

    _transport: Transport

    def get_model(self, model: str) -> models.Model:
        """The declaration of a model."""
        raise NotImplementedError

    def run_test(self, model: str, *, lens: Lens | None = None, null: Null | None = None,
                 replicates: int | None = None, seed: int | None = None, window: int = 0,
                 on_progress: OnProgress | None = None,
                 timeout: float = LONG_TIMEOUT) -> results.TestResult:
        """The quadratic test on the newest `window` observations (0: all of the window).

        lens: none for a model that forecasts a number. null: the default is "forecast".
        "pearson" takes no replicates: its p-value is that of a Pearson curve."""
        name = model_name(model)
        request = message(service.RunTestRequest, model=name, replicates=replicates, seed=seed,
                          window=window, lens=choices.lens(lens),
                          null=choose("null", null, choices.NULLS))
        return results.TestResult(name, self._transport.long(
            "CalibrationService/RunTest", request, service.RunTestResponse, "result",
            on_progress, timeout).result)

    def evaluate(self, model: str, *, lenses: Sequence[Lens] = (), null: Null | None = None,
                 replicates: int | None = None, consistency_replicates: int | None = None,
                 test_rows: int = 0, seed: int | None = None, window: int = 0,
                 local_features: Sequence[str] = (),
                 reliability_classes: Sequence[int] | None = None,
                 settings: service.EvaluateRequest | None = None,
                 on_progress: OnProgress | None = None,
                 timeout: float = LONG_TIMEOUT) -> results.Evaluation:
        """The complete evaluation of the window, with reliability diagrams.

        replicates: of the tests of the lenses, or of forecasts; 0: none. consistency_replicates: of
        the test of the first binned error of a model of classes; None: 999; 0: no test.
        test_rows: the number of rows that the tests and the estimates over pairs use, drawn at random
        if the window has more; 0: 10000. For forecasts: those of tests, discrepancies and local error.
        reliability_classes: classes that get a diagram besides the top label; None: for two classes,
        class 1. local_features: some of the features of a model that forecasts a number; says where
        it is wrong by these alone. settings: all further fields of the request.
        """
        name = model_name(model)
        request = service.EvaluateRequest()
        if settings is not None:
            expect("settings", settings, service.EvaluateRequest, "a message EvaluateRequest")
            request.CopyFrom(settings)
        declared_model = self.get_model(name)
        if reliability_classes is None and not request.reliability_classes and (
                declared_model.classes.count == 2):
            reliability_classes = [POSITIVE_CLASS]
        request.MergeFrom(message(
            service.EvaluateRequest, model=name, replicates=replicates,
            consistency_replicates=consistency_replicates, test_rows=test_rows, seed=seed,
            window=window, null=choose("null", null, choices.NULLS), lenses=choices.lenses(lenses),
            reliability_classes=reliability_classes, local_features=local_features))
        if declared_model.HasField("classes") and not request.reliability_only:
            # calibctl evaluate has these two tests by default.
            if consistency_replicates is None and not request.consistency_replicates:
                request.consistency_replicates = choices.CONSISTENCY_REPLICATES
            request.cme_test_locations = request.cme_test_locations or choices.CME_LOCATIONS
        return results.Evaluation(name, self._transport.long(
            "CalibrationService/Evaluate", request, service.EvaluateResponse, "evaluation",
            on_progress, timeout).evaluation)

    def estimate(self, model: str, *, lens: EstimateLens = "top_label",
                 estimators: Sequence[Estimator] = (),
                 folds: int | None = None, test_share: float | None = None, replicates: int = 0,
                 seed: int | None = None, window: int = 0, on_progress: OnProgress | None = None,
                 timeout: float = LONG_TIMEOUT) -> results.Estimate:
        """How large the calibration error of the window is, and which estimator suits the data.

        lens: "top_label", the largest probability; "canonical", the whole vector; "class_wise", the
          mean over the classes; or a message Lens with one_class.
        replicates: of a calibrated model, for a p-value and the noise floor; 0: none.
        estimators: empty: all that suit the lens.
        """
        name = model_name(model)
        request = message(
            service.EstimateCalibrationErrorRequest, model=name, lens=choices.estimate_lens(lens),
            folds=folds,
            estimators=choices.estimators(estimators), test_share=test_share, replicates=replicates,
            seed=seed, window=window)
        return results.Estimate(name, self._transport.long(
            "CalibrationService/EstimateCalibrationError", request,
            service.EstimateCalibrationErrorResponse, "result", on_progress, timeout).result)

    def compare(self, model: str, baseline: str, *, window: int = 0,
                on_progress: OnProgress | None = None,
                timeout: float = LONG_TIMEOUT) -> results.Comparison:
        """Whether `model` is better than `baseline`, by the newest `window` observations of both."""
        name = model_name(model)
        other = model_name(baseline, "baseline")
        return results.Comparison(name, other, self._transport.long(
            "CalibrationService/CompareModels",
            message(service.CompareModelsRequest, model=name, baseline=other, window=window),
            service.CompareModelsResponse, "comparison", on_progress, timeout).comparison)

    def recalibrate(self, model: str, *, window: int = 0, on_progress: OnProgress | None = None,
                    timeout: float = LONG_TIMEOUT) -> results.Recalibration:
        """A map that makes the predictions better calibrated, and what it gains."""
        name = model_name(model)
        classes = classes_of(self.get_model(name))
        return results.Recalibration(name, self._transport.long(
            "CalibrationService/Recalibrate",
            message(service.RecalibrateRequest, model=name, window=window),
            service.RecalibrateResponse, "recalibration", on_progress, timeout).recalibration, classes)
