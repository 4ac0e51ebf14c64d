"""Size laws of behaviour classes, and what they say about larger runs."""

import numpy as np
import pytest

from insitu.entities import TIME, VISITS, CallPath, RunKey
from insitu.modeling.base import Clusters
from insitu.modeling.classes.sizes import size_laws
from insitu.modeling.measurement import Experiment, RunTable, SeriesKey
from insitu.modeling.pipeline import remodel

FLUX = CallPath.parse("main->flux")
NAMES = ("inner", "edge", "corner")


def borders(rows, columns):
    """How many borders of a 2-D domain each rank touches."""
    i, j = np.divmod(np.arange(rows * columns), columns)
    return (i == 0) * 1 + (i == rows - 1) + (j == 0) + (j == columns - 1)


def square_runs(sides, *, time=None):
    """Runs on square grids whose time depends on the borders of a rank and on p."""
    runs = []
    for side in sides:
        values = time(borders(side, side), side**2)[None].astype(float)
        runs.append((RunKey.of({"p": side**2}), RunTable((FLUX,), (TIME,), {"time": values})))
    return Experiment(("p",), tuple(runs))


def laws(sides):
    clusters = []
    for side in sides:
        labels = borders(side, side)
        found = sorted(set(labels.tolist()))
        names = tuple(NAMES[name] for name in found)
        dense = np.searchsorted(found, labels)
        clusters.append(Clusters(FLUX, "time", RunKey.of({"p": side**2}), dense, names))
    return size_laws(clusters, ("p",))


@pytest.mark.parametrize(
    ("name", "expected", "text"),
    [
        ("corner", 4.0, "4"),
        ("edge", 4 * 100 - 8, "-8 + 4 * p^(1/2)"),
        ("inner", 98.0**2, "4 - 4 * p^(1/2) + 1 * p"),
    ],
)
def test_sizes_in_a_plane_are_found_exactly(name, expected, text):
    law = laws((2, 3, 4, 5, 6, 8))[SeriesKey(FLUX, "time", name)]

    assert law.predict([[10_000.0]])[0] == expected
    assert str(law) == text


@pytest.mark.parametrize(
    ("grids", "expected"),
    [
        (
            [(2, 2), (4, 2), (3, 3), (4, 4), (9, 3), (8, 4), (8, 8)],
            {"0": "4 - 4 * p^(1/2) + 1 * p", "1": "-8 + 4 * p^(1/2)", "2": "4"},
        ),
        (
            [(2, 2, 2), (4, 2, 2), (4, 4, 2), (4, 4, 4), (8, 4, 4), (8, 8, 4), (8, 8, 8)],
            {
                "0": "-8 + 12 * p^(1/3) - 6 * p^(2/3) + 1 * p",
                "1": "24 - 24 * p^(1/3) + 6 * p^(2/3)",
                "2": "-24 + 12 * p^(1/3)",
                "3": "8",
            },
        ),
        ([(n,) for n in (2, 4, 8, 16, 64)], {"0": "-2 + 1 * p", "1": "2"}),
    ],
    ids=["plane", "block", "line"],
)
def test_grids_that_are_no_squares_or_cubes_do_not_spoil_the_laws(grids, expected):
    """At 32 ranks a plane is 8 x 4 and has 12 inner ranks, not 13.37."""
    clusters = []
    for sides in grids:
        at = np.stack(np.unravel_index(np.arange(np.prod(sides)), sides), axis=1)
        walls = ((at == 0) * 1 + (at == np.array(sides) - 1)).sum(axis=1)
        found = sorted(set(walls.tolist()))
        dense = np.searchsorted(found, walls)
        run = RunKey.of({"p": len(at)})
        clusters.append(Clusters(FLUX, "time", run, dense, tuple(map(str, found))))

    found = size_laws(clusters, ("p",))

    assert {key.behaviour: str(law) for key, law in found.items()} == expected


def test_a_law_may_begin_where_the_domain_is_no_longer_degenerate():
    clusters = []
    for p in (2, 4, 8, 16):
        labels = (np.arange(p) >= 4).astype(int)
        names = ("corner", "other") if p > 4 else ("corner",)
        clusters.append(Clusters(FLUX, "time", RunKey.of({"p": p}), labels, names))
    clusters.append(Clusters(FLUX, "time", RunKey.of({"p": 32}), (np.arange(32) >= 4) * 1, names))

    law = size_laws(clusters, ("p",))[SeriesKey(FLUX, "time", "corner")]

    assert law.predict([[10_000.0]])[0] == 4.0
    assert law.segments[0].lower == 4.0


def test_a_class_seen_in_two_runs_has_no_law():
    assert SeriesKey(FLUX, "time", "inner") not in laws((2, 3, 4))


