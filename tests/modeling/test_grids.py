"""Grids that explain classes, for programs that create no Cartesian communicator."""

import numpy as np

from insitu.modeling.classes.domain import Domain
from insitu.modeling.classes.grids import infer_domains, infer_walls


def classes_of(shape):
    """Ranks classed by their number of walls."""
    positions = np.stack(np.unravel_index(np.arange(np.prod(shape)), shape), axis=1)
    return np.add(*Domain(positions, shape).walls()).sum(axis=1)


def test_cubes_and_planes_are_recognised():
    for shapes in (
        [(2, 2, 2), (3, 3, 3), (4, 4, 4)],
        [(2, 2), (4, 4), (8, 8), (4, 8)],
    ):
        domains = infer_domains([classes_of(shape) for shape in shapes])

        assert [domain.shape for domain in domains] == shapes


def test_ranks_in_no_order_have_no_grid():
    rng = np.random.default_rng(2)
    classes = [rng.permutation(classes_of(shape)) for shape in ((3, 3, 3), (4, 4, 4))]

    assert infer_domains(classes) is None


def test_two_classes_show_no_grid():
    classes = [(np.arange(p) % 8 == 0).astype(np.intp) for p in (16, 64)]

    assert infer_domains(classes) is None


def test_sizes_of_classes_show_walls_in_any_order_of_ranks():
    rng = np.random.default_rng(2)
    for shapes, axes in (
        ([(3, 3, 3), (4, 4, 4)], 3),
        ([(2, 2, 2), (5, 5, 5), (3, 4, 5)], 3),
        ([(4, 4), (4, 8), (8, 8)], 2),
    ):
        walls = [rng.permutation(classes_of(shape)) for shape in shapes]
        number_of_class = np.array([2, 0, 1, 3])

        inferred = infer_walls([number_of_class[group] for group in walls])

        assert inferred is not None
        assert inferred[1] == axes
        assert all(np.array_equal(*pair) for pair in zip(inferred[0], walls, strict=True))


def test_sizes_of_one_run_or_of_other_classes_show_no_walls():
    rng = np.random.default_rng(3)
    alone = rng.permutation(classes_of((5, 5, 5)))
    random = [rng.integers(0, 3, size) for size in (16, 64)]

    assert infer_walls([alone, alone]) is None
    assert infer_walls(random) is None
