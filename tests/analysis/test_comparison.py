"""Two campaigns compared: a change is seen from both sides, and nothing else is one."""

import math
from dataclasses import replace

import numpy as np
import pytest

from insitu.analysis.comparison import (
    CHANGED,
    FASTER,
    GONE,
    NEW,
    SLOWER,
    Change,
    ComparedCampaign,
    _count_order,
    compare_campaigns,
)
from insitu.entities import HEAP_GROWTH, MESSAGES_SENT, TIME_EXCLUSIVE, VISITS, CallPath, RunKey
from insitu.modeling.base import ALL
from insitu.modeling.measurement import Experiment, RunTable
from insitu.modeling.pipeline import RefitOptions, remodel

SCALES = (2, 4, 8, 16)
MAIN, SOLVE, HALO, TEST, IO = (
    CallPath.parse(text)
    for text in ("main", "main->solve", "main->halo", "main->MPI_Test", "main->io")
)


def campaign(slower=1.0, *, halo=lambda p: 4.0, more=None, seed=0) -> ComparedCampaign:
    """Times of 1 s a rank with 1 % noise and exact counts; `more` counts the messages of `io`."""
    runs = []
    for p in SCALES:
        rng = np.random.default_rng([p, seed])
        time = np.array([[0.1] * p, [slower] * p, [0.5] * p, [1e-4 * slower**2] * p])
        time *= rng.normal(1.0, 0.01, (4, p))
        visits = np.array([[1.0] * p, [1.0] * p, [halo(p)] * p, [float(seed + 3)] * p])
        visits[2] -= np.arange(p) % 2  # the largest rank counts
        sent = np.full((4, p), np.nan)
        sent[2] = 2 * visits[2]
        paths = (MAIN, SOLVE, HALO, TEST)
        if more is not None:
            paths = (*paths, IO)
            time, visits = np.vstack([time, np.zeros(p)]), np.vstack([visits, np.ones(p)])
            sent = np.vstack([sent, np.full(p, more(p))])
        values = {"time_exclusive": time, "visits": visits, "messages_sent": sent}
        runs.append(
            (RunKey.of({"p": p}), RunTable(paths, (TIME_EXCLUSIVE, VISITS, MESSAGES_SENT), values))
        )
    experiment = Experiment(("p",), tuple(runs))
    return ComparedCampaign(experiment, remodel(experiment, RefitOptions()))


@pytest.fixture(scope="module")
def usual() -> ComparedCampaign:
    return campaign()


@pytest.fixture(scope="module")
def changed() -> ComparedCampaign:
    """Twice as slow, with another law of messages and one more function."""
    return campaign(2.0, halo=lambda p: 4.0 * p, more=lambda p: 7.0, seed=1)


def test_a_campaign_does_not_differ_from_itself_or_its_ranks_in_another_order(usual):
    itself = compare_campaigns(usual, usual)
    runs = []
    for key, table in usual.experiment.runs:
        ranks = np.random.default_rng(3).permutation(table.size)
        values = {name: array[:, ranks] for name, array in table.values.items()}
        runs.append((key, replace(table, values=values)))
    shuffled = compare_campaigns(usual, replace(usual, experiment=Experiment(("p",), tuple(runs))))

    assert (itself.parameters, itself.at, itself.changes, itself.notes) == (("p",), (16.0,), (), ())
    assert shuffled.changes == ()
    # Exclusive times, those of two classes as well, visits but for MPI_Test, and messages.
    assert itself.n_alike == shuffled.n_alike == 4 + 2 + 3 + 1


