"""Hugging Face data sets: the real library, on files this test writes, off the net."""

import json
import socket

import numpy as np
import pytest

from openset import ArtefactError, datasets, protocols

hf = pytest.importorskip("datasets", reason="needs Hugging Face datasets (extra hub)")
image = pytest.importorskip("PIL.Image", reason="images need Pillow (extra vision)")

RNG = np.random.default_rng(0)
PIXELS = RNG.integers(0, 256, (6, 5, 4, 3), np.uint8)
LABELS = [0, 1, 1, 0, 1, 0]


@pytest.fixture(autouse=True)
def library(tmp_path, monkeypatch):
    """Give the library a cache of its own, and nobody to talk to."""
    hf.disable_progress_bars()
    monkeypatch.setattr(hf.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    asked = []

    def connect(self, address):
        asked.append(address)
        raise OSError("no net in tests")  # noqa: EM101

    monkeypatch.setattr(socket.socket, "connect", connect)
    yield asked
    hf.enable_progress_bars()


def split(columns, **types):
    """Make a split; columns are as the library guesses them unless told."""
    made = hf.Dataset.from_dict(columns)
    for name, feature in types.items():
        made = made.cast_column(name, feature)
    return made


def texts(*values, labels, names=("neg", "pos")):
    columns = {"text": list(values), "label": list(labels)}
    return split(columns, label=hf.ClassLabel(names=list(names)))


def save(folder, **splits):
    hf.DatasetDict(splits).save_to_disk(folder)
    return folder


def pictures(rows):
    return [image.fromarray(PIXELS[row]) for row in rows]


# --- what save_to_disk wrote ----------------------------------------------------------


def test_saved_texts_become_a_data_set(tmp_path):
    folder = save(
        tmp_path / "reviews",
        train=texts("good", "bad", labels=[1, 0]),
        test=texts("fine", labels=[1]),
    )
    found = datasets.load(f"hf:{folder}")
    assert repr(found) == "Dataset(reviews, text, n=3, classes=2, train=2, test=1)"
    assert found.inputs.tolist() == ["good", "bad", "fine"]
    assert found.labels.tolist() == [1, 0, 1]
    assert found.classes == ("neg", "pos")


def test_a_saved_folder_needs_no_prefix(tmp_path):
    folder = save(tmp_path / "reviews", train=texts("good", labels=[1]))
    assert datasets.load(folder).inputs.tolist() == ["good"]
    assert datasets.load(str(folder), labels="label").inputs.tolist() == ["good"]


def test_saved_images_are_decoded_when_asked_for(tmp_path):
    types = {"image": hf.Image(), "label": hf.ClassLabel(names=["a", "b"])}
    folder = save(
        tmp_path / "pictures",
        train=split({"image": pictures(range(4)), "label": LABELS[:4]}, **types),
        val=split({"image": pictures((4, 5)), "label": LABELS[4:]}, **types),
    )
    found = datasets.load(f"hf:{folder}")
    assert repr(found).endswith("image, n=6, classes=2, train=4, validation=2)")
    for row in range(6):
        assert np.array_equal(found.inputs[row], PIXELS[row])
    chosen = found.part("validation").take([1])
    assert np.array_equal(chosen.inputs[0], PIXELS[5])
    assert np.array_equal(
        datasets.resized(chosen, 8).inputs[0],
        np.asarray(image.fromarray(PIXELS[5]).resize((8, 8), image.Resampling.LANCZOS)),
    )


def test_grey_images_become_rgb(tmp_path):
    grey = [image.fromarray(PIXELS[row, :, :, 0]) for row in range(2)]
    made = split({"image": grey, "label": ["x", "y"]}, image=hf.Image())
    made.save_to_disk(tmp_path / "grey")
    found = datasets.load(tmp_path / "grey")
    assert np.array_equal(found.inputs[1], np.repeat(PIXELS[1, :, :, :1], 3, axis=2))


def test_undecoded_images_are_decoded_all_the_same(tmp_path):
    made = split(
        {"image": pictures((0, 1)), "label": ["x", "y"]}, image=hf.Image(decode=False)
    )
    made.save_to_disk(tmp_path / "raw")
    assert np.array_equal(datasets.load(tmp_path / "raw").inputs[1], PIXELS[1])


@pytest.mark.parametrize(
    ("stored", "message"),
    [({"bytes": b"no image", "path": None}, "is damaged"), (None, "is missing")],
)
def test_an_image_that_cannot_be_read_is_named(stored, message, tmp_path):
    made = split({"image": pictures((0, 1)), "label": ["x", "y"]}, image=hf.Image())
    raw = made.cast_column("image", hf.Image(decode=False))
    rows = [raw[0]["image"], stored]
    broken = split({"image": rows, "label": ["x", "y"]}, image=hf.Image())
    broken.save_to_disk(tmp_path / "broken")
    found = datasets.load(tmp_path / "broken")
    assert np.array_equal(found.inputs[0], PIXELS[0])
    with pytest.raises(ArtefactError, match=f"image 1 of .*broken {message}"):
        found.inputs[1]


def test_a_table_keeps_every_bit_of_its_numbers(tmp_path):
    columns = {
        "width": [0.1, 1 / 3, 7.0],
        "count": [1, 2, 3],
        "big": [True, False, True],
        "species": ["fox", "cat", "fox"],
    }
    made = split(columns, species=hf.ClassLabel(names=["cat", "fox"]))
    made.save_to_disk(tmp_path / "animals")
    found = datasets.load(tmp_path / "animals")
    assert repr(found) == "Dataset(animals, table, n=3, classes=2)"
    expected = [[0.1, 1, 1], [1 / 3, 2, 0], [7.0, 3, 1]]
    assert found.inputs.tolist() == expected
    assert found.labels.tolist() == [1, 0, 1]
    some = datasets.load(tmp_path / "animals", inputs=["count", "width"])
    assert some.inputs.tolist() == [[row[1], row[0]] for row in expected]


def test_float32_columns_stay_float32(tmp_path):
    made = split({"x": [0.5, 1.5], "label": [0, 1]}, x=hf.Value("float32"))
    made.save_to_disk(tmp_path / "small")
    assert datasets.load(tmp_path / "small").inputs.dtype == np.float32


def test_a_column_of_vectors_is_a_table(tmp_path):
    values = RNG.normal(size=(4, 6))
    made = split({"embedding": values.tolist(), "label": list("abab")})
    made.save_to_disk(tmp_path / "vectors")
    assert np.array_equal(datasets.load(tmp_path / "vectors").inputs, values)


def test_a_column_of_matrices_is_not_guessed_at(tmp_path):
    values = RNG.normal(size=(4, 2, 3)).tolist()
    made = split({"x": values, "label": list("abab")}, x=hf.Array2D((2, 3), "float64"))
    made.save_to_disk(tmp_path / "matrices")
    with pytest.raises(ValueError, match="one column of images, texts or numbers"):
        datasets.load(tmp_path / "matrices")


def test_vectors_of_several_lengths_are_refused(tmp_path):
    made = split({"x": [[1.0], [1.0, 2.0]], "label": ["a", "b"]})
    made.save_to_disk(tmp_path / "ragged")
    with pytest.raises(ValueError, match="vectors of one length in 'x'"):
        datasets.load(tmp_path / "ragged")


def test_rows_that_were_selected_are_the_ones_read(tmp_path):
    whole = split({"x": [0.0, 1.0, 2.0, 3.0], "label": list("abca")})
    save(tmp_path / "some", train=whole.select([3, 1]))
    found = datasets.load(tmp_path / "some")
    assert found.inputs.ravel().tolist() == [3.0, 1.0]
    assert [found.classes[i] for i in found.labels] == ["a", "b"]


# --- folders in the form of a hub repository, and files -------------------------------


def test_a_repository_of_csv_files_is_read(tmp_path):
    folder = tmp_path / "intents"
    folder.mkdir()
    (folder / "train.csv").write_text("text,intent\nhi,greet\n12,number\nbye,leave\n")
    (folder / "test.csv").write_text("text,intent\nsee you,leave\n")
    found = datasets.load(f"hf:{folder}")
    assert found.inputs.tolist() == ["hi", "12", "bye", "see you"]
    assert found.classes == ("greet", "leave", "number")
    assert found.labels.tolist() == [0, 2, 1, 1]
    assert {part: rows.tolist() for part, rows in found.parts.items()} == {
        "train": [0, 1, 2],
        "test": [3],
    }


def test_a_repository_of_parquet_files_is_read(tmp_path):
    (tmp_path / "repo" / "data").mkdir(parents=True)
    for part, labels in (("train", [0, 1, 1]), ("validation", [1]), ("test", [0])):
        made = texts(*(f"{part} {i}" for i in range(len(labels))), labels=labels)
        made.to_parquet(tmp_path / "repo" / "data" / f"{part}-00000-of-00001.parquet")
    found = datasets.load(f"hf:{tmp_path / 'repo'}")
    assert repr(found) == (
        "Dataset(repo, text, n=5, classes=2, train=3, validation=1, test=1)"
    )
    assert found.classes == ("neg", "pos")


def test_a_repository_with_configurations_asks_which(tmp_path):
    head = {
        "configs": [
            {"config_name": c, "data_files": f"{c}.csv"} for c in ("small", "large")
        ]
    }
    folder = tmp_path / "repo"
    folder.mkdir()
    (folder / "README.md").write_text(f"---\n{json.dumps(head)}\n---\n")
    for config in ("small", "large"):
        (folder / f"{config}.csv").write_text(f"text,label\n{config},a\nother,b\n")
    with pytest.raises(ArtefactError, match="small"):
        datasets.load(f"hf:{folder}")
    found = datasets.load(f"hf:{folder}", config="large")
    assert found.inputs.tolist() == ["large", "other"]


def test_an_imagefolder_repository_is_read(tmp_path):
    for row, where in enumerate(("train/cat", "train/dog", "test/dog", "test/cat")):
        (tmp_path / "pets" / where).mkdir(parents=True)
        image.fromarray(PIXELS[row]).save(tmp_path / "pets" / where / "x.png")
    found = datasets.load(f"hf:{tmp_path / 'pets'}")
    assert found.classes == ("cat", "dog")
    ours = datasets.load(tmp_path / "pets")  # the same folder, without the library
    for part in ("train", "test"):
        one, other = found.part(part), ours.part(part)
        assert sorted(one.labels) == sorted(other.labels)
        for label in (0, 1):
            rows = [int(np.flatnonzero(p.labels == label)[0]) for p in (one, other)]
            assert np.array_equal(one.inputs[rows[0]], other.inputs[rows[1]])


@pytest.mark.parametrize("ending", ["csv", "parquet", "json", "jsonl"])
def test_one_file_is_a_data_set_without_parts(ending, tmp_path):
    path = tmp_path / f"letters.{ending}"
    made = split({"text": ["x", "y"], "label": ["a", "b"]})
    writer = {"csv": made.to_csv, "parquet": made.to_parquet}.get(ending, made.to_json)
    writer(path)
    found = datasets.load(f"hf:{path}")
    assert repr(found) == "Dataset(letters, text, n=2, classes=2)"
    assert found.inputs.tolist() == ["x", "y"]


def test_a_protocol_cuts_what_was_read(tmp_path):
    folder = save(
        tmp_path / "three",
        train=texts(*"abcabc", labels=[0, 1, 2] * 2, names="xyz"),
        test=texts(*"abc", labels=[0, 1, 2], names="xyz"),
    )
    found = datasets.load(folder)
    cut = datasets.cut(found, protocols.Protocol(known=["x", "z"], unknown=["y"]))
    assert cut.train.labels.tolist() == [0, 1, 0, 1]
    assert cut.test.labels.tolist() == [0, 1, -1]


# --- labels ---------------------------------------------------------------------------


def test_number_labels_keep_their_numerical_order(tmp_path):
    split({"text": list("abc"), "target": [10, 2, 10]}).save_to_disk(tmp_path / "n")
    found = datasets.load(tmp_path / "n")
    assert (found.classes, found.labels.tolist()) == (("2", "10"), [1, 0, 1])


def test_a_split_without_labels_is_left_out_and_the_note_says_so(tmp_path):
    folder = save(
        tmp_path / "glue",
        train=texts("a", "b", labels=[0, 1]),
        test=texts("c", "d", labels=[-1, -1]),
        unsupervised=texts("e", labels=[-1]),
    )
    found = datasets.load(folder)
    assert set(found.parts) == {"train"}
    assert found.note == "left out: unsupervised, test (no labels)"


@pytest.mark.parametrize(
    ("made", "options", "message"),
    [
        (texts("a", "b", labels=[0, -1]), {}, "got 1 labels -1"),
        (texts("a", labels=[-1]), {}, "classes in 'label', got none"),
        (
            split({"text": ["a", "b"], "label": ["x", None]}),
            {},
            "data set with a class in 'label' for every sample, got 1 without",
        ),
        (
            split({"text": ["a", None], "label": ["x", "y"]}),
            {},
            "data set with a text in 'text' for every sample, got 1 without",
        ),
        (
            split({"x": [1.0, None], "label": ["x", "y"]}),
            {},
            "data set with a number in 'x' for every sample, got 1 without",
        ),
        (
            split({"question": ["q"], "answer": ["r"], "label": ["x"]}),
            {},
            r"one text column, got \['question', 'answer'\] among.*inputs='…'",
        ),
        (
            split({"text": ["q"], "label": ["x"], "category": ["y"]}),
            {},
            r"one class column, got \['label', 'category'\].*labels='…'",
        ),
        (split({"text": ["q"]}), {}, "one class column, got none"),
        (split({"label": ["q"]}), {}, "one column of images, texts or numbers"),
        (texts("a", labels=[0]), {"inputs": "reply"}, "column of .* must be one of"),
        (texts("a", labels=[0]), {"labels": "reply"}, "column of .* must be one of"),
        (
            split({"a": ["q"], "b": [1.0], "label": ["x"]}),
            {"inputs": ["a", "b"]},
            r"got a \(text\), b \(number\)",
        ),
    ],
)
def test_what_cannot_be_understood_is_asked_for(made, options, message, tmp_path):
    made.save_to_disk(tmp_path / "odd")
    with pytest.raises(ValueError, match=message):
        datasets.load(tmp_path / "odd", **options)


def test_numbers_with_fractions_are_no_classes(tmp_path):
    split({"text": ["a"], "label": [0.5]}).save_to_disk(tmp_path / "odd")
    with pytest.raises(TypeError, match="must be class names or numbers"):
        datasets.load(tmp_path / "odd")


def test_splits_of_other_names_alone_are_refused(tmp_path):
    folder = save(tmp_path / "odd", extra=texts("a", labels=[0]))
    with pytest.raises(ValueError, match=r"train, validation or test split, got extra"):
        datasets.load(folder)


def test_named_columns_are_taken(tmp_path):
    columns = {"question": ["q"], "answer": ["r"], "a": ["x"], "b": ["y"]}
    split(columns).save_to_disk(tmp_path / "qa")
    found = datasets.load(tmp_path / "qa", inputs="answer", labels="b")
    assert (found.inputs.tolist(), found.classes) == (["r"], ("y",))


# --- damage, and the net --------------------------------------------------------------


def test_a_damaged_folder_is_named(tmp_path):
    made = texts("a", "b", labels=[0, 1])
    made.save_to_disk(tmp_path / "saved")
    (arrow,) = (tmp_path / "saved").glob("*.arrow")
    arrow.write_bytes(arrow.read_bytes()[:50])
    with pytest.raises(ArtefactError, match=r"saved is damaged"):
        datasets.load(tmp_path / "saved")
    (tmp_path / "saved" / "state.json").write_text("{")
    with pytest.raises(ArtefactError, match=r"saved is damaged"):
        datasets.load(tmp_path / "saved")


def test_a_damaged_repository_is_named(tmp_path):
    (tmp_path / "repo").mkdir()
    with pytest.raises(ArtefactError, match=r"repo is damaged or not a Hugging Face"):
        datasets.load(f"hf:{tmp_path / 'repo'}")
    (tmp_path / "repo" / "train.parquet").write_bytes(b"PAR1 no parquet")
    with pytest.raises(ArtefactError, match=r"repo is damaged"):
        datasets.load(f"hf:{tmp_path / 'repo'}")


def test_files_of_other_kinds_are_refused(tmp_path):
    (tmp_path / "x.pkl").write_bytes(b"")
    with pytest.raises(ValueError, match=r"must be one of '\.csv.*got '\.pkl'"):
        datasets.load(f"hf:{tmp_path / 'x.pkl'}")


def test_offline_asks_nobody_and_says_what_to_do(library, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(hf.config, "HF_HUB_OFFLINE", False)
    with pytest.raises(FileNotFoundError, match=r"hf:owner/name.*OPENSET_OFFLINE=1"):
        datasets.load("hf:owner/name", offline=True)
    monkeypatch.setenv("OPENSET_OFFLINE", "1")
    with pytest.raises(
        FileNotFoundError, match="save_to_disk into\n  owner/name\nor set"
    ):
        datasets.load("hf:owner/name")
    assert library == []
