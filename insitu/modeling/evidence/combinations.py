"""The combinations of terms of several parameters that are weighed, expressed in slots.

A structure says which parameters are multiplied and which products are added, such as t·u + v, and
which parameter has two terms, such as volume and surface in (t₁ + t₂)·u. A slot is the position of
a term among the selected terms of its parameter. All series share one plan
of combinations, although they select different terms.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import combinations

import numpy as np

from insitu.modeling.measurement import FloatArray, IntArray

PRIOR_OF_CONSTANT = 0.1  # that no parameter matters
PRIOR_OF_PAIRS = 0.05  # that a parameter has two terms, among functions of so many parameters

Group = tuple[int, ...]  # the parameters of a product
Groups = tuple[Group, ...]  # the parameters in each product of a structure


@dataclass(frozen=True, slots=True)
class SumOfProducts:
    """A sum of products of terms.

    groups: the parameters of each product. prior: its probability. paired: a parameter with two
    terms, such as volume and surface; -1 for none. has_second: for each product, whether it has
    the second term of this parameter.
    """

    groups: Groups
    prior: float
    paired: int = -1
    has_second: tuple[bool, ...] = ()


@lru_cache(maxsize=16)
def structures(n_parameters: int) -> tuple[SumOfProducts, ...]:
    """Return the structures of one term per parameter, and those of two terms of one parameter.

    Each number of parameters that matter is equally probable, and so are the structures of each.
    """
    result = [SumOfProducts((), PRIOR_OF_CONSTANT)]
    share = (1 - PRIOR_OF_CONSTANT) / n_parameters
    for size in range(1, n_parameters + 1):
        subsets = list(combinations(range(n_parameters), size))
        for subset in subsets:
            forms = [*_partitions(subset), *_nested(subset)]
            paired = [form for groups in _partitions(subset) for form in _paired(groups)]
            prior = share / len(subsets)
            result += [
                SumOfProducts(groups, (1 - PRIOR_OF_PAIRS) * prior / len(forms)) for groups in forms
            ]
            result += [replace(form, prior=PRIOR_OF_PAIRS * prior / len(paired)) for form in paired]
    return tuple(result)


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


def _paired(groups: Groups) -> list[SumOfProducts]:
    """Structures in which one parameter has two terms: (t₁ + t₂)·u, and t₁ + t₂·u."""
    forms = []
    for i, group in enumerate(groups):
        others = groups[:i] + groups[i + 1 :]
        for parameter in group:
            in_each = (False, True, *[False for _ in others])
            forms.append(SumOfProducts((group, group, *others), 0.0, parameter, in_each))
            if len(group) > 1:
                alone = ((parameter,), group, *others)
                forms.append(SumOfProducts(alone, 0.0, parameter, in_each))
                swapped = (True, False, *[False for _ in others])
                forms.append(SumOfProducts(alone, 0.0, parameter, swapped))
    return forms


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
    """All h combinations of the selected terms of each of m parameters, made of c columns.

    Each parameter has S slots: its K selected terms, then both terms of each of its selected pairs.

    groups: parameters of each block of columns after the constant. factors: per column, the
    (parameter, slot) of its factors. column_slots: (c + 1, m), the same as a table, -1 where a
    parameter does not occur and in the last row. members: (h, k) columns of each combination, the
    constant (0) first, -1 for none. slots: (h, m), -1 where a parameter does not occur, of a pair
    the slot of its first term. structure: (h,) index into `structures`. is_paired: (h,), whether a
    parameter has two terms. keys: (h,), equal for combinations that differ in the constant only.
    pairs: (p, 2) columns whose products are needed. squares: (c,) index of the pair of each column
    with itself.
    """

    groups: Groups
    factors: tuple[tuple[tuple[int, int], ...], ...]
    column_slots: IntArray
    members: IntArray
    slots: IntArray
    structure: IntArray
    is_paired: np.ndarray
    keys: IntArray
    pairs: IntArray
    squares: IntArray
    families: tuple[Family, ...]

    def design_matrix(self, terms: Sequence[FloatArray]) -> FloatArray:
        """Return the values of all columns: (s, c, n).

        Args:
            terms: for each parameter, the values of the terms in its slots: (s, S, n).
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
            terms: for each parameter, the log prior of the term in each slot, or of the pair that
                begins there: (s, S).
            structures: log prior of each structure: (s, n_structures).
        """
        result = structures[:, self.structure]
        for parameter, prior in enumerate(terms):
            padded = np.hstack([prior, np.zeros((len(prior), 1))])  # slot -1: no term
            result = result + padded[:, self.slots[:, parameter]]
        return np.asarray(result)


@lru_cache(maxsize=8)
def plan_combinations(n_parameters: int, n_terms: int, n_pairs: int) -> CombinationPlan:
    """Return the plan for `n_terms` selected terms and `n_pairs` pairs of terms per parameter."""
    forms = structures(n_parameters)
    distinct = {group for form in forms for group in form.groups}
    blocks = tuple(sorted(distinct))
    n_slots = n_terms + 2 * n_pairs

    # Columns: the constant, then a block for each product that occurs in a structure.
    offsets: dict[Group, int] = {}
    factors: list[tuple[tuple[int, int], ...]] = [()]
    for group in blocks:
        offsets[group] = len(factors)
        grid = np.indices((n_slots,) * len(group)).reshape(len(group), -1).T
        factors += [tuple(zip(group, row, strict=True)) for row in grid.tolist()]

    # Combinations: each structure with each choice of terms, with the constant and without.
    width = n_parameters + 2  # the constant, a term per parameter, the second term of a pair
    members, slots, structure = [], [], []
    keys: list[IntArray] = []
    for index, form in enumerate(forms):
        options = {parameter: np.arange(n_terms) for group in form.groups for parameter in group}
        if form.paired >= 0:
            options[form.paired] = n_terms + 2 * np.arange(n_pairs)
        chosen, columns = _choices(form, options, offsets, shape=(n_parameters, n_slots))
        first_key = sum(len(numbers) for numbers in keys)
        constant = np.zeros(len(chosen), dtype=np.intp)
        for has_constant in (True, False) if form.groups else (True,):
            own = [constant, *columns] if has_constant else columns
            padding = [np.full(len(chosen), -1)] * (width - len(own))
            members.append(np.stack([*own, *padding], axis=1))
            slots.append(chosen)
            structure.append(np.full(len(chosen), index))
            keys.append(first_key + np.arange(len(chosen)))

    table, of_each = np.concatenate(members), np.concatenate(structure)
    pairs, families = _families(table, len(factors))
    codes = pairs[:, 0] * len(factors) + pairs[:, 1]
    return CombinationPlan(
        groups=blocks,
        factors=tuple(factors),
        column_slots=_column_slots(factors, n_parameters),
        members=table,
        slots=np.concatenate(slots),
        structure=of_each,
        is_paired=np.array([form.paired >= 0 for form in forms])[of_each],
        keys=np.concatenate(keys),
        pairs=pairs,
        squares=np.searchsorted(codes, _diagonal(len(factors))),
        families=families,
    )


def _choices(
    form: SumOfProducts,
    options: dict[int, IntArray],
    offsets: dict[Group, int],
    *,
    shape: tuple[int, int],
) -> tuple[IntArray, list[IntArray]]:
    """The slots of each choice of terms (choices, m), and the columns of its products.

    Args:
        options: the slots that each parameter of the structure may have.
        shape: the number of parameters, and of slots of each.
    """
    used = sorted(options)
    grids = np.meshgrid(*[options[parameter] for parameter in used], indexing="ij")
    choice = {parameter: grid.ravel() for parameter, grid in zip(used, grids, strict=True)}
    count = len(choice[used[0]]) if used else 1

    n_parameters, n_slots = shape
    slots = np.full((count, n_parameters), -1)
    for parameter, values in choice.items():
        slots[:, parameter] = values

    columns = []
    has_second = form.has_second or (False,) * len(form.groups)
    for group, is_second in zip(form.groups, has_second, strict=True):
        within_block = np.zeros(count, dtype=np.intp)
        for parameter in group:
            shift = int(is_second and parameter == form.paired)
            within_block = within_block * n_slots + choice[parameter] + shift
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
