"""Sampling and regions under sanitizers, in a program that does everything a sample may interrupt.

Sanitizers call `sigaction`, `pthread_create` and others before they are ready, so the functions of
sample.c and sample_signals.c that replace these are linked in under other names: the linker leads
the calls of the program to them, and those of the sanitizer to the C library.
"""

import os
import shutil
import subprocess

import pytest

from insitu.collectors.table import REGION, TableReader
from tests.system.test_torture import LEVEL, NAMES, NATIVE, ROOT, TIMES

pytestmark = [pytest.mark.native, pytest.mark.slow]

PROGRAM = ROOT / "tests" / "system" / "programs" / "torture_samples.cpp"
PLUGIN = "int work(int n) { volatile int x = 0; for (int i = 0; i < n; i++) x += i; return x; }"
SOURCES = sorted(
    {path.stem for path in NATIVE.glob("*.c")}
    - {"evaluators", "hook", "marks", "module", "preload"}
)
REPLACED = (
    *("sigaction", "signal", "__sysv_signal", "sigaltstack", "pthread_sigmask", "sigprocmask"),
    *("pthread_create", "sigpending", "sigwait", "sigwaitinfo", "sigtimedwait"),
)
THREADS = 4
RATE = 200  # samples per second
SANITIZED = (
    # ASan does not follow the throw of an exception or a longjmp on the stack of a coroutine.
    pytest.param(("-fsanitize=address,undefined",), (), id="address"),
    # TSan does not support fork with threads, and loses its own stack in a coroutine.
    pytest.param(("-fsanitize=thread",), ("-DWITHOUT_FORK", "-DWITHOUT_COROUTINES"), id="thread"),
)


def build(folder, flags, options):
    """The program with our sources in it."""
    if not shutil.which("g++"):
        pytest.skip("no g++: apt install g++")
    common = ("-g", "-O1", "-w", *flags)
    level = LEVEL if flags else "-O1"
    for source in SOURCES:
        # malloc runs before a sanitizer is ready.
        own = ("-g", "-O1", "-w") if source == "heap" else ("-g", level, "-w", *flags)
        words = ("gcc", "-c", "-std=gnu11", "-ftls-model=initial-exec", *own)
        subprocess.run([*words, str(NATIVE / f"{source}.c")], cwd=folder, check=True)
    local = [f"--localize-symbol={name}" for name in NAMES]
    subprocess.run(["objcopy", *local, "heap.o"], cwd=folder, check=True)
    renamed = [f"--redefine-sym={name}=__wrap_{name}" for name in REPLACED]
    for source in ("sample", "sample_signals", "sample_threads"):
        subprocess.run(["objcopy", *renamed, f"{source}.o"], cwd=folder, check=True)

    objects = [f"{source}.o" for source in SOURCES]
    wrap = [f"-Wl,--wrap={name}" for name in REPLACED]
    words = ("g++", *common, *options, "-I", str(ROOT / "collectors"), str(PROGRAM))
    linked = subprocess.run(
        [*words, *objects, *wrap, "-rdynamic", "-pthread", "-ldl", "-o", "torture"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    if "cannot find" in linked.stderr:
        pytest.skip(f"the sanitizer's library is missing: {linked.stderr[-200:]}")
    assert linked.returncode == 0, linked.stderr
    (folder / "plugin.c").write_text(PLUGIN)
    words = ("gcc", "-O1", "-shared", "-fPIC", "plugin.c", "-o", "plugin.so")
    subprocess.run(words, cwd=folder, check=True)


def run(folder, turns, **environment):
    """The header of the table, and the visits of all regions by name."""
    path = folder / "rank.table"
    # The linker frees under locks of its own, which ThreadSanitizer does not see.
    (folder / "suppressions").write_text("called_from_lib:ld-linux-x86-64.so.2\n")
    done = subprocess.run(
        [str(folder / "torture"), str(path), str(turns), str(folder / "plugin.so")],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=240 * TIMES,
        check=False,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-6000:]
    table = TableReader(str(path))
    table.new_rows()
    visits: dict[str, int] = {}
    for row, entered in zip(table.rows, table.totals(1e-9)["visits"], strict=True):
        if row.kind == REGION:
            visits[row.name] = visits.get(row.name, 0) + entered
    return table.header, visits


@pytest.mark.full  # sanitize.py runs it
@pytest.mark.parametrize(("flags", "options"), SANITIZED)
def test_sanitizers_find_nothing_in_the_code_that_takes_samples(tmp_path, flags, options):
    build(tmp_path, flags, options)

    header, visits = run(
        tmp_path,
        100 * TIMES,
        ASAN_OPTIONS="detect_leaks=0",
        UBSAN_OPTIONS="halt_on_error=1",
        TSAN_OPTIONS=f"halt_on_error=1:suppressions={tmp_path / 'suppressions'}",
    )

    expected = {"turn", "falls", *(() if options else ("coroutine",))}
    assert visits == dict.fromkeys(expected, THREADS * 100 * TIMES)
    assert header.samples > 0


@pytest.mark.full  # sanitize.py runs it
def test_ten_thousand_objects_are_loaded_and_unloaded_while_stacks_are_sampled(tmp_path):
    build(tmp_path, (), ())

    header, visits = run(tmp_path, 2_500)

    assert visits == dict.fromkeys(("turn", "falls", "coroutine"), THREADS * 2_500)
    # Time in which the signal is blocked, and the start and end of the process, are not sampled.
    assert header.samples > 0.5 * RATE * header.cpu_ns / 1e9
    # A stack cannot be read while another thread changes the list of objects: 1 to 5 % here.
    assert header.samples_unread < 0.2 * header.samples
