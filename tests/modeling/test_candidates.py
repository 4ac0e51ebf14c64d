"""Classes guessed from where ranks usually are."""

import numpy as np
import pytest

from insitu.modeling.classes.candidates import find_candidates, select_candidate
from insitu.modeling.classes.domain import Domain, default_domain
from insitu.modeling.classes.mixture import find_classes

SIZES = (4, 8, 16, 32, 64)
X = np.array(SIZES, float)


def walls(size, axes=2):
    return np.add(*default_domain(size, axes).walls()).sum(axis=1)


def noisy(rng, law, noise, *, layout=walls):
    return [law(p, layout(p)) * np.exp(noise * rng.standard_normal(p)) for p in SIZES]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "law", [lambda p, walls: 1.1**walls, lambda p, walls: 1 + 0.03 * p**0.5 * walls]
)
def test_corners_and_edges_are_found_in_noise_as_large_as_their_distance(law, seed):
    values = noisy(np.random.default_rng(seed), law, 0.06)
    truth = [walls(p) for p in SIZES]

    mixture = find_classes(values, x=X, floor=0.05, candidates=find_candidates(SIZES, [None] * 5))

    assert mixture.is_candidate
    assert [array.tolist() for array in mixture.labels] == [array.tolist() for array in truth]


@pytest.mark.parametrize("seed", range(5))
def test_noise_fits_no_candidate_partition(seed):
    values = noisy(np.random.default_rng(seed), lambda p, _: 3.0, 0.05)

    mixture = find_classes(values, x=X, floor=0.02, candidates=find_candidates(SIZES, [None] * 5))

    assert not mixture.is_candidate
    assert {int(label) for run_labels in mixture.labels for label in run_labels} == {0}


def test_classes_that_are_elsewhere_are_left_to_the_mixture():
    """A third of the ranks is slow, in no order."""
    rng = np.random.default_rng(1)
    is_slow = np.random.default_rng(2).permutation(np.arange(max(SIZES)) % 3 == 0)
    values = noisy(rng, lambda p, slow: 1 + 0.3 * slow, 0.01, layout=lambda p: is_slow[:p])

    mixture = find_classes(values, x=X, floor=0.01, candidates=find_candidates(SIZES, [None] * 5))

    assert not mixture.is_candidate
    assert [array.tolist() for array in mixture.labels] == [
        is_slow[:p].astype(int).tolist() for p in SIZES
    ]


def test_a_slow_rank_is_an_outlier_of_its_class():
    values = noisy(np.random.default_rng(4), lambda p, walls: 1.2**walls, 0.01)
    values[4][20] *= 2

    mixture = find_classes(values, x=X, floor=0.01, candidates=find_candidates(SIZES, [None] * 5))

    assert mixture.is_candidate
    assert np.flatnonzero(mixture.is_outlier[4]).tolist() == [20]
    assert mixture.labels[4].tolist() == walls(64).tolist()


def test_the_domain_of_the_program_replaces_the_default_ones():
    """Columns first: not what MPI_Cart_create does with ranks."""
    domains = []
    for size in SIZES:
        usual = default_domain(size, 2)
        domains.append(
            Domain(usual.positions[np.random.default_rng(size).permutation(size)], usual.shape)
        )

    candidates = find_candidates(SIZES, domains)

    expected = [np.add(*domain.walls()).sum(axis=1).tolist() for domain in domains]
    assert [array.tolist() for array in candidates[0]] == expected
    assert len(candidates) == 4  # walls, any or none, along axes; rank 0


def test_without_values_no_candidate_is_selected():
    assert (
        select_candidate([np.zeros(1)], find_candidates([1], [None]), x=np.ones(1), floor=0.01)
        is None
    )
    assert find_candidates([], []) != []


@pytest.mark.filterwarnings("error")
def test_a_shape_that_is_zero_in_most_runs_keeps_numbers_finite():
    """Most runs have one rank, where log2 is 0."""
    sizes, x = (1, 1, 1, 16), np.array([1.0, 1.0, 1.0, 16.0])
    values = [1 + 0.5 * walls(p) + 0.001 * np.arange(p) for p in sizes]

    mixture = find_classes(values, x=x, floor=0.01, candidates=find_candidates(sizes, [None] * 4))

    assert np.unique(mixture.labels[3], return_inverse=True)[1].tolist() == walls(16).tolist()
