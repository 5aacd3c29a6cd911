"""`openset demo`: real data, a small network, results in seconds."""

import json
import shlex
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer
from numpy.typing import NDArray
from rich.markup import escape

import openset
from openset import _check, _io, thresholds
from openset._types import CalibrationWarning, MissingExtraError
from openset.cli._cautions import print_cautions
from openset.cli._console import OUT
from openset.cli._tables import show
from openset.digits import N_KNOWN, Demo
from openset.metrics import evaluate
from openset.outputs import Outputs
from openset.rejector import Rejector
from openset.runs import Cell
from openset.stats import compare

if TYPE_CHECKING:
    from openset.detectors import Fitted

DETECTORS = ("msp", "maxlogit", "postmax", "openmax", "knn")
# Enough for a first look; the report has all of them.
_METRICS = ("accuracy", "openauc", "auroc", "fpr_at_tpr", "ccr_at_fpr_0.1")

EPILOG = """[bold]Examples[/bold]

openset demo

openset demo --seed 3 --out somewhere/"""


def command(
    seed: Annotated[
        int, typer.Option(help="Random seed that chooses the known classes.")
    ] = 0,
    out: Annotated[
        Path, typer.Option(help="Folder for the rejector and the report.")
    ] = Path("demo-output"),
) -> None:
    """Train a small network on handwritten digits and reject digits it has not seen.

    The data come with scikit-learn: nothing is downloaded.
    """
    # Before the work starts: the path may be a file, or hold other data.
    if out.is_file():
        rule, got = "a folder", f"{out}, which is a file"
        msg = _check.must(rule, caller="openset demo", name="--out", got=got)
        raise NotADirectoryError(msg)
    out.mkdir(parents=True, exist_ok=True)
    order = np.random.default_rng(seed).permutation(10)
    known, others = np.sort(order[:N_KNOWN]), order[N_KNOWN:]
    _say(1, f"A small network learns the handwritten digits {_list(known)}. It never "
            "sees the other four digits.")  # fmt: skip
    parts = openset.demo(seed)
    both = Outputs.concat([parts.test, parts.surrogate, parts.unseen])
    n_unknown = len(both) - len(parts.test)
    _say(2, f"It is tested on {len(parts.test)} new images of the known digits and "
            f"{n_unknown} images of unknown digits.")  # fmt: skip
    fitted = {name: openset.detectors.make(name).fit(parts.train) for name in DETECTORS}
    scores = openset.detectors.score_all(fitted, both)
    evaluations = {
        name: evaluate(found, metrics=_METRICS) for name, found in scores.items()
    }
    _say(3, f"{len(fitted)} detectors score how known each image looks. Which one "
            "separates known from unknown, while known images are classified "
            "correctly?\n")  # fmt: skip
    title = "Digits, six known and four unknown classes"
    OUT.print(show(evaluations, title=title, rivals=True))
    best, second = sorted(evaluations, key=lambda n: -evaluations[n]["openauc"])[:2]
    lead = compare(scores[best], scores[second])
    _say(4, f"By OpenAUC {best} leads {second} by {lead.difference:.4f} (95 % interval "
            f"{lead.interval.low:+.4f} to {lead.interval.high:+.4f}, "
            f"p = {lead.p_value:.2g}, same images).")  # fmt: skip
    with warnings.catch_warnings():  # they are printed below
        warnings.simplefilter("ignore", CalibrationWarning)
        rejector = Rejector.calibrate(
            fitted["postmax"],
            known=parts.validation,
            surrogate=parts.surrogate,
            train=parts.train,
        )
    done = rejector.operate(Outputs.concat([parts.test, parts.unseen]))
    _say(5, f"A threshold for PostMax is chosen on {len(parts.validation)} validation "
            f"images and the unknown digits {_list(others[:2])}, then tested with the "
            f"unknown digits {_list(others[2:])}: {done.ccr:.1%} of the known images "
            f"are accepted with the right class, {done.urr:.1%} of the unknown ones "
            f"are rejected. Operational open-set accuracy (α = {done.alpha_test:g}): "
            f"{done.oosa:.3f}; with the best threshold for the test images it "
            f"is {done.oracle:.3f}.")  # fmt: skip
    print_cautions(rejector, OUT)
    rejector.save(out / "rejector")
    for name, part in parts._asdict().items():
        part.save(out / f"{name}.npz")
    words = [str(out / name) for name in ("rejector", "unseen.npz")]
    _say(
        6,
        f"The rejector is saved in {escape(words[0])}, the outputs next to it. Next: "
        f"[bold]openset predict {escape(shlex.join(words))}[/bold]",
    )
    with _io.replacing_folder(out / "digits-study") as study:
        write_study(fitted, parts, study, seed)
    try:
        page = openset.report.write(out / "digits-study", out / "report.html")
    except MissingExtraError as error:
        _say(7, f"No report was written: {escape(str(error))}")
        return
    _say(7, f"The report is {escape(str(page))}: open it in a browser and drag the "
            "threshold. It shows the five detectors, each with its own threshold, on "
            f"the unknown digits {_list(others[2:])}, which were not used to choose "
            "thresholds.")  # fmt: skip


def write_study(
    fitted: "Mapping[str, Fitted]", parts: Demo, folder: Path, seed: int
) -> None:
    """Write a run folder: detectors calibrated on surrogates, tested on others."""
    tested = Outputs.concat([parts.test, parts.unseen])
    chosen_on = Outputs.concat([parts.validation, parts.surrogate])
    for name, detector in fitted.items():
        test, calibration = detector.score(tested), detector.score(chosen_on)
        done = thresholds.operate(calibration, test, alpha=0.5)
        found = evaluate(test, done.threshold.value)
        rows = [
            {
                "metric": row["metric"],
                "value": row["value"],
                "low": row["low"],
                "high": row["high"],
                "n": len(test),
            }
            for row in found.rows()
        ]
        Cell(
            key={
                "protocol": "digits",
                "model": "mlp",
                "method": "",
                "detector": name,
                "seed": seed,
            },
            rows=rows,
            threshold=done.threshold.to_dict(),
            operation=done.to_dict(),
            classes=tuple(parts.train.classes),
        ).save(folder, scores=test, calibration=calibration)
    text = json.dumps({"headline": "openauc", "tuned_on": ["defaults"]}) + "\n"
    _io.put(folder / "study.json", text)


def _say(step: int, text: str) -> None:
    OUT.print(f"[bold]{step}.[/bold] {text}", highlight=False)


def _list(digits: NDArray[np.int64]) -> str:
    *head, last = map(str, digits)
    return f"{', '.join(head)} and {last}"
