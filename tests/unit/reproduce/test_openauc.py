"""Items of the OpenAUC paper."""

import gzip
import re

import numpy as np
import pytest

from openset import bench, protocols, reproduce
from openset.metrics import Rates
from openset.reproduce import Settings, _openauc_study, _properties
from openset.reproduce._study import study_text
from openset.results import Result, Results


def test_every_property_of_table_1_is_shown_by_its_construction():
    made = _properties.constructions()
    paper = reproduce.published("openauc-table1")
    for name, measure in _properties._METRICS.items():
        found = _properties.properties(measure, made)
        ours = [
            found.sees_classes,
            found.sees_unknowns,
            found.needs_no_threshold,
            found.orders_models,
        ]
        said = [bool(entry.value) for entry in paper.values[name].values()]
        assert ours == said, name


def test_the_constructions_do_what_the_propositions_say():
    made = _properties.constructions()
    assert made.exchanged.complete
    assert made.exchanged.found_after == 0 < made.exchanged.found_before
    assert made.exchanged.after == made.exchanged.before
    assert made.let_in.after > made.let_in.before
    assert made.let_in.found_after <= 1
    # Only classes change, so a detector sees the same.
    before, after = (
        Rates.at(scores, made.threshold) for scores in (made.scores, made.misclassified)
    )
    assert before.n_rejected_unknown == after.n_rejected_unknown


def test_the_risk_of_proposition_8_is_one_minus_openauc(tmp_path):
    made = reproduce.run("openauc-table3", Settings(out=tmp_path))
    truth, risk = made.tables
    assert [row[2:] for row in truth.rows] == [(0, 0), (1, 1), (1, 1), (1, 1)]
    assert risk.rows[0][1] == pytest.approx(risk.rows[0][2])


@pytest.mark.parametrize("recipe", ["arpl", "ceplus"])
def test_table_2_has_every_method_on_distinct_problems(recipe):
    study = bench.parse(study_text(f"openauc-table2-{recipe}"), "s.yaml")
    splits = {entry.title: entry.splits for entry in study.protocols}
    assert splits == {"MNIST": "all", "SVHN": [0, 2, 3, 4], "CIFAR10": [0, 2, 3, 4]}
    (model,) = study.models
    assert model.params == {"recipe": recipe, "validation": 0}
    assert study.seeds == [0, 1]
    titles = {method.title for method in study.methods}
    if recipe == "arpl":
        assert titles == set(_openauc_study._ARPL.values())
    else:
        assert titles == {t for some in _openauc_study._CEPLUS.values() for t in some}


def test_table_2_in_small_has_the_methods_and_forms_of_the_full_one():
    small = bench.parse(study_text("openauc-table2-small"), "s.yaml")
    full = [
        method
        for recipe in ("arpl", "ceplus")
        for method in bench.parse(
            study_text(f"openauc-table2-{recipe}"), "s.yaml"
        ).methods
    ]
    assert [m.title for m in small.methods] == [m.title for m in full]
    of_size = {"place", "width"}  # layers of another network; a smaller generator
    for ours, theirs in zip(small.methods, full, strict=True):
        assert ours.name == theirs.name
        forms = [
            {k: v for k, v in method.params.items() if k not in of_size}
            for method in (ours, theirs)
        ]
        assert forms[0] == forms[1]
    (entry,) = small.protocols
    assert (entry.split_of, entry.splits) == ("mnist", "all")


def digit_files(top):
    """Write a stand-in for MNIST: ten classes, each with a bright row of its own."""
    top.mkdir()
    rng = np.random.default_rng(0)
    for part, n in (("train", 12), ("t10k", 4)):
        labels = np.repeat(np.arange(10, dtype=np.uint8), n)
        images = rng.integers(0, 99, (len(labels), 28, 28), np.uint8)
        images[np.arange(len(labels)), 4 + 2 * labels] = 255
        for kind, array in (("images-idx3", images), ("labels-idx1", labels)):
            head = bytes([0, 0, 8, array.ndim])
            sizes = np.array(array.shape, ">u4").tobytes()
            packed = gzip.compress(head + sizes + array.tobytes())
            (top / f"{part}-{kind}-ubyte.gz").write_bytes(packed)


