"""Whoever may read a campaign can look at it, whoever it belongs to and wherever it lies."""

import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from insitu.campaign import database
from insitu.campaign.store import open_store
from insitu.errors import CampaignError
from insitu.workflows.refit import refit_campaign
from tests.support.campaigns import SCALES, heat_campaign
from tests.support.parameters import plain_and_full

HERE = Path(__file__).resolve().parents[2]
# The capability that lets root write where permissions forbid it.
WITHOUT_PRIVILEGE = ["setpriv", "--bounding-set", "-dac_override", "--inh-caps", "-dac_override"]
COMMANDS = [
    ["classes"],
    ["predict", "--at", "p=1024"],
    ["check", "--accept", "FOLDER/accepted.toml"],
    ["plot", "--output", "FOLDER/plot.svg"],
    ["export", "--to", "jsonl"],
    ["watch", "--once"],
]


@pytest.fixture(scope="module")
def archive():
    """A campaign with models that nobody may write to."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "test.insitu")
        heat_campaign(path, 1).close()
        refit_campaign(path)
        os.chmod(os.path.join(path, "campaign.db"), 0o444)
        os.chmod(path, 0o555)
        yield path
        os.chmod(path, 0o755)


@pytest.fixture
def is_forbidden(monkeypatch):
    """Root may write anywhere: let this process believe that it may not."""
    monkeypatch.setattr(database, "is_writable", lambda path: False)


def test_a_campaign_that_may_not_be_written_is_read_and_stays_as_it_is(archive, is_forbidden):
    file = Path(archive, "campaign.db")
    before = file.read_bytes()

    with open_store(archive) as store:
        assert len(store.runs()) == len(SCALES)
        assert store.table(store.runs()[0].id).size > 0
        store.models()
        with pytest.raises(CampaignError, match="cannot be written"):
            store.add_findings(store.runs()[0].id, [])

    assert file.read_bytes() == before


def test_runs_in_the_log_of_a_killed_writer_are_read(tmp_path, is_forbidden, monkeypatch):
    path = str(tmp_path / "test.insitu")
    writer = heat_campaign(path, 1)  # has not closed it: the runs are in the log
    assert os.path.getsize(os.path.join(path, "campaign.db-wal")) > 0
    copy = str(tmp_path / "copy.insitu")
    shutil.copytree(path, copy)
    os.unlink(os.path.join(copy, "campaign.db-shm"))
    writer.close()

    open_uri = database._open_uri

    def refuse_shared_memory(file, options):
        if options == "mode=ro":
            raise sqlite3.OperationalError("unable to open database file")
        return open_uri(file, options)

    monkeypatch.setattr(database, "_open_uri", refuse_shared_memory)
    with open_store(copy) as store:
        assert len(store.runs()) == len(SCALES)


@plain_and_full("words", COMMANDS, ids=" ".join, plain=2)
def test_every_command_that_only_looks_needs_no_right_to_write(archive, words, tmp_path):
    name, *options = [word.replace("FOLDER", str(tmp_path)) for word in words]
    if os.getuid() == 0 and shutil.which("setpriv") is None:
        pytest.skip("no setpriv: root may write anywhere")

    prefix = WITHOUT_PRIVILEGE if os.getuid() == 0 else []
    completed = subprocess.run(
        [*prefix, sys.executable, "-m", "insitu", name, archive, *options],
        cwd=HERE,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert completed.returncode == 0, completed.stderr
