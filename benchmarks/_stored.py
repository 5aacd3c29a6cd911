"""The package's own choice and calibration, run on stored scores of a network.

`selection.choose` and `Rejector.calibrate` score outputs and then decide. Here the
scores were computed once, when the network was made (`_kind_networks.py`), and the
functions behind the scoring are called: the rule of `choose`, the threshold, the report
with its interval for a new kind and its codes. `tests/unit/selection/test_stored.py`
compares this with the two public functions, and with the rules written out in plain
NumPy.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openset import Scores, thresholds
from openset.detectors.combined import knots_of, rank
from openset.metrics.counts import ranking_counts
from openset.metrics.curves import optimum
from openset.selection._candidates import Data
from openset.selection._robust import CONSENSUS, candidates_of, decide
from openset.selection._surrogate import mean_rank
from openset.thresholds.alpha import ALPHA

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Network:
    """Scores of some detectors on the parts of one network's data, a column each."""

    names: tuple[str, ...]
    labels: NDArray[np.int64]
    n_classes: int
    is_right: NDArray[np.bool_]
    known: Floats
    shown: dict[str, Floats]
    """Kinds of unknowns, samples to calibrate with."""
    test_is_right: NDArray[np.bool_]
    test_known: Floats
    test: dict[str, Floats]
    """The same kinds, samples to test on."""
    near: tuple[Floats, Floats]
    """Known samples scored as knowns and, their class left out, as unknowns."""

    @classmethod
    def of(cls, saved: Mapping[str, NDArray[Any]], offer: Sequence[str]) -> "Network":
        """Take the columns of the detectors offered."""
        every = [str(name) for name in saved["names"]]
        chosen = [every.index(name) for name in offer if name in every]
        columns = {
            part: np.nan_to_num(array[:, chosen].astype(float), nan=-np.inf)
            for part, array in saved.items()
            if array.ndim == 2 and not part.endswith("correct")
        }
        kinds = [part[4:] for part in saved if part.startswith("cal:")]
        return cls(
            names=tuple(every[d] for d in chosen),
            labels=saved["labels"],
            n_classes=int(saved["facts"][2]),
            is_right=saved["known_correct"][:, 0].astype(bool),
            known=columns["known"],
            shown={kind: columns[f"cal:{kind}"] for kind in kinds},
            test_is_right=saved["known_test_correct"][:, 0].astype(bool),
            test_known=columns["known_test"],
            test={kind: columns[f"test:{kind}"] for kind in kinds},
            near=(saved["lco_known"][:, chosen], saved["lco"][:, chosen]),
        )

    @property
    def kinds(self) -> tuple[str, ...]:
        """The names of the kinds of unknowns."""
        return tuple(self.shown)

    def data(self, kinds: Sequence[str]) -> Data:
        """Give what `choose` scores, for some kinds of unknowns."""
        names = sorted(kinds)
        sizes = [len(self.shown[kind]) for kind in names]
        wrong = (self.labels + 1) % self.n_classes
        predicted = np.where(self.is_right, self.labels, wrong)
        n = len(self.names)
        return Data(
            names=self.names,
            known=self.known,
            unknown=np.concatenate([self.shown[kind] for kind in names]),
            labels=self.labels,
            predicted=np.repeat(predicted[:, None], n, axis=1),
            predicted_unknown=np.zeros((sum(sizes), n), dtype=np.int64),
            groups=tuple(names),
            place=np.repeat(np.arange(len(names)), sizes),
            alpha=ALPHA,
            by="both",
            known_side=ALPHA,
        )

    @cached_property
    def oracle(self) -> dict[str, float]:
        """The best that any single detector can do against each kind, at any cut."""
        found = {}
        for kind, unknown in self.test.items():
            each = [
                self.tested(self.test_known[:, d], unknown[:, d])
                for d in range(len(self.names))
            ]
            found[kind] = max(
                optimum(ranking_counts(one), alpha=ALPHA).value for one in each
            )
        return found

    def calibration(self, known: Floats, unknown: Mapping[str, Floats]) -> Scores:
        """Join the calibration scores of one detector."""
        wrong = (self.labels + 1) % self.n_classes
        sizes = [len(part) for part in unknown.values()]
        return Scores(
            labels=np.append(self.labels, np.full(sum(sizes), -1)),
            predicted=np.append(
                np.where(self.is_right, self.labels, wrong), np.zeros(sum(sizes), int)
            ),
            known=np.concatenate([known, *unknown.values()]),
            groups=["known"] * known.size + np.repeat(list(unknown), sizes).tolist(),
            n_classes=self.n_classes,
        )

    def tested(self, known: Floats, unknown: Floats) -> Scores:
        """Join the test scores of one detector, against one kind."""
        return Scores(
            labels=np.repeat([0, -1], [known.size, unknown.size]),
            predicted=np.append(~self.test_is_right, np.zeros(unknown.size, int)),
            known=np.append(known, unknown),
        )


