"""Size laws: how many ranks a behaviour class has, as a function of the number of ranks."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from fractions import Fraction

import numpy as np

from insitu.entities import RANKS
from insitu.measurement import FloatArray, SeriesKey
from insitu.modeling.base import Clusters, Model, Segment
from insitu.modeling.pmnf import Factor, Function, Term
from insitu.modeling.quality import quality

THIRD, HALF, ONE = Fraction(1, 3), Fraction(1, 2), Fraction(1)
LAWS: tuple[
    tuple[Fraction, ...], ...
] = (  # exponents of p beside the constant: ends, edges, faces and the inside of a domain
    (),
    (HALF,),
    (THIRD,),
    (ONE,),
    (HALF, ONE),
    (THIRD, 2 * THIRD),
    (THIRD, 2 * THIRD, ONE),
)
MIN_RUNS = 3  # fewer cannot tell a constant from a growth
WELL = 0.02  # relative misfit of the simplest law that is taken without asking further


def size_laws(clusters: Sequence[Clusters], parameters: tuple[str, ...]) -> dict[SeriesKey, Model]:
    """The number of ranks of each behaviour class as a sum of powers of p: `4`, `4·√p − 8`.

    A class that a run lacks counts as 0 there; runs whose classes could not be matched do not
    count. Coefficients are whole or half numbers where these
    give every size exactly. Classes seen in fewer than three runs, and those of experiments in
    which the number of ranks is no parameter, have no law.
    """
    if RANKS not in parameters:
        return {}
    runs: dict[tuple[object, str], dict[tuple[float, ...], Clusters]] = defaultdict(dict)
    for one in clusters:
        runs[one.callpath, one.metric][one.run.coordinate(parameters)] = one
    known: dict[bytes, Model] = {}
    laws: dict[SeriesKey, Model] = {}
    for at_places in runs.values():
        classes = max((one.names for one in at_places.values()), key=len)
        places = sorted(at for at, one in at_places.items() if set(one.names) <= set(classes))
        points = np.array(places, dtype=np.float64)
        for name, sizes in _sizes([at_places[place] for place in places]).items():
            if np.count_nonzero(sizes) < MIN_RUNS:
                continue
            mark = points.tobytes() + b"|" + sizes.tobytes()
            if mark not in known:
                known[mark] = _law(points, sizes, parameters)
            first = at_places[places[0]]
            laws[SeriesKey(first.callpath, first.metric, name)] = known[mark]
    return laws


def _sizes(clusters: Sequence[Clusters]) -> Mapping[str, FloatArray]:
    """Ranks per class and run, 0 where a run lacks the class."""
    sizes: dict[str, FloatArray] = {}
    for index, one in enumerate(clusters):
        counts = np.bincount(one.labels[one.labels >= 0], minlength=len(one.names))
        for name, count in zip(one.names, counts, strict=True):
            sizes.setdefault(name, np.zeros(len(clusters)))[index] += count
    return sizes


def _law(points: FloatArray, sizes: FloatArray, parameters: tuple[str, ...]) -> Model:
    """The simplest law that fits well, if need be only from some number of ranks on.

    The smallest domains are degenerate: two ranks have no four corners. Where no law fits three
    runs or more well, the one with the best information criterion is taken.
    """
    p = points[:, parameters.index(RANKS)]
    for first in sorted(set(p.tolist()))[: 1 - MIN_RUNS]:
        held = p >= first
        for exponents in LAWS:
            coefficients, misfit = _fit(p[held], sizes[held], exponents)
            spare = 1 if held.all() else 2  # runs more than coefficients; the last few may mislead
            if len(misfit) >= len(coefficients) + spare and np.max(abs(misfit)) <= WELL:
                lower = -np.inf if held.all() else first
                return _model(points, sizes, parameters, exponents, coefficients, lower=lower)
    best, lowest = (LAWS[0], np.array([sizes.mean()])), np.inf
    for exponents in LAWS:
        coefficients, misfit = _fit(p, sizes, exponents)
        criterion = len(p) * np.log(misfit @ misfit + 1e-4) + len(coefficients) * np.log(len(p))
        if criterion < lowest and len(p) >= 2 * len(coefficients):
            best, lowest = (exponents, coefficients), criterion
    return _model(points, sizes, parameters, *best, lower=-np.inf)


def _fit(
    p: FloatArray, sizes: FloatArray, exponents: tuple[Fraction, ...]
) -> tuple[FloatArray, FloatArray]:
    """Coefficients of the constant and the powers, and the relative misfit of each run."""
    weight = 1 / np.maximum(sizes, 1.0)
    design = np.stack([p ** float(exponent) for exponent in (Fraction(0), *exponents)], axis=1)
    solved = np.linalg.lstsq(design * weight[:, None], sizes * weight, rcond=None)[0]
    coefficients = solved.astype(np.float64)
    halves = np.round(2 * coefficients) / 2
    if np.all(abs(design @ halves - sizes) < 1e-6):
        coefficients = halves
    return coefficients, (design @ coefficients - sizes) * weight


def _model(
    points: FloatArray,
    sizes: FloatArray,
    parameters: tuple[str, ...],
    exponents: tuple[Fraction, ...],
    coefficients: FloatArray,
    *,
    lower: float,
) -> Model:
    """A law as a model of one segment, from `lower` on."""
    terms = tuple(
        Term(float(coefficient), (Factor(RANKS, exponent),))
        for coefficient, exponent in zip(coefficients[1:], exponents, strict=True)
        if coefficient
    )
    function = Function(parameters, float(coefficients[0]), terms)
    held = points[:, parameters.index(RANKS)] >= lower
    return Model(
        parameters=parameters,
        segments=(Segment(lower, np.inf, function),),
        quality=quality(sizes[held], function(points[held]), coefficients=len(terms) + 1),
        modeler="sizes",
        coordinates=points,
        values=sizes,
    )
