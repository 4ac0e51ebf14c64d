"""Cost and accuracy of experiment designs on synthetic applications, [DET §6].

    python tests/evaluation/design.py --apps 6 --noise 0.02 0.05

Applications like those of [DET]: Kripke-like, whose functions depend on `dirsets` or on `procs`,
and Pace3D-like, whose functions depend on `vol` or `cubes`, some times a power of `procs`. The
variant `real` has exponents that are off by N(0, 0.06) from what counts say, and functions of `vol`
that slow down by a quarter where the working set of a rank is large, as caches do; `hidden` lets
`vol` slow the functions of `cubes`, which no count can see. Every design is measured with the same
noise, every function is modelled over the parameters it depends on, and the sum is compared with
the truth between and beyond the levels. Cost is core-seconds, in percent of the full factorial
design with five repetitions.

Where laws are as simple as their terms, a row says what the budget allows at best: expected errors
of who knows every law but its two coefficients, and may run what tells most as often as he likes.

With `--checks` it is the check points that are measured: how many functions that an unseen
interaction slows are named, how many others, and what refitting with the pair allowed gives.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise, product

import numpy as np

import insitu
from insitu.design.advise import choose_first_runs, choose_next_point, list_candidates
from insitu.design.checks import HiddenInteraction, MeasuredPoints, find_hidden_interactions
from insitu.design.deduce import deduce_design
from insitu.design.dependencies import Dependency, Nest, Structure
from insitu.design.factorial import Point, full_factorial, sparse_design
from insitu.design.laws import sample_laws

LEVELS = {
    "kripke": {"procs": (8.0, 16.0, 32.0, 64.0, 128.0), "dirsets": (8.0, 16.0, 24.0, 32.0, 64.0)},
    "pace3d": {
        "procs": (8.0, 16.0, 32.0, 64.0, 128.0),
        "vol": (1e3, 2e3, 4e3, 8e3, 16e3),
        "cubes": (10.0, 20.0, 40.0, 80.0, 160.0),
    },
}
KINDS = {
    "kripke": [(("dirsets",), 12), (("procs",), 2)],
    "pace3d": [
        (("vol", "procs"), 6),
        (("cubes", "procs"), 2),
        (("vol",), 3),
        (("cubes",), 4),
        (("procs",), 2),
    ],
}
EXPONENTS = (1.0, 1.0, 1.0, 0.5, 1.5, 2.0)
CASES = ("kripke", "pace3d", "kripke-real", "pace3d-real", "pace3d-hidden")
BUDGET = {"kripke": 0.04, "pace3d": 0.013}  # of the full factorial design with repetitions


@dataclass(frozen=True)
class Function:
    """constant + coefficient * product of powers, with what no analysis knows on top."""

    parameters: tuple[str, ...]
    powers: dict[str, float]  # of its time
    counted: dict[str, float]  # of its counts
    constant: float
    coefficient: float
    variant: str

    def at(self, points: np.ndarray, names: Sequence[str]) -> np.ndarray:
        values = np.full(len(points), self.coefficient)
        for name, power in self.powers.items():
            values = values * points[:, names.index(name)] ** power
        values += self.constant
        if self.variant == "real" and "vol" in self.parameters:
            share = points[:, names.index("vol")] / points[:, names.index("procs")]
            values = values * (1 + 0.25 / (1 + (500 / share) ** 4))
        if self.variant == "hidden" and "cubes" in self.parameters:
            values = values * (1 + 0.25 * np.log2(points[:, names.index("vol")] / 1e3) / 4)
        return values


@dataclass(frozen=True)
class Application:
    """Functions over named parameters; what may be measured is `levels`."""

    names: tuple[str, ...]
    levels: dict[str, tuple[float, ...]]
    functions: tuple[Function, ...]

    @classmethod
    def make(cls, kind: str, variant: str, seed: int) -> "Application":
        random = np.random.default_rng(seed)
        levels = LEVELS[kind]
        functions = []
        for parameters, count in KINDS[kind]:
            for _ in range(count):
                powers = {name: float(random.choice(EXPONENTS)) for name in parameters}
                if "procs" in parameters:
                    among = (-1.0, -1.0, -0.5) if len(parameters) > 1 else (0.5, 1.0)
                    powers["procs"] = float(random.choice(among))
                middle = np.prod([np.median(levels[n]) ** e for n, e in powers.items()])
                counted = dict(powers)
                if variant == "real":
                    powers = {n: e + random.normal(0, 0.06) for n, e in powers.items()}
                size = random.uniform(0.1, 1.0)
                constant = size * random.uniform(0, 1)
                functions.append(
                    Function(parameters, powers, counted, constant, float(size / middle), variant)
                )
        return cls(tuple(levels), levels, tuple(functions))

    def exact(self, points: np.ndarray) -> np.ndarray:
        return np.stack([function.at(points, self.names) for function in self.functions])

    def cost(self, point: Point) -> float:
        at = np.array([[value for _, value in point.values]])
        return float(point["procs"] * self.exact(at).sum())

    def structure(self, *, has_forms: bool = False) -> Structure:
        """What is known of it: names of parameters, or what counts say of the forms as well."""
        dependencies = tuple(
            Dependency(f"f{i}", (Nest.of(function.counted if has_forms else function.parameters),))
            for i, function in enumerate(self.functions)
        )
        return Structure((*self.names, "iters"), dependencies, (), "iters", "procs")


def array(points: Sequence[Point]) -> np.ndarray:
    return np.array([[value for _, value in point.values] for point in points])


def measure(app: Application, points: np.ndarray, repetitions: int, noise: float, seed: int):
    random = np.random.default_rng(seed)
    exact = app.exact(points)
    return exact[..., None] * (1 + noise * random.standard_normal((*exact.shape, repetitions)))


def predict(
    app: Application, points: np.ndarray, values: np.ndarray, target: np.ndarray
) -> np.ndarray:
    """The sum of all functions at `target`, each modelled over its own parameters."""
    total = np.zeros(len(target))
    for parameters in {function.parameters for function in app.functions}:
        rows = [i for i, function in enumerate(app.functions) if function.parameters == parameters]
        columns = [app.names.index(name) for name in parameters]
        models = insitu.fit(points[:, columns], values[rows], parameters=parameters)
        total += sum(model.predict(target[:, columns]) for model in models)
    return total


def adaptive(
    app: Application, target: np.ndarray, noise: float, seed: int, budget: float, *, has_forms: bool
):
    """Runs that `insitu advise` asks for, until the budget is spent; its laws."""
    dependencies = app.structure(has_forms=has_forms).resolve()
    points = choose_first_runs(app.levels, ranks="procs")
    while True:
        at = array(points)
        values = measure(app, at, 1, noise, seed)[..., 0]
        laws = sample_laws(at, values, app.names, dependencies, noise=noise)
        spent = sum(map(app.cost, points))
        left = [
            point
            for point in list_candidates(app.levels, points)
            if spent + app.cost(point) <= budget
        ]
        if not left:
            break
        points.append(choose_next_point(laws, left, target, app.cost, noise))
    return at, laws


def limit(app: Application, noise: float, budget: float) -> tuple[float, ...]:
    """Runs, cost, and errors in percent between and beyond, of who only misses coefficients.

    The variance of weighted least squares; runs are added one by one, each where it lowers the
    variance beyond the levels most for its cost.
    """
    points, outer = array(full_factorial(app.levels).points), beyond(app)
    exact, prices = app.exact(points), np.array([cost_of(app, point[None]) for point in points])

    def terms(function: Function, at: np.ndarray) -> np.ndarray:
        grown = [at[:, app.names.index(name)] ** power for name, power in function.powers.items()]
        return np.stack([np.ones(len(at)), np.prod(grown, axis=0) * function.coefficient], axis=1)

    def error(counts: np.ndarray, at: np.ndarray) -> float:
        variance = np.zeros(len(at))
        for function, values in zip(app.functions, exact, strict=True):
            known, asked = terms(function, points), terms(function, at)
            inverse = np.linalg.pinv(known.T @ (known * (counts / values**2)[:, None]))
            variance += np.einsum("ti,ij,tj->t", asked, inverse, asked)
        relative = np.sqrt(variance) / app.exact(at).sum(axis=0)
        return float(100 * noise * np.sqrt(2 / np.pi) * np.mean(relative))

    counts = np.full(len(points), 1e-3)
    spent = 0.0
    while len(left := np.flatnonzero(spent + prices <= budget)):
        now = error(counts, outer)
        gains = [(now - error(counts + np.eye(len(points))[i], outer)) / prices[i] for i in left]
        best = left[int(np.argmax(gains))]
        counts[best] += 1
        spent += prices[best]
    return round(float(counts.sum())), spent, error(counts, between(app)), error(counts, outer)


def designs(app: Application):
    """Name, points and repetitions of each design."""
    full = array(full_factorial(app.levels).points)
    yield "full factorial x5", full, 5
    yield "full factorial x1", full, 1
    yield "sparse x5 (Extra-P)", array(sparse_design(app.levels).points), 5
    yield "Plackett-Burman x1", plackett_burman(app), 1
    levels = {**app.levels, "iters": (10.0,)}
    yield (
        "Performance-Detective",
        array(deduce_design(app.structure(), levels, rule="paper").points),
        1,
    )
    yield "insitu design", array(deduce_design(app.structure(), levels).points), 1
    if len(app.names) == 2:
        cheapest = deduce_design(app.structure(), levels, pairing="cheapest", cost=app.cost)
        yield "- cheapest pairing", array(cheapest.points), 1


def plackett_burman(app: Application) -> np.ndarray:
    """25 runs of five levels in which every two parameters meet in every combination."""
    rows = [
        [of[(i + k * j) % 5] for k, of in enumerate(app.levels.values())]
        for i, j in product(range(5), repeat=2)
    ]
    return np.unique(np.array(rows), axis=0)


def between(app: Application) -> np.ndarray:
    means = [[(a * b) ** 0.5 for a, b in pairwise(of)] for of in app.levels.values()]
    return np.array(list(product(*means)))


def beyond(app: Application) -> np.ndarray:
    """Twice and four times the largest value of the parameters that move together, [DET §6.2]."""
    free = [name for name in app.names if name != "procs" or len(app.names) == 2]
    procs = app.levels["procs"][-2:]
    rows = []
    for factor in (2.0, 4.0):
        for p in procs:
            row = {name: of[-1] * factor for name, of in app.levels.items() if name in free}
            rows.append([row.get(name, p) for name in app.names])
    return np.array(rows)


def checked(
    app: Application, noise: float, seed: int
) -> tuple[MeasuredPoints, list[HiddenInteraction]]:
    """Runs of the deduced design and of its check points, and what these show."""
    levels = {**app.levels, "iters": (10.0,)}
    structure = app.structure()
    design = deduce_design(structure, levels, rule="paper")
    runs, checks = (
        MeasuredPoints(points, measure(app, points, 1, noise, seed + i)[..., 0])
        for i, points in enumerate(map(array, (design.points, design.checks)))
    )
    dependencies = structure.resolve()
    found = find_hidden_interactions(
        runs, checks, app.names, dependencies, design.confounded, noise=noise
    )
    return runs, found


def report_checks(kind: str, variant: str, noise: float, seeds: Sequence[int]) -> None:
    """Functions that are named, rightly and wrongly, and errors before and after refitting."""
    right = hidden = wrong = others = 0
    errors = []
    for seed in seeds:
        app = Application.make(kind, variant, seed)
        runs, found = checked(app, noise, seed)
        slowed = {
            f"f{i}"
            for i, function in enumerate(app.functions)
            if variant == "hidden" and "cubes" in function.parameters
        }
        named = {dependency.callpath for dependency in found}
        right, hidden = right + len(named & slowed), hidden + len(slowed)
        wrong, others = wrong + len(named - slowed), others + len(app.functions) - len(slowed)
        dependencies = app.structure().resolve()
        known = sample_laws(runs.points, runs.values, app.names, dependencies, noise=noise)
        laws = {
            dependency.callpath: law for dependency, law in zip(dependencies, known, strict=True)
        }
        exact = app.exact(beyond(app)).sum(axis=0)
        for_all = laws | {dependency.callpath: dependency.law for dependency in found}
        errors.append(
            [
                100 * float(np.mean(np.abs(total / exact - 1)))
                for chosen in (laws, for_all)
                for total in [
                    np.median(sum(law.at(beyond(app)) for law in chosen.values()), axis=0)
                ]
            ]
        )
    before, after = np.mean(errors, axis=0)
    print(
        f"{kind} {variant:7}{noise:5.0%} noise: {right} of {hidden} hidden interactions named,"
        f" {wrong} of {others} others; extrapolated {before:.1f} %, refitted {after:.1f} %",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--apps", type=int, default=4, help="applications per row")
    parser.add_argument("--noise", type=float, nargs="+", default=[0.02, 0.05])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--checks", action="store_true", help="measure check points instead")
    parser.add_argument("--cases", nargs="+", choices=CASES, default=CASES)
    options = parser.parse_args()
    for kind, _, variant in (case.partition("-") for case in options.cases):
        for noise in options.noise:
            if options.checks:
                seeds = [options.seed * 1000 + number for number in range(options.apps)]
                report_checks(kind, variant, noise, seeds)
                continue
            table: dict[str, list[tuple[float, ...]]] = {}
            for number in range(options.apps):
                seed = options.seed * 1000 + number
                for name, row in outcome(kind, variant, noise, seed):
                    table.setdefault(name, []).append(row)
            report(f"{kind} {variant}".strip(), noise, table)


def outcome(kind: str, variant: str, noise: float, seed: int):
    """Runs, cost in percent and errors in percent of each design."""
    app = Application.make(kind, variant, seed)
    inner, outer = between(app), beyond(app)
    exact = {"inner": app.exact(inner).sum(axis=0), "outer": app.exact(outer).sum(axis=0)}
    base = cost_of(app, array(full_factorial(app.levels).points)) * 5

    def errors(at_inner: np.ndarray, at_outer: np.ndarray) -> list[float]:
        pairs = ((at_inner, exact["inner"]), (at_outer, exact["outer"]))
        return [100 * float(np.mean(np.abs(found / truth - 1))) for found, truth in pairs]

    for name, points, repetitions in designs(app):
        values = measure(app, points, repetitions, noise, seed)
        found = [predict(app, points, values, at) for at in (inner, outer)]
        cost = 100 * repetitions * cost_of(app, points) / base
        yield name, (len(points) * repetitions, cost, *errors(*found))
    if not variant:
        runs, spent, *least = limit(app, noise, BUDGET[kind] * base)
        yield "at best, laws known", (runs, 100 * spent / base, *least)
    target = np.vstack([inner[:: max(len(inner) // 4, 1)], outer])
    for name, has_forms in (("insitu advise", False), ("- forms from counts", True)):
        points, laws = adaptive(app, target, noise, seed, BUDGET[kind] * base, has_forms=has_forms)
        found = [np.median(sum(law.at(at) for law in laws), axis=0) for at in (inner, outer)]
        yield name, (len(points), 100 * cost_of(app, points) / base, *errors(*found))


def cost_of(app: Application, points: np.ndarray) -> float:
    """Core-seconds of one run of each point."""
    return float(np.sum(points[:, app.names.index("procs")] * app.exact(points).sum(axis=0)))


def report(case: str, noise: float, table: dict[str, list[tuple[float, ...]]]) -> None:
    print(f"\n{case}, {noise:.0%} noise, {len(next(iter(table.values())))} applications")
    print(f"{'design':24}{'runs':>6}{'cost %':>8}{'interpolated %':>16}{'extrapolated %':>16}")
    for name, rows in table.items():
        runs, cost, inner, outer = np.mean(rows, axis=0)
        print(f"{name:24}{runs:6.0f}{cost:8.2f}{inner:16.1f}{outer:16.1f}", flush=True)


if __name__ == "__main__":
    main()
