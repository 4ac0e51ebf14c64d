"""Diagnoses of real programs, to be compared with reference files.

    python -m tests.analysis.diagnoses                      write new reference files
    python -m tests.analysis.diagnoses keep CAMPAIGN NAME   keep another campaign

Check what changes with `git diff`: each statement must be true of the program. A campaign is kept
as a compressed `campaign.db`, with what a diagnosis reads: no name of a machine or of a folder, and
of the models those of times. Times have 14 bits, which compress well.
"""

import json
import lzma
import math
import re
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from insitu.analysis.cost import measured_shares
from insitu.analysis.diagnosis.diagnose import Diagnosis
from insitu.analysis.diagnosis.efficiency_table import efficiency_lines
from insitu.analysis.diagnosis.gather import gather
from insitu.analysis.diagnosis.independent_counts import count_over_ranks
from insitu.analysis.diagnosis.limits import find_limits
from insitu.analysis.diagnosis.lines import diagnosis_lines, last_lines
from insitu.analysis.diagnosis.machine import parse_machine
from insitu.analysis.diagnosis.packages import Site
from insitu.analysis.diagnosis.rows import statement_row, summary_row
from insitu.analysis.source_lines import diagnose_with_lines, newest_start, with_lines
from insitu.campaign.agent_costs import agent_costs
from insitu.campaign.layout import DATABASE
from insitu.campaign.load import load_experiment
from insitu.campaign.store import SqliteStore, open_store
from insitu.entities import (
    BYTES_MAPPED,
    BYTES_READ,
    COLLECTIVE_TIME,
    COLLECTIVE_TIME_MIN,
    CYCLES,
    ENERGY,
    FILES_SHARED,
    INSTRUCTIONS,
    ITERATION_VARIATION,
    MEMORY_PRIVATE,
    MEMORY_PSS,
    MEMORY_SHARED,
    MEMORY_SWAP,
    POSITIONS,
    RANKS,
    TIME_BUSY,
    TIME_EXCLUSIVE,
    TIME_LATE_RECEIVER,
    TIME_LATE_SENDER,
    CallPath,
    Configuration,
    RunRecord,
)
from insitu.modeling.base import ModelSet
from insitu.modeling.measurement import Experiment, FloatArray, RunTable
from insitu.workflows.diagnosis import diagnose_store

REFERENCES = Path(__file__).with_name("diagnoses")
WIDTH = 100  # columns of the text
UNREAD = {  # metrics that no diagnosis reads
    metric.name
    for metric in (
        *(BYTES_MAPPED, BYTES_READ, COLLECTIVE_TIME, COLLECTIVE_TIME_MIN),
        *(CYCLES, ENERGY, FILES_SHARED, INSTRUCTIONS, ITERATION_VARIATION),
        *(MEMORY_PRIVATE, MEMORY_PSS, MEMORY_SHARED, MEMORY_SWAP),
        *(TIME_BUSY, TIME_LATE_RECEIVER, TIME_LATE_SENDER, *POSITIONS),
    )
}
SETTINGS = ("cores", "threads", "sample_hz", "imported")  # of a run, kept as they are
BITS = 14  # of a time
TOLERANCE = 1e-6  # relative: processors differ in the last digits of what numpy computes
LEAST_SHARES = (0.03, 0.01, 0.003, 0.001, 0.0)  # of the time, of functions with kept models
FEW_MODELS = 40  # that are kept whatever they are of
LEAST_DELAY_S = 1e-3  # of a cause of waiting that is kept
START = 1.8e9  # of the first run, in seconds since 1970
FOLDERS = re.compile(r"/(tmp|work|root|home)/[^ ]*/")
NUMBERS = re.compile(r"\[[-\d.e+,\s]+\]")
LIBRARY = re.compile(r"^.*/lib(64)?/(python[0-9.]+/.*)$")


def kept_names() -> list[str]:
    """The names of the campaigns that are kept."""
    return sorted(path.name.partition(".")[0] for path in REFERENCES.glob("*.db.xz"))


