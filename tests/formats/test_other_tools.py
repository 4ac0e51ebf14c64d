"""What other tools read is what was measured: written and read again, compiled, executed."""

import json
import runpy
import shutil
import subprocess
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from insitu import fit
from insitu.campaign.load import load_experiment
from insitu.entities import TIME, TIME_EXCLUSIVE, VISITS, CallPath, Finding, RunKey
from insitu.errors import UsageError
from insitu.formats.base import EXPORTERS, load_exporter, load_exporter_for, load_importer
from insitu.formats.extrap import measurements, split_complete
from insitu.formats.jsonl import JsonLines
from insitu.formats.reading import parse_file_name
from insitu.formats.table import neutralise_cell
from insitu.modeling.base import (
    CROWDED,
    ChangePoint,
    Model,
    ModelSet,
    Quality,
    Segment,
    SeriesModel,
)
from insitu.modeling.measurement import Experiment, RunTable, SeriesKey
from insitu.modeling.pipeline import remodel
from insitu.modeling.pmnf import Factor, Function, Term
from tests.support.campaigns import heat_campaign

HOSTILE = 'a"b\\c\n*/ %s ;{}$&#_?? ü</script>'
CROWDING = Finding(CROWDED, "8 ranks on 2 cores")
NO_RANK = json.dumps(
    {
        "data": [[1e300, 0]],
        "columns": ["mpi.rank", "path"],
        "column_metadata": [{"is_value": True}, {"is_value": False}],
        "nodes": [{"label": "main"}],
    }
).encode()
OF_EXTRAP = {"json": ".json", "extra-p": ".extra-p", "extra-p-text": ".txt"}


@pytest.fixture(scope="module")
def campaign(tmp_path_factory) -> tuple[Experiment, ModelSet]:
    path = str(tmp_path_factory.mktemp("kept") / "heat.insitu")
    with heat_campaign(path) as store:
        experiment = load_experiment(store)
    return experiment, remodel(experiment)


@pytest.fixture
def hostile() -> ModelSet:
    """A model of two parameters and one with a change, under a hostile name."""
    half = Factor("p", Fraction(1, 2), Fraction(1))
    both = Function(("p", "n"), 1.5, (Term(0.25, (half, Factor("n", Fraction(2)))),))
    low = Function(("p",), 1.0, (Term(2.0, (Factor("p", Fraction(-1)),)),))
    high = Function(("p",), -3.0, (Term(0.5, (Factor("p", gamma=Fraction(1, 4)),)),))
    points = np.array([[2.0], [4.0], [8.0], [16.0]])
    segments = (Segment(-np.inf, 4, low), Segment(8, np.inf, high))
    quality = Quality(1.0, 0.9)
    models = [
        Model(
            ("p", "n"),
            (Segment(-np.inf, np.inf, both),),
            quality,
            "search",
            points.repeat(2, 1),
            np.ones(4),
        ),
        Model(("p",), segments, quality, "search", points, np.ones(4), (ChangePoint(4, 8),)),
    ]
    return ModelSet(
        ("p",),
        [
            SeriesModel(SeriesKey(CallPath((HOSTILE, "->")), f"time{i}", HOSTILE), TIME, model)
            for i, model in enumerate(models)
        ],
    )


def written(name: str, experiment: Experiment, models: ModelSet, file: Path) -> Path:
    with file.open("wb") as out:
        load_exporter(name).write(experiment, models, out)
    return file


@pytest.mark.parametrize("name", OF_EXTRAP)
def test_exports_for_extrap_import_unchanged(name, campaign, tmp_path):
    file = written(name, *campaign, tmp_path / f"heat{OF_EXTRAP[name]}")

    found = JsonLines().take(load_importer(name).rows(str(file)))

    assert found.bad == ()
    again = measurements(Experiment(campaign[0].parameters, found.runs), ModelSet())
    before = measurements(*campaign)
    if name == "extra-p-text":  # holds only what was measured at every point
        before, _ = split_complete(before)
    assert len(before) >= 5
    assert again == before


