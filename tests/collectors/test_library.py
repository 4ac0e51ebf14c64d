"""The native library: which interpreters may load it, and what works in all others."""

import os
import socket
import subprocess
import sys
import textwrap
from pathlib import Path
from types import SimpleNamespace

import pytest

from insitu.collectors import library

ROOT = Path(__file__).resolve().parents[2]

# An interpreter of the future: only what the hook asks about differs.
UNKNOWN = """
    import sys
    sys.version_info = (3, 99, 0, "final", 0)
    sys.path.insert(0, {home!r})
    from insitu.collectors import library
    try:
        library.load({shared!r})
    except ImportError as error:
        print(error, flush=True)
"""
ATTACH = """
    from insitu.collectors.attach import main
    main([str({channel})])
"""


@pytest.mark.parametrize(
    ("attribute", "value", "reason"),
    [
        ("version_info", (3, 10, 9, "final", 0), "Python 3.10 is older than 3.11"),
        ("version_info", (3, 16, 0, "final", 0), "Python 3.16 is newer than 3.15"),
        ("implementation", SimpleNamespace(name="pypy"), "pypy is not CPython"),
        ("abiflags", "t", "a free-threaded build of Python"),
        ("gettotalrefcount", int, "a debug build of Python"),
    ],
)
def test_an_unknown_interpreter_is_refused_by_name(monkeypatch, attribute, value, reason):
    monkeypatch.setattr(sys, attribute, value, raising=False)

    assert library.why_unusable() == reason
    with pytest.raises(ImportError, match=reason):
        library.load(library.find())


@pytest.mark.native
def test_every_supported_interpreter_loads_the_library(python, shared):
    load = "import sys; sys.path.insert(0, sys.argv[1]); from insitu.collectors import library; "
    load += "print(library.load(sys.argv[2]).__name__)"

    done = subprocess.run(
        [python, "-c", load, str(ROOT), shared], capture_output=True, text=True, check=False
    )

    assert (done.stdout, done.stderr) == ("insitu_native\n", "")


@pytest.mark.native
def test_a_compiled_program_is_measured_under_an_unknown_python(tmp_path, python, shared):
    ours, theirs = socket.socketpair()
    program = textwrap.dedent(UNKNOWN + ATTACH).format(
        home=str(ROOT), shared=shared, channel=theirs.fileno()
    )
    environment = {
        "PATH": os.environ["PATH"],
        "PMI_RANK": "1",
        "PMI_SIZE": "2",
        "INSITU_RUN": "0" * 32,
        "INSITU_AGENT": "off",
        "INSITU_TABLES": str(tmp_path),
        "INSITU_TROUBLE": str(tmp_path / "trouble"),
    }

    helper = subprocess.Popen(
        [python, "-c", program],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        pass_fds=[theirs.fileno()],
    )
    theirs.close()
    request = ours.recv(1000)
    ours.send(bytes(4))  # the table was created
    out, _ = helper.communicate()

    assert out == "the native hook cannot be used: Python 3.99 is newer than 3.15\n"
    assert not (tmp_path / "trouble").exists()
    numbers, _, path = request.rstrip(b"\0").partition(b"\n")
    assert numbers.split()[:4] == [b"1", b"2", b"0.02", str(os.getpid()).encode()]
    assert path.startswith(bytes(tmp_path))