def test_sizes_that_do_not_add_up_to_all_ranks_have_no_laws():
    clusters = []
    for p in (6, 18, 36):
        labels = np.minimum(np.arange(p), 2 + p // 7)
        names = tuple(map(str, range(labels.max() + 1)))
        clusters.append(Clusters(FLUX, "time", RunKey.of({"p": p}), labels, names))

    assert size_laws(clusters, ("p",)) == {}


def test_an_experiment_with_a_fixed_number_of_ranks_has_no_size_laws():
    one = Clusters(FLUX, "time", RunKey.of({"p": 4, "n": 1}), np.zeros(4, int), ("all",))

    assert size_laws([one], ("n",)) == {}


def test_a_class_that_grows_away_is_named_with_its_ranks_and_cost():
    def time(touched, p):
        return np.where(touched == 2, 1 + 0.25 * p**0.5, 1.0)

    found = remodel(square_runs((3, 4, 6, 8, 12, 16), time=time))

    (finding,) = [finding for finding in found.findings if finding.code == "classes-diverge"]
    assert finding.where == "main->flux"
    assert "class corner grow as p^½ while those of class edge stay constant" in finding.text
    assert "at p = 65,536 they (4 of them) take 65 times as long" in finding.text


def test_a_ratio_to_next_to_nothing_is_not_printed():
    def time(touched, p):
        return np.where(touched == 2, 0.25 * p, 1e-4)

    found = remodel(square_runs((3, 4, 6, 8, 12, 16), time=time))

    (finding,) = [finding for finding in found.findings if finding.code == "classes-diverge"]
    assert "take more than 1,000 times as long, more than 1,000 times at p = 256" in finding.text


def test_how_much_a_class_grows_away_is_unclear_where_its_own_time_is():
    random = np.random.default_rng(2)

    def time(touched, p):
        noise = 1 + 0.02 * random.standard_normal(len(touched))
        return np.where(touched == 2, 1 + 0.1 * p, 1.0) * noise

    found = remodel(square_runs((3, 4, 6), time=time))

    (finding,) = [finding for finding in found.findings if finding.code == "classes-diverge"]
    assert "take 4.6 times as long at p = 36; how much at p = 65,536 is unclear" in finding.text


def test_nearly_all_ranks_are_not_compared_with_the_mean_of_all():
    def time(touched, p):
        return np.where(touched == 2, 1.0, 1 + 0.25 * p**0.5)

    found = remodel(square_runs((3, 4, 6, 8, 12, 16), time=time))

    findings = [finding for finding in found.findings if finding.code == "classes-diverge"]
    assert findings
    assert all("times the mean of all" not in finding.text for finding in findings)


def test_classes_with_the_same_growth_do_not_diverge():
    def time(touched, p):
        return (1.0 + touched) * p**0.5

    found = remodel(square_runs((3, 4, 6, 8, 12, 16), time=time))

    assert [finding.code for finding in found.findings] == []


def falling_runs(rest, seed):
    """Every fourth rank takes 10 s in three runs at each scale; the others 20 s / p, and a rest."""
    generator = np.random.default_rng(seed)
    runs = []
    for p in (4, 8, 12, 16):
        is_slow = np.arange(p) % 4 == 0
        for repetition in range(3):
            noise = 1 + 0.02 * generator.standard_normal(p)
            times = np.where(is_slow, 10.0, 20 / p + rest) * noise
            values = {"time": times[None], "visits": 1.0 + is_slow[None]}
            table = RunTable((FLUX,), (TIME, VISITS), values)
            runs.append((RunKey.of({"p": p}, repetition), table))
    return Experiment(("p",), tuple(runs))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("rest", "expected"), [(5.0, []), (0.0, ["classes-diverge"])])
def test_a_class_that_falls_to_a_constant_is_not_left_behind_without_end(rest, expected, seed):
    found = remodel(falling_runs(rest, seed))

    assert [finding.code for finding in found.findings] == expected


def diverging(*metrics):
    """The callers of flux and flux itself, in which corners do more and more."""
    paths = [FLUX, FLUX.child("sum"), CallPath.parse("main")]
    runs = []
    for side in (3, 4, 6, 8, 12, 16):
        touched = borders(side, side)
        grown = np.where(touched == 2, 4.0 * side, 4.0)
        values = {metric.name: np.array([grown, 3 * grown, 0 * grown + 1]) for metric in metrics}
        runs.append((RunKey.of({"p": side**2}), RunTable(tuple(paths), metrics, values)))
    return tuple(runs)


def test_what_diverges_is_said_once_for_a_call_path_and_those_below_it():
    found = remodel(Experiment(("p",), diverging(TIME, VISITS)))

    (finding,) = [finding for finding in found.findings if finding.code == "classes-diverge"]
    assert finding.text.startswith("time of flux: ")


def test_times_of_crowded_runs_do_not_diverge_and_part_by_counts_only():
    runs = diverging(TIME, VISITS)
    times = [(key, RunTable(t.callpaths, (TIME,), {"time": t.values["time"]})) for key, t in runs]
    crowded = {runs[-1][0]: 2}

    found = remodel(Experiment(("p",), runs, crowded))
    alone = remodel(Experiment(("p",), tuple(times), crowded))

    texts = {finding.code: finding.text for finding in found.findings}
    assert texts["classes-diverge"].startswith("visits of flux: ")
    assert "p=256: times show which ranks had to wait" in texts["ranks-crowded"]
    assert {clusters.names for clusters in found.clusters if clusters.callpath == FLUX} == {
        ("B", "A")
    }
    assert {clusters.names for clusters in alone.clusters} == {("all",)}
