"""`openset train`, as it is typed."""

import json
import re
import shlex
from dataclasses import replace

import numpy as np
import pytest
from safetensors.torch import save_file
from typer.testing import CliRunner

from openset import Outputs, Scores, datasets, evaluate, protocols, train
from openset.cli import app, main
from openset.cli._training_options import as_typed, read_settings
from openset.train import Trained, methods
from tests.train.tiny import image_data


@pytest.fixture
def draws(tmp_path):
    digits = datasets.load("digits")
    path = tmp_path / "draws.json"
    protocols.holdout(digits, 6, 4, 2, rng=0).save(path)
    return path


def run(*arguments):
    done = CliRunner().invoke(app, ["train", *map(str, arguments)])
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.stdout


QUICK = ("--data", "digits", "--recipe", "arpl", "--epochs", 2, "--lr", 0.02)


def test_methods_are_listed_with_their_options():
    text = run("--list")
    for name, method in methods.REGISTRY.items():
        assert name in text
        assert method.options().keys() >= {"smoothing"}
    assert "weight=0.1" in text


def test_a_run_leaves_what_all_other_commands_read(draws, tmp_path):
    one = tmp_path / "one.json"
    protocols.load(draws)[0].save(one)
    out = tmp_path / "run"
    text = run("-m", "softmax", *QUICK, "--protocol", one, "--out", out)
    assert "split 0, seed 0" in text
    assert f"openset extract {out} DATA" in text
    trained = Trained.load(out)
    assert sorted(trained.outputs) == ["test", "train", "validation"]
    scores = Scores.load(out / "scores" / "published.npz")
    shown = f"{evaluate(scores)['openauc']:.4f}"
    assert shown in text
    assert len(Outputs.load(out / "outputs" / "test.npz")) == len(scores)
    assert len((out / "log.jsonl").read_text().splitlines()) == 2


def test_known_classes_are_named(tmp_path):
    words = ("-m", "softmax", *QUICK, "--max-train", 200, "--out", tmp_path / "run")
    run(*words, "--known", "3, 1,7")
    found = protocols.load(tmp_path / "run" / "protocol.json")
    assert found.known == ("3", "1", "7")
    assert found.unknown == ("0", "2", "4", "5", "6", "8", "9")
    test = Trained.load(tmp_path / "run").outputs["test"]
    assert test.classes == ("3", "1", "7")
    assert set(test.groups[test.labels == -1]) == set(found.unknown)
    for given, message in (
        (["--known", "3,ten"], "--known must be one of .*, got 'ten'"),
        (["--known", "0,1,2,3,4,5,6,7,8,9"], "--known must be some of the classes"),
        (["--known", "3,1", "--split", "1"], "--split must be left out with --known"),
        (["--known", "3,3"], "known"),
    ):
        with pytest.raises(ValueError, match=message):
            run(*words, *given)


