"""A folder with files of everything that commands read, and a way to run them."""

import json
import re

import numpy as np
import pytest
from typer.testing import CliRunner

from openset import Outputs, Rejector, detectors
from openset.cli import app, main

CENTRES = np.vstack([3 * np.eye(3, 6), np.eye(1, 6, k=4)])


def outputs(n, unknown, *, seed, kinds=("near", "far")):
    """Draw outputs of three classes; the unknown ones are of these kinds."""
    rng = np.random.default_rng(seed)
    labels = np.where(rng.random(n) < unknown, -1, np.arange(n) % 3)
    features = rng.normal(size=(n, 6)) + CENTRES[labels]
    return Outputs(
        logits=features[:, :3],
        features=features,
        labels=labels,
        groups=np.where(labels < 0, np.array(kinds)[np.arange(n) % len(kinds)], ""),
        ids=[f"{seed}-{i}" for i in range(n)],
        classes=("ant", "bee", "cat"),
    )


@pytest.fixture(scope="session")
def files(tmp_path_factory):
    """Write outputs, scores of three detectors (and of four seeds), and a rejector."""
    folder = tmp_path_factory.mktemp("files")
    train = outputs(300, 0, seed=0)
    parts = {
        "train": train,
        "val": outputs(200, 0, seed=1),
        "near": outputs(100, 1, seed=2, kinds=("near",)),
        "far": outputs(100, 1, seed=3, kinds=("far",)),
        "test": outputs(300, 0.4, seed=4),
        "calibration": outputs(300, 0.4, seed=5),
    }
    for name, part in parts.items():
        part.save(folder / f"{name}.npz")
    parts["test"].save(folder / "shards" / "a.npz")
    parts["calibration"].save(folder / "shards" / "b.npz")
    for name in ("msp", "knn", "energy"):
        fitted = detectors.make(name).fit(train)
        for part in ("test", "calibration"):
            fitted.score(parts[part]).save(folder / part / f"scores-{name}.npz")
        for seed in range(4):
            new = outputs(200, 0.4, seed=10 + seed)
            fitted.score(new).save(folder / "seeds" / f"{name}_{seed}.csv")
    unknown = Outputs.concat([parts["near"], parts["far"]])
    rejector = Rejector.calibrate(fitted, known=parts["val"], surrogate=unknown)
    rejector.save(folder / "rejector")
    return folder


@pytest.fixture
def run(files, monkeypatch):
    """Return a function that runs a command in the folder; it must succeed."""
    monkeypatch.chdir(files)

    def call(*words, code=0, stream="stdout"):
        result = CliRunner().invoke(app, list(map(str, words)), prog_name="openset")
        assert result.exit_code == code, (result.output, result.exception)
        return getattr(result, stream)

    return call


@pytest.fixture
def run_json(run):
    """Return a function that runs a command and reads its JSON."""
    return lambda *words, code=0: json.loads(run(*words, "--json", code=code))


@pytest.fixture
def fails(files, monkeypatch, capsys):
    """Return a function that runs a command, which must end with one error."""
    monkeypatch.chdir(files)

    def call(*words, code=2):
        with pytest.raises(SystemExit) as end:
            main(list(map(str, words)))
        found = capsys.readouterr()
        assert (end.value.code, found.out) == (code, "")
        assert "Traceback" not in found.err
        return " ".join(re.sub("[─│╭╮╰╯]", "", found.err).split())

    return call
