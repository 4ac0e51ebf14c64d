"""Which parameters labelled programs name, against their text, and that they stay the same."""

import textwrap

import numpy as np
import pytest

from insitu.collectors.counting import counters, labels
from insitu.collectors.counting.labelling import Labeller
from insitu.collectors.counting.rewrite import compile_counted, namespace

N, M = labels.with_labels(12, frozenset("n")), labels.with_labels(7, frozenset("m"))


@pytest.fixture
def run(tmp_path):
    """Run a program with n and m; what it leaves, and the labels of the call path `f`."""

    def run(text, **given):
        source = "def f(n, m):\n" + textwrap.indent(textwrap.dedent(text), "    ")
        before, counters.state.node = counters.state.node, counters.PathNode("test")
        try:
            names = namespace(Labeller) | {"np": np, **given}
            exec(compile_counted(source, str(tmp_path / "f.py"), Labeller), names)
            answer = names["f"](N, M)
            sites = counters.state.node.children["f"].counts
            return answer, {site.partition(":")[2] for site in sites if site.startswith("label:")}
        finally:
            counters.state.node = before

    return run


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("for i in range(n): pass", "n"),
        ("for i in range(2 * n + m): pass", "nm"),
        ("k = 0\nk += n\nfor i in range(k): pass", "n"),
        ("for i in range(5): n - m", ""),
        ("i = 0\nwhile i < m: i += 1", "m"),
        ("if n < 40: pass", "n"),
        ("x = 1 if not n else 2", "n"),
        ("return [x for x in range(n)] and 0", "n"),
        ("for x in [2 * x for x in range(n)]: pass", "n"),
        ("for i in range(min(n, 5)): pass", "n"),
        ("for x in enumerate(sorted([1] * n)): pass", "n"),
        ("u = np.zeros((3, n))\nfor row in u: pass", "n"),
        ("u = np.zeros((n, m))\nfor i in range(u.shape[1]): pass", "nm"),
        ("u = np.zeros(m)\nu[1:-1] += 1", "m"),
        ("t = {12: 3}\nfor i in range(t[n]): pass", "n"),
        ("int('3') + float('4')", ""),
        ("print(n, m, file=None) if False else None", ""),
    ],
)
def test_a_call_path_has_the_labels_of_its_loops_sizes_and_decisions(run, text, named):
    _, parameters = run(text)
    assert parameters == set(named)


def test_a_slice_of_constant_length_has_no_label(run):
    _, parameters = run("halo = big[:, :1]\nhalo + 1.0", big=np.zeros((3, 12)))
    assert parameters == set()


def test_an_axis_keeps_its_own_labels(run):
    rows = []
    run("u = np.zeros((n, m))\nreturn [send(u[0]), send(u[:, 2]), send(u.T[0])]", send=rows.append)
    assert [labels.size_labels(row) for row in rows] == [set("m"), set("n"), set("n")]


def test_values_stay_what_they_are(run):
    text = """
    u = np.arange(n * 1.0)
    u[2:5] -= m
    total = float(u.sum()) + len(u) % m
    words = f"{n:03d}-{m}".split("-")
    half = n // 2 if n > m else m
    return total, words, half, [x for x in u[:3].tolist()], -n, n ** 2, ~m, n @ n if False else 0
    """
    answer, _ = run(text)
    assert answer == (66 - 21 + 5, ["012", "7"], 6, [0.0, 1.0, -5.0], -12, 144, -8, 0)


def test_words_of_the_command_line_are_labelled(monkeypatch):
    monkeypatch.setenv(labels.VARIABLE, '{"words": {"-1": ["n"], "-9": ["m"]}, "ranks": ["p"]}')
    words = labels.label_arguments(["app.py", "--n=12"])
    assert words == ["app.py", "--n=12"]
    assert labels.labels_of(words[0]) == set()
    assert labels.labels_of(words[1].partition("=")[2]) == {"n"}
    assert labels.sources.ranks == {"p"}
