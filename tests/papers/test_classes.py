"""Claims of the paper on spatially diverging performance [CLU], with its own examples."""

import numpy as np
import pytest

from insitu.analysis.comparison import ComparedCampaign, compare_campaigns
from insitu.entities import TIME, TIME_EXCLUSIVE, CallPath, RunKey
from insitu.modeling.classes.cluster import THRESHOLD, cluster
from insitu.modeling.classes.rules import Rules, assign, parse_rule
from insitu.modeling.measurement import Experiment, RunTable, SeriesKey
from insitu.modeling.pipeline import RefitOptions, remodel

FLUX = CallPath.parse("DoubleMach->density_flux")
RULES = (
    parse_rule("corner: x in (0, nx-1) and y in (0, ny-1)"),
    parse_rule("top and bottom edge: x in (0, nx-1)"),
    parse_rule("left and right edge: y in (0, ny-1)"),
)
SQUARES = (16, 36, 64, 100, 144)
MEDIANS = {0: 127.0, 1: 109.0, 2: 85.0, 3: 62.0}  # Table I, density flux, p = 64, s = 409,600
KERNELS = ("density_flux", "energy_flux", "momentum_flux", "viscosity_flux")
TABLE_I = {  # seconds of a corner, of an edge at top or bottom, of one at left or right, inside
    "density_flux": (127.0, 109.0, 85.0, 62.0),
    "energy_flux": (141.0, 127.0, 102.0, 88.0),
    "momentum_flux": (305.0, 276.0, 224.0, 195.0),
    "viscosity_flux": (318.0, 315.0, 301.0, 292.0),
}
TABLE_II = dict(zip(KERNELS, (1.7e-4, 2.3e-4, 5.2e-4, 7.3e-4), strict=True))  # times s


def measured(time, sizes=SQUARES):
    """An experiment with the time of each rank by its class under RULES and by p."""
    runs = []
    for p in sizes:
        key = RunKey.of({"p": p})
        values = np.array([time(int(label), p) for label in assign(RULES, key)], dtype=float)
        runs.append((key, RunTable((FLUX,), (TIME,), {"time": values[None]})))
    return Experiment(("p",), tuple(runs))


def measured_kernels(time, points, metric=TIME):
    """The four kernels with the time of each rank by its class, 1 % noise."""
    rng = np.random.default_rng(7)
    paths = tuple(CallPath.parse(f"DoubleMach->{name}") for name in KERNELS)
    runs = []
    for point in points:
        key = RunKey.of(point)
        labels = assign(RULES, key)
        values = [[time(name, int(label), point) for label in labels] for name in KERNELS]
        noisy = np.array(values) * rng.uniform(0.99, 1.01, (len(KERNELS), len(labels)))
        runs.append((key, RunTable(paths, (metric,), {metric.name: noisy})))
    return Experiment(tuple(points[0]), tuple(runs))


def literal(experiment, **more):
    return remodel(experiment, RefitOptions(classes="paper", modeler="search", **more))


def test_the_threshold_is_ten_percent():
    """§III-B."""
    assert THRESHOLD == 0.10


def test_relative_distance_divides_by_the_smaller_of_the_two():
    """§III-B: "their distance divided by the smaller of the distances … from the origin"."""
    assert cluster([100.0, 109.9]).tolist() == [0, 0]
    assert cluster([100.0, 110.1]).tolist() == [0, 1]


def test_clusters_of_different_orders_of_magnitude_are_told_apart_at_once():
    """§I, §III-B: "even if their absolute values differ by orders of magnitude"."""
    rng = np.random.default_rng(2)
    levels = np.repeat([1e-6, 1e-3, 1.0, 1e3], 50)

    labels = cluster(levels * (1 + 0.02 * rng.uniform(-1, 1, 200)))

    assert labels.tolist() == np.repeat(range(4), 50).tolist()


@pytest.mark.parametrize(("p", "expected"), [(4, 1), (8, 2), (16, 4), (64, 4)])
def test_the_number_of_classes_depends_on_the_number_of_processes(p, expected):
    """§V: four processes are all corners, eight corners and one kind of edge, 16 have all."""
    (run,) = measured(lambda label, _: MEDIANS[label], [p]).runs

    assert cluster(run[1].values["time"])[0].max() + 1 == expected


@pytest.mark.parametrize("p", SQUARES)
def test_there_are_four_corners_and_the_edges_grow_with_the_root_of_p(p):
    """§III-A, Fig. 1."""
    counts = np.bincount(assign(RULES, RunKey.of({"p": p})), minlength=4)

    assert counts.tolist() == [4, 2 * p**0.5 - 4, 2 * p**0.5 - 4, (p**0.5 - 2) ** 2]


def test_a_single_cluster_is_modelled_as_before():
    """§III-B: "If a single cluster is detected, the modeling can proceed as before"."""
    result = literal(measured(lambda _, p: 3.0 + p))

    assert [series.key.behaviour for series in result.models] == ["all"]
    assert result.findings == ()


