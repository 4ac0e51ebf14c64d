"""The program stays what it is under `python -m insitu.run`, and its run is measured."""

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from insitu.campaign.node_facts import nodes_of
from insitu.campaign.store import open_store
from insitu.entities import RunState
from tests.support.parameters import plain_and_full
from tests.system.conftest import BOTH_MPIS, WAIT_S

pytestmark = pytest.mark.mpi

RING = """
    import sys
    import numpy as np
    from mpi4py import MPI

    comm = MPI.COMM_WORLD

    def exchange(mine, theirs):
        right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
        comm.Sendrecv(mine, right, recvbuf=theirs, source=left)

    def main(steps):
        mine, theirs = np.ones(100), np.zeros(100)
        for _ in range(steps):
            exchange(mine, theirs)
        comm.Allreduce(mine, theirs)

    main(int(sys.argv[1]))
    if comm.rank == 0:
        print("done", sys.argv[1:], flush=True)
"""
FAILING = """
    import os, signal, sys
    from mpi4py import MPI

    comm = MPI.COMM_WORLD

    def work():
        comm.Barrier()

    work()
    if comm.rank == 1:
        {how}
    comm.Barrier()
"""


@BOTH_MPIS
def test_a_launched_program_is_measured_in_every_rank(each_mpi):
    script = each_mpi.script(RING)

    outcome = each_mpi.run("-n", 3, "-q", "--param", "n=7", "--", script, 5, "--n", "9")

    assert (outcome.code, outcome.out) == (0, "done ['5', '--n', '9']\n"), outcome.err
    (record,) = each_mpi.records()
    assert record.state is RunState.COMPLETE
    assert str(record.key) == "p=3,n=7#0"
    assert record.configuration["build"]
    assert each_mpi.values("app.py->main->exchange", "visits") == [5, 5, 5]
    path = "app.py->main->exchange->MPI_Sendrecv"
    assert each_mpi.values(path, "visits") == [5, 5, 5]
    assert each_mpi.values(path, "bytes_sent") == [4000, 4000, 4000]
    assert each_mpi.values(path, "bytes_received") == [4000, 4000, 4000]
    assert each_mpi.values("app.py->main->MPI_Allreduce", "bytes_sent") == [800, 800, 800]
    assert all(pss > 1e6 for pss in each_mpi.values("app.py", "memory_pss"))
    assert each_mpi.left_tables() == []


def test_the_users_own_launcher_is_left_alone(each_mpi):
    script = each_mpi.script(RING)

    outcome = each_mpi.measure("--", *each_mpi.mpiexec, "-n", 2, each_mpi.python, script, 3)

    assert (outcome.code, outcome.out) == (0, "done ['3']\n"), outcome.err
    assert each_mpi.values("app.py->main->exchange", "visits") == [3, 3]


def test_inside_a_rank_it_wraps_that_rank_and_ingest_completes_the_run(each_mpi):
    script = each_mpi.script(RING)

    outcome = each_mpi.execute([*each_mpi.mpiexec, "-n", "2", *each_mpi.command(script, 3)])

    assert (outcome.code, outcome.out) == (0, "done ['3']\n"), outcome.err
    assert "insitu ingest" in outcome.err
    assert len(each_mpi.left_tables()) == 2
    assert each_mpi.insitu("ingest", each_mpi.campaign).code == 0
    assert each_mpi.values("app.py->main->exchange", "visits") == [3, 3]
    assert each_mpi.left_tables() == []


@plain_and_full(
    ("how", "code"),
    [
        ("raise ValueError('boom')", 1),
        ("MPI.COMM_WORLD.Abort(9)", 9),  # plain of a compiled program
    ],
)
def test_one_failing_rank_ends_the_job_and_the_run_is_partial(each_mpi, how, code):
    script = each_mpi.script(FAILING.format(how=how))

    outcome = each_mpi.run("-n", 3, script)

    assert outcome.code in each_mpi.codes_of_an_abort(code)
    assert ("ValueError: boom" in outcome.err) == ("boom" in how)
    (record,) = each_mpi.records()
    assert record.state is RunState.INCOMPLETE
    assert 1 in record.missing
    assert "is incomplete" in outcome.err
    assert each_mpi.values("app.py->work", "visits")[1] == 1


def test_a_killed_rank_leaves_a_partial_run_with_what_it_measured(bench):
    script = bench.script(FAILING.format(how="os.kill(os.getpid(), signal.SIGKILL)"))

    outcome = bench.measure("-n", 3, script)

    assert outcome.code != 0
    (record,) = bench.records()
    assert record.state is RunState.INCOMPLETE
    assert 1 in record.missing
    assert bench.values("app.py->work", "visits")[1] == 1


