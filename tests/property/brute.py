"""Slow, obvious definitions of every metric: loops over samples and pairs."""

from fractions import Fraction
from itertools import pairwise
from math import ceil, floor, inf

UNKNOWN = -1


def rows(scores):
    return list(
        zip(
            scores.labels.tolist(),
            scores.predicted.tolist(),
            scores.known.tolist(),
            strict=True,
        )
    )


def split(scores):
    known = [(y == p, s) for y, p, s in rows(scores) if y != UNKNOWN]
    unknown = [s for y, _, s in rows(scores) if y == UNKNOWN]
    return known, unknown


def thresholds(scores):
    return [inf, *sorted(set(scores.known.tolist()), reverse=True)]


def accuracy(scores):
    known, _ = split(scores)
    return sum(c for c, _ in known) / len(known)


def pairs(scores, credit, *, need_correct):
    known, unknown = split(scores)
    total = 0.0
    for correct, k in known:
        for u in unknown:
            if need_correct and not correct:
                continue
            total += 1.0 if k > u else credit if k == u else 0.0
    return total / (len(known) * len(unknown))


def counts(scores, threshold):
    """Count accepted knowns, accepted correct knowns, accepted unknowns."""
    known, unknown = split(scores)
    return (
        sum(s >= threshold for _, s in known),
        sum(c and s >= threshold for c, s in known),
        sum(s >= threshold for s in unknown),
    )


def fpr_at_tpr(scores, tpr, positive):
    known, unknown = split(scores)
    rate = Fraction(str(tpr))
    if positive == "known":
        need = ceil(rate * len(known))
        best = max(t for t in thresholds(scores) if counts(scores, t)[0] >= need)
        return counts(scores, best)[2] / len(unknown)
    need = ceil(rate * len(unknown))
    good = [t for t in thresholds(scores) if sum(u <= t for u in unknown) >= need]
    return sum(k <= min(good) for _, k in known) / len(known)


def error_at_tpr(scores, tpr, average):
    known, unknown = split(scores)
    need = ceil(Fraction(str(tpr)) * len(known))
    best = max(t for t in thresholds(scores) if counts(scores, t)[0] >= need)
    accepted, _, false = counts(scores, best)
    if average == "balanced":
        return (1 - accepted / len(known)) / 2 + false / len(unknown) / 2
    return (len(known) - accepted + false) / (len(known) + len(unknown))


def average_precision(scores, positive):
    known, unknown = split(scores)
    hits = [s for _, s in known] if positive == "known" else [-s for s in unknown]
    rest = unknown if positive == "known" else [-s for _, s in known]
    total, before = 0.0, 0
    for t in sorted(set(hits + rest), reverse=True):
        tp, fp = sum(s >= t for s in hits), sum(s >= t for s in rest)
        total += (tp - before) / len(hits) * tp / (tp + fp)
        before = tp
    return total


def ccr_at_fpr(scores, fpr):
    known, unknown = split(scores)
    allowed = floor(Fraction(str(fpr)) * len(unknown))
    # Thresholds just above each score, too: strictly greater than any of them.
    best = 0
    for t in thresholds(scores):
        at = counts(scores, t)
        if t != inf and at[2] <= allowed:
            best = max(best, at[1])
        above = sum(u > t for u in unknown)
        if above <= allowed:
            best = max(best, sum(c and s > t for c, s in known))
    return best / len(known)


def partial_openauc(scores, bound):
    """Integrate the OSCR polyline on a fine exact grid of segments."""
    known, unknown = split(scores)
    points = [(0, 0)]
    for t in thresholds(scores)[1:]:
        _, correct, false = counts(scores, t)
        points.append((false, correct))
    budget = Fraction(str(bound)) * len(unknown)
    area = Fraction(0)
    for (x0, y0), (x1, y1) in pairwise(points):
        stop = min(Fraction(x1), budget)
        width = stop - min(Fraction(x0), budget)
        if width == 0:
            continue
        end = y0 + (y1 - y0) * (stop - x0) / (x1 - x0)
        area += width * (y0 + end) / 2
    return float(area / (len(known) * len(unknown)) / Fraction(str(bound)))


