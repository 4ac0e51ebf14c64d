"""Waiting across network namespaces as hosts: other clocks, and a link slower in one direction.

Its causes, too: they are those that a program plants, on whichever host.
"""

import math
import subprocess
import sys
from functools import partial

import pytest

from insitu.server.collectives import MAX_UNCERTAINTY
from tests.system.conftest import Bench, Outcome
from tests.system.test_delays import nearly, share_of_compared
from tests.system.test_hosts import hosts, ip
from tests.system.test_mpi_compiled import PROGRAMS, Compiled, compiled
from tests.system.test_mpi_nodes import PER_NODE, P, start_nodes

pytestmark = [pytest.mark.mpi, pytest.mark.native, pytest.mark.slow]
__all__ = ["compiled", "hosts"]  # fixtures

ADDRESSES = ("10.213.1.2", "10.213.2.2")
PREEMPTED_S = 0.02  # between a stamp of the program and one of ours, in any of four calls
SLOW_S = 2e-3  # one way, of the second host's link
# mpiexec starts its proxies with this, in place of ssh.
LAUNCHER = """\
#!/bin/sh
[ "$1" = -x ] && shift
case $1 in {addresses[0]}) name={names[0]};; *) name={names[1]};; esac
shift
exec ip netns exec $name unshare --uts sh -c "hostname $name; exec $*"
"""


@pytest.fixture
def uneven_link(hosts):
    """The link of the second host takes much longer in one direction."""
    ip("-n", hosts[2], "link", "delete", "link2")
    second = (hosts[1], f"{ADDRESSES[1]}/24", str(SLOW_S))
    third = (hosts[2], "10.213.2.1/24", "0")
    program = PROGRAMS / "uneven_link.py"
    with subprocess.Popen(
        [sys.executable, str(program), *second, *third],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        if process.stdout.readline() != b"ready\n":
            assert process.stderr is not None
            pytest.skip(f"no interfaces of programs: {process.stderr.read().decode()[-200:]}")
        ip("-n", hosts[1], "route", "add", "default", "via", "10.213.2.1")
        yield
        assert process.stdin is not None
        process.stdin.close()


def run_on(bench: Bench, names: list[str], *words: str) -> Outcome:
    """Run a program with two ranks on each of the first two hosts, from the third."""
    launcher = bench.folder / "launcher"
    launcher.write_text(LAUNCHER.format(addresses=ADDRESSES, names=names))
    launcher.chmod(0o755)
    placed = ",".join(f"{address}:{PER_NODE}" for address in ADDRESSES)
    options = ("-hosts", placed, "-launcher", "ssh", "-launcher-exec", str(launcher))
    start = (*bench.mpiexec, *options, "-iface", "link1", "-n", str(P))
    third = ("ip", "netns", "exec", names[2], "env", "UCX_TLS=tcp,self")
    return bench.execute([*third, *bench.command("--", *start, *words)])


@pytest.mark.full
@pytest.mark.usefixtures("sleeping_waiters")
@pytest.mark.parametrize("compiled", ["mpich"], indirect=True)
def test_waiting_across_hosts_is_true_within_its_bounds_where_one_direction_is_slow(
    compiled: Compiled, hosts: list[str], uneven_link: None
) -> None:
    bench = compiled.bench
    forward = ["sysctl", "-qw", "net.ipv4.ip_forward=1"]
    subprocess.run(["ip", "netns", "exec", hosts[2], *forward], check=True)
    start_nodes(compiled)
    compiled.compile(PROGRAMS / "late.c", flags=("-o", "late"))

    outcome = run_on(bench, hosts, "./on_node", "./late")

    assert outcome.code == 0, outcome.err
    (record,) = bench.records()
    assert {path.name for path in bench.folder.glob("tables?")} == {"tables0", "tables1"}
    lines = [line.split() for line in outcome.out.splitlines()]
    calls = {call for call, _, _ in lines}
    unclear = {finding.where for finding in record.findings if finding.code == "waiting-unclear"}
    for call in calls:
        measured = {int(rank): float(waited) for name, rank, waited in lines if name == call}
        found = bench.values(f"late->main->{call}", "time_waiting")
        if f"late->main->{call}" in unclear:
            assert all(map(math.isnan, found))
            continue
        expected = [measured[rank] for rank in range(P)]
        certified_s = MAX_UNCERTAINTY * sum(bench.values(f"late->main->{call}", "time"))
        assert found == pytest.approx(expected, abs=certified_s + PREEMPTED_S), call
    known = calls - {where.rpartition(">")[2] for where in unclear}
    assert known >= {"MPI_Allreduce", "MPI_Bcast", "MPI_Reduce", "MPI_Alltoall", "MPI_Wait"}


@pytest.mark.full
@pytest.mark.usefixtures("sleeping_waiters")
@pytest.mark.parametrize("compiled", ["mpich"], indirect=True)
def test_delays_on_another_host_are_charged_to_their_functions_and_ranks(
    compiled: Compiled, hosts: list[str], uneven_link: None
) -> None:
    bench = compiled.bench
    forward = ["sysctl", "-qw", "net.ipv4.ip_forward=1"]
    subprocess.run(["ip", "netns", "exec", hosts[2], *forward], check=True)
    start_nodes(compiled)
    compiled.compile(PROGRAMS / "delays.c", flags=("-finstrument-functions", "-o", "delays"))

    outcome = run_on(bench, hosts, "./on_node", "./delays")

    assert outcome.code == 0, outcome.err
    delayed_by = partial(share_of_compared, bench)
    assert delayed_by("assemble", "fixed->MPI_Allreduce") == {P - 1: nearly(1)}
    rotating = delayed_by("assemble", "rotating->MPI_Allreduce")
    assert sum(rotating.values()) == nearly(1)
    assert min(rotating.get(rank, 0) for rank in range(P)) > 0.2 / P
    assert delayed_by("filter", "rare->MPI_Barrier") == {1: nearly(1)}
    assert delayed_by("assemble", "rooted->MPI_Bcast") == {0: nearly(1)}
