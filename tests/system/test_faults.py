"""What goes wrong around a run: the program always finishes and nothing measured is lost."""

import json
import os
import shutil
import signal
import sqlite3
import subprocess
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from insitu.analysis.board import MEASURING
from insitu.campaign.store import open_store
from insitu.collectors.priority import NICENESS
from insitu.entities import RunState
from insitu.workflows.boards import BoardClient
from tests.support.listeners import Relay, Server
from tests.support.parameters import plain_and_full
from tests.support.processes import find_files
from tests.system.conftest import WAIT_S, processes, until

pytestmark = pytest.mark.mpi

UNTIL = """
    import glob, sys, time
    from mpi4py import MPI

    def step():
        time.sleep(0.002)

    for _ in range(100):
        step()
    while not glob.glob(sys.argv[1]):
        time.sleep(0.02)
    MPI.COMM_WORLD.Barrier()
    if MPI.COMM_WORLD.rank == 0:
        print("done", flush=True)
"""
QUICK = "def work(): pass\nfor _ in range(5): work()\nprint('done')\n"


def is_measuring(client, ranks):
    """Whether the aggregator shows values of so many ranks."""
    board = client.newest(0.5)
    return board is not None and any(run.ranks == ((MEASURING, ranks),) for run in board.runs)


def live_tables(bench):
    return lambda: bool(bench.left_tables())


def agents(bench):
    return [pid for pid in processes("insitu.collectors.agent") if str(bench.tables) in _line(pid)]


def aggregators(bench):
    return [pid for pid in processes(str(bench.campaign)) if "serve" in _line(pid)]


