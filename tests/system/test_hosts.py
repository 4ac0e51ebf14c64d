"""Several nodes: network namespaces as hosts, one link cut and healed while ranks run."""

import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import ExitStack

import pytest

from insitu.campaign.store import open_store
from insitu.entities import RunState
from tests.support.listeners import COUNTING_PROGRAM as PROGRAM
from tests.support.nodes import column
from tests.support.processes import HERE, find_files
from tests.system.conftest import WAIT_S, until

ADDRESS, PORT = "10.213.1.1", 5571
CUT_S = 2.5


def ip(*words):
    return subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


@pytest.fixture
def hosts():
    """Names of three hosts; each of the first two has a link to the third."""
    if shutil.which("ip") is None or os.getuid():
        pytest.skip("network namespaces need root and the program ip (iproute2)")
    names = [f"insitu{os.getpid()}{letter}" for letter in "abs"]
    with ExitStack() as stack:
        for name in names:
            try:
                ip("netns", "add", name)
            except subprocess.CalledProcessError as error:
                pytest.skip(f"no network namespaces here: {error.stderr.strip()}")
            stack.callback(ip, "netns", "delete", name)
            ip("-n", name, "link", "set", "lo", "up")
        for k, name in enumerate(names[:2], start=1):
            ip(
                *("link", "add", "link0", "netns", name, "type", "veth"),
                *("peer", "name", f"link{k}", "netns", names[2]),
            )
            ip("-n", name, "address", "add", f"10.213.{k}.2/24", "dev", "link0")
            ip("-n", names[2], "address", "add", f"10.213.{k}.1/24", "dev", f"link{k}")
            ip("-n", name, "link", "set", "link0", "up")
            ip("-n", names[2], "link", "set", f"link{k}", "up")
            ip("-n", name, "route", "add", "default", "via", f"10.213.{k}.1")
        yield names


@pytest.fixture
def on(tmp_path):
    """Start a Python on a host; it is gone at the end."""
    started = []

    def start(host, *words, **variables):
        inside = f'hostname {host} && exec "$@"'
        argv = ["ip", "netns", "exec", host, "unshare", "--uts", "sh", "-c", inside, "sh"]
        environment = {**os.environ, "PYTHONPATH": str(HERE)}
        environment |= {"INSITU_TABLES": str(tmp_path / host), **variables}
        (tmp_path / host).mkdir(exist_ok=True)
        with open(tmp_path / "log", "ab") as log:
            process = subprocess.Popen(
                [*argv, sys.executable, *map(str, words)], env=environment, stderr=log
            )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()


@pytest.mark.full
def test_ranks_on_two_hosts_reach_an_encrypted_aggregator_on_a_third(hosts, on, tmp_path):
    campaign, stop, script = tmp_path / "hosts.insitu", tmp_path / "stop", tmp_path / "app.py"
    script.write_text(PROGRAM)
    bind = f"tcp://{ADDRESS}:{PORT}"
    serve = on(hosts[2], "-m", "insitu", "serve", campaign, "--bind", bind, "--beat", "0.1")
    until((campaign / "aggregator.json").exists)
    truths = [tmp_path / f"truth{rank}" for rank in range(4)]
    ranks = []
    for rank, truth in enumerate(truths):
        place = {"PMI_RANK": str(rank), "PMI_SIZE": "4", "PMI_JOBID": str(tmp_path)}
        run = ("-m", "insitu.run", "-q", "--beat", "0.1", "--campaign", campaign)
        ranks.append(on(hosts[rank // 2], *run, script, truth, stop, **place))
    until(lambda: len(find_files(tmp_path, "welcomed")) == 2 and truths[3].exists())

    ip("-n", hosts[1], "link", "set", "link0", "down")
    before = truths[3].read_bytes()
    time.sleep(CUT_S)
    until(lambda: truths[3].read_bytes() != before)  # the program goes on
    ip("-n", hosts[1], "link", "set", "link0", "up")
    ip("-n", hosts[1], "route", "replace", "default", "via", "10.213.2.1")
    stop.touch()
    codes = [process.wait(WAIT_S) for process in ranks]
    until(lambda: not find_files(tmp_path / hosts[0], "*.table"))
    serve.send_signal(signal.SIGTERM)
    assert serve.wait(WAIT_S) == 0
    ingest = on(hosts[1], "-m", "insitu", "ingest", campaign)

    assert (codes, ingest.wait(WAIT_S)) == ([0] * 4, 0)
    with open_store(str(campaign)) as store:
        (record,) = store.runs()
        table = store.table(record.id)
    assert record.state is RunState.COMPLETE
    counted = [int.from_bytes(truth.read_bytes(), "little") for truth in truths]
    assert [column(table, rank)["app.py->main->step"] for rank in range(4)] == counted
