"""The model card of a rejector: Markdown with a YAML head, as the hub shows it."""

from collections.abc import Iterable
from typing import Any

from openset._safe_text import visible
from openset._version import __version__
from openset.detectors import Fitted
from openset.thresholds import Report, Threshold

_SHOWN = 50  # classes, and groups of unknowns

_HEAD = """---
library_name: openset
tags:
- open-set-recognition
- out-of-distribution-detection
- openset-rejector
---"""


def card(
    fitted: Fitted,
    threshold: Threshold,
    report: Report,
    *,
    classes: tuple[str, ...],
    repo: str = "",
) -> str:
    """Return the text of the card; the same rejector gives the same text."""
    detector, widths = fitted.detector, fitted.widths
    sizes = {"n_classes": "classes", "n_features": "features"}
    facts = {
        "detector": f"`{_plain(repr(detector))}`",
        "outputs it was fitted on": ", ".join(
            f"{n} {sizes.get(what, what)}" for what, n in widths.items() if n
        )
        or "none",
        "objective": f"`{threshold.method}`",
        "target": (
            None
            if threshold.target in {None, threshold.alpha}
            else f"{threshold.target:g}"
        ),
        "α, the weight of known samples": (
            None if threshold.alpha is None else f"{threshold.alpha:g}"
        ),
        "threshold on knownness": _threshold(threshold),
        "equivalent thresholds": (
            f"({threshold.interval.low:.6g}, {threshold.interval.high:.6g}]"
        ),
        f"{threshold.rate.name} on the calibration samples": _rate(threshold),
        "calibration samples": (
            f"{threshold.n.known} known, {threshold.n.unknown} unknown"
        ),
        "known samples accepted": f"{report.accepted_known:.1%}",
        "unknown samples rejected": (
            None if report.urr is None else f"{report.urr:.1%}"
        ),
        "cautions": ", ".join(report.codes) or "none",
        "written by": f"openset {__version__}",
    }
    parts = [
        _HEAD,
        f"# {_plain(repo) or 'Open-set rejector'}",
        "Decides for each output of a classifier: one of its classes, or unknown. A "
        "sample is accepted if its knownness is at least the threshold. It only "
        "works with the classifier it was calibrated on.",
        "## What it is",
        _table(["", ""], [[k, v] for k, v in facts.items() if v is not None]),
        "## How to use it",
        _use(fitted, repo or "this-folder"),
        *_unknowns(report),
        "## Cautions",
        "\n".join(f"- {_plain(str(one))}" for one in report.cautions)
        or "The calibration found no sign that the threshold may not work on new data.",
        *_classes(classes),
        "The numbers above are results on the calibration samples, on which the "
        "threshold was chosen. They are not test results: measure on your own "
        "samples with `rejector.operate(test)`.",
    ]
    return "\n\n".join(parts) + "\n"


def _use(fitted: Fitted, place: str) -> str:
    # The class is that of the logits, whatever the score uses.
    names = dict.fromkeys(["logits", *fitted.detector.score_needs])
    needs = ", ".join(f"{name}={name}" for name in names)
    return (
        "```python\n"
        "import openset as ops\n\n"
        f"rejector = ops.Rejector.from_hub({_plain(place)!r})\n"
        f"rejector.predict(ops.Outputs({needs}))  # a class index, or -1 for unknown\n"
        "```\n\n"
        'Needs `pip install "openset[hub]"`. In the shell: `openset predict FOLDER '
        "new.npz`, `openset serve FOLDER`."
    )


def _threshold(threshold: Threshold) -> str:
    more = " (and one per class)" if threshold.per_class else ""
    return f"{threshold.value:.6g}{more}"


def _rate(threshold: Threshold) -> str:
    rate, span = threshold.rate, threshold.rate.interval
    if span is None:
        return f"{rate.value:.4f}"
    return f"{rate.value:.4f} ({span.low:.4f}–{span.high:.4f}, {span.level:.0%})"


def _unknowns(report: Report) -> list[str]:
    if not len(report.groups):
        return []
    rows = [
        [
            row["group"] or "(unnamed)",
            row["n"],
            f"{row['urr']:.1%}",
            f"{row['osa']:.4f}",
        ]
        for row in list(report.groups)[:_SHOWN]
    ]
    head = ["group of unknowns", "samples", "rejected", "open-set accuracy"]
    made = ["## Unknown samples it was calibrated on", _table(head, rows)]
    if report.synthetic:
        made.append(f"Synthetic: {', '.join(map(_plain, report.synthetic))}.")
    return made


def _classes(classes: tuple[str, ...]) -> list[str]:
    if not classes:
        return []
    more = f" and {len(classes) - _SHOWN} more" if len(classes) > _SHOWN else ""
    names = ", ".join(map(_plain, classes[:_SHOWN]))
    return ["## Classes", f"{len(classes)}: {names}{more}"]


def _table(head: list[str], rows: Iterable[list[Any]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(_plain(c) for c in line)} |" for line in lines)


def _plain(value: Any) -> str:
    """Return text that is neither a table's border, nor HTML, nor a line of its own."""
    text = visible(str(value)).replace("\n", " ").replace("\t", " ")
    return text.replace("|", "\\|").replace("<", "&lt;")