def test_extrap_lines_can_be_imported(campaign, tmp_path):
    file = written("extra-p-jsonl", *campaign, tmp_path / "heat.extra-p.jsonl")

    with file.open("rb") as lines:
        found = JsonLines().read(lines)

    again = measurements(Experiment(("p",), found.runs), ModelSet())
    assert (found.bad, again) == ((), split_complete(measurements(*campaign))[0])


def test_series_that_extrap_refuses_are_left_out(campaign, tmp_path):
    data = json.loads(written("json", *campaign, tmp_path / "a.json").read_text())

    counts = {len(points) for of in data["measurements"].values() for points in of.values()}
    assert counts == {5}
    assert {len(points) for of in data["incomplete"].values() for points in of.values()} == {3}


def test_the_same_campaign_gives_the_same_experiment(campaign, tmp_path):
    first, second = (written("extra-p", *campaign, tmp_path / name) for name in "ab")

    assert first.read_bytes() == second.read_bytes()


def test_a_series_without_all_points_is_listed_in_the_text(tmp_path):
    table = RunTable((CallPath(("main",)),), (TIME,), {"time": np.array([[1.0]])})
    both = RunTable((*table.callpaths, CallPath(("b",))), (TIME,), {"time": np.ones((2, 1))})
    runs = ((RunKey.of({"p": 1}), table), (RunKey.of({"p": 2}), both))

    file = written("extra-p-text", Experiment(("p",), runs), ModelSet(), tmp_path / "a.txt")

    assert "# left out, not measured at every point: b time" in file.read_text()
    assert len(list(load_importer("extra-p-text").rows(str(file)))) == 2


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("json", b'{"parameters": 3, "measurements": {"a": 4}}'),
        ("json", b"[1, 2]"),
        ("json", b"\xff\xfe"),
        ("extra-p", b"PK\x05\x06"),
        ("extra-p-text", b"PARAMETER p\nPOINTS 1 2\nDATA 1\nDATA 2\nDATA 3\n"),
        ("extra-p-text", b"POINTS 1 2\n"),
        ("extra-p-text", b"HELLO there\n"),
        ("extra-p-text", b'{"parameters":{"x":1};"metric":"time"}\n'),
        ("caliper-json", b'{"data": [[1]], "columns": ["a"], "nodes": []}'),
        ("caliper-json", NO_RANK),
        ("hatchet", b'{"graph": [], "dataframe": [{"node": 1}]}'),
        ("hatchet", b'{"graph": [{"0": {}}], "dataframe": []}'),
        ("hatchet", b"[1]"),
    ],
)
def test_invalid_files_are_refused_by_name(name, content, tmp_path):
    file = tmp_path / "bad"
    file.write_bytes(content)

    with pytest.raises(UsageError, match="bad"):
        list(load_importer(name).rows(str(file)))


def test_lines_of_talpas_are_repetitions(tmp_path):
    line = '{{"parameters":{{"x":{}}};"metric":"flops";"callpath":"main->sort";"value":{}}}\n'
    text = "".join(line.format(x, v) for x, v in ((20, 1.5), (20, 2.5), (40, 3)))
    (tmp_path / "talpas.txt").write_text(text)

    found = JsonLines().take(load_importer("extra-p-text").rows(str(tmp_path / "talpas.txt")))

    assert [str(key) for key, _ in found.runs] == ["p=1,x=20#0", "p=1,x=20#1", "p=1,x=40#0"]
    assert [table.values["flops"].item() for _, table in found.runs] == [1.5, 2.5, 3.0]


def test_extrap_3_refers_to_everything_by_number(tmp_path):
    pairs = [{"parameter_id": 1, "parameter_value": 8}]
    data = {
        "parameters": [{"id": 1, "name": "p"}],
        "callpaths": [{"id": 1, "name": "main->a"}],
        "metrics": [{"id": 1, "name": "time"}],
        "coordinates": [{"id": 1, "parameter_value_pairs": pairs}],
        "measurements": [
            {"id": i, "coordinate_id": 1, "callpath_id": 1, "metric_id": 1, "value": i}
            for i in (1, 2)
        ],
    }
    (tmp_path / "old.json").write_text(json.dumps(data))

    found = JsonLines().take(load_importer("json").rows(str(tmp_path / "old.json")))

    assert [str(key) for key, _ in found.runs] == ["p=8#0", "p=8#1"]
    assert [table.values["time"].tolist() for _, table in found.runs] == [[[1.0]], [[2.0]]]


