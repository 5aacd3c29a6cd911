"""`openset compare`: every number can be read, and everything is checked first."""

import csv
import io
import json
import re
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

from openset import Scores, UndefinedMetricError, evaluate, stats
from openset.cli import _tables, app
from openset.cli._console import OUT
from openset.metrics import Metric, registry
from openset.results import Result, Results

NAMES = [
    *("msp", "maxlogit", "energy", "postmax", "knn-k=20", "vim"),
    *("react", "ash", "openmax", "mahalanobis", "nnguide", "gen"),
]


@pytest.fixture
def files(tmp_path):
    """Write the scores of twelve detectors on the same samples."""
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1, -1], 100)
    predicted = np.where(rng.random(300) < 0.9, np.maximum(labels, 0), 1)
    known = rng.normal(size=300) + 2 * (labels >= 0)
    return [
        Scores(
            labels=labels,
            predicted=predicted,
            known=known + rng.normal(size=300) * i / 5,
        ).save(tmp_path / f"scores-{name}.npz")
        for i, name in enumerate(NAMES)
    ]


def run(*words):
    return CliRunner().invoke(app, ["compare", *map(str, words)])


def printed(*words):
    result = run(*words)
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.parametrize("width", [60, 80, 200])
@pytest.mark.parametrize("n", [2, 5, 12])
def test_numbers_are_never_cut(files, n, width, monkeypatch):
    monkeypatch.setattr(OUT, "_width", width)
    text = printed(*files[:n])
    interval = r"[+-]\d\.\d{4} … [+-]\d\.\d{4}"
    assert "…" not in re.sub(interval, "", text)
    shown = re.findall(r"\d\.\d{4}", text)
    for file in files[:n]:
        found = evaluate(Scores.load(file))
        for value in found.values():
            assert f"{value:.4f}" in shown
        for span in found.intervals.values():
            assert f"±{(span.high - span.low) / 2:.3f}" in text
    assert max(map(len, text.splitlines())) <= width


def test_files_of_one_name_are_told_apart_by_their_folders(files, tmp_path):
    runs = []
    for name, file in zip(("openauc", "ceplus"), files, strict=False):
        runs.append(tmp_path / name / "scores" / "own.npz")
        runs[-1].parent.mkdir(parents=True)
        runs[-1].write_bytes(file.read_bytes())
    rows = printed(*runs, "--csv").splitlines()[1:]
    assert {row.partition(",")[0] for row in rows} == {"openauc", "ceplus"}
    again = run(runs[0], runs[0])
    assert "two or more different files" in str(again.exception)


@pytest.mark.parametrize("n", [2, 5, 12])
def test_every_pair_has_a_line_of_its_own(files, n, monkeypatch):
    monkeypatch.setattr(OUT, "_width", 80)
    pairs = printed(*files[:n]).partition("Pairwise differences")[2].splitlines()
    for i, a in enumerate(files[:n]):
        for b in files[i + 1 : n]:
            names = [path.stem.removeprefix("scores-") for path in (a, b)]
            test = stats.compare(Scores.load(a), Scores.load(b))
            (line,) = [line for line in pairs if line.split()[:2] == names]
            low, high = test.interval.low, test.interval.high
            numbers = f"{test.difference:+.4f}  {low:+.4f} … {high:+.4f}"
            assert numbers in line
            assert line.split()[-1] in {*names, "unclear"}


def test_many_detectors_are_rows_under_their_sections(files, monkeypatch):
    monkeypatch.setattr(OUT, "_width", 80)
    text = printed(*files)
    assert text.startswith("200 known and 100 unknown samples; ± is half the width of")
    first = text.index("Ranking")
    rows = text[first : text.index("Ranking, continued")].splitlines()
    value = evaluate(Scores.load(files[3]))["openauc"]
    (row,) = [row for row in rows if row.split()[:1] == ["postmax"]]
    assert row.split()[1] == f"{value:.4f}"


