"""Texts, dictionaries, sets and sorting; little arithmetic.

params: words=50,100,200 length=4,8,12 top=3,5,7
command: {words} {length} {top}
main: length
main->make: words * length
main->count: words * length
main->longest: words * length
main->most: words + top
main->joined: words * length
main->distinct: words * length
main->match: words * length
"""

import re
import sys
from collections import Counter


def make(words, length):
    return ["".join(chr(97 + (i * j) % 26) for j in range(length)) for i in range(words)]


def count(texts):
    found = {}
    for text in texts:
        for letter in text:
            found[letter] = found.get(letter, 0) + 1
    return found


def longest(texts):
    best = 0
    for text in texts:
        n = 0
        while n < len(text):
            n += 1
        best = max(best, n)
    return best


def most(texts, top):
    ordered = sorted(texts, key=len)
    return ordered[:top], [ordered[-1 - i] for i in range(top)]


def joined(texts):
    return " ".join(texts).upper().split()


def distinct(texts):
    return {letter for text in texts for letter in text}


def match(texts):
    return re.findall("ab?", ",".join(texts))


def main():
    words, length, top = map(int, sys.argv[1:])
    texts = make(words, length)
    count(texts)
    longest(texts)
    most(texts, top)
    joined(texts)
    distinct(texts)
    match(texts)
    Counter(texts[0])


main()
