"""Who causes waiting, from the intervals that ranks have kept."""

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from insitu.collectors.delay_reports import delay_gauges, describe_delays
from insitu.collectors.intervals import (
    TICKS_OF_SAMPLE,
    CallDelays,
    Delays,
    RankIntervals,
    _follow_links,
    find_delays,
)
from insitu.collectors.late_messages import LateCall
from insitu.collectors.table import COMPILED, MPI, PROGRAM, STACK
from insitu.collectors.table_events import NEEDS_ALL, NEEDS_LOWER, NEEDS_NOBODY, IntervalEvent
from insitu.entities import CallPath

TICK_S = 1e-3
# The rows of all ranks.
ROWS = ("main", "assemble", "filter", "work", "MPI_Allreduce", "MPI_Barrier")
KINDS = (PROGRAM, COMPILED, COMPILED, COMPILED, MPI, MPI)
MAIN, ASSEMBLE, FILTER, WORK, CALL, OTHER_CALL = range(6)
OPERATION = 1  # ticks that a call takes after the last rank is there

Work = Mapping[int, float]  # ticks by row
Step = Sequence[Work]  # of each rank


class Program:
    """Ranks that do some work and then call a collective, step by step."""

    def __init__(self, size: int, *, thresholds: Sequence[int] = ()) -> None:
        self.size = size
        self.events: list[list[IntervalEvent]] = [[] for _ in range(size)]
        self.now = 1000
        self.steps = 0
        self.thresholds = thresholds or [0] * size

    def step(self, work: Step, *, row: int = CALL, needs: Sequence[int] = ()) -> None:
        """All ranks begin together; each leaves when those that it needs have entered."""
        begins = [self.now + int(sum(ticks.values())) for ticks in work]
        end = max(begins) + OPERATION
        self.steps += 1
        for rank, ticks in enumerate(work):
            needed = needs[rank] if needs else NEEDS_ALL
            event = IntervalEvent(
                *(self.steps, self.steps - 1, self.now, begins[rank], end, row),
                *(needed, rank, self.size, tuple(ticks), tuple(ticks.values())),
            )
            self.events[rank].append(event)
        self.now = end

    def delays(self, late_calls: Sequence[LateCall] = ()) -> Delays:
        return find_delays(
            [
                RankIntervals(
                    rank,
                    self.events[rank],
                    threshold=self.thresholds[rank],
                    node_rows=range(len(ROWS)),
                    kinds=KINDS,
                    tick_s=TICK_S,
                )
                for rank in range(self.size)
            ],
            late_calls,
        )


def seconds(delays: Delays, call: int = CALL) -> dict[tuple[int, int], float]:
    """What causes the waiting in a call: seconds by row and rank, without rounding errors."""
    return {key: cost for key, cost in delays[call].costs.items() if cost > 1e-9}


def test_waiting_is_caused_by_what_the_late_rank_does_longer():
    program = Program(4)
    for _ in range(5):
        program.step([{ASSEMBLE: 10, WORK: 50}] * 3 + [{ASSEMBLE: 40, WORK: 50}])

    delays = program.delays()

    assert delays[CALL].waited == pytest.approx(5 * 3 * 30 * TICK_S)
    assert seconds(delays) == {(ASSEMBLE, 3): pytest.approx(5 * 3 * 30 * TICK_S)}


def test_ranks_that_take_turns_in_being_late_cause_it_together():
    program = Program(4)
    for i in range(8):
        program.step([{ASSEMBLE: 40 if rank == i % 4 else 10, WORK: 50} for rank in range(4)])

    costs = seconds(program.delays())

    assert costs == {(ASSEMBLE, rank): pytest.approx(2 * 3 * 30 * TICK_S) for rank in range(4)}


def test_a_short_call_that_is_no_interval_of_some_ranks_is_no_obstacle():
    program = Program(3)
    for _ in range(5):
        program.step([{ASSEMBLE: 40, WORK: 50}, {WORK: 50}, {WORK: 50}])
    # Rank 2 has left another call between the steps later than the others, for it an interval.
    program.events[2] = [
        event._replace(previous_key=100 + event.key, start=event.start + 2)
        for event in program.events[2]
    ]

    delays = program.delays()

    assert delays[CALL].waited == pytest.approx(5 * 2 * 40 * TICK_S)
    assert seconds(delays) == {(ASSEMBLE, 0): pytest.approx(5 * 2 * 40 * TICK_S)}