def test_groups_of_evaluate_are_rows_too_if_they_are_many(tmp_path, monkeypatch):
    monkeypatch.setattr(OUT, "_width", 80)
    groups = np.array([""] * 20 + [f"group-{i}" for i in range(20)])
    labels = np.repeat([0, -1], 20)
    known = np.random.default_rng(0).normal(size=40)
    Scores(labels=labels, predicted=np.zeros(40, int), known=known, groups=groups).save(
        tmp_path / "s.npz"
    )
    result = CliRunner().invoke(app, ["evaluate", str(tmp_path / "s.npz"), "--groups"])
    assert result.exit_code == 0, result.output
    assert "…" not in result.output
    assert re.search(r"group-19 +1\.0000", result.output)


@pytest.mark.parametrize("form", [[], ["--csv"], ["--latex"]])
def test_other_samples_are_refused_before_anything_is_printed(files, tmp_path, form):
    one = Scores.load(files[0])
    fewer = one.take(np.arange(299)).save(tmp_path / "fewer.npz")
    turned = one.take(np.arange(300)[::-1]).save(tmp_path / "turned.npz")
    for other, words in {
        fewer: "got 299 samples instead of 300",
        turned: "got different labels in 200 of 300 rows",
    }.items():
        result = run(*files[:2], other, *form)
        rule = f"{other} must be of the same samples in the same order as {files[0]}"
        assert rule in str(result.exception)
        assert words in str(result.exception)
        assert result.output == ""


def test_samples_in_another_order_are_asked_about(files, tmp_path):
    one = Scores.load(files[0])
    rng = np.random.default_rng(1)
    order = np.concatenate(
        [rng.permutation(np.arange(i, i + 100)) for i in (0, 100, 200)]
    )
    shuffled = one.take(order).save(tmp_path / "shuffled.npz")  # the labels are equal
    caution = f"{shuffled} has the same numbers of labels and predicted classes as"
    assert caution in printed(files[0], shuffled)
    predicted = np.where(rng.random(300) < 0.5, one.predicted, 0)
    other = Scores(labels=one.labels, predicted=predicted, known=one.known)
    for path in (files[1], other.save(tmp_path / "another-network.npz")):
        assert "in another order?" not in printed(files[0], path)


IN_ORDER = "The samples are in different orders; they are paired by ids."


@pytest.mark.parametrize("column", ["id", "ids"])
@pytest.mark.parametrize(
    "form", [["--json", "--metric", "fpr_at_tpr"], ["--csv"], ["--latex"], []]
)
def test_a_file_in_another_order_is_read_by_its_ids(files, tmp_path, form, column):
    ids = np.array([f"img-{i}" for i in range(300)])
    order = np.random.default_rng(2).permutation(300)
    wanted = [replace(Scores.load(file), ids=ids) for file in files[:3]]
    for i, scores in enumerate(wanted):
        scores.save(tmp_path / f"m{i}.npz")
    first, second, third = (tmp_path / f"m{i}.npz" for i in range(3))
    same = run(first, second, third, *form)
    assert same.stderr == ""
    theirs = tmp_path / "theirs" / "m1.csv"
    theirs.parent.mkdir()
    text = wanted[1].take(order).save(theirs).read_text()
    theirs.write_text(text.replace("ids", column, 1))
    result = run(first, theirs, third, *form)
    assert result.stderr.splitlines() == [IN_ORDER]
    assert result.stdout == same.stdout
    # without ids, the labels tell
    result = run(first, theirs, third, "--columns", "ids=", *form)
    assert "must be of the same samples in the same order" in str(result.exception)


def test_ids_that_are_missing_are_counted_and_named(files, tmp_path):
    one = replace(Scores.load(files[0]), ids=np.arange(300) + 1000)
    paths = [one.save(tmp_path / "one.npz")]
    paths.append(one.take(np.arange(299)[::-1]).save(tmp_path / "fewer.npz"))
    words = f"{paths[1]} must be of the same samples as {paths[0]}, got none for 1 of"
    assert f"{words} 300 ids (1299)" in str(run(*paths).exception)
    renamed = replace(one, ids=np.arange(300)).save(tmp_path / "renamed.npz")
    error = str(run(paths[0], renamed).exception)
    assert "none for 300 of 300 ids (1000 and 1001, …) and 300 with other ids" in error
    assert "--columns ids=" in error
    assert "Pairwise differences" in printed(paths[0], renamed, "--columns", "ids=")
    for bad in ("known=", "ids", "=x"):
        result = run(paths[0], renamed, "--columns", bad)
        assert (result.exit_code, "pairs such as" in result.stderr) == (2, True)


