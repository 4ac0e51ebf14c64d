"""Every rank's value as a Parquet table, for pandas, polars and DuckDB."""

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, BinaryIO

import numpy as np

from insitu.entities import RunKey, RunRecord
from insitu.errors import UsageError
from insitu.extras import install_command
from insitu.formats.reading import Row
from insitu.formats.run_records import BROKEN, MAX_RANKS, describe_run
from insitu.modeling.base import ModelSet
from insitu.modeling.measurement import Experiment, RunTable

METADATA = "insitu.runs"  # in the file: JSON of what is known about runs besides their values


class Parquet:
    """Columns: a column per parameter, repetition, callpath, metric, unit, rank, value."""

    name = "parquet"
    suffix = ".parquet"

    def write(self, experiment: Experiment, models: ModelSet, out: BinaryIO) -> None:
        """See Exporter.

        Raises:
            UsageError: pyarrow is not installed.
        """
        with _open_writer(experiment.parameters, out) as (pyarrow, writer):
            for key, table in experiment.runs:
                _write_run(pyarrow, writer, key, table)

    def write_archive(
        self, records: Sequence[RunRecord], load_table: Callable[[str], RunTable], out: BinaryIO
    ) -> None:
        """See ArchiveExporter; runs are described in the metadata of the file.

        Raises:
            UsageError: pyarrow is not installed.
        """
        names = sorted({name for record in records for name, _ in record.key.parameters})
        descriptions = []
        with _open_writer(names, out) as (pyarrow, writer):
            for record in records:
                table = load_table(record.id)
                descriptions.append(describe_run(record, table))
                _write_run(pyarrow, writer, record.key, table)
            writer.add_key_value_metadata({METADATA: json.dumps(descriptions)})


class ParquetReader:
    """Reads what `Parquet` writes, and other tables with these columns."""

    name = "parquet"

    def rows(self, file: str) -> Iterator[Row]:
        """See Importer."""
        pyarrow = _import_pyarrow()
        from pyarrow import parquet

        try:
            # Without threads: they could not start once `limit_memory` allows no more memory.
            with parquet.ParquetFile(file, pre_buffer=False) as opened:
                metadata = opened.metadata.metadata or {}
                descriptions = json.loads(metadata.get(METADATA.encode(), b"[]"))
                yield from descriptions
                sizes = {_run_of(entry): int(entry["size"]) for entry in descriptions}
                for group in range(opened.num_row_groups):
                    table = opened.read_row_group(group, use_threads=False)
                    yield from _group_rows(table, sizes)
        except MemoryError:
            raise  # for `limit_memory`; pyarrow's is one of its own exceptions, too
        except (*BROKEN, OSError, pyarrow.ArrowException) as error:
            raise UsageError(
                f"{file}: cannot be read as a table of insitu: {type(error).__name__}:"
                f" {error!s:.100}"
            ) from error


def _run_of(row: Row) -> tuple[object, ...]:
    """What identifies the run of a row."""
    parameters = {name: float(value) for name, value in row["params"].items()}
    return (tuple(sorted(parameters.items())), int(row["repetition"]))


def _group_rows(table: Any, sizes: Mapping[tuple[object, ...], int]) -> Iterator[Row]:
    """The rows of a part of the table, one per run, call path and metric.

    Raises:
        ValueError: a rank is too large, or a column has values of another type.
        LookupError: a column is missing.
    """
    columns = {name: table[name].to_pylist() for name in table.column_names}
    fixed = ("repetition", "callpath", "metric", "unit", "rank", "value")
    repetitions, paths, metrics, units, ranks, values = (columns.pop(name) for name in fixed)

    series: dict[tuple[Any, ...], dict[int, float]] = {}
    for index in range(len(values)):
        known = []
        for name, column in columns.items():
            if column[index] is not None and math.isfinite(column[index]):
                known.append((name, column[index]))
        key = (tuple(known), *(c[index] for c in (repetitions, paths, metrics, units)))
        series.setdefault(key, {})[int(ranks[index])] = values[index]

    for (parameters, repetition, path, metric, unit), by_rank in series.items():
        row = {"params": dict(parameters), "repetition": repetition}
        size = max(sizes.get(_run_of(row), 0), max(by_rank) + 1)
        if not 0 < size <= MAX_RANKS or min(by_rank) < 0:
            raise ValueError(f"rank {max(by_rank)} is out of range")
        in_order = [by_rank.get(rank) for rank in range(size)]
        yield {**row, "callpath": path, "metric": metric, "unit": unit, "ranks": in_order}


def _import_pyarrow() -> Any:  # Any: pyarrow has no types
    try:
        import pyarrow
    except ImportError as error:
        raise UsageError(f"Parquet needs pyarrow ({error}); {install_command('tables')}") from error
    return pyarrow


@contextmanager
def _open_writer(names: Sequence[str], out: BinaryIO) -> Iterator[tuple[Any, Any]]:
    """pyarrow, and a writer of a table with these parameters.

    Raises:
        UsageError: pyarrow is not installed.
    """
    pyarrow = _import_pyarrow()
    from pyarrow import parquet

    words = pyarrow.dictionary(pyarrow.int32(), pyarrow.string())
    schema = pyarrow.schema(
        [
            *((name, pyarrow.float64()) for name in names),
            ("repetition", pyarrow.int32()),
            ("callpath", words),
            ("metric", words),
            ("unit", words),
            ("rank", pyarrow.int32()),
            ("value", pyarrow.float64()),
        ]
    )
    with parquet.ParquetWriter(out, schema, compression="zstd") as writer:
        yield pyarrow, writer


def _write_run(pyarrow: Any, writer: Any, key: RunKey, table: RunTable) -> None:
    """Write the values of a run, one part of the table per metric."""
    paths = [str(path) for path in table.callpaths]
    names = writer.schema.names[: writer.schema.names.index("repetition")]
    constant: dict[str, Any] = dict(zip(names, key.coordinate(names), strict=True))
    for metric in table.metrics:
        values = table.values[metric.name]
        row, rank = np.nonzero(~np.isnan(values))
        count = len(row)
        columns = {
            **{name: np.full(count, value) for name, value in constant.items()},
            "repetition": np.full(count, key.repetition, dtype=np.int32),
            "callpath": _words(pyarrow, row, paths),
            "metric": _words(pyarrow, np.zeros(count), [metric.name]),
            "unit": _words(pyarrow, np.zeros(count), [metric.unit]),
            "rank": rank.astype(np.int32),
            "value": values[row, rank],
        }
        writer.write_table(pyarrow.table(columns, schema=writer.schema))


def _words(pyarrow: Any, indices: np.ndarray, words: list[str]) -> Any:
    """Return a dictionary-encoded column: an index into `words` per row."""
    return pyarrow.DictionaryArray.from_arrays(
        pyarrow.array(indices.astype(np.int32)), pyarrow.array(words, type=pyarrow.string())
    )