@pytest.mark.parametrize("difference", [-30, 30])
def test_intervals_that_begin_far_apart_are_not_compared(difference: int):
    program = Program(3)
    program.step([{ASSEMBLE: 40, WORK: 50}, {WORK: 50}, {WORK: 50}])
    (event,) = program.events[0]
    program.events[0] = [event._replace(previous_key=100, start=event.start + difference)]

    assert CALL not in program.delays()


def test_two_causes_share_the_waiting():
    program = Program(3)
    for _ in range(4):
        program.step([{ASSEMBLE: 60, FILTER: 40, WORK: 50}, {WORK: 50}, {WORK: 50}])

    costs = seconds(program.delays())

    assert costs[ASSEMBLE, 0] / sum(costs.values()) == pytest.approx(0.6)
    assert costs[FILTER, 0] / sum(costs.values()) == pytest.approx(0.4)


def test_ranks_that_arrive_together_wait_for_nobody():
    program = Program(3)
    for _ in range(4):
        program.step([{WORK: 50}] * 3)

    assert program.delays() == {}


def test_rare_delays_count_as_often_as_they_are():
    program = Program(2)
    for i in range(50):
        program.step([{WORK: 50}, {WORK: 55, FILTER: 500 if i % 25 == 7 else 0}])

    costs = seconds(program.delays())

    assert costs[FILTER, 1] == pytest.approx(2 * 500 * TICK_S)
    assert costs[WORK, 1] == pytest.approx(50 * 5 * TICK_S)


@pytest.mark.parametrize(
    ("needs", "late"),
    [
        ([NEEDS_NOBODY, 0, 0], 0),  # rank 0 broadcasts, and comes second
        ([NEEDS_ALL, NEEDS_NOBODY, NEEDS_NOBODY], 2),  # rank 0 gathers
        ([NEEDS_NOBODY, NEEDS_LOWER, NEEDS_NOBODY], 0),  # a scan
    ],
)
def test_only_those_that_a_rank_needs_delay_it(needs, late):
    program = Program(3)
    program.step([{ASSEMBLE: 50}, {ASSEMBLE: 20}, {ASSEMBLE: 90}], needs=needs)

    waited = 40 if needs[0] == NEEDS_ALL else 30
    assert seconds(program.delays()) == {(ASSEMBLE, late): pytest.approx(waited * TICK_S)}


def test_a_rank_that_waited_itself_passes_the_cause_on():
    program = Program(3)
    pair = Program(2)  # ranks 0 and 1, in a communicator of their own
    pair.steps = 100
    for _ in range(4):
        pair.now = program.now
        pair.step([{ASSEMBLE: 80, WORK: 5}, {WORK: 5}], row=OTHER_CALL)
        # Rank 1 comes last, since it has waited for rank 0.
        program.step([{ASSEMBLE: 80, WORK: 10}, {OTHER_CALL: 80, WORK: 11}, {WORK: 10}])
    for rank in range(2):
        program.events[rank] += pair.events[rank]

    delays = program.delays()

    assert seconds(delays, OTHER_CALL) == {(ASSEMBLE, 0): pytest.approx(4 * 80 * TICK_S)}
    costs = seconds(delays)
    assert costs[ASSEMBLE, 0] / delays[CALL].waited > 0.95
    assert (OTHER_CALL, 1) not in costs


@pytest.mark.parametrize(("worked", "charged"), [(80, (ASSEMBLE, 0)), (20, (OTHER_CALL, 1))])
def test_a_rank_in_mpi_was_delayed_by_the_rank_that_worked_meanwhile(worked, charged):
    program = Program(3)
    program.step([{ASSEMBLE: worked, WORK: 10}, {OTHER_CALL: 80, WORK: 11}, {WORK: 10}])

    costs = seconds(program.delays())

    assert max(costs, key=costs.__getitem__) == charged


def test_of_a_sample_short_intervals_count_more_and_long_ones_once():
    program = Program(2, thresholds=[800, 200])
    program.step([{WORK: 100}, {WORK: 199}])  # 200 ticks, kept with a probability of 1/4
    program.step([{WORK: 100}, {WORK: 100, FILTER: 2000}])

    costs = seconds(program.delays())

    assert costs[WORK, 1] == pytest.approx(4 * 99 * TICK_S)
    assert costs[FILTER, 1] == pytest.approx(2000 * TICK_S)