def test_many_methods_and_few_metrics_are_rows_of_methods_in_latex(files):
    few = ("--latex", "--metric", "openauc", "--metric", "auroc")
    lines = printed(*files[:5], *few).splitlines()
    assert lines[:3] == [
        r"\begin{tabular}{lrr}",
        r"\toprule",
        r" & OpenAUC $\uparrow$ & AUROC $\uparrow$ \\",
    ]
    assert lines[3] == r"\midrule"
    assert [line.split(" & ")[0] for line in lines[4:9]] == NAMES[:5]
    turned = printed(*files[:2], *few)
    assert "Metric & msp & maxlogit" in turned
    cell = turned.split("OpenAUC")[1].split(" & ")[1]
    assert cell in printed(*files[:3], *few)  # the same number and interval


def test_one_format_at_a_time(files):
    assert run(*files[:2], "--csv", "--latex").exit_code == 2


def test_names_are_not_markup(files, tmp_path):
    strange = tmp_path / "[bold]x.npz"
    Scores.load(files[0]).save(strange)
    assert "[bold]x" in printed(files[1], strange)


def test_a_perfect_detector_hides_no_interval_of_the_others(files, tmp_path):
    other = Scores.load(files[0])
    perfect = other.with_known(np.where(other.is_unknown, -1.0, 1.0))
    text = printed(perfect.save(tmp_path / "perfect.npz"), files[0])
    span = evaluate(other).intervals["auroc"]
    after = text[text.index("AUROC ") :]
    assert f"±{(span.high - span.low) / 2:.3f}" in after.splitlines()[1]


def test_of_one_unknown_there_is_a_table_and_no_test(tmp_path):
    for name in ("a", "b"):
        Scores(labels=[0, 1, -1], predicted=[0, 1, 0], known=[3, 1, 2]).save(
            tmp_path / f"{name}.npz"
        )
    done = run(str(tmp_path / "a.npz"), str(tmp_path / "b.npz"))
    assert done.exit_code == 0
    said = " ".join(done.stdout.split())
    assert "OpenAUC" in said
    assert "No pairwise tests. compare: an interval is undefined for a single" in said


@pytest.fixture
def study(tmp_path):
    """Write results of three detectors on two protocols, five test splits each."""
    rng = np.random.default_rng(1)
    rows = [
        Result(protocol=p, repeat=i, detector=d, metric="oosa", value=v + e)
        for p in ("near", "far")
        for d, v in (("postmax", 0.8), ("msp", 0.7), ("scale", 0.6))
        for i, e in enumerate(rng.normal(0, 0.01, 5))
    ]
    return Results(rows).save(tmp_path / "results.csv")


def lead(scores):
    return float(scores.known.max())


LEAD = Metric(lead, label="Lead", better="lower")


def test_a_study_is_compared_by_a_metric_of_your_own(tmp_path, monkeypatch):
    values = dict(registry._TABLE._values)
    monkeypatch.setattr(registry._TABLE, "_values", values)
    path = tmp_path / "results.csv"
    Results(
        Result(repeat=i, detector=d, metric="lead", value=v + i / 10)
        for d, v in (("msp", 0.1), ("knn", 0.5))
        for i in range(3)
    ).save(path)
    unknown = str(run(path, "--metric", "lead").exception)
    assert "in the shell name it as --metric package.module:Name" in unknown
    assert "lead" in printed(path, "--metric", f"{__name__}:LEAD")


