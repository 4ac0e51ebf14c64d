"""Functions as values: map, reduce, partial, closures, decorators, lambdas.

params: n=50,100,150 m=8,16,24 s=4,8,12
command: {n} {m} {s}
main: m
main->log.<locals>.logged: m
main->log.<locals>.logged->square: n * m
main->powers: n * s
main->folded: n
main->applied: m
main->applied->twice: m
main->apply: s
main->apply->closure.<locals>.inner: n * s
main->keyed: n
"""

import sys
from functools import partial, reduce, wraps


def log(function):
    @wraps(function)
    def logged(*args):
        return function(*args)

    return logged


@log
def square(n):
    return [x * x for x in range(n)]


def powers(n, s):
    total = lambda k: sum(x**k for x in range(n))  # noqa: E731
    return max(map(total, range(s)))


def folded(n):
    return reduce(lambda a, b: a + b, range(n))


def twice(x):
    return 2 * x


def applied(m):
    return [partial(twice, k)() for k in range(m)]


def closure(n):
    def inner():
        done = 0
        for _ in range(n):
            done += 1
        return done

    return inner


def apply(function, s):
    for _ in range(s):
        function()


def keyed(n):
    return sorted(range(n), key=lambda x: -x)


def main():
    n, m, s = map(int, sys.argv[1:])
    for _ in range(m):
        square(n)
    powers(n, s)
    folded(n)
    applied(m)
    apply(closure(n), s)
    keyed(n)


main()
