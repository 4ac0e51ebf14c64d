"""Names of compiled functions, from files that a compiler has made."""

import dataclasses
import shutil
import subprocess
import time

import pytest

from insitu.collectors import elf, symbols
from insitu.collectors.cpp_names import called_function, short_forms
from insitu.collectors.function_names import FunctionNames

SOURCE = """
int both(void) { return 1; }
extern __typeof__(both) alias __attribute__((alias("both")));
static int only_here(void) { return 2; }
int (*keep)(void) = only_here;
int _ZN4heat5solveEi(int n) { return n; }
int __plate_MOD_relax(int n) { return n; }
"""


@pytest.fixture
def library(tmp_path):
    compiler = shutil.which("cc") or shutil.which("gcc")
    if not compiler:
        pytest.skip("no C compiler: apt install gcc libc6-dev")
    (tmp_path / "lib.c").write_text(SOURCE)
    words = [compiler, "-shared", "-fPIC", "-o", "lib.so", "lib.c"]
    subprocess.run(words, check=True, cwd=tmp_path)
    return tmp_path / "lib.so"


def names(path, before_ns):
    functions = elf.read_functions(str(path), before_ns=before_ns).names
    table = symbols.Symbols()
    return {table.name(str(path), f"{address:x}", before_ns=before_ns) for address in functions}


def test_functions_have_the_names_of_the_source(library):
    expected = {"alias", "only_here", "heat::solve", "plate::relax"}

    assert expected <= names(library, time.time_ns())


def test_exported_functions_of_a_stripped_file_have_names(library):
    if not shutil.which("strip"):
        pytest.skip("no strip: apt install binutils")
    subprocess.run(["strip", str(library)], check=True)

    functions = names(library, time.time_ns())

    assert {"alias", "heat::solve", "plate::relax"} <= functions
    assert "only_here" not in functions


def test_a_file_that_was_rebuilt_later_names_nothing(library):
    table = symbols.Symbols()

    assert elf.read_functions(str(library), before_ns=1).names == {}
    assert table.name(str(library), "1136", before_ns=1) == "lib.so+0x1136"


@pytest.mark.parametrize("cut", [0, 5, 63, 64, 1000, -8])
def test_a_damaged_file_is_no_error(library, cut):
    data = library.read_bytes()
    library.write_bytes(data[:cut])

    functions = elf.read_functions(str(library), before_ns=time.time_ns())

    assert isinstance(functions, elf.FunctionTable)


def test_a_function_of_a_missing_file_is_named_by_its_address():
    name = symbols.Symbols().name("/nowhere/solver", "1136", before_ns=0)

    assert name == "solver+0x1136"


