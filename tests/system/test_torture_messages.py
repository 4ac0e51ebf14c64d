"""The code that records messages, under sanitizers: threads, many pairs of ranks, many messages."""

import os
import subprocess

import pytest

from insitu.collectors.table import TableReader
from tests.system.conftest import BINARIES
from tests.system.test_torture import NAMES, ROOT, SOURCES, compile_sources

pytestmark = [pytest.mark.mpi, pytest.mark.native, pytest.mark.slow]

PROGRAM = ROOT / "tests" / "system" / "programs" / "torture_messages.c"
RANKS = 3


@pytest.mark.full  # sanitize.py runs it
@pytest.mark.parametrize("sanitizer", ["address,undefined", "thread"])
def test_sanitizers_find_nothing_in_the_code_that_records_messages(tmp_path, sanitizer):
    flags = (f"-fsanitize={sanitizer}",)
    compile_sources(tmp_path, *flags)
    if sanitizer == "thread":  # which needs its own malloc
        local = [f"--localize-symbol={name}" for name in NAMES]
        subprocess.run(["objcopy", *local, "heap.o"], cwd=tmp_path, check=True)
    ours = [f"{source}.o" for source in SOURCES]
    words = ("-g", "-O1", "-w", *flags, "-o", "torture", str(PROGRAM), *ours, "-rdynamic")
    compiler = str(BINARIES["mpich"] / "mpicc")
    subprocess.run([compiler, *words, "-pthread", "-ldl"], cwd=tmp_path, check=True)
    (tmp_path / "known").write_text("called_from_lib:libmpi.so\n")

    options = f"log_path={tmp_path / 'report'}"
    done = subprocess.run(
        [str(BINARIES["mpich"] / "mpiexec"), "-n", str(RANKS), "./torture", "table"],
        env=os.environ
        | {
            "ASAN_OPTIONS": f"{options}:detect_leaks=0",
            "UBSAN_OPTIONS": options,
            "TSAN_OPTIONS": f"{options}:suppressions={tmp_path / 'known'}",
        },
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )

    if sanitizer != "thread":  # with it, MPICH ends with SIGSEGV without insitu as well
        lines = [f"rank {rank}: 0 failures" for rank in range(RANKS)]
        assert sorted(done.stdout.splitlines()) == lines, done.stderr[-2000:]
    reports = [path.read_text() for path in tmp_path.glob("report*")]
    assert [report[:3000] for report in reports if "collectors/native" in report] == []
    for rank in range(RANKS):
        head = TableReader(str(tmp_path / f"table-{rank}")).header
        assert head.message_pairs_level >= 1  # half of the pairs were dropped
        assert head.messages_level >= 1  # and some of the messages
