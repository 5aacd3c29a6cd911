"""OSR004, 006–009, 012: what the samples and their scores show."""

import hashlib
from collections.abc import Collection
from itertools import combinations

import numpy as np

from openset.checks.evidence import Evidence, belonging, row_of
from openset.checks.finding import Finding, check, found, not_applicable, passed
from openset.metrics import Metric, evaluate, imbalance_ratio
from openset.protocols import Draws
from openset.scores import Scores
from openset.thresholds import Fingerprint

# Metrics that change with the share of unknown samples, by the name of their function;
# and variants, by key, that differ from their function in that.
_MOVING = {"aupr", "f_score", "youden", "normalized_accuracy", "aurc", "augrc"}
_MOVING |= {"scod_risk", "oaa", "error_at_tpr_unknown_pooled"}
_STEADY = {"youden_binary", "aurc_known", "augrc_known"}

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


_IMBALANCED = "Known/unknown imbalance with a prevalence-dependent metric"


def moves_with_prevalence(row: Metric) -> bool:
    """Whether a metric changes with the share of unknown samples in the data."""
    return row.key not in _STEADY and bool({row.key, row.name} & _MOVING)


@check("OSR004", _IMBALANCED, reads_scores=True)
def imbalance(study: Evidence) -> Finding:
    """Compare the number of known and unknown samples of each test set."""
    ratios = [
        imbalance_ratio(scores)
        for scores in study.scores.values()
        if scores.n_known and scores.n_unknown
    ]
    if not ratios:
        return not_applicable("no scores with both known and unknown samples given")
    low, high = min(ratios), max(ratios)
    span = f"{low:.3g}" if low == high else f"{low:.3g} to {high:.3g}"
    seen = f"{span} known samples per unknown one"
    if low > 1 / RATIO and high < RATIO:
        return passed(seen)
    if not study.reported:
        return not_applicable(f"{seen}; no metrics named: give results or a headline")
    touched = sorted({row.name for row in study.metrics if moves_with_prevalence(row)})
    if not touched:
        return passed(f"{seen}, but no reported metric depends on it")
    return found(
        f"{seen}, and {', '.join(touched)} would differ at another ratio",
        "Report auroc, openauc, outer_score or overall_score, which do not depend on "
        "it; or state the ratio, and compare at equal ratios only",
    )


@check("OSR006", "Threshold chosen on test data", reads_scores=True)
def threshold_on_test(study: Evidence) -> Finding:
    """Compare test scores with calibration scores, fingerprints and thresholds."""
    remedy = "Choose it on validation samples and surrogate unknowns, then keep it"
    if study.headline and _is_oracle(study.headline):
        seen = f"the headline {study.headline!r} is the best over all thresholds of"
        return found(f"{seen} the test data", remedy)
    for name, chosen in study.thresholds.items():
        if "oracle" in chosen.method.lower():
            return found(f"{name}: the threshold is by {chosen.method!r}", remedy)
    told = 0
    for name, scores in study.scores.items():
        calibration, cut = (
            belonging(study.calibration, name),
            belonging(study.thresholds, name),
        )
        marks = {}
        if calibration is not None:
            seen = "samples of the calibration are in the test set"
            marks[seen] = Fingerprint.of(calibration)
        if cut is not None and cut.fingerprint is not None:
            seen = "the fingerprint of the threshold is that of these samples"
            marks[seen] = cut.fingerprint
        trouble = [seen for seen, mark in marks.items() if mark.is_of(scores)]
        if not marks and cut is not None and _is_a_score(scores, cut.value):
            trouble = [f"the threshold {cut.value:g} is the score of one test sample"]
        if trouble:
            return found(f"{name}: {trouble[0]}", remedy)
        told += bool(marks)
    if not told:
        return not_applicable("give calibration: what the thresholds were chosen on")
    return passed(f"{told} test sets share no samples with their calibration data")


def _is_oracle(name: str) -> bool:
    """Whether a metric is the best value over all thresholds of the test data."""
    row = row_of(name)
    return row.kind == "oracle" if row is not None else name.lower().endswith("_best")


def _is_a_score(scores: Scores, value: float) -> bool:
    # A number a person typed may hit a score; one with many digits hits by choice.
    is_typed = not np.isfinite(value) or value == round(value, 3)
    return not is_typed and np.count_nonzero(scores.known == value) == 1


