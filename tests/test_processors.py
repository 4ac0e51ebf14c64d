"""The answers do not depend on the processor: every BLAS kernel gives the same ones.

OpenBLAS chooses its kernels by the processor. Their sums differ in the last bits, and the
eigenvectors that they return differ in signs and rotations.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

KERNELS = {"Nehalem": "sse4_2", "Haswell": "avx2", "Zen": "avx2", "SkylakeX": "avx512f"}
# Relative. Sums differ in their last bits, and single precision has seven digits; without noise the
# intervals are so narrow that their ends show more of it. Printed values have at most four digits.
SAME = 1e-7

ANSWERS = """
import json
import numpy as np
import insitu
from insitu.modeling.classes.mixture import find_classes
from insitu.design.advise import choose_first_runs, choose_next_point, list_candidates
from insitu.design.dependencies import Dependency, Nest
from insitu.design.laws import sample_laws

answers = {"chosen": [], "texts": [], "numbers": []}

# Runs that `advise` proposes; without noise, constants that are zero are at their limit.
levels = {"p": (8.0, 16.0, 32.0, 64.0, 128.0), "n": (1e3, 2e3, 4e3, 8e3, 16e3)}
dependencies = [Dependency("work", (Nest.of(["p", "n"]),)), Dependency("sum", (Nest.of("p"),))]
target = np.array([[256.0, 32e3]])
for noise in (0.0, 0.02):
    points = choose_first_runs(levels)
    for step in range(2):
        at = np.array([[value for _, value in point.values] for point in points])
        p, n = at.T
        values = np.array([2 + 0.01 * n / p, 0.3 * np.log2(p)])
        values *= 1 + noise * np.random.default_rng(1).standard_normal(values.shape)
        laws = sample_laws(at, values, ("p", "n"), dependencies)
        answers["numbers"] += sum(law.at(target) for law in laws).ravel().tolist()
        candidates = list_candidates(levels, points)
        points.append(choose_next_point(laws, candidates, target, lambda point: point["p"]))
    answers["chosen"] += [str(point) for point in points]

# Models of one and of two parameters, with noise and without.
random = np.random.default_rng(2)
x = 2.0 ** np.arange(1, 8)
exponents = random.choice([0, 1 / 3, 0.5, 1, 1.5, 2], (12, 1))
truth = 10 ** random.uniform(-2, 3, (12, 1)) + 10 ** random.uniform(-2, 3, (12, 1)) * x**exponents
truth[6:, 4:] *= 3
noisy = truth * (1 + 0.03 * random.standard_normal(truth.shape))
for modeler in ("evidence", "search", "refine", "segmented"):
    for model in insitu.fit(x, np.concatenate([truth, noisy]), modeler=modeler):
        answers["texts"].append(str(model))
        answers["numbers"] += model.predict([256.0]).tolist()
        answers["numbers"] += model.interval([256.0]).ravel().tolist()

# Laws that are no functions of the space, few points, and a run that was slow in all call paths.
x = 2.0 ** np.arange(1, 10)
others = {
    "saturating": 1 + 20 * x / (x + 40),
    "beginning": 1 + 0.3 * np.maximum(x - 40, 0),
    "divided": np.ceil(1000 / x),
    "alternating": (5 + x**0.5) * np.where(np.log2(x) % 2 == 1, 1.3, 1.0),
    "newest": (3 + x) * np.where(x == x[-1], 2.0, 1.0),
    "zero": np.where(x == 8, 0.0, 2 + x),
}
others = np.array(list(others.values()))[:, :, None]
others = others * (1 + 0.02 * random.standard_normal((*others.shape[:2], 3)))
slow_run = others * np.where(x == 64, 1.5, 1.0)[:, None]
for points, series in ((x, others), (x, slow_run), (x[:3], others[:, :3]), (x[:4], others[:, :4])):
    for model in insitu.fit(points, series):
        answers["texts"] += [str(model), *map(str, model.findings)]
        answers["numbers"] += model.predict([2.0 * points[-1]]).tolist()
        answers["numbers"] += model.interval([2.0 * points[-1]]).ravel().tolist()