def test_a_python_module_returns_what_the_formulas_do(campaign, hostile, tmp_path):
    for number, models in enumerate((campaign[1], hostile)):
        file = written("python", campaign[0], models, tmp_path / f"m{number}.py")
        functions = runpy.run_path(str(file))["MODELS"]

        assert len(functions) == len(models.models)
        for series in models.models:
            key = (str(series.key.callpath), series.key.metric, series.key.behaviour)
            for x in (0.5, 4.0, 6.0, 6.5, 100.0):
                at = [x, 3 * x][: len(series.model.parameters)]
                expected = series.model.formula_at([at])[0]
                assert functions[key](*at) == pytest.approx(expected, rel=1e-12)


def test_a_c_header_returns_what_the_formulas_do(campaign, hostile, tmp_path):
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    models = ModelSet(("p",), [*campaign[1].models, *hostile.models])
    written("c", campaign[0], models, tmp_path / "models.h")
    places = (0.5, 4.0, 6.0, 6.5, 100.0)
    (tmp_path / "main.c").write_text(
        '#include <stdio.h>\n#include "models.h"\nint main(void) {\n'
        f"  const double xs[] = {{{', '.join(map(repr, places))}}};\n"
        "  for (const struct insitu_model *m = insitu_models; m->value; m++)\n"
        "    for (int i = 0; i < 5; i++) {\n"
        "      const double at[] = {xs[i], 3 * xs[i]};\n"
        '      printf("%.17g\\n", m->value(at));\n    }\n  return 0;\n}\n'
    )
    flags = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic"]

    subprocess.run(
        [compiler, *flags, "main.c", "-o", "main", "-lm"], cwd=tmp_path, check=True, timeout=60
    )
    answer = subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=True)

    expected = [
        series.model.formula_at([[x, 3 * x][: len(series.model.parameters)]])[0]
        for series in models.models
        for x in places
    ]
    assert [float(line) for line in answer.stdout.split()] == pytest.approx(expected, rel=1e-12)


def test_a_flame_graph_has_the_exclusive_time_of_a_mean_rank(campaign, tmp_path):
    (table,) = [t for key, t in campaign[0].runs if (key.size, key.repetition) == (16, 1)]
    total = table.values["time_exclusive"].mean(axis=1).sum()

    folded = written("folded", *campaign, tmp_path / "a").read_text().splitlines()
    profile = json.loads(written("speedscope", *campaign, tmp_path / "b").read_text())

    assert folded[-1].startswith("main;solve;residual;MPI_Allreduce ")
    assert sum(int(line.rpartition(" ")[2]) for line in folded) == pytest.approx(1e6 * total, abs=4)
    mean = profile["profiles"][0]
    assert sum(mean["weights"]) == mean["endValue"] == pytest.approx(total)
    names = [profile["shared"]["frames"][i]["name"] for i in mean["samples"][-1]]
    assert ";".join(names) == folded[-1].rpartition(" ")[0]


def test_open_metrics_are_lines_with_an_end(hostile, campaign, tmp_path):
    lines = written("openmetrics", campaign[0], hostile, tmp_path / "a").read_text().split("\n")

    assert lines[-2:] == ["# EOF", ""]
    for line in lines[:-2]:
        assert line.startswith(("# TYPE ", "# UNIT ", "# HELP ", "insitu_")), line
    assert any('at"' not in line and 'bound="value"' in line for line in lines)