@contextmanager
def open_kept(name: str) -> Iterator[SqliteStore]:
    """A campaign that is kept."""
    with TemporaryDirectory(prefix="insitu-kept-") as folder:
        packed = (REFERENCES / f"{name}.db.xz").read_bytes()
        Path(folder, DATABASE).write_bytes(lzma.decompress(packed))
        with open_store(folder) as store:
            yield store


def describe_kept(name: str) -> dict[str, object]:
    """The diagnosis of a campaign that is kept, as its reference file has it."""
    measured = load_kept(name)
    diagnosis = measured.diagnose()
    return {
        "text": diagnosis_lines(diagnosis, WIDTH),
        "last lines": last_lines(diagnosis),
        "efficiency": efficiency_lines(diagnosis.efficiencies),
        "summary": without_empty(summary_row(diagnosis)),
        "statements": [
            without_empty(statement_row(rank, entry))
            for rank, entry in enumerate(diagnosis.all_statements(), 1)
        ],
        "candidates": describe_candidates(measured, diagnosis),
        "variants": {
            label: diagnosis_lines(variant, WIDTH)
            for label, variant in diagnose_variants(measured, diagnosis)
        },
    }


@dataclass(frozen=True, slots=True)
class MeasuredCampaign:
    """What a campaign contains."""

    experiment: Experiment
    records: Sequence[RunRecord]
    models: ModelSet
    sites: Mapping[CallPath, Site]

    def diagnose(self, *, at: Mapping[str, float] | None = None, **options: Any) -> Diagnosis:
        """The diagnosis, by default as `insitu diagnose` prints it."""
        return diagnose_with_lines(
            self.experiment,
            self.records,
            self.models,
            name="program",
            target=at or {},
            sites=self.sites,
            **options,
        )

    def select_scales(self, scales: Collection[int]) -> "MeasuredCampaign":
        """The runs at some numbers of ranks, without models."""
        runs = tuple(run for run in self.experiment.runs if run[0].size in scales)
        records = [record for record in self.records if record.key.size in scales]
        return replace(
            self,
            experiment=replace(self.experiment, runs=runs),
            records=records,
            models=ModelSet(),
        )


@cache
def load_kept(name: str) -> MeasuredCampaign:
    """What a campaign that is kept contains."""
    with open_kept(name) as store:
        return MeasuredCampaign(load_experiment(store), store.runs(), store.models(), store.sites())


def diagnose_variants(
    measured: MeasuredCampaign, diagnosis: Diagnosis
) -> Iterator[tuple[str, Diagnosis]]:
    """Further diagnoses of a campaign, with what they assume or leave out."""
    at = {RANKS: 4 * diagnosis.p[-1]} if diagnosis.axis is None else None
    yield "strong scaling, near", measured.diagnose(scaling="strong", at=at)
    slow = "latency=1e-3,bandwidth=1e7,memory=256e6,ranks_per_node=4,runtime=60"
    yield (
        "weak scaling, a slow machine",
        measured.diagnose(scaling="weak", machine=parse_machine(slow)),
    )
    scales = sorted({key.size for key, _ in measured.experiment.runs})
    for count in (1, 2, 3):
        if len(scales) > count:
            yield (
                f"scales {scales[:count]} alone",
                measured.select_scales(scales[:count]).diagnose(),
            )
    if len(scales) > 4:
        yield f"scales {scales[1:]}", measured.select_scales(scales[1:]).diagnose()