def test_intervals_that_some_rank_lacks_are_left_out():
    program = Program(2)
    program.step([{WORK: 100}, {WORK: 150}])
    program.step([{WORK: 100}, {WORK: 150}])
    first, second = program.events[0]
    # It began at another call, before those that the other rank has kept.
    program.events[0] = [first._replace(previous_key=77, start=first.start - 100)]

    assert program.delays() == {}
    program.events[0].append(second)
    assert program.delays()[CALL].waited == pytest.approx(50 * TICK_S)


def test_if_the_late_rank_begins_an_interval_late_a_longer_one_explains_it():
    program = Program(2)
    program.step([{WORK: 10}, {ASSEMBLE: 90, WORK: 10}])
    (short,), (late,) = program.events
    # After a call in between, at which nobody waited for rank 1.
    program.events[0].append(short._replace(previous_key=5, rows=(WORK,), ticks=(1.0,)))
    program.events[1].append(
        late._replace(previous_key=5, start=late.begin - 1, rows=(WORK,), ticks=(1.0,))
    )

    assert seconds(program.delays()) == {(ASSEMBLE, 1): pytest.approx(90 * TICK_S)}


def test_samples_of_functions_explain_what_the_program_took():
    late = IntervalEvent(
        *(2, 1, 0, 100, 101, 3, NEEDS_ALL, 1, 2),
        *((0, 1, 2), (100.0, 7.0 * TICKS_OF_SAMPLE, 3.0 * TICKS_OF_SAMPLE)),
    )
    waits = late._replace(begin=20, rank=0, rows=(0, 2), ticks=(20.0, 2.0 * TICKS_OF_SAMPLE))
    kinds = (PROGRAM, STACK, STACK, MPI)
    ranks = [
        RankIntervals(event.rank, [event], 0, range(4), kinds, tick_s=TICK_S, sample_s=0.01)
        for event in (waits, late)
    ]

    costs = find_delays(ranks)[3].costs

    assert costs == {(1, 1): pytest.approx(0.07), (2, 1): pytest.approx(0.01)}


def test_delays_are_reported_by_rank_and_by_call():
    program = Program(3)
    program.step([{ASSEMBLE: 60, FILTER: 40, WORK: 50}, {WORK: 50}, {WORK: 50}])
    delays = program.delays()

    assert sorted(delay_gauges(delays)) == [
        (0, ASSEMBLE, {"delay_cost": pytest.approx(0.12)}),
        (0, FILTER, {"delay_cost": pytest.approx(0.08)}),
    ]
    assert describe_delays(delays, [CallPath(("app", row)) for row in ROWS]) == [
        {
            "callpath": "app->MPI_Allreduce",
            "waited": 0.2,
            "causes": [
                {"callpath": "app->assemble", "seconds": 0.12, "ranks": [[0, 0.12]]},
                {"callpath": "app->filter", "seconds": 0.08, "ranks": [[0, 0.08]]},
            ],
        }
    ]


def test_a_late_sender_is_charged_for_what_it_did_in_the_same_interval():
    program = Program(3)
    receive = OTHER_CALL
    late_calls = []
    for _ in range(3):
        start = program.now
        # Rank 0 receives from rank 1, which receives from rank 2, which is late.
        program.step(
            [{WORK: 20, receive: 60}, {WORK: 20, receive: 60}, {ASSEMBLE: 60, WORK: 20}], row=CALL
        )
        for rank in (0, 1):
            late_calls.append(
                LateCall(rank, receive, start + 20, start + 80, rank + 1, waited=60, weight=2.0)
            )

    delays = program.delays(late_calls)

    assert delays[receive].waited == pytest.approx(3 * 2 * 2 * 60 * TICK_S)
    assert seconds(delays, receive) == {(ASSEMBLE, 2): pytest.approx(3 * 2 * 2 * 60 * TICK_S)}


