"""The codec reads back what it wrote, refuses what is malformed, reads old bytes for ever."""

import struct
from pathlib import Path

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from insitu.errors import WireError
from insitu.wire import messages as m
from insitu.wire.codec import decode, encode
from insitu.wire.digest import EMPTY_DIGEST, extend_digest
from tests.support.parameters import examples
from tests.wire.strategies import MESSAGES

GOLDEN = Path(__file__).parent / "golden"
EXAMPLES = {
    "hello": m.Hello(
        1,
        "0123456789abcdef" * 2,
        "ab" * 32,
        "node7",
        1_795_267_920_000_000_000,
        4,
        (0, 1),
        1_795_267_919_000_000_000,
        '{"parameters": {"n": 256}}',
        (m.Column("visits", "1", "total", "u8"), m.Column("time", "s", "total", "u8")),
    ),
    "paths": m.Paths(
        0,
        struct.pack("<2I", 0, 0),
        ("main", "solve"),
        ("stencil.py", "stencil.py"),
        struct.pack("<2I", 1, 20),
    ),
    "digest": m.Digest(2, bytes(range(16))),
    "totals": m.Totals(
        3,
        1_795_267_921_000_000_000,
        (
            m.Group(
                struct.pack("<2i", 0, 1),
                struct.pack("<2I", 0, 1),
                struct.pack("<2d", 1e-9, 1e-9),
                (0, 1),
                (struct.pack("<4Q", 1, 10, 1, 10), struct.pack("<4Q", 5, 4, 3, 2)),
            ),
        ),
    ),
    "sketches": m.Sketches(
        4,
        1_795_267_921_000_000_000,
        3,
        1,
        (
            m.Buckets(
                1,
                struct.pack("<2I", 0, 1),
                struct.pack("<2i", 20_000, -20_001),
                struct.pack("<2I", 2, 1),
                struct.pack("<2d", 2.0, -1.1),
                struct.pack("<2d", 1.0, -1.1),
                struct.pack("<2d", 1.0, -1.1),
            ),
        ),
    ),
    "bye": m.Bye(
        3,
        (m.RankEnd(0, 0, True), m.RankEnd(1, -9, False)),
        1_795_267_922_000_000_000,
        '{"cpu_s": 0.1}',
        (("rank-lost", "rank 1 was killed", "1"),),
    ),
    "bye_collectives": m.Bye(
        3,
        (m.RankEnd(0, 0, True),),
        1_795_267_922_000_000_000,
        "{}",
        collectives=m.Collectives(
            keys=struct.pack("<2Q", 1 << 63, 1 << 63),
            ranks=struct.pack("<2i", 0, 1),
            members=struct.pack("<2I", 1, 0),
            sizes=struct.pack("<2I", 2, 2),
            rows=struct.pack("<2I", 3, 3),
            begins=struct.pack("<2Q", 0, 5),
            ends=struct.pack("<2Q", 7, 8),
            needs=struct.pack("<2i", -1, -1),
            is_steady=True,
            listener="00ff00ff00ff00ff",
            trips=struct.pack("<4q", -3, 100, 101, 4),
        ),
    ),
    "bye_started": m.Bye(
        3,
        (m.RankEnd(0, 0, True),),
        1_795_267_922_000_000_000,
        "{}",
        collectives=m.Collectives(
            keys=struct.pack("<Q", 1 << 63),
            ranks=struct.pack("<i", 0),
            members=struct.pack("<I", 1),
            sizes=struct.pack("<I", 2),
            rows=struct.pack("<I", 3),
            begins=struct.pack("<Q", 5),
            ends=struct.pack("<Q", 7),
            needs=struct.pack("<i", -1),
            arrivals=struct.pack("<Q", 4),
            weights=struct.pack("<f", 2.5),
        ),
    ),
    "bye_messages": m.Bye(
        3,
        (m.RankEnd(0, 0, True),),
        1_795_267_922_000_000_000,
        "{}",
        messages=m.PointToPoint(
            keys=struct.pack("<Q", 1 << 63),
            ranks=struct.pack("<i", 0),
            rows=struct.pack("<I", 3),
            calls=struct.pack("<I", 7),
            counts=struct.pack("<I", 2),
            numbers=struct.pack("<I", 5),
            sizes=struct.pack("<I", 4096),
            flags=struct.pack("<I", m.WHOLE_SAMPLE | 1),
            levels=struct.pack("<I", 1),
            posted=struct.pack("<Q", 4),
            begins=struct.pack("<Q", 5),
            ends=struct.pack("<Q", 7),
        ),
    ),
    "bye_intervals": m.Bye(
        3,
        (m.RankEnd(0, 0, True),),
        1_795_267_922_000_000_000,
        "{}",
        intervals=m.Intervals(
            keys=struct.pack("<Q", 1 << 63),
            previous_keys=struct.pack("<Q", 5),
            starts=struct.pack("<Q", 4),
            begins=struct.pack("<Q", 5),
            ends=struct.pack("<Q", 7),
            ranks=struct.pack("<I", 0),
            members=struct.pack("<I", 1),
            sizes=struct.pack("<I", 2),
            rows=struct.pack("<I", 3),
            needs=struct.pack("<i", -1),
            counts=struct.pack("<I", 2),
            profile_rows=struct.pack("<2I", 1, 2),
            profile_seconds=struct.pack("<2f", 0.5, 0.25),
            mpi_rows=struct.pack("<I", 3),
            threshold_ns=20_000,
            is_sampled=True,
        ),
    ),
    "ack_times": m.Ack("00ff00ff00ff00ff", 3, 2, True, 100, 101),
    "welcome": m.Welcome("00ff00ff00ff00ff", 2, 3, 1000),
    "ack": m.Ack("00ff00ff00ff00ff", 3, 2, True),
    "reject": m.Reject(m.NO_SESSION, "Hello first"),
    "halt": m.Halt("the campaign is complete"),
}


