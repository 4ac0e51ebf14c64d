"""Behaviour classes of domains with shuffled ranks, from the number of ranks each exchanges with.

    python tests/evaluation/class_partners.py [--seed 1]

Campaigns are those of `classes.py` without a Cartesian communicator and with the ranks of every run
in another order: one per domain and gap, with times and the metric `partners` of an exchange with
all ranks beside one. Per domain: the adjusted Rand index of the classes of times, mean over runs.
"""

import argparse

import numpy as np
from classes import DOMAINS, GAPS, NOISES, campaign, rand_index, shuffled

from insitu.entities import PARTNERS, TIME
from insitu.modeling.measurement import Experiment, RunTable
from insitu.modeling.pipeline import remodel

NEIGHBOURS = {"ends": 2, "plane": 4, "oriented plane": 4, "volume": 6}


def missing_neighbours(domain, weights):
    """How many neighbours each rank lacks, by its weight in `classes.py`: (n_ranks,)."""
    return weights // 2 + weights % 2 if domain == "oriented plane" else weights


def main():
    """Print a table: a row per domain."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()

    print("| domain | Rand index |")
    for i, domain in enumerate(DOMAINS):
        scores = []
        for j, gap in enumerate(GAPS):
            rng = np.random.default_rng([options.seed, i, j])
            noise = NOISES[(i + j) % len(NOISES)]
            experiment, classes, _ = campaign(rng, domain, gap, noise)
            experiment, classes = shuffled(rng, experiment, classes)
            missing = {p: missing_neighbours(domain, weights) for p, weights in classes.items()}

            runs = []
            for key, table in experiment.runs:
                partners = np.asarray(NEIGHBOURS[domain] - missing[key.size], dtype=float)
                values = {"time": table.values["time"], "partners": partners[None]}
                runs.append((key, RunTable(table.callpaths, (TIME, PARTNERS), values)))

            for entry in remodel(Experiment(experiment.parameters, tuple(runs))).clusters:
                if entry.metric == "time":
                    scores.append(rand_index(entry.labels, missing[entry.run.size]))
        print(f"| {domain} | {np.mean(scores):.3f} |", flush=True)


if __name__ == "__main__":
    main()
