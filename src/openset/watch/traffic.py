"""`compare`: files of new samples, also those ``openset serve --log`` wrote."""

import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from openset import _check, _io
from openset.outputs import Outputs
from openset.scores import Scores
from openset.watch.verdict import Part, Verdict
from openset.watch.windows import Watch

if TYPE_CHECKING:
    from openset.rejector import Rejector


def compare(
    rejector: "Rejector",
    new: Sequence[str | Path],
    *,
    reference: str | Path | None = None,
    window: int | None = None,
    against: Literal["knowns", "all"] = "knowns",
    false_alarms: float = 0.01,
) -> dict[str, Verdict]:
    """Compare files of new samples with the calibration, or with a reference.

    Parameters
    ----------
    rejector
        The rejector in operation.
    new
        What :func:`read` takes: each is one window, named after the file.
    reference
        The same from normal operation; by default the known calibration samples.
    window
        Samples per window, of all files in turn; windows are named by the indices of
        their samples.
    against, false_alarms
        As in :class:`Watch`; ``"all"`` needs a `reference`.
    """
    if reference is not None:
        scores, features, _ = read(rejector, reference)
        with _io.naming(Path(reference)):
            watch = Watch(
                rejector.threshold,
                scores,
                features=features,
                against=against,
                false_alarms=false_alarms,
                rates=rejector.report.rates,
            )
    elif against == "knowns":
        watch = Watch.of(rejector, false_alarms=false_alarms)
    else:
        remedy = "The unknown samples of a calibration do not represent operation"
        _check.fail("watch", "reference", f"given with {against=}", None, remedy)
    parts = (read(rejector, path) for path in new)
    if window is not None:
        found = list(watch.stream(parts, window))
        if not found:
            rule, remedy = "filled", "Use a smaller window, or give more samples"
            _check.fail("watch", "a window", rule, f"window={window}", remedy)
        return {f"{one.start}…{one.start + one.n - 1}": one for one in found}
    names = [Path(path).name for path in new]
    if len(set(names)) < len(names):  # monday/a.npz and tuesday/a.npz
        names = list(map(str, new))
    return dict(zip(names, map(watch.check, parts), strict=True))


def read(rejector: "Rejector", path: str | Path) -> Part:
    """Read samples to compare: scores, or outputs, which the rejector scores.

    Samples that are invalid (NaN, or no single largest logit) are counted only.

    Parameters
    ----------
    rejector
        The rejector in operation.
    path
        A file of `Scores` or `Outputs`, a folder of outputs, or one that ``openset
        serve --log`` wrote (``traffic-*.npz``, read in the order of their names).

    Examples
    --------
    >>> import tempfile
    >>> from openset import detectors, Rejector
    >>> known = Outputs(logits=np.diag(np.arange(1.0, 41)), labels=range(40))
    >>> rejector = Rejector.calibrate(
    ...     detectors.MaxLogit().fit(known), known=known, objective="at_tpr"
    ... )
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     part = read(rejector, known.save(f"{folder}/today.npz"))
    >>> len(part.scores), part.n_invalid
    (40, 0)
    """
    path = Path(path)
    files = sorted(path.glob("traffic-*.npz")) if path.is_dir() else []
    if path.is_dir() and not files and not any(path.glob("*.npy")):
        rule = "a folder of outputs (.npy files), or of shards named traffic-*.npz"
        remedy = "Give the files in it instead, or rename them"
        _check.fail("watch.read", str(path), rule, "neither", remedy)
    found = [_part(rejector, file) for file in files or [path]]
    parts = [part for part in found if isinstance(part, Part)]
    if not parts:
        got = "invalid ones only (NaN, or no single largest logit)"
        _check.fail("watch.read", str(path), "samples with an answer", got)
    n_invalid = sum(part for part in found if isinstance(part, int))
    one = Part.joined(parts)
    return one._replace(n_invalid=one.n_invalid + n_invalid)


def _part(rejector: "Rejector", file: Path) -> Part | int:
    """Return the samples of a file; only their number if all are invalid."""
    if file.is_file():
        _check.ending("watch.read", file, (".npz", ".csv", ".parquet"))
    is_archive = file.suffix == ".npz" and zipfile.is_zipfile(file)
    if file.suffix in {".csv", ".parquet"} or (
        is_archive and "known.npy" in zipfile.ZipFile(file).namelist()
    ):
        return Part(Scores.load(file))
    outputs = Outputs.load(file, invalid="keep")
    with _io.naming(file), np.errstate(all="ignore"):  # of infinite numbers
        decided = rejector.decide(outputs, invalid="reject")
    if decided.is_invalid.all():
        return decided.n_invalid
    features = outputs.features
    if features is not None:
        features = np.asarray(features)[~decided.is_invalid]
    return Part(decided.scores(outputs.labels), features, decided.n_invalid)
