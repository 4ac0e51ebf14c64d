"""Run a program bare and measured, and compare what its user and the program itself can see."""

import subprocess
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.system.conftest import BINARIES, Bench, Outcome

PROGRAMS = Path(__file__).with_name("programs")
OUR_LINES = "insitu:"  # of standard error; a program's own output never begins with it here


@dataclass(frozen=True)
class Comparison:
    """One program, run twice."""

    bare: Outcome
    measured: Outcome

    def differences(self) -> list[str]:
        """What differs, in words; the order of lines of several ranks does not count."""
        lines = []
        if self.bare.code != self.measured.code:
            lines.append(f"exit code: {self.bare.code} bare, {self.measured.code} measured")
        texts = {
            "output": (self.bare.out.splitlines(), self.measured.out.splitlines()),
            "errors": (_lines_of_program(self.bare.err), _lines_of_program(self.measured.err)),
        }
        for what, (bare, measured) in texts.items():
            missing, added = Counter(bare), Counter(measured)
            lines += [f"{what}: only bare: {line}" for line in missing - added]
            lines += [f"{what}: only measured: {line}" for line in added - missing]
        return lines


def _lines_of_program(text: str) -> list[str]:
    return [line for line in text.splitlines() if not line.startswith(OUR_LINES)]


def compare(
    bench: Bench,
    *argv: object,
    ranks: int = 0,
    options: tuple[object, ...] = (),
    seconds: float = 240,
) -> Comparison:
    """Run `argv` bare, then under `insitu run`, in the folder of `bench`.

    Args:
        bench: the folder, the campaign and the MPI.
        argv: the program with its arguments; the first word is a file, or `python`.
        ranks: of the mpiexec that starts it; 0 for none.
        options: of `insitu run`. Without `--agent on`, tables stay where they are.
        seconds: after which a run counts as a hang, and the test fails.
    """
    words = [str(bench.python) if word == "python" else str(word) for word in argv]
    launcher = [*bench.mpiexec, "-n", str(ranks)] if ranks else []
    start = ["-n", ranks] if ranks else []
    agent = [] if "--agent" in options else ["--agent", "off"]

    bare = bench.execute([*launcher, *words], seconds=seconds)
    measured = bench.run(*start, "-q", *agent, *options, "--", *words, seconds=seconds)
    return Comparison(bare, measured)


def compile_program(bench: Bench, name: str, *flags: str, output: str = "") -> Path:
    """Compile a program of this folder with the `mpicc` of the bench.

    Args:
        bench: where the executable goes.
        name: file name, `.c` or `.cc`.
        flags: more words for the compiler, behind the source.
        output: name of the result (default: the name without its suffix).
    """
    compiler = BINARIES[bench.mpi] / ("mpicxx" if name.endswith(".cc") else "mpicc")
    path = bench.folder / (output or Path(name).stem)
    words = [str(compiler), "-w", "-g", "-o", str(path), str(PROGRAMS / name), *flags]
    done = subprocess.run(words, cwd=bench.folder, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.fail(f"{name}: {done.stderr}")
    return path