@check("OSR007", "Surrogate classes among the test unknowns", reads_scores=True)
def surrogate_in_test(study: Evidence) -> Finding:
    """Compare surrogate and unknown classes, by protocol and by groups of scores."""
    remedy = "Take other classes: protocols.operational draws them disjoint"
    told = 0
    for i, protocol in enumerate(study.protocols):
        # A Protocol refuses this within one source. Two sources may still share
        # classes, which their names show (their numbers do not).
        both = {one for one in protocol.surrogate or () if isinstance(one, str)}
        both &= set(protocol.unknown)
        told += bool(protocol.surrogate)
        if both:
            sources = map(protocol.source_of, ("surrogate", "unknown"))
            seen = f"{_few(both)} (from {' and '.join(map(repr, sources))})"
            return found(f"protocol {protocol.name or i}: both have {seen}", remedy)
    for name, scores in study.scores.items():
        surrogate = _unknown_groups(belonging(study.calibration, name))
        unknown = _unknown_groups(scores)
        told += bool(surrogate and unknown)
        if both := surrogate & unknown:
            seen = f"unknown samples of {_few(both)} are in the calibration"
            return found(f"{name}: {seen} and in the test set", remedy)
    if not told:
        need = "protocols with surrogate classes, or all scores with groups"
        return not_applicable(f"no surrogate classes given: give {need}")
    return passed(f"surrogate and test unknowns are disjoint in all {told} cases")


def _unknown_groups(scores: Scores | None) -> set[str]:
    if scores is None or scores.groups is None:
        return set()
    return set(map(str, scores.groups[scores.is_unknown].tolist()))


def _few(names: Collection[str]) -> str:
    n_more = len(names) - 1
    return f"{min(names)!r}" + f" and {n_more} more" * (n_more > 0)


@check("OSR008", "Many tied scores", reads_scores=True)
def ties(study: Evidence) -> Finding:
    """Measure ties between known and unknown samples, and the largest tie."""
    if not study.scores:
        return not_applicable("no scores given")
    for name, scores in study.scores.items():
        values, at = np.unique(scores.known, return_inverse=True)
        unknown = np.bincount(at[scores.is_unknown], minlength=values.size)
        counts = np.bincount(at, minlength=values.size)
        n_pairs = scores.n_known * scores.n_unknown
        pairs = int((counts - unknown) @ unknown) / max(n_pairs, 1)
        largest = int(counts.argmax())
        is_piled = counts[largest] > max(ONE_VALUE * len(scores), FEWEST_TIES)
        in_ties = int(counts[counts > 1].sum())
        if is_piled or (pairs > TIED_PAIRS and in_ties >= FEWEST_TIES):
            return found(
                f"{name}: {counts[largest]} of {len(scores)} samples score exactly "
                f"{values[largest]:g}, and {pairs:.1%} of the known-unknown pairs are "
                f"tied ({values.size} distinct scores)",
                "Compute scores in float64, and use scores that do not saturate: "
                "logits, energy or log-probabilities instead of probabilities",
            )
    n = len(study.scores)
    return passed(f"few ties in {n} set{'s' * (n != 1)} of scores")


@check("OSR009", "Duplicate splits or samples across parts", reads_scores=True)
def duplicates(study: Evidence) -> Finding:
    """Look for equal protocols, samples in two parts, and equal sets of scores."""
    if len(study.protocols) + len(study.scores) + len(study.parts) < 2:
        return not_applicable("nothing to compare: give protocols, parts or scores")
    for one, other in combinations(study.parts, 2):
        if both := study.parts[one] & study.parts[other]:
            return found(
                f"{len(both)} samples are in {one} and in {other}, {min(both)} first",
                "Divide the data once, with datasets.cut or datasets.folds",
            )
    listed = study.protocols
    if repeated := Draws(listed).duplicates if listed else ():
        n_repeats = sum(len(places) - 1 for places in repeated)
        alike = " = ".join(listed[i].name or str(i) for i in repeated[0])
        return found(
            f"{n_repeats} of {len(listed)} protocols repeat another, such as {alike}",
            "Remove them: a standard deviation over equal splits is too small",
        )
    seen: dict[bytes, str] = {}
    for name, scores in study.scores.items():
        digest = hashlib.sha256()
        # + 0.0: the two zeros are one score.
        for column in (scores.known + 0.0, scores.labels, scores.predicted):
            digest.update(column.tobytes())
        first = seen.setdefault(digest.digest(), name)
        if first != name:
            return found(
                f"the scores {first!r} and {name!r} are the same, sample by sample",
                "Look for a file saved twice, or a model that ignores its seed",
            )
    return passed("no protocol, sample or set of scores occurs twice")


@check("OSR012", "Score direction suspicious", reads_scores=True)
def wrong_sign(study: Evidence) -> Finding:
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
    for row in () if values else study.results:
        metric = row_of(row.metric)
        if metric is not None and metric.key == "auroc":
            who = row.detector or row.model or "results"
            values[f"{who}, seed {row.seed}"] = row.value
    if not values:
        return not_applicable("no scores of known and unknown samples, and no AUROC")
    lowest = min(values, key=values.__getitem__)
    if values[lowest] < 0.5 - BELOW_HALF:
        return found(
            f"{lowest}: AUROC {values[lowest]:.3f}, so unknown samples score higher",
            "Check the sign: higher must mean more known. Outlier scores, distances "
            "and energies of many papers have to be negated",
        )
    return passed(f"none of {len(values)} AUROC is clearly below 0.5")