def test_changes_are_those_that_were_made_with_their_size_and_laws(usual, changed):
    comparison = compare_campaigns(usual, changed)

    time, *counts = comparison.changes
    assert (time.callpath, time.metric, time.status) == (SOLVE, "time_exclusive", SLOWER)
    assert (time.unit, {change.unit for change in counts}) == ("s", {"1"})
    assert time.low <= 2.0 <= time.high and time.ratio == pytest.approx(2.0, rel=0.02)
    assert (time.before, time.after) == (pytest.approx(1.0, rel=0.02), pytest.approx(2.0, rel=0.02))
    by_name = {(change.callpath, change.metric): change for change in counts}
    assert {key: change.status for key, change in by_name.items()} == {
        (HALO, "visits"): CHANGED,
        (HALO, "messages_sent"): CHANGED,
        (IO, "visits"): NEW,
        (IO, "messages_sent"): NEW,
    }
    visits, new = by_name[HALO, "visits"], by_name[IO, "messages_sent"]
    assert (visits.before, visits.after, visits.ratio) == (4.0, 64.0, 16.0)
    assert (visits.law_before, visits.law_after, visits.has_other_law) == ("4", "4 p", True)
    assert (math.isnan(new.before), new.after, new.law_before, new.law_after) == (
        True,
        7.0,
        "",
        "7",
    )
    assert not new.has_other_law and math.isnan(new.ratio)
    assert [change.has_other_law for change in counts] == [True, True, False, False]
    assert comparison.n_alike == 3 + 2 + 2


def test_the_other_direction_has_the_same_changes_inverted(usual, changed):
    forth, back = compare_campaigns(usual, changed), compare_campaigns(changed, usual)

    inverse = {SLOWER: FASTER, CHANGED: CHANGED, NEW: GONE}
    assert forth.n_alike == back.n_alike
    assert len(forth.changes) == len(back.changes)
    for there in forth.changes:
        (here,) = (
            change
            for change in back.changes
            if (change.callpath, change.metric) == (there.callpath, there.metric)
        )
        assert here.status == inverse[there.status]
        np.testing.assert_equal((here.before, here.after), (there.after, there.before))
        assert (here.law_before, here.law_after) == (there.law_after, there.law_before)
        assert here.has_other_law == there.has_other_law
        np.testing.assert_allclose((here.low, here.high), (1 / there.high, 1 / there.low))


def test_times_of_shared_cores_are_not_compared_but_counts_are(usual, changed):
    experiment = changed.experiment
    crowded = replace(experiment, crowded={key: 2 for key, _ in experiment.runs})

    comparison = compare_campaigns(usual, replace(changed, experiment=crowded))

    assert comparison.notes == ("times are not compared: runs had 16 ranks on 2 cores",)
    assert {change.metric for change in comparison.changes} == {"visits", "messages_sent"}
    assert comparison.n_alike == 2


def uneven(seed: int, slow: dict[str, tuple[int, ...]]) -> ComparedCampaign:
    """Functions of 1 s with 1 % noise, and of 1.6 s on some of each eight ranks."""
    paths = tuple(CallPath.parse(f"main->{name}") for name in slow)
    runs = []
    for p in (8, 16, 32):
        ranks = np.arange(p) % 8
        time = np.array([1.0 + 0.6 * np.isin(ranks, kinds) for kinds in slow.values()])
        time *= np.random.default_rng([seed, p]).normal(1.0, 0.01, time.shape)
        table = RunTable(paths, (TIME_EXCLUSIVE,), {"time_exclusive": time})
        runs.append((RunKey.of({"p": p}), table))
    experiment = Experiment(("p",), tuple(runs))
    return ComparedCampaign(experiment, remodel(experiment))


def test_classes_are_compared_by_their_ranks_and_not_by_their_letters():
    """One more function with other classes has the first letters."""
    before = uneven(1, {"solve": (0, 1, 3, 6)})
    after = uneven(2, {"assemble": (1, 2, 3), "solve": (0, 1, 3, 6)})

    comparison = compare_campaigns(before, after)

    assert comparison.changes == ()
    assert comparison.n_alike == 3  # both classes and all ranks


def test_classes_of_other_ranks_with_the_same_letters_are_not_compared():
    """Other ranks are slow, of which there are as many."""
    comparison = compare_campaigns(
        uneven(1, {"solve": (0, 1, 3, 6)}), uneven(2, {"solve": (1, 3, 4, 6)})
    )

    assert comparison.changes == ()
    assert comparison.n_alike == 1  # all ranks