def refuses(frame):
    try:
        decode(frame)
    except WireError:
        return True
    return False


@examples(300)
@given(MESSAGES)
def test_what_is_written_is_read_back(message):
    assert decode(encode(message)) == message


@examples(500)
@given(st.binary(max_size=200))
def test_random_bytes_are_refused_by_a_wire_error(data):
    for frame in (data, m.MAGIC + data, m.MAGIC + b"\x96\x03" + data):
        try:
            decode(frame)
        except WireError:
            continue


@examples(500)
@given(MESSAGES, st.data())
def test_mutated_messages_are_refused_by_a_wire_error_or_are_another_message(message, data):
    frame = bytearray(encode(message))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(frame) - 1))
        frame[at] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(frame)))

    for mutant in (bytes(frame), bytes(frame[:cut])):
        try:
            other = decode(mutant)
        except WireError:
            continue
        assert decode(encode(other)) == other


@examples(200)
@given(MESSAGES)
def test_every_truncated_message_is_refused(message):
    frame = encode(message)

    assert all(refuses(frame[:length]) for length in range(len(frame)))


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("v*/*.bin")), ids=str)
def test_the_bytes_of_every_version_are_read_for_ever(path):
    assert decode(path.read_bytes()) == EXAMPLES[path.stem]


def test_a_dictionary_has_the_digest_that_it_had_in_version_2():
    digest = extend_digest(
        extend_digest(EMPTY_DIGEST, 0, "main", "heat.py", 1), 0, "löse", "heat.py", 20
    )

    assert digest.hex() == "e558d9cc8ecc3402ebb304be6c20d3b4"


def test_every_kind_of_message_has_golden_bytes():
    assert {type(message) for message in EXAMPLES.values()} == set(m.KINDS.values())
    assert {path.stem for path in GOLDEN.glob("v*/*.bin")} == EXAMPLES.keys()


def test_a_field_with_a_default_may_be_absent():
    bye = [5, 3, [[0, 0, True]], 7, "{}"]

    assert decode(m.MAGIC + msgpack.packb(bye)) == m.Bye(3, (m.RankEnd(0, 0, True),), 7, "{}")


