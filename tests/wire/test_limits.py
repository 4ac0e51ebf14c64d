"""Every limit of the protocol is reached and not exceeded, and its violation is named."""

import itertools
from dataclasses import replace

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from insitu.errors import WireError
from insitu.wire import messages as m
from insitu.wire.codec import decode, encode
from insitu.wire.digest import EMPTY_DIGEST, extend_digest
from insitu.wire.split import GROUP_BYTES, split_totals
from tests.wire.strategies import groups, hellos, sketches

HELLO = m.Hello(1, "0" * 32, "", "n", 0, 4, (), 0, "{}", ())
COLUMN = m.Column("t", "s", "total", "u8")
GROUP = m.Group(bytes(8), bytes(12), bytes(16), (3,), (bytes(48),))
BUCKETS = m.Buckets(0, bytes(8), bytes(8), bytes(8), bytes(16), bytes(16), bytes(16))
SKETCHES = m.Sketches(1, 1, 5, 2, (BUCKETS,))


def columns_of(entries, sizes):
    """Columns that hold so many entries of these sizes, which may be a fraction."""
    return {name: bytes(int(entries * size)) for name, size in sizes.items()}


COLLECTIVES = m.Collectives(**columns_of(1, m.COLLECTIVES_BYTES))
BYE = m.Bye(1, (), 1, "{}")
ACK = m.Ack("", 0, 0, True)


def with_group(**fields):
    return m.Totals(1, 1, (replace(GROUP, **fields),))


def with_buckets(**fields):
    return replace(SKETCHES, metrics=(replace(BUCKETS, **fields),))


def hello_with(**fields):
    return replace(HELLO, **fields)


