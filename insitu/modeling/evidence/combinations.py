"""Which sums and products of terms of several parameters are weighed, told by slots.

A slot is the place of a term among those kept of its parameter, so that all series share one plan
although they keep different terms.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations

import numpy as np

from insitu.modeling.measurement import FloatArray, IntArray

PRIOR_OF_CONSTANT = 0.1  # that no parameter matters

Groups = tuple[tuple[int, ...], ...]  # parameters that make up each product of a structure


@lru_cache(maxsize=16)
def structures(count: int) -> tuple[tuple[Groups, float], ...]:
    """Ways to combine one term per parameter, with their prior: (products, probability)."""
    found: dict[Groups, float] = {(): PRIOR_OF_CONSTANT}
    share = (1 - PRIOR_OF_CONSTANT) / count
    for size in range(1, count + 1):
        subsets = list(combinations(range(count), size))
        for subset in subsets:
            forms = [*_partitions(subset), *_nested(subset)]
            for form in forms:
                found[form] = share / len(subsets) / len(forms)
    return tuple(found.items())


def _partitions(items: tuple[int, ...]) -> list[Groups]:
    if not items:
        return [()]
    first, answer = items[0], []
    for groups in _partitions(items[1:]):
        answer.append(((first,), *groups))
        for i, group in enumerate(groups):
            answer.append((*groups[:i], (first, *group), *groups[i + 1 :]))
    return answer


def _nested(subset: tuple[int, ...]) -> list[Groups]:
    return [((one,), subset) for one in subset] if len(subset) == 2 else []


@dataclass(frozen=True, slots=True)
class Family:
    """Combinations with the same number of columns.

    combinations: (f,) indices; columns: (f, k); places: for each element of the lower triangle of
    their normal equations, (f,) indices into the pairs of the plan.
    """

    combinations: IntArray
    columns: IntArray
    places: tuple[tuple[IntArray, ...], ...]
    only_constant: bool


@dataclass(frozen=True, slots=True)
class Plan:
    """All combinations of K terms of each of m parameters.

    groups: parameters of each block of columns after the constant; factors: per column,
    (parameter, slot) of its factors; column_slots: (c + 1, m), the same as a table, -1 where a
    parameter does not occur and in the last row; members: (h, k) columns of each combination, the
    constant (0) first, -1 for none; slots: (h, m), -1 where a parameter does not occur; structure:
    (h,) index into `structures`; keys: (h,), equal for combinations that differ in the constant
    only; pairs: (p, 2) columns whose products are needed; squares: (c,) their index for each
    column with itself.
    """

    groups: Groups
    factors: tuple[tuple[tuple[int, int], ...], ...]
    column_slots: IntArray
    members: IntArray
    slots: IntArray
    structure: IntArray
    keys: IntArray
    pairs: IntArray
    squares: IntArray
    families: tuple[Family, ...]

    def columns(self, rows: Sequence[FloatArray]) -> FloatArray:
        """The values of all columns: (s, c, n), from those of the kept terms, (s, K, n) each."""
        s, _, n = rows[0].shape
        blocks = [np.ones((s, 1, n))]
        for group in self.groups:
            block = rows[group[0]]
            for parameter in group[1:]:
                block = (block[:, :, None, :] * rows[parameter][:, None, :, :]).reshape(s, -1, n)
            blocks.append(block)
        return np.concatenate(blocks, axis=1)

    def prior(self, terms: Sequence[FloatArray], structures: FloatArray) -> FloatArray:
        """Logarithm of the prior of each combination: (s, h).

        Args:
            terms: (s, K) for each parameter, of its kept terms. structures: (s, n_structures).
        """
        answer = structures[:, self.structure]
        for parameter, prior in enumerate(terms):
            padded = np.hstack([prior, np.zeros((len(prior), 1))])
            answer = answer + padded[:, self.slots[:, parameter]]
        return np.asarray(answer)


@lru_cache(maxsize=8)
def plan(count: int, terms: int) -> Plan:
    """The plan for so many parameters, so many terms of each kept."""
    forms = [groups for groups, _ in structures(count)]
    blocks = tuple(sorted({group for groups in forms for group in groups}))
    offsets: dict[tuple[int, ...], int] = {}
    factors: list[tuple[tuple[int, int], ...]] = [()]
    for group in blocks:
        offsets[group] = len(factors)
        grid = np.indices((terms,) * len(group)).reshape(len(group), -1).T
        factors += [tuple(zip(group, row, strict=True)) for row in grid.tolist()]
    members, slots, structure = [], [], []
    keys: list[IntArray] = []
    for index, groups in enumerate(forms):
        used = sorted({parameter for group in groups for parameter in group})
        grid = np.indices((terms,) * len(used)).reshape(len(used), terms ** len(used))
        choice = dict(zip(used, grid, strict=True))
        chosen = np.full((grid.shape[1], count), -1)
        for parameter, values in choice.items():
            chosen[:, parameter] = values
        places = [_column(offsets[group], [choice[i] for i in group], terms) for group in groups]
        first_key = sum(len(part) for part in keys)
        for constant in (True, False) if groups else (True,):
            columns = [*([np.zeros(len(chosen), dtype=np.intp)] if constant else []), *places]
            padding = [np.full(len(chosen), -1)] * (count + 1 - len(columns))
            members.append(np.stack([*columns, *padding], axis=1))
            slots.append(chosen)
            structure.append(np.full(len(chosen), index))
            keys.append(first_key + np.arange(len(chosen)))
    table = np.concatenate(members)
    pairs, families = _families(table, len(factors))
    column_slots = np.full((len(factors) + 1, count), -1)
    for column, pairs_of in enumerate(factors):
        for parameter, slot in pairs_of:
            column_slots[column, parameter] = slot
    return Plan(
        groups=blocks,
        factors=tuple(factors),
        column_slots=column_slots,
        members=table,
        slots=np.concatenate(slots),
        structure=np.concatenate(structure),
        keys=np.concatenate(keys),
        pairs=pairs,
        squares=np.searchsorted(pairs[:, 0] * len(factors) + pairs[:, 1], _diagonal(len(factors))),
        families=families,
    )


def _column(offset: int, slots: Sequence[IntArray], terms: int) -> IntArray:
    index = np.zeros(len(slots[0]), dtype=np.intp)
    for values in slots:
        index = index * terms + values
    return offset + index


def _diagonal(count: int) -> IntArray:
    return np.arange(count) * (count + 1)


def _families(members: IntArray, count: int) -> tuple[IntArray, tuple[Family, ...]]:
    """The pairs of columns that occur together, ascending, and the combinations by size."""
    sizes = (members >= 0).sum(axis=1)
    codes, parts = [_diagonal(count)], []
    for size in range(1, members.shape[1] + 1):
        for alone in (True, False):
            rows = np.flatnonzero((sizes == size) & ((members[:, 0] == 0) & (size == 1) == alone))
            if len(rows) == 0:
                continue
            columns = members[rows, :size]
            triangle = [
                [
                    np.maximum(columns[:, i], columns[:, j]) * count
                    + np.minimum(columns[:, i], columns[:, j])
                    for j in range(i + 1)
                ]
                for i in range(size)
            ]
            parts.append((rows, columns, triangle, alone))
            codes += [code for row in triangle for code in row]
    known = np.unique(np.concatenate(codes))
    families = tuple(
        Family(
            rows,
            columns,
            tuple(tuple(np.searchsorted(known, code) for code in row) for row in triangle),
            alone,
        )
        for rows, columns, triangle, alone in parts
    )
    return np.stack([known // count, known % count], axis=1), families
