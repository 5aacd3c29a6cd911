"""OSR010: the claimed difference is smaller than its uncertainty."""

from math import sqrt

import numpy as np
import scipy  # whose parts are imported when first used

from openset._types import UndefinedMetricError
from openset.checks._evidence import Claim, Evidence
from openset.checks._finding import Check, Outcome, found, not_applicable, passed
from openset.checks._metric_names import row_of
from openset.metrics import Interval
from openset.results import Results
from openset.scores import Scores, seems_reordered
from openset.stats import compare

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
    """Student's interval over paired draws of classes, or why there is none.

    Runs of one draw (seeds, and whatever else was repeated) are averaged first: they
    are not independent. With a single draw they are all there is.
    """
    if evidence.results is None:
        return "no results"
    rows = evidence.results.where(metric=metric)
    found = _columns(rows, claim)
    if len(found) != 1:
        why = "no two methods to compare" if not found else "several ways to compare"
        return f"results hold {why} in {metric}; name two: Claim(better=, worse=)"
    ((by, (better, worse)),) = found.items()
    two = [row for row in rows if getattr(row, by) in {better, worse}]
    draws = sorted({(row.protocol, row.repeat) for row in two})
    spreads = []
    try:
        for protocol, repeat in draws:
            of_draw = [r for r in two if (r.protocol, r.repeat) == (protocol, repeat)]
            paired = Results(of_draw).paired(by)
            ours, theirs = (np.asarray(paired.get(n, [])) for n in (better, worse))
            spreads.append(ours - theirs)
    except ValueError as error:  # runs are missing
        return str(error)
    n_runs = sum(spread.size for spread in spreads)
    if n_runs < 2:
        return f"results hold one run of {metric} only"
    if len(draws) > 1:
        values = np.array([spread.mean() for spread in spreads])
        told = f"t, {len(draws)} paired draws of the classes"
        told += f", means of {n_runs} runs" if n_runs > len(draws) else ""
    else:
        values = spreads[0]
        told = f"t, {n_runs} paired runs, all repeats of one draw of the classes: "
        told += "other classes may differ more"
    half = float(scipy.stats.t.ppf((1 + LEVEL) / 2, values.size - 1))
    half *= float(values.std(ddof=1)) / sqrt(values.size)
    mean = float(values.mean())
    return Interval(mean - half, mean + half, LEVEL, told)


def _columns(rows: Results, claim: Claim) -> dict[str, tuple[str, str]]:
    """Return the columns that hold the two names of a claim, or just two names."""
    found = {}
    for by in ("method", "detector", "model"):
        names = list(dict.fromkeys(getattr(row, by) for row in rows))
        pair = _pair(claim, names)
        if pair is not None:
            found[by] = pair
    return found


def _from_scores(evidence: Evidence, claim: Claim, metric: str) -> Interval | str:
    """Return the interval of `stats.compare` on two sets of scores, or why not."""
    pair = _pair(claim, list(evidence.scores))
    if pair is None:
        return "no two sets of scores to compare"
    row = row_of(metric)
    if row is None or row.key != metric or row.kind in {"curve", "operational"}:
        return f"no interval is known for {metric!r} from scores"
    a, b = (evidence.scores[which] for which in pair)
    if trouble := _not_paired(pair, a, b):
        return trouble
    at = None
    if row.kind == "threshold":
        of_a, of_b = (evidence.threshold_of(which) for which in pair)
        if of_a is None or of_b is None:
            return f"{metric} needs a threshold of {pair[0 if of_a is None else 1]!r}"
        at = of_a.value, of_b.value
    try:
        done = compare(a, b, metric, level=LEVEL, threshold=at, resamples=RESAMPLES)
    except UndefinedMetricError as error:
        return str(error)
    return done.interval


def _not_paired(pair: tuple[str, str], a: Scores, b: Scores) -> str:
    """Say why two sets of scores cannot be compared, if they cannot."""
    both = f"the scores {pair[0]!r} and {pair[1]!r}"
    if not (a.n_known and a.n_unknown):
        return f"{both} are not of known and unknown samples"
    try:
        b = b.in_order_of(a)
    except ValueError as error:
        return f"{both} are not of the same samples ({error})"
    if seems_reordered(b, a):
        return f"{both} seem to have their samples in different orders"
    return ""


CHECK = Check(
    "OSR010", "Interval wider than the claimed difference", look, reads_scores=True
)
