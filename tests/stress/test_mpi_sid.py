"""What `mpi_sid.py` does where its chroot cannot be prepared."""

from pathlib import Path

import pytest

from tests.stress import mpi_sid


def test_an_installation_that_fails_ends_the_script(tmp_path, monkeypatch):
    def enter(folder: Path, command: str) -> int:
        return 1 if "pip install" in command else 0

    monkeypatch.setattr(mpi_sid, "sid_folder", lambda: tmp_path)
    monkeypatch.setattr(mpi_sid, "install_packages", lambda folder, packages: None)
    monkeypatch.setattr(mpi_sid, "copy_checkout", lambda folder: None)
    monkeypatch.setattr(mpi_sid, "copy_network_settings", lambda folder: None)
    monkeypatch.setattr(mpi_sid, "enter", enter)

    with pytest.raises(SystemExit, match=r"exit code 1: .*pip install"):
        mpi_sid.main(["openmpi"])
