"""The next runs: conditioning on a run is exact for normal values, and which runs are proposed."""

import numpy as np
import pytest

from insitu.design.advise import LEAST_NOISE, ConditionedLaw, variance_reductions
from insitu.design.dependencies import Dependency, Nest
from insitu.design.factorial import Point, core_seconds
from insitu.design.measured_runs import MeasuredRuns, collect_measured_runs
from insitu.design.proposals import Proposals, default_levels, propose_runs
from insitu.entities import TIME_EXCLUSIVE, CallPath, RunKey
from insitu.errors import UsageError
from insitu.modeling.measurement import Experiment, RunTable

SCALES = (2.0, 4.0, 8.0, 16.0, 24.0, 32.0)
LEVELS = {"p": (*SCALES, 64.0, 128.0)}


class Samples:
    """Any samples, at the coordinates 0, 1, 2 …"""

    def __init__(self, values: np.ndarray) -> None:
        self.values = values

    def at(self, points: np.ndarray) -> np.ndarray:
        return self.values[:, points[:, 0].astype(int)]


def measured(scales=SCALES) -> MeasuredRuns:
    p = np.array(scales)
    noise = 1 + 0.02 * np.random.default_rng(7).standard_normal((2, len(p)))
    values = np.array([0.1 * p, 0.5 + 0 * p]) * noise
    return MeasuredRuns(("p",), p[:, None], ("main->gather", "main->solve"), values, 0.0)


def test_conditioning_on_a_run_changes_the_covariance_as_for_normal_values():
    random = np.random.default_rng(3)
    values = 50 + random.standard_normal((200, 3)) @ random.standard_normal((3, 3))
    before = np.cov(values.T, bias=True)
    noise = 0.05

    after = ConditionedLaw(Samples(values), np.array([[1.0]]), noise).at(np.arange(3.0)[:, None])

    own = before[1, 1] + (max(noise, LEAST_NOISE) * values[:, 1].mean()) ** 2
    expected = before - np.outer(before[1], before[1]) / own
    np.testing.assert_allclose(np.cov(after.T, bias=True), expected, atol=1e-12)
    np.testing.assert_allclose(after.mean(axis=0), values.mean(axis=0))


def test_the_reduction_of_a_run_is_what_it_takes_from_the_variance():
    values = 50 + np.random.default_rng(5).standard_normal((200, 2)).cumsum(axis=1)
    law, there = Samples(values), np.array([[1.0]])

    (gain,) = variance_reductions([law], [Point((("p", 0.0),))], there)[0]
    conditioned = ConditionedLaw(law, np.array([[0.0]]))

    assert values[:, 1].var() - conditioned.at(there).var() == pytest.approx(gain)


def test_parameters_that_do_not_vary_do_not_change_the_proposal():
    on_both = {"main->gather": Dependency("main->gather", (Nest.of(["p", "steps"]),))}
    on_p = {"main->gather": Dependency("main->gather", (Nest.of(["p"]),))}

    proposals = [
        propose_runs(measured(), (512.0,), LEVELS, dependencies=known) for known in (on_both, on_p)
    ]

    assert proposals[0] == proposals[1]


def test_without_dependencies_each_parameter_counts_alone_and_all_together():
    points = np.array([(p, n) for p in SCALES for n in (10.0, 20.0, 40.0)])
    noise = 1 + 0.01 * np.random.default_rng(9).standard_normal((1, len(points)))
    runs = MeasuredRuns(("p", "n"), points, ("main",), points.prod(axis=1) * noise, 0.0)
    levels = {**LEVELS, "n": (10.0, 20.0, 40.0)}
    nests = (Nest.of(["p"]), Nest.of(["n"]), Nest.of(["p", "n"]))

    unknown = propose_runs(runs, (512.0, 40.0), levels, goal=1e-4)
    known = propose_runs(
        runs, (512.0, 40.0), levels, dependencies={"main": Dependency("main", nests)}, goal=1e-4
    )

    assert unknown == known
    assert unknown.seconds == pytest.approx(512 * 40, rel=0.05)


def test_proposed_runs_lower_the_uncertainty_one_after_the_other():
    proposals = propose_runs(measured(), (512.0,), LEVELS, count=2, goal=0.001)

    assert [run.point["p"] for run in proposals.runs] == [64.0, 128.0]
    assert proposals.uncertainty > proposals.runs[0].uncertainty > proposals.runs[1].uncertainty
    assert proposals.runs[0].callpath in measured().callpaths
    assert 0.5 <= proposals.runs[0].share <= 1
    assert proposals.runs[0].seconds == pytest.approx(0.1 * 64 + 0.5, rel=0.2)
    assert proposals.runs[0].core_seconds == 64 * proposals.runs[0].seconds


def test_runs_that_differ_come_first_and_none_once_the_goal_is_reached():
    first = propose_runs(measured(SCALES[:3]), (512.0,), LEVELS, count=3)
    enough = propose_runs(measured(), (33.0,), LEVELS, goal=0.5)
    exhausted = propose_runs(measured(), (512.0,), {"p": SCALES}, goal=0.001)

    assert {run.callpath for run in first.runs} == {""}
    assert np.isnan(first.uncertainty) and len(first.runs) == 2
    assert [run.seconds for run in first.runs] == pytest.approx(
        [0.1 * run.point["p"] + 0.5 for run in first.runs], rel=0.2
    )
    assert enough.is_enough and enough.runs == ()
    assert exhausted.is_exhausted


def test_the_first_runs_are_none_that_must_not_be_made():
    def is_out(point: Point) -> bool:
        return bool(point["p"] > 24)

    first = propose_runs(measured(SCALES[:1]), (512.0,), LEVELS, count=8, is_out=is_out)

    assert first.runs
    assert max(run.point["p"] for run in first.runs) <= 24


