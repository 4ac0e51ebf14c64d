"""Do Hatchet and Thicket load what insitu writes? Run by hand, by a Python that has them.

    python3 -m venv /tmp/hatchet && /tmp/hatchet/bin/pip install llnl-hatchet llnl-thicket extrap
    for to in jsonl hatchet thicket; do insitu export heat.insitu --to $to -o /tmp/heat.$to; done
    /tmp/hatchet/bin/python tests/evaluation/formats_hatchet.py /tmp/heat

Every value of heat.jsonl is looked for in what they have read; Thicket then lets Extra-P model the
times. With `--hpctoolkit DATABASE OUT` it writes what Hatchet reads of a database of HPCToolkit,
for `insitu import --from hatchet`.
"""

import json
import sys
from collections import defaultdict

try:
    import hatchet
    import numpy as np
    import thicket
except ImportError as error:
    sys.exit(f"formats_hatchet: {error}; run it in an environment that has Hatchet and Thicket")

THEIRS = {"time": "time (inc)", "time_exclusive": "time"}


def paths(graph) -> dict:
    found = {}
    for root in graph.roots:
        for node in root.traverse():
            above = found[node.parents[0]] + "->" if node.parents else ""
            found[node] = above + node.frame.attrs["name"]
    return found


def check_hatchet(stem: str, rows: list) -> str:
    with open(f"{stem}.hatchet", encoding="utf-8") as file:
        read = hatchet.GraphFrame.from_json(file.read())
    names = paths(read.graph)
    known = {(names[node], rank): row for (node, rank), row in read.dataframe.iterrows()}
    largest = max(rows, key=lambda row: (len(row["ranks"]), row["repetition"]))
    values = wrong = 0
    for row in rows:
        if (row["params"], row["repetition"]) != (largest["params"], largest["repetition"]):
            continue
        metric = THEIRS.get(row["metric"], row["metric"])
        for rank, value in enumerate(row["ranks"]):
            if value is not None:
                values += 1
                wrong += known[row["callpath"], rank][metric] != value
    kept = read.filter(lambda row: row["time (inc)"] > 0, squash=True)
    return f"{values} values, {wrong} wrong; {len(kept.graph)} nodes after a filter"


def check_thicket(stem: str, rows: list) -> str:
    with open(f"{stem}.thicket", encoding="utf-8") as file:
        read = thicket.Thicket.from_json(file.read())
    names = paths(read.graph)
    told = defaultdict(dict)
    for row in rows:
        metric = THEIRS.get(row["metric"], row["metric"])
        ranks = [value for value in row["ranks"] if value is not None]
        place = tuple(map(float, row["params"].values()))
        told[row["callpath"], place, row["repetition"]][metric] = ranks
    values = wrong = 0
    for (node, profile), row in read.dataframe.iterrows():
        at = read.metadata.loc[profile]
        place = tuple(float(at[name]) for name in rows[0]["params"])
        for metric, ranks in told[names[node], place, int(at["repetition"])].items():
            for suffix, reduce in (("", np.mean), (" (min)", np.min), (" (max)", np.max)):
                values += 1
                wrong += not np.isclose(row[metric + suffix], reduce(ranks), rtol=1e-12)
    return f"{values} values, {wrong} wrong; {model(read)} models by Extra-P"


def model(read) -> int:
    from thicket.model_extrap import Modeling

    read = read.intersection()  # it stumbles where a call path is not in every run
    Modeling(read, "p", chosen_metrics=["time (inc)"]).produce_models(add_stats=False)
    return len(read.statsframe.dataframe["time (inc)_extrap-model"].dropna())


def main(stem: str) -> None:
    with open(f"{stem}.jsonl", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    rows = [row for row in rows if "ranks" in row]
    print(f"Hatchet {hatchet.__version__}: {check_hatchet(stem, rows)}")
    print(f"Thicket {thicket.__version__}: {check_thicket(stem, rows)}")


if __name__ == "__main__":
    if sys.argv[1] == "--hpctoolkit":
        with open(sys.argv[3], "w", encoding="utf-8") as out:
            out.write(hatchet.GraphFrame.from_hpctoolkit(sys.argv[2]).to_json())
    else:
        main(sys.argv[1])
