"""Every kind of MPI call from C, against closed forms and against a second tool, on three ABIs."""

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.parameters import first_plain
from tests.system.conftest import BINARIES, Bench, _bench, mpi_standard

pytestmark = [pytest.mark.mpi, pytest.mark.native]

PROGRAMS = Path(__file__).parent / "programs"
P, B = 3, 80  # ranks; a buffer of ten doubles
COMPILERS = {"mpich": "mpicc", "mpi_abi": "mpicc_abi", "openmpi": "mpicc"}


@dataclass(frozen=True)
class Compiled:
    """A program compiled for one ABI."""

    bench: Bench
    abi: str

    def compile(self, *sources: Path, flags: tuple[str, ...] = (), cxx: bool = False) -> None:
        compiler = COMPILERS[self.abi].replace("cc", "cxx") if cxx else COMPILERS[self.abi]
        binaries = BINARIES[self.bench.mpi]
        command = [str(binaries / compiler), "-O1", "-w", *map(str, sources), *flags]
        if self.abi == "openmpi":
            command.append(f"-Wl,-rpath,{binaries.parent / 'lib'}")
        environment = self.bench.environment
        done = subprocess.run(
            command, cwd=self.bench.folder, env=environment, capture_output=True, check=False
        )
        assert done.returncode == 0, done.stderr.decode()

    def totals(self) -> dict[str, dict[str, list[int]]]:
        """Of the last run: MPI function → metric → one value per rank, summed over call paths."""
        table = self.bench.table()
        found: dict[str, dict[str, list[int]]] = {}
        for row, path in enumerate(table.callpaths):
            if not path.name.startswith("MPI_"):
                continue
            metrics = found.setdefault(path.name, {})
            for metric in METRICS:
                values = [0 if v != v else int(v) for v in table.values[metric][row]]
                before = metrics.get(metric, [0] * len(values))
                metrics[metric] = [a + b for a, b in zip(before, values, strict=True)]
        return found


METRICS = (
    *("visits", "bytes_sent", "bytes_received"),
    *("messages_sent", "messages_received", "comm_ranks"),
)


@pytest.fixture(params=first_plain(COMPILERS))
def compiled(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Compiled]:
    """For the ABI of MPICH; with `--full` also for that of MPI 5 and for that of Open MPI."""
    mpi = "openmpi" if request.param == "openmpi" else "mpich"
    for bench in _bench(tmp_path, mpi, request.config):
        if not (BINARIES[mpi] / COMPILERS[request.param]).exists():
            pytest.skip(f"no {COMPILERS[request.param]} in {BINARIES[mpi]}")
        yield Compiled(bench, request.param)


def ranks(value: object) -> list[int]:
    """One value for all ranks, or one for each."""
    return [value] * P if isinstance(value, int) else list(value)  # type: ignore[call-overload]


