"""Runs that are missing so that every behaviour class exists at enough scales."""

import numpy as np

from insitu.design.class_coverage import find_class_gaps, propose_class_runs
from insitu.entities import CallPath, RunKey
from insitu.modeling.base import Clusters

PATH = CallPath.parse("main->exchange")


def clusters_of(kinds):
    """Clusters of runs, from p to the names of the classes that exist there."""
    return [
        Clusters(PATH, "time", RunKey.of({"p": p}), np.zeros(p, dtype=int), names)
        for p, names in kinds.items()
    ]


def test_a_class_of_the_larger_runs_needs_further_runs():
    clusters = clusters_of({8: ("corner",), 27: ("corner", "inner"), 64: ("corner", "inner")})

    gaps = find_class_gaps(clusters)
    runs = propose_class_runs(gaps, [8, 27, 64], ())

    assert [(gap.name, gap.count) for gap in gaps] == [("inner", 2), ("corner", 3)]
    assert list(runs) == [125, 216, 343]
    assert runs[343] == "class inner exists at 2 of 5 values of p"


def test_a_run_is_wanted_for_a_class_whose_name_means_something():
    clusters = clusters_of({27: ("A", "inner"), 64: ("A", "inner")})

    runs = propose_class_runs(find_class_gaps(clusters), [27, 64], ())

    assert runs[125] == "class inner exists at 2 of 5 values of p"


def test_a_class_needs_the_cheapest_runs_that_have_it():
    clusters = clusters_of({8: ("corner",), 64: ("corner", "inner"), 216: ("corner", "inner")})

    runs = propose_class_runs(find_class_gaps(clusters), [8, 64, 216], ())

    assert list(runs) == [27, 125, 343, 512]  # 27 for corners, which may be without inner ranks


def test_a_class_exists_where_any_metric_shows_it():
    clusters = clusters_of(dict.fromkeys((8, 27, 64, 125, 216), ("corner", "inner")))
    rare = Clusters(PATH, "heap_peak", RunKey.of({"p": 216}), np.zeros(216, dtype=int), ("inner",))

    assert find_class_gaps([*clusters, rare]) == []


def test_runs_for_classes_are_among_the_allowed_ones():
    clusters = clusters_of({8: ("corner",), 64: ("corner", "inner"), 512: ("corner", "inner")})

    runs = propose_class_runs(find_class_gaps(clusters), [8, 64, 512], (8, 27, 125, 216))

    assert list(runs) == [27, 125, 216]


def test_one_class_of_all_ranks_needs_no_further_run():
    assert find_class_gaps(clusters_of({4: ("all",), 8: ("all",), 16: ("all",)})) == []


def test_the_rarest_class_stands_first_and_those_of_smaller_runs_do_not_count():
    kinds = {4: ("B", "edge"), 8: ("B", "edge", "inner", "rim"), 16: ("B", "inner", "rim")}
    kinds[32] = ("B", "inner", "rim", "pole")

    gaps = find_class_gaps(clusters_of(kinds))

    assert [(gap.name, gap.count, gap.smallest) for gap in gaps if gap.name != "B"] == [
        ("pole", 1, 32),
        ("inner", 3, 8),
        ("rim", 3, 8),
    ]
    assert find_class_gaps([]) == []
