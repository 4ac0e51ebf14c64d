"""Calls and bytes of files, beside those that strace prints (apt install strace).

    python tests/evaluation/file_counts.py

Two programs, `plants/files.c` and `plants/files.py`, run under strace and then under `insitu run`.
A call of a stream is no call of the kernel, so that streams are compared by their bytes only.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

PLANTS = Path(__file__).parent / "plants"
# Each program, and the call path below which its calls are counted.
PROGRAMS = {"files.c": "files->main", "files.py": "files.py->work"}
SYSTEM_CALLS = {  # and the functions that make them
    **{"openat": "open", "read": "read", "write": "write", "pread64": "pread"},
    **{"pwrite64": "pwrite", "readv": "readv", "writev": "writev", "fsync": "fsync"},
}
TRACED = re.compile(r"\b(\w+)\((.*) = (-?\d+)")
STREAM_CALLS = {"read": "fread", "write": "fwrite"}

Counts = dict[str, tuple[int, int]]  # function → calls and bytes


def add(counts: Counts, function: str, calls: int, size_bytes: int) -> None:
    """Add to the counts of a function."""
    before = counts.get(function, (0, 0))
    counts[function] = before[0] + calls, before[1] + size_bytes


def count_with_strace(command: Sequence[str], folder: Path) -> Counts:
    """What strace sees of files whose names begin with `piece`."""
    trace = folder / "trace"
    traced = "trace=" + ",".join(SYSTEM_CALLS)
    words = ["strace", "-f", "-y", "-e", traced, "-o", str(trace), *command]
    subprocess.run(words, check=True, cwd=folder)

    counts: Counts = {}
    for line in trace.read_text().splitlines():
        match = TRACED.search(line)
        if match is None or "piece" not in match[2]:
            continue
        name, result = match[1], int(match[3])
        if "piece.stream" in match[2]:
            function = STREAM_CALLS.get(name, "fopen")
        else:
            function = SYSTEM_CALLS[name]
        moves_bytes = "read" in name or "write" in name
        add(counts, function, 1, result if moves_bytes else 0)
    return counts


def count_with_insitu(program: str, below: str, folder: Path) -> Counts:
    """What a run counts below a call path."""
    campaign = str(folder / "files.insitu")
    start = [sys.executable, "-m", "insitu.run", "-q", "-n", "1"]
    subprocess.run([*start, "--campaign", campaign, "--", program], check=True, cwd=folder)
    export = [sys.executable, "-m", "insitu", "export", "--to", "jsonl", campaign]
    output = subprocess.run(export, check=True, capture_output=True, text=True).stdout

    counts: Counts = {}
    functions = {*SYSTEM_CALLS.values(), *STREAM_CALLS.values(), "fopen"}
    for line in output.splitlines():
        row = json.loads(line)
        path, _, function = str(row.get("callpath")).rpartition("->")
        if function not in functions or not f"{path}->".startswith(f"{below}->"):
            continue
        if row["metric"] == "visits":
            add(counts, function, int(row["ranks"][0]), 0)
        elif row["metric"] in ("bytes_read", "bytes_written"):
            add(counts, function, 0, int(row["ranks"][0]))
    return counts


def main() -> None:
    """Run both programs twice, and print a table."""
    argparse.ArgumentParser(description=__doc__.partition("\n")[0]).parse_args()
    mpicc = Path(sys.executable).parent / "mpicc"
    print("| program | function | calls, strace | insitu | bytes, strace | insitu |")
    print("| --- | --- | --- | --- | --- | --- |")
    for program, below in PROGRAMS.items():
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            path, command = str(PLANTS / program), [sys.executable, str(PLANTS / program)]
            if program.endswith(".c"):
                binary = str(folder / "files")
                subprocess.run([str(mpicc), "-O1", "-w", path, "-o", binary], check=True)
                path, command = binary, [binary]
            theirs = count_with_strace(command, folder)
            ours = count_with_insitu(path, below, folder)
        for function in sorted(theirs | ours):
            calls, size_bytes = theirs.get(function, (0, 0))
            our_calls, our_bytes = ours.get(function, (0, 0))
            shown = "-" if function in STREAM_CALLS.values() else calls
            cells = (program, f"`{function}`", shown, our_calls, size_bytes, our_bytes)
            print("| " + " | ".join(map(str, cells)) + " |")


if __name__ == "__main__":
    main()
