"""Compiled programs that are hard on what is preloaded into them."""

import platform
import subprocess

import pytest

from insitu.collectors.table import TableReader
from tests.support.parameters import plain_and_full
from tests.system.conftest import BINARIES
from tests.system.hostile.compare import PROGRAMS, compare, compile_program
from tests.system.hostile.relro import end_relro_inside_a_page

pytestmark = [pytest.mark.mpi, pytest.mark.native]

USER = """
#include <dlfcn.h>
int use(void) {
  void *library = dlopen("libplug.so", RTLD_NOW);
  return library ? ((int (*)(void))dlsym(library, "plug"))() : -1;
}
"""
ORIGIN = "extern int use(void); int origin(void) { return use(); }"
RPATH = "-Wl,--disable-new-dtags -Wl,-rpath,$ORIGIN/inner"

LIBRARY = BINARIES["mpich"].parent / "lib" / "libmpi.so.12"


def test_a_cancelled_thread_takes_no_lock_with_it(bench):
    program = compile_program(bench, "cancelled_threads.c", "-finstrument-functions", "-pthread")

    both = compare(bench, program, ranks=1)

    assert both.bare.out == "done\n"
    assert both.differences() == []


def test_a_child_of_clone_leaves_the_table_of_its_parent_alone(bench):
    program = compile_program(bench, "raw_clone.c", "-finstrument-functions")

    both = compare(bench, program, ranks=1)

    assert both.bare.out == "the child ended with 7\n"
    assert both.differences() == []
    (path,) = bench.left_tables()
    head = TableReader(str(path)).header
    assert head.exit_status == 0


def test_a_program_neither_sees_nor_traps_inexact_results_of_ours(each_mpi):
    program = compile_program(each_mpi, "traps_inexact.c", "-finstrument-functions", "-lm")

    both = compare(each_mpi, program, ranks=2)

    assert both.bare.out == "traps as set, raised 0\n"
    assert both.differences() == []


@pytest.mark.skipif(platform.machine() != "x86_64", reason="registers of x86-64")
@plain_and_full("word", ["alignment-checks", "other-thread-pointer"], plain=2)
def test_samples_need_no_register_that_the_program_may_change(bench, word):
    program = compile_program(bench, "machine.c", "-O1", "-pthread")

    both = compare(bench, program, word, ranks=1)

    assert both.bare.code == 0
    assert both.differences() == []
    (path,) = bench.left_tables()
    assert TableReader(str(path)).header.samples > 0


@pytest.mark.full
@pytest.mark.skipif(platform.machine() != "x86_64", reason="the program is rewritten for x86-64")
def test_data_in_the_last_page_of_relro_stays_writable(bench):
    program = compile_program(bench, "shared_page.c", "-Wl,-z,now,-z,norelro")
    end_relro_inside_a_page(program)

    both = compare(bench, program, ranks=1)

    assert both.bare.out == "counted to 5\n"
    assert both.differences() == []


@pytest.mark.full
@pytest.mark.parametrize(
    ("binding", "times"),
    [
        ("lazy", 10),
        pytest.param("now", 10, marks=pytest.mark.full),
        pytest.param("lazy", 1000, marks=pytest.mark.full),
        pytest.param("now", 1000, marks=pytest.mark.full),
    ],
)
def test_a_library_is_loaded_while_other_threads_call_mpi(bench, binding, times):
    library = compile_program(
        bench, "plugin.c", "-shared", "-fPIC", f"-Wl,-z,{binding}", output="libplugin.so"
    )
    program = compile_program(bench, "load_race.c", "-finstrument-functions", "-pthread", "-ldl")

    both = compare(bench, program, library, times, ranks=1, seconds=300)

    assert both.bare.out == f"{times} calls\n"
    assert both.differences() == []
    assert not bench.ingest().errors
    assert sum_of_visits(bench, "MPI_Barrier") == times