def test_a_study_is_compared_by_paired_t_tests(study, monkeypatch):
    monkeypatch.setattr(OUT, "_width", 100)
    options = ["--metric", "oosa", "--against", "postmax"]
    text = printed(study, *options, "--correction", "bonferroni")
    assert "4 tests with Bonferroni's correction" in " ".join(text.split())
    tests = stats.paired_t(
        Results.load(study), "oosa", against="postmax", correction="bonferroni"
    )
    for test in tests:
        (line,) = [
            line
            for line in text.splitlines()
            if line.split()[:3] == [test.protocol, "postmax", test.b]
        ]
        assert f"{test.difference:+.4f}" in line
        assert f"{test.p_corrected:.2g}" in line
        assert line.split()[-1] == "postmax"
    rows = printed(study, *options, "--csv").splitlines()
    assert rows[0].startswith("protocol,metric,a,b,mean_a")
    assert len(rows) == 5
    assert printed(study, *options, "--pool", "--csv").count("all protocols") == 2
    assert r"near & postmax & msp" in printed(study, *options, "--latex")


def test_options_of_runs_and_wrong_names_are_refused(study, files):
    assert run(*files[:2], "--pool").exit_code == 2
    for words, message in {
        (study, "--metric", "oosa", "--against", "knn"): "--against must be one of",
        (study, "--metric", "auroc"): "--metric must be one of 'oosa'",
        (study, "--correction", "luck"): "--correction must be one of 'holm'",
        (*files[:2], "--against", "x"): "--against must be one of 'msp'",
    }.items():
        assert message in str(run(*words).exception)


def test_one_method_is_compared_with_every_other(files, monkeypatch):
    monkeypatch.setattr(OUT, "_width", 80)
    text = printed(*files[:4], "--against", "energy", "--correction", "bonferroni")
    pairs = text.partition("Pairwise differences")[2]
    assert "Bonferroni's" in pairs
    found = sorted(line.split()[:2] for line in pairs.splitlines() if " … " in line)
    assert found == [["energy", b] for b in ("maxlogit", "msp", "postmax")]


@pytest.fixture
def seeds(tmp_path):
    """Write scores of three methods and four seeds, as other programs do."""
    rng = np.random.default_rng(0)
    for seed in range(4):
        labels = rng.permutation(np.repeat([0, 1, 2, -1], 60))
        names = np.array(["cat", "dog", "cow", "oos"])
        base = rng.normal(size=240) + 1.3 * (labels < 0)
        for method, noise in (("msp", 0.9), ("knn", 0.3), ("my_net", 1.6)):
            predicted = np.where(rng.random(240) < 0.9, np.maximum(labels, 0), 1)
            energy = base + rng.normal(size=240) * noise
            rows = zip(names[labels], names[predicted], energy, strict=True)
            lines = [f"{y},{p},{e}" for y, p, e in rows]
            path = tmp_path / f"{method}_seed{seed}.csv"
            path.write_text("\n".join(["y,predicted,energy", *lines, ""]))
    return str(tmp_path / "{method}_seed{seed}.csv")


FOREIGN = ["--columns", "labels=y,known=energy", "--unknown-label", "oos"]
FOREIGN += ["--higher-is-unknown"]
READ = {
    "columns": {"labels": "y", "known": "energy"},
    "unknown_label": "oos",
    "higher_is_unknown": True,
}


def test_repeats_that_are_copies_are_named(seeds, tmp_path):
    assert "same results" not in run(seeds, *FOREIGN).output
    first = (tmp_path / "knn_seed0.csv").read_bytes()
    for seed in (1, 2, 3):
        (tmp_path / f"knn_seed{seed}.csv").write_bytes(first)
    said = run(seeds, *FOREIGN).output
    assert said.count("give the same results") == 1
    assert "all repeats of knn give the same results" in said


def test_seeds_are_repeats_not_rivals(seeds, monkeypatch):
    monkeypatch.setattr(OUT, "_width", 100)
    text = printed(seeds, *FOREIGN)
    results = stats.read_results(seeds, **READ)
    board = stats.leaderboard(results, list(stats.METRICS), columns="metric")
    for row in ("knn", "msp", "my_net"):
        (line,) = [x for x in text.splitlines() if x.split()[:1] == [row] and "±" in x]
        for key in stats.METRICS:
            entry = board.entries[row, key]
            assert f"{entry.mean:.3f} ± {entry.spread:.3f}" in line
    tests = text.partition("Paired t-tests")[2]
    for test in stats.paired_t(results, "openauc"):
        assert test.n == 4
        (line,) = [x for x in tests.splitlines() if x.split()[:2] == [test.a, test.b]]
        assert f"{test.difference:+.4f}" in line
        assert f"{test.p_corrected:.2g}" in line


