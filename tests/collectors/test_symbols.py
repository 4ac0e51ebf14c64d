"""Names of compiled functions, from files that a compiler has made."""

import dataclasses
import shutil
import subprocess
import time

import pytest

from insitu.collectors import elf, symbols

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
    expected = {"alias", "only_here", "heat::solve(int)", "plate::relax"}

    assert expected <= names(library, time.time_ns())


def test_exported_functions_of_a_stripped_file_have_names(library):
    if not shutil.which("strip"):
        pytest.skip("no strip: apt install binutils")
    subprocess.run(["strip", str(library)], check=True)

    functions = names(library, time.time_ns())

    assert {"alias", "heat::solve(int)", "plate::relax"} <= functions
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
        (".hidden", ".hidden"),
    ],
)
def test_variants_of_a_function_are_the_function(tmp_path, symbol, shown):
    table = symbols.Symbols()
    table.files["/lib.so"] = elf.FunctionTable({16: symbol})

    assert table.name("/lib.so", "10", before_ns=0) == shown


@pytest.mark.skipif(shutil.which("addr2line") is None, reason="binutils read debug information")
def test_debug_information_tells_the_line_of_a_function(tmp_path):
    source, program = tmp_path / "a.cpp", tmp_path / "a.so"
    source.write_text("namespace app {\nint twice(int x) { return 2 * x; }\n}\n")
    subprocess.run(["c++", "-g", "-shared", "-fPIC", "-o", program, source], check=True)
    later = time.time_ns() + 10**9

    lines = symbols.find_lines(str(program), {"app::twice(int)", "missing"}, before_ns=later)

    assert lines == {"app::twice(int)": (str(source), 2)}
    assert symbols.find_lines(str(program), {"app::twice(int)"}, before_ns=1) == {}


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
        ("_ZN4mesh5solveEv._omp_fn.2", "mesh::solve() (parallel 3)"),
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
    assert symbols.Symbols().readable(symbol) == name


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
