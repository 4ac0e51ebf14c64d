"""Structures and levels of programs in [DET], for tests of designs."""

from itertools import product

from insitu.design.dependencies import Dependency, Nest
from insitu.design.factorial import Point

FIVE = [1.0, 2.0, 3.0, 4.0, 5.0]
KRIPKE = {"procs": [8, 16, 32, 64, 128], "dirsets": [8, 16, 24, 32, 64], "iters": FIVE}
PACE3D = {
    "procs": [8, 16, 32, 64, 128],
    "vol": [1, 2, 3, 4, 5],
    "cubes": [10, 20, 30, 40, 50],
    "iters": FIVE,
}


def paths(*sets: str) -> tuple[Dependency, ...]:
    """Return a call path per text, with one nest over the parameters in it: `vol*procs`."""
    return tuple(
        Dependency(f"f{i}", (Nest.of(text.split("*")),) if text else ())
        for i, text in enumerate(sets)
    )


def sees_grid(points: tuple[Point, ...], names: list[str], levels: dict) -> bool:
    """Whether the points contain the whole grid over some parameters."""
    measured = {tuple(point[name] for name in names) for point in points}
    return measured == set(product(*(map(float, levels[name]) for name in names)))
