"""Ranks that differ without groups, in no order: continuous distributions describe them best."""

import numpy as np
import pytest

from insitu.entities import TIME, CallPath, RunKey
from insitu.modeling.classes.spreads import spread_criterion
from insitu.modeling.measurement import Experiment, RunTable
from insitu.modeling.pipeline import remodel
from tests.support.parameters import plain_and_full

PATH = CallPath(("main", "flux"))
SIZES = (4, 8, 16, 32, 64, 128)
NOISE = 0.01
SPREADS = {
    "evenly": lambda generator, p: 1 + 0.5 * generator.random(p),
    "exponentially": lambda generator, p: 1 + 0.15 * generator.exponential(size=p),
    "exponentially below": lambda generator, p: np.exp(-0.15 * generator.exponential(size=p)),
}


def campaign(kind, seed):
    """An experiment of four repetitions at each scale; ranks differ alike in all of them."""
    generator = np.random.default_rng(seed)
    runs = []
    for p in SIZES:
        clean = p**0.3 * SPREADS[kind](generator, p)
        for repetition in range(4):
            times = clean * (1 + NOISE * generator.standard_normal(p))
            table = RunTable((PATH,), (TIME,), {"time": times[None]})
            runs.append((RunKey.of({"p": p}, repetition), table))
    return Experiment(("p",), tuple(runs))


@plain_and_full("seed", [1, 2, 3])
@pytest.mark.parametrize("kind", SPREADS)
def test_values_that_are_spread_in_no_order_are_no_classes(kind, seed):
    models = remodel(campaign(kind, seed))

    assert {len(clusters.names) for clusters in models.clusters} == {1}
    (text,) = (finding.text for finding in models.findings if finding.code == "ranks-differ")
    assert "differ between ranks without forming groups" in text


@pytest.mark.parametrize("kind", SPREADS)
def test_the_criterion_is_near_that_of_the_true_density(kind):
    # Without noise to speak of, the density of each value is known.
    generator = np.random.default_rng(5)
    logs = [np.log(SPREADS[kind](generator, 2000))]
    y = logs[0]
    densities = {
        "evenly": lambda: y - np.log(0.5),
        "exponentially": lambda: y - np.log(0.15) - np.expm1(y) / 0.15,
        "exponentially below": lambda: y / 0.15 - np.log(0.15),
    }

    criterion = spread_criterion(logs, floor=0.002)

    # Up to 0.1 nats per value are lost to cells, outliers, and edges that are found slowly. The
    # logarithm of a normal density with the variance of the values is 0.18 to 0.42 lower.
    assert criterion == pytest.approx(-2 * densities[kind]().sum(), abs=2 * 0.1 * 2000)
