"""The life of a run, event by event."""

from dataclasses import replace

import pytest

from insitu.analysis.board import AWAITED, ENDED, FAILED, LOST, MEASURING, SILENT
from insitu.entities import RunState
from insitu.server import runs
from insitu.server.events import (
    AppendToJournal,
    DropFromJournal,
    JournalSynced,
    MessageArrived,
    RefitModels,
    Reply,
    Report,
    RunStored,
    StopRequested,
    StoreRun,
    Tick,
)
from insitu.server.live import live_of
from insitu.server.runs import format_ranks
from insitu.server.state import GRACE_S, SILENT_HEARTBEATS, CampaignState
from insitu.server.totals import table_of
from insitu.wire.messages import (
    NO_SESSION,
    REFUSED,
    Ack,
    Bye,
    Column,
    Halt,
    Paths,
    RankEnd,
    Reject,
    Welcome,
)
from tests.support.nodes import RUN, TOKEN, ModelNode, column

LOST_S = SILENT_HEARTBEATS + GRACE_S + 1.0


def state_of(**more):
    return CampaignState(instance="i1", token=TOKEN, heartbeat_s=1.0, **more)


def send(state, peer, *messages, at=0.0, is_trusted=False):
    """Let messages arrive; return the effects of the last one and what followed from them."""
    effects = []
    for message in messages:
        effects = settle(state, state.handle(MessageArrived(peer, message, at, is_trusted)))
    return effects


def settle(state, effects):
    """Carry out the effects on files, as a disk without faults does."""
    done = []
    for effect in effects:
        done.append(effect)
        match effect:
            case AppendToJournal(run, node, incarnation, _):
                done += settle(state, state.handle(JournalSynced(run, node, incarnation)))
            case StoreRun(record, _):
                is_incomplete = record.state is RunState.INCOMPLETE
                done += settle(state, state.handle(RunStored(record.id, is_incomplete)))
    return done


def answers(effects):
    return [effect.message for effect in effects if isinstance(effect, Reply)]


def kinds(effects):
    return [type(effect) for effect in effects]


def record_of(effects):
    (effect,) = [effect for effect in effects if isinstance(effect, StoreRun)]
    return effect.record


def two_nodes():
    return ModelNode("n0", [0, 1], 4), ModelNode("n1", [2, 3], 4)


def test_a_hello_is_answered_with_welcome():
    state = state_of()

    effects = send(state, b"a", ModelNode("n0", [0], 1).hello())

    assert answers(effects) == [Welcome("i1", 0, 0, 1000)]
    assert state.state_of(RUN) is RunState.MEASURING


def test_totals_are_acknowledged_with_the_known_rows():
    node = ModelNode("n0", [0], 1)

    effects = send(state_of(), b"a", node.hello(), node.dictionary(), node.totals(1))

    assert answers(effects) == [Ack("i1", 1, 1, False)]


def test_call_paths_of_another_node_of_the_run_are_known_by_their_digest():
    a, b = two_nodes()
    for node in (a, b):
        node.work("solve")
    state = state_of()
    send(state, b"a", a.hello(), a.dictionary())
    a.work("late")

    known = send(state, b"b", b.hello(), b.digest())
    unknown = send(state, b"a", a.digest())
    send(state, b"a", a.dictionary(2), a.totals(1))
    send(state, b"b", b.totals(1))

    assert [answers(known)[-1].known, answers(unknown)[-1].known] == [2, 2]
    table = table_of(4, state.runs[RUN].registers)
    for node in (a, b):
        assert all(column(table, rank) == node.truth(rank) for rank in node.ranks)


def test_an_agent_of_the_first_schema_is_welcome():
    effects = send(state_of(), b"a", replace(two_nodes()[0].hello(), schema=1))

    assert isinstance(answers(effects)[0], Welcome)