@pytest.mark.parametrize(
    "content",
    [
        [],
        [4, 0],
        [True, "text"],
        ["68", "text"],
        [68],
        [68, "text", "more"],
        [68, b"text"],
        [68, ["text"]],
        [68, None],
        [66, "i", 1.0, 0, True],
        [66, "i", True, 0, True],
        [66, "i", 1, 0, 1],
        [66, "i", 1 << 63, 0, True],
        [65, "x" * (m.MAX_NAME_BYTES + 1), 0, 0, 1],
        [68, "x" * (m.MAX_TEXT_BYTES + 1)],
        [68, {}],
        [68, msgpack.ExtType(1, b"")],
        [68, msgpack.Timestamp(1)],
        [2, 0, b"", ["one"], ["file"], b""],
        [2, m.MAX_ROWS, bytes(4), ["one"], ["file"], bytes(4)],
        [2, -1, b"", [], [], b""],
        [6, 0, bytes(16)],
        [6, 1, bytes(15)],
        [3, 1, 1, [[bytes(4), bytes(4), bytes(8), [0], [bytes(16)]]]],
        [3, 1, 1, [[bytes(4), bytes(4), bytes(4), [0], [bytes(8)]]]],
        [3, 1, 1, [[bytes(4), bytes(4), bytes(8), [0, 0], [bytes(8), bytes(8)]]]],
        [3, 1, 1, [[bytes(4), bytes(4), bytes(8), [m.MAX_METRICS], [bytes(8)]]]],
        [7, 1, 1, 1, 2, []],
        [7, 1, 1, -1, -1, []],
        [7, 1, 1, m.MAX_RANKS + 1, 0, []],
        [7, 1, 1, 1, 0, [[m.MAX_METRICS, *(b"",) * 6]]],
        [7, 1, 1, 1, 0, [[0, *(b"",) * 6], [0, *(b"",) * 6]]],
        [7, 1, 1, 1, 0, [[0, bytes(4), bytes(4), bytes(4), bytes(8), bytes(8), bytes(4)]]],
        [7, 1, 1, 1, 0, [[0, bytes(5), bytes(4), bytes(4), bytes(8), bytes(8), bytes(8)]]],
        [5, 1, [[0, 0]], 1, "{}"],
        [5, 1, [], 1, "{}", [["code", "text"]]],
        [5, 1, [], 1, "{}", [], [bytes(8), bytes(4)]],
        [5, 1, [], 1, "{}", [], [b"", b"", b"", b"", b"", b"", b"", b"", 1]],
        [5, 1, [], 1, "{}", [], [b"", b"", b"", b"", b"", b"", b"", b"", True, "", bytes(31)]],
        [1, 1, "g" * 32, "", "n", 1, 1, [], 1, "{}", []],
        [1, 1, "0" * 32, "", "n", 1, 0, [], 1, "{}", []],
        [1, 1, "0" * 32, "", "n", 1, 2, [2], 1, "{}", []],
        [1, 1, "0" * 32, "", "n", 1, 1, [], 1, "{}", [["t", "s", "total", "u4"]]],
        [1, 1, "0" * 32, "", "n", 1, 1, [], 1, "{}", [["t", "s", "sum", "u8"]]],
        [1, 1, "0" * 32, "", "n", 1, 1, [], 1, "{}", [], 1],
        [1, 1, "0" * 32, "", "n", 1, 1, [], 1, "{}", [], True, 0],
    ],
)
def test_what_breaks_the_protocol_is_refused(content):
    assert refuses(m.MAGIC + msgpack.packb(content))


def test_bytes_behind_a_message_are_refused():
    assert refuses(encode(EXAMPLES["halt"]) + b"\x00")


def test_another_magic_is_refused():
    assert refuses(b"INS2" + encode(EXAMPLES["halt"])[4:])


def test_a_frame_larger_than_the_limit_is_refused_on_both_sides():
    matrix = bytes(m.MAX_FRAME_BYTES - 8)
    group = m.Group(bytes(4), bytes(len(matrix) // 2), bytes(8), (0,), (matrix,))

    assert refuses(m.MAGIC + bytes(m.MAX_FRAME_BYTES))
    with pytest.raises(WireError, match="split it"):
        encode(m.Totals(1, 1, (group,)))


def test_headers_that_claim_nested_arrays_build_nothing():
    bomb = m.MAGIC + b"\x92\x44" + b"\xdd\x00\xff\xff\xff" * 100_000

    assert refuses(bomb)


def test_text_that_is_no_unicode_cannot_be_written():
    with pytest.raises(WireError, match="Halt cannot be encoded"):
        encode(m.Halt("\udcff"))


def test_what_is_no_message_cannot_be_written():
    with pytest.raises(WireError, match="RankEnd is not a message"):
        encode(m.RankEnd(0, 0, True))