def test_os_exit_after_finalize_is_an_orderly_end(each_mpi):
    # MPICH tells its mpiexec only in atexit, which os._exit leaves out, that a rank is done: the
    # first to leave has the others killed, measured or not, unless they have left by then as well.
    leave = """    MPI.Finalize()
    open(f"left-{os.getpid()}", "w").close()
    while sum(name.startswith("left-") for name in os.listdir()) < 2:
        __import__("time").sleep(0.01)
    os._exit(0)
"""
    text = FAILING.format(how="pass") + leave

    outcome = each_mpi.measure("-n", 2, each_mpi.script(text))

    assert outcome.code == 0 or each_mpi.mpi == "mpich"
    assert each_mpi.records()[0].state is RunState.COMPLETE
    assert each_mpi.values("app.py->work", "visits") == [1, 1]


@plain_and_full(
    "words",
    [
        ["-c", "import sys; print(sys.argv, __name__, sys.path[0]); sys.exit(5)", "a", "-n", "--x"],
        ["-m", "module", "a", "-n", "--x"],
        ["script.py", "a", "-n", "--x"],
    ],
)
def test_a_program_sees_what_python_shows_it(bench, words):
    text = "import sys; print(sys.argv, __name__, sys.path[0], __file__); sys.exit(5)"
    bench.script(text, "module.py")
    bench.script(text, "script.py")

    bare = bench.execute([str(bench.python), *words])
    measured = bench.run("-q", "--agent", "off", "--", *words)

    assert (measured.code, measured.out, measured.err) == (bare.code, bare.out, bare.err)
    assert bare.code == 5


def test_standard_input_and_tracebacks_are_the_programs_own(bench):
    script = bench.script("import sys\nprint(sys.stdin.read().upper())\nopen('missing')\n")

    bare = bench.execute([str(bench.python), str(script)], stdin="hello")
    measured = bench.run("-q", "--agent", "off", script, stdin="hello")

    assert (measured.code, measured.out, measured.err) == (bare.code, bare.out, bare.err)


@plain_and_full("number", [signal.SIGTERM, signal.SIGUSR1, signal.SIGINT])
def test_signals_reach_the_program(bench, number):
    script = bench.script(
        f"""
        import os, signal, sys, time
        signal.signal({int(number)}, lambda *_: (print("got it", flush=True), sys.exit(42)))
        os.write(1, b"ready\\n")  # print must not be interrupted by the print of the handler
        while True:
            time.sleep(0.01)
        """
    )
    process = bench.start(bench.command("-q", "--agent", "off", script))
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"

    process.send_signal(number)

    out, err = process.communicate(timeout=WAIT_S)
    assert (process.returncode, out) == (42, "got it\n"), err


def test_a_signal_to_all_processes_of_a_job_reaches_the_program_once(bench):
    """As from `timeout`, `scancel` and `kill -- -GROUP`: it got them a second time from insitu."""
    script = bench.script("""
        import os, signal, time
        signal.signal(signal.SIGTERM, lambda *_: os.write(1, b"got it\\n"))
        os.write(1, b"ready\\n")
        end = time.monotonic() + 1.0
        while time.monotonic() < end:
            time.sleep(0.01)
    """)
    process = bench.start(["setsid", *map(str, bench.command("-q", script))])
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"

    os.killpg(process.pid, signal.SIGTERM)

    out, err = process.communicate(timeout=WAIT_S)
    assert (process.returncode, out) == (0, "got it\n"), err


def test_a_program_killed_by_a_signal_returns_what_a_shell_would(bench):
    script = bench.script("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n")

    assert bench.measure(script).code == 128 + signal.SIGSEGV


def test_children_of_the_program_are_not_measured(bench):
    script = bench.script(
        """
        import os, subprocess, sys
        names = [name for name in os.environ if name.startswith("INSITU")]
        names.remove("INSITU_TABLES")  # the user's own
        print(names, os.environ.get("PYTHONPATH"), flush=True)
        subprocess.run([sys.executable, "-c", "import sys; print('sitecustomize' in sys.modules)"])
        if os.fork() == 0:
            os._exit(0)
        os.wait()
        def work(): pass
        work()
        """
    )

    outcome = bench.measure(script)

    assert outcome.out.startswith(f"[] {bench.environment['PYTHONPATH']}\n")
    assert bench.values("app.py->work", "visits") == [1]
    assert len(bench.records()) == 1


