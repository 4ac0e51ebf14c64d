"""The tables of campaign.db that hold the means of behaviour classes in each run.

They are derived from the runs and save a refit from reading runs again. What is damaged counts as
absent. The classes of ranks themselves are stored with the models.
"""

import json
import sqlite3
import zlib
from collections.abc import Collection, Sequence

import numpy as np

from insitu.campaign import records
from insitu.campaign.checksums import DAMAGE, checksum_of, is_intact
from insitu.campaign.database import has_class_means
from insitu.entities import Finding, Metric, MetricKind
from insitu.modeling.base import ClassMeans, Clusters
from insitu.modeling.measurement import FloatArray, SeriesKey
from insitu.modeling.run_means import RunMeans

CLASS_BASIS = "class basis"  # the name in `campaign`
MAX_KEYS_BYTES = 1 << 30  # of the series of a metric, uncompressed
MEAN = "<f8"


def write_class_means(
    connection: sqlite3.Connection, classes: ClassMeans | None, intact: Collection[str]
) -> None:
    """Replace the stored class means.

    Args:
        connection: to campaign.db.
        classes: the new ones; None to store none.
        intact: identities of runs whose means were read before, and need not be written again if
            the classes are the same.
    """
    values = None if classes is None or not classes.basis else _basis_values(classes)
    row = connection.execute("SELECT value FROM campaign WHERE name = ?", (CLASS_BASIS,)).fetchone()
    is_same = row is not None and bool(intact) and json.loads(row[0])[:-1] == values
    if not is_same:
        for table in ("class_series", "class_mean"):
            connection.execute(f"DELETE FROM {table}")
        connection.execute("DELETE FROM campaign WHERE name = ?", (CLASS_BASIS,))
    if classes is None or values is None:
        return

    if not is_same:
        text = json.dumps([*values, checksum_of([json.dumps(values)]).hex()])
        connection.execute("INSERT INTO campaign VALUES (?, ?)", (CLASS_BASIS, text))
        for metric in classes.metrics.values():
            _write_series(connection, metric, classes.keys[metric.name])

    stored = {run for (run,) in connection.execute("SELECT DISTINCT run FROM class_mean")}
    unwanted = stored - (set(intact) & classes.means.keys())
    connection.executemany(
        "DELETE FROM class_mean WHERE run = ?", ((run,) for run in sorted(unwanted))
    )
    for run in classes.means.keys() - (stored - unwanted):
        for metric_name, means in classes.means[run].items():
            columns = (run, metric_name, np.asarray(means, dtype=MEAN).tobytes())
            connection.execute(
                "INSERT INTO class_mean VALUES (?, ?, ?, ?)", (*columns, checksum_of(columns))
            )


def _basis_values(classes: ClassMeans) -> list[object]:
    """What identifies the classes: as JSON returns it."""
    findings = [[finding.code, finding.text, finding.where] for finding in classes.findings]
    return [classes.basis, len(classes.clusters), sorted(classes.metrics), findings]


def _write_series(
    connection: sqlite3.Connection, metric: Metric, keys: Sequence[SeriesKey]
) -> None:
    texts = [[records.callpath_text(key.callpath), key.behaviour] for key in keys]
    blob = zlib.compress(json.dumps(texts).encode())
    columns = (metric.name, metric.unit, metric.kind.value, blob)
    connection.execute(
        "INSERT INTO class_series VALUES (?, ?, ?, ?, ?)", (*columns, checksum_of(columns))
    )


def read_class_means(connection: sqlite3.Connection, clusters: Sequence[Clusters]) -> ClassMeans:
    """Read the class means; empty if they are damaged, or do not belong to these clusters.

    Args:
        connection: to campaign.db.
        clusters: all that are stored.
    """
    if not has_class_means(connection):
        return ClassMeans()
    try:
        return _read(connection, clusters)
    except (*DAMAGE, zlib.error):
        return ClassMeans()


def are_class_means_intact(connection: sqlite3.Connection, clusters: Sequence[Clusters]) -> bool:
    """Whether all class means that were stored can be used; also if there are none.

    Args:
        connection: to campaign.db.
        clusters: all that are stored.
    """
    if not has_class_means(connection):
        return True
    (n_rows,) = connection.execute("SELECT count(*) FROM class_mean").fetchone()
    means = read_class_means(connection, clusters).means
    return int(n_rows) == sum(len(by_metric) for by_metric in means.values())


def _read(connection: sqlite3.Connection, clusters: Sequence[Clusters]) -> ClassMeans:
    """Read the class means.

    Raises:
        ValueError: they are absent, damaged, or belong to other clusters.
    """
    row = connection.execute("SELECT value FROM campaign WHERE name = ?", (CLASS_BASIS,)).fetchone()
    *values, checksum = json.loads(row[0] if row else "[0]")
    if checksum != checksum_of([json.dumps(values)]).hex():
        raise ValueError("no basis, or a damaged one")
    basis, n_clusters, metric_names, findings = values
    if n_clusters != len(clusters):
        raise ValueError("classes are missing")

    metrics: dict[str, Metric] = {}
    keys: dict[str, tuple[SeriesKey, ...]] = {}
    for *columns, row_checksum in connection.execute("SELECT * FROM class_series"):
        if not is_intact(columns, row_checksum):
            raise ValueError("series are damaged")
        name, unit, kind, blob = columns
        texts = json.loads(zlib.decompressobj().decompress(blob, MAX_KEYS_BYTES))
        metrics[name] = Metric(name, unit, MetricKind(kind))
        keys[name] = tuple(
            SeriesKey(records.callpath_of(path), name, behaviour) for path, behaviour in texts
        )
    if sorted(metrics) != metric_names:
        raise ValueError("metrics are missing")

    means: dict[str, dict[str, FloatArray]] = {}
    for *columns, row_checksum in connection.execute("SELECT * FROM class_mean"):
        run, name, blob = columns
        if is_intact(columns, row_checksum):
            means.setdefault(run, {})[name] = np.frombuffer(blob, dtype=MEAN)
    return ClassMeans(
        basis=basis,
        metrics={name: metrics[name] for name in metric_names},
        keys={name: keys[name] for name in metric_names},
        means={run: RunMeans.of(by_metric) for run, by_metric in means.items()},
        clusters=clusters,
        findings=tuple(Finding(*finding) for finding in findings),
    )
