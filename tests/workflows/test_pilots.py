"""Pilot runs: with what a program counts, and what it lacks."""

import os
import sys

import pytest

from insitu.errors import LaunchError, UsageError
from insitu.workflows.pilots import Pilots, _convert_counts, _taint_variable, counting_command


@pytest.fixture
def tools(tmp_path, monkeypatch):
    """Commands of this machine: only those that a test writes."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))

    def write(**texts):
        for name, text in texts.items():
            path = tmp_path / "bin" / name.replace("_", "-")
            path.write_text(f"#!/bin/sh\n{text}\n")
            path.chmod(0o700)

    return write


@pytest.fixture
def program(tmp_path):
    def write(content: bytes) -> str:
        path = tmp_path / "app"
        path.write_bytes(b"\x7fELF" + content)
        path.chmod(0o700)
        return str(path)

    return write


def test_a_compiled_program_without_counters_needs_valgrind(tools, program):
    with pytest.raises(LaunchError, match="valgrind, which would count its instructions"):
        counting_command([program(b"")])
    tools(valgrind="")

    words, _ = counting_command([program(b"")])

    assert words[:2] == ["valgrind", "--tool=callgrind"]


def test_counters_of_clang_are_used_where_their_reader_is_installed(tools, program):
    built = program(b"__llvm_prf_")
    tools(valgrind="")
    without, _ = counting_command([built])
    tools(llvm_profdata="")

    words, environment = counting_command([built, "8"])

    assert without[0] == "valgrind"
    assert words == [built, "8"]
    assert "LLVM_PROFILE_FILE" in environment


def test_the_python_of_the_user_is_kept_and_a_script_gets_this_one():
    script, _ = counting_command(["app.py", "8"])
    kept, environment = counting_command(["python3.12", "app.py", "8"])

    assert script == [sys.executable, "app.py", "8"]
    assert kept == ["python3.12", "app.py", "8"]
    assert "counting/site" in environment["PYTHONPATH"]


def test_each_parameter_has_a_label_of_its_own_up_to_what_clang_has():
    assert _taint_variable({"-1": ["n"], "-2": ["p", "m"]}, "p") == "1:-1:n 2:-2:m 4:ranks:p"
    assert _taint_variable({"-1": ["n"]}, "") == "1:-1:n"
    with pytest.raises(UsageError, match="has 8 labels; omit a parameter"):
        _taint_variable({str(-i): [f"n{i}"] for i in range(9)}, "")


def test_labels_of_a_compiled_program_need_its_build_for_them(program):
    pilots = Pilots([program(b""), "{n}"], 10.0)

    with pytest.raises(UsageError, match="give --taint-program"):
        pilots.labels({"n": 4.0}, "")
    with pytest.raises(UsageError, match="--taint-program /nowhere: No such file"):
        pilots.labels({"n": 4.0}, "", "/nowhere")


def test_a_program_that_writes_no_counts_says_why_that_may_be(tmp_path):
    (tmp_path / "app.py").write_text("import os\nos._exit(0)\n")
    command = [sys.executable, str(tmp_path / "app.py"), "{n}"]

    with pytest.raises(LaunchError, match=r"ends by os\._exit or a signal does not write"):
        Pilots(command, 10.0).count([{"n": 4.0}])


def test_notes_of_the_compiler_that_are_gone_are_named(tmp_path):
    rank = tmp_path / "counts" / "rank0"
    rank.mkdir(parents=True)
    (rank / "app.gcda").touch()
    (rank / "other.txt").touch()

    with pytest.raises(UsageError, match=r"/app\.gcno: no such file; keep the \.gcno files"):
        _convert_counts(str(tmp_path / "counts"))


def test_counters_of_another_compiler_are_refused_with_its_words(tmp_path, tools):
    folder = tmp_path / "counts"
    folder.mkdir()
    (folder / "1.profraw").touch()

    tools(llvm_profdata="echo 'raw profile version mismatch' >&2; exit 1")
    with pytest.raises(UsageError, match="mismatch; use the llvm-profdata of the compiler"):
        _convert_counts(str(folder))
    tools(llvm_profdata="echo main")
    _convert_counts(str(folder))

    assert (folder / "1.proftext").read_text() == "main\n"
    assert sorted(os.listdir(folder)) == ["1.profraw", "1.proftext"]
