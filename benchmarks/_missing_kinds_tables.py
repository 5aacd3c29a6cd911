"""Tables and the figure of `missing_kinds.py`, from rows of one case each."""

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

SURE = 2.0  # standard errors
FAILURE = 0.05  # of open-set accuracy below the oracle of the chosen detector
Row = dict[str, Any]


def by_network(rows: list[Row], value: Callable[[Row], float]) -> dict[str, float]:
    """Average over the cases of each network."""
    found = defaultdict(list)
    for row in rows:
        found[row["network"]].append(value(row))
    return {name: float(np.mean(values)) for name, values in found.items()}


def gains(rows: list[Row], usual: list[Row]) -> dict[str, tuple[float, float]]:
    """Give the mean gain of each network over a usual rule, and its standard error.

    The error is that of the test samples: open-set accuracy is half the share of known
    samples that are right and half that of unknown ones, so a mean over cases is a sum
    of means over samples. Thresholds count as given.
    """
    found = {}
    for name in dict.fromkeys(row["network"] for row in rows):
        pairs = [
            (row, base)
            for row, base in zip(rows, usual, strict=True)
            if row["network"] == name
        ]
        sides: dict[str, Any] = defaultdict(float)
        for row, base in pairs:
            for side, part in enumerate(("known", row["left out"])):
                more = row["right"][side].astype(float) - base["right"][side]
                sides[part] = sides[part] + more / (2 * len(pairs))
        found[name] = (
            sum(float(x.mean()) for x in sides.values()),
            sum(float(x.var(ddof=1)) / x.size for x in sides.values()) ** 0.5,
        )
    return found


def mean(rows: list[Row], value: Callable[[Row], float]) -> float:
    """Average over networks, of their averages over cases."""
    return float(np.mean(list(by_network(rows, value).values()))) if rows else np.nan


def failed(row: Row) -> bool:
    """Say whether the threshold is far below the oracle of its detector."""
    return row["gap"] > FAILURE


def covered(row: Row) -> bool:
    """Say whether the accuracy lies in the interval of the report."""
    return span(row).low <= row["oosa"] <= span(row).high


def span(row: Row) -> Any:
    """Give the interval of the report for a new kind."""
    return row["report"].new_kind.interval


def is_warned(row: Row) -> bool:
    """Say whether calibration gave any code."""
    return bool(row["report"].cautions)


