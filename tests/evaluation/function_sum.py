"""Bounds of the whole program as the sum of its functions: how often they hold, and how wide.

Programs of ten functions with laws of the PMNF, 2 % noise of each function and 0 to 5 % of the
whole run, five scales, one repetition. The time of a further run at four times the largest scale is
compared with the sum of the predictions [DET §6.2], whose bounds are roots of sums of squares. The
sums of all bounds stand beside them:

    python tests/evaluation/function_sum.py --seed 1 --programs 30
"""

import argparse

import numpy as np

from insitu.analysis.class_costs import costs_at
from insitu.analysis.whole_program import sum_functions
from insitu.entities import TIME_EXCLUSIVE, CallPath, RunKey
from insitu.modeling.measurement import Experiment, RunTable
from insitu.modeling.pipeline import RefitOptions, remodel

SCALES, TARGET = (4, 8, 16, 32, 64), 256
TERMS = (
    lambda p: np.ones_like(p),
    lambda p: np.log2(p),
    lambda p: p**0.5,
    lambda p: p,
    lambda p: 100 / p,
    lambda p: p * np.log2(p) / 10,
)


def main() -> None:
    """Print, for each noise of the whole run, how many sums each kind of bounds holds."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--programs", type=int, default=30)
    options = parser.parse_args()

    print("noise of runs | error | held by our bounds, by sums of bounds | width / value of ours")
    for shared in (0.0, 0.02, 0.05):
        errors, held, widths = [], [], []
        for program in range(options.programs):
            rng = np.random.default_rng([options.seed, int(1000 * shared), program])
            error, holds, width = evaluate(rng, shared)
            errors.append(error)
            held.append(holds)
            widths.append(width)
        shares = " ".join(f"{share:.0%}" for share in np.mean(held, axis=0))
        print(f"{shared:.0%} | {np.median(errors):.1%} | {shares} | {np.median(widths):.2f}")


def evaluate(rng: np.random.Generator, shared: float) -> tuple[float, list[bool], float]:
    """The relative error of the sum, whether each kind of bounds holds, and the width of ours."""
    laws = []
    for _ in range(10):
        constant, factor = 10 ** rng.uniform(-1, 1, 2)
        laws.append((constant, factor, TERMS[rng.integers(len(TERMS))]))
    paths = tuple(CallPath(("main", f"f{i}")) for i in range(len(laws)))

    def run(p: int) -> np.ndarray:
        x = np.array([float(p)])
        truth = np.concatenate([constant + factor * term(x) for constant, factor, term in laws])
        noise = rng.normal(1, 0.02, len(laws)) * rng.normal(1, shared)
        return truth * noise

    runs = []
    for p in SCALES:
        values = np.repeat(run(p)[:, None], p, axis=1)
        table = RunTable(paths, (TIME_EXCLUSIVE,), {TIME_EXCLUSIVE.name: values})
        runs.append((RunKey.of({"p": p}), table))
    models = remodel(Experiment(("p",), tuple(runs)), RefitOptions())

    total = sum_functions(models, [TARGET])
    assert total is not None
    measured = float(run(TARGET).sum())
    costs = costs_at(models, TIME_EXCLUSIVE.name, (float(TARGET),)).values()
    low = np.array([cost.value - cost.low for cost in costs])
    high = np.array([cost.high - cost.value for cost in costs])
    value = sum(cost.value for cost in costs)
    distance = measured - value
    sides = high if distance > 0 else low
    holds = [
        bool(total.low <= measured <= total.high),
        bool(abs(distance) <= sides.sum()),
    ]
    return abs(distance) / measured, holds, (total.high - total.low) / total.value


if __name__ == "__main__":
    main()
