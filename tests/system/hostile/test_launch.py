"""What `insitu run` inherits reaches the program as it does without insitu."""

import os
import shutil
import signal
import subprocess

import pytest

from insitu.campaign.layout import SERVER_LOG
from tests.support.parameters import plain_and_full
from tests.system.conftest import Outcome, until

pytestmark = [pytest.mark.mpi, pytest.mark.native]

# Words of the shell only: the pipe of a second process would take the number that is closed.
SHOW_STREAMS = """
for number in 0 1 2; do
    stream=/proc/$$/fd/$number
    if [ "$stream" -ef /dev/null ]; then found="$found $number:null"
    elif [ -e "$stream" ]; then found="$found $number:other"
    else found="$found $number:closed"
    fi
done
echo "$found" > {path}
"""
ENVIRONMENT = "import os; print(*(os.environ.get(n) for n in ('PATH', 'LD_LIBRARY_PATH')))"


def start_both(bench, *words, **options) -> tuple[Outcome, Outcome]:
    """Outcomes of a command bare and measured, started at once with options of subprocess.Popen."""
    processes = [
        subprocess.Popen(
            command,
            cwd=bench.folder,
            env=bench.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **options,
        )
        for command in ([*map(str, words)], bench.command("--agent", "off", "-q", "--", *words))
    ]
    texts = [process.communicate(timeout=120) for process in processes]
    bare, measured = (
        Outcome(process.returncode, *text) for process, text in zip(processes, texts, strict=True)
    )
    return bare, measured


@plain_and_full("ranks", [2, 0])
def test_the_exit_code_is_the_programs_where_the_end_of_children_is_ignored(bench, ranks):
    launcher = [*bench.mpiexec, "-n", ranks] if ranks else []
    code = "import signal; print(signal.getsignal(signal.SIGCHLD), flush=True); raise SystemExit(5)"

    bare, measured = start_both(
        bench,
        *launcher,
        *(bench.python, "-c", code),
        preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN),
    )

    assert bare.code == 5
    assert measured == bare
    assert len(bench.left_tables()) == max(ranks, 1)


def test_a_rank_that_ignores_the_end_of_its_children_starts_an_agent(bench):
    script = bench.script("def work(): pass\nwork()\nprint('done')")
    command = bench.command("--", script)

    done = subprocess.run(
        command,
        cwd=bench.folder,
        env=bench.environment,
        capture_output=True,
        text=True,
        check=True,
        preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN),
    )

    assert done.stdout == "done\n"
    assert "could not be measured" not in done.stderr
    assert bench.values("app.py->work", "visits") == [1]


def test_a_program_has_the_name_that_its_user_typed(bench):
    bare, measured = start_both(bench, "sh", "-c", "echo $0; ./missing")

    assert bare.code == 127
    assert bare.out == "sh\n"
    assert measured == bare


@pytest.mark.full
def test_the_launcher_of_open_mpi_changes_no_path(bench, monkeypatch):
    """Its full path would mean `--prefix`: its folder comes before that of the user's Python."""
    launcher = shutil.which("mpiexec.openmpi")
    if not launcher:
        pytest.skip("no mpiexec.openmpi, as Debian calls it")

    words = ("-n", "1", bench.python, "-c", ENVIRONMENT)
    bare, measured = start_both(bench, "mpiexec.openmpi", *words)
    by_insitu = bench.execute(
        bench.command("--agent", "off", "-q", "--mpiexec", launcher, *words[:2], "--", *words[2:])
    )

    assert bare.code == 0
    assert measured == bare
    assert by_insitu.out == bare.out


@plain_and_full("closed", [(0,), (1,), (2,), (0, 1, 2)])
def test_closed_standard_streams_stay_closed(bench, closed):
    def close() -> None:
        for number in closed:
            os.close(number)

    texts = []
    for name in ("bare", "measured"):
        path = bench.folder / name
        words = ["sh", "-c", SHOW_STREAMS.format(path=path)]
        command = words if name == "bare" else bench.command("--agent", "off", "-q", "--", *words)
        subprocess.run(
            command,
            cwd=bench.folder,
            env=bench.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
            preexec_fn=close,
        )
        texts.append(path.read_text())

    assert texts[0].count("closed") == len(closed)
    assert texts[1] == texts[0]


