"""Figures of the site: drawn by the build, on data that ship with scikit-learn."""

import functools
import tempfile
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

import openset as ops
from openset.cli import demo
from openset.digits import Demo

FIGURES: dict[str, Callable[[], str]] = {}


def figure(draw: Callable[[], str]) -> Callable[[], str]:
    """Offer a drawing to the pages, under the name of its function."""
    name = draw.__name__.replace("_", "-")
    FIGURES[name] = functools.cache(draw)
    return FIGURES[name]


def html(name: str) -> str:
    """Return the figure that a page asks for with ``<!-- figure: name -->``."""
    if name not in FIGURES:
        msg = f"figures: name must be one of {sorted(FIGURES)}, got {name!r}"
        raise KeyError(msg)
    return framed(FIGURES[name]())


def framed(svg: str) -> str:
    """Return a drawing as a block of HTML within Markdown."""
    return f'<figure class="drawn">{svg.replace(chr(10), "")}</figure>'


@functools.cache
def digits() -> Demo:
    """Return the outputs of the network of `openset demo`."""
    return ops.demo()


@functools.cache
def tested() -> ops.Outputs:
    """Return known and unknown digits the network has not seen."""
    return ops.Outputs.concat([digits().test, digits().unseen])


def scores(name: str) -> ops.Scores:
    """Return the scores of a detector on the digits."""
    return ops.detectors.make(name).fit(digits().train).score(tested())


@functools.cache
def rejector() -> ops.Rejector:
    """Return a rejector of unknown digits."""
    fitted = ops.detectors.make("maxlogit").fit(digits().train)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ops.CalibrationWarning)
        return ops.Rejector.calibrate(
            fitted, known=digits().validation, surrogate=digits().surrogate
        )


@figure
def knownness() -> str:
    """Known and unknown digits by their largest logit, with a threshold."""
    pooled = scores("maxlogit")
    pooled = ops.Scores(
        labels=pooled.labels, predicted=pooled.predicted, known=pooled.known
    )
    cut = float(rejector().threshold.value)
    return ops.report.histogram(pooled, bins=30, threshold=cut).svg()


@figure
def groups() -> str:
    """Draw the same with a curve for each kind of unknowns."""
    cut = float(rejector().threshold.value)
    return ops.report.histogram(scores("maxlogit"), bins=30, threshold=cut).svg()


@figure
def oracle() -> str:
    """Open-set accuracy at every threshold, the chosen one and the best one."""
    return ops.report.osa_over_urr(rejector().operate(tested())).svg()


def report() -> bytes:
    """Return the report that `openset demo` writes."""
    fitted = {name: ops.detectors.make(name).fit(digits().train)
              for name in demo.DETECTORS}  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        study = Path(folder) / "digits-study"
        demo.write_study(fitted, digits(), study, seed=0)
        return ops.report.write(study, Path(folder) / "report.html").read_bytes()


@functools.cache
def weak() -> ops.Scores:
    """Return scores of a classifier with few training samples, so that it errs."""
    from sklearn.datasets import load_digits  # slow to import
    from sklearn.linear_model import LogisticRegression

    images, labels = load_digits(return_X_y=True)
    labels = np.where(labels < 6, labels, ops.UNKNOWN)
    train = np.flatnonzero(labels >= 0)[:30]
    model = LogisticRegression(max_iter=1000).fit(images[train] / 16, labels[train])
    rest = np.setdiff1d(np.arange(labels.size), train)
    logits = model.decision_function(images[rest] / 16)
    return (
        ops.detectors.MaxLogit()
        .fit()
        .score(ops.Outputs(logits=logits, labels=labels[rest]))
    )


@functools.cache
def pair() -> dict[str, ops.Scores]:
    """Return two sets of scores with the same accuracy and the same AUROC.

    The second is Prop. 3 of the OpenAUC paper: the same values, but misclassified
    known samples have the highest ones.
    """
    good = weak()
    twin = ops.reproduce.consistency.twin(good, "acc_plus_auroc", threshold=0.0)
    return {"classifier A": good, "classifier B": twin.scores}


@figure
def two_classifiers_roc() -> str:
    """ROC curves: one lies on the other."""
    return ops.report.roc(pair()).svg()


@figure
def two_classifiers_oscr() -> str:
    """OSCR curves of the same two."""
    return ops.report.oscr(pair()).svg()


