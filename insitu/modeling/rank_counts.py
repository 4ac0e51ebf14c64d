"""Numbers of ranks that a program accepts: cubes, squares, powers, multiples.

Many programs refuse a number of ranks that does not fit their decomposition. What they accept is
unknown; that all measured numbers are cubes, for example, suggests that others are not accepted.
"""

from collections.abc import Sequence
from math import gcd

MIN_COUNTS = 2  # numbers above 1 that must share a property before it restricts others
MIN_MULTIPLES = 3  # numbers above 1 that must share a divisor before it restricts others
MAX_RANKS = 1 << 24  # of a proposed run
MAX_BASE = 12  # of powers that are recognised
MAX_STEPS = 64  # numbers of ranks that are looked through
USUAL_PRIMES = (2, 3)  # of numbers of ranks: 6, 8, 12, 24, which divide grids and nodes evenly


def next_rank_counts(measured: Sequence[int], number: int, end: float) -> list[int]:
    """Return the next larger numbers of ranks with the properties that all measured ones have.

    Where every measured number is a power of one base, the next ones are its next powers; cubes and
    squares continue as such. Otherwise they are 2 and 4 times the largest, and so on.

    Args:
        measured: the numbers of ranks of the runs so far.
        number: how many to return, at most.
        end: the largest that may be returned.
    """
    several = sorted({size for size in measured if size > 1})
    if not several:
        return []
    largest = several[-1]
    if len(several) >= MIN_COUNTS:
        for power in (3, 2):
            if all(_is_kth_power(size, power) for size in several):
                roots = [round(size ** (1 / power)) for size in several]
                return _next_powers(roots, power, number, end)

        base = _find_base(several)
        if base is not None:
            return _limit([largest * base**step for step in _steps(number)], end)

    # No powers: doubling keeps every common divisor.
    return _limit([largest * 2**step for step in _steps(number)], end)


def next_accepted(measured: Sequence[int], wanted: int) -> int | None:
    """Return the least number of ranks from `wanted` on with the properties of all measured ones.

    Where all measured numbers are products of USUAL_PRIMES, so is this one: 12 behind 6 and 8, and
    not 11, which fewer programs accept.

    Args:
        measured: the numbers of ranks of the runs so far.
        wanted: larger than all of them.

    Returns:
        None if there is none up to MAX_RANKS.
    """
    if not find_refused(measured, [wanted]):
        if not all(_is_usual(size) for size in measured):
            return wanted
        usual = (size for size in range(wanted, 2 * wanted) if _is_usual(size))
        return next(size for size in usual if not find_refused(measured, [size]))
    following = next_rank_counts(measured, MAX_STEPS, MAX_RANKS)
    return next((size for size in following if size >= wanted), None)


def list_rank_counts_between(measured: Sequence[int]) -> list[int]:
    """Return the numbers of ranks among the measured ones that have the properties of all of them.

    These are cubes, squares or powers of one base; there are none without such a property.

    Args:
        measured: the numbers of ranks of the runs so far.
    """
    several = sorted({size for size in measured if size > 1})
    if len(several) < MIN_COUNTS:
        return []

    for power in (3, 2):
        if all(_is_kth_power(size, power) for size in several):
            roots = [round(size ** (1 / power)) for size in several]
            base = _find_base(roots)
            between = [
                root**power
                for root in range(roots[0] + 1, roots[-1])
                if base is None or _is_power(root, base)
            ]
            return [size for size in between if size not in several]

    base = _find_base(several)
    if base is None:
        return []
    size, between = several[0] * base, []
    while size < several[-1]:
        between.append(size)
        size *= base
    return [size for size in between if size not in several]


def find_refused(measured: Sequence[int], named: Sequence[float]) -> list[float]:
    """Return the numbers of ranks without a property that all measured ones have, ascending.

    A single rank is never among them, and none is where the measured ones have no such property.

    Args:
        measured: the numbers of ranks of the runs so far.
        named: those in question.
    """
    several = sorted({size for size in measured if size > 1})
    if len(several) < MIN_COUNTS:
        return []

    for power in (3, 2):
        if all(_is_kth_power(size, power) for size in several):
            return sorted(n for n in named if n > 1 and not _is_kth_power(round(n), power))
    base = _find_base(several)
    if base is not None:
        return sorted(n for n in named if n > 1 and not _is_power(round(n), base))

    divisor = gcd(*several) if len(several) >= MIN_MULTIPLES else 1
    return sorted(n for n in named if n > 1 and round(n) % divisor)


def _next_powers(roots: Sequence[int], power: int, number: int, end: float) -> list[int]:
    """Cubes or squares beyond the largest; sides that are powers of a base go on as such.

    Two squares such as 4 and 16 are as likely powers of two; two cubes such as 8 and 64 are cubes.
    """
    base = _find_base(roots) if power == 2 or len(roots) > MIN_COUNTS else None
    if base is not None:
        return _limit([(roots[-1] * base**step) ** power for step in _steps(number)], end)
    return _limit([(roots[-1] + step) ** power for step in _steps(number)], end)


def _steps(number: int) -> range:
    return range(1, number + 1)


def _limit(sizes: Sequence[int], end: float) -> list[int]:
    return [size for size in sizes if size <= min(end, MAX_RANKS)]


def _find_base(sizes: Sequence[int]) -> int | None:
    """The least number of which all sizes are powers; None without one."""
    for base in range(2, MAX_BASE + 1):
        if all(_is_power(size, base) for size in sizes):
            return base
    return None


def _is_kth_power(size: int, power: int) -> bool:
    root = round(size ** (1 / power))
    return bool(root**power == size)


def _is_usual(size: int) -> bool:
    for prime in USUAL_PRIMES:
        while size % prime == 0:
            size //= prime
    return size == 1


def _is_power(size: int, base: int) -> bool:
    while size > 1 and size % base == 0:
        size //= base
    return size == 1