def test_repeats_as_csv_and_latex_of_chosen_metrics(seeds):
    rows = printed(seeds, *FOREIGN, "--csv", "--metric", "auroc").splitlines()
    assert rows[0].startswith("method,column,mean,spread,n")
    assert [row.split(",")[:2] for row in rows[1:]] == [
        [name, "auroc"] for name in ("knn", "msp", "my_net")
    ]
    chosen = ["--metric", "fpr_at_tpr", "--metric", "auroc"]
    text = printed(seeds, *FOREIGN, "--latex", *chosen)
    assert text.count("\\begin{tabular}{lrrr}") == 1
    assert r"$\pm$" in text
    both = printed(seeds, *FOREIGN, *chosen)
    assert both.count("Paired t-tests") == 2


def test_repeats_of_several_protocols_have_one_table_per_metric(seeds, tmp_path):
    for protocol in ("near", "far"):
        (tmp_path / protocol).mkdir()
        for path in tmp_path.glob("*_seed*.csv"):
            (tmp_path / protocol / path.name).write_bytes(path.read_bytes())
    pattern = str(tmp_path / "{protocol}" / "{method}_seed{seed}.csv")
    text = printed(pattern, *FOREIGN, "--metric", "auroc", "--latex")
    assert "far" in text
    assert "near" in text
    rows = printed(pattern, *FOREIGN, "--metric", "auroc", "--csv").splitlines()
    assert len(rows) == 1 + 3 * 2


def test_a_pattern_without_repeats_names_files(seeds):
    pattern = seeds.replace("{seed}", "1")
    rows = printed(pattern, *FOREIGN, "--csv", "--metric", "auroc").splitlines()[1:]
    assert [row.split(",")[:2] for row in rows] == [
        [name, "auroc"] for name in ("knn", "msp", "my_net")
    ]
    assert "Pairwise differences in auroc" in printed(
        pattern, *FOREIGN, "--metric", "auroc"
    )


def test_a_missing_seed_and_a_pattern_of_nothing_are_named(seeds, tmp_path):
    (tmp_path / "knn_seed2.csv").unlink()
    assert "seed 2 of 'knn'" in str(run(seeds, *FOREIGN).exception)
    result = run(seeds.replace("_seed", "-seed"), *FOREIGN)
    assert "a pattern that matches files" in str(result.exception)


def test_a_report_takes_seeds_as_repeats(seeds, tmp_path):
    pytest.importorskip("jinja2", reason="the extra report")
    out = tmp_path / "page.html"
    words = ["report", seeds, *FOREIGN, "--out", str(out)]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    page = out.read_text("utf-8")
    results = stats.read_results(seeds, "openauc", **READ)
    values = results.where(detector="knn").column("value")
    assert f"{values.mean():.4f}" in page
    assert f"{values.std(ddof=1):.4f}" in page
    assert "3 methods" in page
    assert "over 4 seeds" in page


def test_latex_marks_the_best_and_the_direction(files):
    text = printed(*files[:2], "--latex", "--metric", "auroc", "--metric", "fpr_at_tpr")
    both = [evaluate(Scores.load(file)) for file in files[:2]]
    for key, label, best in (
        ("auroc", r"AUROC $\uparrow$", max),
        ("fpr_at_tpr", r"FPR95, known positive $\downarrow$", min),
    ):
        (line,) = [line for line in text.splitlines() if line.startswith(f"{label} &")]
        values = [f"{one[key]:.3f}" for one in both]
        assert len(set(values)) == 2
        assert re.findall(r"textbf{([\d.]+)}", line) == [best(values)]
    assert "OpenAUC" not in text
    assert text.isascii()
    every = printed(*files[:2], "--latex")
    assert every.isascii()