def test_table_2_in_small_runs_on_a_stand_in_for_mnist(tmp_path, monkeypatch):
    digit_files(tmp_path / "mnist")

    def tiny(name):
        text = study_text(name).replace(b"max_train: ", b"splits: [0], max_train: ")
        text = re.sub(rb"epochs: \d+, milestones: \[.*?\]", b"epochs: 1", text)
        return re.sub(rb"width: \d+", b"width: 8", text)

    monkeypatch.setattr("openset.reproduce._study.study_text", tiny)
    settings = Settings(out=tmp_path / "out", root=tmp_path, backend="sequential")
    made = reproduce.run("openauc-table2-small", settings)
    (table,) = made.tables
    assert [row[0] for row in table.rows] == [
        "softmax", "gcpl", "rpl", "arpl", "arpl_cs", "ceplus", "acc_auc paper",
        "acc_auc released", "openauc paper", "openauc released",
    ]  # fmt: skip
    assert all(entry is not None for row in table.rows for entry in row)
    assert table.rows[0][1].value == 99.2
    assert table.rows[-1][1].value == 99.4
    softmax, ceplus = table.rows[0], table.rows[5]
    assert softmax[3:] == ceplus[3:]  # one recipe: the same network, two scores
    assert softmax[2] == softmax[4]
    assert ceplus[2] == ceplus[3]


def test_rows_of_table_2_pool_the_splits_of_their_data():
    rows = [
        Result(
            protocol=protocol,
            method="ceplus",
            detector=detector,
            metric=metric,
            value=value,
        )
        for protocol, value in (("C+T, split 0", 0.8), ("C+T, split 1", 0.9),
                                ("C+10", 0.1))
        for detector in ("published", "maxlogit", "msp")
        for metric in ("openauc", "accuracy")
    ]  # fmt: skip
    listed = [("CE+", "ceplus", Results(rows))]
    ours = _openauc_study._table2("C+T", "", listed).rows[0]
    assert ours[:2] == ("ceplus", None)
    assert all(entry.value == pytest.approx(85) for entry in ours[2:])
    other = _openauc_study._table2("C+10", "C+10", listed).rows[0]
    assert other[1].value == 93.2
    assert other[2].value == pytest.approx(10)


def test_unknowns_of_tinyimagenet_are_named_once_and_overlap_nothing():
    studies = [
        bench.parse(study_text(f"openauc-table2-tiny-{recipe}"), "s.yaml")
        for recipe in ("arpl", "ceplus")
    ]
    unknown = {tuple(e.unknown) for study in studies for e in study.protocols}
    (classes,) = unknown  # the same for all
    assert len(set(classes)) == len(classes) == 168
    known = [set(entry.known) for entry in studies[0].protocols]
    drawn = [protocols.published("cifar+10", split) for split in (0, 1, 3, 4)]
    assert known == [set(one.known) for one in drawn]


def bird_folder(top):
    """Write a stand-in for CUB: 200 classes of three small images."""
    image = pytest.importorskip("PIL.Image")
    rng = np.random.default_rng(0)
    names = [f"{c:03}.Bird" for c in range(1, 201)]
    tables = {"images": "", "image_class_labels": "", "train_test_split": ""}
    for number in range(600):
        c, is_train = number // 3, int(number % 3 < 2)
        file = f"{names[c]}/{number}.png"
        (top / "images" / names[c]).mkdir(parents=True, exist_ok=True)
        shade = np.full((32, 32, 3), c, np.uint8) + rng.integers(0, 20, 3, np.uint8)
        image.fromarray(shade).save(top / "images" / file)
        tables["images"] += f"{number + 1} {file}\n"
        tables["image_class_labels"] += f"{number + 1} {c + 1}\n"
        tables["train_test_split"] += f"{number + 1} {is_train}\n"
    tables["classes"] = "".join(f"{i + 1} {name}\n" for i, name in enumerate(names))
    for name, text in tables.items():
        (top / f"{name}.txt").write_text(text, encoding="utf-8")


def test_tables_4_and_5_run_on_a_stand_in_for_cub(tmp_path, monkeypatch):
    bird_folder(tmp_path / "CUB_200_2011")

    def small(name):
        text = study_text(name).replace(b'"torchvision:resnet50"', b"osrci")
        text = text.replace(b", side: 448", b"").replace(b"lr: 0.001, ", b"")
        text = text.replace(b" gpus: 1,", b"")
        return re.sub(rb"validation: 0", b"validation: 0, side: 32, epochs: 1", text)

    monkeypatch.setattr("openset.reproduce._study.study_text", small)
    settings = Settings(out=tmp_path / "out", root=tmp_path, backend="sequential")
    made = reproduce.run("openauc-table4", settings)
    accuracy, four, five = made.tables
    assert [row[1].value for row in accuracy.rows][:2] == [78.1, 82.5]
    assert [row[0] for row in four.rows] == [
        "softmax", "gcpl", "rpl", "arpl", "ceplus", "arpl+", "openauc paper",
        "openauc released",
    ]  # fmt: skip
    for table in made.tables:
        assert all(entry is not None for row in table.rows for entry in row)
    assert four.rows[0][1].value == 79.7
    assert five.rows[-1][-2].value == 81.1
