"""Simple predictions that any modeler must beat, each from the medians of a series.

They need no hypotheses and no posterior: a user could compute them in a spreadsheet. Values are
(n,) at points (n,) or (n, n_parameters); predictions are at the target points, in their order.
"""

import numpy as np

LAST_POINTS = 3  # of a line through the newest points
USL_CONTENTION = np.concatenate([[0.0], np.geomspace(1e-4, 1, 25)])  # σ of Gunther's law
USL_COHERENCY = np.concatenate([[0.0], np.geomspace(1e-7, 0.1, 25)])  # κ
LENGTHS = np.geomspace(0.3, 30, 12)  # of a Gaussian process, in units of log x
NOISES = (0.01, 0.03, 0.1)  # of a Gaussian process, relative to its standard deviation


def last_value(x, values, targets):
    """Return the value at the largest x, everywhere."""
    return np.full(len(targets), values[np.argmax(x)])


def last_line(x, values, targets):
    """Return a line through the last three points, on logarithmic axes if all are positive."""
    newest = np.argsort(x)[-LAST_POINTS:]
    x, values = x[newest], values[newest]
    if len(x) < 2 or np.any(values <= 0):
        return last_value(x, values, targets)

    slope, offset = np.polyfit(np.log(x), np.log(values), 1)
    return np.exp(offset + slope * np.log(targets))


def scalability_law(x, values, targets):
    """Return Gunther's universal scalability law, t(p) = t₁ (1 + σ(p - 1) + κ p (p - 1)) / p.

    The ranks share one problem (strong scaling). The grid of σ and κ is searched exhaustively; t₁
    minimises the relative errors for each.
    """
    contention, coherency = np.meshgrid(USL_CONTENTION, USL_COHERENCY)
    contention, coherency = contention.ravel()[:, None], coherency.ravel()[:, None]

    def shape(p):
        return (1 + contention * (p - 1) + coherency * p * (p - 1)) / p

    ratios = shape(np.asarray(x)) / values
    first = ratios.sum(axis=1) / (ratios**2).sum(axis=1)
    best = int(np.argmin(((first[:, None] * ratios - 1) ** 2).sum(axis=1)))
    return first[best] * shape(np.asarray(targets))[best]


def gaussian_process(x, values, targets):
    """Return a Gaussian process over a line, both of logarithms, with the most probable scales."""
    if np.any(values <= 0):
        return last_value(x, values, targets)

    log_x, log_y, log_targets = (np.log(np.asarray(v, dtype=float)) for v in (x, values, targets))
    line = np.polyfit(log_x, log_y, 1) if len(x) > 1 else np.array([0.0, log_y[0]])
    rest = log_y - np.polyval(line, log_x)
    size = max(float(rest.std()), 1e-6)

    best = (-np.inf, np.zeros(len(targets)))
    for length in LENGTHS:
        squares = (log_x[:, None] - log_x) ** 2
        for noise in NOISES:
            kernel = np.exp(-0.5 * squares / length**2) + noise**2 * np.eye(len(x))
            solved = np.linalg.solve(kernel, rest / size)
            evidence = -0.5 * (rest / size @ solved + np.linalg.slogdet(kernel)[1])
            if evidence > best[0]:
                to_targets = np.exp(-0.5 * (log_targets[:, None] - log_x) ** 2 / length**2)
                best = (evidence, size * to_targets @ solved)

    return np.exp(np.polyval(line, log_targets) + best[1])


def plane(points, values, targets):
    """Return a plane in log space over several parameters: a power of each, and a factor."""
    is_positive = values > 0
    if is_positive.sum() < 2:
        return np.full(len(targets), np.median(values))

    design = np.column_stack([np.ones(is_positive.sum()), np.log(points[is_positive])])
    weights = np.linalg.lstsq(design, np.log(values[is_positive]), rcond=None)[0]
    return np.exp(np.column_stack([np.ones(len(targets)), np.log(targets)]) @ weights)


BASELINES = {
    "last value": last_value,
    "last line": last_line,
    "USL": scalability_law,
    "Gaussian process": gaussian_process,
}


def two_lines(x, values):
    """Return the index of the first point behind a change of slope or level, None without one.

    Two lines on logarithmic axes, of three points at least, where they have a smaller Bayesian
    information criterion than one; the point of the change counts as a parameter.
    """
    if np.any(values <= 0) or len(x) < 6:
        return None
    log_x, log_y, count = np.log(x), np.log(values), len(x)

    def squares(rows):
        slope, offset = np.polyfit(log_x[rows], log_y[rows], 1)
        return ((log_y[rows] - offset - slope * log_x[rows]) ** 2).sum()

    def criterion(rss, n_parameters):
        return count * np.log(max(rss / count, 1e-12)) + n_parameters * np.log(count)

    cuts = range(3, count - 2)
    parted = [squares(slice(0, cut)) + squares(slice(cut, count)) for cut in cuts]
    is_cut = criterion(min(parted), 5) < criterion(squares(slice(0, count)), 2)
    return cuts[int(np.argmin(parted))] if is_cut else None