def test_latex_of_one_set_marks_nothing(files):
    result = CliRunner().invoke(app, ["evaluate", str(files[0]), "--latex"])
    assert "textbf" not in result.output
    assert r"AUROC $\uparrow$ &" in result.output


def test_a_metric_without_a_direction_names_no_better_method(files, monkeypatch):
    spread = Metric(
        lambda scores: scores.known.std(),
        label="Spread",
        better="neither",
        key="spread",
    )
    monkeypatch.setitem(registry._TABLE._values, "spread", spread)
    text = printed(files[0], files[-1], "--metric", "spread")
    (line,) = (line for line in text.splitlines() if " … " in line)
    assert line.split()[-1] == "–"


def test_a_metric_given_twice_is_shown_once(seeds):
    once = printed(seeds, *FOREIGN, "--metric", "auroc", "--csv")
    assert (
        printed(seeds, *FOREIGN, "--metric", "auroc", "--metric", "auroc", "--csv")
        == once
    )


def test_a_metric_that_the_first_file_does_not_define_is_still_shown(
    files, monkeypatch
):
    best = Scores.load(files[0]).known.max()

    def least(scores):
        if scores.known.max() == best:
            msg = "least: undefined"
            raise UndefinedMetricError(msg)
        return scores.known.min()

    row = Metric(least, label="Least", better="higher", key="least")
    monkeypatch.setitem(registry._TABLE._values, "least", row)
    text = printed(files[0], files[1], "--metric", "least")
    value = f"{Scores.load(files[1]).known.min():.4f}"
    assert ["Least", "–", value] in [line.split()[-3:] for line in text.splitlines()]


def test_tables_of_several_metrics_say_which_is_which(seeds, tmp_path):
    for protocol in ("near", "far"):
        (tmp_path / protocol).mkdir()
        for path in tmp_path.glob("*_seed*.csv"):
            (tmp_path / protocol / path.name).write_bytes(path.read_bytes())
    pattern = str(tmp_path / "{protocol}" / "{method}_seed{seed}.csv")
    chosen = ["--metric", "auroc", "--metric", "fpr_at_tpr"]
    text = printed(pattern, *FOREIGN, *chosen, "--csv")
    rows = list(csv.DictReader(io.StringIO(text)))
    assert {row["metric"] for row in rows} == {"auroc", "fpr_at_tpr"}
    assert len({(r["method"], r["column"], r["metric"]) for r in rows}) == len(rows)
    latex = printed(pattern, *FOREIGN, *chosen, "--latex")
    assert "AUROC & " in latex
    assert "FPR95 & " in latex


def test_a_folder_of_a_study_says_which_direction_is_better(tmp_path, monkeypatch):
    monkeypatch.setattr(OUT, "_width", 100)
    path = tmp_path / "results.csv"
    Results(
        Result(repeat=i, detector=d, metric="nll", value=v + i / 10 + v * i / 1000)
        for d, v in (("msp", 0.1), ("knn", 0.5))
        for i in range(3)
    ).save(path)
    said = {"metrics": {"nll": {"label": "NLL", "better": "lower"}}}
    (tmp_path / "study.json").write_text(json.dumps(said))
    text = printed(path, "--metric", "nll")
    (line,) = (line for line in text.splitlines() if line.split()[:1] == ["msp"])
    assert line.split()[-1] == "msp"
    assert r"\multicolumn{8}{l}{nll}" in printed(path, "--metric", "nll", "--latex")


def test_detectors_are_rivals_and_groups_are_not(files):
    found = {str(file): evaluate(Scores.load(file)) for file in files[:2]}
    marked = {
        rivals: Console(force_terminal=True, width=200, file=io.StringIO())
        for rivals in (True, False)
    }
    for rivals, console in marked.items():
        for table in (
            _tables._sets_in_columns(found, "", rivals=rivals),
            *_tables._sets_in_rows(found, rivals=rivals),
        ):
            console.print(table)
    shown = {rivals: console.file.getvalue() for rivals, console in marked.items()}
    green = "\x1b[1;32m"
    assert f"{green}{found[str(files[0])]['openauc']:.4f}" in shown[True]
    assert green not in shown[False]