grid = np.array([(p, n) for p in (4, 8, 16, 32, 64) for n in (10, 20, 40, 80, 160)], dtype=float)
p, n = grid.T
values = np.array([3 + 0.1 * p * n**0.5, p + 2 * n, 5 * n / p, n * p / (p + 20), n / p**0.4])
values *= 1 + 0.02 * random.standard_normal(values.shape)
small = (p <= 16) & (n <= 40)
for points, series in ((grid, values), (grid[small], values[:, small])):
    for model in insitu.fit(points, series, parameters=("p", "n")):
        answers["texts"].append(str(model))
        answers["numbers"] += model.predict([[128.0, 320.0]]).tolist()
        answers["numbers"] += model.interval([[128.0, 320.0]]).ravel().tolist()

# Verdicts on expectations.
x = 2.0 ** np.arange(1, 8)
for verdict in insitu.validate(x, np.concatenate([truth, noisy]), "O(p)"):
    answers["texts"].append(f"{verdict.match} {verdict.function} {verdict.settling_point}")
    answers["numbers"].append(verdict.probability)

# Clusters of ranks, and behaviour classes of several runs.
ranks = 10 ** random.uniform(-2, 3, (20, 1)) * (1 + 0.3 * random.integers(0, 3, (20, 64)))
ranks *= 1 + 0.02 * random.standard_normal(ranks.shape)
answers["texts"] += [str(row) for row in insitu.cluster(ranks).tolist()]
walls = [(np.arange(p) % 4 == 0) + (np.arange(p) % 7 == 0) for p in (16, 36, 64, 144)]
times = [1.2**count * np.exp(0.02 * random.standard_normal(len(count))) for count in walls]
mixture = find_classes(times, x=np.array([16.0, 36.0, 64.0, 144.0]), floor=0.01)
answers["texts"] += [str(labels.tolist()) for labels in mixture.labels]

# Classes that have no law: a smooth course over the ranks is none.
courses = [1 + 0.5 * np.linspace(0, 1, p) for p in (16, 36, 64, 144)]
times = [course * np.exp(0.02 * random.standard_normal(len(course))) for course in courses]
mixture = find_classes(times, x=np.array([16.0, 36.0, 64.0, 144.0]), floor=0.01)
answers["texts"] += [str(labels.tolist()) for labels in mixture.labels]
print(json.dumps(answers))
"""


def processor_flags() -> str:
    """Return what the processor can do, as Linux lists it."""
    path = Path("/proc/cpuinfo")
    return path.read_text(encoding="utf-8") if path.exists() else ""


@pytest.mark.full
@pytest.mark.parametrize("which", ["ends", "all"])
def test_all_kernels_give_the_same_answers(which):
    flags = processor_flags()
    usable = [kernel for kernel, flag in KERNELS.items() if flag in flags]
    if which == "ends":  # the oldest and the newest differ most
        usable = list(dict.fromkeys((usable[0], usable[-1]))) if usable else []
    if len(usable) < 2:
        pytest.skip("this processor runs one kernel only")

    processes = {
        kernel: subprocess.Popen(
            [sys.executable, "-c", ANSWERS],
            env={**os.environ, "OPENBLAS_CORETYPE": kernel, "OPENBLAS_NUM_THREADS": "1"},
            stdout=subprocess.PIPE,
        )
        for kernel in usable
    }
    outputs = {kernel: process.communicate()[0] for kernel, process in processes.items()}

    first, *others = (json.loads(output) for output in outputs.values())
    for other in others:
        assert other["chosen"] == first["chosen"]
        assert other["texts"] == first["texts"]
        assert np.allclose(other["numbers"], first["numbers"], rtol=SAME, atol=0, equal_nan=True)
