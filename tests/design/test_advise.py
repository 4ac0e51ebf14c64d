"""The next configuration lowers the uncertainty most for its cost, and a few runs are enough."""

import numpy as np
import pytest

from insitu.design.advise import (
    ConditionedLaw,
    choose_first_runs,
    choose_next_point,
    list_candidates,
    relative_uncertainty,
)
from insitu.design.dependencies import Dependency, Nest
from insitu.design.factorial import Point
from insitu.design.laws import sample_laws
from insitu.errors import UsageError

LEVELS = {"p": (8.0, 16.0, 32.0, 64.0, 128.0), "n": (1e3, 2e3, 4e3, 8e3, 16e3)}
NAMES = tuple(LEVELS)
TARGET = np.array([[256.0, 32e3]])
PATHS = {
    "work": (("p", "n"), lambda p, n: 2 + 0.01 * n / p),
    "sum": (("p",), lambda p, n: 0.3 * np.log2(p)),
    "setup": (("n",), lambda p, n: 1e-4 * n),
}


def measured(points: list[Point], law, seed: int, noise: float = 0.02) -> np.ndarray:
    random = np.random.default_rng(seed)
    exact = np.array([law(point["p"], point["n"]) for point in points])
    return exact * (1 + noise * random.standard_normal(len(points)))


def laws(points: list[Point], noise: float = 0.02, campaign: int = 0):
    at = np.array([[value for _, value in point.values] for point in points])
    seeds = range(campaign * len(PATHS), (campaign + 1) * len(PATHS))
    values = [
        measured(points, law, seed, noise)
        for seed, (_, law) in zip(seeds, PATHS.values(), strict=True)
    ]
    dependencies = [Dependency(name, (Nest.of(sets),)) for name, (sets, _) in PATHS.items()]
    return sample_laws(at, np.array(values), NAMES, dependencies)


def cost(point: Point) -> float:
    return point["p"] * sum(law(point["p"], point["n"]) for _, law in PATHS.values())


def test_first_runs_differ_in_everything():
    points = choose_first_runs(LEVELS)
    assert len(points) == 5
    for name, of in LEVELS.items():
        assert sorted(point[name] for point in points) == sorted(of)
    ranks = np.array([[of.index(point[n]) for n, of in LEVELS.items()] for point in points])
    assert abs(np.corrcoef(ranks.T)[0, 1]) < 0.9


@pytest.mark.parametrize("campaign", range(3))
def test_a_few_chosen_runs_predict_the_target(campaign):
    points = choose_first_runs(LEVELS)
    exact = sum(law(256.0, 32e3) for _, law in PATHS.values())

    for _ in range(4):
        sampled = laws(points, campaign=campaign)
        candidates = list_candidates(LEVELS, points)
        points.append(choose_next_point(sampled, candidates, TARGET, cost))

    predicted = np.median(sum(law.at(TARGET) for law in laws(points, campaign=campaign)))
    assert predicted == pytest.approx(exact, rel=0.1)
    assert sum(map(cost, points)) < 0.5 * sum(map(cost, list_candidates(LEVELS, [])))


def test_a_chosen_run_lowers_the_expected_uncertainty_more_than_most_candidates():
    # What a run will measure may make laws less certain; what it is expected to do does not.
    points = choose_first_runs(LEVELS)
    sampled = laws(points)
    candidates = list_candidates(LEVELS, points)

    chosen = choose_next_point(sampled, candidates, TARGET, lambda point: 1.0)

    after = {}
    for point in candidates:
        at = np.array([[value for _, value in point.values]])
        conditioned = [ConditionedLaw(law, at) for law in sampled]
        after[point] = sum(float(law.at(TARGET).var()) for law in conditioned)
    before = sum(float(law.at(TARGET).var()) for law in sampled)
    assert after[chosen] < before
    assert after[chosen] == pytest.approx(min(after.values()))


def test_an_expensive_run_is_avoided():
    points = choose_first_runs(LEVELS)
    sampled = laws(points)
    free = choose_next_point(sampled, list_candidates(LEVELS, points), TARGET, lambda point: 1.0)
    cheap = choose_next_point(
        sampled,
        list_candidates(LEVELS, points),
        TARGET,
        lambda point: 1e9 if point == free else 1.0,
    )
    assert cheap != free


def test_known_exponents_leave_less_uncertainty_than_names_alone():
    points = choose_first_runs(LEVELS)
    at = np.array([[value for _, value in point.values] for point in points])
    values = measured(points, PATHS["work"][1], 3)
    nests = (Nest.of(["n", "p"]), Nest.of({"n": 1, "p": -1}))
    with_names, with_exponents = (
        sample_laws(at, values[None], NAMES, [Dependency("work", (nest,))]) for nest in nests
    )
    assert relative_uncertainty(with_exponents, TARGET) < relative_uncertainty(with_names, TARGET)


def test_same_seed_same_laws_and_constant_call_paths():
    points = choose_first_runs(LEVELS)
    at = np.array([[value for _, value in point.values] for point in points])
    flat = np.full((1, len(points)), 3.0)
    (first,), (second,) = (sample_laws(at, flat, NAMES, [Dependency("f")]) for _ in range(2))
    assert np.array_equal(first.at(TARGET), second.at(TARGET))
    assert np.median(first.at(TARGET)) == pytest.approx(3.0, rel=0.02)


def test_nothing_left_to_run():
    points = list_candidates(LEVELS, [])
    with pytest.raises(UsageError, match="no configuration is left"):
        choose_next_point(laws(points), list_candidates(LEVELS, points), TARGET, cost)