@figure
def two_classifiers_table() -> str:
    """Write the numbers of both."""
    wanted = {
        "accuracy": "accuracy",
        "auroc": "AUROC",
        "acc_plus_auroc": "accuracy + AUROC",
        "openauc": "OpenAUC",
        "ccr_at_fpr_0.1": "CCR at FPR 0.1",
    }
    results = {name: ops.evaluate(one) for name, one in pair().items()}
    head = "".join(f"<th>{name}</th>" for name in ["", *results])
    rows = [
        f"<tr><td>{label}</td>"
        + "".join(f"<td>{one[key]:.3f}</td>" for one in results.values())
        + "</tr>"
        for key, label in wanted.items()
    ]
    return (
        f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
    )


# Diagrams: small SVGs in the colours of the reports.
_TEXT = 'text-anchor="middle" class="os-ink"'


def _svg(width: int, height: int, parts: Sequence[str], label: str) -> str:
    style = (
        ops.report.oscr(pair()).svg().partition("<style>")[2].partition("</style>")[0]
    )
    return (
        f'<svg class="os-fig" xmlns="http://www.w3.org/2000/svg" role="img" '
        f'viewBox="0 0 {width} {height}" aria-label="{label}"><style>{style}</style>'
        + "".join(parts)
        + "</svg>"
    )


