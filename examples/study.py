"""
A study with its report
=======================

Compare detectors on several problems from one file: a table with tests, and a report
as one HTML page.
"""

# %%
from pathlib import Path

import openset as ops

STUDY = """
protocols:
  - {kind: holdout, name: digits, data: digits, known: 6, unknown: 4, repeats: 3}
models:
  - {kind: mlp, hidden: 32, epochs: 60}
detectors: [msp, maxlogit, postmax, knn, {name: knn, k: 1, label: knn 1}]
metrics: [openauc, auroc, fpr_at_tpr]
"""
Path("runs").mkdir(exist_ok=True)
written = Path("runs/small.yaml").write_text(STUDY, encoding="utf-8")

# %%
# **Run.** Every cell is stored as soon as it is finished. The same call again repeats
# nothing; `backend="ray"` runs on a cluster.

done = ops.bench.run("runs/small.yaml", "runs/digits", backend="sequential")
print(done.n_run, "cells")

# %%
# **Compare.** Mean and standard deviation over the three draws of classes. A dagger
# marks what is significantly behind the best.

results = ops.runs.results("runs/digits")
board = ops.stats.leaderboard(results, ["openauc", "auroc"])
board

# %%
# **Report.** One file, opened in any browser, without a server. Its figures can be had
# alone: mean ranks over the draws, and what differs by no more than chance.

page = ops.report.write("runs/digits", "runs/report.html")
print(page, round(page.stat().st_size / 1e6, 1), "MB")
ops.report.critical_difference(ops.stats.leaderboard(results, "openauc"))
