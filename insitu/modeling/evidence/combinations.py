"""The combinations of terms of several parameters that are weighed, expressed in slots.

A structure says which parameters are multiplied and which products are added, such as t·u + v. A
slot is the position of a term among the selected terms of its parameter. All series share one plan
of combinations, although they select different terms.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations

import numpy as np

from insitu.modeling.measurement import FloatArray, IntArray

PRIOR_OF_CONSTANT = 0.1  # that no parameter matters

Groups = tuple[tuple[int, ...], ...]  # the parameters in each product of a structure


@lru_cache(maxsize=16)
def structures(n_parameters: int) -> tuple[tuple[Groups, float], ...]:
    """Return the structures of one term per parameter, with their prior probability.

    Each number of parameters that matter is equally probable, and so are the structures of each.
    """
    priors: dict[Groups, float] = {(): PRIOR_OF_CONSTANT}
    share = (1 - PRIOR_OF_CONSTANT) / n_parameters
    for size in range(1, n_parameters + 1):
        subsets = list(combinations(range(n_parameters), size))
        for subset in subsets:
            forms = [*_partitions(subset), *_nested(subset)]
            for form in forms:
                priors[form] = share / len(subsets) / len(forms)
    return tuple(priors.items())


def _partitions(items: tuple[int, ...]) -> list[Groups]:
    """All partitions of the parameters into products."""
    if not items:
        return [()]

    first, result = items[0], []
    for groups in _partitions(items[1:]):
        result.append(((first,), *groups))
        for i, group in enumerate(groups):
            result.append((*groups[:i], (first, *group), *groups[i + 1 :]))
    return result


def _nested(subset: tuple[int, ...]) -> list[Groups]:
    """Structures t + t·u of two parameters, which a loop with a constant share produces."""
    return [((parameter,), subset) for parameter in subset] if len(subset) == 2 else []


@dataclass(frozen=True, slots=True)
class Family:
    """Combinations with the same number of columns.

    combinations: (f,) indices. columns: (f, k). elements: for each element of the lower triangle
    of their normal equations, (f,) indices into the pairs of the plan. is_constant: whether the
    family is the constant function.
    """

    combinations: IntArray
    columns: IntArray
    elements: tuple[tuple[IntArray, ...], ...]
    is_constant: bool


@dataclass(frozen=True, slots=True)
class CombinationPlan:
    """All h combinations of K terms of each of m parameters, made of c columns.

    groups: parameters of each block of columns after the constant. factors: per column, the
    (parameter, slot) of its factors. column_slots: (c + 1, m), the same as a table, -1 where a
    parameter does not occur and in the last row. members: (h, k) columns of each combination, the
    constant (0) first, -1 for none. slots: (h, m), -1 where a parameter does not occur. structure:
    (h,) index into `structures`. keys: (h,), equal for combinations that differ in the constant
    only. pairs: (p, 2) columns whose products are needed. squares: (c,) index of the pair of each
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

    def design_matrix(self, terms: Sequence[FloatArray]) -> FloatArray:
        """Return the values of all columns: (s, c, n).

        Args:
            terms: for each parameter, the values of its selected terms: (s, K, n).
        """
        n_series, _, n_points = terms[0].shape
        blocks = [np.ones((n_series, 1, n_points))]
        for group in self.groups:
            block = terms[group[0]]
            for parameter in group[1:]:
                product = block[:, :, None, :] * terms[parameter][:, None, :, :]
                block = product.reshape(n_series, -1, n_points)
            blocks.append(block)
        return np.concatenate(blocks, axis=1)

    def log_prior(self, terms: Sequence[FloatArray], structures: FloatArray) -> FloatArray:
        """Return the logarithm of the prior of each combination: (s, h).

        Args:
            terms: for each parameter, the log prior of its selected terms: (s, K).
            structures: log prior of each structure: (s, n_structures).
        """
        result = structures[:, self.structure]
        for parameter, prior in enumerate(terms):
            padded = np.hstack([prior, np.zeros((len(prior), 1))])  # slot -1: no term
            result = result + padded[:, self.slots[:, parameter]]
        return np.asarray(result)


