"""Names of behaviour classes, and what they stay the same under."""

import numpy as np
import pytest

from insitu.entities import HEAP_PEAK, POSITIONS, TIME, VISITS, CallPath, RunKey
from insitu.modeling.classes.domain import Domain, find_domain, kind_name
from insitu.modeling.classes.naming import letter
from insitu.modeling.measurement import Experiment, RunTable
from insitu.modeling.pipeline import RefitOptions, remodel

FLUX = CallPath.parse("main->flux")
PLANES = ((2, 2), (4, 2), (3, 3), (4, 4), (8, 4), (8, 8))


def walls(sides):
    """How many walls each rank of a grid owns along each axis: (n_ranks, n_axes)."""
    at = np.stack(np.unravel_index(np.arange(np.prod(sides)), sides), axis=1)
    return at, (at == 0) * 1 + (at == np.array(sides) - 1)


def run(sides, values, *, metric=VISITS, is_placed=True, repetition=0):
    at, _ = walls(sides)
    table = {metric.name: np.asarray(values, dtype=float)[None]}
    metrics = [metric]
    for axis in range(len(sides) if is_placed else 0):
        table[POSITIONS[axis].name] = at[:, axis].astype(float)[None]
        metrics.append(POSITIONS[axis])
    return RunKey.of({"p": len(at)}, repetition), RunTable((FLUX,), tuple(metrics), table)


def names(runs, metric="visits", **more):
    found = remodel(Experiment(("p",), tuple(runs)), RefitOptions(modeler="search", **more))
    return {
        clusters.run.size: clusters.names
        for clusters in found.clusters
        if clusters.metric == metric
    }


def by_walls(sides):
    return 10.0 + 5 * walls(sides)[1].sum(axis=1)


def test_ranks_of_a_plane_are_corners_edges_and_inner_ones():
    found = names([run(sides, by_walls(sides)) for sides in PLANES])

    assert found == {
        4: ("corner",),
        8: ("edge", "corner"),
        9: ("inner", "edge", "corner"),
        16: ("inner", "edge", "corner"),
        32: ("inner", "edge", "corner"),
        64: ("inner", "edge", "corner"),
    }