LIMITS = [  # a message for a value, the last value that is allowed, the first that is not, and why
    (lambda v: hello_with(size=v), m.MAX_RANKS, m.MAX_RANKS + 1, "Hello.size"),
    (lambda v: hello_with(size=v), 1, 0, "Hello.size"),
    (lambda v: hello_with(ranks=(0, v)), 3, 4, "Hello.ranks"),
    (lambda v: hello_with(ranks=(v, 1)), 0, -1, "Hello.ranks"),
    (lambda v: hello_with(incarnation=v), 0, -1, "before 1970"),
    (lambda v: hello_with(started_ns=v), 0, -1, "before 1970"),
    (lambda v: hello_with(run="a" * v), 32, 31, "Hello.run"),
    (lambda v: hello_with(run="a" * v), 32, 33, "Hello.run"),
    (lambda v: hello_with(run=v + "0" * 31), "f", "F", "Hello.run"),
    (
        lambda v: hello_with(columns=tuple(replace(COLUMN, name=f"{i}") for i in range(v))),
        m.MAX_METRICS,
        m.MAX_METRICS + 1,
        "Hello.columns has 65 elements; the limit is 64",
    ),
    (lambda v: hello_with(columns=(COLUMN, replace(COLUMN, name=v))), "u", "t", "metric twice"),
    (lambda v: hello_with(columns=(replace(COLUMN, name=v),)), "t", "", "column needs a name"),
    (lambda v: hello_with(columns=(replace(COLUMN, kind=v),)), "level", "max", "column needs"),
    (lambda v: hello_with(columns=(replace(COLUMN, dtype=v),)), "f8", "f4", "column needs"),
    (
        lambda v: m.Paths(v, bytes(8), ("a", "b"), ("c", "d"), bytes(8)),
        m.MAX_ROWS - 2,
        m.MAX_ROWS - 1,
        "Paths exceeds",
    ),
    (lambda v: m.Paths(v, b"", (), (), b""), 0, -1, "Paths exceeds"),
    (lambda v: m.Paths(0, v, ("a",), ("b",), bytes(4)), bytes(4), bytes(8), "different lengths"),
    (lambda v: m.Paths(0, bytes(4), ("a",), ("b",), v), bytes(4), b"", "different lengths"),
    (lambda v: m.Paths(0, bytes(4), ("a",), v, bytes(4)), ("b",), (), "different lengths"),
    (lambda v: m.Digest(v, bytes(16)), 1, 0, "Digest needs"),
    (lambda v: m.Digest(v, bytes(16)), m.MAX_ROWS, m.MAX_ROWS + 1, "Digest needs"),
    (lambda v: m.Digest(1, bytes(v)), 16, 15, "Digest needs"),
    (lambda v: m.Digest(1, bytes(v)), 16, 17, "Digest.digest is longer than 16 bytes"),
    (lambda v: with_group(ranks=bytes(v)), 8, 9, "Group has columns"),
    (lambda v: with_group(ranks=bytes(v)), 8, 12, "Group has columns"),
    (lambda v: with_group(rows=bytes(v)), 12, 13, "Group has columns"),
    (lambda v: with_group(rows=bytes(v)), 12, 8, "Group has a matrix"),
    (lambda v: with_group(tick_s=bytes(v)), 16, 15, "Group has columns"),
    (lambda v: with_group(columns=(v,)), m.MAX_METRICS - 1, m.MAX_METRICS, "Group.columns"),
    (lambda v: with_group(columns=(v,)), 0, -1, "Group.columns"),
    (lambda v: with_group(columns=v, matrices=(bytes(48),) * 2), (2, 1), (2, 2), "one matrix"),
    (lambda v: with_group(matrices=(bytes(48),) * v), 1, 2, "one matrix"),
    (lambda v: with_buckets(column=v), m.MAX_METRICS - 1, m.MAX_METRICS, "Buckets.column"),
    (lambda v: with_buckets(column=v), 0, -1, "Buckets.column"),
    (lambda v: with_buckets(highs=bytes(v)), 16, 8, "Buckets has columns"),
    (lambda v: with_buckets(rows=bytes(v)), 8, 9, "Buckets has columns"),
    (lambda v: replace(SKETCHES, ended=v), 5, 6, "Sketches claims"),
    (lambda v: replace(SKETCHES, ended=v), 0, -1, "Sketches claims"),
    (lambda v: replace(SKETCHES, ranks=v), m.MAX_RANKS, m.MAX_RANKS + 1, "Sketches claims"),
    (lambda v: replace(SKETCHES, metrics=(BUCKETS,) * v), 1, 2, "Sketches has a metric twice"),
    (
        lambda v: replace(BYE, collectives=replace(COLLECTIVES, needs=bytes(v))),
        4,
        8,
        "Collectives has columns",
    ),
    (
        lambda v: replace(BYE, collectives=m.Collectives(**columns_of(v, m.COLLECTIVES_BYTES))),
        2,
        1.5,
        "Collectives has columns",
    ),
    (
        lambda v: replace(BYE, collectives=replace(COLLECTIVES, weights=bytes(v))),
        4,
        8,
        "Collectives has columns",
    ),
    (
        lambda v: replace(BYE, messages=m.PointToPoint(**columns_of(v, m.MESSAGES_BYTES))),
        2,
        1.5,
        "PointToPoint has columns",
    ),
    (
        lambda v: replace(BYE, intervals=m.Intervals(**columns_of(v, m.INTERVALS_BYTES))),
        2,
        1.5,
        "Intervals has columns",
    ),
    (
        lambda v: replace(BYE, intervals=m.Intervals(**columns_of(v, m.PROFILE_BYTES))),
        2,
        1.5,
        "Intervals has profiles",
    ),
    (
        lambda v: replace(BYE, intervals=m.Intervals(mpi_rows=bytes(v))),
        4 * m.MAX_ROWS,
        4 * m.MAX_ROWS + 4,
        "Intervals.mpi_rows is longer",
    ),
    (lambda v: replace(BYE, intervals=m.Intervals(mpi_rows=bytes(v))), 4, 3, "incomplete row"),
    (lambda v: replace(BYE, intervals=m.Intervals(threshold_ns=v)), 0, -1, "threshold_ns"),
    (lambda v: with_buckets(**columns_of(v, m.BUCKET_BYTES)), 2, 1.5, "Buckets has columns"),
    (
        lambda v: replace(BYE, collectives=replace(COLLECTIVES, trips=bytes(v))),
        m.TRIP_BYTES,
        m.TRIP_BYTES + 8,
        "Collectives.trips",
    ),
    (lambda v: m.Halt("x" * v), m.MAX_TEXT_BYTES, m.MAX_TEXT_BYTES + 1, "Halt.text is longer"),
    (lambda v: m.Halt("é" * v), m.MAX_TEXT_BYTES // 2, m.MAX_TEXT_BYTES // 2 + 1, "Halt.text is"),
    (lambda v: replace(ACK, instance="x" * v), m.MAX_NAME_BYTES, m.MAX_NAME_BYTES + 1, "instance"),
    (
        lambda v: replace(BYE, findings=(("code", "x" * v, ""),)),
        m.MAX_TEXT_BYTES,
        m.MAX_TEXT_BYTES + 1,
        r"Bye.findings\[\]\[\] is longer",
    ),
    (lambda v: replace(ACK, seq=v), -(1 << 63), -(1 << 63) - 1, "cannot be encoded"),
    (lambda v: replace(ACK, seq=v), (1 << 63) - 1, 1 << 63, "Ack.seq is out of range"),
]


@pytest.mark.parametrize(("build", "allowed", "refused", "reason"), LIMITS)
def test_the_last_allowed_value_is_read_and_the_next_is_refused(build, allowed, refused, reason):
    message = build(allowed)

    assert decode(encode(message)) == message
    with pytest.raises(WireError, match=reason):
        decode(encode(build(refused)))


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ([], "unknown kind None"),
        ([4, 0], "unknown kind 4"),
        ([True, "text"], "unknown kind True"),
        ([68], "Halt has 1 fields, not 0"),
        ([68, "text", "more"], "Halt has 1 fields, not 2"),
        ([68, b"text"], "Halt.text is bytes, not str"),
        ([66, "i", 1, 0, 1], "Ack.is_durable is int, not bool"),
        ([66, "i", True, 0, True], "Ack.seq is bool, not int"),
        ([5, 1, [[0, 0]], 1, "{}"], "RankEnd has 3 fields, not 2"),
        ([5, 1, [], 1, "{}", [["code", "text"]]], r"Bye.findings\[\] has 2 elements, not 3"),
        ([5, 1, [], 1, "{}", [["code", "text", 3]]], r"Bye.findings\[\]\[\] is int, not str"),
    ],
)
def test_a_malformed_message_is_refused_for_its_own_reason(content, reason):
    with pytest.raises(WireError, match=reason):
        decode(m.MAGIC + msgpack.packb(content))


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ([0], r"1 exceeds max_array_len\(0\)"),
        ({"a": 0}, r"1 exceeds max_map_len\(0\)"),
        (msgpack.ExtType(1, b"x"), r"\d exceeds max_ext_len\(0\)"),
    ],
)
def test_nothing_is_built_that_the_protocol_does_not_expect(value, reason):
    """A list in the place of a number or a text is refused by its header."""
    rank_end = [value, 0, 0]
    for content in ([value], [68, value], [66, "i", value, 0, True], [5, 1, [rank_end], 1, ""]):
        with pytest.raises(WireError, match=reason):
            decode(m.MAGIC + msgpack.packb(content))


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        (b"", "does not begin with the magic"),
        (m.MAGIC[:3], "does not begin with the magic"),
        (m.MAGIC, "is not a message"),
        (encode(m.Halt("a")) + b"\x00", "bytes after its message"),
        (m.MAGIC + bytes(m.MAX_FRAME_BYTES), "a frame has 8388612 bytes; the limit is 8388608"),
    ],
)
def test_a_frame_that_is_no_message_is_refused_for_its_own_reason(frame, reason):
    with pytest.raises(WireError, match=reason):
        decode(frame)


