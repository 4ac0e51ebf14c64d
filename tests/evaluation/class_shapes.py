"""P8: behaviour classes over two parameters, of a cube without communicator, and of polling ranks.

    python tests/evaluation/class_shapes.py [--seed 1] [--noise 0.02] [--sizes 1600 6400 25600]
        [--ranks 4 8 16 ...] [--sides 1 2 3 4 5] [--shuffle]

The generated runs are imported into a campaign, and `insitu classes` lists their classes. Per
population: configurations whose partition is exact, classes that keep their name in all
configurations, and beside it the partitions of `insitu.cluster`, which looks at one configuration
at a time. Wanted: all exact and matched; one class where ranks poll.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

import numpy as np

import insitu

ANISOTROPY = 1.6  # top and bottom of a domain take longer than its sides
POLLING_REPETITIONS = 3


def line(callpath, metric, unit, params, repetition, ranks):
    """Return one line for `insitu import`."""
    values = [float(value) for value in ranks]
    row = {"callpath": callpath, "metric": metric, "unit": unit, "params": params}
    return row | {"repetition": repetition, "ranks": values}


def domain(rng, options):
    """A two-dimensional domain: corner, top or bottom, left or right, inner [CLU §IV]."""
    lines, labels = [], {}
    for p in options.ranks:
        width = 2 ** int(np.ceil(np.log2(p) / 2))
        x, y = np.divmod(np.arange(p), p // width)
        is_end = (y == 0) | (y == p // width - 1)
        is_side = (x == 0) | (x == width - 1)
        level = ANISOTROPY * is_end + 1.0 * is_side
        if options.shuffle:
            level = rng.permutation(level)

        for s in options.sizes:
            params = {"p": p, "s": s}
            time = (1.5e-4 * s + 0.012 * np.sqrt(s) * level) * (1 + rng.normal(0, options.noise, p))
            lines.append(line("solver->density_flux", "time", "s", params, 0, time))
            lines.append(line("solver->density_flux", "time_exclusive", "s", params, 0, time))
            lines.append(line("solver", "time", "s", params, 0, time + 1e-3))
            labels[key_of(params)] = level
    return lines, labels


def cube(rng, options):
    """A 26-neighbour exchange of k³ ranks: classes by the number of partners."""
    lines, labels = [], {}
    for k in options.sides:
        position = np.indices((k, k, k)).reshape(3, -1)
        partners, sent = np.zeros(k**3), np.zeros(k**3)
        for shift in np.indices((3, 3, 3)).reshape(3, -1).T - 1:
            if not shift.any():
                continue
            neighbour = position + shift[:, None]
            is_inside = ((neighbour >= 0) & (neighbour < k)).all(axis=0)
            partners += is_inside
            area = 8.0 * (31 + 2 * shift[0]) ** (3 - np.abs(shift).sum())
            sent += is_inside * area * (1 + 0.1 * shift[1] + 0.01 * shift[2])

        params = {"p": k**3}
        labels[key_of(params)] = partners
        labels[key_of(params), "bytes_sent"] = sent  # 27 kinds where others have four
        for repetition in range(2):
            send = "hydro->exchange->MPI_Isend"
            lines.append(line(send, "visits", "1", params, repetition, 50 * partners))
            lines.append(line(send, "bytes_sent", "B", params, repetition, np.round(50 * sent)))
            work = (1 + 0.01 * partners) * (1 + rng.normal(0, options.noise, k**3))
            lines.append(line("hydro->exchange", "time", "s", params, repetition, work))
            lines.append(line("hydro", "time", "s", params, repetition, 2 * work))
    return lines, labels


def polling(rng, options):
    """All ranks alike; they call MPI_Test as often as time allows."""
    lines, labels = [], {}
    for p in (2, 4, 6, 8):
        params = {"p": p}
        labels[key_of(params)] = np.zeros(p)
        for repetition in range(POLLING_REPETITIONS):
            tests = np.round(2e6 * np.exp(0.3 * rng.standard_normal(p)))
            waited = np.round(400 * rng.uniform(0.2, 0.8, p))
            test, wait = "amr->comm->MPI_Test", "amr->comm->MPI_Wait"
            lines.append(line(test, "visits", "1", params, repetition, tests))
            lines.append(line(test, "bytes_received", "B", params, repetition, 8 * (400 - waited)))
            lines.append(line(wait, "visits", "1", params, repetition, waited))
            lines.append(line(wait, "bytes_received", "B", params, repetition, 8 * waited))
            time = 0.3 * (1 + rng.normal(0, options.noise, p))
            lines.append(line("amr->comm", "time", "s", params, repetition, time))
            time = (1 + 0.1 * np.log2(p)) * (1 + rng.normal(0, options.noise, p))
            lines.append(line("amr", "time", "s", params, repetition, time))
    return lines, labels


POPULATIONS = {"domain": domain, "cube": cube, "polling": polling}


def key_of(params):
    """Return parameters as a key; the order and the type of numbers do not matter."""
    return tuple(sorted((name, float(value)) for name, value in params.items()))


def kinds_of(truth, row):
    """Return the kind of each rank in a row, which may be that of its metric."""
    key = key_of(row["params"])
    return truth.get((key, row["metric"]), truth[key])


def list_classes(lines):
    """Return what `insitu classes` prints of a campaign of these lines."""
    with tempfile.TemporaryDirectory() as folder:
        source, campaign = Path(folder, "runs.jsonl"), Path(folder, "runs.insitu")
        source.write_text("".join(json.dumps(row) + "\n" for row in lines), encoding="utf-8")
        command = [sys.executable, "-m", "insitu"]
        subprocess.run([*command, "import", campaign, source], check=True, capture_output=True)
        run = subprocess.run(
            [*command, "classes", campaign, "--json"], check=True, capture_output=True
        )
    return [json.loads(row) for row in run.stdout.splitlines()]


def is_same_partition(first, second):
    """Whether two labellings of the same ranks separate the same ranks."""
    pairs = set(zip(first, second, strict=True))
    return len(pairs) == len(set(first)) == len(set(second))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--noise", type=float, default=0.02)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1600, 6400, 25600, 102400])
    parser.add_argument("--ranks", type=int, nargs="+", default=[4, 8, 16, 32, 64, 128, 256])
    parser.add_argument("--sides", type=int, nargs="+", default=[1, 2, 3, 4, 5])
    parser.add_argument("--shuffle", action="store_true", help="ranks of the domain in any order")
    parser.add_argument("--populations", nargs="+", choices=POPULATIONS, default=list(POPULATIONS))
    options = parser.parse_args()

    print(f"seed {options.seed}, noise {options.noise:.0%}")
    print("| population | partitions exact | classes matched | exact by `cluster` |")
    for name in options.populations:
        lines, truth = POPULATIONS[name](np.random.default_rng(options.seed), options)
        is_exact, names = [], defaultdict(set)
        for row in list_classes(lines):
            labels, expected = row["labels"], kinds_of(truth, row)
            is_exact.append(is_same_partition(labels, expected.tolist()))
            for label, level in zip(labels, expected, strict=True):
                names[row["callpath"], row["metric"], float(level)].add(row["classes"][label])
        is_matched = [len(of_class) == 1 for of_class in names.values()]

        by_cluster = []
        for row in lines:
            found = insitu.cluster(np.array(row["ranks"])[None])[0]
            expected = kinds_of(truth, row)
            by_cluster.append(is_same_partition(found.tolist(), expected.tolist()))

        shares = (np.mean(values) for values in (is_exact, is_matched, by_cluster))
        print(
            f"| {name} |", " | ".join(f"{100 * share:.0f} %" for share in shares), "|", flush=True
        )


if __name__ == "__main__":
    main()
