"""A Slurm of four virtual nodes on this machine, for tests: needs root and Debian's packages."""

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PROGRAMS = ("slurmctld", "slurmd", "munged", "sbatch", "srun", "sinfo")
PACKAGES = "apt-get install slurm-wlm munge"
UP_S = 60.0
CONFIGURATION = """
ClusterName=tests
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SrunPortRange={low}-{high}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={state}/munge/socket
CredType=cred/munge
StateSaveLocation={state}/ctld
SlurmdSpoolDir={state}/%n
SlurmctldPidFile={state}/slurmctld.pid
SlurmdPidFile={state}/%n.pid
SlurmctldLogFile={state}/slurmctld.log
SlurmdLogFile={state}/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
AccountingStorageType=accounting_storage/none
MpiDefault=pmi2
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=bf_interval=1
ReturnToService=2
SlurmdParameters=config_overrides
PropagateResourceLimits=NONE
NodeName=n[1-4] NodeHostname={host} NodeAddr=127.0.0.1 Port=[{first}-{last}] CPUs=8 RealMemory=500
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:64
"""


def why_not() -> str:
    """Why there can be no Slurm here, "" if there can."""
    missing = [name for name in PROGRAMS if find(name) is None]
    if missing:
        return f"no {missing[0]} on this machine: {PACKAGES}"
    return "" if os.getuid() == 0 else "Slurm's daemons want root"


def find(name: str) -> str | None:
    """A program, also where only root looks."""
    return shutil.which(name, path=os.pathsep.join((os.environ["PATH"], "/usr/sbin", "/sbin")))


@contextmanager
def slurm(state: Path) -> Iterator[dict[str, str]]:
    """Start it, answer the environment in which its commands work, end it."""
    host = socket.gethostname().partition(".")[0]
    base = free_ports()
    (state / "munge").mkdir(mode=0o700)
    (state / "ctld").mkdir()
    (state / "cgroup.conf").write_text("CgroupAutomount=no\nConstrainCores=no\n")
    (state / "munge" / "key").write_bytes(os.urandom(1024))
    (state / "munge" / "key").chmod(0o600)
    (state / "slurm.conf").write_text(
        CONFIGURATION.format(
            host=host,
            state=state,
            port=base,
            first=base + 1,
            last=base + 4,
            low=base + 10,
            high=base + 90,
        )
    )
    environment = {**os.environ, "SLURM_CONF": str(state / "slurm.conf")}
    started: list[subprocess.Popen[bytes]] = []

    def start(*words: str) -> None:
        path = find(words[0])
        assert path is not None
        with (state / "daemons.log").open("ab") as log:
            started.append(
                subprocess.Popen([path, *words[1:]], env=environment, stdout=log, stderr=log)
            )

    try:
        munge = state / "munge"
        options = [f"--{name}={munge / name}" for name in ("socket", "log-file", "seed-file")]
        keys = [f"--key-file={munge / 'key'}", f"--pid-file={munge / 'pid'}"]
        start("munged", "--foreground", "--force", *options, *keys)
        wait_for(lambda: (munge / "socket").exists())
        start("slurmctld", "-D", "-c")
        for node in ("n1", "n2", "n3", "n4"):
            (state / node).mkdir()
            start("slurmd", "-D", "-N", node)
        wait_for(lambda: idle_nodes(environment) == 4)
        yield environment
    finally:
        for process in reversed(started):
            process.send_signal(signal.SIGTERM)
        for process in started:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()


def idle_nodes(environment: dict[str, str]) -> int:
    """How many nodes are ready."""
    words = ["sinfo", "--noheader", "--Node", "--format", "%T"]
    said = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    return said.stdout.split().count("idle")


def wait_for(is_true) -> None:
    """Until it is so."""
    deadline = time.monotonic() + UP_S
    while not is_true():
        assert time.monotonic() < deadline, "Slurm did not come up"
        time.sleep(0.1)


def free_ports() -> int:
    """The first of a hundred ports that are likely free."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return min(int(probe.getsockname()[1]), 65000)
