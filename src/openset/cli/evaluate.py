"""`openset evaluate`."""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

import openset
from openset import _io
from openset.cli.options import Json, Out, keep_inputs, read, reading, refuse
from openset.cli.terminal import Rows, deliver, number, say, table

ARROWS = {"higher": "↑", "lower": "↓", "neither": " "}


def command(
    paths: Annotated[list[Path], typer.Argument(metavar="SCORES")],
    threshold: float | None = None,
    calibration: Path | None = None,
    alpha: str = "0.5",
    groups: Annotated[bool, typer.Option("--groups")] = False,
    metric: list[str] | None = None,
    level: float = 0.95,
    bootstrap: int = 0,
    sketch: Annotated[bool, typer.Option("--sketch")] = False,
    columns: str = "",
    unknown_label: str | None = None,
    higher_is_unknown: Annotated[bool, typer.Option("--higher-is-unknown")] = False,
    as_json: Json = False,
    out: Out = None,
) -> None:
    """Print all metrics of a file of scores, with confidence intervals.

    With --calibration, the scores of the same detector on other samples, the threshold
    is chosen there, and operational open-set accuracy (OOSA) is reported, too.

        openset evaluate scores.npz --threshold 0.7 --bootstrap 1000
        openset evaluate scores.npz --calibration calibration-scores.npz
        openset evaluate scores.csv --groups --out table.tex
        openset evaluate theirs.csv --columns labels=y,known=energy --higher-is-unknown --unknown-label oos
        openset evaluate scores-monday.npz scores-tuesday.npz --sketch

    Parameters
    ----------
    paths
        Scores as .npz, .csv or .parquet, with columns labels (-1 or unknown for unknown
        samples), predicted, known and optionally groups and ids. Several files need
        --sketch.
    threshold
        Also report metrics at this threshold: samples with known >= threshold are
        accepted. Choose it on other data.
    groups
        Show one row per group of unknown samples.
    bootstrap
        Number of resampled data sets, for intervals of metrics without a formula for
        one; 0: none.
    sketch
        For scores that do not fit into memory: read one file after the other, and show
        a lower and an upper bound of each metric.
    """  # noqa: E501  # commands can be pasted
    several = "several files need --sketch, to be one set; or use openset compare"
    refuse(len(paths) > 1 and not sketch, several)
    others = calibration or groups or metric or bootstrap or level != 0.95
    refuse(sketch and others, "--sketch is for --threshold, --json and --out only")
    both = calibration and threshold is not None
    refuse(both, "--calibration chooses the threshold: give no --threshold")
    refuse(alpha != "0.5" and not calibration, "--alpha needs --calibration")
    keep_inputs(out, *paths, calibration)
    how = reading(columns, unknown_label, higher_is_unknown=higher_is_unknown)
    if sketch:
        _sketch(paths, threshold, how, as_json=as_json, out=out)
        return
    scores = openset.Scores.load(paths[0], **how)
    options: Any = {"metrics": computed(metric), "bootstrap": bootstrap}
    done: Any = None
    with _io.naming(paths[0]):
        if calibration:
            chosen_on = openset.Scores.load(calibration, **how)
            weight: Any = read(alpha)
            done = openset.thresholds.operate(
                chosen_on, scores, alpha=weight, level=level
            )
        at = done.threshold if done else threshold
        whole = openset.evaluate(scores, at, level, **options)
        by_group = openset.metrics.by_group
        parts = by_group(scores, at, level, **options) if groups else {}
    sets = {"all": facts(whole, done)}
    for group, part in parts.items():
        name = group or "no group"
        while name in sets:  # a group called "all" is not the set of all samples
            name = f"group {name}"
        sets[name] = facts(part, done, group)
    found = {name: rows for name, (rows, _) in sets.items()}
    if as_json or out is not None:
        rows = [{"set": name, **row} for name, of in found.items() for row in of]
        documents = {name: document for name, (_, document) in sets.items()}
        document = documents if groups else documents["all"]
        deliver(out, rows, document, rows_of(found, metric, percent=True))
        return
    title = (
        f"{paths[0].name}: {scores.n_known} known samples of {scores.classes.size} "
        f"classes, {scores.n_unknown} unknown"
    )
    if whole.threshold is not None:
        title += f", threshold {whole.threshold:g}"
    shown = rows_of(found, metric) if groups else _in_sections(found["all"], level)
    table(shown, title)
    for note in whole.notes:
        say(f"note: {note}", style="dim")


def computed(metrics: Sequence[str] | None) -> list[str] | None:
    """Return the metrics that `openset.evaluate` computes; None: all."""
    return [one for one in metrics or () if one != "oosa"] or None


