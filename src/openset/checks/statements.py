"""OSR001–003, 005, 010, 011: what a study varies, reports and claims."""

import warnings

from openset import _check
from openset._types import PairingWarning
from openset.checks.evidence import Claim, Evidence, belonging, row_of
from openset.checks.finding import Finding, check, found, not_applicable, passed
from openset.metrics import Interval, Metric, table
from openset.results import Results
from openset.stats import compare, paired_t
from openset.stats.same_runs import names_of, who

# Which errors change a metric, by the name of its function or its key. Those of
# classification: a wrong class. Of detection: known against unknown.
_ERRORS = {
    "classification": "accuracy inner_score aurc_known augrc_known "
    "halfpoint_score_best",
    "detection": "auroc urr fpr_at_tpr aupr outer_score error_at_tpr youden_binary",
    "both": "openauc partial_openauc oosa osa ccr f_score ccr_at_fpr halfpoint_score "
    "overall_score youden normalized_accuracy aurc augrc scod_risk oaa",
}
ERRORS = {name: kind for kind, names in _ERRORS.items() for name in names.split()}

# CCR is the Halfpoint score with accuracy as its base.
_HALFPOINT = frozenset({"halfpoint_score", "ccr"})

# Not OSA, whose weights are explicit; OSR004 looks at the ratio it is used at.
_AVOID = {
    "accuracy": "says nothing about unknown samples",
    "f_score": "treats known and unknown unequally and depends on their proportions",
    "normalized_accuracy": "depends on the number of classes",
}

_LEAKS = {
    "openness": "the openness, which is only known from the test set",
    "test": "the test data",
    "test unknowns": "the unknowns of the test set",
}

_LEVEL = 0.95
_RESAMPLES = 500


def errors_of(row: Metric) -> str:
    """Return which errors change a metric; "" if that is not known.

    Examples
    --------
    >>> errors_of(row_of("auroc")), errors_of(row_of("aurc_known"))
    ('detection', 'classification')
    """
    # A variant may count others than its function.
    return ERRORS.get(row.key) or ERRORS.get(row.name, "")


@check("OSR001", "One openness only")
def one_openness(study: Evidence) -> Finding:
    """Count the different values of openness."""
    if not study.protocols:
        return not_applicable("no protocols given")
    # Nine digits: (4, 3) and (8, 6) have one openness, whatever the rounding.
    values = sorted({round(p.openness, 9) for p in study.protocols})
    if len(values) == 1:
        return found(
            f"all {len(study.protocols)} protocols have openness {values[0]:.3f}",
            "Add others: protocols.grid(classes) draws for all values",
        )
    return passed(f"{len(values)} values, {values[0]:.3f} to {values[-1]:.3f}")


@check("OSR002", "One class draw per openness")
def one_draw(study: Evidence) -> Finding:
    """Count the different class draws at each openness."""
    if not study.protocols:
        return not_applicable("no protocols given")
    draws: dict[float, set[object]] = {}
    for p in study.protocols:
        # Not p.problem: other surrogate classes do not make another draw.
        sides = frozenset(p.known), frozenset(p.unknown)
        draw = p.source, sides, p.source_of("unknown")
        draws.setdefault(round(p.openness, 9), set()).add(draw)
    fewest = min(map(len, draws.values()))
    if fewest < 2:
        single = [
            f"{one:.3f}" for one, drawn in sorted(draws.items()) if len(drawn) < 2
        ]
        return found(
            f"one class draw at openness {', '.join(single)}",
            "Draw the classes several times (repeats=5) and report the spread; if the "
            "protocols use every class, use fewer, so that draws can differ",
        )
    return passed(f"at least {fewest} class draws at {len(draws)} values of openness")


@check("OSR003", "Inner without Halfpoint")
def no_joint_metric(study: Evidence) -> Finding:
    """Look for metrics that are reported without the one that completes them."""
    rows = study.metrics
    names = {row.name for row in rows}
    if not rows:
        return not_applicable("no metrics named; give results or a headline")
    if "inner_score" in names and not names & _HALFPOINT:
        return found(
            "Inner without Halfpoint score: rejecting known samples costs nothing",
            "Report halfpoint_score (or ccr) at a threshold chosen on other data",
        )
    joint = sorted({row.name for row in rows if errors_of(row) == "both"})
    detection = {row.name for row in rows if errors_of(row) == "detection"}
    apart = ", ".join(sorted(detection | names & {"accuracy"}))
    if apart and not joint:
        return found(
            f"only {apart}: none counts both wrong classes and wrong rejections",
            "Add openauc, or halfpoint_score and overall_score at a threshold",
        )
    return passed(f"reported together: {', '.join(joint) or 'none'}")