def test_a_filter_for_scorep_excludes_short_and_frequent_functions(tmp_path):
    paths = tuple(CallPath(("main", name)) for name in ("tiny[T*]", "long", "MPI_Test", "rare"))
    table = RunTable(
        paths,
        (VISITS, TIME_EXCLUSIVE),
        {
            "visits": np.array([[1e6], [1e6], [1e6], [10.0]]),
            "time_exclusive": np.array([[0.1], [10.0], [0.1], [1e-6]]),
        },
    )
    experiment = Experiment(("p",), ((RunKey.of({"p": 1}), table),))

    lines = written("scorep-filter", experiment, ModelSet(), tmp_path / "f").read_text()

    assert lines.splitlines() == [
        "SCOREP_REGION_NAMES_BEGIN",
        "  EXCLUDE tiny\\[T\\*\\] tiny\\[T\\*\\](* # 1000000 calls per rank of 0.1 us",
        "SCOREP_REGION_NAMES_END",
    ]


COUNTING = r"""
#include <stdio.h>
#define UNTOLD __attribute__((no_instrument_function))
static int entered;
UNTOLD void __cyg_profile_func_enter(void *function, void *site) { entered++; }
UNTOLD void __cyg_profile_func_exit(void *function, void *site) {}
__attribute__((noinline)) void tiny(void) { __asm__(""); }
__attribute__((noinline)) void add(void) { __asm__(""); }
__attribute__((noinline)) void add_rows(void) { __asm__(""); }
UNTOLD int main(void) {
  tiny(), add(), add_rows();
  printf("%d", entered);
}
"""


@pytest.mark.native
def test_the_filter_for_gcc_excludes_the_functions_that_it_names_and_no_others(tmp_path):
    names = ("tiny", "add", "add_rows", "with, comma", "MPI_Test")
    calls, seconds = [1e6, 1e6, 10.0, 1e6, 1e6], [0.1, 0.1, 1.0, 0.1, 0.1]
    table = RunTable(
        tuple(CallPath(("main", name)) for name in names),
        (VISITS, TIME_EXCLUSIVE),
        {"visits": np.array([calls]).T, "time_exclusive": np.array([seconds]).T},
    )
    experiment = Experiment(("p",), ((RunKey.of({"p": 1}), table),))

    option = written("gcc-filter", experiment, ModelSet(), tmp_path / "f").read_text()

    assert option == "-finstrument-functions-exclude-function-list=tiny\n"
    (tmp_path / "app.c").write_text(COUNTING)
    entered = []
    for options in ((), (option.strip(),)):
        words = ["gcc", "-w", "-finstrument-functions", *options, "app.c", "-o", "app"]
        subprocess.run(words, cwd=tmp_path, check=True)
        run = subprocess.run([tmp_path / "app"], check=True, capture_output=True, text=True)
        entered.append(int(run.stdout))
    assert entered == [3, 2]


def test_the_filter_for_gcc_names_neither_templates_nor_operators(tmp_path):
    names = ("void tiny<int>(int)", "app::add(double)", "app::Less::operator()(int, int) const")
    table = RunTable(
        tuple(CallPath(("main", name)) for name in names),
        (VISITS, TIME_EXCLUSIVE),
        {"visits": np.full((3, 1), 1e6), "time_exclusive": np.full((3, 1), 0.1)},
    )
    experiment = Experiment(("p",), ((RunKey.of({"p": 1}), table),))

    option = written("gcc-filter", experiment, ModelSet(), tmp_path / "f").read_text()

    assert option == "-finstrument-functions-exclude-function-list=app::add\n"