def facts(
    evaluation: Any, done: Any = None, group: str | None = None
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return all metrics as rows and as JSON, with OOSA of a threshold in operation."""
    rows, document = evaluation.rows(), json.loads(evaluation.to_json())
    if done:
        of_groups = (row for row in done.groups if row["group"] == group)
        one = done.to_dict() if group is None else next(of_groups)
        alpha = "" if done.alpha_test == 0.5 else f":alpha={done.alpha_test:g}"
        ends = {end: one[end] for end in ("low", "high")}
        row = {"metric": f"oosa{alpha}", "value": one["oosa"], **ends}
        rows.append(row | {"method": "Wilson"})
        document["operation"] = one
    return rows, document


def rows_of(
    sets: Mapping[str, Rows],
    metrics: Sequence[str] | None,
    *,
    percent: bool = False,
    rivals: bool = False,
) -> list[dict[str, Any]]:
    """Return a row per set and a column per metric, with half of each interval.

    Of `rivals`, the best of each column is marked.
    """
    values = {name: {row["metric"]: row for row in of} for name, of in sets.items()}
    operated = [key for of in values.values() for key in of if key.startswith("oosa")]
    shown = [*(computed(metrics) or openset.stats.METRICS), *operated[:1]]
    rows: list[dict[str, Any]] = [{"": name} for name in sets]
    for metric in map(openset.metrics.get, shown):
        in_percent = percent and metric.bounds == (0.0, 1.0)
        head = f"{metric.short}{' (%)' * in_percent} {ARROWS[metric.better]}".rstrip()
        column = [of.get(metric.key) for of in values.values()]
        have = [one["value"] for one in column if one]
        best = {"higher": max, "lower": min}.get(metric.better) if rivals else None
        goal = _number(best(have), in_percent) if best and have else ""
        for row, one in zip(rows, column, strict=True):
            row[head] = None if one is None else _cell(one, in_percent, goal)
    return rows


def _cell(row: Mapping[str, Any], in_percent: bool, goal: str) -> Text:  # noqa: FBT001
    text = _number(row["value"], in_percent)
    style = "bold green" if text == goal else ""
    if row["low"] is None:
        return number(text, style)
    half, digits = (row["high"] - row["low"]) / 2, ".3f"
    if in_percent:
        half, digits = 100 * half, ".1f"
    if half and not float(f"{half:{digits}}"):
        digits = ".1g"  # of many samples: ±0.000 would look exact
    return number(f"{text} ±{half:{digits}}", style)


def _number(value: float, in_percent: bool) -> str:  # noqa: FBT001
    return f"{100 * value:.1f}" if in_percent else f"{value:.4f}"


def _in_sections(found: Rows, level: float) -> list[dict[str, Any]]:
    """Return all metrics of one set, under headings."""
    values = {row["metric"]: row for row in found}
    interval, rows = f"{100 * level:g}% interval", []
    for section, metrics in openset.metrics.sections(values).items():
        rows.append({"metric": Text(section, "bold"), "value": "", interval: ""})
        for metric in metrics:
            one = values[metric.key]
            span = "" if one["low"] is None else f"{one['low']:.4f}–{one['high']:.4f}"
            label = f" {ARROWS[metric.better]} {metric.label}"
            rows.append({"metric": label, "value": one["value"], interval: span})
    return rows


def _sketch(
    paths: Sequence[Path],
    threshold: float | None,
    how: Mapping[str, Any],
    *,
    as_json: bool,
    out: Path | None,
) -> None:
    """Count the scores of all files, one at a time, and show the brackets."""
    sketch = openset.metrics.Sketch()
    for path in paths:
        sketch.update(openset.Scores.load(path, **how))
    found = sketch.brackets(threshold)
    document = {
        "n_known": sketch.n_known,
        "n_unknown": sketch.n_unknown,
        "threshold": threshold,
        "brackets": {key: one._asdict() for key, one in found.items()},
    }
    rows = [{"metric": key, **one._asdict()} for key, one in found.items()]
    if as_json or out is not None:
        deliver(out, rows, document)
        return
    for row in rows:  # rounded such that the exact value stays inside
        row["low"] = number(f"{math.floor(row['low'] * 1e6) / 1e6:.6f}")
        row["high"] = number(f"{math.ceil(row['high'] * 1e6) / 1e6:.6f}")
    counts = f"{sketch.n_known} known samples, {sketch.n_unknown} unknown"
    table(rows, f"{', '.join(path.name for path in paths)}: {counts}")
