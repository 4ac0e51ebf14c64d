"""Matching clusters across runs."""

import numpy as np

from insitu.entities import CallPath, RunKey
from insitu.modeling.base import Clusters
from insitu.modeling.classes.match import (
    class_names,
    match_equal,
    report_missing_classes,
    report_unequal_counts,
)

SIZES = [(4.0,), (8.0,), (16.0,), (32.0,), (64.0,), (128.0,)]
FLUX = CallPath.parse("main->flux")


def test_equal_numbers_match_in_ascending_order():
    matching = match_equal([3] * 6, SIZES)

    assert matching.is_complete
    assert matching.names == ("1", "2", "3")
    assert matching.assigned == ((0, 1, 2),) * 6


def test_a_single_cluster_is_all_ranks():
    assert match_equal([1] * 6, SIZES).names == ("all",) == class_names(1)


def test_a_run_without_the_call_path_is_ignored():
    matching = match_equal([2, 0, 2, 2, 2, 2], SIZES)

    assert matching.is_complete
    assert matching.assigned[1] is None


def test_the_largest_subset_with_equal_numbers_is_matched_where_numbers_differ():
    matching = match_equal([1, 2, 3, 3, 3, 3], SIZES)

    assert not matching.is_complete
    assert matching.names == ("1", "2", "3")
    assert matching.assigned == (None, None, *[(0, 1, 2)] * 4)


def test_too_small_a_subset_is_not_matched():
    matching = match_equal([1, 1, 2, 2, 3, 3], SIZES)

    assert matching.names == ()
    assert matching.assigned == (None,) * 6


def test_of_equal_subsets_the_one_that_reaches_further_is_matched():
    coordinates = [(float(2**k),) for k in range(8)]

    assert match_equal([3, 2] * 4, coordinates).names == ("1", "2")


def test_the_finding_names_runs_and_numbers():
    counts = [1, 2, 3, 3, 3, 3]
    runs = [RunKey.of({"p": p}) for (p,) in SIZES]

    finding = report_unequal_counts(
        FLUX, "time", runs=runs, counts=counts, matching=match_equal(counts, SIZES)
    )

    assert finding.code == "classes-differ"
    assert finding.where == "main->flux"
    assert "1 class at p=4; 2 classes at p=8; 3 classes at p=16 p=32 p=64 p=128" in finding.text


def test_the_runs_without_a_class_are_named_by_size():
    clusters = [
        Clusters(FLUX, "visits", RunKey.of({"p": p}), np.zeros(int(p), dtype=int), (name,))
        for p, name in ((16, "inner"), (128, "corner"), (4, "edge"))
    ]

    [finding] = report_missing_classes(clusters)

    assert finding.text.startswith("p=4 p=16 p=128 lack behaviour classes of 1 call path;")


def test_one_run_lacks_classes_of_several_call_paths():
    clusters = [
        Clusters(path, "visits", RunKey.of({"p": p}), np.arange(2), names)
        for path in (FLUX, CallPath.parse("main->halo"))
        for p, names in ((4, ("edge",)), (16, ("edge", "inner")))
    ]

    [finding] = report_missing_classes(clusters)

    assert finding.text.startswith("p=4 lacks behaviour classes of 2 call paths;")
