"""`openset extract`: print the layers of a network, and what was written."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.markup import escape

from openset import _check
from openset._types import UNKNOWN
from openset.cli._console import OUT
from openset.cli._extract_network import Network
from openset.outputs import Outputs

_CALLER = "openset extract"
_SHOWN = 3  # names in a message


def print_layers(settings: Network) -> None:
    """List the layers of the network."""
    found = settings.load().layers()
    if not found:
        msg = _check.must(
            "left out for an ONNX file, whose layers cannot be read",
            caller=_CALLER,
            name="--layers",
            got="list",
            remedy="Load the network in PyTorch",
        )
        raise ValueError(msg)
    for name, kind in found:
        OUT.say(escape(f"{name}  {kind}"))


def print_labels(
    outputs: Outputs, known: tuple[str, ...], *, labels_are_given: bool
) -> None:
    """Say how many samples are of known classes, and how many of these are right."""
    if outputs.logits is None:
        OUT.say(
            "An embedding model: the outputs have features and no logits. Fit a last "
            "layer on training samples with --fit-head head.npz"
        )
        return
    if outputs.labels is None:
        return
    is_known = np.asarray(outputs.labels) != UNKNOWN
    if is_known.any():
        has_answer = is_known & ~outputs.is_invalid
        right = np.argmax(outputs.logits, axis=1) == outputs.labels
        accuracy = f"{right[has_answer].mean():.4f}" if has_answer.any() else "-"
        OUT.print(
            f"{is_known.sum()} samples of known classes, accuracy {accuracy}"
            + ("" if (has_answer == is_known).all() else " without the invalid ones"),
            highlight=False,
        )
        if not (is_known.all() or labels_are_given):
            _print_others(outputs, known, is_known)
    elif not labels_are_given:
        shown = _listed(known)
        why = (
            f"No label is a class of the network ({shown})"
            if known
            else "The network does not name its classes"
        )
        OUT.say(
            escape(
                f"{why}, so all samples are labelled -1 (unknown). If that is wrong, "
                "give the names of its classes as the data spell them: --classes FILE"
            )
        )


def _print_others(
    outputs: Outputs, known: tuple[str, ...], is_known: NDArray[np.bool_]
) -> None:
    """Name what was labelled -1, and classes without samples: one may be misspelt."""
    line = f"{(~is_known).sum()} samples labelled -1 (unknown)"
    if outputs.groups is not None:
        line += f", of {_listed(np.unique(outputs.groups[~is_known]).tolist())}"
    used = set(np.asarray(outputs.labels)[is_known].tolist())
    unused = [name for i, name in enumerate(known) if i not in used]
    if unused:
        line += f". Classes without samples: {_listed(unused)}"
    OUT.say(escape(line))


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (", …" if len(names) > _SHOWN else "")


def print_features(outputs: Outputs, *, gram: bool) -> None:
    """Say which layers the features are of, and which detector takes them."""
    shown = ", ".join(f"{name} ({width})" for name, width in outputs.layers)
    OUT.say(
        f"features of {shown}. A detector over them: --detector "
        f"{'gram' if gram else 'layered'}"
    )


def print_input_step(
    outputs: Outputs, *, odin: Any, detector: str | None, train: Path | None
) -> None:
    """Say how the inputs were perturbed, and which detector takes such outputs."""
    if outputs.input_step:
        OUT.say(escape(f"inputs perturbed by {outputs.input_step}"))
    if odin is not None:
        OUT.say(
            "ODIN is the largest probability at the same temperature: "
            f"--detector msp:temperature={odin.temperature:g}"
        )
    if detector is not None:
        OUT.say(escape(f"To calibrate: --detector {detector} --train {train}"))
