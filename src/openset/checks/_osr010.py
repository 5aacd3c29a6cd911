"""OSR010: the claimed difference is smaller than its uncertainty."""

from math import sqrt

import numpy as np
import scipy  # whose parts are imported when first used

from openset.checks._evidence import Claim, Evidence
from openset.checks._finding import Check, Outcome, found, not_applicable, passed
from openset.checks._metric_names import base
from openset.metrics import Interval, get
from openset.metrics._intervals import percentile, replicates
from openset.results import Results

LEVEL = 0.95
RESAMPLES = 500


def look(evidence: Evidence) -> Outcome:
    """Compare the claimed difference with the interval of the measured one."""
    if evidence.claim is None:
        return not_applicable("no difference claimed")
    claim = evidence.claim
    metric = claim.metric or evidence.headline
    if not metric:
        return not_applicable("the claim names no metric, and there is no headline")
    interval = _from_results(evidence, claim, metric)
    if isinstance(interval, str):
        why, interval = interval, _from_scores(evidence, claim, metric)
        if isinstance(interval, str):
            return not_applicable(f"{why}; {interval}")
    margin = (interval.high - interval.low) / 2
    seen = (
        f"{metric}: {claim.difference:g} claimed, {LEVEL:.0%} interval of the "
        f"difference {interval.low:.4f} to {interval.high:.4f} ({interval.method})"
    )
    # Absolute values: some metrics fall with quality. The claim may be rounded.
    least, most = sorted((abs(interval.low), abs(interval.high)))
    is_beyond = 0.0 not in interval and least >= claim.difference
    if not is_beyond and (margin >= claim.difference or 0.0 in interval):
        return found(
            seen,
            "Measure on more runs or samples, or say that the methods cannot be told "
            "apart",
        )
    if claim.difference > 1.1 * most:
        return found(f"{seen}: smaller than claimed", "Claim what was measured")
    return passed(seen)


def _pair(claim: Claim, names: list[str]) -> tuple[str, str] | None:
    if claim.better and claim.worse:
        is_there = claim.better in names and claim.worse in names
        return (claim.better, claim.worse) if is_there else None
    return (names[0], names[1]) if len(names) == 2 else None


def _from_results(evidence: Evidence, claim: Claim, metric: str) -> Interval | str:
    """Student's interval over paired runs, or why there is none."""
    if evidence.results is None:
        return "no results"
    rows = evidence.results.where(metric=metric)
    by = "detector" if len({row.detector for row in rows}) > 1 else "model"
    pair = _pair(claim, list(dict.fromkeys(getattr(row, by) for row in rows)))
    if pair is None:
        return f"results hold no two methods to compare in {metric}"
    two = Results(row for row in rows if getattr(row, by) in pair)
    try:
        paired = two.paired(by)
    except ValueError as error:
        return str(error)
    spread = paired[pair[0]] - paired[pair[1]]
    if spread.size < 2:
        return f"results hold one run of {metric} only"
    half = float(scipy.stats.t.ppf((1 + LEVEL) / 2, spread.size - 1))
    half *= float(spread.std(ddof=1)) / sqrt(spread.size)
    mean = float(spread.mean())
    return Interval(mean - half, mean + half, LEVEL, f"t, {spread.size} paired runs")


def _from_scores(evidence: Evidence, claim: Claim, metric: str) -> Interval | str:
    """Paired bootstrap over the samples of two sets of scores, or why there is none."""
    pair = _pair(claim, list(evidence.scores))
    if pair is None:
        return "no two sets of scores to compare"
    name = base(metric)
    # The parameters of names such as ccr_at_fpr_0.1 are not known here.
    if name != metric or get(name).kernel is None:
        return f"no interval is known for {metric!r} from scores"
    a, b = (evidence.scores[which] for which in pair)
    if not np.array_equal(a.labels, b.labels) or not (a.n_known and a.n_unknown):
        return f"the scores {pair[0]!r} and {pair[1]!r} are not of the same samples"
    values = []
    for which, scores in zip(pair, (a, b), strict=True):
        chosen = evidence.threshold_of(which)
        if get(name).kind == "threshold" and chosen is None:
            return f"{metric} needs a threshold of {which!r}"
        drawn = replicates(
            scores,
            {metric: (name, {})},
            threshold=None if chosen is None else chosen.value,
            resamples=RESAMPLES,
            rng=0,  # one seed: both methods see the same resampled data
        )
        values.append(drawn[metric])
    interval = percentile(values[0] - values[1], LEVEL)
    return Interval(interval.low, interval.high, LEVEL, f"paired {interval.method}")


CHECK = Check(
    "OSR010", "Interval wider than the claimed difference", look, reads_scores=True
)
