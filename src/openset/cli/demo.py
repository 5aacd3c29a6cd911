"""`openset demo`: real data, a small network, results in seconds."""

import shlex
import warnings
from pathlib import Path
from typing import Annotated

import typer

import openset
from openset.cli.evaluate import rows_of
from openset.cli.terminal import say, table

DETECTORS = ("msp", "maxlogit", "postmax", "openmax", "knn")


def command(
    seed: int = 0,
    out: Annotated[
        Path, typer.Option("--out", "-o", exists=False, file_okay=False)
    ] = Path("demo-output"),
) -> None:
    """Train a small network on handwritten digits and reject digits it has not seen.

    The data come with scikit-learn: nothing is downloaded.

        openset demo
        openset demo --seed 3 --out somewhere/

    Parameters
    ----------
    seed
        Random seed that chooses the known classes.
    out
        Folder for outputs, scores, the rejector and the report.
    """
    parts = openset.demo(seed)
    known = [name.removeprefix("digit ") for name in parts.train.classes]
    say(f"1. A small network learned the handwritten digits {', '.join(known)}. It has "
        "never seen the other four.")  # fmt: skip
    test = openset.Outputs.concat([parts.test, parts.surrogate, parts.unseen])
    say(f"2. It is tested on {len(parts.test)} new images of these digits and "
        f"{len(test) - len(parts.test)} of the others. {len(DETECTORS)} detectors "
        "score how known each image looks. Which one separates known from unknown, "
        "while known images are classified correctly?\n")  # fmt: skip
    fitted = {name: openset.detectors.make(name).fit(parts.train) for name in DETECTORS}
    scores = openset.detectors.score_all(fitted, test)
    found = {name: openset.evaluate(one) for name, one in scores.items()}
    table(rows_of({n: one.rows() for n, one in found.items()}, None, rivals=True))
    best, second = sorted(found, key=lambda name: -found[name]["openauc"])[:2]
    lead = openset.stats.compare(scores[best], scores[second])
    say(f"3. By OpenAUC {best} leads {second} by {lead.difference:.4f} (95 % interval "
        f"{lead.interval.low:+.4f} to {lead.interval.high:+.4f}, p = "
        f"{lead.p_value:.2g}, same images).")  # fmt: skip
    with warnings.catch_warnings():  # they are printed below
        warnings.simplefilter("ignore", openset.CalibrationWarning)
        rejector = openset.Rejector.calibrate(
            fitted["postmax"],
            known=parts.validation,
            surrogate=parts.surrogate,
            train=parts.train,
        )
    unseen = openset.Outputs.concat([parts.test, parts.unseen])
    done = rejector.operate(unseen)
    say(f"4. A threshold for PostMax is chosen on validation images and two of the "
        f"unknown digits, then tested with the other two: {done.ccr:.1%} of the known "
        f"images are accepted with the right class, {done.urr:.1%} of the unknown ones "
        f"are rejected. Operational open-set accuracy (alpha {done.alpha_test:g}): "
        f"{done.oosa:.3f}; with the best threshold for the test images it is "
        f"{done.oracle:.3f}.")  # fmt: skip
    if rejector.cautions:
        say("Codes name reasons why a threshold may fail on new data. Here:")
    for caution in rejector.cautions:
        say(f"{caution.code} {caution.message}", style="yellow")
    rejector.save(out / "rejector")
    for name, part in parts._asdict().items():
        part.save(out / f"{name}.npz")
    for name, one in openset.detectors.score_all(fitted, unseen).items():
        one.save(out / "scores" / f"{name}.npz")
    words = shlex.join([str(out / "rejector"), str(out / "unseen.npz")])
    say(f"5. The rejector is saved in {out / 'rejector'}, the outputs next to it. "
        f"Next: openset predict {words}")  # fmt: skip
    try:
        page = openset.report.write(out, out / "report.html")
    except openset.MissingExtraError as error:
        say(f"6. No report was written: {error}")
        return
    say(f"6. The report is {page}: open it in a browser and drag the threshold.")