@plain_and_full("launcher", ["mpiexec", "mpiexec.openmpi"])
def test_a_program_that_insitu_starts_with_ranks_has_the_name_that_its_user_typed(
    bench, monkeypatch, launcher
):
    """Launchers end by SIGPIPE, bare as well, if programs exit at once: MPICH's in 259 of 2,400
    runs, six at a time, and in none of 720 if these take 0.1 s."""
    monkeypatch.setenv("PATH", os.path.dirname(bench.mpiexec[0]), prepend=os.pathsep)
    if not shutil.which(launcher):
        pytest.skip(f"no {launcher}")

    options = ("--agent", "off", "-q", "--mpiexec", launcher, "-n", 2)

    done = bench.execute(bench.command(*options, "--", "sh", "-c", "echo $0; sleep 0.1"))

    assert (done.code, done.err, done.out) == (0, "", "sh\nsh\n")


@plain_and_full("variable", ["PYTHONINSPECT", "PYTHONVERBOSE"])
def test_what_the_user_sets_for_the_python_of_the_program_is_not_for_insitu(
    bench, monkeypatch, variable
):
    """PYTHONINSPECT made a prompt of the end of `insitu run`; others slow down its processes."""
    monkeypatch.setenv(variable, "1")
    code = f"import os; print(os.environ[{variable!r}], flush=True); os._exit(4)"

    # Without mpiexec, which SIGPIPE ends once in 2,500 runs of a program that exits at once.
    done = bench.run("--", bench.python, "-c", code)

    assert (done.code, done.out) == (4, "1\n")
    assert "Traceback" not in done.err
    assert "import " not in (bench.campaign / SERVER_LOG).read_text()


@plain_and_full("number", [signal.SIGALRM, signal.SIGXCPU, signal.SIGRTMIN + 3])
def test_any_signal_that_would_end_the_launch_reaches_the_program(bench, number):
    """Batch systems and `timeout --signal` send whichever their user names."""
    ready = bench.folder / "ready"
    script = bench.script(f"""
        import pathlib, signal, sys, time
        signal.signal({int(number)}, lambda *words: sys.exit(7))
        pathlib.Path({str(ready)!r}).touch()
        while True:
            time.sleep(0.1)
    """)
    process = bench.start(bench.command("--agent", "off", "-q", "--", script))
    until(ready.exists)

    process.send_signal(number)

    assert process.wait(60) == 7


def test_an_alarm_that_was_set_before_the_launch_ends_the_program(bench):
    """As in `perl -e 'alarm 5; exec @ARGV' program`, the time-out of many scripts."""
    words = (bench.python, "-c", "import time; print('begins', flush=True); time.sleep(60)")

    for seconds in (2, 8, 32):  # a busy machine takes long until the program begins
        bare, measured = start_both(bench, *words, preexec_fn=lambda s=seconds: signal.alarm(s))
        if measured.out:
            break

    assert bare.out == "begins\n"
    assert bare.code == -signal.SIGALRM
    assert measured.code == 128 + signal.SIGALRM  # as a shell would say it
    assert measured.out == bare.out


def test_words_of_ld_preload_keep_their_separators(bench, monkeypatch):
    monkeypatch.setenv("LD_PRELOAD", "libm.so.6 libdl.so.2:librt.so.1")
    script = bench.script("import os; print(os.environ['LD_PRELOAD'])")

    bare, measured = start_both(bench, bench.python, script)

    assert bare.out == "libm.so.6 libdl.so.2:librt.so.1\n"
    assert measured == bare


def test_modules_of_the_program_are_not_those_that_insitu_imports(bench):
    for name in ("numpy", "json", "select", "queue", "zmq", "msgpack", "click", "random"):
        (bench.folder / f"{name}.py").write_text("raise SystemExit('a module of the program')")

    code = "import os; print('done', flush=True); os._exit(3)"

    outcome = bench.run("--agent", "on", "--", bench.python, "-P", "-c", code)

    assert (outcome.code, outcome.out) == (3, "done\n")
    assert "a module of the program" not in outcome.err
    assert "Traceback" not in outcome.err