def compared(named: dict[str, list[Row]]) -> str:
    """Write a table of rules: a row each."""
    lines = [
        "| rule | OOSA | gap | below the oracle of the best detector | failures "
        "| failures with 1, 2, 3+ kinds | gain over MSP: mean, worst network "
        "| gain over MaxLogit: mean, worst network "
        "| one kind, gain over MSP: worst network, cases below -0.01 |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, rows in named.items():
        one = [row for row in rows if row["given"] == 1]
        sizes = [
            [row for row in rows if min(row["given"], 3) == size] for size in (1, 2, 3)
        ]
        over = {
            other: by_network(rows, lambda row, o=other: row[f"over {o}"])
            for other in ("msp", "maxlogit")
        }
        cells = [
            name,
            *(f"{mean(rows, lambda r, k=k: r[k]):.3f}" for k in ("oosa", "gap")),
            f"{mean(rows, lambda row: row['to best']):.3f}",
            f"{mean(rows, failed):.1%}",
            ", ".join(f"{mean(size, failed):.1%}" for size in sizes),
            *(
                f"{np.mean(list(values.values())):+.3f}, {min(values.values()):+.3f} "
                f"({min(values, key=values.__getitem__)})"
                for values in over.values()
            ),
            f"{min(by_network(one, lambda row: row['over msp']).values()):+.3f}, "
            f"{mean(one, lambda row: row['over msp'] < -0.01):.0%}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def expected(rows: list[Row]) -> str:
    """Compare the reports with what was reached, by the number of distinct kinds."""
    lines = [
        "| distinct kinds | cases | interval covers | result below it | mean width "
        "| failures | cases without a code | failures among them | failures with a "
        "code |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    sizes = sorted({len(row["report"].kinds) for row in rows})
    for size in [*sizes, 0]:
        mine = [r for r in rows if size in {0, len(r["report"].kinds)}]
        silent = [row for row in mine if not is_warned(row)]
        warned = [row for row in mine if is_warned(row)]
        share = mean(mine, lambda row: not is_warned(row))
        cells = [
            str(size or "all"),
            str(len(mine)),
            f"{mean(mine, covered):.1%}",
            f"{mean(mine, lambda row: row['oosa'] < span(row).low):.1%}",
            f"{mean(mine, lambda row: span(row).high - span(row).low):.2f}",
            f"{mean(mine, failed):.1%}",
            f"{share:.0%} ({len(silent)})",
            _share(silent),
            _share(warned),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    unsaid = mean(rows, lambda row: failed(row) and not is_warned(row))
    lines += ["", f"Failures without a code: {unsaid:.1%} of all cases."]
    return "\n".join(lines)


def _share(rows: list[Row]) -> str:
    n = sum(map(failed, rows))
    return f"{n / len(rows):.1%} ({n})" if rows else "-"


def codes(rows: list[Row]) -> str:
    """Write how often thresholds fail with and without each code."""
    lines = [
        "| code | cases with it | failures with it | without |",
        "|---|---|---|---|",
    ]
    for code in sorted({code for row in rows for code in row["report"].codes}):
        with_it, without = (
            [row for row in rows if (code in row["report"].codes) == is_given]
            for is_given in (True, False)
        )
        share = mean(rows, lambda row, c=code: c in row["report"].codes)
        lines.append(
            f"| {code} | {share:.0%} | {_share(with_it)} | {_share(without)} |"
        )
    return "\n".join(lines)


def draw(rows: list[Row], path: Path) -> None:
    """Plot open-set accuracy reached against expected, one dot per case."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(6, 6), layout="constrained")
    for has_code, colour, label in (
        (True, "#d9a441", "with a code"),
        (False, "#2b6cb0", "without a code"),
    ):
        mine = [row for row in rows if is_warned(row) == has_code]
        x = [row["report"].new_kind.value for row in mine]
        y = [row["oosa"] for row in mine]
        axes.scatter(x, y, s=7, alpha=0.5, color=colour, label=label, linewidths=0)
    lost = [row for row in rows if failed(row)]
    axes.scatter(
        [row["report"].new_kind.value for row in lost],
        [row["oosa"] for row in lost],
        s=26,
        facecolors="none",
        edgecolors="#c53030",
        linewidths=0.7,
        label="more than 0.05 below its oracle",
    )
    axes.plot([0.3, 1], [0.3, 1], color="#718096", linewidth=0.8)
    axes.set(
        xlim=(0.3, 1),
        ylim=(0.3, 1),
        xlabel="expected by the report: OOSA on a new kind",
        ylabel="reached on the kind left out",
    )
    axes.legend(loc="upper left", frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150, metadata={"Software": None})
    plt.close(figure)


def aims(found: dict[str, list[Row]], usual: dict[str, list[Row]]) -> str:
    """Write what must be shown, and what is reached, a column per offer."""
    table: dict[str, list[str]] = defaultdict(list)
    for rows in found.values():
        for rule, base in usual.items():
            over = gains(rows, base)
            values = [value for value, _ in over.values()]
            below = sum(value < -SURE * error for value, error in over.values())
            label = rule.removeprefix("always ")
            gain = f"gain in OOSA over always {label}"
            table[f"{gain}, mean over networks (aim: above 0)"].append(
                f"{np.mean(values):+.3f}"
            )
            table[f"{gain}, worst network (aim: not below 0)"].append(
                f"{min(values):+.3f}"
            )
            table[
                f"networks below always {label} by more than the noise of the test "
                "samples (two standard errors)"
            ].append(f"{below} of {len(values)}")
            table[f"networks more than 0.005 below always {label}"].append(
                f"{sum(value < -0.005 for value in values)} of {len(values)}"
            )
        one = [row for row in rows if row["given"] == 1]
        over = by_network(one, lambda row: row["over msp"])
        table[
            "gain in OOSA over always MSP, calibrated with one kind, worst network "
            "(aim: −0.01)"
        ].append(f"{min(over.values()):+.3f}")
        silent = [row for row in rows if not is_warned(row)]
        table[
            "cases more than 0.05 below the oracle, without a code (aim: at most 5 %)"
        ].append(f"{mean(rows, lambda r: failed(r) and not is_warned(r)):.1%}")
        table["the same, as a share of the cases without a code"].append(
            f"{np.mean([failed(row) for row in silent]):.1%}"
        )
        table["coverage of the 90 % interval (aim: 85–95 %)"].append(
            f"{mean(rows, covered):.1%}"
        )
    lines = [f"| | {' | '.join(found)} |", f"|---|{'---|' * len(found)}"]
    lines += [f"| {label} | {' | '.join(cells)} |" for label, cells in table.items()]
    return "\n".join(lines)