def stripped_of(library, how):
    """The library without local symbols, which are elsewhere or only in its debug information."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if not shutil.which("objcopy"):
        pytest.skip("no objcopy: apt install binutils")
    words = [compiler, "-g", "-shared", "-fPIC", "-Wl,--build-id", "-o", "lib.so", "lib.c"]
    subprocess.run(words, check=True, cwd=library.parent)
    before = elf.read_functions(str(library), before_ns=time.time_ns()).names
    steps = {
        "a file beside it": [
            ["objcopy", "--only-keep-debug", "lib.so", "lib.debug"],
            ["strip", "lib.so"],
            ["objcopy", "--add-gnu-debuglink=lib.debug", "lib.so"],
        ],
        "a compressed section": [
            ["objcopy", "--only-keep-debug", "--strip-debug", "lib.so", "small"],
            ["xz", "small"],
            ["strip", "lib.so"],
            ["objcopy", "--add-section=.gnu_debugdata=small.xz", "lib.so"],
        ],
        "its debug information": [["objcopy", "-N", "only_here", "lib.so"]],
    }
    for step in steps[how]:
        if not shutil.which(step[0]):
            pytest.skip(f"no {step[0]} on this machine")
        subprocess.run(step, check=True, cwd=library.parent)
    return next(address for address, name in before.items() if name == "only_here")


@pytest.mark.parametrize(
    "how", ["a file beside it", "a compressed section", "its debug information"]
)
def test_functions_of_a_stripped_file_are_named_by(library, how):
    address = stripped_of(library, how)
    table, before_ns = symbols.Symbols(), time.time_ns()

    assert table.name(str(library), f"{address:x}", before_ns=before_ns) == "only_here"
    assert table.name(str(library), "7", before_ns=before_ns) == "lib.so+0x7"


@pytest.mark.parametrize(
    ("symbol", "shown"),
    [
        ("inner.0", "inner"),
        ("relax.constprop.0.isra.1", "relax"),
        ("__plate_MOD_relax.part.3", "plate::relax"),
        ("_QMplatePrelax", "plate::relax"),
        ("plate_mp_relax_", "plate::relax"),
        (".hidden", ".hidden"),
    ],
)
def test_variants_of_a_function_are_the_function(symbol, shown):
    assert FunctionNames(elf.FunctionTable({16: symbol})).name(symbol, 16) == shown


@pytest.mark.skipif(shutil.which("addr2line") is None, reason="binutils read debug information")
@pytest.mark.parametrize("is_separated", [False, True])
def test_debug_information_tells_the_line_of_a_function(tmp_path, is_separated):
    source, program = tmp_path / "a.cpp", tmp_path / "a.so"
    source.write_text("namespace app {\nint twice(int x) { return 2 * x; }\n}\n")
    subprocess.run(["c++", "-g", "-shared", "-fPIC", "-o", program, source], check=True)

    asked = {"app::twice", "app::twice(int)", "missing"}
    if is_separated:
        for step in (
            ["objcopy", "--only-keep-debug", program, tmp_path / "a.debug"],
            ["strip", program],
            ["objcopy", f"--add-gnu-debuglink={tmp_path / 'a.debug'}", program],
        ):
            subprocess.run(step, check=True, cwd=tmp_path)
    later = time.time_ns() + 10**9

    lines = symbols.find_lines(str(program), asked, before_ns=later)

    # Campaigns of earlier versions have names with arguments.
    assert lines == dict.fromkeys(["app::twice", "app::twice(int)"], (str(source), 2))
    assert symbols.find_lines(str(program), {"app::twice"}, before_ns=1) == {}


@pytest.mark.skipif(shutil.which("addr2line") is None, reason="binutils read debug information")
def test_the_line_of_a_function_is_not_that_of_another_one_inlined_at_its_beginning(tmp_path):
    """The first instruction of `find` belongs to the header, as if it were part of that library."""
    source, program = tmp_path / "a.cpp", tmp_path / "a.so"
    (tmp_path / "list.h").write_text(
        "struct List { const long *first; long size() const { return first[1] - *first; } };\n"
    )
    source.write_text('#include "list.h"\n\n\nlong find(const List &list) {return list.size();}\n')
    subprocess.run(["c++", "-g", "-O2", "-shared", "-fPIC", "-o", program, source], check=True)
    later = time.time_ns() + 10**9

    assert symbols.find_lines(str(program), {"find"}, before_ns=later) == {"find": (str(source), 4)}


@pytest.mark.skipif(shutil.which("addr2line") is None, reason="binutils read debug information")
def test_the_line_of_a_function_is_not_that_of_a_part_of_it(tmp_path, monkeypatch):
    source, program = tmp_path / "a.c", tmp_path / "a.so"
    source.write_text("int header(int x) { return x; }\n\nint solve(int x) { return 2 * x; }\n")
    subprocess.run(["cc", "-g", "-shared", "-fPIC", "-o", program, source], check=True)
    later = time.time_ns() + 10**9
    table = elf.read_functions(str(program), before_ns=later)
    names = {
        address: {"header": "solve.cold"}.get(symbol, symbol)
        for address, symbol in table.names.items()
    }
    monkeypatch.setattr(
        symbols, "read_functions", lambda *_, **__: dataclasses.replace(table, names=names)
    )

    assert symbols.find_lines(str(program), {"solve"}, before_ns=later) == {
        "solve": (str(source), 3)
    }


@pytest.mark.parametrize(
    ("symbol", "name"),
    [
        ("solve._omp_fn.0", "solve (parallel 1)"),
        ("_ZN4mesh5solveEv._omp_fn.2", "mesh::solve (parallel 3)"),
        ("__work_MOD_fill._omp_fn.1", "work::fill (parallel 2)"),
        ("solve._omp_fn.0.constprop.0", "solve (parallel 1)"),
        ("solve.omp_outlined", "solve (parallel 1)"),
        ("solve.omp_outlined.3", "solve (parallel 4)"),
        (".omp_outlined.", "(parallel 1)"),
        (".omp_outlined..12", "(parallel 13)"),
        (".omp_outlined._debug__.3", "(parallel 4)"),
    ],
)
def test_outlined_functions_are_named_as_parallel_regions(symbol, name):
    assert FunctionNames(elf.FunctionTable({16: symbol})).name(symbol, 16) == name


@pytest.mark.parametrize(
    ("name", "is_marking"),
    [
        ("nvtxRangePushA", True),
        (
            "nvtx3::v1::scoped_range_in<nvtx3::v1::domain::global>::scoped_range_in(char const*)",
            True,
        ),
        ("Kokkos::Tools::beginParallelFor(std::string const&, unsigned int, unsigned long*)", True),
        ("std::enable_if<is_policy<A>::value, void>::type Kokkos::parallel_for<A>(int)", True),
        ("void Kokkos::parallel_reduce<main::{lambda(int)#1}>(main::{lambda(int)#1})", True),
        ("solve(int, Kokkos::Tools::Section&)", False),
        ("void solve<int>(int, Kokkos::Tools::Section&)", False),
        ("renderer::nvtxRangePushA", False),
        ("Kokkos::parallel_forest(int)", False),
        ("main", False),
        ("(parallel 1)", False),
        ("", False),
    ],
)
def test_functions_that_mark_regions_are_known_by_their_own_names(name, is_marking):
    assert symbols.is_annotating(name) == is_marking


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("_ZTS7Functor", "Functor"),
        ("_ZTSZN5plate5solveEiEUliE_", "plate::solve(int)::{lambda(int)#1}"),
        ("_ZTSNewton", "Newton"),  # a kernel's own name that begins like that of a type
        ("7Functor", "7Functor"),  # a region that is no kernel
        ("i", "i"),
    ],
)
def test_kernels_without_a_name_have_that_of_their_type(name, shown):
    assert symbols.Symbols().region_name(name) == shown


VECTOR = "std::vector<double, std::allocator<double> >"
TEXT = "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >"


@pytest.mark.parametrize(
    ("full", "short", "long"),
    [
        ("app::run(int) const", "app::run", "app::run(int) const"),
        (f"app::run({VECTOR}&)", "app::run", "app::run(std::vector<double>&)"),
        (f"void app::run<{TEXT}>({TEXT})", "app::run<std::string>", None),
        ("app::Field<app::Cell, 3>::operator()(int)", "app::Field<app::Cell, 3>::operator()", None),
        ("app::run(int)::{lambda(char)#1}::operator()(char) const", None, None),
        ("(anonymous namespace)::run(int)", "(anonymous namespace)::run", None),
        ("std::ostream& app::operator<< <int>(std::ostream&, int)", "app::operator<< <int>", None),
        ("app::Field::operator bool() const", "app::Field::operator bool", None),
        ("unsigned long app::count<(char)62>(int)", "app::count<(char)62>", None),
        ("main", "main", "main"),
    ],
)
def test_names_of_cpp_have_no_defaults_results_and_arguments(full, short, long):
    forms = short_forms(full)

    assert forms[0] == (short or "app::run::{lambda(char)#1}")
    assert forms[2] == full
    if long:
        assert forms[1] == long


def test_functions_of_one_name_are_told_apart_and_others_are_short():
    """By their arguments, by their source files, or by their numbers among inner functions."""
    table = elf.FunctionTable(
        {
            **{1: "_ZN3app3runEi", 2: "_ZN3app3runEd", 3: "_ZN3app4stopEi"},
            **{4: "init", 5: "init", 6: "halo.0", 7: "halo.1", 8: "swap_.constprop.0"},
            **{9: "main", 10: "main.cold", 11: "solve_", 12: "solve", 13: "setup_"},
        },
        sources={4: "a.c", 5: "b.c", 6: "m.f90", 7: "m.f90", 10: "a.c"},
        uses_fortran=True,
    )
    functions = FunctionNames(table)

    names = [functions.name(symbol, address) for address, symbol in table.names.items()]

    assert names == [
        *("app::run(int)", "app::run(double)", "app::stop", "init (a.c)", "init (b.c)"),
        *("halo.0", "halo.1", "swap", "main", "main", "solve_", "solve", "setup"),
    ]
    assert functions.find("init (b.c)") == [5]


HANDLER = "std::_Function_handler<int (int, char), run::{lambda(int, char)#2}>::_M_invoke"
STATE = "std::thread::_State_impl<std::thread::_Invoker<std::tuple<{}>>>::_M_run"


@pytest.mark.parametrize(
    ("name", "called"),
    [
        (STATE.format("main::{lambda(int, char)#1}, int"), "main::{lambda(int, char)#1}"),
        (STATE.format("void (*)(int), int"), ""),
        (HANDLER, "run::{lambda(int, char)#2}"),
        ("run::{lambda(void*)#1}::_FUN", "run::{lambda(void*)#1}"),
        ("std::sort<int*>", None),
    ],
)
def test_what_the_standard_library_only_calls_gives_it_its_name(name, called):
    assert called_function(name) == called


INLINED = """
int MPI_Gather(int);
int MPI_Send(int);
static int combine(int n) { return MPI_Gather(n) + 1; }
static int left(int n) { return MPI_Send(n) + 1; }
static int right(int n) { return MPI_Send(n) + 2; }
int run(int n) {
  for (int i = 0; i < n; i++) n += combine(i) + left(i) + right(i);
  return n + MPI_Gather(n) + 3;
}
int step(int n) { return combine(n) + 4; }
"""


@pytest.mark.skipif(
    not all(map(shutil.which, ("cc", "objdump", "addr2line"))), reason="needs gcc and binutils"
)
def test_inlined_functions_are_named_if_they_alone_make_a_call(tmp_path):
    (tmp_path / "lib.c").write_text(INLINED)
    words = ["cc", "-g", "-O2", "-shared", "-fPIC", "-o", "lib.so", "lib.c"]
    subprocess.run(words, check=True, cwd=tmp_path)
    library, now = str(tmp_path / "lib.so"), time.time_ns()

    ((name, source, line),) = symbols.find_inlined(library, "step", ["MPI_Gather"], before_ns=now)

    assert (name, source.endswith("/lib.c"), line) == ("combine", True, 4)
    assert symbols.find_inlined(library, "run", ["MPI_Gather"], before_ns=now) == []  # itself too
    assert symbols.find_inlined(library, "step", ["MPI_Gather"], before_ns=0) == []  # rebuilt
    both = symbols.find_inlined(library, "run", ["MPI_Send"], before_ns=now)
    assert [(name, line) for name, _, line in both] == [("left", 5), ("right", 6)]


@pytest.mark.skipif(
    not all(map(shutil.which, ("cc", "objdump", "addr2line"))), reason="needs gcc and binutils"
)
def test_inlined_functions_that_allocate_for_others_are_passed_over(tmp_path):
    (tmp_path / "lib.c").write_text(
        "#include <stdlib.h>\n"
        "static void *xmalloc(int n) { void *p = malloc(n); if (!p) abort(); return p; }\n"
        "static int *table(int n) { int *t = xmalloc(4 * n); t[n - 1] = n; return t; }\n"
        "int *build(int n) { int *t = table(n); t[0] = 1; return t; }\n"
        "int *fill(int n) { int *t = xmalloc(n); t[0] = 2; return t; }\n"
    )
    words = ["cc", "-g", "-O2", "-shared", "-fPIC", "-o", "lib.so", "lib.c"]
    subprocess.run(words, check=True, cwd=tmp_path)
    library, now = str(tmp_path / "lib.so"), time.time_ns()

    (found,) = symbols.find_inlined(library, "build", ["malloc"], before_ns=now)

    assert (found[0], found[2]) == ("table", 3)
    assert symbols.find_inlined(library, "fill", ["malloc"], before_ns=now) == []


def test_calls_of_bindings_and_variants_have_the_names_of_c(monkeypatch):
    listing = """
  4011d6:\te8 65 fe ff ff       \tcall   401040 <mpi_gather_@plt>
  4011e0:\te8 65 fe ff ff       \tcallq  401050 <PMPI_Send>
  4011ea:\tff 15 e2 2f 00 00    \tcall   *0x2fe2(%rip)        # 403fd8 <mpi_bcast_f08ts_@Base>
  4011f4:\t94000010 \tbl\t401234 <MPI_Recv@plt>
  4011fe:\te8 65 fe ff ff       \tjmp    401070 <MPI_Wait@plt>
  401208:\te8 65 fe ff ff       \tcall   401080 <__fprintf_chk@plt>
  401212:\te8 65 fe ff ff       \tcall   401090 <fopen64@plt>
"""
    monkeypatch.setattr(symbols, "_run_tool", lambda words, text: listing)
    monkeypatch.setattr(symbols.shutil, "which", lambda tool: tool)

    calls = symbols._find_calls("prog", 0x401000, 0x402000)

    of_mpi, of_files = ["mpi_gather", "mpi_send", "mpi_bcast", "mpi_recv"], ["fprintf", "fopen"]
    assert [name for _, name in calls] == of_mpi + of_files
