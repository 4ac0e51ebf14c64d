"""Hostile bytes at every decoder: the corpus and mutants; fuzz.py does more."""

import random
import tracemalloc

import pytest

from tests.stress.fuzz import CORPUS, MAX_BYTES, mutated
from tests.stress.fuzz_targets import TARGETS

MUTANTS = 150


def seeds(name):
    return [path.read_bytes() for path in sorted((CORPUS / name).iterdir())]


@pytest.mark.parametrize("name", TARGETS)
def test_a_decoder_reads_or_refuses_and_needs_little_memory(name):
    rng = random.Random(20261121)
    kept = seeds(name)

    tracemalloc.start()
    try:
        for data in kept + [mutated(kept, rng) for _ in range(MUTANTS)]:
            tracemalloc.reset_peak()
            TARGETS[name](data)
            peak = tracemalloc.get_traced_memory()[1]
            assert peak <= MAX_BYTES, data[:100]
    finally:
        tracemalloc.stop()


def test_every_target_has_a_corpus_of_small_files():
    assert {path.name for path in CORPUS.iterdir()} == TARGETS.keys()
    assert all(path.stat().st_size <= 65_536 for path in CORPUS.rglob("*.*"))