@check("OSR005", "F-score or accuracy as headline")
def misleading_headline(study: Evidence) -> Finding:
    """Look at the headline metric."""
    if not study.headline:
        return not_applicable("no headline metric named")
    row = row_of(study.headline)
    if row is None:
        return not_applicable(f"{study.headline!r} is not a metric of this package")
    if row.name in _AVOID:
        return found(
            f"the headline {study.headline!r} {_AVOID[row.name]}",
            "Lead with openauc, or with overall_score and outer_score at a threshold",
        )
    return passed(f"the headline is {study.headline!r}")


@check("OSR011", "Hyper-parameters chosen by openness or by test unknowns")
def tuned_on_test(study: Evidence) -> Finding:
    """Look at what hyper-parameters were chosen on."""
    if not study.tuned_on:
        return not_applicable("give tuned_on: what hyper-parameters were chosen on")
    leaks = [_LEAKS[origin] for origin in study.tuned_on if origin in _LEAKS]
    if leaks:
        return found(
            f"hyper-parameters were chosen on {' and '.join(leaks)}",
            "Choose them on known or surrogate classes, before the test set is used",
        )
    return passed(f"hyper-parameters were chosen on: {', '.join(study.tuned_on)}")


@check("OSR010", "Interval wider than the claimed difference", reads_scores=True)
def claim_within_noise(study: Evidence) -> Finding:
    """Compare the claimed difference with the interval of the measured one."""
    claim = study.claim
    if claim is None:
        return not_applicable("no difference claimed")
    metric = claim.metric or study.headline
    if not metric:
        return not_applicable("the claim names no metric, and there is no headline")
    why = []
    for source in (_from_results, _from_scores):
        try:
            interval = source(study, claim, metric)
            break
        except (ValueError, PairingWarning) as error:  # runs or samples are missing
            why.append(str(error))
    else:
        return not_applicable("; ".join(why))
    seen = (
        f"{metric}: {claim.difference:g} claimed, {_LEVEL:.0%} interval of the "
        f"difference {interval.low:.4f} to {interval.high:.4f} ({interval.method})"
    )
    # Absolute values: some metrics fall with quality. The claim may be rounded.
    least, most = sorted((abs(interval.low), abs(interval.high)))
    is_wide = (interval.high - interval.low) / 2 >= claim.difference > least
    if 0.0 in interval or is_wide:
        remedy = "Measure on more runs or samples, or say that the methods cannot be "
        return found(seen, remedy + "told apart")
    if claim.difference > 1.1 * most:
        return found(f"{seen}: smaller than claimed", "Claim what was measured")
    return passed(seen)


def _pair(claim: Claim, names: list[str]) -> list[str]:
    """Return the names of the two methods that are compared; raise if there are not."""
    pair = [claim.better, claim.worse] if claim.better and claim.worse else names
    if len(pair) != 2 or not {*pair} <= {*names}:
        rule, have = "of two of the methods", ", ".join(names) or "nothing"
        _check.fail("Claim", "better and worse", rule, f"a study of {have}")
    return pair


def _from_results(study: Evidence, claim: Claim, metric: str) -> Interval:
    """Return the interval of the paired test over independent runs."""
    rows = study.results.where(metric=metric)
    names = names_of(rows)
    pair = _pair(claim, list(names.values()))
    two = Results(row for row in rows if names[who(row)] in pair)
    (test,) = paired_t(two, level=_LEVEL, pool=True)
    if test.n < 2:
        _check.fail("OSR010", "results", "of several runs", test.over)
    # None: the same difference in all runs.
    low = test.difference if test.low is None else test.low
    high = test.difference if test.high is None else test.high
    told = f"paired t, {test.over}"
    told += ": other classes may differ more" if "one draw" in told else ""
    return Interval(low, high, _LEVEL, told)


def _from_scores(study: Evidence, claim: Claim, metric: str) -> Interval:
    """Return the interval of `stats.compare` on two sets of scores."""
    pair = _pair(claim, list(study.scores))
    # Names in a file must not make `compare` import code.
    _check.one_of("OSR010", "metric", metric, [row.key for row in table()])
    a, b = (study.scores[name] for name in pair)
    of_a, of_b = (belonging(study.thresholds, name) for name in pair)
    at = None if of_a is None or of_b is None else (of_a.value, of_b.value)
    with warnings.catch_warnings():
        warnings.simplefilter("error", PairingWarning)
        found = compare(a, b, metric, level=_LEVEL, threshold=at, resamples=_RESAMPLES)
        return found.interval