def test_the_noise_of_a_mean_is_that_of_its_repetitions_together():
    """The standard error of four values is half of their deviation [standard error of a mean]."""
    runs = tuple(
        (
            RunKey.of({"p": 2.0}, repetition),
            RunTable(
                (CallPath(("main",)),), (TIME_EXCLUSIVE,), {"time_exclusive": np.array([[seconds]])}
            ),
        )
        for repetition, seconds in enumerate((9.0, 11.0, 9.0, 11.0))
    )

    found = collect_measured_runs(Experiment(("p",), runs), ("p",))

    assert found.noise == pytest.approx(np.std([9, 11, 9, 11], ddof=1) / 10 / 2)


def test_after_a_run_on_one_rank_the_next_ones_are_on_two_and_four():
    """The run that a new user begins with; there, no level but the measured one was found."""
    one = MeasuredRuns(("p",), np.array([[1.0]]), ("main",), np.array([[2.0]]), 0.05)

    assert default_levels(one, (64.0,))["p"] == (1.0, 2.0, 4.0)
    assert default_levels(one, (2.0,))["p"] == (1.0, 2.0)
    assert default_levels(one, (1.0,))["p"] == (1.0,)


def test_without_levels_runs_are_up_to_four_times_as_large():
    assert default_levels(measured(), (512.0,))["p"] == LEVELS["p"]
    assert default_levels(measured(), (64.0,))["p"] == LEVELS["p"][:-1]
    with pytest.raises(UsageError, match="--levels"):
        default_levels(MeasuredRuns(("p",), np.empty((0, 1)), (), np.empty((0, 0)), 0.0), (8.0,))


def test_of_too_many_combinations_the_smallest_values_are_left_out_one_by_one():
    names = ("p", "n", "m", "k")
    values = 2.0 ** np.arange(8)
    points = np.stack([values] * len(names), axis=1)
    runs = MeasuredRuns(names, points, ("main",), np.ones((1, 8)), 0.0)

    levels = default_levels(runs, (128.0,) * len(names))

    assert [len(levels[name]) for name in names] == [7, 8, 8, 8]
    assert levels["p"] == tuple(values[1:].tolist())


def test_times_of_zero_are_raised_to_small_ones():
    paths = tuple(CallPath(("main", name)) for name in ("work", "io", "idle"))
    seconds = [(9.0 / p, 0.5 * (p >= 8), 0.0) for p in SCALES]
    runs = tuple(
        (
            RunKey.of({"p": p}),
            RunTable(paths, (TIME_EXCLUSIVE,), {"time_exclusive": np.array(row)[:, None]}),
        )
        for p, row in zip(SCALES, seconds, strict=True)
    )

    proposals = collect_measured_runs(Experiment(("p",), runs), ("p",))

    assert proposals.callpaths == ("main->work", "main->io")
    assert proposals.values[1].tolist() == [5e-4, 5e-4, 0.5, 0.5, 0.5, 0.5]
    assert np.isfinite(propose_runs(proposals, (64.0,), LEVELS, goal=0.001).uncertainty)


def test_a_call_path_that_no_rank_has_at_some_scale_is_left_out():
    paths = (CallPath(("main",)), CallPath(("main", "some")))
    runs = tuple(
        (
            RunKey.of({"p": p}),
            RunTable(
                paths,
                (TIME_EXCLUSIVE,),
                {"time_exclusive": np.array([[p, 1.0], [np.nan, np.nan if p > 8 else 3.0]])},
            ),
        )
        for p in SCALES
    )

    found = collect_measured_runs(Experiment(("p",), runs), ("p",))

    assert found.callpaths == ("main",)
    assert found.values.tolist() == [list(SCALES)]


def test_few_runs_without_others_to_make_are_all():
    proposals = propose_runs(measured(SCALES[:2]), (512.0,), {"p": SCALES[:2]})

    assert proposals.is_exhausted is True and proposals.runs == ()


def test_runs_without_a_number_of_ranks_cost_as_much_as_each_other():
    assert core_seconds("p")(Point((("n", 300.0),))) == 1.0
    assert core_seconds("p")(Point((("n", 300.0), ("p", 8.0)))) == 8.0


def test_a_prediction_that_is_none_says_why():
    at = Point((("p", 512.0),))
    scattered = Proposals(at, 0.05, (), seconds=3.0, uncertainty=6.17)
    unclear = Proposals(at, 0.05, (), seconds=3.0, uncertainty=0.1, unclear="unclear beyond p=64")
    clear = Proposals(at, 0.05, (), seconds=3.0, uncertainty=0.1)

    so_far = "predicted from the runs so far:"
    assert scattered.describe_prediction() == (
        f"{so_far} unclear at p=512, the laws that fit the runs scatter there by 617 %, "
        "and `insitu predict` prints the bounds of the more probable ones"
    )
    assert unclear.describe_prediction() == f"{so_far} unclear at p=512, beyond p=64"
    assert clear.describe_prediction() == (f"{so_far} 3 s at p=512, uncertainty 10 %, goal 5.0 %")
    assert Proposals(at, 0.05, ()).describe_prediction() == ""


def test_runs_have_no_duration_if_no_law_describes_the_longest_one():
    p = np.array((*SCALES, 40.0))
    values = np.array([0.1 * 3 ** (p / 4), 0.5 + 0 * p])
    runs = MeasuredRuns(("p",), p[:, None], ("main->gather", "main->solve"), values, 0.0)

    proposals = propose_runs(runs, (512.0,), LEVELS, count=2)

    assert len(proposals.runs) == 2
    assert all(np.isnan(run.seconds) for run in proposals.runs)
