"""Recursion: a sort, a tree of a depth, functions that call each other, a memory of results.

params: n=32,64,128 h=4,6,8 w=5,10,15
command: {n} {h} {w}
main: n + h
main->merge_sort: n
main->merge_sort->merge: n
main->tree: h
main->tree->leaf: h * w
main->even: n
main->even->odd: n
main->ways: w
main->flatten: h
"""

import sys
from functools import cache


def merge(left, right):
    found = []
    i = j = 0
    while i < len(left) and j < len(right):
        if left[i] <= right[j]:
            found.append(left[i])
            i += 1
        else:
            found.append(right[j])
            j += 1
    return found + left[i:] + right[j:]


def merge_sort(values):
    if len(values) < 2:
        return values
    half = len(values) // 2
    return merge(merge_sort(values[:half]), merge_sort(values[half:]))


def leaf(w):
    count = 0
    for _ in range(w):
        count += 1
    return count


def tree(h, w):
    if h == 0:
        return leaf(w)
    return tree(h - 1, w) + tree(h - 1, w)


def even(n):
    return True if n == 0 else odd(n - 1)


def odd(n):
    return False if n == 0 else even(n - 1)


@cache
def ways(w):
    return 1 if w < 2 else ways(w - 1) + ways(w - 2)


def flatten(nested):
    if isinstance(nested, int):
        return [nested]
    return [x for one in nested for x in flatten(one)]


def main():
    n, h, w = map(int, sys.argv[1:])
    merge_sort([(i * 37) % n for i in range(n)])
    tree(h, w)
    even(n)
    ways(w)
    nested = 1
    for _ in range(h):
        nested = [nested, 2]
    flatten(nested)


main()