def _line(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read().decode().replace("\0", " ")
    except OSError:
        return ""


@contextmanager
def tiny_disk(folder, kilobytes):
    """A file system that is full after so many kilobytes."""
    folder.mkdir(exist_ok=True)
    size = f"size={kilobytes}k"
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", size, "tmpfs", str(folder)], check=False)
    if made.returncode:
        pytest.skip("mounting a small file system needs root")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_killed_aggregator_costs_nothing(bench):
    script, killed = bench.script(UNTIL), bench.folder / "killed"
    process = bench.start(bench.command("-n", 2, "--beat", "0.2", script, killed))
    until(live_tables(bench))
    until(lambda: aggregators(bench))

    for pid in aggregators(bench):
        os.kill(pid, signal.SIGKILL)
    killed.touch()
    out, err = process.communicate(timeout=WAIT_S)

    assert (process.returncode, out) == (0, "done\n"), err
    assert "the aggregator is gone" in err
    (record,) = bench.records()
    assert record.state is RunState.COMPLETE
    assert bench.values("app.py->step", "visits") == [100, 100]
    assert bench.left_tables() == []


def test_agent_and_aggregator_give_way_to_the_ranks_and_a_killed_agent_costs_nothing(bench):
    script, killed = bench.script(UNTIL), bench.folder / "killed"
    process = bench.start(bench.command("-n", 2, "--beat", "0.2", script, killed))
    until(lambda: find_files(bench.tables, "welcomed"))
    helpers = [*agents(bench), *aggregators(bench)]
    niceness = [os.getpriority(os.PRIO_PROCESS, pid) for pid in helpers]
    sessions = [os.getsid(pid) for pid in helpers]

    for pid in agents(bench):
        os.kill(pid, signal.SIGKILL)
    killed.touch()
    out, err = process.communicate(timeout=WAIT_S)

    usual = os.getpriority(os.PRIO_PROCESS, 0)
    assert niceness == [min(usual + NICENESS, 19)] * 2
    assert len({*sessions, os.getsid(0)}) == 3
    assert (process.returncode, out) == (0, "done\n"), err
    (record,) = bench.records()
    assert record.state is RunState.COMPLETE
    assert bench.values("app.py->step", "visits") == [100, 100]


@pytest.mark.full
def test_a_relay_gives_way_to_the_ranks_beside_it(bench):
    open_store(str(bench.campaign), create=True).close()

    relay = Relay(bench.campaign, "a").wait()
    try:
        niceness = os.getpriority(os.PRIO_PROCESS, relay.process.pid)
    finally:
        relay.end()

    assert niceness == min(os.getpriority(os.PRIO_PROCESS, 0) + NICENESS, 19)


BOUND = """
    import os, sys, time
    rank = os.environ["OMPI_COMM_WORLD_RANK"]
    with open(sys.argv[1] + rank, "w") as file:
        print(*os.sched_getaffinity(0), file=file)
    while not os.path.exists(sys.argv[2]):
        time.sleep(0.02)
"""


@pytest.mark.full
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two processor cores")
def test_the_agent_may_use_all_cores_of_ranks_that_are_bound_to_one_each(bench):
    launcher = shutil.which("mpiexec.openmpi")
    if not launcher:
        pytest.skip("no mpiexec.openmpi, as Debian calls it: Open MPI binds ranks to cores")
    script, bound, ending = bench.script(BOUND), bench.folder / "bound", bench.folder / "ending"
    words = (launcher, "-n", 2, "--bind-to", "core", bench.python, script, bound, ending)

    process = bench.start(bench.command("--beat", "0.2", "--", *words))
    until(lambda: find_files(bench.tables, "welcomed"))
    cores = [os.sched_getaffinity(pid) for pid in agents(bench)]
    ending.touch()
    _, errors = process.communicate(timeout=WAIT_S)

    ranks = [{int(core) for core in Path(f"{bound}{rank}").read_text().split()} for rank in (0, 1)]
    assert process.returncode == 0, errors
    assert ranks[0].isdisjoint(ranks[1])
    assert cores == [os.sched_getaffinity(0)]


def test_a_run_that_was_stored_without_its_tables_is_completed_at_its_end(bench):
    """Another aggregator has given the killed agent up; the tables lie on this node."""
    server = Server(bench.campaign).wait()
    try:
        script, killed = bench.script(UNTIL), bench.folder / "killed"
        process = bench.start(bench.command("-n", 2, "--beat", "0.2", script, killed))
        with BoardClient(str(bench.campaign)) as client:
            until(lambda: is_measuring(client, 2))  # a run without any values is forgotten

        for pid in agents(bench):
            os.kill(pid, signal.SIGKILL)
        until(lambda: [record.state for record in bench.records()] == [RunState.INCOMPLETE])
        killed.touch()
        out, err = process.communicate(timeout=WAIT_S)

        assert (process.returncode, out) == (0, "done\n"), err
        # A busy node takes longer for it than the run waits.
        until(lambda: [record.state for record in bench.records()] == [RunState.COMPLETE])
        assert bench.values("app.py->step", "visits") == [100, 100]
    finally:
        server.kill()


def test_an_aggregator_that_comes_late_gets_everything(bench):
    script = bench.script(UNTIL)
    heard = bench.tables / "*" / "*" / "welcomed"
    run = bench.command("--beat", "0.2", script, heard)
    launched = bench.start([*bench.mpiexec, "-n", "2", *run])
    until(live_tables(bench))

    server = Server(bench.campaign)

    assert launched.wait(WAIT_S) == 0
    until(lambda: bench.left_tables() == [])
    server.process.terminate()
    assert server.process.wait(WAIT_S) == 0
    assert bench.records()[0].state is RunState.COMPLETE
    assert bench.values("app.py->step", "visits") == [100, 100]


def test_one_aggregator_serves_many_runs_and_refuses_a_second_one(bench):
    script = bench.script(QUICK)
    server = Server(bench.campaign).wait()

    second = bench.insitu("serve", bench.campaign)
    for _ in range(2):
        assert bench.run("-n", 2, script).code == 0
        with open_store(str(bench.campaign)) as store:
            assert store.unmodelled_runs() == []  # who asks for models now gets those of this run

    assert second.code == 3
    assert "another aggregator" in second.err and len(second.err.splitlines()) == 1
    assert len(bench.records()) == 2
    server.process.terminate()
    assert server.process.wait(WAIT_S) == 0


def test_a_campaign_of_a_newer_version_is_refused_before_the_program_starts(bench):
    script = bench.script(QUICK)
    open_store(str(bench.campaign), create=True).close()
    with sqlite3.connect(bench.campaign / "campaign.db") as database:
        database.execute("PRAGMA user_version = 999")
        tables = [row[0] for row in database.execute("SELECT name FROM sqlite_master")]
        if "campaign" in tables:
            columns = [row[1] for row in database.execute("PRAGMA table_info(campaign)")]
            if "format" in columns:
                database.execute("UPDATE campaign SET format = 999")

    outcome = bench.run(script)

    assert (outcome.code, outcome.out) == (3, "")
    assert "999" in outcome.err and "update insitu" in outcome.err
    assert len(outcome.err.splitlines()) == 1


MANY = "\n".join(
    (
        *(f"def f{i}(): pass" for i in range(2000)),
        *(f"f{i}()" for i in range(2000)),
        "print('done')",
    )
)


@plain_and_full("kilobytes", [4, 96, 160])
def test_no_room_for_a_table_never_harms_the_program(bench, kilobytes):
    script = bench.script(MANY)

    with tiny_disk(bench.tables, kilobytes):
        outcome = bench.run("-n", 1, "--agent", "off", script)

    assert (outcome.code, outcome.out) == (0, "done\n"), outcome.err
    assert "insitu: a rank could not be measured: OSError" in outcome.err


@plain_and_full("kilobytes", [260, 400])
def test_a_disk_that_fills_up_truncates_call_paths_and_says_so(bench, kilobytes):
    script = bench.script(MANY)

    with tiny_disk(bench.tables, kilobytes):
        outcome = bench.measure("-n", 1, script)

    assert (outcome.code, outcome.out) == (0, "done\n"), outcome.err
    (record,) = bench.records()
    assert "rows-truncated" in {finding.code for finding in record.findings}
    assert 100 < len(bench.table().callpaths) < 2000


def test_a_full_disk_for_the_campaign_keeps_the_tables(bench):
    script = bench.script(QUICK)
    with tiny_disk(bench.campaign, 48):
        outcome = bench.run(script)

        assert outcome.code in (0, 3), outcome.err
        assert outcome.out == ("done\n" if outcome.code == 0 else "")
        assert "insitu: " in outcome.err
        left = bench.left_tables()
    if outcome.code == 0:
        assert left
        assert bench.insitu("ingest", bench.campaign).code == 0
        assert bench.values("app.py->work", "visits") == [5]


def test_a_disk_that_is_full_between_two_runs_costs_nothing_and_is_named(bench):
    script = bench.script(QUICK)
    with tiny_disk(bench.campaign, 2_000), ExitStack() as stack:
        assert bench.run("-n", 1, "-q", script).code == 0
        # A reader, such as `insitu watch`, keeps the files that SQLite needs to open the database.
        stack.enter_context(open_store(str(bench.campaign))).runs()
        filler = bench.campaign / "filler"
        with suppress(OSError), filler.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))
        outcome = bench.run("-n", 1, script)
        left = bench.left_tables()
        served = bench.insitu("serve", bench.campaign)
        names = {path.name for path in bench.campaign.iterdir()}
        filler.unlink()
        ingested = bench.insitu("ingest", bench.campaign)
        records = bench.records()

    assert (outcome.code, outcome.out) == (0, "done\n"), outcome.err
    assert "Traceback" not in outcome.err + served.err
    assert "No space left on device" in outcome.err
    assert "this run is not stored, for the reason above" in outcome.err
    assert served.code == 3
    assert not {name for name in names if name.startswith("aggregator.json")}
    assert left
    assert ingested.code == 0
    assert [record.state for record in records] == [RunState.COMPLETE] * 2