@pytest.mark.parametrize("factor", [1.0, 0.93])
def test_ranks_that_are_a_class_in_one_campaign_only_did_not_change(factor):
    """About the same times, in which the other campaign finds no classes."""
    before = uneven(1, {"solve": (0, 1, 3, 6)})
    runs = []
    for key, table in before.experiment.runs:
        slow = np.isin(np.arange(table.size) % 8, (0, 1, 3, 6))
        values = {name: row * np.where(slow, factor, 1.0) for name, row in table.values.items()}
        runs.append((key, replace(table, values=values)))
    experiment = Experiment(("p",), tuple(runs))
    options = RefitOptions(classes="paper", threshold=0.9)
    after = ComparedCampaign(experiment, remodel(experiment, options))

    comparison = compare_campaigns(before, after)

    assert {series.key.behaviour for series in after.models.models} == {"all"}
    assert comparison.changes == ()
    assert comparison.n_alike == 3  # both classes and all ranks


def test_classes_change_although_all_ranks_together_take_as_long():
    """Slow ranks take a third longer, the others half as long."""
    before = uneven(1, {"solve": (0, 1, 3, 6)})
    runs = []
    for key, table in before.experiment.runs:
        is_slow = np.isin(np.arange(table.size) % 8, (0, 1, 3, 6))
        values = {name: rows + 0.5 * (2 * is_slow - 1) for name, rows in table.values.items()}
        runs.append((key, replace(table, values=values)))
    experiment = Experiment(("p",), tuple(runs))
    after = ComparedCampaign(experiment, remodel(experiment))

    changes = compare_campaigns(before, after).changes

    assert sorted((change.status, round(change.ratio, 1)) for change in changes) == [
        (FASTER, 0.5),
        (SLOWER, 1.3),
    ]


def test_campaigns_without_a_common_coordinate_are_not_compared(usual):
    def keep(runs, parameters=("p",)) -> ComparedCampaign:
        return replace(usual, experiment=Experiment(parameters, tuple(runs)))

    runs = usual.experiment.runs
    assert compare_campaigns(keep(runs[:2]), keep(runs[2:])) is None
    assert compare_campaigns(usual, keep(runs, ("n",))) is None
    assert compare_campaigns(keep(runs[:3]), keep(runs[1:])).at == (8.0,)


def test_counts_that_follow_no_law_are_changed_without_one(usual):
    irregular = {2: 4.0, 4: 9.0, 8: 5.0, 16: 31.0}
    runs = []
    for key, table in usual.experiment.runs:
        visits = table.values["visits"].copy()
        visits[2] = irregular[int(key.size)]
        runs.append((key, replace(table, values=table.values | {"visits": visits})))
    other = replace(usual, experiment=Experiment(("p",), tuple(runs)))

    (change,) = compare_campaigns(usual, other).changes

    assert (change.callpath, change.status) == (HALO, CHANGED)
    assert (change.before, change.after) == (4.0, 31.0)
    assert (change.law_before, change.law_after, change.has_other_law) == ("4", "", True)


def test_counts_over_another_parameter_have_no_law_over_ranks(usual, changed):
    def over_n(campaign: ComparedCampaign) -> ComparedCampaign:
        runs = tuple((RunKey.of({"n": key.size}), table) for key, table in campaign.experiment.runs)
        experiment = Experiment(("n",), runs)
        return ComparedCampaign(experiment, remodel(experiment, RefitOptions()))

    changes = compare_campaigns(over_n(usual), over_n(changed)).changes

    (visits,) = (it for it in changes if (it.callpath, it.metric) == (HALO, "visits"))
    assert (visits.before, visits.after) == (4.0, 64.0)
    assert (visits.law_before, visits.law_after) == ("", "")


def test_other_laws_stand_first_then_what_is_new_or_gone_then_the_largest_ratio():
    def change(name, before, after, *, has_other_law=False) -> Change:
        path = CallPath((name,))
        usual = Change(path, "visits", "1", "", CHANGED, before, after)
        return replace(usual, has_other_law=has_other_law)

    ordered = [
        change("a", 4.0, 1.0, has_other_law=True),
        change("b", 2.0, 3.0, has_other_law=True),
        change("c", math.nan, 1.0),
        change("d", 7.0, math.nan),
        change("e", 0.0, 1.0),
        change("f", 1.0, 0.0),
        change("g", 9.0, 1.0),
        change("h", 1.0, 2.0),
        change("i", 2.0, 1.0),
        replace(change("a", 4.0, 1.0, has_other_law=True), metric="heap_growth"),
    ]

    backwards = list(reversed(ordered))
    assert sorted(backwards, key=_count_order) == ordered