def describe_candidates(
    measured: MeasuredCampaign, diagnosis: Diagnosis
) -> list[dict[str, object]]:
    """Every quantity that grows with p, whether a statement is about it or not."""
    target = diagnosis.target
    counted = count_over_ranks(measured.experiment, gather(measured.experiment, measured.sites, {}))
    rows = []
    for limit in find_limits(counted, diagnosis.machine, target):
        growth = limit.growth
        rows.append(
            without_empty(
                {
                    "kind": limit.kind,
                    "callpath": str(limit.path),
                    "subject": limit.subject,
                    "law": growth.law.text(limit.unit) if growth.law is not None else None,
                    "bytes": limit.bytes_law.text("B") if limit.bytes_law is not None else None,
                    "now": growth.now,
                    "mean": growth.mean_now,
                    "single": growth.single,
                    "certain": growth.is_certain,
                    "low": growth.low,
                    "high": growth.high,
                    "cost": [limit.cost(diagnosis.p[-1]), limit.cost(target)],
                    "exact": limit.is_exact,
                    "once": limit.is_once,
                    "rank": limit.rank,
                    "detail": str(limit.detail or ""),
                    "includes": [str(path) for path in limit.includes],
                    "condition": limit.condition,
                    "run": limit.run,
                    "lower bound": limit.is_lower_bound,
                    "per partner": limit.is_per_partner,
                    "knows partners": limit.knows_partners,
                }
            )
        )
    return rows


def without_empty(row: Mapping[str, object]) -> dict[str, object]:
    """The values of a row that say something."""
    return {name: shorten(value) for name, value in row.items() if value or value is False}


