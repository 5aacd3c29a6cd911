"""From arrays, images or texts to decisions."""

import json
import threading
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openset._version import __version__
from openset.outputs import Outputs
from openset.rejector import Decisions, Invalid, Rejector, need_rejector
from openset.serve.arrays import RequestError, need_texts, refuse
from openset.serve.metrics import Metrics
from openset.serve.traffic import Traffic


class Decider:
    """A rejector, with a network in front of it or without, and its traffic log."""

    def __init__(
        self,
        rejector: Rejector,
        network: Any = None,
        invalid: Invalid = "error",
        traffic: Traffic | None = None,
    ) -> None:
        need_rejector("openset.serve.app", rejector)
        self.metrics = Metrics()
        self.rejector, self.network, self.traffic = rejector, network, traffic
        self.invalid: Invalid = invalid
        self._keep: Any = "keep" if invalid == "reject" else "error"
        self._step: dict[str, Any] = {}
        self._lock = threading.Lock()  # networks run one batch after another
        if network is None:
            return
        if rejector.input_step:
            from openset.extract import Odin  # noqa: PLC0415  # needs torch

            self._step = {"step": Odin.of(rejector.input_step)}
        if network.kind != "table":  # how wide its rows are, requests will show
            rejector.decide(self._run([network.blank]), invalid="reject")

    def names_of(self, labels: NDArray[np.int64]) -> NDArray[Any]:
        """Return the names of labels; -1 is "unknown"."""
        found, place = np.unique(labels, return_inverse=True)
        names = [self.rejector.name_of(label) for label in found.tolist()]
        return np.array(names, dtype=object)[place]

    def outputs_of(self, given: Mapping[str, Any]) -> Outputs:
        """Return outputs of what a client sent: its arrays, or those of the network."""
        wanted = ["inputs"] if self.network is not None else ["logits", "features"]
        arrays = {name: given[name] for name in wanted if name in given}
        if not arrays or ("inputs" in given and self.network is None):
            got = ", ".join(given) or "nothing"
            refuse(422, "the request", f"one with {' or '.join(wanted)}", got)
        if self.network is not None:
            return self._run(given["inputs"])
        shape: tuple[int, ...] = getattr(arrays.get("logits"), "shape", ())
        need_texts(given, shape[1] if len(shape) == 2 else None)
        step = str(given.get("input_step", "")) or self.rejector.input_step
        classes = [str(one) for one in given.get("classes", ())]
        # Bare arrays are taken for outputs as the rejector needs them.
        return Outputs(**arrays, classes=classes, input_step=step, invalid=self._keep)

    def _run(self, inputs: Any) -> Outputs:
        options: dict[str, Any] = {"progress": False, "invalid": self._keep}
        with self._lock:
            found: Outputs = self.network.apply(inputs, **options, **self._step)
        return found

    def decide(
        self, given: Mapping[str, Any], threshold: float | str | None, ids: Any = None
    ) -> tuple[Decisions, float]:
        """Decide on what a client sent, count and log it; also say the threshold.

        That is the calibrated one, if the client gave none.
        """
        cut = None if threshold is None else float(threshold)
        try:
            with np.errstate(all="ignore"):  # NaN by overflow is refused in words
                outputs = self.outputs_of(given)
                ids = given.get("ids", ids)
                if ids is not None and len(ids) != len(outputs):
                    refuse(422, "ids", f"one for each of {len(outputs)}", len(ids))
                decided = self.rejector.decide(
                    outputs, threshold=cut, invalid=self.invalid
                )
        except RequestError:
            raise
        # Runtimes of networks raise classes of their own, without a common base.
        except Exception as error:
            if self.network is None and not isinstance(error, ValueError | TypeError):
                raise
            raise RequestError(str(error)[:1000]) from error
        self.metrics.samples(decided)
        if self.traffic is not None:
            self.traffic.add(outputs, ids)
        calibrated = float(self.rejector.threshold.value)
        return decided, calibrated if cut is None else cut

    def about(self) -> dict[str, Any]:
        """Return what a client, or the page, wants to know."""
        rejector, network = self.rejector, self.network
        detector = rejector.fitted.detector
        needs = tuple(dict.fromkeys(("logits", *detector.score_needs)))
        if detector.predicts_classes and rejector.sets is None:
            needs = detector.score_needs
        return {
            "version": __version__,
            "detector": detector.name,
            "params": json.loads(json.dumps(detector.params(), default=str)),
            "threshold": str(rejector.threshold),
            "threshold_value": plain(rejector.threshold.value),
            "classes": list(rejector.classes),
            "needs": list(needs) if network is None else ["inputs"],
            "takes": "outputs" if network is None else network.kind,
            "preprocessing": "" if network is None else network.preprocessing,
            "widths": dict(rejector.fitted.widths),
            "sets": None if rejector.sets is None else str(rejector.sets),
            "calibration": str(rejector.report).splitlines(),
            "cautions": [str(one) for one in rejector.cautions],
        }


def plain(values: Any) -> Any:
    """Return floats for JSON: infinities are the strings "inf" and "-inf", NaN null."""
    values = np.asarray(values)
    is_finite = np.isfinite(values)
    if is_finite.all():
        return values.tolist()
    found: NDArray[Any] = np.where(is_finite, values.astype(object), values.astype(str))
    found[np.isnan(values)] = None
    return found.tolist()