def test_equal_numbers_of_clusters_match_in_ascending_order():
    """§III-B; values as in Table I."""
    result = literal(measured(lambda label, p: MEDIANS[label] * np.log2(p)))

    models = {series.key.behaviour: series.model for series in result.models}
    assert list(models)[:4] == ["A", "B", "C", "D"]  # corner, top or bottom, left or right, inner
    for name, median in zip("DCBA", sorted(MEDIANS.values()), strict=True):
        assert models[name].predict([[1024.0]])[0] == pytest.approx(10 * median, rel=1e-6)


def test_with_different_numbers_models_come_from_the_subset_that_agrees():
    """§III-B: "create performance models only using that subset"; §V needs four points at least."""
    result = literal(measured(lambda label, _: MEDIANS[label], (4, 8, 16, 32, 64, 128, 256)))

    corner = next(series for series in result.models if series.key.behaviour == "A")
    assert corner.model.coordinates.ravel().tolist() == [16, 32, 64, 128, 256]
    (finding,) = [item for item in result.findings if item.code == "classes-differ"]
    assert "1 class at p=4; 2 classes at p=8; 4 classes at p=16 p=32" in finding.text


def test_what_the_paper_leaves_to_the_user_is_matched_by_laws():
    """Beyond the paper: its seven runs make one campaign of four classes."""
    result = remodel(
        measured(lambda label, _: MEDIANS[label], (4, 8, 16, 32, 64, 128, 256)),
        RefitOptions(modeler="search"),
    )

    names = {group.run.size: group.names for group in result.clusters}
    assert names[4] == ("corner",)
    assert names[8] == ("edge y", "corner")  # a grid of 4 x 2 has left and right edges only
    corner = next(series for series in result.models if series.key.behaviour == "corner")
    assert corner.model.coordinates.ravel().tolist() == [4, 8, 16, 32, 64, 128, 256]


def test_tuned_clusters_assign_ranks_by_the_decomposition():
    """§V: noise hides the classes, rules of the domain decomposition bring them back."""
    rng = np.random.default_rng(5)
    noisy = measured(lambda label, _: MEDIANS[label] * rng.uniform(0.8, 1.2))

    result = literal(noisy, rules=[Rules(RULES, callpath="density_flux")])

    assert {series.key for series in result.models} == {
        SeriesKey(FLUX, "time", name) for name in (*(rule.name for rule in RULES), "other", "all")
    }


@pytest.mark.parametrize(("kernel", "clusters"), [*zip(KERNELS, (4, 4, 4, 1), strict=True)])
def test_medians_of_table_1_are_apart_by_ten_percent_but_for_viscosity(kernel, clusters):
    """Table I: the classes of viscosity_flux differ by 1 to 5 % there, and are told by rules."""
    assert cluster(TABLE_I[kernel]).max() + 1 == clusters


@pytest.mark.parametrize("classes", ["paper", "joint"])
def test_kernels_have_no_classes_after_the_optimisation(classes):
    """Table II: one model for all processes, proportional to s, with R² = 1."""
    points = [{"p": p, "s": s} for p in (16, 36, 64) for s in (1600, 6400, 25600, 102400, 409600)]
    experiment = measured_kernels(lambda name, _, point: TABLE_II[name] * point["s"], points)

    result = remodel(experiment, RefitOptions(classes=classes))

    assert {series.key.behaviour for series in result.models} == {"all"}
    for series in result.models:
        assert series.model.leading([256.0, 409600.0]) == ((0, 0), (1, 0))
        predicted = series.model.predict([[256.0, 1638400.0]])[0]
        expected = TABLE_II[series.key.callpath.name] * 1638400
        assert predicted == pytest.approx(expected, rel=0.01)


def test_the_optimisation_pays_where_the_paper_says():
    """§V-B, Fig. 6: 30 % at the largest problem. Corners decide there; inside nothing is won."""
    points = [{"p": p} for p in SQUARES]
    campaigns = []
    for time in (
        lambda name, label, _: TABLE_I[name][label],
        lambda name, *_: TABLE_II[name] * 409600,
    ):
        experiment = measured_kernels(time, points, TIME_EXCLUSIVE)
        campaigns.append(ComparedCampaign(experiment, remodel(experiment)))

    comparison = compare_campaigns(*campaigns)

    corners = [change for change in comparison.changes if change.behaviour == "corner"]
    before, after = (sum(getattr(c, at) for c in corners) for at in ("before", "after"))
    slowest = sum(TABLE_I[name][0] for name in KERNELS)
    assert before == pytest.approx(slowest, rel=0.01)
    assert before / after == pytest.approx(1.3, abs=0.05)
    assert not any(c.status == "faster" for c in comparison.changes if c.behaviour == "inner")
