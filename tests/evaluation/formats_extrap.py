"""Does Extra-P load what insitu writes? Run by hand, by the Python of Extra-P's own environment.

    python3 -m venv /tmp/extrap && /tmp/extrap/bin/pip install extrap==4.2.5
    for to in json extra-p extra-p-text extra-p-jsonl; do
        insitu export heat.insitu --to $to -o /tmp/heat.$to
    done
    /tmp/extrap/bin/python tests/evaluation/formats_extrap.py /tmp/heat

Every point of heat.json is looked for in what Extra-P has read of each file; then it models them.
"""

import json
import sys

try:
    import numpy as np
    from extrap.fileio.experiment_io import read_experiment
    from extrap.fileio.file_reader.json_file_reader import JsonFileReader
    from extrap.fileio.file_reader.text_file_reader import TextFileReader
    from extrap.modelers.model_generator import ModelGenerator
except ImportError as error:
    sys.exit(f"formats_extrap: {error}; run it in an environment that has Extra-P")

EXACT = 1e-12


def compare(truth, experiment) -> str:
    known = {(path.name, metric.name): of for (path, metric), of in experiment.measurements.items()}
    points = wrong = missing = 0
    for path, metrics in truth.items():
        for metric, expected in metrics.items():
            if (path, metric) not in known:
                missing += 1
                continue
            found = {
                tuple(map(float, measurement.coordinate)): measurement
                for measurement in known[path, metric]
            }
            for point in expected:
                points += 1
                read = found[tuple(map(float, point["point"]))]
                is_same = np.isclose(read.mean, np.mean(point["values"]), rtol=EXACT, atol=0)
                if is_same and read.values is not None:
                    values = np.sort(np.ravel(read.values)), np.sort(point["values"])
                    is_same = np.allclose(*values, rtol=EXACT, atol=0)
                wrong += not is_same
    generator = ModelGenerator(experiment)
    generator.model_all()
    return (
        f"{points} points, {wrong} wrong; {missing} series missing; {len(generator.models)} models"
    )


def load(reader, file: str):
    reader.keep_values = True
    return reader.read_experiment(file)


def main(stem: str) -> None:
    with open(f"{stem}.json", encoding="utf-8") as file:
        data = json.load(file)
    experiments = {
        "json": load(JsonFileReader(), f"{stem}.json"),
        "extra-p-text": load(TextFileReader(), f"{stem}.extra-p-text"),
        "extra-p-jsonl": load(JsonFileReader(), f"{stem}.extra-p-jsonl"),
        "extra-p": read_experiment(f"{stem}.extra-p"),
    }
    for name, experiment in experiments.items():
        truth = data["measurements"]
        if name == "extra-p":  # holds series that lack points, too
            parts = (truth, data["incomplete"])
            paths = {path for part in parts for path in part}
            truth = {
                path: {k: v for part in parts for k, v in part.get(path, {}).items()}
                for path in paths
            }
        print(f"{name:<14} {compare(truth, experiment)}")


if __name__ == "__main__":
    main(sys.argv[1])
