"""`openset predict`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

import openset
from openset import _io
from openset.cli.options import Backend, Invalid, Json, keep_inputs, need, run_shards
from openset.cli.terminal import print_json, say, table, warn

SHOWN = 10


def command(
    rejector: str,
    new: Annotated[str, typer.Argument(metavar="OUTPUTS")],
    out: Annotated[str | None, typer.Option("--out", "-o")] = None,
    invalid: Invalid = "error",
    as_json: Json = False,
    jobs: int = -1,
    backend: Backend = "loky",
    plugin: list[str] | None = None,
) -> None:
    """Classify samples, or reject them as unknown (-1).

    Of labelled samples, the shares that are accepted and rejected are printed. For a
    folder of shards, --out gets one file of decisions per shard, as soon as the shard
    is finished; run the same command again to continue.

        openset predict rejector/ new.npz
        openset predict rejector/ new.npz --out decisions.csv
        openset predict rejector/ new.npz --invalid reject --json
        openset predict rejector/ shards/ --out decisions/ --jobs 8

    Parameters
    ----------
    new
        Outputs of the network on new samples: .npz or a folder of .npy files; or a
        folder, or a URL such as s3://bucket/shards, of many such shards (.npz,
        .parquet, folders).
    out
        Write to this .csv or .npz file; for shards, a folder or a URL.
    """
    if openset.shards.is_folder_of_shards(new):
        out = need(out, "--out must be given for a folder of shards: a folder or a URL")
        plugins = tuple(plugin or ())
        job = openset.shards.Predict(rejector, plugins=plugins, invalid=invalid)
        run_shards(job, new, out, jobs=jobs, backend=backend)
        return
    keep_inputs(Path(out) if out else None, new)
    loaded = openset.Rejector.load(rejector, plugins=plugin or ())
    keep: Any = "keep" if invalid == "reject" else "error"
    try:
        outputs = openset.Outputs.load(new, invalid=keep)
        with _io.naming(Path(new)):
            decisions = loaded.decide(outputs, invalid=invalid)
    except openset.InvalidSamplesError as error:
        error.add_note("To answer such samples with unknown, use --invalid reject")
        raise
    rows = loaded.rows(decisions, outputs)
    n, n_invalid = len(decisions), decisions.n_invalid
    counts = {"n": n, "n_rejected": decisions.n_rejected, "n_invalid": n_invalid}
    shares = {}
    if outputs.labels is not None and n_invalid < n:
        scores = decisions.scores(outputs.labels)
        shares = shares_of(loaded.threshold.rates(scores))
        seen = loaded.threshold.fingerprint
        if seen is not None and seen.is_of(scores):
            warn("The threshold was chosen on these samples: new ones have more errors")
    if n_invalid:
        row = int(decisions.is_invalid.argmax())
        first = rows[row].get("id", f"row {row}")
        what = f"{n_invalid} of {n} samples are invalid and answered with unknown"
        warn(f"{what}; the first: {first}")
    if as_json:
        print_json(counts | {"rates": shares, "decisions": rows})
        return
    n_unknown = decisions.n_rejected
    said = f"{n_unknown} of {n} samples unknown ({n_unknown / n:.1%})"
    if out:
        loaded.save_decisions(out, decisions, outputs)
        say(f"wrote {out}: {said}")
    else:
        table(map(_shown, range(n), rows[:SHOWN]), said)
        if n > SHOWN:
            say(f"... and {n - SHOWN} more samples: use --json or --out")
    if shares:
        say(sentence(shares))


def shares_of(rates: Any) -> dict[str, float]:
    """Return the rates of a threshold, those of the sides it has samples of."""
    found = {"tpr": rates.tpr, "ccr": rates.ccr} if rates.n_known else {}
    return found | ({"urr": rates.urr} if rates.n_unknown else {})


def sentence(shares: Mapping[str, float]) -> str:
    """Say which shares of labelled samples are accepted and rejected.

    Examples
    --------
    >>> sentence({"tpr": 0.95, "ccr": 0.9, "urr": 0.8})
    '95.0% of the known samples accepted, 90.0% with the right class; 80.0% of the \
unknown samples rejected'
    """
    parts = []
    if "tpr" in shares:
        right = f"{shares['ccr']:.1%} with the right class"
        parts.append(f"{shares['tpr']:.1%} of the known samples accepted, {right}")
    if "urr" in shares:
        parts.append(f"{shares['urr']:.1%} of the unknown samples rejected")
    return "; ".join(parts)


def _shown(number: int, row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns of the table."""
    name = row["name"] + " (invalid)" * row["invalid"]
    first = {"row": number} | {n: row[n] for n in ("group", "id") if n in row}
    sets = {"set": row["set"]} if "set" in row else {}
    last = {"known": row["known"], "margin": row["margin"]}
    return first | {"decision": row["decision"], "name": name} | sets | last
