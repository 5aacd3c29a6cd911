"""What a report warns of: findings of the checks, and cautions of the thresholds."""

from dataclasses import dataclass

from openset import checks
from openset.checks import Finding
from openset.report._runs import ReportData
from openset.results import Result, Results
from openset.thresholds import Threshold
from openset.thresholds import report as report_on


def findings(data: ReportData) -> list[Finding]:
    """Run `openset.checks`; of many cells a sample is checked, which is reported."""
    if data.folder is not None:
        return checks.run_folder(data.folder)
    first = data.runs[0]
    if len(data.runs) == 1:
        return checks.run(
            scores=first.scores(), thresholds=first.threshold, headline=data.headline
        )
    # Scores of one run, which are compared sample by sample, and numbers of all.
    return checks.run(
        scores={
            one.method: one.scores() for one in data.runs if one.place == first.place
        },
        results=Results(
            Result(
                protocol=one.protocol,
                repeat=one.repeat[0],
                split=one.split,
                detector=one.method,
                seed=one.repeat[1],
                metric=key,
                value=value.value,
                n=one.n,
            )
            for one in data.runs
            for key, value in one.values.items()
        ),
        headline=data.headline,
    )


@dataclass(frozen=True)
class ThresholdCaution:
    """A caution about thresholds: its code, the methods it concerns, and an example."""

    code: str
    methods: tuple[str, ...]
    message: str


def cautions(data: ReportData) -> list[ThresholdCaution]:
    """Return the cautions of the thresholds chosen in the study, one row per code.

    They come from the saved calibration scores. CAL011 is left out: it needs the
    training outputs, which a study may not have kept.
    """
    found: dict[str, dict[str, str]] = {}
    for run in data.runs:
        calibration = run.calibration()
        if calibration is None or not isinstance(run.threshold, Threshold):
            continue
        for one in report_on(calibration, run.threshold).cautions:
            if one.code != "CAL011":
                found.setdefault(one.code, {}).setdefault(run.method, one.message)
    return [
        ThresholdCaution(code, tuple(of_method), next(iter(of_method.values())))
        for code, of_method in sorted(found.items())
    ]
