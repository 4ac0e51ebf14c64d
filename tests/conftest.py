"""What all tests share: a machine that lacks a compiler or an MPI skips what needs them."""

import gc
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

from insitu.collectors import library
from tests.support import shared_folder


def missing() -> dict[str, str]:
    """For each mark, why its tests cannot run here."""
    reasons = {}
    if not library.find():
        reasons["native"] = "the native library is not built: no C compiler"
    beside = Path(sys.executable).with_name("mpiexec")
    if not beside.exists() and not shutil.which("mpiexec"):
        reasons["mpi"] = "there is no mpiexec: pip install -e .[mpich]"
    if not Path("/proc/driver/nvidia").exists() and not list(Path("/dev").glob("nvidia[0-9]*")):
        reasons["gpu"] = "there is no GPU of NVIDIA; python3 bootstrap.py gpu runs these tests"
    return reasons


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--full` runs what is left out otherwise."""
    parser.addoption(
        "--full",
        action="store_true",
        help="every combination of interpreters, MPIs and cases, and different examples each time",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Draw the same examples every time; listen to SIGINT, which what a shell starts in its
    background ignores; keep bytecode, or each of a thousand processes compiles insitu again; leave
    OpenBLAS one thread, or numpy starts as many as there are cores in each of them."""
    for name, is_same in (("suite", True), ("full", False)):
        hypothesis.settings.register_profile(name, deadline=None, derandomize=is_same)
    hypothesis.settings.load_profile("full" if config.getoption("full") else "suite")
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collect no garbage among what lives until the end: modules, and 4,600 tests."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(scope="session", autouse=True)
def _shared_folder(tmp_path_factory: pytest.TempPathFactory) -> None:
    """A folder for what tests of this process share."""
    shared_folder.path = str(tmp_path_factory.mktemp("shared"))


def is_full(item: pytest.Item) -> bool:
    """Whether only `--full` runs it."""
    return item.get_closest_marker("full") is not None


def pytest_report_header() -> list[str]:
    """Tell at the top of a report what will be skipped."""
    return [f"tests marked {mark} are skipped: {reason}" for mark, reason in missing().items()]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip what this machine cannot run, leave out what others prove between them, and begin with
    what takes long, so that no worker waits at the end."""
    if not config.getoption("full"):
        config.hook.pytest_deselected(items=[item for item in items if is_full(item)])
        items[:] = [item for item in items if not is_full(item)]
    items.sort(
        key=lambda item: (not item.get_closest_marker("slow"), "system" not in item.path.parts)
    )
    reasons = missing()
    for item in items:
        for mark, reason in reasons.items():
            if item.get_closest_marker(mark):
                item.add_marker(pytest.mark.skip(reason=reason))
