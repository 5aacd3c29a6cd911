"""`OpenSetModule`: a network that returns -1 for unknown samples."""

import threading
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple, Self

from openset import _check
from openset._optional import needs
from openset._types import UNKNOWN, InvalidSamplesError
from openset.detectors import Batch, Detector, Fitted
from openset.extract import head as heads
from openset.outputs import Outputs, is_undetermined, replaced
from openset.rejector import Rejector, need_rejector

with needs("torch"):
    import torch
    from torch import Tensor, nn

__all__ = ["OpenSetModule", "OpenSetResult"]

_CALLER = "OpenSetModule"


class OpenSetResult(NamedTuple):
    """Result of an `OpenSetModule`, one row per sample."""

    classes: Tensor
    """Class, or -1 for unknown, shape (n,)."""
    known: Tensor
    """Knownness, larger = more known, shape (n,)."""
    logits: Tensor
    """Output of the last layer, shape (n, C)."""


class OpenSetModule(nn.Module):
    """A classifier and its rejector as one module.

    The input of the last linear layer is used as features, its output as logits; the
    return value of the model is not used. It runs without gradients.

    The rejector's arrays are buffers: they move with ``.to(device)`` and are saved in
    the state dict; ``.half()`` does not change them. ``torch.compile`` compiles the
    network but not the score, which is fast in comparison.

    Parameters
    ----------
    model
        The classifier whose outputs the rejector was calibrated on.
    rejector
        A calibrated rejector.
    head
        The last linear layer, or its name. By default the only linear layer that has as
        many inputs and outputs as the rejector has features and classes.
    example
        Inputs to find the layer with, if its size is not unique: the model runs once,
        and the layer whose output is the model's output is the head.

    Examples
    --------
    >>> from openset import detectors
    >>> logits = [[4.0, 0.0], [0.0, 4.0], [0.5, 0.0]]
    >>> known = Outputs(logits=logits[:2], labels=[0, 1])
    >>> rejector = Rejector.calibrate(
    ...     detectors.MSP().fit(known), known=known,
    ...     surrogate=Outputs(logits=logits[2:], labels=[-1]))
    >>> model = nn.Linear(2, 2)
    >>> _ = model.load_state_dict({"weight": torch.eye(2), "bias": torch.zeros(2)})
    >>> OpenSetModule(model, rejector)(torch.tensor(logits)).classes
    tensor([ 0,  1, -1])
    """

    def __init__(
        self,
        model: nn.Module,
        rejector: Rejector,
        head: str | nn.Module | None = None,
        *,
        example: Any = None,
    ) -> None:
        super().__init__()
        heads.linears(_CALLER, model)  # raises for what is no module
        for tensor in model.parameters():
            _need_float64(tensor.device)
        need_rejector(_CALLER, rejector)
        detector = rejector.fitted.detector
        if rejector.input_step:
            msg = _check.must(
                "one for inputs as they are",
                caller=_CALLER,
                name="rejector",
                got=f"one whose inputs are perturbed by {rejector.input_step}",
                remedy="Extract outputs with that step, and decide on them with "
                "Rejector.predict; or serve both: openset serve --model",
            )
            raise ValueError(msg)
        if getattr(detector, "backend", None) == "faiss":
            rule, got = "one that runs on torch", "a detector with backend='faiss'"
            msg = _check.must(rule, caller=_CALLER, name="rejector", got=got)
            raise ValueError(msg)
        widths = rejector.fitted.widths
        if head is not None:
            found = heads.named(_CALLER, model, head)
        elif example is not None:
            found = heads.found(_CALLER, model, lambda: model(example))
        else:
            found = heads.of_size(_CALLER, model, **widths)
        rejector.check_network(
            _CALLER,
            f"head {found.name!r}",
            n_classes=found.layer.out_features,
            n_features=found.layer.in_features,
        )
        self.model = model
        self.head = found.name
        self.classes = rejector.classes
        self.score = _Score(detector, rejector, found.layer.weight)
        self._head = [found]  # in a list: not a second submodule
        self._recorder = _Recorder()
        # A network that is already compiled is not traced together with this module.
        alone = any(hasattr(part, "_orig_mod") for part in model.modules())
        hook = self._recorder.record_uncompiled if alone else self._recorder.record
        # The hook must not keep this module alive when it is no longer used.
        weakref.finalize(self, found.layer.register_forward_hook(hook).remove)

    @torch.no_grad()
    def forward(self, *args: Any, **kwargs: Any) -> OpenSetResult:
        """Run the model on its own arguments; return classes, knownness and logits.

        An invalid sample (NaN in its logits or features, or several logits of +inf) has
        knownness NaN and class -1; so has one whose knownness is NaN.
        """
        thread = _thread()
        self._recorder.recorded[thread] = []
        try:
            self.model(*args, **kwargs)
        finally:
            recorded = self._recorder.recorded.pop(thread)
        features, logits = heads.only_call(_CALLER, self._head[0], recorded)
        classes, known = self.score(logits, features)
        return OpenSetResult(classes=classes, known=known, logits=logits)


