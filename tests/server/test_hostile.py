"""A client with key and token that sends any well-formed message spoils only its own run."""

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from insitu.server.events import (
    AppendToJournal,
    JournalSynced,
    MessageArrived,
    RunStored,
    StopRequested,
    StoreRun,
    Tick,
)
from insitu.server.state import CampaignState
from insitu.server.totals import table_of
from insitu.wire.codec import decode, encode
from insitu.wire.messages import SCHEMA, Group, Hello, Paths, Totals
from tests.support.nodes import RUN, TOKEN, ModelNode, column
from tests.support.parameters import examples
from tests.wire.strategies import MESSAGES, hellos

THEIRS = "f" * 32
ADMITTED = hellos().map(
    lambda hello: replace(
        hello, schema=SCHEMA, token=TOKEN, run=THEIRS, size=4, ranks=(), configuration="{}"
    )
)


@st.composite
def nearly_fitting(draw):
    """Totals and dictionaries with ids small enough to be accepted sometimes."""
    ranks = draw(st.lists(st.integers(0, 4), max_size=3))
    rows = draw(st.lists(st.integers(0, 3), max_size=3))
    if draw(st.booleans()):
        parents = np.array(rows, "<u4").tobytes()
        names = tuple(draw(st.sampled_from(["main", "a->b", "", "x"])) for _ in rows)
        return Paths(draw(st.integers(0, 3)), parents, names, names, parents)
    columns = tuple(draw(st.lists(st.integers(0, 2), max_size=3, unique=True)))
    size = 8 * len(ranks) * len(rows)
    group = Group(
        np.array(ranks, "<i4").tobytes(),
        np.array(rows, "<u4").tobytes(),
        draw(st.binary(min_size=8 * len(ranks), max_size=8 * len(ranks))),
        columns,
        tuple(draw(st.binary(min_size=size, max_size=size)) for _ in columns),
    )
    return Totals(draw(st.integers(0, 9)), 1, (group,) * draw(st.integers(1, 2)))


def carry_out(state, effects):
    """Carry out effects as the writer does: encode what is journaled, check what is stored."""
    for effect in effects:
        match effect:
            case AppendToJournal(run, node, incarnation, messages):
                for message in messages:
                    decode(encode(message))
                carry_out(state, state.handle(JournalSynced(run, node, incarnation)))
            case StoreRun(record, table):
                for array in table.values.values():
                    assert array.shape == (len(table.callpaths), record.key.size)
                    assert not np.isinf(array).any()
                carry_out(state, state.handle(RunStored(record.id, bool(record.missing))))


@examples(300)
@given(hello=ADMITTED, messages=st.lists(st.one_of(nearly_fitting(), MESSAGES), max_size=12))
def test_whatever_is_said_after_a_valid_hello_the_other_run_stands(hello, messages):
    state = CampaignState(instance="i1", token=TOKEN, heartbeat_s=1.0)
    node = ModelNode("n0", [0, 1], 3)
    for message in node.messages()[:3]:
        state.handle(MessageArrived(b"honest", message, 0.0))

    for message in (hello, *messages):
        theirs = replace(message, run=THEIRS) if isinstance(message, Hello) else message
        carry_out(state, state.handle(MessageArrived(b"hostile", theirs, 1.0)))
    carry_out(state, state.handle(Tick(2.0)))

    assert state.held_bytes == sum(run.held_bytes for run in state.runs.values())
    table = table_of(3, state.runs[RUN].registers)
    assert [column(table, rank) for rank in node.ranks] == [node.truth(0), node.truth(1)]
    assert np.isnan(table.values["visits"][:, 2]).all()
    carry_out(state, state.handle(StopRequested(3.0)))