@dataclass(frozen=True, eq=False)
class Calibrated:
    """A detector, or several combined, with threshold and report."""

    network: Network
    name: str
    members: tuple[int, ...]
    report: thresholds.Report

    def operate(self, kind: str) -> thresholds.Operation:
        """Meet another kind of unknowns."""
        scores = self.network.tested(*self._scores(kind))
        return thresholds.operate(self.report.threshold, scores, alpha_test=ALPHA)

    def right(self, kind: str) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Say of each known and each unknown test sample if the answer is right."""
        known, unknown = self._scores(kind)
        threshold = self.report.threshold.value
        return (known >= threshold) & self.network.test_is_right, unknown < threshold

    def _scores(self, kind: str) -> tuple[Floats, Floats]:
        one = self.network
        return (
            combined(one.known, one.test_known, self.members),
            combined(one.known, one.test[kind], self.members),
        )


def combined(known: Floats, scores: Floats, members: Sequence[int]) -> Floats:
    """Score as a fitted combination does; one detector as it is."""
    if len(members) == 1:
        return scores[:, members[0]]
    ranks = [rank(scores[:, d], knots_of(known[:, d])) for d in members]
    return np.mean(ranks, axis=0)


def chosen(network: Network, kinds: Sequence[str], **rule: Any) -> Calibrated:
    """Do as `choose` and `Rejector.calibrate` with these kinds as surrogate.

    `rule` has other members of the consensus, or other detectors beside it.
    """
    made = candidates_of(network.data(kinds), network.names, **rule)
    found = decide(made)
    is_single = found.name != CONSENSUS
    members = (network.names.index(found.name),) if is_single else made.members
    objective = found.ranking[0]["objective"]
    return calibrated(network, kinds, members, objective, found.name)


def calibrated(
    network: Network,
    kinds: Sequence[str],
    members: Sequence[int],
    objective: str,
    name: str,
) -> Calibrated:
    """Choose the threshold and report on it, as `Rejector.calibrate` does."""
    known = network.known
    unknown = {kind: combined(known, network.shown[kind], members) for kind in kinds}
    scores = network.calibration(combined(known, known, members), unknown)
    threshold = thresholds.choose_by(
        objective, scores, caller="missing_kinds", alpha=ALPHA, options={}
    )
    found = thresholds.report(scores, threshold, near=_near(network, list(members)))
    return Calibrated(network, name, tuple(members), found)


def _near(network: Network, members: list[int]) -> Scores | None:
    """Join the scores of classes left out, as `selection.leave_classes_out` does."""
    as_known, as_unknown = (part[:, members] for part in network.near)
    if not (np.isfinite(as_known).all() and np.isfinite(as_unknown).all()):
        return None
    both = np.concatenate([as_known, as_unknown])
    return Scores(
        labels=np.repeat([0, -1], [len(as_known), len(as_unknown)]),
        predicted=np.zeros(len(both), int),
        known=mean_rank(as_known, both) if len(members) > 1 else both[:, 0],
    )
