"""Two campaigns of random programs whose truth is known, judged by `check` and by `diff`.

    python tests/evaluation/second_campaigns.py [--count 200] [--seed 1] [--only none growth]

A program has three to seven functions with laws over p, or over p and n, whose times vary by 0 to
10 % from run to run, on three to seven scales with one to five repetitions; counts are exact. The
second campaign measures it again: unchanged, with a disturbed run, or with one function changed.
They are compared by `check --baseline`, by the file that `check --accept` writes, by `diff`, and
the second one is judged by expectations as a user writes them, which hold for the program.
Anything that is violated, slower or faster although the program is not is false. Strict
expectations, that what grows is bounded, do not hold and should be violated. A change is clear if
it is ten times as large as the noise of the means that show it.
"""

import argparse
import json
import math
import os
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from insitu.analysis.comparison import ComparedCampaign, Comparison, compare_campaigns
from insitu.analysis.own_times import with_own_times
from insitu.entities import METRICS, CallPath, RunKey
from insitu.expectations.assess import assess, find_judgeable
from insitu.expectations.baseline import bounds_from_baseline
from insitu.expectations.entries import Entry, load_entries
from insitu.expectations.result import Result, Status
from insitu.modeling.base import ModelSet
from insitu.modeling.measurement import Experiment, FloatArray, RunTable
from insitu.modeling.pipeline import remodel
from insitu.workflows.accept import accept_growth
from tests.evaluation.healthy import SCALES

LAWS: dict[str, Callable[[float], float]] = {  # by the growth that a user expects
    "1": lambda _: 1.0,
    "log(p)": lambda p: 1 + math.log2(p),
    "p": lambda p: p,
    "p^(1/2)": lambda p: p**0.5,
    "1 / p": lambda p: 100 / p,
    "1 / p^(1/2)": lambda p: 10 / p**0.5,
    "p^2": lambda p: p * p,
    "p * log(p)": lambda p: p * math.log2(2 * p),
}
SUMS: dict[str, Callable[[float], float]] = {  # beside a constant, which may hide them
    "1": lambda p: 1 + 30 / p,
    "log(p)": lambda p: 10 + math.log2(p),
    "p": lambda p: 20 + p,
    "p^(1/2)": lambda p: 3 + p**0.5,
}
EXPONENTS = {
    **{"1": 0.0, "log(p)": 0.0, "p": 1.0, "p^(1/2)": 0.5},
    **{"1 / p": -1.0, "1 / p^(1/2)": -0.5, "p^2": 2.0, "p * log(p)": 1.0},
}
OF_SIZE: dict[str, Callable[[float], float]] = {
    "1": lambda _: 1.0,
    "n": lambda n: n / 64,
    "n^2": lambda n: (n / 64) ** 2,
    "n * log(n)": lambda n: n / 64 * math.log2(n),
}
SCALES_OF_TWO = ((2, 4, 8), (2, 4, 8, 16), (4, 8, 16, 32))
SIZES = (64, 128, 256)
NOISES = (0.0, 0.01, 0.02, 0.05, 0.10)
OF_RANKS = 0.01  # noise of the ranks of a run, beside that of the run
CLEAR = 10.0  # times the noise of a mean over repetitions
LEAST_GROWTH = 4.0  # factor between the smallest and the largest scale
MANY_SCALES = 4  # fewer leave several laws
LEAST_TIME = 0.01  # seconds
CHANGES = ("none", "disturbed", "factor", "growth", "calls", "growing calls", "new", "gone")
TIMES = ("time", "time_exclusive")