def test_what_ranks_do_alternately_does_not_outweigh_what_is_late():
    program = Program(2)
    program.step([{WORK: 900, FILTER: 0}, {WORK: 0, FILTER: 910}])
    for _ in range(10):
        program.step([{WORK: 100}, {WORK: 100, ASSEMBLE: 20}])

    delays = program.delays()

    assert delays[CALL].waited == pytest.approx(210 * TICK_S)
    assert seconds(delays) == {
        (ASSEMBLE, 1): pytest.approx(200 * TICK_S),
        (FILTER, 1): pytest.approx(10 * TICK_S),
    }


@pytest.mark.parametrize(("late", "explained"), [((2, 2), 0), ((4, 0), 160), ((3, 1), 80)])
def test_all_late_messages_of_an_interval_have_the_same_excess_as_cause(late, explained):
    """Two ranks exchange four messages; either is late by 40 ticks so many times."""
    program = Program(2)
    start, (first, second) = program.now, late
    program.step(
        [
            {ASSEMBLE: 40 * first + 10, OTHER_CALL: 40 * second, WORK: 50},
            {ASSEMBLE: 40 * second + 10, OTHER_CALL: 40 * first, WORK: 50},
        ]
    )
    late_calls = []
    for rank, times in ((1, first), (0, second)):
        for i in range(times):
            begin = start + 10 + 20 * i
            late_calls.append(LateCall(rank, OTHER_CALL, begin, begin + 40, 1 - rank, 40, 1.0))

    delays = program.delays(late_calls)

    assert delays[OTHER_CALL].waited == pytest.approx(4 * 40 * TICK_S)
    costs = seconds(delays, OTHER_CALL)
    assert sum(costs.values()) == pytest.approx(explained * TICK_S)
    assert costs.keys() <= {(ASSEMBLE, 0)}


def test_a_sampled_message_stands_for_others_in_its_interval_or_elsewhere():
    """One of four messages is sampled: all are in one interval, or each has its own."""
    together, apart = Program(2), Program(2)
    start = together.now
    together.step([{OTHER_CALL: 160, WORK: 10}, {ASSEMBLE: 160, WORK: 10}])
    apart.step([{OTHER_CALL: 40, WORK: 10}, {ASSEMBLE: 40, WORK: 10}])
    call = LateCall(0, OTHER_CALL, start, start + 40, 1, waited=40, weight=4.0)

    for program in (together, apart):
        costs = seconds(program.delays([call]), OTHER_CALL)

        assert costs == {(ASSEMBLE, 1): pytest.approx(160 * TICK_S)}


ticks = st.one_of(st.just(0), st.integers(1, 1000), st.floats(1e-12, 1e3))
works = st.dictionaries(st.integers(0, len(ROWS) - 1), ticks, max_size=len(ROWS))
messages = st.tuples(  # rank, row, late rank, ticks from the begin of the step, waited
    *(st.integers(0, 2), st.sampled_from([CALL, OTHER_CALL]), st.integers(0, 2)),
    *(st.integers(0, 500), st.integers(1, 500)),
)
steps = st.tuples(st.sampled_from([CALL, OTHER_CALL]), st.tuples(works, works, works))


@given(st.lists(steps, min_size=1, max_size=5), st.lists(messages, max_size=8))
def test_no_more_than_the_waiting_of_a_call_is_explained_by_its_causes(all_steps, all_messages):
    program = Program(3)
    begins = []
    for row, work in all_steps:
        begins.append(program.now)
        program.step(work, row=row)
    late_calls = [
        LateCall(rank, row, begins[0] + begin, begins[0] + begin + waited, late, waited, 1.0)
        for rank, row, late, begin, waited in all_messages
        if rank != late
    ]

    for call in program.delays(late_calls).values():
        assert min(call.costs.values(), default=0.0) >= 0
        assert sum(call.costs.values()) <= call.waited * (1 + 1e-6)


def test_a_call_of_which_nothing_else_is_the_cause_is_the_cause_itself():
    """SNAP on 8 ranks: a call waits for itself, and other rows with it for 0 seconds."""
    delays = {
        CALL: CallDelays(waited=2.0, costs={(OTHER_CALL, 0): 2.0}),
        OTHER_CALL: CallDelays(waited=1.0, costs={(OTHER_CALL, 0): 1.0, (WORK, 1): 0.0}),
    }

    _follow_links(delays, {CALL, OTHER_CALL})

    assert seconds(delays) == {(OTHER_CALL, 0): 2.0}
