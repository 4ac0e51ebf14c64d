"""The program's own marks, and the main loop that is found without them."""

import json
import statistics
import sys

import pytest

import insitu
from insitu.collectors import node
from insitu.collectors.iterations import MIN_ITERATIONS
from insitu.collectors.table import PHASE
from tests.collectors.measured import counts_every_call, measure, paths, visits

MARKED = """
    import asyncio, threading
    import insitu

    def leaf(): pass

    @insitu.region("assemble")
    def assemble():
        leaf()

    def solve(n):
        with insitu.region("solve"):
            leaf()
            if n: solve(n - 1)

    def failing():
        with insitu.region("outer"):
            with insitu.region("inner"):
                raise ValueError

    async def waiting():
        with insitu.region("awaited"):
            leaf()
            await asyncio.sleep(0)
        leaf()

    def worker():
        with insitu.region("work"): leaf()

    def main():
        for step in range(3):
            insitu.phase(step)
            assemble()
            solve(2)
            try: failing()
            except ValueError: leaf()
            with insitu.region("same"):
                with insitu.region("same"): leaf()
        asyncio.run(waiting())
        thread = threading.Thread(target=worker)
        thread.start()
        thread.join()

    main()
    print("ended")
"""


@counts_every_call
@pytest.mark.native
def test_regions_are_rows_of_the_call_path(tmp_path, python, shared):
    native = visits(measure(tmp_path, python, MARKED, shared))
    twin = visits(measure(tmp_path, python, MARKED, ""))

    assert native == twin
    assert native["program.py->main->assemble->assemble->leaf"] == 3
    assert native["program.py->main->solve->solve->leaf"] == 9
    assert native["program.py->main->failing->outer->inner"] == 3
    assert native["program.py->main->same->leaf"] == 3
    assert native["program.py->(thread)->worker->work->leaf"] == 1
    assert not any("insitu" in path for path in native)


def test_marks_of_a_program_that_is_not_measured_do_nothing():
    import insitu

    @insitu.region("solve")
    def solve():
        return 3

    insitu.phase(1)
    with insitu.region("other"):
        assert solve() == 3


def test_a_region_without_a_name_is_refused_where_it_is_written():
    with pytest.raises(TypeError, match="a region needs a name"):

        @insitu.region
        def solve() -> None: ...


def test_an_exception_passes_through_a_region():
    import insitu

    with pytest.raises(KeyError), insitu.region("solve"):
        raise KeyError


LOOP = """
    import time

    def spin(seconds):
        end = time.perf_counter() + seconds
        while time.perf_counter() < end: pass

    def half(): spin(0.001)

    def step():
        half()
        half()

    def start():
        for _ in range(20): spin(0.0005)

    def main():
        start()
        for _ in range({steps}): {body}

    main()
    print("ended")
"""


@pytest.mark.native
@pytest.mark.parametrize("body", ["step()", "half(); half(); spin(0.0001)"])
def test_the_main_loop_is_found_and_its_iterations_are_timed(tmp_path, python, shared, body):
    table = measure(tmp_path, python, LOOP.format(steps=300, body=body), shared)

    here = node.Node(table.path.rpartition("/")[0])
    here.scan()
    (levels,) = [
        group for group in here.totals(1).groups if names(here, group)[0] == "iteration_time"
    ]

    (at,) = memoryview(levels.rows).cast("I").tolist()
    median_s, variation = (memoryview(matrix).cast("d")[0] for matrix in levels.matrices)
    assert here.paths[here.paths[at][0]][1] == "main"
    assert names(here, levels) == ["iteration_time", "iteration_variation"]
    in_main_s = times(table)["program.py->main"]  # half of the sample lasted at least the median
    assert 0.0009 < median_s <= in_main_s / (len(table.iteration_ticks()) // 2)
    assert variation > 0
    assert table.header.iterations >= MIN_ITERATIONS
    sample = json.loads(here.bye(1, {}).cost)["iterations"]
    assert sample["count"] == table.header.iterations + 1
    assert statistics.median(sample["times_s"]) == pytest.approx(median_s, rel=1e-4)


@pytest.mark.native
def test_phases_are_the_iterations_where_the_program_names_them(tmp_path, shared):
    steps = 100
    program = LOOP.format(steps=steps, body="insitu.phase(_); spin(0.00001 * _)").replace(
        "import time", "import time, insitu"
    )

    table = measure(tmp_path, sys.executable, program, shared)

    head = table.header
    assert (head.loop_row, head.iterations, head.marks) == (0, steps - 1, steps)
    times = table.iteration_ticks()
    assert len(times) == 64
    assert statistics.median(times[:32]) < statistics.median(times[32:])  # they are in order
    assert head.latest_mark.rstrip(b"\0") == b"99"


@pytest.mark.native
def test_a_phase_with_a_name_is_a_row_that_lasts_to_the_next_one(tmp_path, python, shared):
    program = """
        import time, insitu
        for step in range(4):
            insitu.phase("solve")
            time.sleep(0.02)
            insitu.phase(step)
            insitu.phase("write it")
        time.sleep(0.1)
        print("ended")
    """

    table = measure(tmp_path, python, program, shared)

    counted, seconds = visits(table), times(table)
    assert counted["program.py->(phase solve)"] == counted["program.py->(phase write it)"] == 4
    assert 0.08 <= seconds["program.py->(phase solve)"] <= seconds["program.py"] - 0.1
    assert 0.1 <= seconds["program.py->(phase write it)"] <= seconds["program.py"] - 0.08
    assert (table.header.iterations, table.header.marks) == (3, 12)


@pytest.mark.native
def test_more_phases_than_fit_into_the_table_are_reported(tmp_path, shared):
    program = "import insitu\nfor n in range(100): insitu.phase(f'phase {n}')\nprint('ended')"

    table = measure(tmp_path, sys.executable, program, shared)

    assert sum(row.kind == PHASE for row in table.rows) == len(table.phases()) == 64
    assert table.header.rows_refused == 36


def times(table):
    seconds = (ticks * table.tick_s() for ticks in table.totals(table.tick_s())["time"])
    return dict(zip(paths(table), seconds, strict=True))


def names(here, group):
    return [here.hello().columns[i].name for i in group.columns]


@pytest.mark.native
def test_the_finding_about_a_killed_rank_names_its_last_phase(tmp_path, shared):
    program = "import insitu, os\ninsitu.phase(7)\nprint('ended', flush=True)\nos._exit(0)"

    table = measure(tmp_path, sys.executable, program, shared)
    here = node.Node(table.path.rpartition("/")[0])
    here.scan()

    ((code, text, where),) = here.bye(1, {}).findings
    assert (code, where) == ("rank-lost", "rank 0")
    assert "phase 7" in text
