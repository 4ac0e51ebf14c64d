"""Classes of memory: ranks that mean something, and none that the allocator made by accident."""

import numpy as np
import pytest

from insitu.entities import MEMORY_RSS, VISITS, CallPath, RunKey
from insitu.modeling.measurement import Experiment, RunTable
from insitu.modeling.pipeline import remodel
from tests.support.parameters import plain_and_full

SIZES = (2, 4, 8, 16, 32)
PATHS = (CallPath(("main",)), CallPath(("main", "load")))
BYTES = 5e6


def arena(rng, size):
    """Some ranks got a further arena of the C library, or two."""
    return BYTES + (rng.random(size) < 0.3) * 1e6 * rng.integers(1, 3, size)


def chunks(rng, size):
    """Ranks keep some of their freed chunks."""
    return 20 * BYTES + rng.integers(0, 40, size) * 1.3e6


def rare(rng, size):
    """A few ranks kept a block in a small heap."""
    return 1e5 + (rng.random(size) < 0.1) * 4e4


def campaign(make_values, repetitions, visits=None):
    runs = []
    for size in SIZES:
        for repetition in range(repetitions):
            values = {"memory_rss": np.stack([make_values(size), make_values(size)])}
            metrics = [MEMORY_RSS]
            if visits is not None:
                values["visits"] = np.stack([visits(size), visits(size)]).astype(float)
                metrics.append(VISITS)
            table = RunTable(PATHS, tuple(metrics), values)
            runs.append((RunKey.of({"p": size}, repetition), table))
    return Experiment(("p",), tuple(runs))


def n_classes(experiment):
    clusters = remodel(experiment).clusters
    return max(len(entry.names) for entry in clusters if entry.metric == "memory_rss")


@plain_and_full("repetitions", [3, 1])
@pytest.mark.parametrize("accident", [arena, chunks, rare])
def test_the_allocator_makes_no_classes(accident, repetitions):
    for seed in range(8):
        rng = np.random.default_rng(seed)
        experiment = campaign(lambda size, rng=rng: accident(rng, size), repetitions)

        assert n_classes(experiment) == 1, seed


@plain_and_full("repetitions", [3, 1])
def test_what_the_allocator_does_in_all_repetitions_makes_no_classes(repetitions):
    for seed in range(8):
        kept = {size: arena(np.random.default_rng([seed, size]), size) for size in SIZES}

        assert n_classes(campaign(kept.get, repetitions)) == 1, seed


@pytest.mark.parametrize("repetitions", [1, 3])
@pytest.mark.parametrize(
    "has_more",
    [
        lambda size: np.arange(size) % 4 == 0,
        lambda size: np.arange(size) < size // 2,
        lambda size: np.arange(size) % 8 < 3,
        lambda size: np.arange(size) * 4 // size == 3,
    ],
    ids=["leaders", "half", "three of eight", "last quarter"],
)
def test_regular_ranks_with_more_memory_are_a_class(has_more, repetitions):
    rng = np.random.default_rng(3)

    def values(size):
        return BYTES * (1 + has_more(size)) * rng.normal(1, 0.01, size)

    assert n_classes(campaign(values, repetitions)) == 2


def test_ranks_that_counts_separate_have_classes_of_memory_in_any_order():
    members = {size: np.random.default_rng(size).permutation(size) % 4 == 0 for size in SIZES}
    rng = np.random.default_rng(3)

    def values(size):
        return BYTES * (1 + members[size]) * rng.normal(1, 0.01, size)

    assert n_classes(campaign(values, 1)) == 1
    assert n_classes(campaign(values, 1, lambda size: 1 + members[size])) == 2


@pytest.mark.parametrize("lacks", ["by accident", "by kind"])
def test_ranks_without_a_value_must_be_explained_as_the_classes_are(lacks):
    for seed in range(4):
        rng = np.random.default_rng(seed)
        runs = []
        for size in (8, 16, 32):
            kind = rng.permutation(size) % 4
            visits = 1.0 + (kind == 0)
            is_absent = rng.random(size) < 0.6
            if lacks == "by kind":
                is_absent = kind == 3
                visits += 2 * is_absent
            memory = np.where(is_absent, np.nan, BYTES * (1 + (kind == 0)))
            values = {
                "memory_rss": np.stack([memory, memory]),
                "visits": np.stack([np.ones(size), visits]),
            }
            table = RunTable(PATHS, (MEMORY_RSS, VISITS), values)
            runs.append((RunKey.of({"p": size}), table))

        clusters = remodel(Experiment(("p",), tuple(runs))).clusters

        of_main = [entry for entry in clusters if entry.callpath == PATHS[0]]
        found = max(len(entry.names) for entry in of_main if entry.metric == "memory_rss")
        assert found == (1 if lacks == "by accident" else 2), seed