def test_totals_beyond_the_dictionary_are_not_acknowledged():
    node = ModelNode("n0", [0], 1)

    effects = send(state_of(), b"a", node.hello(), node.totals(1))

    assert answers(effects) == [Ack("i1", 0, 0, False)]


def test_a_peer_without_a_session_must_say_hello():
    (reject,) = answers(send(state_of(), b"a", ModelNode("n0", [0], 1).totals(1)))

    assert reject.code == NO_SESSION


def test_the_run_is_stored_when_the_last_node_has_ended():
    state = state_of()
    a, b = two_nodes()
    send(state, b"a", *a.messages())

    effects = send(state, b"b", *b.messages())

    assert kinds(effects) == [AppendToJournal, Reply, StoreRun, DropFromJournal, RefitModels]
    assert answers(effects) == [Ack("i1", 1, 1, True)]
    record = record_of(effects)
    assert record.state is RunState.COMPLETE
    assert str(record.key) == "p=4,n=4#0"
    assert record.exit_status == (0, 0, 0, 0)
    assert record.configuration["command"] == "heat '-n 4'"
    assert (record.started_at, record.ended_at) == (1e9, 1.1e9)
    assert state.state_of(RUN) is RunState.COMPLETE


def test_an_error_about_waiting_across_nodes_costs_neither_the_counts_nor_the_run(monkeypatch):
    def fail(*_args, **_others):
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr(runs, "add_message_waiting", fail)
    state = state_of()
    a, b = two_nodes()
    send(state, b"a", *a.messages())

    (stored,) = [effect for effect in send(state, b"b", *b.messages()) if type(effect) is StoreRun]

    assert stored.record.state is RunState.COMPLETE
    assert all(
        column(stored.table, rank) == node.truth(rank) for node in (a, b) for rank in node.ranks
    )
    (finding,) = stored.record.findings
    assert finding.code == "events-unread"
    assert "ZeroDivisionError: division by zero (test_state.py:" in finding.text


def test_nodes_that_end_at_the_same_time_store_their_run_once():
    state = state_of()
    for index in range(20):
        for message in ModelNode(f"n{index}", [index], 20).messages():
            state.handle(MessageArrived(b"%d" % index, message, 0.0, False))

    effects = []
    for index in range(20):
        effects += state.handle(JournalSynced(RUN, f"n{index}", 1))

    assert kinds(effects).count(StoreRun) == 1
    assert answers(effects) == [answers(effects)[0]] * 20  # each node may end
    assert isinstance(effects[-1], StoreRun)


def test_a_run_is_stored_at_the_next_tick_while_the_journal_of_a_node_fails():
    state = state_of()
    for node in two_nodes():
        for message in node.messages():
            state.handle(MessageArrived(node.name.encode(), message, 0.0, False))

    synced = state.handle(JournalSynced(RUN, "n0", 1))
    ticked = state.handle(Tick(1.0))

    assert kinds(synced) == [Reply]
    assert kinds(ticked) == [AppendToJournal, StoreRun]


def test_an_end_is_durable_only_when_it_is_in_the_journal():
    state, node = state_of(), ModelNode("n0", [0, 1], 4)
    send(state, b"a", node.hello(), node.dictionary(), node.totals(1))

    effects = state.handle(MessageArrived(b"a", node.bye(1), 0.0))

    assert kinds(effects) == [AppendToJournal]
    assert not state.is_durable(node.hello())


def test_a_failed_journal_write_is_retried_at_each_tick():
    state, node = state_of(), ModelNode("n0", [0, 1], 4)
    send(state, b"a", node.hello(), node.dictionary(), node.totals(1))
    state.handle(MessageArrived(b"a", node.bye(1), 0.0))

    assert kinds(state.handle(Tick(1.0))) == [AppendToJournal]


