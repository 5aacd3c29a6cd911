"""Which detectors to compare, given the arrays in the outputs of a network."""

from typing import NamedTuple

from openset import detectors
from openset.outputs import Outputs, need_outputs
from openset.selection._robust import MEMBERS, SIMPLE

_OFFERED = tuple(dict.fromkeys((*SIMPLE, *MEMBERS)))
_WORDS = {"head": "the weights of the last layer"}


class Suitable(NamedTuple):
    """Names of detectors, and the reason in a sentence."""

    names: tuple[str, ...]
    reason: str


def suitable(train: Outputs | None) -> Suitable:
    """Return detectors for :func:`choose` to compare, given training outputs.

    They are MSP, RMDS, ViM and OSNN, without those whose inputs (features, last layer)
    are missing. These four use different information, and their consensus was also good
    on networks that were not used to select them (``docs/results/operating.md``).
    MaxLogit is added because it may be better than the consensus.

    Parameters
    ----------
    train
        Outputs of the training split. None: only detectors that need no fitting are
        returned.

    Examples
    --------
    >>> print(suitable(Outputs(logits=[[2.0, 0.0]], labels=[0])).reason)
    msp and maxlogit: rmds, vim and osnn need features
    """
    recipes = {name: detectors.make(name) for name in _OFFERED}
    if train is None:
        names = tuple(name for name, one in recipes.items() if not one.learns)
        left_out = _listed([name for name in recipes if name not in names])
        reason = f"{_listed(names)}: {left_out} need training outputs"
        return Suitable(names, reason)
    need_outputs("selection.suitable", "train", train)
    missing = {name: one.missing_from(train) for name, one in recipes.items()}
    names = tuple(name for name in _OFFERED if not missing[name])
    if not names:
        msg = (
            "selection.suitable: train must have logits, or features and labels, got "
            f"{train}. Name a detector instead"
        )
        raise ValueError(msg)
    lacking: dict[str, list[str]] = {}
    for name, lacks in missing.items():
        if lacks:
            lacking.setdefault(lacks[0], []).append(name)
    reasons = [
        f"{_listed(them)} need{'s' * (len(them) == 1)} {_WORDS.get(what, what)}"
        for what, them in lacking.items()
    ]
    start = f"{_listed(names)}{' alone' * (len(names) == 1)}"
    if not reasons:
        return Suitable(names, f"{start}, which use different information")
    return Suitable(names, f"{start}: {'; '.join(reasons)}")


def _listed(names: tuple[str, ...] | list[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last