def sum_of_visits(bench, name):
    """Visits of all call paths that end in this function, in rank 0."""
    table = bench.table()
    total = 0.0
    for path, values in zip(table.callpaths, table.values["visits"], strict=True):
        if path.name == name:
            total += float(values[0])
    return total


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the program steps as x86-64 does")
def test_a_signal_handler_works_at_any_instruction(bench):
    program = compile_program(bench, "stepped.c", "-finstrument-functions")

    outcome = bench.measure("-n", 1, program)

    handled = int(outcome.out)
    callers = {name: callers_of(bench, name) for name in ("outer", "inner", "handle", "leaf")}
    assert callers["outer"] == {"main": 51}
    assert callers["inner"] == {"outer": 102}
    assert sum(callers["handle"].values()) == handled
    assert callers["leaf"] == {"handle": handled}


@pytest.mark.full
def test_handlers_on_an_alternate_stack_leave_call_paths_right(bench):
    program = compile_program(bench, "alternate.c", "-finstrument-functions")

    outcome = bench.measure("-n", 1, program)

    assert outcome.out == "done\n"
    assert callers_of(bench, "stay") == {"descend": 10}
    assert callers_of(bench, "leaf") == {"stay": 10}
    assert callers_of(bench, "descend") == {"returning": 60, "jumping": 2500}
    assert callers_of(bench, "jump") == {"descend": 500, "overflow": 1}
    assert callers_of(bench, "talk") == {"returning": 10, "jumping": 1, "overflowing": 1, "main": 1}
    assert callers_of(bench, "MPI_Barrier") == {"talk": 13}


def test_a_library_at_the_address_of_an_unloaded_one_has_calls_of_its_own(bench):
    libraries = [
        compile_program(
            bench,
            "replaced_plugin.c",
            *("-shared", "-fPIC", "-finstrument-functions", f"-DWORK={name}", f"-DVALUE={calls}"),
            output=f"lib{name}.so",
        )
        for name, calls in (("alpha", 3), ("beta", 7))
    ]
    program = compile_program(bench, "reused_address.c", "-finstrument-functions", "-ldl")

    both = compare(bench, program, *libraries, ranks=1)

    assert both.bare.out == "sum 680 same 1\n"
    assert both.differences() == []
    assert not bench.ingest().errors
    visits = {name: sum_of_visits(bench, name) for name in ("alpha", "beta", "enter")}
    assert visits == {"alpha": 30, "beta": 70, "enter": 20}


def test_a_program_that_is_not_linked_with_mpi_is_measured_from_when_it_loads_it(bench):
    library = compile_program(bench, "extension.c", "-shared", "-fPIC", output="libextension.so")
    program = bench.folder / "host"
    subprocess.run(["gcc", "-o", program, PROGRAMS / "host.c", "-ldl"], check=True)

    both = compare(bench, program, library, ranks=2)

    assert both.bare.out == "2 ranks\n" * 2
    assert both.differences() == []
    assert not bench.ingest().errors
    assert callers_of(bench, "MPI_Allreduce") == {"step": 10}


def test_a_library_is_searched_where_the_loader_of_its_caller_is(bench):
    """DT_RPATH of a library applies to what the libraries that it needs load."""
    inner = bench.folder / "inner"
    inner.mkdir()
    for name, source, *flags in (
        ("inner/libplug.so", "int plug(void) { return 42; }"),
        ("inner/libuser.so", USER, "-ldl"),
        ("liborigin.so", ORIGIN, "-Linner", "-luser", *RPATH.split()),
    ):
        command = ["gcc", "-shared", "-fPIC", "-x", "c", "-", "-o", name, *flags]
        subprocess.run(command, cwd=bench.folder, input=source, text=True, check=True)
    program = compile_program(
        bench, "calls_origin.c", "-L.", "-lorigin", "-Wl,-rpath,$ORIGIN", "-Wl,-rpath-link,inner"
    )

    both = compare(bench, program, ranks=1)

    assert both.bare.out == "42\n"
    assert both.differences() == []
    assert not bench.ingest().errors
    assert sum_of_visits(bench, "MPI_Barrier") == 1


def test_what_a_sandbox_hides_is_named_and_not_invented(bench):
    program = compile_program(bench, "kernel.c", "-pthread")

    outcome = bench.measure("-n", 1, program, "landlocked")

    if "landlock 0" not in outcome.out:
        pytest.skip("this kernel has no Landlock")
    (text,) = (f.text for f in bench.records()[-1].findings if f.code == "process-unread")
    assert "memory of the rank at its end, memory of MPI, the time that it waited" in text
    assert "processor_wait" not in bench.table().values