def test_a_failed_store_of_a_run_is_retried_at_each_tick():
    state, node = state_of(), ModelNode("n0", [0], 1)
    send(state, b"a", node.hello(), node.dictionary(), node.totals(1))
    state.handle(MessageArrived(b"a", node.bye(1), 0.0))
    state.handle(JournalSynced(RUN, "n0", 1))

    assert kinds(state.handle(Tick(1.0))) == [StoreRun]


def test_the_journal_holds_no_token():
    state, node = state_of(), ModelNode("n0", [0], 1)

    effects = send(state, b"a", *node.messages())

    (append,) = [effect for effect in effects if isinstance(effect, AppendToJournal)]
    assert TOKEN not in repr(append)


def test_a_bye_without_its_totals_requires_a_new_hello():
    node = ModelNode("n0", [0], 1)

    (reject,) = answers(send(state_of(), b"a", node.hello(), node.bye(3)))

    assert reject.code == NO_SESSION


def test_everything_of_a_complete_run_is_acknowledged_as_durable():
    node = ModelNode("n0", [0], 1)
    state = state_of(complete=[RUN])

    (welcome,) = answers(send(state, b"a", node.hello()))
    (ack,) = answers(send(state, b"a", node.bye(1)))

    assert isinstance(welcome, Welcome)
    assert ack.is_durable


def test_runs_that_an_earlier_aggregator_stored_incomplete_are_known():
    state = state_of(incomplete=[RUN])

    assert state.state_of(RUN) is RunState.INCOMPLETE
    assert state.state_of("another") is RunState.EXPECTED


def test_a_killed_rank_makes_the_run_incomplete_and_is_named():
    state, node = state_of(), ModelNode("n0", [0, 1, 2], 3, statuses={1: -9})

    effects = send(state, b"a", *node.messages())

    record = record_of(effects)
    assert record.state is RunState.INCOMPLETE
    assert record.missing == (1,)
    assert record.exit_status == (0, -9, 0)
    assert "2 of 3 ranks are complete; missing: 1" in record.findings[-1].text
    assert RefitModels not in kinds(effects)


def test_an_incomplete_run_is_completed_by_a_later_end():
    state = state_of()
    a, b = two_nodes()
    send(state, b"a", *a.messages())
    assert record_of(settle(state, state.handle(StopRequested(9.0)))).state is RunState.INCOMPLETE

    effects = send(state, b"b", *b.messages(), is_trusted=True)

    assert record_of(effects).state is RunState.COMPLETE


@pytest.mark.parametrize(
    ("is_trusted", "state"), [(False, RunState.MEASURING), (True, RunState.INCOMPLETE)]
)
def test_a_run_that_was_stored_incomplete_goes_on_with_its_agents_not_with_its_tables(
    is_trusted: bool, state: RunState
):
    """Trusted messages are those of tables that were left behind."""
    campaign = state_of(incomplete={RUN})
    node = ModelNode("n0", [0, 1], 2)

    send(campaign, b"a", node.hello(), node.dictionary(), node.totals(1), is_trusted=is_trusted)

    assert campaign.state_of(RUN) is state


def test_a_silent_node_is_reported_after_five_heartbeats():
    state, node = state_of(), ModelNode("n0", [0, 1], 2)
    send(state, b"a", node.hello(), node.dictionary(), node.totals(1))

    assert state.handle(Tick(5.0)) == []
    (report,) = state.handle(Tick(5.1))

    assert isinstance(report, Report)
    assert report.finding.code == "rank-silent"
    assert "n0 (ranks 0, 1)" in report.finding.text


def test_a_node_that_reports_again_is_not_silent_in_the_record():
    state, node = state_of(), ModelNode("n0", [0, 1], 2)
    send(state, b"a", node.hello(), node.dictionary(), node.totals(1))
    state.handle(Tick(5.1))

    effects = send(state, b"a", node.totals(2), node.bye(2))

    assert record_of(effects).findings == ()


