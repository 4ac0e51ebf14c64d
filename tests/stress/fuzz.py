"""Hostile bytes at every decoder: one target each, guided by coverage where atheris is installed.

    python tests/stress/fuzz.py [TARGET]... [--runs 100000]

Without names, all targets run one after the other. Each starts with tests/stress/corpus/TARGET. New
inputs that atheris finds and its log go to a folder that is printed at the end. A
decoder may refuse input by its own error and must do nothing else: any other exception ends the
run, and so does an input that takes more memory than allowed; how many took longer is counted.
Without atheris inputs of the corpus are mutated blindly.

Nine of ten inputs are at most 512 bytes long (or as long as the shortest seed), the last one of
ten grows from what these have found to 65,536. What takes longer than 10 ms is decoded again, since
others use the machine too: the shortest of four times counts.
"""

import argparse
import gc
import random
import subprocess
import sys
import tempfile
import time
import tracemalloc
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.stress.fuzz_targets import TARGETS

CORPUS = Path(__file__).resolve().parent / "corpus"
LONGEST = 65_536  # bytes of an input
SHORT, SHORT_SHARE = 512, 0.9
MEMORY_EVERY = 256  # inputs between two whose memory is measured, which is slow
MAX_S, MAX_BYTES = 0.010, 64 << 20


class Watched:
    """A target that notes the dearest input."""

    def __init__(self, name: str) -> None:
        """Begin without any."""
        self.target = TARGETS[name]
        self.count = 0
        self.worst_s = 0.0
        self.worst_bytes = 0
        self.slow = 0
        gc.freeze()  # what is here already is no input's to look through

    def __call__(self, data: bytes) -> None:
        """Decode one input."""
        self.count += 1
        is_measured = self.count % MEMORY_EVERY == 1
        if is_measured:
            tracemalloc.start()
        took = self._timed(data)
        if is_measured:
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            self.worst_bytes = max(self.worst_bytes, peak)
            assert peak <= MAX_BYTES, f"{peak} bytes for {len(data)} bytes"
        else:
            if took > MAX_S:
                took = min(took, *(self._timed(data) for _ in range(3)))
            self.slow += took > MAX_S
            self.worst_s = max(self.worst_s, took)
        if self.count % 5_000 == 0:  # atheris ends the process without a last word
            print(self, file=sys.stderr, flush=True)

    def _timed(self, data: bytes) -> float:
        began = time.thread_time()
        self.target(data)
        return time.thread_time() - began

    def __str__(self) -> str:
        """What was seen."""
        return (
            f"{self.count:,} inputs, worst {1000 * self.worst_s:.2f} ms"
            f" ({self.slow} above {1000 * MAX_S:.0f}) and {self.worst_bytes / 1e6:.2f} MB"
        )


def mutated(seeds: list[bytes], rng: random.Random) -> bytes:
    """One of the inputs with some bytes changed, cut out, doubled, or taken from another one."""
    data = bytearray(rng.choice(seeds))
    for _ in range(rng.randint(1, 6)):
        at = rng.randint(0, max(len(data) - 1, 0))
        match rng.randint(0, 5):
            case 0 if data:
                data[at] = rng.randint(0, 255)
            case 1 if data:
                data[at] ^= 1 << rng.randint(0, 7)
            case 2:
                del data[at : at + rng.randint(1, 16)]
            case 3:
                data[at:at] = data[at : at + rng.randint(1, 64)]
            case 4:
                other = rng.choice(seeds)
                data[at : at + 8] = other[at : at + 8]
            case 5:
                data[at : at + 4] = rng.choice((b"\xff" * 4, bytes(4), b"\x7f\xff\xff\xff"))
    return bytes(data[:LONGEST])


def blindly(name: str, runs: int) -> None:
    """Mutate the corpus without guidance."""
    watched, rng = Watched(name), random.Random(runs)
    seeds = [path.read_bytes() for path in sorted((CORPUS / name).iterdir())]
    for _ in range(runs):
        watched(mutated(seeds, rng))
    print(f"{name}: {watched}, unguided", flush=True)


def guided(name: str, runs: int) -> None:
    """Short inputs, then long ones, each in a process of its own, which atheris ends."""
    found = tempfile.mkdtemp(prefix=f"insitu-fuzz-{name}-")
    seeds = min(path.stat().st_size for path in (CORPUS / name).iterdir())
    short = int(SHORT_SHARE * runs)
    for longest, count in ((max(SHORT, seeds), short), (LONGEST, runs - short)):
        words = [sys.executable, __file__, "--inside", name, found, str(CORPUS / name)]
        words += [f"-runs={count}", f"-max_len={longest}", "-rss_limit_mb=1024", "-timeout=5"]
        log = Path(f"{found}.log")
        with open(log, "wb") as file:
            done = subprocess.run(words, check=False, stdout=file, stderr=file)
        lines = log.read_text(errors="replace").splitlines()
        told = [line for line in lines if " inputs, worst " in line][-1:]
        print(f"{name}, {longest:,} bytes: {' '.join(told) or lines[-1:]}; in {found}", flush=True)
        if done.returncode:
            raise SystemExit("\n".join(lines[-40:]))


def inside(arguments: list[str]) -> None:
    """What `guided` starts."""
    import atheris

    watched = Watched(arguments[0])
    _instrument(atheris)
    atheris.Setup([sys.argv[0], *arguments[1:]], watched)
    atheris.Fuzz()


def _instrument(atheris: object) -> None:
    import types

    for name, module in list(sys.modules.items()):
        if not name.startswith(("insitu.", "tests.fuzz")):
            continue
        for thing in list(vars(module).values()):
            if isinstance(thing, types.FunctionType) and thing.__module__ == name:
                atheris.instrument_func(thing)
            elif isinstance(thing, type) and thing.__module__ == name:
                for method in vars(thing).values():
                    if isinstance(method, types.FunctionType):
                        atheris.instrument_func(method)


def main() -> None:
    """Run the named targets."""
    if sys.argv[1:2] == ["--inside"]:
        inside(sys.argv[2:])
        return
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=", ".join(TARGETS))
    parser.add_argument("--runs", type=int, default=100_000)
    options = parser.parse_args()
    try:
        import atheris
    except ImportError:
        atheris = None
    for name in options.targets or TARGETS:
        (guided if atheris else blindly)(name, options.runs)


if __name__ == "__main__":
    main()
