"""The default rule of `choose`, with its interval, written out in plain loops."""

import numpy as np
from scipy.stats import norm, t

MEMBERS = ("msp", "rmds", "vim", "osnn")
SIMPLE = ("msp", "maxlogit")


def share_below(reference, scores):
    """Share of the reference below each score, ties by half."""
    return np.array(
        [np.mean(reference < s) + np.mean(reference == s) / 2 for s in scores]
    )


def mean_share(columns):
    """Average over detectors; equal means stay equal."""
    return np.round(np.mean(columns, axis=0), 12)


def level_of(known, right, kinds, chosen):
    """Return the score of the known sample to cut at: a threshold on some kinds."""
    cuts = [*np.sort(known), np.inf]
    osa = [
        np.mean((known >= cut) & right) / 2
        + np.mean([np.mean(kinds[k] < cut) for k in chosen]) / 2
        for cut in cuts
    ]
    return cuts[int(np.argmax(np.round(osa, 12)))]  # of equal ones the smallest


def osa_at(known, right, unknown, cut):
    """Open-set accuracy at a cut."""
    return np.mean((known >= cut) & right) / 2 + np.mean(unknown < cut) / 2


def decide(known, right, unknown):
    """Choose: known scores by detector, who is right, unknown scores by group.

    Returns the name, the members, the accuracy of each candidate on each kind left
    out, the share of knowns accepted correctly, and that of each kind rejected.
    """
    members = [name for name in MEMBERS if name in known] or [next(iter(known))]
    kinds = {d: [unknown[g][d] for g in sorted(unknown)] for d in known}
    auroc = {
        d: np.mean([np.mean(1 - share_below(known[d], x)) for x in kinds[d]])
        for d in members
    }
    members = [d for d in members if auroc[d] >= 0.5] or members
    columns = dict(known)
    columns["consensus"] = mean_share(
        [share_below(known[d], known[d]) for d in members]
    )
    kinds["consensus"] = [
        mean_share([share_below(known[d], kinds[d][k]) for d in members])
        for k in range(len(unknown))
    ]

    def cut_of(d, chosen):
        return level_of(columns[d], right, kinds[d], chosen)

    every = range(len(unknown))
    best, gained = "consensus", 0.0
    left_out = {}
    if len(unknown) > 1:
        for d, column in columns.items():
            cuts = [cut_of(d, [j for j in every if j != k]) for k in every]
            osa = [osa_at(column, right, kinds[d][k], cuts[k]) for k in every]
            left_out[d] = np.array(osa)
        for d in known:
            gain = left_out[d] - left_out["consensus"]
            is_able = d in SIMPLE or gain.min() > 0.02
            if is_able and round(gain.mean(), 12) > gained:
                best, gained = d, round(gain.mean(), 12)
    cut = cut_of(best, list(every))
    rejected = [np.mean(x < cut) for x in kinds[best]]
    accepted = np.mean((columns[best] >= cut) & right)
    return best, members, left_out, accepted, rejected


def interval(ccr, n_known, n_unknown, rejected):
    """Predict the open-set accuracy on a new kind: (low, expected, high) at 90 %."""
    k = len(rejected)
    z = norm.ppf(
        [(r * n + 0.5) / (n + 1) for r, n in zip(rejected, n_unknown, strict=True)]
    )
    freedom = 3 + k - 1
    spread = np.sqrt((3 * 0.6**2 + sum((z - np.mean(z)) ** 2)) / freedom)
    half = t.ppf(0.95, freedom) * spread * np.sqrt(1 + 1 / k)
    ends = [ccr / 2 + norm.cdf(np.mean(z) + step) / 2 for step in (-half, 0, half)]
    noise = np.sqrt(1.5 * max(ccr * (1 - ccr), 0.01) / n_known) / 2 * norm.ppf(0.95)
    low = ends[1] - np.hypot(ends[1] - ends[0], noise)
    high = ends[1] + np.hypot(ends[2] - ends[1], noise)
    return max(low, 0), ends[1], min(high, 1)