def errors_in_order(scores, over):
    """Return (score, is error) of the samples that count, highest score first."""
    counted = [
        (s, y == UNKNOWN or y != p)
        for y, p, s in rows(scores)
        if over == "all" or y != UNKNOWN
    ]
    return sorted(counted, key=lambda one: -one[0])


def expected_errors(scores, over):
    """Errors among the best 1, 2, ... samples, expected over the order of ties."""
    counted = errors_in_order(scores, over)
    found = []
    for k in range(1, len(counted) + 1):
        last = counted[k - 1][0]
        above = [error for s, error in counted if s > last]
        tied = [error for s, error in counted if s == last]
        share = Fraction(sum(tied), len(tied))
        found.append(sum(above) + (k - len(above)) * share)
    return found


def aurc(scores, over):
    found = expected_errors(scores, over)
    return float(sum(e / k for k, e in enumerate(found, start=1)) / len(found))


def augrc(scores, over):
    found = [Fraction(0), *expected_errors(scores, over)]
    n = len(found) - 1
    return float(sum((a + b) / 2 for a, b in pairwise(found)) / n**2)


def accepted_costs(scores, threshold, beta):
    """Cost of each accepted sample."""
    return [
        beta if y == UNKNOWN else float(y != p)
        for y, p, s in rows(scores)
        if s >= threshold
    ]


def oaa(scores, threshold):
    right = [(y == p) == (s >= threshold) for y, p, s in rows(scores)]
    return sum(right) / len(right)


def osa(scores, threshold, alpha):
    known, unknown = split(scores)
    _, correct, false = counts(scores, threshold)
    if alpha == "counts":
        alpha = len(known) / (len(known) + len(unknown))
    return alpha * correct / len(known) + (1 - alpha) * (1 - false / len(unknown))


def decisions(scores, threshold):
    return [(y, p if s >= threshold else UNKNOWN, p) for y, p, s in rows(scores)]


def classes(scores):
    return sorted({c for y, p, _ in rows(scores) for c in (y, p) if c != UNKNOWN})


def class_counts(scores, threshold, c):
    """TP, FP, FN, TN of one known class among all decisions."""
    made = decisions(scores, threshold)
    tp = sum(y == c and d == c for y, d, _ in made)
    fp = sum(y != c and d == c for y, d, _ in made)
    fn = sum(y == c and d != c for y, d, _ in made)
    return tp, fp, fn, len(made) - tp - fp - fn


def over(part, whole):
    return part / whole if whole else 0.0


def f_score(scores, threshold, average):
    table = [class_counts(scores, threshold, c) for c in classes(scores)]
    if average == "macro_f":
        parts = [over(2 * tp, 2 * tp + fp + fn) for tp, fp, fn, _ in table]
        return sum(parts) / len(parts)
    if average == "macro":
        p = sum(over(tp, tp + fp) for tp, fp, _, _ in table) / len(table)
        r = sum(over(tp, tp + fn) for tp, _, fn, _ in table) / len(table)
    else:
        tp, fp, fn = (sum(row[i] for row in table) for i in range(3))
        p, r = over(tp, tp + fp), over(tp, tp + fn)
    return over(2 * p * r, p + r)


def youden(scores, threshold, kind):
    if kind == "binary":
        known, unknown = split(scores)
        accepted, _, false = counts(scores, threshold)
        return accepted / len(known) - false / len(unknown)
    table = [class_counts(scores, threshold, c) for c in classes(scores)]
    tpr = sum(over(tp, tp + fn) for tp, _, fn, _ in table) / len(table)
    tnr = sum(over(tn, tn + fp) for _, fp, _, tn in table) / len(table)
    return tpr + tnr - 1


def normalized_accuracy(scores, threshold, balance, aus):
    table = [class_counts(scores, threshold, c) for c in classes(scores)]
    right = sum(tp + tn for tp, _, _, tn in table)
    aks = right / sum(sum(row) for row in table)
    made = decisions(scores, threshold)
    tp = sum(y == UNKNOWN and d == UNKNOWN for y, d, _ in made)
    fp = sum(y != UNKNOWN and d == UNKNOWN for y, d, _ in made)
    n_unknown = sum(y == UNKNOWN for y, _, _ in made)
    part = over(tp, tp + fp) if aus == "precision" else tp / n_unknown
    return balance * aks + (1 - balance) * part