@dataclass(frozen=True)
class Function:
    """A function: its law over p and over n, and which ranks do more."""

    growth: str
    law: Callable[[float], float]
    growth_of_size: str
    seconds: float
    calls: int
    classes: str
    sends: bool
    time_factor: float = 1.0
    time_power: float = 0.0
    calls_factor: float = 1.0
    calls_power: float = 0.0
    is_missing: bool = False

    def value(self, p: float, n: float) -> float:
        return float(self.law(p) * OF_SIZE[self.growth_of_size](n))

    def time(self, p: float, n: float) -> float:
        """The mean over ranks that do no more than others."""
        return float(self.seconds * self.value(p, n) * self.time_factor * p**self.time_power)

    def visits(self, p: float, n: float) -> float:
        scaled = self.calls * self.value(p, n) * p**self.calls_power
        return max(1.0, float(round(scaled * 100 * self.calls_factor)))

    def weights(self, p: int) -> FloatArray:
        """What the ranks do beside the others."""
        ranks = np.arange(p)
        if self.classes == "half":
            return np.where(ranks < p // 2, 1.0, 1.6)
        if self.classes == "rank 0":
            return np.where(ranks == 0, 2.0, 1.0)
        return np.ones(p)


class Program:
    """A random program, and how it is measured."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.seed = seed
        self.sizes = SIZES if rng.random() < 0.15 else ()
        choices = SCALES_OF_TWO if self.sizes else SCALES
        self.scales = choices[rng.integers(len(choices))]
        self.repetitions = int(rng.choice([1, 1, 2, 3, 5]))
        self.noise = float(rng.choice(NOISES))
        self.functions = [self._draw(rng) for _ in range(rng.integers(3, 8))]

    def _draw(self, rng: np.random.Generator) -> Function:
        laws = SUMS if rng.random() < 0.3 else LAWS
        growth = str(rng.choice(list(laws)))
        return Function(
            growth=growth,
            law=laws[growth],
            growth_of_size=str(rng.choice(list(OF_SIZE))) if self.sizes else "1",
            seconds=float(10 ** rng.uniform(-3, 1)),
            calls=int(rng.integers(1, 1000)),
            classes=str(rng.choice(["none", "none", "half", "rank 0"])),
            sends=bool(rng.integers(2)),
        )

    @property
    def largest(self) -> tuple[float, float]:
        return float(self.scales[-1]), float(self.sizes[-1] if self.sizes else SIZES[0])

    def measure(
        self, functions: Sequence[Function], campaign: int, *, is_disturbed: bool = False
    ) -> Experiment:
        """A campaign of these functions; the campaigns differ in their noise alone."""
        keys = []
        for p in self.scales:
            for n in self.sizes or (SIZES[0],):
                at = {"p": p, "n": n} if self.sizes else {"p": p}
                keys += [(RunKey.of(at, i), p, n) for i in range(self.repetitions)]
        rng = np.random.default_rng([self.seed, campaign])
        disturbed = int(rng.integers(len(keys))) if is_disturbed else -1
        runs = []
        for i, (key, p, n) in enumerate(keys):
            slow = np.ones(len(functions))
            if i == disturbed:
                slow[rng.integers(len(slow)) if rng.integers(2) else slice(None)] = 2.0
            runs.append((key, self._run(functions, (p, n), rng, slow)))
        return Experiment(("n", "p") if self.sizes else ("p",), tuple(runs))

    def _run(
        self,
        functions: Sequence[Function],
        at: tuple[int, int],
        rng: np.random.Generator,
        slow: FloatArray,
    ) -> RunTable:
        p, n = at
        rows = {"main": {"visits": np.ones(p), "time_exclusive": self._vary(0.01, p, rng)}}
        for i, function in enumerate(functions):
            seconds = function.time(p, n) * slow[i] * function.weights(p)
            calls = function.visits(p, n) * function.weights(p).round()
            time, sending = self._vary(seconds, p, rng), self._vary(0.1 * seconds, p, rng)
            if function.is_missing:
                continue
            rows[f"main->f{i}"] = {"visits": calls, "time_exclusive": time}
            if function.sends:
                rows[f"main->f{i}->MPI_Send"] = {
                    "visits": calls,
                    "messages_sent": calls,
                    "bytes_sent": 800 * calls,
                    "time_exclusive": sending,
                }
        names = ("visits", "messages_sent", "bytes_sent", *TIMES)
        arrays = {name: np.full((len(rows), p), np.nan) for name in names}
        for row, values in enumerate(rows.values()):
            for name, value in values.items():
                arrays[name][row] = value
        for row, path in enumerate(rows):
            inside = [at == path or at.startswith(f"{path}->") for at in rows]
            arrays["time"][row] = arrays["time_exclusive"][inside].sum(axis=0)
        arrays = {name: table for name, table in arrays.items() if np.isfinite(table).any()}
        metrics = tuple(metric for metric in METRICS if metric.name in arrays)
        return RunTable(tuple(map(CallPath.parse, rows)), metrics, arrays)

    def _vary(self, seconds: FloatArray | float, p: int, rng: np.random.Generator) -> FloatArray:
        """Times of the ranks of a run: all of them vary together, and each for itself."""
        of_ranks = rng.normal(1, OF_RANKS if self.noise else 0.0, p)
        varied: FloatArray = seconds * max(0.1, rng.normal(1, self.noise)) * of_ranks
        return varied

    def expectations(self, rng: np.random.Generator) -> str:
        """A file of expectations as users write them; all of them hold for the program."""
        p, n = self.largest
        names = f"n={n:.0f}, " if self.sizes else ""
        lines = []
        for i, function in enumerate(self.functions):
            size = "" if function.growth_of_size == "1" else function.growth_of_size
            over_p = "" if function.growth == "1" else function.growth
            growth = "1"
            if size and over_p.startswith("1 / "):
                growth = f"{size} / {over_p[4:]}"
            elif size or over_p:
                growth = " * ".join(filter(None, (size, over_p)))
            more = 2 * float(function.weights(int(p)).max())
            seconds = more * function.time(p, n)
            forms = [
                f'growth = "O({growth})"\nmetric = "time_exclusive"',
                f'growth = "<= O({growth})"\nmetric = "time_exclusive"',
                f'growth = "O({growth})"\nmetric = "visits"',
                f'growth = "<= O({growth})"\nmetric = "visits"',
                f'limit = "time_exclusive at {names}p={p:.0f} < {seconds!r} s"',
                f'limit = "visits at {names}p={p:.0f} < {more * function.visits(p, n):.0f}"',
                f'growth = "O(1)"\nmetric = "time_exclusive"\nrelative_to = "f{i}"',
            ]
            for j in rng.choice(6 + function.sends, 3, replace=False).tolist():
                path = f"main->f{i}->MPI_Send" if j == 6 else f"main->f{i}"
                lines.append(f'[[expect]]\ncallpath = "{path}"\n{forms[j]}\n')
        return "\n".join(lines)

    def strict_expectations(self) -> str:
        """A file of expectations that do not hold: that what grows is bounded."""
        growing = [i for i, each in enumerate(self.functions) if EXPONENTS[each.growth] > 0]
        return "\n".join(
            f'[[expect]]\ncallpath = "main->f{i}"\ngrowth = "<= O({over})"\nmetric = "{metric}"'
            for i in growing
            for metric in ("time_exclusive", "visits")
            for over in [self.functions[i].growth_of_size]
            if (self.scales[-1] / self.scales[0]) >= 8 and self.functions[i].law in LAWS.values()
        )

    def is_clear(self, change: str, before: Function, after: Function, *, of: str) -> bool:
        """Whether measurements show a change in spite of their noise."""
        if change in ("calls", "new", "gone"):
            return True
        p, n = self.largest
        power = max(after.time_power, after.calls_power)
        factor = after.time_factor * p**power
        if "violated" in of:  # beyond what an expectation allows, half of its exponent
            if power <= abs(EXPONENTS[before.growth]) / 2 or len(self.scales) < MANY_SCALES:
                return False
            factor = (p / self.scales[0]) ** power
            if factor < LEAST_GROWTH:
                return False
        if change == "growing calls":
            return before.visits(self.scales[0], SIZES[0]) >= CLEAR
        noise = math.hypot(self.noise, OF_RANKS) * math.sqrt(2 / self.repetitions)
        return before.time(p, n) >= LEAST_TIME and math.log(factor) >= CLEAR * noise


def change_function(function: Function, change: str, rng: np.random.Generator) -> Function:
    """The changed function."""
    power = float(rng.choice([0.5, 1.0]))
    factor = float(rng.uniform(1.3, 3))
    if change == "factor":
        return replace(function, time_factor=factor)
    if change == "growth":
        return replace(function, time_power=power)
    if change == "calls":
        return replace(function, calls_factor=factor)
    if change == "growing calls":
        return replace(function, calls_power=power)
    return replace(function, is_missing=True)


@dataclass(frozen=True)
class Campaign:
    """A campaign with its models."""

    experiment: Experiment
    models: ModelSet

    @classmethod
    def of(cls, experiment: Experiment) -> "Campaign":
        return cls(experiment, remodel(experiment))

    def judge(self, entries: Sequence[Entry]) -> list[Result]:
        judgeable, _ = find_judgeable(entries, self.experiment, self.models)
        return assess(judgeable, self.experiment, self.models) if judgeable else []


def read_entries(text: str) -> list[Entry]:
    if not text:
        return []
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "expectations.toml")
        with open(path, "w") as file:
            file.write(text)
        return load_entries(path)


def accept(campaign: Campaign) -> list[Entry]:
    """What `check --accept` writes."""
    text, _ = accept_growth(campaign.experiment, campaign.models)
    return read_entries(text)


def compare(before: Campaign, after: Campaign) -> Comparison:
    compared = [
        ComparedCampaign(*with_own_times(campaign.experiment, campaign.models))
        for campaign in (before, after)
    ]
    comparison = compare_campaigns(*compared)
    assert comparison is not None
    return comparison


@dataclass(frozen=True)
class CommandVerdict:
    """What a command reports about a series."""

    how: str  # which command
    status: str  # "violated", "unsettled", "met", "slower", …
    path: str
    metric: str
    text: str

    @property
    def is_certain(self) -> bool:
        return self.how == "diff" or self.status == Status.VIOLATED

    def __str__(self) -> str:
        """The command, its verdict, and whether it is about a time or a count."""
        return f"{self.how} {self.status} {'time' if self.metric in TIMES else 'count'}"


def collect_verdicts(
    program: Program, before: Campaign, after: Campaign
) -> Iterator[CommandVerdict]:
    """All results of expectations, and all differences."""
    bounds, _ = bounds_from_baseline(before.models, after.models, [])
    rng = np.random.default_rng([program.seed, 99])
    entries = {
        "baseline": bounds,
        "accepted": accept(before),
        "expectations": read_entries(program.expectations(rng)),
        "strict": read_entries(program.strict_expectations()),
    }
    for how, listed in entries.items():
        for result in after.judge(listed):
            status = str(Status.MET if result.status is Status.NEAR else result.status)
            text = f"{result.behaviour}: {result.text}"
            yield CommandVerdict(how, status, result.subject, result.metric, text)
    for change in compare(before, after).changes:
        text = f"{change.behaviour}: {change.before:.4g}, {change.after:.4g}"
        text += f" ({change.low:.3g} to {change.high:.3g}) {change.law_before}, {change.law_after}"
        yield CommandVerdict("diff", change.status, str(change.callpath), change.metric, text)


WANTED = {  # the verdicts that show a change
    "factor": ("diff slower time",),
    "growth": ("diff slower time", "baseline violated time", "accepted violated time"),
    "calls": ("diff changed count",),
    "growing calls": ("diff changed count", "baseline violated count", "accepted violated count"),
    "new": ("diff new count",),
    "gone": ("diff gone count",),
}


@dataclass(frozen=True)
class Judged:
    """The verdicts on a pair of campaigns.

    Attributes:
        false: certain statements that do not hold.
        outcomes: by the verdict that the change should have: found, unclear, missed if it has
            another one although it is clear.
    """

    program: Program
    false: tuple[CommandVerdict, ...]
    outcomes: tuple[str, ...]


def judge_pair(seed: int, change: str) -> Judged:
    """Measure a program twice, and compare the verdicts with its truth."""
    program = Program(seed)
    rng = np.random.default_rng([seed, 7])
    i = int(rng.integers(len(program.functions)))
    first = list(program.functions)
    second = list(first)
    is_same = change in ("none", "disturbed")
    if not is_same:
        second[i] = change_function(first[i], change, rng)
    before = Campaign.of(program.measure(second if change == "new" else first, 0))
    experiment = program.measure(
        first if change == "new" else second, 1, is_disturbed=change == "disturbed"
    )
    verdicts = list(collect_verdicts(program, before, Campaign.of(experiment)))

    wanted = WANTED.get(change, ())
    of_change: list[CommandVerdict] = []
    false: list[CommandVerdict] = []
    for entry in verdicts:
        is_changed = not is_same and f"main->f{i}" in entry.path
        if entry.how in ("expectations", "strict") and not is_same:
            continue  # of the program as it was
        if is_changed:
            of_change.append(entry)
        is_main = not is_same and entry.path == "main" and entry.metric == "time"
        is_due = entry.how == "strict" or (is_changed and str(entry) in wanted)
        # A factor of the time may also be slower messages, and growing calls take longer.
        is_due |= is_changed and entry.how == "diff" and change != "disturbed"
        is_due |= is_changed and change in ("growth", "growing calls")
        if entry.is_certain and not is_due and not is_main:
            false.append(entry)

    outcomes = [f"strict {entry.status}" for entry in verdicts if entry.how == "strict" and is_same]
    for name in wanted:
        is_clear = program.is_clear(change, first[i], second[i], of=name)
        outcomes.append(_outcome(name, of_change, is_clear=is_clear))
    return Judged(program, tuple(false), tuple(outcomes))


def _outcome(name: str, verdicts: Sequence[CommandVerdict], *, is_clear: bool) -> str:
    """Whether the verdicts show a change."""
    how, _, series = name.split()
    same = [entry for entry in verdicts if entry.how == how and str(entry).endswith(series)]
    if name in map(str, verdicts):
        return f"{name}: found"
    if not is_clear:
        return f"{name}: not clear, nor found"
    if "violated" in name and not same:
        return f"{name}: clear, but not judged"
    if any(entry.status == Status.UNSETTLED for entry in same):
        return f"{name}: clear, but unsettled"
    return f"{name}: clear, but missed"


def main() -> None:
    """Print a line of JSON for each kind of change."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=200, help="pairs of campaigns")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", nargs="+", choices=CHANGES, default=CHANGES)
    parser.add_argument("--details", action="store_true", help="print what is false or missed")
    options = parser.parse_args()

    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for number in range(options.count):
        change = options.only[number % len(options.only)]
        seed = options.seed + number
        row = counts[change]
        row["pairs"] += 1
        try:
            judged = judge_pair(seed, change)
        except Exception as error:
            row["failed"] += 1
            print(f"{seed} {change} failed: {error!r}", file=sys.stderr, flush=True)
            continue
        row["pairs with a false statement"] += bool(judged.false)
        row.update(f"false {name}" for name in set(map(str, judged.false)))
        row.update(judged.outcomes)
        missed = [outcome for outcome in judged.outcomes if "missed" in outcome]
        if options.details and (judged.false or missed):
            program = judged.program
            how = f"{program.scales} {program.sizes} x{program.repetitions} {program.noise}"
            print(seed, change, how, *missed, flush=True)
            for entry in judged.false:
                print("   ", entry, entry.path, entry.metric, entry.text, flush=True)
    for change, row in counts.items():
        print(json.dumps({"change": change, **dict(sorted(row.items()))}))


if __name__ == "__main__":
    main()