def test_a_silent_run_becomes_incomplete_and_keeps_its_data():
    state = state_of()
    a, b = two_nodes()
    send(state, b"a", *a.messages())
    send(state, b"b", b.hello(), b.dictionary(), b.totals(1))

    effects = settle(state, state.handle(Tick(LOST_S)))

    assert AppendToJournal in kinds(effects)
    assert record_of(effects).missing == (2, 3)
    assert state.state_of(RUN) is RunState.INCOMPLETE
    assert not state.is_measuring()


def test_an_incomplete_run_is_stored_once():
    state, node = state_of(), ModelNode("n0", [0], 2)
    send(state, b"a", *node.messages())
    settle(state, state.handle(Tick(LOST_S)))

    assert state.handle(Tick(2 * LOST_S)) == []


def test_a_run_is_measured_while_one_of_its_nodes_reports():
    state = state_of()
    a, b = two_nodes()
    send(state, b"a", a.hello(), a.dictionary(), a.totals(1))
    send(state, b"b", b.hello(), b.dictionary(), b.totals(1))

    send(state, b"b", b.totals(2), at=LOST_S)
    state.handle(Tick(LOST_S + 0.1))

    assert state.state_of(RUN) is RunState.MEASURING


def test_a_newer_agent_replaces_an_older_one():
    state, old = state_of(), ModelNode("n0", [0], 1)
    send(state, b"a", old.hello(), old.dictionary(), old.totals(7))
    new = replace(old, incarnation=2)
    new.work("solve")

    send(state, b"b", new.hello(), new.dictionary(), new.totals(1))
    (reject,) = answers(send(state, b"a", old.totals(8)))
    effects = send(state, b"b", new.bye(1))

    assert reject.code == REFUSED
    assert [str(c) for c in seal_of_table(effects).callpaths] == ["main", "main->solve"]


def seal_of_table(effects):
    (effect,) = [effect for effect in effects if isinstance(effect, StoreRun)]
    return effect.table


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"token": "b" * 64}, "token"),
        ({"token": "é"}, "token"),
        ({"schema": 99}, "schema 99"),
        ({"size": 5}, "has 4 ranks"),
        ({"configuration": '{"parameters": {"n": 5}}'}, "Hello differs"),
        ({"configuration": "["}, "not JSON"),
        ({"configuration": "[]"}, "not a JSON object"),
        ({"configuration": '{"parameters": 3}'}, "not a JSON object"),
        ({"configuration": '{"parameters": {"n": "four"}}'}, "not a finite number"),
        ({"configuration": '{"parameters": {"n": NaN}}'}, "not a finite number"),
        ({"configuration": '{"parameters": {"n": 1' + 400 * "0" + "}}"}, "not a finite number"),
        ({"columns": (Column("time", "ms", "total", "u8"),)}, "another unit"),
        ({"node": "n0", "incarnation": 0}, "newer agent"),
    ],
)
def test_an_agent_that_does_not_belong_to_the_run_is_refused(changes, reason):
    state = state_of()
    a, b = two_nodes()
    send(state, b"a", a.hello())

    (reject,) = answers(send(state, b"b", replace(b.hello(), **changes)))

    assert reject.code == REFUSED
    assert reason in reject.text


@pytest.mark.parametrize(
    "message",
    [
        Halt("stop"),
        Paths(0, b"\x05\0\0\0", ("x",), ("",), bytes(4)),
        Bye(0, (RankEnd(9, 0, True),), 1, "{}"),
    ],
)
def test_an_invalid_message_is_refused_and_reported(message):
    state = state_of()
    send(state, b"a", ModelNode("n0", [0], 1).hello())

    effects = send(state, b"a", message)

    assert answers(effects)[0].code == REFUSED
    assert kinds(effects) == [Reply, Report]


def test_an_agent_cannot_change_its_columns():
    state, node = state_of(), ModelNode("n0", [0], 1)
    send(state, b"a", node.hello())

    (reject,) = answers(send(state, b"b", replace(node.hello(), columns=node.hello().columns[:1])))

    assert reject.code == REFUSED


