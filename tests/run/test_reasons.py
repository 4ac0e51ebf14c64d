"""When nothing was measured, the message gives a reason that was checked."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from insitu.collectors import library
from insitu.run.environment import preload_environment
from insitu.run.reasons import describe_unmeasured

pytestmark = [
    pytest.mark.native,
    pytest.mark.skipif(not library.find(), reason="the native library is not built"),
]


def compile_program(folder, *flags, source="int main(void) { return 0; }", compiler="cc"):
    (folder / "app.c").write_text(source)
    command = [compiler, *flags, "app.c", "-o", "app"]
    done = subprocess.run(command, cwd=folder, capture_output=True, check=False)
    if done.returncode:
        pytest.skip(f"{' '.join(command)}: {done.stderr.decode()[:200]}")
    return str(folder / "app")


def test_a_static_program(tmp_path):
    program = compile_program(tmp_path, "-static")

    assert "app is linked statically" in describe_unmeasured([program], "heat.insitu", 1)


def test_a_program_that_the_linker_of_musl_starts_gets_no_library(tmp_path):
    program = compile_program(tmp_path, "-Wl,--dynamic-linker=/lib/ld-musl-x86_64.so.1")

    assert "app is linked with musl" in describe_unmeasured([program], "heat.insitu", 1)
    assert preload_environment(program) == {}
    assert "LD_PRELOAD" in preload_environment(sys.executable)


def test_a_program_without_mpi_under_a_launcher(tmp_path):
    program = compile_program(tmp_path)

    reason = describe_unmeasured(["mpiexec", "-n", "2", program], "heat.insitu", 1)

    assert "app is not linked with a shared MPI library" in reason
    assert f"ldd {program}" in reason


def test_of_a_shell_it_is_said_that_what_it_started_was_not_measured_either():
    reason = describe_unmeasured(["sh", "-c", "./app"], "heat.insitu", 0)

    assert "sh is not linked with a shared MPI library" in reason
    assert "no program that it started wrote a table" in reason


def test_a_program_that_runs_with_other_rights(tmp_path):
    program = compile_program(tmp_path)
    os.chmod(program, 0o4755)

    assert "rights of another user" in describe_unmeasured([program], "heat.insitu", 1)


def test_no_reason_is_guessed(tmp_path):
    mpicc = Path(sys.executable).parent / "mpicc"
    if not mpicc.exists():
        pytest.skip("no mpicc beside this Python")
    source = "#include <mpi.h>\nint main(void) { int is; return MPI_Initialized(&is); }"
    program = compile_program(tmp_path, source=source, compiler=str(mpicc))
    script = tmp_path / "job.sh"
    script.write_text("#!/bin/sh\ntrue\n")
    script.chmod(0o755)

    for command in ([program], [str(script)], ["mpiexec", "--version"]):
        text = describe_unmeasured(command, "heat.insitu", 0)
        assert f"no process of {command[0]} wrote a table. Programs" in text
        assert "insitu ingest heat.insitu" in text


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["./nosuch"], "./nosuch does not exist"),
        (["./nosuch", "--tool", "ls"], "./nosuch does not exist"),
        (["nosuch"], "nosuch was not found on PATH"),
        (["--host", "here,there", "nosuch"], "none of here,there, nosuch is a program that can"),
        (["./plain"], "./plain is not executable; run chmod +x ./plain"),
        (["./script"], "the interpreter of ./script, /no/such/shell, does not exist"),
    ],
)
def test_a_program_that_the_launcher_cannot_start(tmp_path, monkeypatch, words, reason):
    monkeypatch.chdir(tmp_path)
    Path("plain").write_text("x")
    Path("script").write_text("#!/no/such/shell -e\n")
    Path("script").chmod(0o755)

    text = describe_unmeasured(["/opt/bin/mpiexec", "-n", "2", *words], "heat.insitu", 255)

    assert f"no rank of this run was measured: {reason}" in text
    assert text.endswith("; mpiexec ended with exit code 255")
