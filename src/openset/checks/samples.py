"""OSR004, 006–009, 012: what the samples and their scores show."""

import hashlib
from itertools import combinations

import numpy as np

from openset.checks.evidence import Evidence, row_of
from openset.checks.finding import Seen, check
from openset.metrics import evaluate, imbalance_ratio
from openset.metrics.counts import ranking_counts
from openset.scores import Scores
from openset.thresholds import Fingerprint

RATIO = 2.0
"""At this ratio, always guessing the larger side is right two times out of three."""

TIED_PAIRS = 0.01
"""Share of tied known-unknown pairs; ranking metrics can change by half of it."""

ONE_VALUE = 0.05
"""Share of samples with the same score; no threshold can tell them apart."""

FEWEST_TIES = 10
"""Ties of fewer samples are ignored."""

BELOW_HALF = 0.05
"""A weak detector may be a little below 0.5; a wrong sign is far below."""

FEWEST_SURE = 5
"""Fewest samples per side for which complete separation is not chance."""


@check("OSR004")
def imbalance(study: Evidence) -> Seen:
    """Compare the number of known and unknown samples of each test set."""
    sets = study.scores.values()
    ratios = [imbalance_ratio(one) for one in sets if one.n_known and one.n_unknown]
    if not ratios:
        return "not applicable", "no scores with both known and unknown samples given"
    low, high = min(ratios), max(ratios)
    span = f"{low:.3g}" if low == high else f"{low:.3g} to {high:.3g}"
    seen = f"{span} known samples per unknown one"
    if low > 1 / RATIO and high < RATIO:
        return "passed", seen
    if not study.metrics:
        return "not applicable", f"{seen}; no metrics named: give results or a headline"
    touched = sorted({row.name for row in study.metrics if row.by_prevalence})
    if touched:
        names = ", ".join(touched)
        return "finding", f"{seen}, and {names} would differ at another ratio"
    return "passed", f"{seen}, but no reported metric depends on it"


@check("OSR006")
def threshold_on_test(study: Evidence) -> Seen:
    """Compare test scores with calibration scores, fingerprints and thresholds."""
    row = row_of(study.headline)
    if row is not None and row.kind == "oracle":
        seen = f"the headline {study.headline!r} is the best over all thresholds of"
        return "finding", f"{seen} the test data"
    for name, chosen in study.thresholds.items():
        if "oracle" in chosen.method.lower():
            return "finding", f"{name}: the threshold is by {chosen.method!r}"
    told = 0
    for name, (scores, calibration, threshold) in study.sets.items():
        marks = [] if calibration is None else [Fingerprint.of(calibration)]
        if threshold is not None and threshold.fingerprint is not None:
            marks.append(threshold.fingerprint)
        if any(mark.is_of(scores) for mark in marks):
            return "finding", f"{name}: the threshold was chosen on test samples"
        if not marks and threshold is not None and _is_a_score(scores, threshold.value):
            seen = f"the threshold {threshold.value:g} is the score of one test sample"
            return "finding", f"{name}: {seen}"
        told += bool(marks)
    if not told:
        return "not applicable", "give calibration: what the thresholds were chosen on"
    return "passed", f"{told} test sets share no samples with their calibration data"


def _is_a_score(scores: Scores, value: float) -> bool:
    # A number a person typed may hit a score; one with many digits hits by choice.
    is_typed = not np.isfinite(value) or value == round(value, 3)
    return not is_typed and np.count_nonzero(scores.known == value) == 1


@check("OSR007")
def surrogate_in_test(study: Evidence) -> Seen:
    """Compare surrogate and unknown classes, by protocol and by groups of scores."""
    cases = [
        (f"protocol {one.name or i}", set(one.surrogate or ()), set(one.unknown))
        for i, one in enumerate(study.protocols)
    ]
    cases += [
        (name, _unknown_groups(one.calibration), _unknown_groups(one.scores))
        for name, one in study.sets.items()
    ]
    for where, surrogate, unknown in cases:
        # A Protocol refuses shared classes within one source. Those of two sources may
        # be the same, which their names show (their numbers do not).
        if both := {one for one in surrogate & unknown if isinstance(one, str)}:
            first = f"{min(both)!r}, 1 of {len(both)}"
            return "finding", f"{where}: surrogate and test unknowns share {first}"
    told = sum(bool(surrogate and unknown) for _, surrogate, unknown in cases)
    if not told:
        need = "protocols with surrogate classes, or all scores with groups"
        return "not applicable", f"no surrogate classes given: give {need}"
    return "passed", f"surrogate and test unknowns are disjoint in all {told} cases"


