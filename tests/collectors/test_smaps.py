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