class _Recorder:
    """Inputs and outputs of the last layer, recorded per thread."""

    def __init__(self) -> None:
        self.recorded: dict[int, list[tuple[Tensor, Tensor]]] = {}

    def record(
        self, _module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor
    ) -> None:
        # Nothing is recorded if the model is run on its own.
        recorded = self.recorded.get(_thread())
        if recorded is not None:
            recorded.append((inputs[0], output))

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def record_uncompiled(
        self, module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor
    ) -> None:
        self.record(module, inputs, output)


class _Score(nn.Module):
    """Detector and threshold, with their arrays as buffers."""

    threshold: Tensor

    def __init__(self, detector: Detector, rejector: Rejector, like: Tensor) -> None:
        super().__init__()
        self._detector = detector
        dtype = torch.float64 if like.dtype == torch.float64 else torch.float32
        fitted = rejector.fitted.to(torch.empty(0, device=like.device))
        self._names = list(fitted.state)
        for name, array in fitted.prepared(dtype).items():
            self.register_buffer(_buffer(name), array)
        limit = torch.tensor(rejector.threshold.value, dtype=torch.float64)
        self.register_buffer("threshold", limit.to(like.device))

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def forward(self, logits: Tensor, features: Tensor) -> tuple[Tensor, Tensor]:
        """Return classes (or -1) and knownness."""
        # Not checked: samples with NaN are unknown.
        empty = object.__new__(Outputs)
        batch = Batch(replaced(empty, logits=logits, features=features))
        if logits.shape[0] == 0:  # some detectors take a maximum over the batch
            return batch.top_class, batch.logits[:, 0]
        held = {name: getattr(self, _buffer(name)) for name in self._names}
        fitted = Fitted(detector=self._detector, state=held)
        # Not in half precision, even if the network is.
        with torch.autocast(logits.device.type, enabled=False):
            known = _known(fitted, batch)
            # Without waiting for the device. max propagates NaN.
            invalid = is_undetermined(batch.logits)
            for array in (batch.logits, batch.features):
                invalid |= array.amax(dim=1).isnan()
            known = known.masked_fill(invalid, torch.nan)
        # In float64 on both sides, as the rejector compares; NaN is not accepted.
        accepted = known.to(torch.float64) >= self.threshold
        return torch.where(accepted, batch.top_class, UNKNOWN), known

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:  # noqa: FBT001, FBT002  # torch calls it so
        # Move to another device, but keep the precision.
        for name, buffer in self._buffers.items():
            if buffer is not None:
                self._buffers[name] = buffer.to(fn(buffer).device)
        return self


def _known(fitted: Fitted, batch: Batch) -> Tensor:
    """Return the knownness; NaN for samples that the detector refuses."""
    try:
        return fitted.known_of_batch(batch)
    except InvalidSamplesError as error:
        if not error.rows:
            raise
        known = batch.logits.new_full((len(batch),), torch.nan)
        left = torch.ones_like(known, dtype=torch.bool)
        left[list(error.rows)] = False
        if left.any():
            empty = object.__new__(Outputs)
            rows = {"logits": batch.logits[left], "features": batch.features[left]}
            known[left] = _known(fitted, Batch(replaced(empty, **rows)))
        return known


def _need_float64(device: torch.device) -> None:
    if device.type == "mps":
        msg = _check.must(
            "on a device with float64, in which knownness and threshold are compared",
            caller=_CALLER,
            name="model",
            got=str(device),
            remedy="Move it: model.to('cpu')",
        )
        raise ValueError(msg)


def _buffer(name: str) -> str:
    """Name of the buffer of an array; torch does not allow dots in it."""
    return f"state_{name.replace('.', '_')}"


def _thread() -> int:
    """Return a key of the calling thread: several may use one module at a time."""
    # A compiled forward records within its own graph.
    return 0 if torch.compiler.is_compiling() else threading.get_ident()