def test_a_run_added_later_renames_nothing():
    """Halves and quarters of the ranks in no order, which no grid explains."""
    rng = np.random.default_rng(4)
    runs = []
    for sides in PLANES:
        p = int(np.prod(sides))
        quarter = rng.permutation(np.arange(p) * 4 // p)
        runs.append(run(sides, 10.0 + 5 * np.maximum(quarter - 1, 0), is_placed=False))

    every = names(runs)

    for end in range(2, len(runs)):
        for size, some in names(runs[:end]).items():
            assert some == every[size] or some == ("all",)
    assert set(every[64]) == {"A", "B", "C"}


def test_classes_of_a_grid_are_named_by_their_sizes_in_any_order_of_ranks():
    rng = np.random.default_rng(4)
    runs = []
    for sides in PLANES:
        runs.append(run(sides, rng.permutation(by_walls(sides)), is_placed=False))

    every = names(runs)

    assert every[4] == ("corner",)
    assert every[64] == ("inner", "edge", "corner")


def test_classes_of_a_grid_are_named_by_walls_without_a_communicator():
    runs = [run(sides, by_walls(sides), is_placed=False) for sides in PLANES]

    every = names(runs)

    assert every[4] == ("corner",)
    assert every[64] == ("inner", "edge", "corner")


def test_a_run_that_lacks_the_call_path_does_not_hide_a_grid():
    alone = run((1,), [np.nan], is_placed=False)  # a single rank exchanges nothing
    runs = [alone, *(run(sides, by_walls(sides), is_placed=False) for sides in PLANES)]

    every = names(runs)

    assert every[4] == ("corner",)
    assert every[64] == ("inner", "edge", "corner")


def test_a_metric_with_one_class_in_each_run_names_it():
    """Only the corners of the smallest planes and the edges of the others have grown a heap."""
    runs = []
    for sides in PLANES:
        key, table = run(sides, by_walls(sides), is_placed=False)
        count = walls(sides)[1].sum(axis=1)
        grown = np.where(count == (2 if len(count) < 16 else 1), 4096.0, np.nan)
        values = {**table.values, "heap_peak": grown[None]}
        runs.append((key, RunTable((FLUX,), (VISITS, HEAP_PEAK), values)))

    found = names(runs, "heap_peak")

    assert found[4] == ("corner",)
    assert found[64] == ("edge",)


def test_the_same_classes_have_the_same_names_in_the_paper_s_way():
    runs = [run(sides, by_walls(sides)) for sides in PLANES]

    assert names(runs, classes="paper")[64] == ("inner", "edge", "corner")
    assert names(runs, classes="paper")[4] == ("all",)  # left unmatched: one class there


def test_edges_that_differ_are_named_by_their_axis():
    """Listing 1 of [CLU]: rows and columns are dear to a different degree."""
    runs = []
    for sides in PLANES[2:]:
        x, y = walls(sides)[1].T
        runs.append(run(sides, 10.0 + 5 * x + 2 * y))

    assert names(runs)[16] == ("inner", "edge y", "edge x", "corner")


def test_two_walls_along_one_axis_are_another_kind_than_one_along_each():
    """A strip of ranks has both walls of its short side on every rank."""
    shapes = ((1, 4), (2, 4), (3, 3), (4, 4), (4, 8))

    found = names([run(sides, 10 + walls(sides)[1] @ np.array([5, 8])) for sides in shapes])

    assert found[4] == ("corner xx", "3 walls xxy")
    assert found[8] == ("edge x", "corner")
    assert found[32] == ("inner", "edge x", "edge y", "corner")


def test_walls_that_differ_are_named_by_their_side():
    runs = []
    for sides in PLANES[2:]:
        at, _ = walls(sides)
        runs.append(run(sides, 10.0 + 5 * (at[:, 0] == 0) + 50 * (at[:, 0] == sides[0] - 1)))

    assert names(runs)[16] == ("B", "A", "C")  # a whole row is no one kind of ranks
    ends = [(n,) for n in (4, 8, 16, 32)]
    line = [run(sides, 10.0 + 5 * (walls(sides)[0][:, 0] == 0)) for sides in ends]
    assert names(line)[8] == ("others", "rank 0")


def test_ranks_of_a_block_are_corners_edges_faces_and_inner_ones():
    blocks = ((2, 2, 2), (4, 2, 2), (3, 3, 3), (4, 4, 4), (5, 4, 4))

    found = names([run(sides, by_walls(sides)) for sides in blocks])

    assert found[8] == ("corner",)
    assert found[16] == ("edge", "corner")
    assert found[64] == ("inner", "face", "edge", "corner")


def test_two_classes_of_which_one_is_the_inside_are_inner_and_boundary():
    runs = [run(sides, 10.0 + 5 * (walls(sides)[1].sum(axis=1) > 0)) for sides in PLANES[2:]]

    assert names(runs)[64] == ("inner", "boundary")


def test_a_class_that_noise_spoils_is_named_by_what_most_of_its_ranks_are():
    rng = np.random.default_rng(2)
    runs = []
    for sides in ((4, 4), (8, 4), (8, 8), (16, 8), (16, 16)):
        clean = 1 + 0.08 * walls(sides)[1].sum(axis=1)
        for repetition in range(3):
            noise = np.exp(0.02 * rng.standard_normal(len(clean)))
            runs.append(run(sides, clean * noise, metric=TIME, repetition=repetition))

    assert names(runs, "time")[256] == ("inner", "edge", "corner")


def test_without_a_domain_the_numbers_of_ranks_may_tell():
    def first(sides):
        return np.where(np.arange(sides[0]) == 0, 40.0, 10.0)

    runs = [run((n,), first((n,)), is_placed=False) for n in (1, 2, 4, 8, 16)]

    assert names(runs)[1] == ("rank 0",)
    assert names(runs)[8] == ("others", "rank 0")


def test_ranks_that_are_alone_in_every_run_are_named_by_their_number():
    def leaders(sides):
        return np.array([40.0, 70.0, *[10.0] * (sides[0] - 2)])

    def one_leader(sides):
        return np.where(np.arange(sides[0]) == 1, 40.0, 10.0)

    sizes = [(4,), (8,), (16,)]

    both = names([run(n, leaders(n), is_placed=False) for n in sizes])
    second = names([run(n, one_leader(n), is_placed=False) for n in sizes])
    once = names([run((8,), one_leader((8,)), is_placed=False) for _ in range(2)])

    assert set(both.values()) == {("all but ranks 0, 1", "rank 0", "rank 1")}
    assert set(second.values()) == {("all but rank 1", "rank 1")}
    assert once == {8: ("A", "B")}  # at other sizes, it may be another rank


def test_a_rank_that_is_as_the_others_in_one_run_has_no_number():
    runs = [run((4,), np.full(4, 10.0), is_placed=False)]
    for n in (8, 16, 32):
        runs.append(run((n,), np.where(np.arange(n) == 1, 40.0, 10.0), is_placed=False))

    found = names(runs)

    assert found[4] == ("A",) and set(found[32]) == {"A", "B"}


def test_a_single_rank_that_is_another_one_in_each_run_has_no_number():
    runs = []
    for n in (8, 12, 16):
        values = np.where(np.arange(n) == n // 2, 40.0, 10.0)
        runs.append(run((n,), values, is_placed=False))

    assert set(names(runs)[16]) == {"A", "B"}


def test_another_single_rank_in_one_of_several_runs_of_a_size_has_no_number():
    runs = []
    for cells, member in ((1, 2), (2, 1)):
        for n in (8, 12, 16):
            _, table = run((n,), np.where(np.arange(n) == member, 40.0, 10.0), is_placed=False)
            runs.append((RunKey.of({"p": n, "cells": cells}), table))

    found = remodel(Experiment(("cells", "p"), tuple(runs)))

    assert {clusters.names for clusters in found.clusters} == {("A", "B")}


@pytest.mark.parametrize(
    ("walls", "axes", "expected"),
    [(0, 2, "inner"), (2, 2, "corner"), (3, 2, "3 walls"), (1, 3, "face"), (2, 4, "2 walls")],
)
def test_kinds_of_ranks(walls, axes, expected):
    assert kind_name(walls, axes) == expected


def test_a_rank_outside_the_grid_is_nowhere():
    table = RunTable((FLUX,), POSITIONS[:1], {"position_x": np.array([[0.0, 1.0, np.nan]])})

    domain = find_domain([table])

    assert isinstance(domain, Domain)
    assert domain.positions.ravel().tolist() == [0, 1, -1]
    assert domain.shape == (2,)


def test_letters_go_on_after_z():
    assert [letter(index) for index in (0, 25, 26, 51, 52)] == ["A", "Z", "AA", "AZ", "BA"]


def test_some_ranks_between_the_ends_are_not_called_inner():
    def scattered(sides):
        return np.where(np.isin(np.arange(sides[0]), (2, 5)), 10.0, 40.0)

    runs = [run((n,), scattered((n,)), is_placed=False) for n in (8, 12, 16)]

    assert set(names(runs)[16]) == {"A", "B"}
