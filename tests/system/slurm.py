"""A Slurm of four virtual nodes on this machine, for tests: needs root and Debian's packages."""

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PROGRAMS = ("slurmctld", "slurmd", "munged", "sbatch", "srun", "sinfo")
NODES = ("n1", "n2", "n3", "n4")
PACKAGES = "apt-get install slurm-wlm munge"
UP_S = 60.0
CONFIGURATION = """
ClusterName=tests
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
FirstJobId={job}
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
SchedulerParameters=bf_interval=1,batch_sched_delay=0
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


class Cluster:
    """A running Slurm: its environment, its daemons, and a way to lose all of it at once."""

    def __init__(self, state: Path) -> None:
        self.state = state
        self.environment = {**os.environ, "SLURM_CONF": str(state / "slurm.conf")}
        self.daemons: list[subprocess.Popen[bytes]] = []

    def start(self, *words: str) -> None:
        path = find(words[0])
        assert path is not None
        with (self.state / "daemons.log").open("ab") as log:
            self.daemons.append(
                subprocess.Popen([path, *words[1:]], env=self.environment, stdout=log, stderr=log)
            )

    def up(self, *, is_again: bool = False) -> None:
        """Start all daemons; again, as after a power cut, they know the jobs from before."""
        munge = self.state / "munge"
        (munge / "socket").unlink(missing_ok=True)
        words = [f"--{name}={munge / name}" for name in ("socket", "log-file", "seed-file")]
        keys = [f"--key-file={munge / 'key'}", f"--pid-file={munge / 'pid'}"]
        self.start("munged", "--foreground", "--force", *words, *keys)
        wait_for(lambda: (munge / "socket").exists())
        self.start("slurmctld", "-D", *([] if is_again else ["-c"]))
        for node in NODES:
            self.start("slurmd", "-D", "-N", node)
        wait_for(lambda: nodes_up(self.environment) == len(NODES))
        if is_again:
            self.declare_lost()

    def declare_lost(self) -> None:
        """Say that what ran on the nodes runs no more, as who looks after a cluster does."""
        for node in NODES:
            for state in ("DOWN", "RESUME"):  # a node whose job is gone is back by itself
                words = ["scontrol", "update", f"NodeName={node}", f"State={state}", "Reason=power"]
                subprocess.run(words, env=self.environment, capture_output=True, check=False)
        wait_for(lambda: nodes_up(self.environment) == len(NODES))

    def crash(self) -> None:
        """Kill the daemons, the jobs and all that is theirs: the power fails, or tests end."""
        for process in self.daemons:
            process.kill()
            process.wait()
        self.daemons = []
        mark = f"SLURM_CONF={self.state}".encode()
        while found := [pid for pid in map(int, _numbers()) if mark in _environment(pid)]:
            for pid in found:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.1)

    def run(self, *words: object, cwd: Path, seconds: float = 120) -> str:
        """What a command prints; it must not fail."""
        done = subprocess.run(
            [str(word) for word in words],
            env=self.environment,
            cwd=cwd,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        return done.stdout + done.stderr


@contextmanager
def slurm(state: Path) -> Iterator[Cluster]:
    """Start it in a directory of its own, end it."""
    host = socket.gethostname().partition(".")[0]
    base = free_ports()
    (state / "munge").mkdir(mode=0o700)
    for name in ("ctld", *NODES):
        (state / name).mkdir()
    (state / "cgroup.conf").write_text("CgroupAutomount=no\nConstrainCores=no\n")
    (state / "munge" / "key").write_bytes(os.urandom(1024))
    (state / "munge" / "key").chmod(0o600)
    (state / "slurm.conf").write_text(
        CONFIGURATION.format(
            host=host,
            state=state,
            port=base,
            # As in real clusters, ids are not used again: MPICH names its shared memory by them,
            # and a job that was killed leaves it behind.
            job=1 + int.from_bytes(os.urandom(3)),
            first=base + 1,
            last=base + 4,
            low=base + 10,
            high=base + 90,
        )
    )
    cluster = Cluster(state)
    try:
        cluster.up()
        yield cluster
    finally:
        cluster.crash()


def _numbers() -> list[str]:
    return [name for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid()]


def _environment(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return b""


def nodes_up(environment: dict[str, str]) -> int:
    """How many nodes are ready, or busy with jobs that came back."""
    words = ["sinfo", "--noheader", "--Node", "--format", "%T"]
    said = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    return sum(word in ("idle", "mixed", "allocated") for word in said.stdout.split())


def wait_for(is_true) -> None:
    """Until it is so."""
    deadline = time.monotonic() + UP_S
    while not is_true():
        assert time.monotonic() < deadline, "Slurm did not come up"
        time.sleep(0.1)


def free_ports() -> int:
    """The first of a hundred ports, of which the daemons' are free.

    They are below those that the kernel gives to connections, which other tests make meanwhile.
    """
    while True:
        base = 20_000 + int.from_bytes(os.urandom(2)) % 12_000
        if all(map(is_free, range(base, base + 5))):
            return base


def is_free(port: int) -> bool:
    """Whether a daemon can listen at a port."""
    with socket.socket() as probe:
        try:
            probe.bind(("", port))
        except OSError:
            return False
    return True
