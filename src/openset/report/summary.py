"""The summary on top of the page: results, findings of the checks, cautions."""

from collections import Counter
from collections.abc import Iterable
from statistics import fmean
from typing import NamedTuple

from openset import checks, stats
from openset.checks import Finding
from openset.report.display import readable
from openset.report.leaderboard import average
from openset.report.read import Run, Study
from openset.report.views import View
from openset.stats import Leaderboard
from openset.thresholds import Threshold
from openset.thresholds import report as report_on


class Sentence(NamedTuple):
    """A sentence with a name to emphasise."""

    before: str
    name: str = ""
    after: str = ""


class ThresholdCaution(NamedTuple):
    """A caution about thresholds: its code, the methods it concerns, and an example."""

    code: str
    methods: tuple[str, ...]
    message: str


def counts(study: Study) -> list[str]:
    """Return the numbers of methods, problems, runs and cells, as text."""
    runs = study.runs
    if len(runs) == 1 and study.folder is None:
        return [f"{runs[0].n:,} samples"]
    texts = [
        _plural(len({run.method for run in runs}), "method"),
        _plural(len({run.place.protocol for run in runs}), "problem"),
    ]
    of_each = Counter((run.method, run.place.protocol) for run in runs).values()
    if max(of_each) > 1:  # repeats times seeds; problems may differ in their number
        most = f"{_plural(max(of_each), 'run')} of each"
        texts.append(most if len(set(of_each)) == 1 else f"up to {most}")
    noun = "file" if study.folder is None else "finished cell"
    texts.append(_plural(len(runs), noun))
    return [*texts, *[f"{study.n_failed:,} failed"][: study.n_failed]]


def _plural(n: int, noun: str) -> str:
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def sentences(study: Study, view: View, whole: Leaderboard | None) -> list[Sentence]:
    """Say who is best, whether the lead is significant, and what thresholds reach.

    `view` is that of the only problem, or of the first; `whole` is of all of them.
    """
    board = view.board
    headline = board.columns[0]
    name = study.label(headline)
    best = (board if whole is None else whole).rows[0]
    if whole is not None:
        place = f", mean rank {whole.ranks.mean[best]:.2f}" if whole.ranks else ""
        mean = f" is best: {average(best, whole):.4f} on average{place}."
        over = f"Over {len(whole.columns)} problems, by {name}, "
        texts = [Sentence(over, best, mean)]
    elif len(board.rows) == 1:
        texts = [Sentence("", best, f" reaches {name} {_reached(view, best)}.")]
    else:
        reached = f" is best with {_reached(view, best)}."
        texts = [Sentence(f"By {name}, ", best, reached)]
        second = board.rows[1]
        if (second, headline) in board.entries:
            reached = f" with {_reached(view, second)}."
            texts.append(Sentence("Next is ", second, reached))
    texts += _lead_over_runs(study, best, headline)
    if whole is None:
        texts += _lead_on_samples(view)
    return [*texts, *_operation(study, best)]


def _reached(view: View, method: str) -> str:
    entry = view.board.entries[method, view.board.columns[0]]
    if entry.spread is not None:
        return f"{entry.mean:.4f} ± {entry.spread:.4f} ({entry.n} runs)"
    if method in view.ends:
        low, high = view.ends[method]
        return f"{entry.mean:.4f} (95 % interval {low:.4f} – {high:.4f})"
    return f"{entry.mean:.4f}"


def _lead_over_runs(study: Study, leader: str, headline: str) -> Iterable[Sentence]:
    """Say whether the others are worse over the same runs, as the table marks it."""
    made = stats.leaderboard(study.results(), [headline])
    entries = {method: made.entries[method, headline] for method in made.rows}
    tested = [name for name, one in entries.items() if one.p_value is not None]
    if not tested or entries[leader].n < 3:
        return
    # A leader by mean rank may be worse on average: that is no lead.
    is_ahead = entries[leader].p_value is None
    equal = [name for name in tested if not (is_ahead and entries[name].is_worse)]
    how = "(paired t-tests over the same runs, Holm's correction)"
    if equal:
        names = ", ".join(readable(name, 40) for name in equal if name != leader)
        yield Sentence("The lead over ", names, f" is not significant {how}.")
    else:
        others = "every other method"
        others += " that can be tested" * (len(tested) < len(entries) - 1)
        yield Sentence(f"The lead over {others} is significant {how}.")


def _lead_on_samples(view: View) -> Iterable[Sentence]:
    """Say what the test of the two best on the same samples found."""
    tests = view.tests.brief.rows if view.tests else ()
    for a, b, difference, low, high, p_value, _ in tests:
        if (a, b) == view.board.rows[:2] and difference > 0:
            verdict = "" if p_value < 0.05 else ": not significant"
            ends = f"{low:+.4f} to {high:+.4f}".replace("-", "\N{MINUS SIGN}")
            yield Sentence(
                f"On the same samples the lead is {difference:.4f} (95 % interval "
                f"{ends}, p = {p_value:.2g}){verdict}."
            )


def _operation(study: Study, method: str) -> Iterable[Sentence]:
    """Say what the thresholds of a method reach on test samples."""
    mine = [run for run in study.runs if run.method == method]
    done = [
        (run.operation, run.alpha)
        for run in mine
        if run.operation is not None and {"oosa", "oracle"} <= set(run.operation)
    ]
    if not done:
        return
    reached = fmean(float(one["oosa"]) for one, _ in done)
    oracle = fmean(float(one["oracle"]) for one, _ in done)
    weight = " or ".join(f"{alpha:g}" for alpha in sorted({a for _, a in done}))
    over = "" if len(done) == 1 else f" (means of {len(done)} runs)"
    yield Sentence(
        "With its threshold, chosen on calibration data, ",
        method,
        f" has an open-set accuracy (α = {weight}) of {reached:.4f}; with the best "
        f"threshold for the test samples (oracle) it has {oracle:.4f}{over}.",
    )


def findings(study: Study) -> list[Finding]:
    """Run `openset.checks`; of many cells a sample is checked, which is reported."""
    if study.folder is not None:
        return checks.run_folder(study.folder)
    first, said = study.runs[0], {"headline": study.headline}
    if len(study.runs) == 1:
        return checks.run(scores=first.scores(), thresholds=first.threshold, **said)
    # Scores of one run, which are compared sample by sample, and numbers of all.
    sets = {one.method: one.scores() for one in study.runs if one.place == first.place}
    return checks.run(scores=sets, results=study.results(), **said)


def cautions(runs: Iterable[Run]) -> list[ThresholdCaution]:
    """Return the cautions of the thresholds chosen in the study, one row per code.

    They come from the saved calibration scores. CAL011 is left out: it needs the
    training outputs, which a study may not have kept.
    """
    found: dict[str, dict[str, str]] = {}
    for run in runs:
        calibration = run.calibration()
        if calibration is None or not isinstance(run.threshold, Threshold):
            continue
        for one in report_on(calibration, run.threshold).cautions:
            if one.code != "CAL011":
                found.setdefault(one.code, {}).setdefault(run.method, one.message)
    return [
        ThresholdCaution(code, tuple(of), next(iter(of.values())))
        for code, of in sorted(found.items())
    ]