def every(*, large: bool, mpi4: bool) -> dict[str, tuple[object, ...]]:
    """What `programs/calls.c` does: visits, bytes sent, received, messages sent, received."""
    share, total = [8, 16, 24], 48  # one, two and three doubles
    at_0, at_1 = [1, 0, 0], [0, 1, 0]
    not_0, not_1 = [0, 1, 1], [1, 0, 1]
    ends = [1, 2, 1]  # neighbours in a line of three

    def times(amount: int, who: list[int]) -> list[int]:
        return [amount * x for x in who]

    lend, allreduce = int(large), 3 * int(mpi4)
    arriving = 2 * 56 + 3 * B + 48 * lend
    return {
        # 2 short, 1 of nobody, large
        "MPI_Send": (3 + lend, 2 * 56 + 48 * lend, 0, 2 + lend, 0),
        "MPI_Ssend": (1, B, 0, 1, 0),
        "MPI_Rsend": (1, B, 0, 1, 0),
        "MPI_Bsend": (1, B, 0, 1, 0),
        "MPI_Isend": (2 + 8, 2 * B + 8 * 40, 0, 10, 0),
        "MPI_Issend": (8, 8 * B, 0, 8, 0),
        "MPI_Irsend": (8, 0, 0, 0, 0),
        "MPI_Recv": (2, 0, B, 0, 1),
        "MPI_Mrecv": (2, 0, B, 0, 1),
        "MPI_Irecv": (2 + 2 + 1 + 1 + 16 + lend, 0, 0, 0, 0),
        "MPI_Imrecv": (1, 0, 0, 0, 0),
        "MPI_Sendrecv": (2, [B, 2 * B, 2 * B], [2 * B, 2 * B, B], [1, 2, 2], [2, 2, 1]),
        "MPI_Sendrecv_replace": (1, B, B, 1, 1),
        "MPI_Wait": (9 + lend, 0, arriving, 0, 5 + lend),
        "MPI_Waitany": (5, 0, B + 40, 0, 2),
        "MPI_Waitsome": (None, 0, B + 40, 0, 2),
        "MPI_Testsome": (None, 0, B + 40, 0, 2),
        "MPI_Testany": (None, 0, B + 40, 0, 2),
        "MPI_Testall": (None, 0, B + 40, 0, 2),
        "MPI_Test": (None, 0, B + 40, 0, 2),
        # twice of five, five times of a persistent pair, a file
        "MPI_Waitall": (19 + allreduce, 0, 2 * (B + 40) + 5 * B + 24, 0, 4 + 5),
        "MPI_Cancel": (1, 0, 0, 0, 0),
        "MPI_Startall": (4, 4 * B, 0, 4, 0),
        "MPI_Start": (2 + allreduce, (1 + allreduce) * B, allreduce * B, 1, 0),
        "MPI_Scan": (4, 4 * 4, 4 * 4, 0, 0),
        "MPI_Exscan": (3, 3 * B, times(B, not_0), 0, 0),
        "MPI_Allgather": (4, 8 * 10, 3 * 8 * 10, 0, 0),
        "MPI_Bcast": (1, times(B, at_1), times(B, not_1), 0, 0),
        "MPI_Reduce": (1, B, times(B, at_1), 0, 0),
        "MPI_Allreduce": (1, B, B, 0, 0),
        "MPI_Gather": (1, B, times(P * B, at_1), 0, 0),
        "MPI_Gatherv": (1, share, times(total, at_1), 0, 0),
        "MPI_Scatter": (1, times(P * B, at_1), B, 0, 0),
        "MPI_Scatterv": (1, times(total, at_1), share, 0, 0),
        "MPI_Allgatherv": (1 + lend, times(1 + lend, share), (1 + lend) * total, 0, 0),
        "MPI_Alltoall": (1, P * B, P * B, 0, 0),
        "MPI_Alltoallv": (1, times(P, share), total, 0, 0),
        "MPI_Alltoallw": (1, P * B, P * B, 0, 0),
        "MPI_Reduce_scatter": (1, total, share, 0, 0),
        "MPI_Reduce_scatter_block": (1, P * 16, 16, 0, 0),
        "MPI_Ibarrier": (1, 0, 0, 0, 0),
        # from rank 2, and from rank 0 to the other group
        "MPI_Ibcast": (2, [B, 0, B], [B, 2 * B, B], 0, 0),
        "MPI_Iallgather": (1, B, P * B, 0, 0),
        "MPI_Ialltoallv": (1, times(P, share), total, 0, 0),
        "MPI_Igather": (1, times(B, not_0), times(2 * B, at_0), 0, 0),
        "MPI_Iscatter": (1, times(2 * B, at_0), times(B, not_0), 0, 0),
        "MPI_Iallgatherv": (1, B, [2 * B, B, B], 0, 0),
        "MPI_Ireduce": (1, times(B, not_0), times(B, at_0), 0, 0),
        "MPI_Neighbor_allgather": (1, B, times(B, ends), 0, 0),
        "MPI_Neighbor_alltoall": (1, times(B, ends), times(B, ends), 0, 0),
        "MPI_Neighbor_alltoallv": (1, [16, 24, 8], [8, 24, 16], 0, 0),
        "MPI_Neighbor_allgatherv": (1, times(B, not_0), times(2 * B, at_0), 0, 0),
        "MPI_Put": (2, 32, 0, 1, 0),
        "MPI_Rput": (1, 32, 0, 1, 0),
        "MPI_Get": (1, 0, 24, 0, 1),
        "MPI_Accumulate": (1, 16, 0, 1, 0),
        "MPI_Get_accumulate": (2, 16, 16 + 40, 1, 2),
        "MPI_Fetch_and_op": (1, 8, 8, 1, 1),
        "MPI_Compare_and_swap": (1, 16, 8, 1, 1),
        "MPI_Win_fence": (4, 0, 0, 0, 0),
        "MPI_File_write_at": (1, B, 0, 0, 0),
        "MPI_File_read_at_all": (1, 0, B, 0, 0),
        "MPI_File_iread_at": (1, 0, 0, 0, 0),
        "MPI_File_read": (1, 0, P * B, 0, 0),
        "MPI_Comm_split": (4, 0, 0, 0, 0),
        "MPI_Comm_free": (6, 0, 0, 0, 0),
        "MPI_Finalize": (1, 0, 0, 0, 0),
    }


