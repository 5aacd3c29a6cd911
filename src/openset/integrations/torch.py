"""`OpenSetModule`: a network that returns -1 for unknown samples."""

import threading
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple, Self

from openset import _check
from openset._optional import needs
from openset._types import UNKNOWN
from openset.detectors import Batch
from openset.extract import head as heads
from openset.outputs import Outputs, is_undetermined, replaced
from openset.rejector import Rejector, need_rejector

with needs("torch"):
    import torch
    from torch import Tensor, nn

__all__ = ["Decision", "OpenSetModule", "OpenSetResult"]

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
    ) -> None:
        super().__init__()
        need_rejector(_CALLER, rejector)
        if rejector.input_step:
            rule = "one for inputs as they are"
            got = f"one whose inputs are perturbed by {rejector.input_step}"
            remedy = "Extract outputs with that step, and use Rejector.predict"
            _check.fail(_CALLER, "rejector", rule, got, remedy)
        if head is not None:
            found = heads.named(_CALLER, model, head)
        else:
            found = heads.of_size(_CALLER, model, rejector.fitted.widths)
        layer = found.layer
        of = f" of head {found.name!r}"
        rejector.fitted.need_widths(_CALLER, found.sizes, of)
        self.model = model
        self.head = found.name
        self.classes = rejector.classes
        is_double = layer.weight.dtype == torch.float64
        dtype = torch.float64 if is_double else torch.float32
        self.score = Decision(rejector, dtype, layer.weight.device)
        self._recorder = _Recorder()
        # The hook must not keep this module alive when it is no longer used.
        hook = layer.register_forward_hook(self._recorder.record)
        weakref.finalize(self, hook.remove)

    @torch.compiler.disable(recursive=False)  # type: ignore[untyped-decorator]
    def forward(self, *args: Any, **kwargs: Any) -> OpenSetResult:
        """Run the model on its own arguments; return classes, knownness and logits.

        An invalid sample (NaN in its logits or features, or several logits of +inf) has
        knownness NaN and class -1; so has one whose knownness is NaN.
        """
        thread = threading.get_ident()
        self._recorder.recorded[thread] = []
        with torch.no_grad():
            try:
                self.model(*args, **kwargs)
            finally:
                recorded = self._recorder.recorded.pop(thread)
            features, logits = heads.only_call(_CALLER, self.head, recorded)
            classes, known = self.score(logits, features)
        return OpenSetResult(classes=classes, known=known, logits=logits)


class _Recorder:
    """Inputs and outputs of the last layer, recorded per thread."""

    def __init__(self) -> None:
        self.recorded: dict[int, list[tuple[Tensor, Tensor]]] = {}

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def record(
        self, _module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor
    ) -> None:
        # Nothing is recorded if the model is run on its own.
        recorded = self.recorded.get(threading.get_ident())
        if recorded is not None:
            recorded.append((inputs[0], output))


class Decision(nn.Module):
    """Detector and threshold, with their arrays as buffers."""

    threshold: Tensor

    def __init__(self, rejector: Rejector, dtype: torch.dtype, device: Any) -> None:
        super().__init__()
        if getattr(rejector.fitted.detector, "backend", None) == "faiss":
            rule = "'matmul', which gives the same numbers"
            _check.fail(_CALLER, "backend", rule, "'faiss'")
        state = rejector.fitted.prepared(torch.empty(0, device=device), dtype)
        self.detector = rejector.fitted.detector
        # torch does not allow dots in the name of a buffer.
        self.names = {name: f"state_{name.replace('.', '_')}" for name in state}
        for name, buffer in self.names.items():
            self.register_buffer(buffer, state[name].clone())  # its own, to be changed
        limit = torch.tensor(rejector.threshold.value, dtype=torch.float64)
        self.register_buffer("threshold", limit.to(device))

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def forward(self, logits: Tensor, features: Tensor) -> tuple[Tensor, Tensor]:
        """Return classes (or -1) and knownness."""
        if logits.shape[0] == 0:  # some detectors take a maximum over the batch
            return logits.new_empty(0, dtype=torch.int64), logits.new_empty(0)
        # Not in half precision, even if the network is.
        with torch.autocast(logits.device.type, enabled=False):
            predicted, known = self.known(logits, features)
        # In float64 on both sides, as the rejector compares; NaN is not accepted.
        accepted = known.to(torch.float64) >= self.threshold
        return torch.where(accepted, predicted, UNKNOWN), known

    def known(self, logits: Tensor, features: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return classes and knownness: NaN for samples that have none."""
        state = {name: getattr(self, buffer) for name, buffer in self.names.items()}
        given = {"logits": logits, "features": features}
        batch = Batch(replaced(object.__new__(Outputs), **given))  # not checked
        known = self.detector.score_batch(state, batch)
        invalid = is_undetermined(batch.logits)
        for array in (logits, *(() if features is None else (features,))):
            invalid |= array.isnan().any(dim=1)
        return batch.top_class, known.masked_fill(invalid, torch.nan)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:  # noqa: FBT001, FBT002  # torch calls it so
        # Move to another device, but keep the precision.
        for name, buffer in self._buffers.items():
            if buffer is not None:
                self._buffers[name] = buffer.to(fn(buffer).device)
        return self