def shorten(value: object) -> object:
    """A value with numbers of eight digits."""
    if isinstance(value, float):
        return float(f"{value:.8g}")
    if isinstance(value, Mapping):
        return {name: shorten(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [shorten(entry) for entry in value]
    return value


def find_differences(expected: object, actual: object, where: str = "") -> list[str]:
    """What differs, with its position; numbers may differ in their last digits."""
    if isinstance(expected, float | int) and isinstance(actual, float | int):
        is_same = math.isclose(expected, actual, rel_tol=TOLERANCE)
        return [] if is_same else [f"{where}: {expected} became {actual}"]
    if isinstance(expected, dict) and isinstance(actual, dict):
        differences = []
        for name in dict.fromkeys((*expected, *actual)):
            at = f"{where}/{name}"
            differences += find_differences(expected.get(name), actual.get(name), at)
        return differences
    if isinstance(expected, list) and isinstance(actual, list) and len(expected) == len(actual):
        differences = []
        for i, (before, after) in enumerate(zip(expected, actual, strict=True)):
            differences += find_differences(before, after, f"{where}/{i}")
        return differences
    return [] if expected == actual else [f"{where}: {expected} became {actual}"]


def reference_file(name: str) -> Path:
    """The file with the diagnosis that is expected."""
    return REFERENCES / f"{name}.json"


def write_reference(name: str) -> None:
    """Write the diagnosis of a campaign that is kept."""
    reference_file(name).write_text(reference_text(describe_kept(name)), encoding="utf-8")


def reference_text(value: object) -> str:
    """JSON with a line for each entry, and one for each list of numbers."""
    text = json.dumps(value, indent=1, ensure_ascii=False)
    return NUMBERS.sub(lambda found: " ".join(found[0].split()), text) + "\n"


def keep(campaign: str, name: str) -> None:
    """Keep a campaign with as few models as leave its diagnosis as it is; print what changes."""
    with open_store(campaign) as store:
        records, models, sites = store.runs(), store.models(), store.sites()
        tables = {record.id: strip_table(store.table(record.id)) for record in records}
        diagnosis = diagnose_store(store)
    located = with_lines(sites, newest_start(records))
    files = {path: (strip_folders(file), line) for path, (file, line) in located.items()}
    first = min(record.started_at for record in records)

    for least in LEAST_SHARES:
        with TemporaryDirectory() as folder:
            with open_store(folder, create=True) as store:
                for i, record in enumerate(records):
                    run = strip_record(record, f"run-{i}", program=diagnosis.program, first=first)
                    store.add_run(run, replace(tables[record.id], sites=files))
                store.put_models(strip_models(models, least))
            packed = pack_database(Path(folder, DATABASE))
        (REFERENCES / f"{name}.db.xz").write_bytes(packed)
        write_reference(name)
        after = json.loads(reference_file(name).read_text(encoding="utf-8"))
        texts = [entry.text for entry in diagnosis.all_statements()]
        differences = find_differences(texts, [entry["text"] for entry in after["statements"]])
        if not differences:
            break
    print(f"{name}: {len(packed):,} bytes", *differences, sep="\n")


def pack_database(file: Path) -> bytes:
    """The bytes of a database without what nothing reads."""
    import sqlite3

    with sqlite3.connect(file) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
    connection.execute("VACUUM")
    connection.close()
    return lzma.compress(file.read_bytes(), preset=9 | lzma.PRESET_EXTREME)


def strip_record(record: RunRecord, name: str, *, program: str, first: float) -> RunRecord:
    """A run without names of machines, folders and options; its first is `START`."""
    settings = dict(record.configuration.values)
    kept = {key: settings[key] for key in SETTINGS if key in settings}
    kept["program"] = program
    nodes = json.loads(settings.get("nodes") or "[]")
    names = {node["name"]: f"node{i}" for i, node in enumerate(nodes)}
    if settings.get("host"):
        hosts = settings["host"].split(", ")
        kept["host"] = ", ".join(names.setdefault(host, f"node{len(names)}") for host in hosts)
    if nodes:
        kept["nodes"] = json.dumps([{**node, "name": names[node["name"]]} for node in nodes])
    kept["cost"] = strip_reports(record)
    shift = START - first
    return replace(
        record,
        id=name,
        configuration=Configuration.of(kept),
        started_at=record.started_at + shift,
        ended_at=record.ended_at + shift,
        findings=tuple(
            replace(finding, text=FOLDERS.sub("", finding.text)) for finding in record.findings
        ),
    )


def strip_reports(record: RunRecord) -> str:
    """What the agents reported: the causes of waiting, and how precise samples are."""
    texts = []
    for i, report in enumerate(agent_costs(record)):
        read = {name: report[name] for name in ("precise_samples",) if name in report}
        delays = []
        for delay in report.get("delays", ()):
            causes = [
                {**cause, "ranks": [entry for entry in cause["ranks"] if entry[1] > LEAST_DELAY_S]}
                for cause in delay["causes"]
                if cause["seconds"] > LEAST_DELAY_S
            ]
            if delay["waited"] > LEAST_DELAY_S:
                delays.append({**delay, "causes": causes})
        texts.append(f"node{i} {json.dumps({**read, 'delays': delays})}")
    return " ".join(texts)


def strip_table(table: RunTable) -> RunTable:
    """The values that a diagnosis reads."""
    metrics = tuple(metric for metric in table.metrics if metric.name not in UNREAD)
    values = {}
    for metric in metrics:
        given = table.values[metric.name]
        values[metric.name] = round_bits(given) if metric.unit == "s" else given
    return RunTable(table.callpaths, metrics, values)


def round_bits(values: FloatArray) -> FloatArray:
    """Numbers with BITS significant bits."""
    mantissas, exponents = np.frexp(values)
    return np.ldexp(np.round(np.ldexp(mantissas, BITS)), exponents - BITS)


def strip_models(models: ModelSet, least: float) -> ModelSet:
    """The models of exclusive times of that share or more, and their classes; all if few."""
    if len(models.models) <= FEW_MODELS:
        return models
    shares = measured_shares(models)
    kept = [
        series
        for series in models.models
        if series.key.metric == TIME_EXCLUSIVE.name
        and shares.get(series.key.callpath, 0.0) >= least
    ]
    paths = {series.key.callpath for series in kept}
    clusters = [
        entry
        for entry in models.clusters
        if entry.metric == TIME_EXCLUSIVE.name and entry.callpath in paths
    ]
    return replace(models, models=kept, supplements=[], clusters=clusters, findings=())


def strip_folders(file: str) -> str:
    """The path of a file, without the folders of the machine where it was measured."""
    if library := LIBRARY.match(file):
        return f"/usr/lib/{library[2]}"
    return file if file.startswith("<") else f"/app/{file.rpartition('/')[2]}"


def main(words: Sequence[str]) -> None:
    """Keep a campaign, or write all references."""
    if words:
        _, campaign, name = words
        keep(campaign, name)
        return
    for name in kept_names():
        write_reference(name)


if __name__ == "__main__":
    main(sys.argv[1:])
