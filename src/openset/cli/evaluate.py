"""`openset evaluate`."""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

import openset
from openset import _io
from openset.cli.options import (
    HigherIsUnknown,
    Json,
    Out,
    keep_inputs,
    read,
    reading,
    refuse,
)
from openset.cli.terminal import (
    Best,
    Bold,
    Number,
    Rows,
    deliver,
    say,
    table,
)

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
    higher_is_unknown: HigherIsUnknown = False,
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
    keep_inputs(out, *paths, calibration)
    how = reading(columns, unknown_label, higher_is_unknown=higher_is_unknown)
    if sketch:
        _sketch(paths, threshold, how, as_json=as_json, out=out)
        return
    scores = openset.Scores.load(paths[0], **how)
    done: Any = None
    at: Any = threshold
    if calibration:
        chosen_on = openset.Scores.load(calibration, **how)
        options = {"alpha": read(alpha), "level": level}
        done = openset.thresholds.operate(chosen_on, scores, **options)
        at = done.threshold
    options = {"metrics": computed(metric), "bootstrap": bootstrap}
    with _io.naming(paths[0]):
        whole = openset.evaluate(scores, at, level, **options)
    sets, operations = {"all": whole}, {"all": done.to_dict() if done else None}
    of_groups = {row["group"]: row for row in done.groups} if done else {}
    if groups:
        parts = openset.metrics.by_group(scores, at, level, **options)
        for group, part in parts.items():
            name = group or "no group"
            while name in sets:  # a group called "all" is not the set of all samples
                name = f"group {name}"
            sets[name], operations[name] = part, of_groups.get(group)
    documents = {name: json.loads(one.to_json()) for name, one in sets.items()}
    found = {name: one.rows() for name, one in sets.items()}
    if done:
        documents["all"]["operation"] = operations["all"]
        for name, operation in operations.items():
            found[name].append(record_of(operation, done.alpha_test))
    document = documents if groups else documents["all"]
    if as_json or out is not None:
        rows = [{"set": name, **row} for name, of in found.items() for row in of]
        deliver(out, rows, document, rows_of(found, metric, percent=True))
        return
    title = (
        f"{paths[0].name}: {whole.n_known} known samples of {scores.classes.size} "
        f"classes, {whole.n_unknown} unknown"
    )
    if whole.threshold is not None:
        title += f", threshold {whole.threshold:g}"
    table(
        rows_of(found, metric) if groups else _in_sections(found["all"], level), title
    )
    for note in whole.notes:
        say(f"note: {note}", style="dim")


def computed(metrics: Sequence[str] | None) -> list[str] | None:
    """Return the metrics that `openset.evaluate` computes; None: all."""
    return [one for one in metrics or () if one != "oosa"] or None


def record_of(operation: Any, alpha: float) -> dict[str, Any]:
    """Return the operational open-set accuracy as a record like those of metrics."""
    key = "oosa" if alpha == 0.5 else f"oosa:alpha={alpha:g}"
    ends = {end: operation[end] for end in ("low", "high")}
    return {"metric": key, "value": operation["oosa"], **ends, "method": "Wilson"}


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


def _cell(row: Mapping[str, Any], in_percent: bool, goal: str) -> Number:  # noqa: FBT001
    text = _number(row["value"], in_percent)
    kind = Best if text == goal else Number
    if row["low"] is None:
        return kind(text)
    half = (row["high"] - row["low"]) / 2 * (100 if in_percent else 1)
    digits = ".1f" if in_percent else ".3f"
    # Of many samples: ±0.000 would look exact.
    is_shown = half == 0 or float(f"{half:{digits}}") > 0
    return kind(f"{text} ±{half:{digits if is_shown else '.1g'}}")


def _number(value: float, in_percent: bool) -> str:  # noqa: FBT001
    return f"{100 * value:.1f}" if in_percent else f"{value:.4f}"


def _in_sections(found: Rows, level: float) -> list[dict[str, Any]]:
    """Return all metrics of one set, under headings."""
    values, interval = (
        {row["metric"]: row for row in found},
        f"{100 * level:g}% interval",
    )
    rows = []
    for section, metrics in openset.metrics.sections(values).items():
        rows.append({"metric": Bold(section), "value": "", interval: ""})
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
        row["low"] = Number(f"{math.floor(row['low'] * 1e6) / 1e6:.6f}")
        row["high"] = Number(f"{math.ceil(row['high'] * 1e6) / 1e6:.6f}")
    counts = f"{sketch.n_known} known samples, {sketch.n_unknown} unknown"
    table(rows, f"{', '.join(path.name for path in paths)}: {counts}")