def test_ranks_that_appear_later_are_named_in_the_report_of_a_silent_node():
    state, node = state_of(), ModelNode("n0", [0, 1], 2)
    send(state, b"a", replace(node.hello(), ranks=(0,)), node.hello())

    (report,) = state.handle(Tick(5.1))

    assert "ranks 0, 1" in report.finding.text


def test_a_run_is_measured_again_when_its_agents_come_back():
    state, node = state_of(), ModelNode("n0", [0], 1)
    send(state, b"a", node.hello(), node.dictionary(), node.totals(1))
    settle(state, state.handle(Tick(LOST_S)))

    send(state, b"b", node.hello(), node.totals(2), at=LOST_S)

    assert state.state_of(RUN) is RunState.MEASURING


def test_more_nodes_than_ranks_are_refused():
    state = state_of()
    send(state, b"a", ModelNode("n0", [0], 1).hello())

    (answer,) = answers(send(state, b"b", ModelNode("n1", [0], 1).hello()))

    assert isinstance(answer, Reject)


def test_a_run_that_would_need_too_much_memory_is_refused_before_it_uses_it():
    state = state_of(memory_bytes=1 << 20)
    small = ModelNode("n0", [0], 1)
    huge = ModelNode("n0", [0], 4_000_000, run="f" * 32)
    huge.paths = [f"f{i}" for i in range(50)]
    send(state, b"a", small.hello(), small.dictionary())

    refused = answers(send(state, b"b", huge.hello()))

    assert "Serve the campaign on a larger machine" in refused[0].text
    assert answers(send(state, b"a", small.totals(1))) == [Ack("i1", 1, 1, False)]


def test_replaced_totals_free_their_memory():
    state, node = state_of(), ModelNode("n0", [0, 1], 4)
    send(state, b"a", node.hello(), node.dictionary(), node.totals(1))
    held = state.runs[RUN].held_bytes

    send(state, b"a", *[node.totals(seq) for seq in range(2, 50)])

    assert state.runs[RUN].held_bytes == held


def test_runs_that_brought_nothing_are_forgotten_when_there_are_too_many(monkeypatch):
    monkeypatch.setattr("insitu.server.state.MAX_RUNS", 2)
    state = state_of()
    brings = ModelNode("n0", [0], 2)
    send(state, b"a", brings.hello(), brings.dictionary(), brings.totals(1))
    send(state, b"b", ModelNode("n0", [0], 2, run="e" * 32).hello())

    early = send(state, b"c", ModelNode("n0", [0], 2, run="f" * 32).hello(), at=1.0)
    late = send(state, b"c", ModelNode("n0", [0], 2, run="f" * 32).hello(), at=2 * GRACE_S)

    assert isinstance(answers(early)[0], Reject)
    assert isinstance(answers(late)[0], Welcome)
    assert RUN in state.runs


def test_a_forgotten_run_is_not_acknowledged_as_durable():
    state, node = state_of(), ModelNode("n0", [0], 1)
    send(state, b"a", node.hello())
    settle(state, state.handle(Tick(1000.0)))

    effects = [send(state, b"a", message, at=1001.0) for message in node.messages()[1:]]
    again = send(state, b"a", node.hello(), at=1002.0)

    assert RUN not in state.complete
    assert [answers(each)[0].code for each in effects] == [NO_SESSION] * 3
    assert isinstance(answers(again)[0], Welcome)


def test_a_list_of_ranks_is_shortened():
    assert format_ranks(range(3)) == "0, 1, 2"
    assert format_ranks(range(100)) == "0, 1, 2, 3, 4, 5, 6, 7 and 92 more"


def test_the_time_in_which_the_aggregator_was_stopped_is_no_silence_of_its_nodes():
    state, node = state_of(), ModelNode("n0", [0, 1], 2)
    send(state, b"a", node.hello(), node.dictionary(), node.totals(1))
    state.handle(Tick(0.5))

    effects = state.handle(Tick(30.0))  # SIGSTOP, then SIGCONT

    assert effects == []
    assert state.is_measuring()


