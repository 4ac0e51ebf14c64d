"""Every rank's value as a Parquet table, for pandas, polars and DuckDB."""

from typing import Any, BinaryIO

import numpy as np

from insitu.errors import UsageError
from insitu.extras import install_command
from insitu.modeling.base import ModelSet
from insitu.modeling.measurement import Experiment


class Parquet:
    """Columns: a column per parameter, repetition, callpath, metric, unit, rank, value."""

    name = "parquet"
    suffix = ".parquet"

    def write(self, experiment: Experiment, models: ModelSet, out: BinaryIO) -> None:
        """See Exporter.

        Raises:
            UsageError: pyarrow is not installed.
        """
        try:
            import pyarrow
            from pyarrow import parquet
        except ImportError as error:
            raise UsageError(
                f"Parquet needs pyarrow ({error}); {install_command('tables')}"
            ) from error

        words = pyarrow.dictionary(pyarrow.int32(), pyarrow.string())
        names = experiment.parameters
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
            for key, table in experiment.runs:
                paths = [str(path) for path in table.callpaths]
                for metric in table.metrics:
                    values = table.values[metric.name]
                    row, rank = np.nonzero(~np.isnan(values))
                    count = len(row)
                    constant: dict[str, Any] = dict(zip(names, key.coordinate(names), strict=True))
                    columns = {
                        **{name: np.full(count, value) for name, value in constant.items()},
                        "repetition": np.full(count, key.repetition, dtype=np.int32),
                        "callpath": _words(pyarrow, row, paths),
                        "metric": _words(pyarrow, np.zeros(count), [metric.name]),
                        "unit": _words(pyarrow, np.zeros(count), [metric.unit]),
                        "rank": rank.astype(np.int32),
                        "value": values[row, rank],
                    }
                    writer.write_table(pyarrow.table(columns, schema=schema))


def _words(pyarrow: Any, indices: np.ndarray, words: list[str]) -> Any:
    """Return a dictionary-encoded column: an index into `words` per row."""
    return pyarrow.DictionaryArray.from_arrays(
        pyarrow.array(indices.astype(np.int32)), pyarrow.array(words, type=pyarrow.string())
    )