@figure
def pipeline() -> str:
    """From a network to a rejector."""
    boxes = [
        ("your network", "any framework"),
        ("Outputs", "logits, features"),
        ("detector", "22 methods"),
        ("Scores", "one knownness each"),
        ("threshold", "from calibration data"),
        ("Rejector", "class or “unknown”"),
    ]
    boxes[2] = ("detector", f"{len(ops.detectors.names())} methods")
    parts = []
    for i, (name, note) in enumerate(boxes):
        x, y = 10 + 200 * (i % 2), 10 + 90 * (i // 2)  # narrow: it fits a phone
        parts.append(
            f'<rect x="{x}" y="{y}" width="160" height="56" rx="8" fill="none" '
            f'stroke="var(--os-{1 if i in (1, 3, 5) else 0})" stroke-width="1.5"/>'
            f'<text x="{x + 80}" y="{y + 25}" {_TEXT} font-weight="600">{name}</text>'
            f'<text x="{x + 80}" y="{y + 43}" text-anchor="middle">{note}</text>'
        )
        arrows = {
            0: f"M{x + 164} {y + 28}h30m-6 -5l6 5l-6 5",
            1: f"M{x + 80} {y + 60}v12h-200v12m-5 -6l5 6l5 -6",
        }
        if i < len(boxes) - 1:
            parts.append(
                f'<path d="{arrows[i % 2]}" fill="none" '
                f'stroke="var(--os-soft)" stroke-width="1.5"/>'
            )
    return _svg(380, 260, parts, "From a network to a rejector")


@figure
def tasks() -> str:
    """Four tasks on the same samples: what each one must tell apart."""
    rng = np.random.default_rng(3)
    centres = {"a": (38, 45), "b": (92, 45), "c": (65, 98), "near": (116, 84),
               "far": (114, 22)}  # fmt: skip
    dots = {k: rng.normal(c, 6, (16, 2)) for k, c in centres.items()}
    hard = rng.normal((65, 46), 5, (5, 2))  # between two classes
    colour = {"a": 0, "b": 1, "c": 2, "near": 4, "far": 4}

    def drawn(kind: str, *, by_class: bool, shown: bool = True) -> str:
        if not shown:
            return ""
        if kind in {"near", "far"}:
            return "".join(
                f'<path d="M{x - 2:.1f} {y - 2:.1f}l4 4m-4 0l4 -4" '
                f'stroke="var(--os-4)" stroke-width="1.4"/>' for x, y in dots[kind]
            )  # fmt: skip
        fill = f"var(--os-{colour[kind] if by_class else 5})"
        return "".join(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.2" fill="{fill}"/>'
            for x, y in dots[kind]
        )

    panels = [
        ("open-set recognition", "which class, or none of them?", True, True),
        ("out-of-distribution", "from another source?", False, True),
        ("novelty detection", "unlike the normal samples?", False, True),
        ("selective prediction", "will the class be wrong?", True, False),
    ]
    parts = []
    for i, (title, question, by_class, unknown) in enumerate(panels):
        left, top = 10 + 200 * (i % 2), 38 + 175 * (i // 2)
        inside = "".join(drawn(k, by_class=by_class) for k in "abc")
        near = title != "out-of-distribution"
        inside += drawn("near", by_class=by_class, shown=unknown and near)
        inside += drawn("far", by_class=by_class, shown=unknown)
        ring = '<circle cx="{}" cy="{}" r="{}" fill="none" stroke="var(--os-soft)" stroke-dasharray="3 3"/>'
        if title == "open-set recognition":
            inside += "".join(ring.format(*centres[k], 20) for k in "abc")
        elif unknown:
            inside += ring.format(63, 62, 58)
        else:
            inside += "".join(
                f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.2" fill="var(--os-0)" '
                f'stroke="var(--os-4)" stroke-width="1.4"/>' for x, y in hard
            )  # fmt: skip
        parts.append(
            f'<g transform="translate({left} {top})"><rect width="140" height="124" '
            f'rx="6" fill="none" stroke="var(--os-line)"/>{inside}</g>'
            f'<text x="{left + 70}" y="{top - 20}" {_TEXT} font-weight="600">{title}</text>'
            f'<text x="{left + 70}" y="{top - 6}" text-anchor="middle" font-size="10">{question}</text>'
        )
    return _svg(360, 345, parts, "Four related tasks")


RESULTS = Path(__file__).parents[1] / "results"


@figure
def detectors_compared() -> str:
    """OpenAUC of every detector on four problems, read from the tables of the page."""
    page = (RESULTS / "detectors.md").read_text("utf-8")
    problems: dict[str, dict[str, float]] = {}
    title = ""
    for line in page.splitlines():
        if line.startswith("### "):
            title = line.removeprefix("### ")
            problems[title] = {}
        cells = [cell.strip(" *") for cell in line.strip("|").split("|")]
        if title and len(cells) > 1 and cells[0] in ops.detectors.names():
            problems[title][cells[0]] = float(cells[1])
    problems = {name: found for name, found in problems.items() if found}
    names = sorted(
        set.intersection(*(set(found) for found in problems.values())),
        key=lambda n: -sum(found[n] for found in problems.values()),
    )
    row, left, width = 15, 92, 470
    low = min(min(found.values()) for found in problems.values())
    low = np.floor(low * 10) / 10

    def x(value: float) -> float:
        return left + (value - low) / (1 - low) * width

    parts = [
        f'<path class="os-grid" d="M{x(tick):.1f} 30V{36 + row * len(names)}"/>'
        f'<text x="{x(tick):.1f}" y="{50 + row * len(names)}" '
        f'text-anchor="middle">{tick:.1f}</text>'
        for tick in np.arange(low, 1.01, 0.1)
    ]
    for j, name in enumerate(problems):
        parts.append(
            f'<circle cx="{left + 120 * j}" cy="14" r="4" fill="var(--os-{j})"/>'
            f'<text x="{left + 120 * j + 9}" y="18">{name}</text>'
        )
    for i, name in enumerate(names):
        y = 40 + row * i
        parts.append(
            f'<text x="{left - 8}" y="{y + 4}" text-anchor="end" class="os-ink">{name}</text>'
        )
        parts += [
            f'<circle cx="{x(found[name]):.1f}" cy="{y}" r="4" fill="var(--os-{j})"/>'
            for j, found in enumerate(problems.values())
        ]
    return _svg(
        580, 60 + row * len(names), parts, "OpenAUC of every detector on four problems"
    )


@figure
def recipes_compared() -> str:
    """OpenAUC of our recipe minus that of CE+, read from the table of the page."""
    page = (RESULTS / "training.md").read_text("utf-8")
    table = page.partition("<!-- recipes: start -->")[2].partition("<!-- recipes: end")[
        0
    ]
    rows = [[c.strip() for c in line.strip("|").split("|")]
            for line in table.splitlines() if line.startswith("| ") and "±" in line]  # fmt: skip
    left, scale, parts = 190, 100, []
    bottom = 24 + 30 * len(rows)
    for tick in (-0.5, 0, 1, 2, 3):
        x = left + tick * scale
        parts.append(
            f'<path class="os-{"axis" if tick == 0 else "grid"}" d="M{x} 14V{bottom}"/>'
            f'<text x="{x}" y="{bottom + 14}" text-anchor="middle">{tick:g}</text>'
        )
    for i, row in enumerate(rows):
        y = 30 + 30 * i
        value, half = (float(v) for v in row[4].split("±"))
        a, b = left + (value - half) * scale, left + (value + half) * scale
        parts.append(
            f'<text x="{left - 60}" y="{y + 4}" text-anchor="end" class="os-ink">'
            f"{row[0]} passes</text>"
            f'<path class="os-span" d="M{a:.1f} {y}H{b:.1f}"/>'
            f'<circle cx="{left + value * scale:.1f}" cy="{y}" r="5" fill="var(--os-0)"/>'
        )
    parts.append(
        f'<text x="{left - 50}" y="{bottom + 32}">points of OpenAUC above CE+ at equal cost, '
        "95 % interval</text>"
    )
    return _svg(560, bottom + 42, parts, "Our recipe against CE+")