def test_a_node_that_stays_silent_after_the_aggregator_was_stopped_is_reported():
    state, node = state_of(), ModelNode("n0", [0, 1], 2)
    send(state, b"a", node.hello(), node.dictionary(), node.totals(1))
    for now in (0.5, 30.0, *range(31, 35)):
        assert state.handle(Tick(now)) == []

    (report,) = state.handle(Tick(36.0))

    assert report.finding.code == "rank-silent"


def test_agents_of_complete_runs_are_forgotten(monkeypatch):
    monkeypatch.setattr("insitu.server.state.MAX_ENDED_PEERS", 3)
    state = state_of()

    for number in range(20):
        node = ModelNode("n0", [0], 1, run=f"{number:032x}")
        effects = send(state, b"peer %d" % number, *node.messages())
        assert answers(effects)[-1].is_durable

    assert len(state._peers) == 3
    assert answers(send(state, b"peer 19", node.bye(1)))[-1].is_durable
    (answer,) = answers(send(state, b"peer 0", node.bye(1)))
    assert answer.code == NO_SESSION


def test_the_memory_of_a_run_is_that_of_the_totals_of_all_its_nodes():
    nodes = ModelNode("n0", list(range(400)), 401), ModelNode("n1", [400], 401)
    alone = []
    for node in nodes:
        state = state_of()
        send(state, b"a", node.hello(), node.dictionary())
        before = state.runs[RUN].held_bytes
        send(state, b"a", node.totals(1))
        alone.append(state.runs[RUN].held_bytes - before)
        matrices = [matrix for group in node.totals(1).groups for matrix in group.matrices]
        assert alone[-1] >= sum(map(len, matrices))

    state = state_of()
    for node in nodes:
        send(state, node.name.encode(), node.hello(), node.dictionary())
    before = state.runs[RUN].held_bytes
    for node in nodes:
        send(state, node.name.encode(), node.totals(1))

    assert state.runs[RUN].held_bytes - before == sum(alone)


def test_a_live_run_counts_its_ranks_by_how_they_are():
    state = state_of()
    ended = ModelNode("n0", [0, 1, 2], 6, statuses={1: 3, 2: -9})
    quiet, alive = ModelNode("n1", [3], 6), ModelNode("n2", [4], 6)
    for node in (ended, quiet):
        send(state, node.name.encode(), node.hello(), node.dictionary(), node.totals(1))
    send(state, b"n0", ended.bye(1))
    settle(state, state.handle(Tick(LOST_S - GRACE_S)))
    send(state, b"n2", alive.hello(), alive.dictionary(), alive.totals(1), at=LOST_S - GRACE_S)

    live = live_of(state.runs[RUN])

    assert (live.id, live.size, live.ranks_seen, live.ranks_ended) == (RUN, 6, 5, 3)
    assert live.started_at == 1e9
    states = (ENDED, FAILED, LOST, SILENT, MEASURING, AWAITED)
    assert live.ranks == tuple((state, 1) for state in states)


@pytest.mark.parametrize(("n_ranks", "is_stored"), [(3, False), (4, True), (5, True)])
def test_a_large_incomplete_run_is_stored_once_a_tenth_of_it_has_reported(
    monkeypatch, n_ranks, is_stored
):
    monkeypatch.setattr("insitu.server.state.SMALL_RUN", 8)
    state, node = state_of(), ModelNode("n0", list(range(n_ranks)), 40)
    send(state, b"a", node.hello(), node.dictionary(), node.totals(1))

    effects = settle(state, state.handle(StopRequested(1.0)))

    assert any(isinstance(effect, StoreRun) for effect in effects) == is_stored
    assert any(isinstance(effect, AppendToJournal) for effect in effects)
