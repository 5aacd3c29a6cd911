"""Inputs that were perturbed along a gradient (ODIN): the same step everywhere."""

from collections.abc import Sequence

from openset import _check
from openset.detectors import Detector
from openset.outputs import Outputs


def check_same_step(known: Outputs, others: Sequence[Outputs | str | None]) -> None:
    """Refuse calibration samples whose inputs were perturbed differently."""
    for one in others:
        if isinstance(one, Outputs) and one.input_step != known.input_step:
            steps = [part.input_step or "no step" for part in (known, one)]
            msg = _check.must(
                "of inputs perturbed by one step",
                caller="Rejector.calibrate",
                name="known, surrogate and sets_known",
                got=f"{steps[0]} for known, and {steps[1]}",
                remedy="Extract all of them with the same options",
            )
            raise ValueError(msg)


def check_step(outputs: Outputs, wanted: str, detector: Detector) -> None:
    """Raise unless the inputs were perturbed as those of the calibration."""
    moved = outputs.input_step
    # A rejector over layers that was saved before steps were recorded: the names
    # of the layers say that there is one.
    is_older = not wanted and detector.input_step
    if moved == wanted or is_older:
        return
    rule = "as the network got them" if not wanted else f"perturbed by {wanted}"
    msg = _check.must(
        f"of inputs {rule}, as in the calibration",
        caller="Rejector",
        name="outputs",
        got=f"inputs perturbed by {moved}" if moved else "inputs as they are",
        remedy="Extract them anew for this rejector: openset extract NETWORK DATA "
        "--rejector FOLDER. If code of your own perturbed them, say so: "
        "Outputs(..., input_step=rejector.input_step)",
    )
    raise ValueError(msg)
