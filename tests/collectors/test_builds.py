"""Which build of a program runs."""

import os
import subprocess
import sys

import pytest

from insitu.collectors.builds import identify_build


def is_emulated() -> bool:
    with subprocess.Popen(["sleep", "10"]) as process:
        program = os.path.basename(os.readlink(f"/proc/{process.pid}/exe"))
        process.kill()
    return program.startswith("qemu-")


pytestmark = pytest.mark.skipif(is_emulated(), reason="qemu is what every process executes")


def build_of(command, *, folder=None) -> str:
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, cwd=folder) as process:
        process.stdout.readline()
        build = identify_build(process.pid)
        process.stdin.close()
    return build


@pytest.mark.parametrize("flags", [(), ("-Wl,--build-id=none",), ("-s",)])
def test_a_compiled_program_has_the_build_of_what_runs(tmp_path, flags):
    def compiled(status: int) -> str:
        body = f'puts("x"); fflush(stdout); getchar(); return {status};'
        source = f"#include <stdio.h>\nint main() {{ {body} }}"
        (tmp_path / "a.c").write_text(source)
        program = str(tmp_path / "a")
        subprocess.run(["cc", *flags, "-o", program, str(tmp_path / "a.c")], check=True)
        return build_of([program])

    first, other, again = compiled(0), compiled(1), compiled(0)

    assert first
    assert first == again
    assert first != other


def test_a_python_program_has_that_of_its_script(tmp_path):
    script = tmp_path / "a.py"

    def scripted(text: str) -> str:
        script.write_text(f"print(1, flush=True)\ninput()\n{text}")
        return build_of([sys.executable, "-u", str(script), "argument"])

    first, other, again = scripted(""), scripted("# longer"), scripted("")

    assert first
    assert first == again
    assert first != other


def test_of_a_module_or_of_a_process_that_has_ended_it_is_unknown():
    with subprocess.Popen([sys.executable, "-c", "pass"]) as process:
        process.wait()
        assert identify_build(process.pid) == ""
    assert build_of([sys.executable, "-c", "print(1, flush=True); input()"]) == ""


def test_an_input_of_a_module_is_not_its_program(tmp_path):
    (tmp_path / "waits.py").write_text("print(1, flush=True)\ninput()")
    (tmp_path / "input.txt").write_text("4096")

    build = build_of([sys.executable, "-m", "waits", "input.txt"], folder=tmp_path)

    assert build == ""
