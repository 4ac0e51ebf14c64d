"""What all tests share: a machine that lacks a compiler or an MPI skips what needs them."""

import shutil
import signal
import sys
from pathlib import Path

import pytest

from insitu.collectors import library


def missing() -> dict[str, str]:
    """For each mark, why its tests cannot run here."""
    reasons = {}
    if not library.find():
        reasons["native"] = "the native library is not built: no C compiler"
    beside = Path(sys.executable).with_name("mpiexec")
    if not beside.exists() and not shutil.which("mpiexec"):
        reasons["mpi"] = "there is no mpiexec: pip install -e .[mpich]"
    return reasons


def pytest_configure() -> None:
    """Listen to SIGINT, which what a shell starts in its background ignores."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_report_header() -> list[str]:
    """Tell at the top of a report what will be skipped."""
    return [f"tests marked {mark} are skipped: {reason}" for mark, reason in missing().items()]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what this machine cannot run."""
    reasons = missing()
    for item in items:
        for mark, reason in reasons.items():
            if item.get_closest_marker(mark):
                item.add_marker(pytest.mark.skip(reason=reason))
