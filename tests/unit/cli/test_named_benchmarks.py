"""`openset bench NAME`: list, describe, score, pack."""

import pytest
from typer.testing import CliRunner

from openset.bench import named
from openset.cli import app
from openset.results import Results
from tests.unit.bench.made_outputs import made


def call(*arguments):
    return CliRunner().invoke(
        app, ["bench", *map(str, arguments)], env={"COLUMNS": "80"}
    )


@pytest.fixture
def folder(tmp_path):
    return made(tmp_path / "net", named.load("openood:cifar10"))


def test_all_are_listed_and_described():
    listed = call("--list")
    assert listed.exit_code == 0
    assert all(name in listed.stdout for name in named.names())
    shown = call("openood:imagenet")
    assert shown.exit_code == 0
    assert "csid/imagenet_v2.npz" in shown.stdout
    assert "We have not run it" in shown.stdout
    assert "--list openood" not in shown.stdout
    listed = " ".join(call("openood:cifar10").stdout.split())
    assert "7793 of TinyImageNet" in listed
    assert "--list openood:cifar10/near/tin" in listed


def test_outputs_are_scored_beside_published_rows(folder, tmp_path):
    out = tmp_path / "run"
    done = call("openood:cifar10", "--outputs", folder, "--out", out, "-d", "knn:k=3")
    assert done.exit_code == 0, done.output
    assert "knn:k=3" in done.stdout
    assert "88.03" in done.stdout  # MSP, near, published
    assert "places365" in done.stdout
    results = Results.load(out / "results.csv")
    assert {row.protocol for row in results} == {
        "openood:cifar10",
        *(f"openood:cifar10/{f}" for f in named.load("openood:cifar10").files()[1:]),
    }
    table = (out / "table.md").read_text(encoding="utf-8")
    assert "| MSP, published | 88.03 | 90.73 |" in table


def test_a_folder_of_the_name_is_no_study(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made(tmp_path / "mnist-small", named.load("mnist-small"))
    done = call("mnist-small", "--outputs", "mnist-small", "--out", "run", "-d", "msp")
    assert done.exit_code == 0, done.output
    assert "omniglot" in done.stdout


def test_the_wide_table_shows_every_number_in_80_columns(tmp_path):
    folder = made(tmp_path / "net", named.load("openood:imagenet200"))
    options = ["--outputs", folder, "--out", tmp_path / "run", "-d", "msp"]
    done = call("openood:imagenet200", *options)
    assert done.exit_code == 0, done.output
    assert max(map(len, done.stdout.splitlines()[:40])) <= 80
    assert "54.35" in done.stdout  # MSP, fs-near, published
    assert all(f" {c} " in done.stdout for c in ("fs-near", "openimage_o", "ssb_hard"))
    assert "…" not in done.stdout


def test_missing_data_sets_are_named_or_left_out(folder, tmp_path):
    (folder / "far/texture.npz").unlink()
    options = ["openood:cifar10", "--outputs", folder, "--out", tmp_path / "run"]
    done = call(*options)
    assert "openset bench: --outputs must be a folder with 7" in str(done.exception)
    assert "without far/texture.npz" in str(done.exception)
    done = call(*options, "--partial", "-d", "msp")
    assert done.exit_code == 0
    assert "far*" in done.stdout
    assert "no far/texture." in " ".join(done.stdout.split())


def test_a_packed_file_is_scored(folder, tmp_path):
    tar = tmp_path / "net.tar"
    assert call("openood:cifar10", "--outputs", folder, "--pack", tar).exit_code == 0
    out = tmp_path / "run"
    done = call("openood:cifar10", "--outputs", tar, "--out", out, "-d", "msp")
    assert done.exit_code == 0, done.output
    assert {row.model for row in Results.load(out / "results.csv")} == {"net"}


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        ([], "STUDY must be given"),
        (["openood:cifar10", "--out", "x"], "--outputs must be given"),
        (["openood:cifar10", "--outputs", "x"], "--out must be given"),
        (["study.yaml"], "--out must be given"),
        (["study.yaml", "--out", "x", "--partial"], "--partial can only be used"),
    ],
)
def test_what_is_missing_is_said(tmp_path, monkeypatch, arguments, wanted):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "study.yaml").touch()
    done = call(*arguments)
    assert done.exit_code == 2
    assert wanted in " ".join(done.output.replace("│", " ").split())


@pytest.mark.parametrize("name", ["openood:cifar", "cifar10"])
def test_a_mistyped_name_is_answered_with_the_names(name):
    done = call(name, "--out", "x")
    assert "openood:cifar10" in str(done.exception)
