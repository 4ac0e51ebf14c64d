"""`insitu doctor`: what a machine lacks, processes that are stopped, and what Slurm answers."""

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from insitu.workflows import doctor
from insitu.workflows.doctor import LIMITED, MISSING, OK, OPTIONAL, processes, slurm


@pytest.fixture
def service() -> Iterator[subprocess.Popen[bytes]]:
    """A process with the command line of an aggregator."""
    code = "import time; print(flush=True); time.sleep(60)"
    command = [sys.executable, "-c", code, "insitu", "serve", "heat.insitu"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
        process.kill()


def test_a_stopped_aggregator_is_named_until_it_continues(service):
    os.kill(service.pid, signal.SIGSTOP)
    os.waitpid(service.pid, os.WUNTRACED)

    stopped = processes()
    os.kill(service.pid, signal.SIGCONT)
    os.waitpid(service.pid, os.WCONTINUED)
    continued = processes()

    assert stopped.state == "limited"
    assert f"aggregator {service.pid}" in stopped.found
    assert str(service.pid) in stopped.advice
    assert f"aggregator {service.pid}" not in continued.found


@pytest.mark.parametrize(
    ("sinfo", "state", "found"),
    [
        ("echo 'main* up 4'; echo 'old down 9'", OK, "22.05.8 at {}; partitions: main (4 nodes)"),
        ("echo 'main* down 4'", OK, "22.05.8 at {}; partitions: none is up"),
        ("exit 1", LIMITED, "22.05.8 at {}: the controller does not answer"),
        (None, OPTIONAL, "no sbatch: campaigns run with launcher"),
    ],
)
def test_slurm_is_asked_for_partitions_that_are_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sinfo: str | None, state: str, found: str
):
    tools = {} if sinfo is None else {"sbatch": "echo slurm-wlm 22.05.8", "sinfo": sinfo}
    for name, text in tools.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o700)
    monkeypatch.setenv("PATH", str(tmp_path))

    check = slurm()

    assert (check.name, check.state) == ("Slurm", state)
    assert check.found.startswith(found.format(tmp_path / "sbatch"))


def test_a_machine_without_compiler_mpi_and_library_says_what_each_costs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setattr("insitu.collectors.library.find", lambda: "")
    monkeypatch.setattr("insitu.collectors.library.why_unusable", lambda: "")

    checks = [doctor.compiler(), doctor.native(), doctor.preload(), doctor.mpi()]

    assert [(check.state, check.found) for check in checks] == [
        (MISSING, "no cc, gcc or clang"),
        (LIMITED, "not built"),
        (MISSING, "no native library"),
        (MISSING, "no mpiexec"),
    ]
    assert checks[1].advice.endswith("; install insitu again with a C compiler")


def test_the_compiler_that_the_user_prefers_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "icx").write_text("#!/bin/sh\necho 'icx 2026'\necho more\n")
    (tmp_path / "icx").chmod(0o700)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CC", "icx -O2")

    assert doctor.compiler().found == "icx 2026"


def test_a_library_that_this_python_cannot_use_still_measures_compiled_programs(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr("insitu.collectors.library.find", lambda: "/lib/insitu.so")
    monkeypatch.setattr("insitu.collectors.library_layout.is_current", lambda path: True)
    monkeypatch.setattr("insitu.collectors.library.why_unusable", lambda: "built for Python 3.9")

    check = doctor.native()

    assert (check.state, check.found) == (LIMITED, "built for Python 3.9")
    assert check.advice.endswith("; compiled programs are measured in full")


def test_a_library_that_programs_do_not_load_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("insitu.collectors.library.find", lambda: str(tmp_path / "none.so"))

    check = doctor.preload()

    assert (check.state, check.found) == (MISSING, "LD_PRELOAD has no effect")


def test_an_mpiexec_that_does_not_start_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "mpiexec").write_text("#!/nowhere/sh\n")
    (tmp_path / "mpiexec").chmod(0o700)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))

    check = doctor.mpi()

    assert check.state == MISSING
    assert f"{tmp_path / 'mpiexec'}: --version failed: " in check.found


@pytest.mark.parametrize(
    ("free", "writable", "state", "advice"),
    [
        (1 << 40, True, OK, ""),
        (1 << 10, True, LIMITED, "INSITU_TABLES"),
        (1 << 40, False, LIMITED, "insitu uses "),
    ],
)
def test_too_little_shared_memory_for_tables_is_noticed(
    monkeypatch: pytest.MonkeyPatch, free: int, writable: bool, state: str, advice: str
):
    monkeypatch.setattr(os, "access", lambda path, mode: writable)
    monkeypatch.setattr(os, "statvfs", lambda path: SimpleNamespace(f_bavail=free, f_frsize=1))

    check = doctor.tables()

    assert check.state == state
    assert advice in check.advice


@pytest.mark.parametrize(
    ("reason", "state", "advice"),
    [
        (0, OK, ""),
        (errno.EACCES, LIMITED, "sysctl kernel.perf_event_paranoid=2, as root"),
        (errno.ENOENT, LIMITED, "this machine has no hardware counters, as many virtual ones"),
        (errno.ENOSYS, LIMITED, "the kernel has no performance events, or the container forbids"),
    ],
)
def test_what_forbids_counting_instructions_is_named(
    monkeypatch: pytest.MonkeyPatch, reason: int, state: str, advice: str
):
    monkeypatch.setattr(doctor, "_open_event", lambda event: reason)

    for check in (doctor.counters(), doctor.task_clock()):
        assert check.state == state
        assert check.advice.startswith(advice)


@pytest.mark.parametrize(("source", "state"), [("tsc", OK), ("hpet", LIMITED), ("", LIMITED)])
def test_a_clock_that_needs_system_calls_is_noticed(
    monkeypatch: pytest.MonkeyPatch, source: str, state: str
):
    monkeypatch.setattr(doctor, "_read", lambda path: source)
    monkeypatch.setattr(os, "uname", lambda: SimpleNamespace(machine="x86_64"))

    assert doctor.clock().state == state


def test_a_processor_without_performance_events_is_no_error(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(os, "uname", lambda: SimpleNamespace(machine="riscv64"))

    assert doctor.counters().state == LIMITED


def test_packages_that_are_missing_come_with_how_to_install_them(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(doctor, "missing_packages", lambda name: ["psij-python"])
    monkeypatch.setattr(doctor, "CHECKS", ())
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)

    checks = [*doctor.check_machine(), doctor.bindings()]

    assert {check.state for check in checks[:-1]} == {OPTIONAL}
    assert all(check.found.startswith("psij-python not installed: ") for check in checks[:-1])
    assert all(" install " in check.advice for check in checks)
    assert checks[-1].state == MISSING
