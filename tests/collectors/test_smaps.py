"""Memory of another process, from files like those below /proc."""

import os

import pytest

from insitu.collectors import smaps

STATUS = "Name:\tapp\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\nThreads:\t1\n"
ROLLUP = """00400000-7fff [rollup]
Rss:             1024 kB
Pss:              512 kB
Pss_Anon:         100 kB
Shared_Clean:     300 kB
Shared_Dirty:      20 kB
Private_Clean:      4 kB
Private_Dirty:    700 kB
Swap:               8 kB
SwapPss:            3 kB
"""


@pytest.fixture
def root(tmp_path):
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "status").write_text(STATUS)
    (tmp_path / "7" / "smaps_rollup").write_text(ROLLUP)
    return tmp_path


def test_resident_and_proportional_memory_are_read_in_bytes(root):
    memory = smaps.Memory()

    assert smaps.probe(memory, 7, now_s=1.0, root=str(root))

    assert (memory.rss, memory.rss_peak, memory.pss) == (1024 << 10, 2048 << 10, 512 << 10)


def test_private_shared_and_swapped_memory_are_read_with_pss(root):
    memory = smaps.Memory()

    smaps.probe(memory, 7, now_s=1.0, root=str(root))

    pages = (memory.private, memory.shared, memory.swap)
    assert pages == (704 << 10, 320 << 10, 8 << 10)


def test_reading_pss_takes_at_most_a_share_of_the_time(root):
    memory = smaps.Memory(pss_took_s=0.03, since_s=5.0)

    early = smaps.probe(memory, 7, now_s=9.0, root=str(root))
    before = memory.pss
    late = smaps.probe(memory, 7, now_s=11.0, root=str(root))

    assert (early, before, late, memory.pss) == (False, None, True, 512 << 10)
    assert memory.pss_took_s > 0.03


def test_the_end_of_a_phase_may_cost_more(root):
    memory = smaps.Memory(pss_took_s=0.15, since_s=5.0)

    beat = smaps.probe(memory, 7, now_s=9.0, root=str(root))
    mark = smaps.probe(memory, 7, now_s=9.0, has_phase_ended=True, root=str(root))

    assert (beat, mark) == (False, True)


def test_what_this_machine_cannot_measure_is_absent_and_not_zero(root):
    (root / "7" / "smaps_rollup").unlink()
    memory = smaps.Memory()

    assert not smaps.probe(memory, 7, now_s=1.0, root=str(root))

    assert memory.pss is None
    assert memory.pss_took_s == float("inf")


def test_a_process_that_has_ended_is_no_error(root):
    assert not smaps.probe(smaps.Memory(), 8, now_s=1.0, root=str(root))


def test_a_process_is_distinguished_from_a_later_one_with_its_id():
    with open("/proc/self/stat", encoding="ascii") as file:
        started = int(file.read().rpartition(")")[2].split()[19])

    assert smaps.is_alive(os.getpid(), started)
    assert not smaps.is_alive(os.getpid(), started + 1)
    assert not smaps.is_alive(2**22 + 1, started)


def test_each_value_that_a_kernel_does_not_have_is_left_as_it_is(root):
    (root / "7" / "status").write_text("Name:\tapp\nThreads:\t1\n")
    (root / "7" / "smaps_rollup").write_text("Pss:  512 kB\nPrivate_Dirty: 5 kB\nRss: 9 MB\n")
    memory = smaps.Memory(rss=3, rss_peak=4, swap=5)

    assert smaps.probe(memory, 7, now_s=1.0, root=str(root))

    assert (memory.rss, memory.rss_peak, memory.pss) == (3, 4, 512 << 10)
    assert (memory.private, memory.shared, memory.swap) == (5 << 10, 0, None)


def test_a_rollup_without_pss_changes_nothing(root):
    (root / "7" / "smaps_rollup").write_text("Private_Clean: 5 kB\nPss:\nPss: x kB\n")
    memory = smaps.Memory(pss=1, private=2, shared=3, swap=4)

    smaps.probe(memory, 7, now_s=1.0, root=str(root))

    assert (memory.pss, memory.private, memory.shared, memory.swap) == (1, 2, 3, 4)


@pytest.mark.parametrize(("took_s", "is_read"), [(0.02 + 4 / 500, True), (0.0281, False)])
def test_the_share_of_the_time_is_that_since_the_first_reading(root, took_s, is_read):
    memory = smaps.Memory(pss_took_s=took_s, since_s=5.0)

    assert smaps.probe(memory, 7, now_s=9.0, root=str(root)) == is_read
    assert memory.since_s == 5.0


def stat_line(state, started, n_fields=52):
    fields = [state, *map(str, range(4, n_fields + 1))]
    if n_fields >= 22:
        fields[19] = str(started)
    return f"7 (a) name (b) {' '.join(fields)}\n"


@pytest.mark.parametrize(
    ("line", "is_alive"),
    [
        (stat_line("R", 900), True),
        (stat_line("S", 900, n_fields=22), True),
        (stat_line("Z", 900), False),
        (stat_line("X", 900), False),
        (stat_line("R", 901), False),
        (stat_line("R", 900, n_fields=21), False),
        ("", False),
    ],
    ids=["runs", "short", "zombie", "dead", "another", "cut", "empty"],
)
def test_a_process_that_has_ended_or_is_another_one_is_not_alive(tmp_path, line, is_alive):
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "stat").write_text(line)

    assert smaps.is_alive(7, 900, root=str(tmp_path)) == is_alive