def test_ingesting_twice_does_no_harm(bench):
    script = bench.script(QUICK)
    assert bench.run("--agent", "off", script).code == 0
    assert len(bench.left_tables()) == 1

    first = bench.insitu("ingest", bench.campaign, "--json")
    second = bench.insitu("ingest", bench.campaign, "--json")

    assert (first.code, second.code) == (0, 0)
    assert [json.loads(line)["state"] for line in first.out.splitlines()] == ["sealed"]
    assert second.out == ""
    assert len(bench.records()) == 1


def test_where_no_socket_is_allowed_tables_travel_through_the_disk(bench):
    script = bench.script(QUICK)

    outcome = bench.run("-n", 2, "--agent", "spool", script)
    until(lambda: not bench.left_tables())
    spooled = sorted((bench.campaign / "spool").rglob("*.table"))
    modes = {path.stat().st_mode & 0o777 for path in spooled}
    ingested = bench.insitu("ingest", bench.campaign)

    assert (outcome.code, outcome.out.count("done")) == (0, 2)
    assert "ingest them with: insitu ingest" in outcome.err
    assert [path.name[:11] for path in spooled] == ["rank-000000", "rank-000001"]
    assert modes == {0o600}
    assert (ingested.code, bench.records()[0].state) == (0, RunState.COMPLETE)
    assert bench.values("app.py->work", "visits") == [5, 5]
    assert list((bench.campaign / "spool").iterdir()) == []


@plain_and_full("free", [3, 0, 2, 4, 6, 12])
def test_few_file_descriptors_never_harm_the_program(bench, free):
    script = bench.script(QUICK)
    limit = (
        f"import resource, os; resource.setrlimit(resource.RLIMIT_NOFILE, ({free + 4}, {free + 4}))"
    )
    argv = [str(bench.python), "-c"]
    start = f"{limit}; os.execv({str(bench.python)!r}, [{str(bench.python)!r}, {str(script)!r}])"

    bare = bench.execute([*argv, start])
    outcome = bench.run("-q", *argv, start)

    assert (outcome.code, outcome.out) == (bare.code, bare.out)
