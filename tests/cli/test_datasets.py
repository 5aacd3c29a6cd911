"""`openset datasets`."""

from openset import datasets


def test_every_data_set_is_listed_with_size_and_how_to_get_it(run, tmp_path):
    (tmp_path / "images_background").mkdir()  # for omniglot
    text = run("datasets", "--root", tmp_path)
    lines = {line.split()[0]: line for line in text.splitlines() if line.split()}
    assert set(datasets.names()) <= set(lines)
    here = [name for name in datasets.names() if datasets.info(name).is_here(tmp_path)]
    assert f"{len(here)} of {len(datasets.names())} present" in text
    for name, said in {
        "digits": "1797 here",
        "omniglot": "32460 here",
        "mnist": "70000 download",
        "stanford-cars": "16185 by hand",
    }.items():
        assert said in " ".join(lines[name].split())


def test_json_has_the_whole_list_or_one(run_json, tmp_path):
    records = run_json("datasets", "--root", tmp_path)
    assert [one["name"] for one in records] == datasets.names()
    one = run_json("datasets", "cub", "--root", tmp_path)
    assert one in records
    assert (one["n_classes"], one["here"], one["how"]) == (200, False, "download")
    assert one["from"].startswith("https://data.caltech.edu/")