def test_a_parquet_table_has_every_value(campaign, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")

    table = parquet.read_table(written("parquet", *campaign, tmp_path / "a.parquet"))

    assert table.column_names[:2] == ["p", "repetition"]
    measured = [np.isfinite(v).sum() for _, t in campaign[0].runs for v in t.values.values()]
    assert table.num_rows == sum(measured)
    totals = sum(np.nansum(v) for _, t in campaign[0].runs for v in t.values.values())
    assert sum(table["value"].to_pylist()) == pytest.approx(totals)


def test_latex_escapes_its_special_characters(hostile, campaign, tmp_path):
    text = written("latex", campaign[0], hostile, tmp_path / "a.tex").read_text(encoding="utf-8")

    (row, _) = [line for line in text.splitlines() if "time" in line]
    assert row.startswith('a"b\\textbackslash{}')
    assert row.count(" & ") == 3


@pytest.mark.parametrize("name", ["csv", "python", "c", "sympy", "latex"])
def test_crowded_models_are_marked_in_every_table_of_models(name, campaign, tmp_path):
    crowded = [
        replace(series, model=replace(series.model, findings=(CROWDING,)))
        for series in campaign[1].models
    ]
    experiment = campaign[0]

    bare = written(name, experiment, campaign[1], tmp_path / "bare").read_text(encoding="utf-8")
    marked = written(name, experiment, ModelSet(("p",), crowded), tmp_path / "marked")

    assert "crowded" not in bare
    assert marked.read_text(encoding="utf-8").count("crowded") >= len(crowded)


def test_unclear_predictions_are_no_samples_for_prometheus(campaign, tmp_path):
    (model,) = fit(np.array([2.0, 4, 8, 16, 32]), [[10, 10.1, 9.9, 10, 20]])
    series = SeriesModel(SeriesKey(CallPath(("main",)), TIME.name, "all"), TIME, model)

    text = written("openmetrics", campaign[0], ModelSet(("p",), [series]), tmp_path / "a.prom")

    samples = [line for line in text.read_text().splitlines() if line.startswith("insitu_pred")]
    assert samples and not [line for line in samples if 'ahead="16"' in line]


def test_json_split_of_caliper_keeps_ranks(tmp_path):
    data = {
        "data": [[0, 0, 1.5], [1, 0, 2.5], [0, 1, 0.5], [1, 1, None], [0, None, 9.0]],
        "columns": ["mpi.rank", "path", "sum#time.duration"],
        "column_metadata": [{"is_value": True}, {"is_value": False}, {"is_value": True}],
        "nodes": [{"label": "main"}, {"label": "foo->bar", "parent": 0}],
        "mpi.world.size": "2",
    }
    file = tmp_path / "heat.p2.n64.json"
    file.write_text(json.dumps(data))

    ((key, table),) = JsonLines().take(load_importer("caliper-json").rows(str(file))).runs

    assert str(key) == "p=2,n=64#0"
    assert [str(path) for path in table.callpaths] == ["main", "main->foo→bar"]
    np.testing.assert_array_equal(table.values["time_exclusive"], [[1.5, 2.5], [0.5, np.nan]])


def test_statistics_over_the_ranks_of_caliper_have_plain_names(tmp_path):
    statistics = ("min", "max", "avg", "sum")
    columns = [f"{name}#inclusive#sum#time.duration" for name in statistics]
    data = {
        "data": [[0, 1.0, 4.0, 2.0, 8.0]],
        "columns": ["path", *columns],
        "column_metadata": [{"is_value": False}, *[{"is_value": True}] * 4],
        "nodes": [{"label": "main", "column": "path"}],
        "mpi.world.size": 4,
    }
    file = tmp_path / "heat.json"
    file.write_text(json.dumps(data))

    rows = list(load_importer("caliper-json").rows(str(file)))

    assert {row["metric"]: (row["value"], row["unit"]) for row in rows} == {
        "time_min": (1.0, "s"),
        "time_max": (4.0, "s"),
        "time": (2.0, "s"),
        "time_sum": (8.0, "s"),
    }


@pytest.mark.parametrize(
    ("path", "params", "repetition"),
    [
        ("a/mm.x10y1z1.r1/profile.cubex", {"x": 10, "y": 1, "z": 1}, 0),
        ("a/stencil2d.p16.n20,5.r3/profile.cubex", {"p": 16, "n": 20.5}, 2),
        ("a/heat.p4.cubex", {"p": 4}, None),
        ("a/p16_n256.cali", {"p": 16, "n": 256}, None),
        ("a/c9T2G0rcqV5kquOk5_1.cali", {}, None),  # random names, as of Caliper
        ("a/230525-151723_1930647_FSY8b8cKSEEi.cali", {}, None),
    ],
)
def test_directory_names_contain_parameters(path, params, repetition):
    assert parse_file_name(path) == (params, repetition)


def test_each_suffix_names_one_format():
    assert {load_exporter_for(f"a{load_exporter(name).suffix}").name for name in EXPORTERS} == set(
        EXPORTERS
    )


def test_every_rank_of_the_largest_run_survives_hatchet(campaign, tmp_path):
    file = written("hatchet", *campaign, tmp_path / "heat.p16.r2.hatchet.json")

    ((key, table),) = JsonLines().take(load_importer("hatchet").rows(str(file))).runs

    (was,) = [t for k, t in campaign[0].runs if (k.size, k.repetition) == (16, 1)]
    assert str(key) == "p=16#1"
    assert sorted(table.callpaths) == sorted(was.callpaths)
    order = [table.callpaths.index(path) for path in was.callpaths]
    for name, values in was.values.items():
        np.testing.assert_array_equal(table.values[name][order], values)


def test_a_graph_of_hatchet_has_callers_and_distinguishes_equal_names(tmp_path):
    path = CallPath(("main", "solve", "MPI_Test"))
    table = RunTable((path,), (TIME,), {"time": np.array([[2.0]])})
    experiment = Experiment(("p",), ((RunKey.of({"p": 1}), table),))
    data = json.loads(written("hatchet", experiment, ModelSet(), tmp_path / "a").read_text())
    (graph,) = data["graph"]
    graph["7"] = {"data": {"name": "MPI_Test"}, "children": []}
    graph["1"]["children"].append(7)
    data["dataframe"].append({"node": 7, "rank": 0, "name": "MPI_Test", "time (inc)": 3.0})
    (tmp_path / "b.json").write_text(json.dumps(data))

    rows = list(load_importer("hatchet").rows(str(tmp_path / "b.json")))

    assert [node["data"]["name"] for node in graph.values()][:3] == ["main", "solve", "MPI_Test"]
    assert {row["callpath"]: row["value"] for row in rows} == {
        "main->solve->MPI_Test": 2.0,
        "main->solve->MPI_Test #2": 3.0,
    }


def test_a_thicket_has_a_row_per_run_and_what_varies(campaign, tmp_path):
    data = json.loads(written("thicket", *campaign, tmp_path / "a").read_text())

    assert len(data["profile"]) == len(campaign[0].runs) == len(data["metadata"])
    assert {run["p"] for run in data["metadata"]} == {1.0, 2.0, 4.0, 8.0, 16.0}
    halo = [row for row in data["dataframe"] if row["name"] == "MPI_Sendrecv"]
    (largest,) = [row for row in halo if row["profile"] == "p=16#0"]
    assert (largest["visits (min)"], largest["visits"], largest["visits (max)"]) == (
        100,
        187.5,
        200,
    )


def test_expressions_of_sympy_equal_the_models(campaign, hostile, tmp_path):
    sympy = pytest.importorskip("sympy", reason="SymPy is not installed")
    for models in (campaign[1], hostile):
        lines = written("sympy", campaign[0], models, tmp_path / "a").read_text().splitlines()

        assert len(lines) == len(models.models)
        for line, series in zip(lines, models.models, strict=True):
            row = json.loads(line)
            symbols = {name: sympy.Symbol(name, positive=True) for name in row["parameters"]}
            expression = sympy.parse_expr(row["expression"], local_dict=symbols)
            for x in (4.0, 6.5, 100.0):
                at = [x, 3 * x][: len(symbols)]
                value = float(expression.subs(dict(zip(symbols.values(), at, strict=True))))
                assert max(value, 0.0) == pytest.approx(
                    max(series.model.formula_at([at])[0], 0), rel=1e-9
                )


def test_spreadsheets_execute_no_cell_and_terminals_obey_none():
    assert neutralise_cell("=cmd|' /C calc'!A0") == "'=cmd|' /C calc'!A0"
    assert neutralise_cell("-3 + 2 * p") == "'-3 + 2 * p"
    assert neutralise_cell("\tx") == "'\\tx"
    assert neutralise_cell("main->\x1b[2Jf") == "main->\\x1b[2Jf"
    assert neutralise_cell("main->solve") == "main->solve"