def test_an_own_sitecustomize_still_runs(bench):
    (bench.folder / "own").mkdir()
    (bench.folder / "own" / "sitecustomize.py").write_text("import sys; sys.own = 'here'\n")
    script = bench.script("import sys; print(sys.own)\n")
    argv = bench.command("-q", "--agent", "off", script)

    outcome = bench.execute(["env", f"PYTHONPATH={bench.environment['PYTHONPATH']}:own", *argv])

    assert outcome.out == "here\n"


def test_the_program_finds_the_sitecustomize_that_it_finds_alone(bench):
    """None, unless the distribution has one, as Debian."""
    code = (
        "import importlib.util, sys; spec = importlib.util.find_spec('sitecustomize');"
        " print('sitecustomize' in sys.modules, spec and spec.origin)"
    )
    bare = subprocess.run([bench.python, "-c", code], capture_output=True, text=True, check=True)

    outcome = bench.run("-q", "--agent", "off", "--", bench.python, "-c", code)

    assert outcome.out == bare.stdout, outcome.err


def test_repetitions_are_counted(bench):
    script = bench.script("def work(): pass\nwork()\n")

    outcomes = bench.measure_all([("--param", "n=1", script)] * 3)

    assert [outcome.code for outcome in outcomes] == [0, 0, 0]
    assert [str(record.key) for record in bench.records()] == [
        "p=1,n=1#0",
        "p=1,n=1#1",
        "p=1,n=1#2",
    ]


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--bogus", "app.py"], 2, "unknown option --bogus"),
        (["--param", "n", "app.py"], 2, "'n' is not NAME=VALUE"),
        (["--param", "p=4", "app.py"], 2, "p is the number of ranks"),
        (["-n", "four", "app.py"], 2, "-n: "),
        (["-n", "2", "mpiexec", "-n", "2", "app.py"], 2, "remove one of them"),
        ([], 2, "no command to run"),
        (["no-such-program"], 127, "no-such-program: command not found"),
        (["no_such_script.py"], 127, "no_such_script.py: no such script"),
        (["--mpiexec", "/nowhere/mpiexec", "-n", "2", "app.py"], 6, "/nowhere/mpiexec"),
    ],
)
def test_bad_input_gets_one_clear_line_and_its_exit_code(bench, words, code, message):
    bench.script("print('must not run')\n")

    outcome = bench.run(*words)

    assert outcome.code == code
    assert outcome.out == ""
    assert outcome.err.startswith("insitu: ")
    assert message in outcome.err
    assert len(outcome.err.splitlines()) == 1


def test_no_mpiexec_is_said_with_what_to_do(bench):
    script = bench.script("print('must not run')\n")
    bare = bench.folder / "bin"
    bare.mkdir()
    (bare / "python").symlink_to(sys.executable)
    argv = ["env", f"PATH={bare}", f"PYTHONPATH={bench.environment['PYTHONPATH']}"]
    site = f"import sys; sys.executable='{bare}/python'; sys.argv[0]='run'; "
    code = site + "from insitu.run.command import main; main()"

    outcome = bench.execute([*argv, str(bench.python), "-c", code, "-n", "2", str(script)])

    assert outcome.code == 6
    assert outcome.out == ""
    assert "no mpiexec" in outcome.err and "--mpiexec" in outcome.err


def test_an_agent_that_ends_while_another_is_to_take_over_is_no_trouble(monkeypatch, tmp_path):
    from insitu.run import supervise

    monkeypatch.setattr(supervise, "_has_tables", lambda run: True)  # as it was a moment ago
    monkeypatch.setattr(supervise, "_directories", lambda run: [str(tmp_path / "gone")])

    supervise._replace_agent("0" * 32, {})

    assert not (tmp_path / "gone").exists()


@pytest.mark.full
def test_a_run_keeps_the_facts_of_its_node(bench):
    program = bench.script("from mpi4py import MPI\n")

    outcome = bench.run("-n", 2, "-q", "--", program)

    assert outcome.code == 0, outcome.err
    (run,) = bench.records()
    (node,) = nodes_of(run)
    assert (node.name, node.ranks) == (run.configuration.get("host"), (0, 1))
    assert node.facts["processors"] == os.cpu_count()
    assert node.facts["memory"] > 1 << 20


@pytest.mark.full
def test_runs_at_the_same_time_are_all_stored_and_modelled_without_a_word(bench):
    script = bench.script(RING)

    with ThreadPoolExecutor(3) as pool:
        outcomes = list(pool.map(lambda ranks: bench.run("-n", ranks, "-q", script, 3), (1, 2, 4)))

    assert [(outcome.code, outcome.err) for outcome in outcomes] == [(0, "")] * 3
    with open_store(str(bench.campaign)) as store:
        assert {run.key.size for run in store.runs()} == {1, 2, 4}
        assert store.unmodelled_runs() == []
