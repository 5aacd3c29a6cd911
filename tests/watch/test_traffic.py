"""`watch.read`: files of scores and of outputs, folders, traffic of a server."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from openset import Outputs, Rejector, detectors
from openset.watch import Watch, compare, read


@pytest.fixture
def outputs(rng):
    return Outputs(
        logits=rng.normal(size=(30, 3)),
        features=rng.normal(size=(30, 2)),
        labels=rng.integers(0, 3, 30),
    )


@pytest.fixture
def rejector(outputs):
    fitted = detectors.MaxLogit().fit(outputs)
    return Rejector.calibrate(fitted, known=outputs, objective="at_tpr")


def test_every_kind_of_file_gives_the_same_scores(tmp_path, rejector, outputs):
    scores = rejector.score(outputs)
    paths = [scores.save(tmp_path / f"scores{end}") for end in (".npz", ".csv")]
    paths += [outputs.save(tmp_path / name) for name in ("outputs.npz", "folder")]
    for path in paths:
        part = read(rejector, path)
        assert_array_equal(part.scores.known, scores.known)
        assert part.n_invalid == 0
        has_features = "scores" not in path.name
        assert (part.features is not None) == has_features


def test_traffic_is_read_in_the_order_of_its_files_without_invalid_samples(
    tmp_path, rejector, outputs
):
    bad = np.array(outputs.logits)
    bad[[0, 7]] = np.nan
    damaged = replace(outputs, logits=np.nan_to_num(bad))
    for i, one in enumerate((outputs, damaged, outputs)):
        one.save(tmp_path / f"traffic-{i}.npz")
    with np.load(tmp_path / "traffic-1.npz") as found:
        arrays = dict(found) | {"logits": bad}
    np.savez(tmp_path / "traffic-1.npz", **arrays)
    np.savez(tmp_path / "traffic-3.npz", **arrays | {"logits": bad * np.nan})
    part = read(rejector, tmp_path)
    assert (len(part.scores), part.n_invalid) == (88, 32)
    rows = np.concatenate([outputs.features, np.delete(outputs.features, [0, 7], 0)])
    assert_array_equal(part.features, np.concatenate([rows, outputs.features]))
    (tmp_path / "alone").mkdir()
    (tmp_path / "traffic-3.npz").rename(tmp_path / "alone" / "traffic-3.npz")
    with pytest.raises(ValueError, match="samples with an answer, got invalid ones"):
        read(rejector, tmp_path / "alone")


def test_files_are_windows_or_are_cut_into_windows(tmp_path, rejector, outputs):
    paths = [outputs.save(tmp_path / f"{day}.npz") for day in ("monday", "tuesday")]
    new, watch = rejector.score(outputs), Watch.of(rejector)
    expected = watch.check(new, features=outputs.features)
    found = compare(rejector, paths)
    assert found == {"monday.npz": expected, "tuesday.npz": expected}
    assert list(compare(rejector, paths[:1] * 2)) == [str(paths[0])]
    cut = compare(rejector, paths, window=20)
    assert list(cut) == ["0…19", "20…39", "40…59"]
    first = watch.check(new.take(np.arange(20)), features=outputs.features[:20])
    assert cut["0…19"] == first
    options = {"reference": paths[0], "false_alarms": 0.1}
    (verdict,) = compare(rejector, paths[1:], **options).values()
    assert (verdict.false_alarms, verdict.is_alarm) == (0.1, False)
    with pytest.raises(ValueError, match="Use a smaller window, or give more samples"):
        compare(rejector, paths, window=61)
