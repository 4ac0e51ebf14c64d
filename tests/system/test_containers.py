"""Containers of one machine that share a place for tables and see only their own processes."""

import os
import shutil
import subprocess
import sys

import pytest

from insitu.campaign.store import open_store
from insitu.collectors import table_directory
from insitu.entities import RunState
from tests.support.listeners import COUNTING_PROGRAM as PROGRAM
from tests.support.listeners import Server, until
from tests.support.nodes import column
from tests.support.processes import HERE

# The first process of a container: its end would be the end of the agent too.
FIRST = """
import contextlib, os, subprocess, sys
status = subprocess.run(sys.argv[1:]).returncode
with contextlib.suppress(ChildProcessError):
    while True:
        os.wait()
sys.exit(status)
"""


def contained(*words, **variables):
    """A Python in a pid namespace and a /proc of its own."""
    argv = ["unshare", "--pid", "--fork", "--mount-proc", sys.executable, "-c", FIRST]
    return subprocess.Popen([*argv, sys.executable, *map(str, words)], env=os.environ | variables)


@pytest.mark.full
def test_containers_do_not_take_each_others_ranks_for_dead(tmp_path, monkeypatch):
    probe = ["unshare", "--pid", "--fork", "--mount-proc", "true"]
    if not shutil.which("unshare") or subprocess.run(probe, stderr=subprocess.DEVNULL).returncode:
        pytest.skip("pid namespaces need root and the program unshare (util-linux)")
    monkeypatch.setenv("INSITU_TABLES", str(tmp_path / "tables"))
    (tmp_path / "tables").mkdir()
    (tmp_path / "app.py").write_text(PROGRAM)
    server = Server(tmp_path / "c.insitu").wait()
    words = ["-m", "insitu.run", "--campaign", server.campaign, "--beat", "0.05", "--quiet"]
    words += [tmp_path / "app.py"]
    truths, stops = ([tmp_path / f"{name}{k}" for k in range(2)] for name in ("truth", "stop"))

    ranks = []
    for k in range(2):
        more = {"PYTHONPATH": str(HERE), "PMI_RANK": str(k), "PMI_SIZE": "2", "PMI_JOBID": "1"}
        ranks.append(contained(*words, truths[k], stops[k], **more))
        until(truths[k].exists)
    stops[0].touch()
    first = ranks[0].wait(60)  # with its agent: what it measured has been brought in
    counted = int.from_bytes(truths[1].read_bytes(), "little")
    until(lambda: int.from_bytes(truths[1].read_bytes(), "little") > counted)
    stops[1].touch()
    statuses = (first, ranks[1].wait(60))
    server.end()

    with open_store(str(server.campaign)) as store:
        (record,) = store.runs()
        table = store.table(record.id)
    assert (statuses, record.state, record.missing) == ((0, 0), RunState.COMPLETE, ())
    visits = [column(table, k)["app.py->main->step"] for k in range(2)]
    assert visits == [int.from_bytes(truth.read_bytes(), "little") for truth in truths]
    assert [
        table_directory.table_names(directory) for directory in table_directory.run_directories()
    ] in ([], [[]])