COMM_RANKS = {
    "MPI_Barrier": 2 * P,
    "MPI_Exscan": 1 + P + 1,
    "MPI_Neighbor_alltoall": P,
    "MPI_Comm_split": 4 * P,
    "MPI_Intercomm_create": [1, 2, 2],
    "MPI_Igather": P,  # of an intercommunicator both sides
    "MPI_File_open": P,
    "MPI_Send": 0,
}


def skip_if_it_fails_alone(bench: Bench, code: int) -> None:
    """Skip where the MPI library itself cannot run the program: MPICH 3.4.3 crashes in it."""
    if code == 0:
        return
    bare = bench.execute([*bench.mpiexec, "-n", str(P), "./calls", str(bench.folder / "file")])
    if bare.code != 0:
        pytest.skip(f"the program ends with {bare.code} without insitu, too")


@pytest.mark.parametrize("compiled", list(COMPILERS), indirect=True)
def test_every_kind_of_call_is_counted_exactly(compiled):
    speaks_mpi4 = mpi_standard(compiled.bench.mpi) >= 4
    flags = ("-o", "calls", *(["-DLARGE"] if speaks_mpi4 else []))
    compiled.compile(PROGRAMS / "calls.c", flags=flags)

    outcome = compiled.bench.measure("-n", P, "--", "./calls", compiled.bench.folder / "file")

    skip_if_it_fails_alone(compiled.bench, outcome.code)
    assert outcome.code == 0, outcome.err
    found = compiled.totals()
    expected = every(large=speaks_mpi4, mpi4=speaks_mpi4)
    for call, (visits, *amounts) in expected.items():
        got = [found[call][metric] for metric in METRICS[1:5]]
        assert got == [ranks(amount) for amount in amounts], call
        assert visits is None or found[call]["visits"] == ranks(visits), call
    for call, expected_ranks in COMM_RANKS.items():
        assert found[call]["comm_ranks"] == ranks(expected_ranks), call


def test_a_handle_that_is_used_again_means_what_it_means_now(compiled):
    compiled.compile(PROGRAMS / "reused.c", flags=("-o", "reused"))

    outcome = compiled.bench.measure("-n", P, "--", "./reused")

    assert outcome.code == 0, outcome.err
    again = re.search(r"reused (\d+) communicators, (\d+) types", outcome.out)
    assert again and int(again[1]) > 0 and int(again[2]) > 0, outcome.out
    found = compiled.totals()["MPI_Alltoallv"]
    doubles = 2 * sum((1 if i % 2 else P) * (1 + i % 3) for i in range(12))
    assert found["visits"] == [24] * P
    assert found["bytes_sent"] == found["bytes_received"] == [8 * doubles] * P
    assert found["comm_ranks"] == [2 * 6 * (P + 1)] * P


# ---- against a second tool, which is also a program with functions of MPI of its own -------------

PROTOTYPE = re.compile(
    r"\bint\s+(MPI_[A-Z][a-z]\w*)\s*\(([^;]*?)\)\s*(?:(?:MPI|ROMIO)\w*\s*(?:\([^;]*\))?\s*)*;", re.S
)
HEAD = """
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
static void tell(void);
"""
TAIL = """
static void tell(void) {
  char path[4096];
  int rank;
  PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  snprintf(path, sizeof path, "%s.%d", getenv("COUNTS"), rank);
  FILE *file = fopen(path, "w");
  for (int i = 0; i < COUNTED; i++)
    if (counts[i]) fprintf(file, "%s %ld\\n", names[i], counts[i]);
  fclose(file);
}
"""


def counter(header: str) -> str:
    """A tool that counts: one function for every prototype of an mpi.h, in the way PMPI is for."""
    header = re.sub(r"/\*.*?\*/", " ", header, flags=re.S)
    functions, names = [], []
    for name, text in PROTOTYPE.findall(header):
        words = " ".join(text.split())
        arguments = [] if words == "void" else words.split(",")
        if (
            name in names
            or "(" in words
            or "..." in words
            or "f08" in name
            or name == "MPI_Pcontrol"
        ):
            continue
        last = [re.sub(r"\[.*", "", argument).split("*")[-1].split()[-1] for argument in arguments]
        before = "tell(); " if name == "MPI_Finalize" else ""
        functions.append(
            f"int {name}({words}) {{ counts[{len(names)}]++; {before}"
            f"return P{name}({', '.join(last)}); }}"
        )
        names.append(name)
    assert len(names) > 250, "prototypes of another form"
    listed = ", ".join(f'"{name}"' for name in names)
    table = f"#define COUNTED {len(names)}\nstatic long counts[COUNTED];\n"
    return "\n".join([HEAD, table, f"static const char *names[] = {{{listed}}};", *functions, TAIL])


