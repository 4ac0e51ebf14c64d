"""The native code under the address, undefined-behaviour and thread sanitizers and valgrind, for
longer than the tests do.

The torture programs run that many times their usual turns; then the tests of the collectors run
with a library that was built with the address and undefined-behaviour sanitizers, in every Python
of this machine, where timing tests may fail for lack of speed only: they are left out.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TORTURE = ("torture", "torture_samples", "torture_messages")
TESTS = ("timers", "marks", "company", "steering", "phases")
TIMED = "main_loop or keeps or budget"  # tests of what takes long
RUNTIMES = ("libasan.so", "libubsan.so")


def main(arguments: list[str]) -> int:
    """The exit code of the first part that fails; 2 where the compiler lacks what is needed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=10, help="the usual turns (default: 10)")
    options = parser.parse_args(arguments)
    files = [f"tests/system/test_{name}.py" for name in TORTURE]
    torture = ["-q", "-rs", "--full", *files, "--timeout", "1800"]
    code = run_tests(torture, INSITU_TORTURE=str(options.times))
    if code:
        return code
    if not shutil.which("gcc"):
        print("no gcc: the collectors' tests were not run under sanitizers", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        library = build(Path(folder))
        files = [f"tests/collectors/test_{name}.py" for name in TESTS]
        return run_tests(
            ["-q", "-rs", *files, "-k", f"not ({TIMED})", "--timeout", "600"],
            INSITU_TEST_LIBRARY=str(library),
            LD_PRELOAD=" ".join(map(runtime, RUNTIMES)),
            ASAN_OPTIONS="detect_leaks=0",  # what an interpreter keeps to its end is no leak
            UBSAN_OPTIONS="halt_on_error=1",
        )


def build(folder: Path) -> Path:
    """The native library with sanitizers in it."""
    library = folder / "libinsitu.so"
    sources = map(str, (ROOT / "collectors" / "native").glob("*.c"))
    words = ("-shared", "-fPIC", "-g", "-O1", "-std=gnu11", "-ftls-model=initial-exec")
    sanitize = ("-fsanitize=address,undefined", "-fno-omit-frame-pointer", "-w")
    more = (*sources, "-pthread", "-ldl")
    subprocess.run(["gcc", *words, *sanitize, "-o", str(library), *more], check=True)
    return library


def runtime(name: str) -> str:
    """Where the compiler keeps a library of its own."""
    found = subprocess.run(
        ["gcc", f"-print-file-name={name}"], check=True, capture_output=True, text=True
    )
    return found.stdout.strip()


def run_tests(words: list[str], **environment: str) -> int:
    """Run pytest with more in its environment."""
    print(f"\n== pytest {' '.join(words)}", flush=True)
    command = [sys.executable, "-m", "pytest", *words]
    return subprocess.call(command, cwd=ROOT, env=os.environ | environment)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
