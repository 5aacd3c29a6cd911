"""Summary on top of the page: results, and whether differences are significant."""

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from statistics import fmean
from typing import Any

from openset._types import UndefinedMetricError
from openset.report import _leaderboard
from openset.report._figures import View, has_both
from openset.report._leaderboard import Board
from openset.report._pair_tests import TESTED, paired
from openset.report._runs import ReportData, Run
from openset.report._svg import readable
from openset.results import Result, Results
from openset.scores import Scores, seems_reordered
from openset.stats import paired_t


def counts(data: ReportData, boards: Mapping[str, Board]) -> list[str]:
    """Return the numbers of protocols, methods, cells and runs, as text."""
    methods = {run.method for run in data.runs}
    of_each = Counter((run.method, run.protocol) for run in data.runs)
    texts = [_plural(len(methods), "method"), _plural(len(boards), "problem")]
    if len(data.runs) == 1 and data.folder is None:
        return [f"{data.runs[0].n:,} samples"]
    if max(of_each.values()) > 1:
        # Repeats times seeds; their number may differ between protocols.
        most = _plural(max(of_each.values()), "run")
        texts.append(most if len(set(of_each.values())) == 1 else f"up to {most}")
        texts[-1] += " of each"
    noun = "file" if data.folder is None else "finished cell"
    texts.append(_plural(len(data.runs), noun))
    if data.n_failed:
        texts.append(f"{data.n_failed:,} failed")
    return texts


def _plural(n: int, noun: str) -> str:
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def sentences(
    data: ReportData,
    loaded: Mapping[str, Sequence[tuple[Run, Scores]]],
    boards: Mapping[str, Board],
    headline: str,
    views: Sequence[View],
) -> list[tuple[str, str, str]]:
    """Summarise the results: sentences, each with a name to emphasise."""
    texts: list[tuple[str, str, str]] = []
    name = data.headings.text(headline)
    if len(boards) > 1:
        sign = data.headings.sign(headline)
        whole = _leaderboard.overview(boards, headline, sign)
        best = whole.methods[0]
        rank = whole.mean_rank[best]
        place = "" if rank is None else f", mean rank {rank:.2f}"
        texts.append(
            (
                f"Over {len(boards)} problems, by {name}, ",
                best,
                f" is best: {whole.mean[best]:.4f} on average{place}.",
            )
        )
    else:
        one = next(iter(boards.values()))
        best = one.methods[0]
        top = one.scores[best][headline]
        if len(one.methods) == 1:
            texts.append(("", best, f" reaches {name} {_with_spread(top)}."))
        else:
            texts.append((f"By {name}, ", best, f" is best with {_with_spread(top)}."))
            second = one.methods[1]
            behind = one.scores[second].get(headline)
            if behind is not None:
                texts.append(("Next is ", second, f" with {_with_spread(behind)}."))
    # No test is possible with one run each, or if all differences are equal.
    with suppress(UndefinedMetricError):
        next_best = next(iter(boards.values())).methods[1:2]
        texts += _lead(data, loaded, (best, *next_best), headline)
    done = [
        run.operation
        for run in data.runs
        if run.method == best
        and run.operation is not None
        and {"oosa", "oracle"} <= set(run.operation)
    ]
    if done:
        reached, oracle = (
            fmean(float(one[name]) for one in done) for name in ("oosa", "oracle")
        )
        alphas = sorted({float(one.get("alpha", 0.5)) for one in done})
        weight = " or ".join(f"{alpha:g}" for alpha in alphas)
        over = "" if len(done) == 1 else f" (means of {len(done)} runs)"
        texts.append(
            (
                "With its threshold, chosen on calibration data, ",
                best,
                f" has an open-set accuracy (α = {weight}) of {reached:.4f}; with the "
                f"best threshold for the test samples (oracle) it has "
                f"{oracle:.4f}{over}.",
            )
        )
    if not any(view.figures for view in views):
        texts.append(("No test scores were saved, so there are no figures.", "", ""))
    return texts


def _lead_over_runs(
    data: ReportData, leader: str, headline: str
) -> list[tuple[str, str, str]]:
    """Test the best method against all others, over the runs they share."""
    having = [run for run in data.runs if headline in run.values]
    runs: dict[str, set[Any]] = {run.method: set() for run in having}
    for run in having:
        runs[run.method].add(run.place)
    shared = runs.get(leader, set())
    results = Results(
        Result(
            protocol=run.protocol,
            repeat=run.repeat[0],
            split=run.split,
            seed=run.repeat[1],
            detector=run.method,
            metric=headline,
            value=run.values[headline].value,
        )
        for run in having
        if shared <= runs[run.method] and run.place in shared
    )
    if len(set(results.column("detector"))) < 2:
        return []
    tests = paired_t(results, headline, against=leader, pool=True)
    if tests[0].n < 3:
        return []
    # A leader by mean rank may be worse on average: that is no lead.
    sign = data.headings.sign(headline)
    equal = [
        one.b
        for one in tests
        if one.p_corrected is None
        or not (one.p_corrected < 0.05 and sign * one.difference < 0)
    ]
    how = f"(paired t-tests over {tests[0].over}, Holm's correction)"
    if not equal:
        others = "every other method"
        if len(tests) + 1 < len({run.method for run in data.runs}):
            others += " that has the same runs"
        return [(f"The lead over {others} is significant {how}.", "", "")]
    names = ", ".join(readable(name, 40) for name in equal[:4])
    more = f" and {len(equal) - 4} more" if len(equal) > 4 else ""
    return [("The lead over ", f"{names}{more}", f" is not significant {how}.")]


def _lead(
    data: ReportData,
    loaded: Mapping[str, Sequence[tuple[Run, Scores]]],
    leading: tuple[str, ...],
    headline: str,
) -> list[tuple[str, str, str]]:
    """Describe the lead over the runner-up, and whether it is significant."""
    if len({run.place for run in data.runs}) > 1:
        return _lead_over_runs(data, leading[0], headline)
    pairs = next(iter(loaded.values()), [])[:2]
    if len(pairs) < 2 or headline not in TESTED:
        return []
    if tuple(run.method for run, _ in pairs) != leading:
        return []  # one of the two has no scores: these are of other methods
    (_, first), (_, second) = pairs
    if not has_both(first):
        return []
    return _lead_on_samples(first, second, headline)


def _lead_on_samples(
    first: Scores, second: Scores, headline: str
) -> list[tuple[str, str, str]]:
    if seems_reordered(second, first):
        text = (
            "The lead is not tested: the samples of the two seem to be in different "
            "orders."
        )
        return [(text, "", "")]
    found = paired(first, second, headline)
    if found is None or not found.difference > 0:
        return []  # of different samples, or equal to the last digit shown
    span = found.interval
    verdict = "" if found.p_value < 0.05 else ": not significant"
    ends = f"{span.low:+.4f} to {span.high:+.4f}".replace("-", "\N{MINUS SIGN}")
    text = (
        f"On the same samples the lead is {found.difference:.4f} (95 % interval "
        f"{ends}, p = {found.p_value:.2g}){verdict}."
    )
    return [(text, "", "")]


def _with_spread(score: _leaderboard.Score) -> str:
    if score.spread is not None:
        return f"{score.mean:.4f} ± {score.spread:.4f} ({score.n} runs)"
    if score.low is not None and score.high is not None:
        return f"{score.mean:.4f} (95 % interval {score.low:.4f} – {score.high:.4f})"
    return f"{score.mean:.4f}"