def leaking(kept) -> ComparedCampaign:
    """A campaign in which each rank keeps kept(p) bytes of `solve`."""
    runs = []
    for p in SCALES:
        values = {"visits": np.ones((2, p)), "heap_growth": np.array([[0.0] * p, [kept(p)] * p])}
        table = RunTable((MAIN, SOLVE), (VISITS, HEAP_GROWTH), values)
        runs.append((RunKey.of({"p": p}), table))
    experiment = Experiment(("p",), tuple(runs))
    return ComparedCampaign(experiment, remodel(experiment, RefitOptions()))


def test_memory_that_no_longer_stays_allocated_is_a_change_with_its_law():
    leaks = leaking(lambda p: 1e5 * p)

    (change,) = compare_campaigns(leaks, leaking(lambda p: 0.0)).changes
    jitter = compare_campaigns(leaks, leaking(lambda p: 1e5 * p + 8e3))

    assert (change.metric, change.status) == ("heap_growth", CHANGED)  # the function is still there
    assert (change.law_before, change.law_after) == ("100 kB * p", "")
    assert jitter.changes == ()


def test_memory_stands_after_counts_and_only_where_it_is_allocated():
    """MPI allocates buffers at its first message, wherever that is: callers include them."""

    def campaign(visits, kept) -> ComparedCampaign:
        paths = (MAIN, SOLVE, CallPath.parse("main->solve->MPI_Send"), HALO)
        growth = np.array([[kept + 1e3], [kept + 1e3], [kept], [0.0]])
        values = {"visits": np.array([[1.0], [1.0], [1.0], [visits]]), "heap_growth": growth}
        table = RunTable(paths, (VISITS, HEAP_GROWTH), values)
        experiment = Experiment(("p",), ((RunKey.of({"p": 1}), table),))
        return ComparedCampaign(experiment, remodel(experiment, RefitOptions()))

    found = compare_campaigns(campaign(4.0, 6e4), campaign(5.0, 0.0))

    listed = [(change.callpath.name, change.metric) for change in found.changes]
    assert listed == [("halo", "visits"), ("MPI_Send", "heap_growth")]


def repeated(seed: int, *, last: tuple[float, ...]) -> ComparedCampaign:
    """Functions whose times grow with p, measured twice on each of five scales with 1 % noise.

    Args:
        seed: of the noise.
        last: factors of the time in the runs at the largest scale; of all, if both are above 1.
    """
    scales = (4, 8, 16, 32, 64)
    rng = np.random.default_rng(seed)
    paths = tuple(MAIN.child(f"f{i}") for i in range(5))
    runs = []
    for p in scales:
        for i in range(2):
            seconds = np.array([1.4 + 0.05 * p, 3.0, 0.1 * p, 20.0 / p, 2.0])
            seconds = seconds * rng.normal(1.0, 0.01, 5)
            seconds[0] *= last[i] if p == scales[-1] or min(last) > 1 else 1.0
            of_ranks = seconds[:, None] * rng.normal(1.0, 0.001, (5, p))
            table = RunTable(paths, (TIME_EXCLUSIVE,), {"time_exclusive": of_ranks})
            runs.append((RunKey.of({"p": p}, i), table))
    experiment = Experiment(("p",), tuple(runs))
    return ComparedCampaign(experiment, remodel(experiment, RefitOptions()))


@pytest.mark.parametrize(("last", "statuses"), [((2.0, 1.0), []), ((1.9, 2.0), [SLOWER])])
def test_one_of_two_runs_that_took_longer_is_no_change(last, statuses):
    before, after = repeated(0, last=(1.0, 1.0)), repeated(1, last=last)

    for pair, wanted in (((before, after), statuses), ((after, before), [FASTER] * len(statuses))):
        changes = [change for change in compare_campaigns(*pair).changes if change.behaviour == ALL]
        assert [change.status for change in changes] == wanted
