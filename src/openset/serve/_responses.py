"""From the arrays of a request to the decisions of its answer."""

import io
import json
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic_core import to_json

from openset import _check
from openset._types import UNKNOWN, InvalidSamplesError
from openset.outputs import Outputs
from openset.rejector import Decisions, Invalid, Rejector
from openset.serve._body import BatchRequest
from openset.serve._errors import RequestError
from openset.serve._media import JSON, NPY
from openset.serve._model import ServedModel


@dataclass(frozen=True, eq=False)
class BatchAnswer:
    """Decisions of one batch, and the threshold: one for all samples or one each.

    `outputs` are the logits and features that the decisions are based on, of the
    samples that `has_outputs` marks: None if the network could run none of them.
    """

    decisions: Decisions
    threshold: float | NDArray[np.float64]
    outputs: Outputs | None
    has_outputs: NDArray[np.bool_]


class Decider:
    """Decides on batches: a rejector, with a network in front of it or without.

    Parameters
    ----------
    rejector
        Decides which samples are known.
    model
        The network that runs before it. Both are tried out with one synthetic batch.
    invalid
        What to do with samples without an answer, as in `Rejector.decide`.
    """

    def __init__(
        self,
        rejector: Rejector,
        model: ServedModel | None,
        invalid: Invalid = "error",
    ) -> None:
        self.rejector = rejector
        self.model = model
        self.invalid: Invalid = invalid
        self._names = _names(rejector, rejector.fitted.widths.get("n_classes") or 0)
        if model is not None:
            _check_outputs(rejector, model)
            _check_run(rejector, model)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the arrays a client may send."""
        if self.model is not None:
            return ("inputs",)
        # The one the detector needs comes first: a bare .npy is taken for it.
        needs = self.rejector.fitted.detector.score_needs
        return ("logits", "features") if "logits" in needs else ("features", "logits")

    @property
    def needs(self) -> tuple[str, ...]:
        """Names of the arrays a client must send."""
        return needs_of(self.rejector) if self.model is None else self.names

    @property
    def takes_images(self) -> bool:
        """Whether a client may send PNG and JPEG files."""
        return self.model is not None and bool(self.model.preprocessing)

    def names_of(self, labels: NDArray[np.int64]) -> NDArray[Any]:
        """Return the names of labels; -1 is "unknown"."""
        top = int(labels.max())
        if top + 1 >= self._names.size:
            self._names = _names(self.rejector, top + 1)
        return self._names[labels]

    def __call__(self, asked: BatchRequest) -> BatchAnswer:
        """Decide on a batch; raises `RequestError` if something is wrong with it."""
        try:
            outputs, has_outputs = self._outputs(asked)
            # Huge values overflow to NaN, which is refused with a message.
            with np.errstate(all="ignore"):
                decisions = self._decided(outputs, asked.threshold, has_outputs)
        except RequestError:
            raise
        except (ValueError, TypeError) as error:
            raise RequestError(422, str(error)) from error
        cut: float | NDArray[np.float64]
        if asked.threshold is not None:
            cut = asked.threshold
        else:
            cut = self.rejector.threshold.value
        return BatchAnswer(decisions, cut, outputs, has_outputs)

    def _decided(
        self,
        outputs: Outputs | None,
        threshold: float | None,
        has_outputs: NDArray[np.bool_],
    ) -> Decisions:
        """Decide; samples without outputs are invalid."""
        found = None
        if outputs is not None:
            found = self.rejector.decide(
                outputs, threshold=threshold, invalid=self.invalid
            )
            if has_outputs.all():
                return found
        n, sets = has_outputs.size, None
        if self.rejector.sets is not None:
            width = self.rejector.fitted.widths.get("n_classes") or 0
            sets = np.zeros((n, width), dtype=bool)
        made = Decisions(
            labels=np.full(n, UNKNOWN),
            predicted=np.full(n, UNKNOWN),
            known=np.full(n, np.nan),
            is_invalid=np.ones(n, dtype=bool),
            sets=sets,
        )
        if found is not None:
            for name, one in vars(found).items():
                if one is not None:
                    getattr(made, name)[has_outputs] = one
        return made

    def _outputs(self, asked: BatchRequest) -> tuple[Outputs | None, NDArray[np.bool_]]:
        """Return the outputs of a request, and which of its samples have some."""
        if self.model is None:
            # Bare arrays are taken for outputs as the rejector needs them; a file of
            # outputs says of which classes and inputs they are.
            outputs = Outputs(
                **asked.arrays,
                classes=asked.classes,
                input_step=asked.input_step or self.rejector.input_step,
                invalid="keep" if self.invalid == "reject" else "error",
            )
            return outputs, np.ones(len(outputs), dtype=bool)
        samples = asked.images or asked.arrays["inputs"]
        run: Any = self.model.outputs_of_images if asked.images else self.model
        if self.invalid == "error":
            outputs = run(samples)
            return outputs, np.ones(len(outputs), dtype=bool)
        is_valid = np.ones(len(samples), dtype=bool)
        if asked.images:  # None stands for a file that is no image
            is_valid[:] = [one is not None for one in samples]
        while is_valid.any():
            try:
                return self.model.run_some(run, samples, is_valid), is_valid
            except InvalidSamplesError as error:
                if not error.rows:
                    raise
                is_valid[np.flatnonzero(is_valid)[list(error.rows)]] = False
        return None, is_valid

    def written(self, one: BatchAnswer, kind: str) -> bytes:
        """Write an answer as JSON, ``.npy`` (decisions alone) or ``.npz``."""
        if kind == JSON:
            return self._to_json(one)
        stream = io.BytesIO()
        if kind == NPY:
            np.save(stream, one.decisions.labels)
        else:
            arrays: dict[str, Any] = {
                "decisions": one.decisions.labels,
                "predicted": one.decisions.predicted,
                "known": one.decisions.known,
                "threshold": np.asarray(one.threshold),
            }
            if self.invalid == "reject":
                arrays["invalid"] = one.decisions.is_invalid
            if one.decisions.sets is not None:
                arrays["sets"] = one.decisions.sets
            np.savez(stream, **arrays)
        return stream.getvalue()

    def _to_json(self, one: BatchAnswer) -> bytes:
        """Write an answer; floats read back to the same bits."""
        labels = one.decisions.labels
        document: dict[str, Any] = {
            "decisions": labels.tolist(),
            "names": self.names_of(labels).tolist(),
            "predicted": one.decisions.predicted.tolist(),
            "known": plain(one.decisions.known),
            "threshold": plain(one.threshold),
            "n_unknown": one.decisions.n_rejected,
        }
        if self.invalid == "reject":
            document["invalid"] = one.decisions.is_invalid.tolist()
            document["n_invalid"] = one.decisions.n_invalid
        if one.decisions.sets is not None:
            document["sets"] = one.decisions.set_classes
        return as_json(document)


def _names(rejector: Rejector, n_classes: int) -> NDArray[Any]:
    """Return class names by label; index -1, the last one, is "unknown"."""
    n_classes = max(n_classes, len(rejector.classes))
    labels = (*range(n_classes), UNKNOWN)
    return np.array([rejector.name_of(label) for label in labels], dtype=object)


def as_json(document: Any) -> bytes:
    """Write JSON; floats read back to the same bits."""
    try:
        return to_json(document)  # writes numbers twenty times as fast as json does
    except ValueError:  # half of a surrogate pair, which only json can write
        return json.dumps(document, separators=(",", ":")).encode()


def plain(values: Any) -> Any:
    """Return floats for JSON: infinities are the strings "inf" and "-inf", NaN null."""
    values = np.asarray(values)
    is_finite = np.isfinite(values)
    if is_finite.all():
        return values.tolist()
    found: NDArray[Any] = np.where(is_finite, values.astype(object), values.astype(str))
    found[np.isnan(values)] = None
    return found.tolist()


def needs_of(rejector: Rejector) -> tuple[str, ...]:
    """Return the outputs a decision is made from."""
    detector = rejector.fitted.detector
    if detector.predicts_classes and rejector.sets is None:
        return detector.score_needs
    # Logits even for detectors that do not use them: the class is their argmax, and
    # prediction sets are made from them.
    return tuple(dict.fromkeys(("logits", *detector.score_needs)))


def _check_outputs(rejector: Rejector, model: ServedModel) -> None:
    """Refuse a model that lacks an output the rejector needs."""
    needs = needs_of(rejector)
    if not {*needs} <= {*model.gives}:
        wanted = " and ".join(needs)
        msg = _check.must(
            f"a network with the outputs {wanted}, which "
            f"{rejector.fitted.detector.name} needs",
            caller="openset.serve.app",
            name="model",
            got=f"one with {' and '.join(model.gives) or 'none of them'}",
            remedy=f"Export it with outputs called {wanted}, or calibrate a detector "
            f"that needs no more than it gives (see openset detectors)",
        )
        raise ValueError(msg)


def _check_run(rejector: Rejector, model: ServedModel) -> None:
    """Decide on a made-up batch: a network that cannot work is refused here."""
    found = model.try_out()
    if found is None:
        return
    widths = {"n_classes": found.logits, "n_features": found.features}
    got = {key: None if a is None else a.shape[1] for key, a in widths.items()}
    rejector.check_network("openset.serve.app", "model", **got)
    with np.errstate(all="ignore"):
        rejector.decide(found)
