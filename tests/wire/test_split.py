"""Totals larger than a frame travel in parts; each rank stays whole in one of them."""

import json
import struct

from hypothesis import given
from hypothesis import strategies as st

from insitu.wire.codec import decode, encode
from insitu.wire.messages import Group, Totals
from insitu.wire.split import MAX_TOTALS_BYTES, shorten_json, split_totals
from tests.support.parameters import examples
from tests.wire.strategies import groups


def lines(messages):
    """For each rank, its rows with their values in each column, in the order of the groups."""
    found = {}
    for message in messages:
        for group in message.groups:
            width = 2 * len(group.rows)
            for i in range(len(group.ranks) // 4):
                values = [matrix[width * i : width * (i + 1)] for matrix in group.matrices]
                line = (group.rows, group.tick_s[8 * i : 8 * i + 8], group.columns, values)
                found.setdefault(group.ranks[4 * i : 4 * i + 4], []).append(line)
    return found


def test_what_fits_into_a_frame_is_not_parted():
    totals = Totals(3, 1, (Group(bytes(4), bytes(4), bytes(8), (0,), (bytes(8),)),))

    assert split_totals(totals) == [totals]


def test_each_part_fits_into_a_frame_and_says_what_was_said():
    ranks, rows = 40, 20_000
    matrix = b"".join(struct.pack("<Q", rank) * rows for rank in range(ranks))
    group = Group(
        struct.pack(f"<{ranks}i", *range(ranks)),
        struct.pack(f"<{rows}I", *range(rows)),
        bytes(8 * ranks),
        (0, 1),
        (matrix, matrix),
    )

    sent = split_totals(Totals(5, 1, (group,)))

    assert [decode(encode(part)) for part in sent] == sent
    assert [part.seq for part in sent] == list(range(5, 5 + len(sent)))
    assert len(sent) > 2 * ranks * rows * 8 // MAX_TOTALS_BYTES
    assert lines(sent) == lines([Totals(5, 1, (group,))])


@examples(200)
@given(st.lists(groups(), max_size=4), st.integers(0, 200))
def test_chunks_of_any_size_hold_each_rank_once(many, max_bytes):
    totals = Totals(1, 1, tuple(many))

    sent = split_totals(totals, max_bytes)

    assert lines(sent) == lines([totals])
    for rank in lines([totals]):
        assert sum(rank in lines([part]) for part in sent) == 1


@given(
    st.dictionaries(st.sampled_from("abc"), st.lists(st.integers(0, 10**6), max_size=40)),
    st.integers(50, 400),
)
def test_an_object_that_is_too_long_loses_the_last_elements_of_its_longest_list(lists, max_bytes):
    values = {"version": 1, **lists}

    text = shorten_json(values, max_bytes)

    shortened = json.loads(text)
    assert len(text) <= max_bytes
    assert shortened.keys() == values.keys()
    assert all(shortened[key] == kept[: len(shortened[key])] for key, kept in lists.items())
    if len(json.dumps(values)) <= max_bytes:
        assert shortened == values


def test_an_object_loses_no_element_that_has_room():
    values = {"kept": [1, 2, 3], "delays": [10**6 + i for i in range(100)]}
    whole = len(json.dumps(values))

    for excess, n_left in ((0, 100), (1, 99), (9, 99), (10, 98), (18, 98), (19, 97)):
        shortened = json.loads(shorten_json(values, whole - excess))
        assert (shortened["kept"], len(shortened["delays"])) == ([1, 2, 3], n_left)
