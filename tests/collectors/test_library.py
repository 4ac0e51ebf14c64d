"""The native library: which interpreters may load it, and what works in all others."""

import os
import shutil
import socket
import subprocess
import sys
import textwrap
from pathlib import Path
from types import SimpleNamespace

import pytest

from insitu.collectors import library, library_layout
from insitu.errors import LaunchError
from insitu.run.options import parse
from insitu.run.supervise import supervise
from insitu.workflows import doctor

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


def is_readable(path: str) -> bool:
    """False for the environment of a process of another user or outside this user namespace."""
    try:
        Path(path).read_bytes()
    except OSError:
        return False
    return True


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
    root = os.getpid() if is_readable(f"/proc/{os.getppid()}/environ") else 0
    assert numbers.split()[:4] == [b"1", b"2", b"0.02", str(root).encode()]
    assert path.startswith(bytes(tmp_path))


@pytest.fixture
def stale_library(tmp_path, shared, monkeypatch):
    """A library that was built when the records of messages were smaller."""
    current = Path(shared).read_bytes()
    sizes = [record.size for record in library_layout.RECORDS]
    mark = library_layout.LAYOUT.pack(library_layout.MARK, *sizes)
    assert mark in current
    stale = library_layout.LAYOUT.pack(library_layout.MARK, *sizes[:-2], 56, sizes[-1])
    path = tmp_path / library.FILE
    path.write_bytes(current.replace(mark, stale))
    monkeypatch.setattr(library, "find", lambda: str(path))
    return path


@pytest.mark.native
def test_a_library_that_writes_other_tables_is_refused_before_the_program_starts(
    tmp_path, stale_library, capfd
):
    options = parse(["--campaign", str(tmp_path / "x.insitu"), "echo", "started"])

    with pytest.raises(LaunchError, match="built from the sources of another insitu"):
        supervise(options)

    assert not capfd.readouterr().out
    assert doctor.native().state == doctor.MISSING


@pytest.mark.native
def test_a_library_without_sizes_is_refused_too(tmp_path, shared):
    path = tmp_path / library.FILE
    path.write_bytes(Path(shared).read_bytes().replace(library_layout.MARK, bytes(16)))

    assert library_layout.is_current(shared)
    assert not library_layout.is_current(str(path))


def test_the_layout_is_in_libraries_of_which_the_linker_removes_what_nobody_uses(tmp_path):
    """As zig does, which builds the wheels."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler")
    path = tmp_path / library.FILE
    flags = ("-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-fdata-sections")
    words = [compiler, *flags, "-Wl,--gc-sections", ROOT / "collectors/native/layout.c", "-o", path]

    subprocess.run(words, check=True)

    assert library_layout.is_current(str(path))
