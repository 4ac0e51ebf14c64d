"""Dependencies that `insitu detect` finds in programs whose truth was written by hand.

    python tests/evaluation/detection.py [--programs classes halo …] [--flags=-O1]

Each program of `detected/` says at its top which parameters to try and, call path by call path,
what its work depends on: terms that add up, parameters that multiply. A dependency is a call path
with a parameter, an interaction a call path with two parameters that multiply. Call paths that are
not named there depend on nothing. C programs are counted under valgrind, and by gcov. CPU is that
of the pilot runs over that of the same runs without counting.
"""

import argparse
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

HERE = Path(__file__).resolve().parents[2]
BESIDE = Path(sys.executable).parent
FOLDER = Path(__file__).with_name("detected")
Fact = tuple[str, ...]  # a call path and a parameter, or two


@dataclass(frozen=True)
class Told:
    """What a program says of itself: values of parameters, words, dependencies by call path."""

    name: str
    params: dict[str, str]
    words: tuple[str, ...]
    launch: tuple[str, ...]
    truth: dict[str, list[list[str]]]

    @classmethod
    def read(cls, path: Path) -> "Told":
        text = path.read_text().partition("params:")[2]
        head = re.split(r'"""|\*/', text, maxsplit=1)[0].strip().splitlines()
        params = dict(word.split("=") for word in head[0].split())
        launch: tuple[str, ...] = ()
        if head[1].startswith("launch:"):
            launch = (str(BESIDE / "mpiexec"), "-n", head.pop(1).partition(":")[2].strip())
        words = tuple(head[1].partition(":")[2].split())
        rows = [line.partition(":") for line in head[2:]]
        truth = {
            path: [term.split("*") for term in terms.replace(" ", "").split("+") if term]
            for path, _, terms in rows
        }
        return cls(path.name, params, words, launch, truth)


def facts(nests: dict[str, list[list[str]]]) -> tuple[set[Fact], set[Fact]]:
    """Dependencies and interactions."""
    single = {(path, name) for path, of in nests.items() for nest in of for name in nest}
    pairs = {
        (path, *pair)
        for path, of in nests.items()
        for nest in of
        for pair in combinations(sorted(set(nest)), 2)
    }
    return single, pairs


def detected(told: Told, counts: dict, configurations: list) -> dict[str, list[list[str]]]:
    """What is found, by call path below the program's own row, whatever it was compiled as."""
    from insitu.design.blackbox import deduce_structure

    structure, _ = deduce_structure(configurations, counts)
    return {
        re.sub(rf"^{re.escape(Path(told.name).stem)}[.-]\w+->", "", dependency.callpath): [
            list(nest.parameters) for nest in dependency.nests
        ]
        for dependency in structure.dependencies
    }


def bare(command: list[str], configurations: list) -> None:
    """The same runs without counting."""
    from insitu.launch.pilots import fill

    for at in configurations:
        subprocess.run(fill(command, at), capture_output=True, check=True)


def cpu(function, *arguments) -> tuple[object, float]:
    """What a function answers, and the CPU seconds of its children."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    answer = function(*arguments)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return answer, sum(after[:2]) - sum(before[:2])


def commands(path: Path, told: Told, folder: Path, flags: list[str]):
    """How it is run: a title, and the command."""
    if path.suffix == ".py":
        yield "", [*told.launch, sys.executable, str(path), *told.words]
        return
    compiler = str(BESIDE / "mpicc") if told.launch else "cc"
    for title, more in (("valgrind", []), ("gcov", ["--coverage"])):
        if shutil.which(title) is None:
            print(f"{path.name}: no {title} on this machine")
            continue
        program = folder / f"{path.stem}-{title}"
        subprocess.run([compiler, *flags, *more, "-o", program, path], cwd=folder, check=True)
        yield title, [*told.launch, str(program), *told.words]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--programs", nargs="+", help="names of files, without their endings")
    parser.add_argument("--flags", default="-O1", help="of the C compiler")
    options = parser.parse_args()
    sys.path.insert(0, str(HERE))
    from insitu.design.pilot import pilot_configurations
    from insitu.workflows.pilots import Pilots

    print(f"{'program':26}{'dependencies':>22}{'interactions':>22}{'CPU':>7}")
    sums: dict[str, list[float]] = {}
    for path in sorted(FOLDER.iterdir()):
        if options.programs and path.stem not in options.programs:
            continue
        told = Told.read(path)
        levels = {name: tuple(map(float, of.split(","))) for name, of in told.params.items()}
        configurations = pilot_configurations(levels)
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            for title, command in commands(path, told, folder, options.flags.split()):
                counts, counted = cpu(Pilots(command, 60.0).count, configurations)
                _, plain = cpu(bare, command, configurations)
                found = detected(told, counts, configurations)
                kind = title or "Python"
                row = judge(f"{path.name} {title}", told, found, counted / plain)
                sums[kind] = [a + b for a, b in zip(sums.get(kind, [0] * 6), row, strict=True)]
    for kind, row in sums.items():
        print(line(f"all, {kind}", row, float("nan")))


def judge(title: str, told: Told, found: dict[str, list[list[str]]], ratio: float) -> list[float]:
    """Print how much is right; answers how many are right, missed and false, of both kinds."""
    counts: list[float] = []
    wrong = []
    for true, seen in zip(facts(told.truth), facts(found), strict=True):
        counts += [len(true & seen), len(true - seen), len(seen - true)]
        wrong += [f"   missed {fact}" for fact in sorted(true - seen)]
        wrong += [f"   false {fact}" for fact in sorted(seen - true)]
    print("\n".join([line(title, counts, ratio), *wrong]), flush=True)
    return counts


def line(title: str, counts: list[float], ratio: float) -> str:
    cells = ["{:.0f} right {:.0f} missed {:.0f} false".format(*counts[i : i + 3]) for i in (0, 3)]
    return f"{title:26}{cells[0]:>27}{cells[1]:>27}{ratio:7.1f}"


if __name__ == "__main__":
    main()
