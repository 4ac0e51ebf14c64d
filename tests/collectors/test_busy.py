"""How long a GPU was busy: the union of intervals, whatever their order."""

import ctypes
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

SOURCE = Path(__file__).resolve().parents[2] / "collectors" / "native" / "busy.c"
GAPS = 65536


class Busy(ctypes.Structure):
    """As busy.h declares it."""

    _fields_ = (
        ("busy", ctypes.c_uint64),
        ("first", ctypes.c_uint64),
        ("until", ctypes.c_uint64),
        ("gaps", ctypes.c_void_p),
        ("used", ctypes.c_uint32),
    )


@pytest.fixture(scope="module")
def add(tmp_path_factory):
    """The function of busy.c."""
    compiler = shutil.which("cc") or pytest.skip("no C compiler")
    library = tmp_path_factory.mktemp("busy") / "busy.so"
    words = [compiler, "-std=c11", "-O1", "-shared", "-fPIC", "-o", library, SOURCE]
    subprocess.run(words, check=True)
    function = ctypes.CDLL(str(library)).insitu_busy_add
    function.argtypes = [ctypes.POINTER(Busy), ctypes.c_uint64, ctypes.c_uint64]
    function.restype = None
    return function


def measure(add, intervals):
    room = ctypes.create_string_buffer(16 * GAPS)
    busy = Busy(gaps=ctypes.cast(room, ctypes.c_void_p).value)
    for start, end in intervals:
        add(ctypes.byref(busy), start, end)
    return busy


INTERVALS = st.lists(
    st.tuples(st.integers(1, 200), st.integers(0, 60)).map(lambda pair: (pair[0], sum(pair))),
    max_size=60,
)


@given(INTERVALS)
def test_the_union_of_intervals_in_any_order(add, intervals):
    busy = measure(add, intervals)

    covered = {at for start, end in intervals for at in range(start, end)}
    assert busy.busy == len(covered)
    if covered:
        assert (busy.first, busy.until) == (min(covered), max(covered) + 1)


def test_beyond_the_room_for_gaps_the_oldest_are_forgotten(add):
    alternate = [(2 * i + 1, 2 * i + 2) for i in range(GAPS + 100)]

    late = measure(add, [*alternate, (2, 3), (2 * GAPS + 100, 2 * GAPS + 101)])

    assert late.busy == len(alternate) + 1  # not the first gap, but a recent one
    split = measure(add, [*[(4 * i + 1, 4 * i + 2) for i in range(GAPS + 1)], (7, 8)])
    assert split.busy == GAPS + 2  # a gap in two, where the oldest makes room