@lru_cache(maxsize=8)
def plan_combinations(n_parameters: int, n_terms: int) -> CombinationPlan:
    """Return the plan for `n_terms` selected terms of each parameter."""
    forms = [groups for groups, _ in structures(n_parameters)]
    distinct = {group for groups in forms for group in groups}
    blocks = tuple(sorted(distinct))

    # Columns: the constant, then a block for each product that occurs in a structure.
    offsets: dict[tuple[int, ...], int] = {}
    factors: list[tuple[tuple[int, int], ...]] = [()]
    for group in blocks:
        offsets[group] = len(factors)
        grid = np.indices((n_terms,) * len(group)).reshape(len(group), -1).T
        factors += [tuple(zip(group, row, strict=True)) for row in grid.tolist()]

    # Combinations: each structure with each choice of terms, with the constant and without.
    members, slots, structure = [], [], []
    keys: list[IntArray] = []
    for index, groups in enumerate(forms):
        chosen, columns = _choices(groups, offsets, n_parameters=n_parameters, n_terms=n_terms)
        first_key = sum(len(numbers) for numbers in keys)
        constant = np.zeros(len(chosen), dtype=np.intp)
        for has_constant in (True, False) if groups else (True,):
            own = [constant, *columns] if has_constant else columns
            padding = [np.full(len(chosen), -1)] * (n_parameters + 1 - len(own))
            members.append(np.stack([*own, *padding], axis=1))
            slots.append(chosen)
            structure.append(np.full(len(chosen), index))
            keys.append(first_key + np.arange(len(chosen)))

    table = np.concatenate(members)
    pairs, families = _families(table, len(factors))
    codes = pairs[:, 0] * len(factors) + pairs[:, 1]
    return CombinationPlan(
        groups=blocks,
        factors=tuple(factors),
        column_slots=_column_slots(factors, n_parameters),
        members=table,
        slots=np.concatenate(slots),
        structure=np.concatenate(structure),
        keys=np.concatenate(keys),
        pairs=pairs,
        squares=np.searchsorted(codes, _diagonal(len(factors))),
        families=families,
    )


def _choices(
    groups: Groups, offsets: dict[tuple[int, ...], int], *, n_parameters: int, n_terms: int
) -> tuple[IntArray, list[IntArray]]:
    """The slots of each choice of terms (choices, m), and the columns of its products."""
    used = sorted({parameter for group in groups for parameter in group})
    grid = np.indices((n_terms,) * len(used)).reshape(len(used), n_terms ** len(used))
    choice = dict(zip(used, grid, strict=True))

    slots = np.full((grid.shape[1], n_parameters), -1)
    for parameter, values in choice.items():
        slots[:, parameter] = values

    columns = []
    for group in groups:
        within_block = np.zeros(grid.shape[1], dtype=np.intp)
        for parameter in group:
            within_block = within_block * n_terms + choice[parameter]
        columns.append(offsets[group] + within_block)
    return slots, columns


def _column_slots(factors: Sequence[tuple[tuple[int, int], ...]], n_parameters: int) -> IntArray:
    table = np.full((len(factors) + 1, n_parameters), -1)
    for column, factors_of_column in enumerate(factors):
        for parameter, slot in factors_of_column:
            table[column, parameter] = slot
    return table


def _diagonal(count: int) -> IntArray:
    """The codes of the pairs of each column with itself; a pair (a, b) has code a · count + b."""
    return np.arange(count) * (count + 1)


def _families(members: IntArray, count: int) -> tuple[IntArray, tuple[Family, ...]]:
    """The pairs of columns that occur together, ascending, and the combinations by size."""
    sizes = (members >= 0).sum(axis=1)
    codes, sized = [_diagonal(count)], []
    for size in range(1, members.shape[1] + 1):
        for is_constant in (True, False):
            of_constant = (members[:, 0] == 0) & (size == 1)
            rows = np.flatnonzero((sizes == size) & (of_constant == is_constant))
            if len(rows) == 0:
                continue

            columns = members[rows, :size]
            triangle = []
            for i in range(size):
                larger = [np.maximum(columns[:, i], columns[:, j]) for j in range(i + 1)]
                smaller = [np.minimum(columns[:, i], columns[:, j]) for j in range(i + 1)]
                triangle.append([a * count + b for a, b in zip(larger, smaller, strict=True)])
            sized.append((rows, columns, triangle, is_constant))
            for row in triangle:
                codes += row

    distinct = np.unique(np.concatenate(codes))
    families = []
    for rows, columns, triangle, is_constant in sized:
        elements = tuple([tuple(np.searchsorted(distinct, row)) for row in triangle])
        families.append(Family(rows, columns, elements, is_constant))
    return np.stack([distinct // count, distinct % count], axis=1), tuple(families)