def _unknown_groups(scores: Scores | None) -> set[str | int]:
    if scores is None or scores.groups is None:
        return set()
    return set(map(str, scores.groups[scores.is_unknown].tolist()))


@check("OSR008")
def ties(study: Evidence) -> Seen:
    """Measure ties between known and unknown samples, and the largest tie."""
    for name, scores in study.scores.items():
        counts = ranking_counts(scores)
        at_level = np.diff(counts.known) + np.diff(counts.unknown)
        n_pairs = scores.n_known * scores.n_unknown
        pairs = float(counts.sums.known.tied) / max(n_pairs, 1)
        largest, in_ties = int(at_level.argmax()), int(at_level[at_level > 1].sum())
        is_piled = at_level[largest] > max(ONE_VALUE * len(scores), FEWEST_TIES)
        if is_piled or (pairs > TIED_PAIRS and in_ties >= FEWEST_TIES):
            return "finding", (
                f"{name}: {at_level[largest]} of {len(scores)} samples score exactly "
                f"{counts.values[largest + 1]:g}, and {pairs:.1%} of the known-unknown "
                f"pairs are tied ({at_level.size} distinct scores)"
            )
    n = len(study.scores)
    return "passed", f"few ties in {n} set{'s' * (n != 1)} of scores"


@check("OSR009")
def duplicates(study: Evidence) -> Seen:
    """Look for samples in two parts, and for equal protocols or sets of scores."""
    things: list[tuple[str, str, object]] = [
        ("protocols", one.name or str(i), one.problem)
        for i, one in enumerate(study.protocols)
    ]
    things += [("scores", name, _digest(one)) for name, one in study.scores.items()]
    if len(things) + len(study.parts) < 2:
        return "not applicable", "nothing to compare: give protocols, parts or scores"
    for one, other in combinations(study.parts, 2):
        if both := study.parts[one] & study.parts[other]:
            seen = f"{len(both)} samples are in {one} and in {other}"
            return "finding", f"{seen}, {min(both)} first"
    first: dict[tuple[str, object], str] = {}
    for kind, name, content in things:
        if (kind, content) in first:
            seen = f"the {kind} {first[kind, content]!r} and {name!r} are the same"
            return "finding", seen
        first[kind, content] = name
    return "passed", "no protocol, sample or set of scores occurs twice"


def _digest(scores: Scores) -> bytes:
    # + 0.0: the two zeros are one score.
    columns = (scores.known + 0.0, scores.labels, scores.predicted)
    return hashlib.sha256(b"".join(one.tobytes() for one in columns)).digest()


@check("OSR012")
def wrong_sign(study: Evidence) -> Seen:
    """Look for an AUROC clearly below one half, in scores or else in results."""
    values: dict[str, float] = {}
    for name, scores in study.scores.items():
        n_fewest = min(scores.n_known, scores.n_unknown)
        if n_fewest:
            evaluation = evaluate(scores, metrics=["auroc"])
            span = evaluation.intervals.get("auroc")
            # None: complete separation, or next to no samples
            is_sure = n_fewest >= FEWEST_SURE if span is None else span.high < 0.5
            values[name] = evaluation["auroc"] if is_sure else 0.5
    for row in () if values else study.results.where(metric="auroc"):
        values[f"{row.detector or row.model}, seed {row.seed}"] = row.value
    if not values:
        return "not applicable", "no scores of known and unknown samples, and no AUROC"
    lowest = min(values, key=values.__getitem__)
    if values[lowest] < 0.5 - BELOW_HALF:
        seen = f"AUROC {values[lowest]:.3f}, so unknown samples score higher"
        return "finding", f"{lowest}: {seen}"
    return "passed", f"none of {len(values)} AUROC is clearly below 0.5"
