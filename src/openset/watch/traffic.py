"""`compare`: files of new samples, also those ``openset serve --log`` wrote."""

import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

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
        The same from normal operation, as in :class:`Watch`; by default the known
        calibration samples.
    window
        Samples per window, of all files in turn; windows are named by the indices of
        their samples.
    false_alarms
        As in :class:`Watch`.
    """
    if reference is None:
        watch = Watch.of(rejector, false_alarms=false_alarms)
    else:
        scores, features, _ = read(rejector, reference)
        with _io.naming(Path(reference)):
            watch = Watch(
                rejector.threshold,
                scores,
                features=features,
                false_alarms=false_alarms,
                rates=rejector.report.rates,
            )
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
    parts, n_invalid = [], 0
    for file in files or [path]:
        if _are_scores(file):
            parts.append(Part(Scores.load(file)))
            continue
        outputs = Outputs.load(file, invalid="keep")
        with _io.naming(file), np.errstate(all="ignore"):  # of infinite numbers
            decided = rejector.decide(outputs, invalid="reject")
        n_invalid += decided.n_invalid
        if decided.n_invalid < len(decided):
            features = outputs.features
            if features is not None:
                features = np.asarray(features)[~decided.is_invalid]
            parts.append(Part(decided.scores(outputs.labels), features))
    if not parts:
        got = "invalid ones only (NaN, or no single largest logit)"
        _check.fail("watch.read", str(path), "samples with an answer", got)
    return Part.joined(parts)._replace(n_invalid=n_invalid)


def _are_scores(file: Path) -> bool:
    is_archive = file.suffix == ".npz" and zipfile.is_zipfile(file)
    members = zipfile.ZipFile(file).namelist() if is_archive else ()
    return file.suffix in {".csv", ".parquet"} or "known.npy" in members
