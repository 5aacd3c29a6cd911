"""A network of a study: trained once; its outputs are saved for all detectors."""

import json
import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import Any

from openset import _check, _extras, _io
from openset._types import ArtefactError
from openset.bench import _models, _protocols, _test_splits
from openset.bench._plan import OutputsSource, folder_of
from openset.bench._provenance import Provenance
from openset.bench._study import Model, NetworkModel, ProtocolEntry
from openset.datasets import Cut
from openset.outputs import Outputs
from openset.protocols import Protocol

_NOTE = "network.json"


def make(
    source: OutputsSource,
    protocol: Protocol,
    run: Path,
    *,
    base: Path,
    root: Path,
    unfinished: Path,
) -> None:
    """Train a network and write its outputs, unless they exist.

    The folder is written atomically, with a list of its files. Interrupted training
    continues from the checkpoint in `unfinished`.
    """
    path = folder_of(source, run, base)
    if is_complete(path):
        return
    try:
        with _io.replacing_folder(path, sealed=True) as temporary:
            provenance = Provenance()
            note = _fill(temporary, source, protocol, unfinished, base=base, root=root)
            record = provenance.record(seed=source.seed, protocol_hash=protocol.hash)
            note |= {"key": source.key, "provenance": record}
            (temporary / _NOTE).write_text(json.dumps(note, indent=1), encoding="utf-8")
    except OSError:
        # A worker of an earlier, killed run may have finished first; its outputs are
        # the same.
        if not is_complete(path):
            raise
    shutil.rmtree(unfinished, ignore_errors=True)
    with suppress(OSError):  # other networks may still be in training
        unfinished.parent.rmdir()
        unfinished.parent.parent.rmdir()


def is_complete(folder: Path, *, content: bool = True) -> bool:
    """Whether the outputs of a network are complete, according to its list of files."""
    return folder.exists() and not _io.unsealed(folder, content=content)


def check(folder: Path) -> None:
    """Raise if a file of a network's outputs is missing or has another size."""
    wrong = _io.unsealed(folder, content=False)
    if wrong:
        msg = (
            f"bench: {folder} must be complete, got {wrong}. Run the same command "
            "again: the next run trains the network again"
        )
        raise ArtefactError(msg)


def _fill(
    folder: Path,
    source: OutputsSource,
    protocol: Protocol,
    unfinished: Path,
    *,
    base: Path,
    root: Path,
) -> dict[str, Any]:
    """Write the outputs of every part; return further results to save."""
    entry, model = _described(source)
    cut = _cut(source, protocol, base, root)
    if source.fold is None and protocol.n_tests > 1:
        splits = _protocols.test_splits(entry, protocol, base, root)
        _test_splits.save(_test_splits.of_samples(cut.test, splits), folder)
    if isinstance(model, NetworkModel):
        return _train(folder, source, cut, unfinished)
    for part, outputs in _models.fit(model, cut, source.seed).items():
        outputs.save(folder / part)
    return {"curve": None}


def _described(source: OutputsSource) -> tuple[ProtocolEntry, Model]:
    if source.entry is None or source.model is None:
        msg = f"bench: {source.key} must name an entry and a model"
        raise TypeError(msg)
    return source.entry, source.model


def _cut(source: OutputsSource, protocol: Protocol, base: Path, root: Path) -> Cut:
    """Return the samples of a network, with the negatives it is trained with."""
    entry, model = _described(source)
    negatives = model.negatives if isinstance(model, NetworkModel) else ""
    return _protocols.cut(
        entry, protocol, base, root, fold=source.fold, negatives=negatives
    )


def make_together(
    pairs: Sequence[tuple[OutputsSource, Protocol]],
    training: Path,
    *,
    base: Path,
    root: Path,
) -> None:
    """Train networks of one model at the same time; :func:`make` then writes them.

    They end in the folder `training`, where :func:`make` finds them finished.
    """
    train: Any = _extras.optional("bench", "openset.train", name="torch")
    names = {field.name for field in fields(train.Execution)}
    model: Any = pairs[0][0].model
    of_run = {key: value for key, value in model.settings.items() if key in names}
    cuts: dict[tuple[str, int], Cut] = {}
    jobs = []
    for source, protocol in pairs:
        key = source.key["protocol"], source.repeat
        if key not in cuts:
            cuts[key] = _cut(source, protocol, base, root)
        settings = _settings(source, cuts[key], training / source.id)
        jobs.append(
            train.Job.of(**{k: v for k, v in settings.items() if k not in names})
        )
    train.fit_jobs(jobs, train.Execution(progress=False, **of_run))


def _settings(source: OutputsSource, cut: Cut, unfinished: Path) -> dict[str, Any]:
    """Return the keywords of `openset.train.fit`."""
    method, model = source.method, source.model
    return {
        "method": "softmax" if method is None else method.name,
        "options": {} if method is None else method.params,
        "data": cut,
        "seed": source.seed,
        "out": unfinished,
        "progress": False,
        **getattr(model, "settings", {}),
    }


def _train(
    folder: Path, source: OutputsSource, cut: Cut, unfinished: Path
) -> dict[str, Any]:
    """Train with `openset.train`; keep the curves of the test part, if recorded."""
    train: Any = _extras.optional("bench", "openset.train", name="torch")
    done = train.fit(**_settings(source, cut, unfinished))
    for name, outputs in done.outputs.items():
        outputs.save(folder / name)
        done.published[name].save(published_scores(folder, name))
    curve = [
        {"epoch": line["epoch"] + 1, "loss": line["loss"]}
        | {k.removeprefix("test_"): v for k, v in line.items() if k[:5] == "test_"}
        for line in done.log
        if "test_accuracy" in line
    ]
    return {"curve": curve or None}


def published_scores(folder: Path, name: str) -> Path:
    """Return the file with the published scores of a part."""
    return folder / "published" / f"{name}.npz"


def part(folder: Path, name: str) -> Outputs | None:
    """Load one part of a folder of outputs, if it exists."""
    for path in (folder / name, folder / f"{name}.npz"):
        if path.exists():
            return _load(path)
    return None


def _load(path: Path) -> Outputs:
    try:
        return Outputs.load(path)
    except ArtefactError as error:
        if not (path.parent / _NOTE).exists():  # the user's own file
            raise
        msg = f"{error}. Or delete {path.parent}: the next run trains it again"
        raise ArtefactError(msg) from error


def need(folder: Path, name: str) -> Outputs:
    """Load a part; raise if it does not exist."""
    found = part(folder, name)
    if found is None:
        rule = f"a folder with {name}.npz, or {name}/ of .npy files"
        got = "no such file" if folder.exists() else "no such folder"
        msg = _check.must(rule, caller="bench", name=str(folder), got=got)
        raise FileNotFoundError(msg)
    return found


def note(folder: Path) -> dict[str, Any]:
    """Return the further results saved with the outputs of a network."""
    path = folder / _NOTE
    if not path.exists():
        return {}
    try:
        return json.loads(path.read_text("utf-8"))
    except ValueError as error:
        msg = f"bench: {path} is damaged ({error}). Delete {folder} and run again"
        raise ArtefactError(msg) from error
