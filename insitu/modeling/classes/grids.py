"""Grids that explain classes: the domain of a program that creates no Cartesian communicator."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from insitu.modeling.classes.domain import Domain
from insitu.modeling.measurement import IntArray

MIN_KINDS = 3  # different numbers of walls: fewer classes are explained by many grids
MAX_SHAPES = 60  # grids tried per run, those nearest to a cube first


def infer_domains(classes: Sequence[IntArray]) -> list[Domain] | None:
    """Find grids in which all ranks of a class have equally many walls, in all runs alike.

    Ranks are taken to be in the order of their positions, the last axis fastest. A grid for one run
    alone is easily found; that the same classes have the same walls in all runs decides.

    Args:
        classes: (n_ranks,) per run group, the class of each rank, -1 where there is none; the same
            number for the same class in all groups.

    Returns:
        A domain of each group, with two or three axes; None if there are no such grids.
    """
    order = sorted(range(len(classes)), key=lambda index: -len(classes[index]))
    if not order or any((group < 0).any() for group in classes):
        return None

    for axes in (3, 2):
        domains: dict[int, Domain] = {}
        walls_of_class: dict[int, int] = {}
        for index in order:
            is_largest = index == order[0]
            domain = _first_grid(classes[index], axes, walls_of_class, is_largest=is_largest)
            if domain is None:
                break
            domains[index] = domain
        if len(domains) == len(classes):
            return [domains[index] for index in range(len(classes))]
    return None


def infer_walls(classes: Sequence[IntArray]) -> tuple[list[IntArray], int] | None:
    """Find grids whose corners, edges and inner ranks are as many as the ranks of the classes.

    The order of the ranks is not used. Sizes of one run fit many grids, so the same classes must
    have the same walls in runs of at least two numbers of ranks.

    Args:
        classes: as for `infer_domains`.

    Returns:
        The number of walls of each rank, (n_ranks,) per run group, and the number of axes; None if
        there are no such grids, or no run in which all classes differ in size.
    """
    if len({len(group) for group in classes}) < 2 or any((group < 0).any() for group in classes):
        return None

    n_classes = 1 + max(int(group.max()) for group in classes)
    tables = [np.bincount(group, minlength=n_classes) for group in classes]
    for axes in (3, 2):
        for walls in _possible_walls(tables, axes):
            if all(_has_grid(table, walls, axes) for table in tables):
                return [walls[group] for group in classes], axes
    return None


def _possible_walls(tables: Sequence[IntArray], axes: int) -> Iterator[IntArray]:
    """Numbers of walls of the classes that fit their sizes in one run, (n_classes,) each."""
    for sizes in sorted(tables, key=lambda table: -int(table.sum())):
        for shape in _shapes(int(sizes.sum()), axes):
            walls = _match_sizes(sizes, _count_by_walls(shape)) if min(shape) > 1 else None
            if walls is not None:
                yield walls


def _match_sizes(sizes: IntArray, counts: IntArray) -> IntArray | None:
    """The number of walls of each class by its size; None unless that is clear.

    Args:
        sizes: of the classes, (n_classes,).
        counts: ranks of the grid by their number of walls.
    """
    present = counts[counts > 0]
    is_clear = len(present) >= MIN_KINDS and len(np.unique(present)) == len(present)
    if not is_clear or not np.array_equal(np.sort(sizes), np.sort(present)):
        return None
    walls: IntArray = (sizes[:, None] == counts).argmax(axis=1)
    return walls


def _has_grid(sizes: IntArray, walls: IntArray, axes: int) -> bool:
    """Whether some grid of these ranks has as many of each number of walls as the classes."""
    wanted = np.bincount(walls, weights=sizes, minlength=2 * axes + 1)
    shapes = _shapes(int(sizes.sum()), axes)
    return any(np.array_equal(_count_by_walls(shape), wanted) for shape in shapes)


def _count_by_walls(shape: Sequence[int]) -> IntArray:
    """How many ranks of a grid have 0, 1, … walls: the coefficients of a product over its axes."""
    counts = np.ones(1, dtype=np.intp)
    for side in shape:
        along_axis = [0, 0, 1] if side == 1 else [side - 2, 2, 0]
        counts = np.convolve(counts, along_axis)
    return counts


def _first_grid(
    labels: IntArray, axes: int, walls_of_class: dict[int, int], *, is_largest: bool
) -> Domain | None:
    """The grid nearest to a cube that fits the classes of one run; records the walls of classes."""
    for shape in _shapes(len(labels), axes):
        positions = np.stack(np.unravel_index(np.arange(len(labels)), shape), axis=1)
        domain = Domain(positions, shape)
        walls = np.add(*domain.walls()).sum(axis=1)
        fitted = _walls_by_class(labels, walls, walls_of_class)
        if fitted is None:
            continue
        if is_largest and (min(shape) < 2 or len(set(fitted.values())) < MIN_KINDS):
            continue
        walls_of_class.update(fitted)
        return domain
    return None


def _walls_by_class(
    labels: IntArray, walls: IntArray, known: Mapping[int, int]
) -> dict[int, int] | None:
    """The number of walls of each class; None unless it is one number, as in the other runs."""
    classes, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    by_class = walls[first]
    if np.any(walls != by_class[inverse.ravel()]):
        return None

    fitted = dict(zip(classes.tolist(), by_class.tolist(), strict=True))
    if any(known.get(label, count) != count for label, count in fitted.items()):
        return None
    return fitted


def _shapes(size: int, axes: int) -> list[tuple[int, ...]]:
    """All grids of so many ranks, those nearest to a cube first, without sides of 1 if possible."""
    shapes = sorted(_factorisations(size, axes), key=lambda shape: (max(shape) / min(shape), shape))
    wide = [shape for shape in shapes if min(shape) > 1]
    return (wide or shapes)[:MAX_SHAPES]


def _factorisations(size: int, axes: int) -> Iterator[tuple[int, ...]]:
    if axes == 1:
        yield (size,)
        return
    for side in range(1, size + 1):
        if size % side == 0:
            for rest in _factorisations(size // side, axes - 1):
                yield (side, *rest)