@pytest.mark.parametrize("given", ["digits", "others.npz"])
def test_negatives_are_classes_left_over_or_another_data_set(
    tmp_path, given, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    digits = datasets.load("digits")
    protocols.holdout(digits, 5, 2, 2, rng=0).save("draws.json")
    datasets.from_arrays(-digits.inputs[:40], ["far"] * 40).save("others.npz")
    run(
        "-m", "entropic", *QUICK, "--protocol", "draws.json", "--negatives", given,
        "--all-splits", "--tune", "ratio=0.5,1", "--out", "run",
    )  # fmt: skip
    for number in range(2):
        trained = Trained.load(f"run/split{number}-seed0")
        groups = set(trained.outputs["negative"].groups)
        if given == "others.npz":
            assert groups == {"far"}
        else:
            used = {*trained.outputs["test"].groups, *trained.outputs["train"].groups}
            assert groups == set(digits.classes) - used
            assert len(groups) == 3


def test_splits_and_seeds_have_folders_of_their_own(draws, tmp_path):
    text = run(
        "-m", "openauc", *QUICK, "--protocol", draws, "--all-splits", "--seeds", 2,
        "--out", tmp_path,
    )  # fmt: skip
    folders = {path.parent.name for path in tmp_path.glob("*/trained.json")}
    assert folders == {f"split{s}-seed{i}" for s in (0, 1) for i in (0, 1)}
    assert "mean" in text
    assert "sd" in text


def test_the_next_commands_are_of_a_run_that_is_there(draws, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # one of them writes where it is typed
    text = run(
        "-m", "softmax", *QUICK, "--protocol", draws, "--all-splits",
        "--out", tmp_path / "my [runs]",
    )  # fmt: skip
    first = shlex.quote(str(tmp_path / "my [runs]" / "split0-seed0"))
    commands = (
        f"openset evaluate {first}/scores/published.npz",
        f"openset score -d postmax --train {first}/outputs/train.npz "
        f"{first}/outputs/test.npz",
        f"openset report {first}",
        f"openset calibrate --run {first} --out rejector/",
    )
    for command in commands:
        assert command in text
        done = CliRunner().invoke(app, shlex.split(command)[1:])
        assert done.exit_code == 0, done.output


def test_a_folder_of_other_files_is_refused_and_left_alone(draws, tmp_path):
    out = tmp_path / "thesis"
    out.mkdir()
    common = ("-m", "softmax", *QUICK, "--protocol", draws, "--out", out)
    for name in ("chapter1.tex", "chapter2.tex"):
        (out / name).write_text("")
    expected = (
        r"--out must be a new or empty folder, or that of a run to continue, got "
        r".*thesis with other files in it \(chapter1.tex and 1 more\)"
    )
    with pytest.raises(ValueError, match=expected):
        run(*common)
    assert len(list(out.iterdir())) == 2
    # A run in it that was killed before its first checkpoint has left a log.
    (out / "log.jsonl").write_text("")
    run(*common)
    assert Trained.load(out).log


def test_a_folder_with_hidden_files_counts_as_empty(draws, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / ".gitkeep").write_text("")
    common = ("-m", "softmax", *QUICK, "--protocol", draws, "--out", tmp_path / "run")
    assert "split 0, seed 0" in run(*common)


def test_options_are_tuned_for_every_split_without_its_test_part(draws, tmp_path):
    text = run(
        "-m", "openauc", *QUICK, "--protocol", draws, "--all-splits",
        "--tune", "weight=0,0.3",
        "--set", "preset=paper", "--set", "padding=0", "--out", tmp_path,
    )  # fmt: skip
    assert text.count("on held-out known classes") == 2
    for split in (0, 1):
        record = json.loads((tmp_path / f"split{split}-seed0/trained.json").read_text())
        options = record["spec"]["options"]
        assert options["preset"] == "paper"
        assert options["weight"] in (0, 0.3)
        assert record["spec"]["recipe"]["pipeline"]["padding"] == 0


def test_fields_of_the_recipe_are_tuned_and_used(draws, tmp_path):
    text = run(
        "-m", "softmax", *QUICK, "--protocol", draws, "--tune", "weight_decay=0,1e-3",
        "--tune", "recipe=arpl,torchosr", "--out", tmp_path / "run",
    )  # fmt: skip
    table, _, used = text.partition("Split 0 is trained with ")
    assert table.count("recipe=torchosr") == 2
    assert table.count("weight_decay=0.001") == 2
    spec = json.loads((tmp_path / "run" / "trained.json").read_text())["spec"]
    decay, name = spec["recipe"]["weight_decay"], spec["recipe"]["name"]
    assert name in ("arpl", "torchosr")
    assert decay in (0, 1e-3)
    # In the order in which they were given.
    assert used.startswith(f"weight_decay={decay}, recipe={name}")
    assert (spec["recipe"]["epochs"], spec["recipe"]["lr"]) == (2, 0.02)


def test_a_run_of_the_released_form_says_what_was_measured_of_it(draws, tmp_path):
    common = ("-m", "openauc", *QUICK, "--protocol", draws)
    said = "16.4 points below that of plain cross-entropy"
    text = run(*common, "--set", "preset=released", "--out", tmp_path / "a")
    assert said in " ".join(text.split())
    text = run(*common, "--out", tmp_path / "b")
    assert said not in " ".join(text.split())


def test_the_rotation_head_is_an_option_that_tables_cannot_take(draws, tmp_path):
    common = ("-m", "softmax", *QUICK, "--protocol", draws, "--out", tmp_path / "run")
    with pytest.raises(
        ValueError, match="openset train: --auxiliary must be 'none' un"
    ):
        run(*common, "--auxiliary", "rotation")


def test_splits_that_are_one_problem_are_named(tmp_path):
    protocol = protocols.holdout(datasets.load("digits"), 6, 4, rng=0)
    path = tmp_path / "same.json"
    protocols.Draws((protocol, protocol)).save(path)
    text = run(
        "-m", "softmax", *QUICK, "--protocol", path, "--all-splits",
        "--out", tmp_path / "runs",
    )  # fmt: skip
    assert "the same problem" in text


def test_one_split_of_a_file_is_trained_unless_all_are_asked_for(draws, tmp_path):
    common = ("-m", "softmax", *QUICK, "--protocol", draws)
    assert "split 0, seed 0" in run(*common, "--out", tmp_path / "a")
    text = run(*common, "--split", 1, "--out", tmp_path / "b")
    assert "split 1, seed 0" in text
    assert "split 0" not in text
    assert "finished before" not in text
    text = run(*common, "--split", 1, "--out", tmp_path / "b")
    assert "This run was finished before: nothing was trained again." in text
    first, second = (Trained.load(tmp_path / name) for name in "ab")
    assert first.outputs["test"].classes != second.outputs["test"].classes


def test_a_protocol_is_drawn_where_none_is_published(tmp_path):
    first, again = tmp_path / "first", tmp_path / "again"
    text = " ".join(run("-m", "softmax", *QUICK, "--out", first).split())
    expected = protocols.holdout(datasets.load("digits"), 6, 4, 5, rng=0)
    unknown = ", ".join(expected[0].unknown)
    assert f"6 known classes; unknown, and not trained on: {unknown}" in text
    kept = protocols.load(first / "protocol.json")
    assert (kept.known, kept.unknown) == (expected[0].known, expected[0].unknown)
    run(
        "-m", "softmax", *QUICK, "--protocol", first / "protocol.json", "--out", again
    )  # fmt: skip
    ours, theirs = (Trained.load(one).outputs["test"].logits for one in (first, again))
    np.testing.assert_array_equal(ours, theirs)
    run("-m", "softmax", *QUICK, "--split", 3, "--out", tmp_path / "third")
    third = protocols.load(tmp_path / "third" / "protocol.json")
    assert third.unknown == expected[3].unknown != expected[0].unknown


def test_data_of_two_classes_ask_for_a_protocol(tmp_path):
    path = tmp_path / "two.npz"
    np.savez(path, inputs=np.eye(4), labels=np.array([0, 1, 0, 1]))
    with pytest.raises(ValueError, match="--data must be of three classes or more"):
        run("-m", "softmax", "--data", path, "--out", tmp_path / "run")


def test_training_samples_are_limited(draws, tmp_path):
    out = tmp_path / "run"
    run(
        "-m", "softmax", *QUICK, "--protocol", draws, "--max-train", 90, "--out", out
    )  # fmt: skip
    found = Trained.load(out).outputs
    assert len(found["train"]) == 90
    assert set(found["train"].labels) == set(range(6))
    assert len(found["test"]) == 539


def test_a_root_that_is_not_there_is_not_created(tmp_path):
    root = tmp_path / "data"
    with pytest.raises(FileNotFoundError, match="--root must be a folder, got "):
        run("-m", "softmax", "--data", "mnist", "--root", root, "--out", tmp_path / "a")
    assert not root.exists()


def test_fit_takes_the_path_of_a_protocol(draws):
    job = train.Job(method="softmax", data="digits", protocol=str(draws), split=1)
    quick = {"recipe": "arpl", "epochs": 1, "lr": 0.02, "progress": False}
    given = protocols.load(draws)
    for path, split, wanted in (
        (draws, None, given[0]), (str(draws), 1, given[1]),
    ):  # fmt: skip
        trained = train.fit(
            method="softmax", data="digits", protocol=path, split=split, **quick
        )
        assert trained.spec["protocol"]["unknown"] == [*wanted.unknown]
    with pytest.raises(ValueError, match="split must be one of '0', '1', got '2'"):
        train.fit_jobs([replace(job, split=2)])


@pytest.mark.usefixtures("import_torchvision")
@pytest.mark.filterwarnings("ignore::UserWarning:timm")
def test_random_weights_of_a_published_network_are_said(tmp_path):
    timm = pytest.importorskip("timm", exc_type=ImportError)
    weights = tmp_path / "w.safetensors"
    save_file(timm.create_model("resnet18").state_dict(), weights)
    data = image_data(n=8, side=32)
    np.savez(
        tmp_path / "d.npz", inputs=data.inputs, labels=data.labels,
        classes=np.array(data.classes),
    )  # fmt: skip
    stored = datasets.load(str(tmp_path / "d.npz"))
    protocols.holdout(stored, 3, 1, rng=0).save(tmp_path / "p.json")
    words = [
        "train", "-m", "softmax", "--data", tmp_path / "d.npz", "--protocol",
        tmp_path / "p.json", "--network", "timm:resnet18", "--epochs", 1, "--batch", 2,
        "--recipe", "arpl", "--validation", 0,
    ]  # fmt: skip
    for name, more in (("random", []), ("tuned", ["--weights", weights])):
        out = ["--out", tmp_path / name]
        done = CliRunner().invoke(app, [*map(str, words + more + out)])
        assert done.exit_code == 0, done.output
        said = "timm:resnet18 starts from random weights" in done.output
        assert said == (name == "random")
        assert ("To fine-tune: --lr 0.01" in done.output) == (name == "tuned")
        spec = Trained.load(tmp_path / name).spec
        assert spec["pretrained"].partition(" ")[0] == "w.safetensors" * bool(more)


def test_yes_and_no_are_understood():
    taken, changeable = ["drop_same_class", "side", "weight"], ["side", "flip", "lr"]
    texts = ["drop_same_class=no", "side=32", "flip=False", "weight=0.5", "lr=1e-2"]
    options, changes = read_settings(texts, taken, changeable)
    assert options == {"drop_same_class": False, "side": 32, "weight": 0.5}
    # What belongs to both reaches both: the size of images, say.
    assert changes == {"side": 32, "flip": False, "lr": 0.01}


def test_a_training_that_diverges_is_said_in_a_line(
    draws, tmp_path, monkeypatch, capsys
):
    words = ("train", "-m", "softmax", *QUICK[:-1], "1e30", "--protocol", draws)
    words += ("--out", tmp_path / "run")
    monkeypatch.setattr("sys.argv", ["openset", *map(str, words)])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 2
    assert "error: openset train: the " in capsys.readouterr().err


def test_an_interruption_says_how_to_go_on(draws, tmp_path, monkeypatch, capsys):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(train, "fit_jobs", interrupted)
    words = ("train", "-m", "softmax", *QUICK, "--protocol", draws)
    words += ("--out", tmp_path / "run")
    monkeypatch.setattr("sys.argv", ["openset", *map(str, words)])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 130
    assert (
        "Run the same command again to continue from the last"
        in capsys.readouterr().err
    )


@pytest.mark.parametrize(
    ("message", "typed"),
    [
        (
            "train.fit: accelerator must be available, got 'cuda' on a machine without "
            "a GPU. Leave it out, or use accelerator='cpu'",
            "openset train: --accelerator must be available, got 'cuda' on a machine "
            "without a GPU. Leave it out, or use --accelerator cpu",
        ),
        (
            "train.fit: devices times nodes must be 2, got 1 times 1",
            "openset train: --devices times --nodes must be 2, got 1 times 1",
        ),
        (
            "train.recipe: milestones must be a list of epochs, got 3. For example "
            "milestones=[30, 60]",
            "openset train: --set milestones must be a list of epochs, got 3. For "
            "example --set milestones=[30,60]",
        ),
        (
            "train.fit: the loss of arpl rows seed 0 (weight=1e+30) must be finite to "
            "the end, got nan. Try a lower learning rate (lr=), or schedule='cosine'",
            "openset train: the loss of arpl rows seed 0 (weight=1e+30) must be finite "
            "to the end, got nan. Try a lower learning rate (--lr), or --set "
            "schedule=cosine",
        ),
        (
            "method arpl: weight must be a number in [0, inf), got -1",
            "openset train: --set weight must be a number in [0, inf), got -1",
        ),
        ("cut: every known class must have samples", None),
    ],
)
def test_errors_name_options_as_they_are_typed(message, typed):
    assert as_typed(message) == (typed or message)


@pytest.mark.parametrize("flag", ["--set", "--tune"])
def test_names_of_method_and_recipe_are_listed_once(draws, flag):
    with pytest.raises(ValueError, match="got 'xyz'") as said:
        run("-m", "ceplus", *QUICK, "--protocol", draws, flag, "xyz=1")
    assert len(re.findall(r"\bsmoothing\b", str(said.value))) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "--data must be given"),
        (
            ["-m", "softmax", *QUICK, "--accelerator", "abacus"],
            "^openset train: --accelerator must be one of 'auto', 'cpu'",
        ),
        (
            ["-m", "softmax", *QUICK, "--validation", "1"],
            "^openset train: --validation must be a number in ",
        ),
        (["-m", "softmax", *QUICK, "--epochs", 0], "--epochs must be an integer >= 1"),
        (
            ["-m", "softmax", *QUICK, "--set", "warmup=2"],
            "--set warmup must be left out with --set schedule=steps",
        ),
        (
            ["-m", "arpl", *QUICK, "--set", "weight=-1"],
            "^openset train: --set weight must be a number in ",
        ),
        (["-m", "softmax", *QUICK, "--recipe", "B"], "--recipe must be one of 'arpl'"),
        (["-m", "softmax", *QUICK, "--nodes", 2], "--nodes must be 1 unless"),
        (
            ["-m", "softmax", *QUICK, "--split", "7"],
            "--split must be one of 0, 1, ",
        ),
        (
            ["-m", "softmax", *QUICK, "--split", "0", "--all-splits"],
            "--split must be left out with --all-splits, got '0'",
        ),
        (["-m", "softmax"], "--data must be given"),
        (
            ["-m", "softmax", *QUICK, "--pretrained", "--weights", "w.safetensors"],
            "--weights must be left out with --pretrained, got w.safetensors",
        ),
        (["-m", "best", *QUICK], "--method must be one of 'softmax'"),
        (["-m", "softmax", *QUICK, "--max-train", 0], "--max-train must be an integer"),
        (["-m", "softmax", *QUICK, "--max-train", 2], "--max-train must be enough for"),
        (["-m", "softmax", *QUICK, "--set", "weight"], "--set must be NAME=VALUE"),
        (
            ["-m", "openauc", *QUICK, "--set", "wieght=1"],
            r"--set must be an option of the method \(.*\bweight\b.*\) or of the "
            r"recipe \(.*\bmagnitude\b.*\), got 'wieght'. Did you mean 'weight'\?",
        ),
        (
            ["-m", "softmax", *QUICK, "--set", "epoch=3"],
            r"--set must be .*got 'epoch'. Did you mean 'epochs'\?",
        ),
        (["-m", "softmax", *QUICK, "--set", "xyz=3"], "--set must be .*got 'xyz'$"),
        (["-m", "openauc", *QUICK, "--tune", "depth=1,2"], "--tune must be one of"),
        (["-m", "softmax", *QUICK, "--tune", "lr"], "must be NAME=VALUE,VALUE,"),
        (
            ["-m", "softmax", *QUICK, "--set", "budget=5"],
            "--set budget must be left out with --epochs 2, got 5",
        ),
        (
            ["-m", "softmax", *QUICK, "--set", "epochs=3"],
            "--epochs must be left out with --set epochs=3, got 2",
        ),
        (
            ["-m", "softmax", *QUICK, "--set", "batch=0"],
            "--set batch must be an integer >= 1, got 0",
        ),
        (
            ["-m", "softmax", *QUICK, "--tune", "weight_decay=-1,0"],
            r"--tune weight_decay must be a number in \[0, inf\), got -1",
        ),
        (["-m", "softmax", *QUICK, "--seeds", 0], "--seeds must be an integer >= 1"),
        (
            ["-m", "entropic", *QUICK],
            "openset train: --negatives must be given for the method 'entropic', got "
            "none. Name a data set .*, such as --negatives svhn",
        ),
        (
            ["-m", "softmax", *QUICK, "--negatives", "digits"],
            "--negatives must be left out: the method 'softmax' does not use them",
        ),
    ],
)
def test_what_is_wrong_is_said(draws, arguments, message):
    with pytest.raises(ValueError, match=message):
        run(*arguments, "--protocol", draws)