def test_a_frame_may_be_as_long_as_the_limit():
    def totals(size):
        return m.Totals(1, 1, (m.Group(bytes(4), bytes(4), bytes(8), (0,), (bytes(size),)),))

    overhead = len(encode(totals(m.MAX_FRAME_BYTES // 2))) - m.MAX_FRAME_BYTES // 2
    frame = encode(totals(m.MAX_FRAME_BYTES - overhead))

    assert len(frame) == m.MAX_FRAME_BYTES
    with pytest.raises(WireError, match="Group has a matrix"):  # it is read, and not too long
        decode(frame)
    with pytest.raises(WireError, match=r"Totals has 8388609 bytes, more than .* split it"):
        encode(totals(m.MAX_FRAME_BYTES - overhead + 1))


@given(hellos())
def test_a_field_with_a_default_may_be_left_out_and_none_else(hello):
    content = msgpack.unpackb(encode(hello)[len(m.MAGIC) :])

    assert decode(m.MAGIC + msgpack.packb(content[:-1])) == replace(hello, is_relay=False)
    with pytest.raises(WireError, match="Hello has 11 fields, not 9"):
        decode(m.MAGIC + msgpack.packb(content[:-2]))


@given(sketches(), st.sampled_from(list(m.BUCKET_BYTES)))
def test_a_bucket_more_in_one_array_alone_is_refused(sketch, name):
    for i, metric in enumerate(sketch.metrics):
        longer = replace(metric, **{name: getattr(metric, name) + bytes(m.BUCKET_BYTES[name])})
        metrics = (*sketch.metrics[:i], longer, *sketch.metrics[i + 1 :])
        with pytest.raises(WireError, match="Buckets has columns of different lengths"):
            decode(encode(replace(sketch, metrics=metrics)))


@given(
    st.lists(st.tuples(st.integers(0, 9), st.text(max_size=3), st.text(max_size=3)), max_size=5),
    st.data(),
)
def test_dictionaries_with_one_other_field_have_another_digest(rows, data):
    def digest(entries):
        value = EMPTY_DIGEST
        for parent, name, file in entries:
            value = extend_digest(value, parent, name, file, 7)
        return value

    extra = data.draw(st.tuples(st.integers(0, 9), st.text(max_size=3), st.text(max_size=3)))
    others = [[*rows, extra], [extra, *rows], rows[1:], rows[::-1]]

    for other in others:
        assert (digest(other) == digest(rows)) == (other == rows)
    assert len(digest(rows)) == m.DIGEST_BYTES


def size_of(totals):
    """Bytes that `split_totals` counts: all arrays, and a header for each group."""
    total = 0
    for group in totals.groups:
        arrays = [group.ranks, group.rows, group.tick_s, *group.matrices]
        total += sum(map(len, arrays)) + GROUP_BYTES
    return total


@given(st.lists(groups(), max_size=4), st.integers(0, 600))
def test_messages_are_as_few_as_the_order_of_the_ranks_allows(many, max_bytes):
    """No two neighbours would fit into one, and only a single rank may exceed the limit."""
    totals = m.Totals(7, 3, tuple(many))

    sent = split_totals(totals, max_bytes)

    assert [part.seq for part in sent] == list(range(7, 7 + len(sent)))
    assert {part.time_ns for part in sent} == {3}
    if size_of(totals) <= max_bytes:
        assert sent == [totals]
        return
    ranks_of = [{group.ranks for group in part.groups} for part in sent]
    assert all(
        len(ranks) == 1 or size_of(part) <= max_bytes
        for ranks, part in zip(ranks_of, sent, strict=True)
        if part.groups
    )
    for part, following in itertools.pairwise(sent):
        first_rank = [g for g in following.groups if g.ranks == following.groups[0].ranks]
        together = replace(part, groups=(*part.groups, *first_rank))
        assert size_of(together) > max_bytes


@given(st.lists(groups(), max_size=4))
def test_totals_as_large_as_the_limit_stay_as_they_are(many):
    totals = m.Totals(7, 3, tuple(many))

    assert split_totals(totals, size_of(totals)) == [totals]


def test_every_message_may_be_filled_to_the_last_byte():
    ranks = [m.Group(bytes([rank, 0, 0, 0]), bytes(4), bytes(8), (), ()) for rank in range(6)]
    totals = m.Totals(7, 3, tuple(ranks))

    sent = split_totals(totals, size_of(totals) // 3)

    assert [len(part.groups) for part in sent] == [2, 2, 2]