@pytest.mark.parametrize(
    ("compiled", "how"),
    [
        pytest.param("mpich", "linked", marks=pytest.mark.full),
        pytest.param("mpich", "preloaded", marks=pytest.mark.full),
        ("openmpi", "linked"),
        pytest.param("openmpi", "preloaded", marks=pytest.mark.full),
    ],
    indirect=["compiled"],
)
def test_counts_are_those_of_a_second_tool_and_the_tool_is_left_alone(compiled, how, monkeypatch):
    folder = compiled.bench.folder
    include = BINARIES[compiled.bench.mpi].resolve().parent / "include"
    names = (HEADER[compiled.abi], "mpi.h", "mpio.h")  # MPICH before 4.3 has one for files
    prototypes = "".join(
        (include / name).read_text() for name in names if (include / name).exists()
    )
    (folder / "counter.c").write_text(counter(prototypes))
    monkeypatch.setenv("COUNTS", str(folder / "counts"))
    if how == "linked":
        compiled.compile(PROGRAMS / "calls.c", folder / "counter.c", flags=("-o", "calls"))
    else:
        compiled.compile(folder / "counter.c", flags=("-shared", "-fPIC", "-o", "libcounter.so"))
        compiled.compile(PROGRAMS / "calls.c", flags=("-o", "calls"))
        monkeypatch.setenv("LD_PRELOAD", str(folder / "libcounter.so"))

    outcome = compiled.bench.measure("-n", P, "--", "./calls", folder / "file")

    skip_if_it_fails_alone(compiled.bench, outcome.code)
    assert outcome.code == 0, outcome.err
    recorded = compiled.totals()
    recorded = {
        name: metrics["visits"]
        for name, metrics in recorded.items()
        if any(metrics["visits"])  # not those of which only blocks are counted
    }
    counted: dict[str, list[int]] = {}
    for rank in range(P):
        for line in (folder / f"counts.{rank}").read_text().splitlines():
            name, count = line.split()
            counted.setdefault(name.removesuffix("_c"), [0] * P)[rank] += int(count)
    assert recorded.keys() <= counted.keys()
    assert recorded == {name: counted[name] for name in recorded}
    not_recorded = counted.keys() - recorded.keys()
    assert not_recorded <= {
        *("MPI_Comm_rank", "MPI_Comm_size", "MPI_Test_cancelled", "MPI_Type_commit"),
        "MPI_Comm_get_info",  # called by MPI_File_open inside of MPICH 4.2 and 4.3
    }


HEADER = {"mpich": "mpi_proto.h", "openmpi": "mpi.h"}


# ---- threads, and programs that do not end as they should ---------------------------------------


def test_threads_in_mpi_at_once_are_counted_exactly(compiled):
    compiled.compile(PROGRAMS / "threads.c", flags=("-o", "threads", "-pthread"))

    outcome = compiled.bench.measure("-n", 2, "--", "./threads")

    assert outcome.code == 0, outcome.err
    found = compiled.totals()
    rounds, threads = 200, 4
    moved = rounds * sum(range(1, threads + 1))  # thread i sends i + 1 bytes
    assert found["MPI_Irecv"]["visits"] == [rounds * threads] * 2
    assert found["MPI_Isend"]["bytes_sent"] == [moved] * 2
    assert found["MPI_Waitall"]["bytes_received"] == [moved // 2] * 2
    assert found["MPI_Wait"]["bytes_received"] == [moved // 2] * 2
    assert found["MPI_Wait"]["messages_received"] == [rounds * threads // 2] * 2
    assert found["MPI_Test"]["messages_received"] == [0, 0]


def test_a_program_without_mpi_finalize_is_recorded(compiled):
    compiled.compile(PROGRAMS / "threads.c", flags=("-o", "threads", "-pthread"))

    compiled.bench.measure("-n", 2, "--", "./threads", 0)

    assert compiled.totals()["MPI_Irecv"]["visits"] == [800, 800]


def test_a_call_that_an_exception_leaves_is_over(compiled):
    compiled.compile(PROGRAMS / "left_open.cc", flags=("-o", "left_open"), cxx=True)

    outcome = compiled.bench.measure("-n", 2, "--", "./left_open")

    assert (outcome.code, outcome.out) == (0, "3 1\n"), outcome.err
    found = compiled.totals()
    assert found["MPI_Send"]["visits"] == [3, 3]
    assert found["MPI_Send"]["bytes_sent"] == [0, 0]
    assert found["MPI_Ssend"]["messages_sent"] == [0, 0]
    assert found["MPI_Allreduce"]["visits"] == [5, 5]
    assert compiled.bench.values("left_open->main->MPI_Allreduce", "bytes_sent") == [40, 40]