def test_a_program_whose_sandbox_hides_the_library_runs_without_it(bench):
    program = compile_program(bench, "ring.c")
    sandbox = bench.folder / "sandbox"
    subprocess.run(["gcc", "-w", "-o", sandbox, PROGRAMS / "sandbox.c"], check=True)
    folders = ["/usr", "/lib", "/etc", "/dev", "/proc", "/sys", "/tmp", LIBRARY.parent.parent]

    both = compare(bench, sandbox, *folders, "--", program, ranks=1)

    assert both.bare.code == 0
    assert both.differences() == []


def test_a_program_that_can_read_about_itself_has_no_such_finding(bench):
    program = compile_program(bench, "kernel.c", "-pthread")

    bench.measure("-n", 1, program, "moves-data")

    assert "process-unread" not in {f.code for f in bench.records()[-1].findings}
    assert "memory_mpi" in bench.table().values


def test_a_receive_whose_error_was_handled_received_no_bytes(bench):
    program = compile_program(bench, "handled_errors.c")

    outcome = bench.measure("-n", 1, program)

    assert outcome.out == "handled 5\n"
    assert bench.values("handled_errors->main->MPI_Recv", "visits") == [5]
    assert bench.values("handled_errors->main->MPI_Recv", "bytes_received") == [0]


@pytest.mark.full
def test_a_program_that_loads_mpi_by_its_own_search_path_is_named(bench):
    library = compile_program(bench, "extension.c", "-shared", "-fPIC", output="libextension.so")
    program = bench.folder / "host"
    path = f"-Wl,--disable-new-dtags,-rpath,{bench.folder}"
    subprocess.run(["gcc", "-o", program, PROGRAMS / "host.c", "-ldl", path], check=True)

    outcome = bench.run("-n", 1, "--agent", "off", "--", program, library)

    assert outcome.code == 0, outcome.err
    assert outcome.out.startswith("1 ranks\n")
    reason = "a rank could not be measured: it loads MPI with dlopen, unseen by insitu"
    assert f"{reason}: {program}" in outcome.err


def test_a_program_that_looks_functions_of_mpi_up_itself_has_a_finding(bench):
    program = bench.folder / "loads_mpi"
    subprocess.run(["gcc", "-o", program, PROGRAMS / "loads_mpi.c", "-ldl"], check=True)

    outcome = bench.measure("-n", 1, "--", program, LIBRARY)

    assert (outcome.code, outcome.out) == (0, "loaded\n"), outcome.err
    (record,) = bench.records()
    assert "mpi-unseen" in {finding.code for finding in record.findings}


@pytest.mark.full
def test_a_python_program_that_looks_functions_of_mpi_up_itself_has_a_finding(bench):
    script = bench.script(f"""
        import ctypes
        library = ctypes.CDLL({str(LIBRARY)!r})
        library.MPI_Init(None, None)
        library.MPI_Finalize()
    """)

    outcome = bench.measure("-n", 1, "--", "python", script)

    assert outcome.code == 0, outcome.err
    (record,) = bench.records()
    assert "mpi-unseen" in {finding.code for finding in record.findings}


def callers_of(bench, name):
    """Visits of a function in rank 0, by its caller."""
    table = bench.table()
    visits = {}
    for path, values in zip(table.callpaths, table.values["visits"], strict=True):
        if path.name == name:
            caller = path.parent.name
            visits[caller] = visits.get(caller, 0) + int(values[0])
    return visits


@pytest.mark.full
def test_a_finding_says_that_functions_of_switched_stacks_have_wrong_call_paths(bench):
    program = compile_program(bench, "coroutines.c", "-finstrument-functions")

    both = compare(bench, program, ranks=1, options=("--agent", "on"))

    assert both.differences() == []
    texts = {finding.code: finding.text for finding in bench.records()[-1].findings}
    assert "the program switches stacks" in texts["stacks-switched"]
