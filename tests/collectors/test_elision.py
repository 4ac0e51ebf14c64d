"""Functions that were throttled: their values count for their callers, and a finding names them."""

from array import array

from hypothesis import given, settings
from hypothesis import strategies as st

from insitu.collectors.elision import (
    MAX_NAME_LENGTH,
    MAX_NAMES,
    OWN,
    PEAKS,
    U8_MASK,
    describe_throttled,
    fold_into_callers,
    function_of,
    is_elided,
)
from insitu.collectors.table import COMPILED, LIBRARY, MPI, PYTHON, Row
from insitu.collectors.table_header import EMPTY_HEADER
from insitu.wire import codec
from insitu.wire.limits import MAX_NAME_BYTES
from insitu.wire.messages import Bye


def test_long_template_names_leave_a_finding_that_fits_into_a_message():
    names = [f"std::vector<{'a' * MAX_NAME_BYTES}>::{i}" for i in range(MAX_NAMES)]
    throttled = {(name, "", 0): 1000 - i for i, name in enumerate(names)}

    text = describe_throttled([EMPTY_HEADER._replace(throttled=12, budget=0.02)], throttled)

    assert len(text) < MAX_NAMES * (MAX_NAME_LENGTH + 40) + 300
    assert "std::vector<aaa" in text and "… (1000 visits)" in text and "4 more" in text


def test_functions_without_a_name_of_their_own_are_counted():
    text = describe_throttled([EMPTY_HEADER._replace(throttled=16, budget=0.02)], {})

    assert "from then on: 16 functions, mostly inside libraries;" in text


def test_a_long_finding_does_not_cost_the_run():
    bye = Bye(1, (), 2, "{}", (("throttled", "x" * 10_000, ""),))

    assert codec.decode(codec.encode(bye)) == bye


@st.composite
def call_trees(draw) -> list[Row]:
    """Rows of which each comes after its parent; few names, so that functions occur repeatedly."""
    rows = [Row(0, PYTHON, "main", "main.py", 1)]
    for i in range(draw(st.integers(1, 12))):
        parent = draw(st.integers(0, i))
        kind = draw(st.sampled_from([PYTHON, COMPILED, LIBRARY, MPI]))
        rows.append(Row(parent, kind, draw(st.sampled_from("abc")), "main.py", 2))
    return rows


@settings(max_examples=30)
@given(call_trees(), st.sets(st.sampled_from("abc")), st.integers(0, 2**32))
def test_folding_conserves_sums_and_peaks_and_leaves_nothing_of_throttled_functions(
    rows, names, seed
):
    throttled = {(name, "main.py", 2) for name in names}
    numbers = [(seed * (7 * i + 3)) % 2**64 for i in range(len(rows))]
    before = {name: array("Q", numbers) for name in (*OWN, *PEAKS, "bytes_sent")}
    after = {name: array("Q", values) for name, values in before.items()}

    fold_into_callers(after, rows, throttled)

    left = [not is_elided(row, throttled) or i == 0 for i, row in enumerate(rows)]
    nearest = list(range(len(rows)))  # the first caller that is left
    for i, row in enumerate(rows):
        nearest[i] = i if left[i] else nearest[row.parent]
    remaining = [number if stays else 0 for number, stays in zip(numbers, left, strict=True)]
    for name in OWN:
        assert list(after[name]) == remaining
    for i, stays in enumerate(left):
        folded = [number for number, at in zip(numbers, nearest, strict=True) if at == i]
        assert after["bytes_sent"][i] == (sum(folded) & U8_MASK if stays else 0)
        assert after["heap_peak"][i] == (max(folded) if stays else 0)
    again = {name: array("Q", values) for name, values in after.items()}
    fold_into_callers(again, rows, throttled)
    assert again == after


def test_negative_values_are_words_that_wrap_around():
    rows = [Row(0, PYTHON, "main", "m.py", 1), Row(0, PYTHON, "a", "m.py", 2)]
    totals = {"heap_growth": array("Q", [(-5) & U8_MASK, 8])}

    fold_into_callers(totals, rows, {("a", "m.py", 2)})

    assert list(totals["heap_growth"]) == [3, 0]


def test_only_timed_functions_of_this_name_file_and_line_are_left_out():
    row = Row(0, COMPILED, "a", "m.c", 2)

    assert function_of(row) == ("a", "m.c", 2)
    assert is_elided(row, {("a", "m.c", 2), ("b", "m.c", 2)})
    for other in (("b", "m.c", 2), ("a", "n.c", 2), ("a", "m.c", 3)):
        assert not is_elided(row, {other})
    assert not is_elided(Row(0, MPI, "a", "m.c", 2), {("a", "m.c", 2)})
    assert not is_elided(row, set())


def test_the_most_visited_functions_are_named_first_with_the_largest_budget_of_the_node():
    heads = [
        EMPTY_HEADER._replace(throttled=2, budget=0.05),
        EMPTY_HEADER._replace(throttled=3, budget=0.02),
    ]

    text = describe_throttled(heads, {("a", "", 0): 5, ("b", "", 0): 70})

    assert "more than 5 % of the time" in text
    assert "from then on: b (70 visits), a (5 visits), 1 more, mostly inside libraries; use" in text
    alone = describe_throttled(heads[:1], {("a", "", 0): 5, ("b", "", 0): 70})
    assert "from then on: b (70 visits), a (5 visits); use --skip" in alone
