"""A file of expectations: every key arrives where it belongs, with the line of its entry."""

from dataclasses import replace

import pytest

from insitu.entities import CallPath
from insitu.errors import UsageError
from insitu.expectations.ceilings import Ceiling
from insitu.expectations.entries import entry_of, load_entries
from insitu.expectations.guidelines import Guideline
from insitu.expectations.limits import Expectation, expect
from insitu.expectations.uniformity import ClassExpectation

EVERY_KEY = """\
# two lines before
# the first entry
[[expect]]
callpath = "solve"
metric = "visits"
growth = "O(n log n)"
deviation = "n^(1/4)"
search = "n^(2/7), n^5"
class = "corner"
litmus = true
accepted = {"p=2,n=5" = 1, "p=4,n=5" = 2.5}

[[expect]]
limit = "memory per node with 8 ranks < 24 GB"
callpath = "main"

  [[ expect ]]
rule = "MPI_Allreduce <= MPI_Reduce + MPI_Bcast"
metric = "bytes_sent"
at = "p=1024, n=5"

[[expect]]
callpath = "exchange"
classes = "corner within 10 % of inner"
"""


@pytest.fixture
def load(tmp_path):
    def load_text(text: str):
        path = tmp_path / "expectations.toml"
        path.write_text(text, encoding="utf-8")
        return load_entries(str(path))

    return load_text


def test_every_key_of_every_kind_is_read(load):
    growth, limit, rule, classes = load(EVERY_KEY)

    assert (growth.callpath, growth.metric, growth.behaviour) == ("solve", "visits", "corner")
    assert growth.subject == expect("O(n log n)", deviation="n^(1/4)", search="n^(2/7), n^5")
    assert growth.subject != expect("O(n log n)", deviation="n^(1/4)")
    assert growth.subject != expect("O(n log n)", search="n^(2/7), n^5")
    assert growth.accepted == (
        ((("p", 2.0), ("n", 5.0)), 1.0),
        ((("p", 4.0), ("n", 5.0)), 2.5),
    )
    assert isinstance(limit.subject, Ceiling)
    assert (limit.callpath, limit.metric, limit.behaviour) == ("main", "memory_rss", "")
    assert isinstance(rule.subject, Guideline)
    assert (rule.callpath, rule.metric) == ("", "bytes_sent")
    assert rule.at == (("p", 1024.0), ("n", 5.0))
    assert isinstance(classes.subject, ClassExpectation)
    assert (classes.callpath, classes.metric, classes.at) == ("exchange", "time", ())


def test_entries_know_their_line_and_which_test_the_machine(load):
    entries = load(EVERY_KEY)

    assert [entry.line for entry in entries] == [3, 13, 17, 22]
    assert [entry.is_litmus for entry in entries] == [True, False, False, False]
    assert not any(entry.is_exact for entry in entries)


def test_growth_and_limits_are_of_time_or_of_what_they_name(load):
    growth, limit = load(
        '[[expect]]\ncallpath = "a"\ngrowth = "O(1)"\n'
        '[[expect]]\ncallpath = "a"\nlimit = "visits at p=64 < 3"\n'
    )

    assert isinstance(growth.subject, Expectation)
    assert growth.metric == "time"
    assert limit.metric == "visits"


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ('callpath = "a"', "exactly one of growth, limit, rule, classes; this one has none"),
        ('callpath = "a"\ngrwth = "O(1)"', "unknown key 'grwth'; an entry has one of growth"),
        ('callpath = "a"\ngrowth = "O(1)"\nclasses = "1 class"', "has growth and classes"),
        ('callpath = "a"\ngrowth = "O(1)"\nat = "p=3"', "'at' does not apply to growth"),
        ('rule = "a <= b"\ncallpath = "a"', "'callpath' does not apply to rule"),
        ('callpath = "a"\nclasses = "1 class"\nclass = "b"', "'class' does not apply to classes"),
        ('callpath = "a"\ngrowth = "O(1)"\nlitmus = "yes"', "litmus must be true or false"),
        ('callpath = 3\ngrowth = "O(1)"', "callpath must be text"),
        ('growth = "O(1)"', "growth needs the call paths"),
        ('rule = "a <= b"\nat = "p"', "at = "),
        ('callpath = "a"\ngrowth = "O(1)"\naccepted = "p=2"', "accepted must be a table"),
        ('callpath = "a"\ngrowth = "O(1)"\naccepted = {"p=2" = "3"}', "p=2 must be a number"),
        ('callpath = "a"\ngrowth = "O(1)"\naccepted = {"p" = 3}', "accepted = 'p' is not"),
        (
            'callpath = "a"\ngrowth = "O(1)"\nrelative_to = "b"\naccepted = {"p=2" = 3}',
            "does not apply to growth relative_to",
        ),
    ],
)
def test_entries_that_mean_nothing_are_refused_with_their_line(load, body, reason):
    with pytest.raises(UsageError, match=r"expectations\.toml:5: ") as error:
        load(f'[[expect]]\ncallpath = "x"\ngrowth = "O(1)"\n\n[[expect]]\n{body}\n')

    assert reason in str(error.value)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[[expect]\n", "not TOML"),
        ("\n", "there is no expectation"),
        ("expect = 3\n", "there is no expectation"),
        ("[[expects]]\n", "unknown key 'expects'"),
        ("expect = [3]\n", "an entry must be a table"),
    ],
)
def test_files_that_are_no_expectations_are_refused(load, text, reason):
    with pytest.raises(UsageError, match=reason):
        load(text)


def test_a_file_that_is_missing_is_named():
    with pytest.raises(UsageError, match=r"/no/such\.toml: cannot be read: No such file"):
        load_entries("/no/such.toml")


@pytest.mark.parametrize(
    ("pattern", "matching"),
    [
        ("solve", ["main->solve", "solve", "app->main->solve", "remain->solve"]),
        ("s*", ["main->solve", "solve", "app->main->solve", "remain->solve"]),
        ("main->solve", ["main->solve", "app->main->solve"]),
        ("main->*", ["main->solve", "app->main->solve", "main->solve->MPI_Send"]),
        ("main", ["main"]),
        ("Solve", []),
    ],
)
def test_a_pattern_is_about_a_function_or_the_end_of_a_call_path(pattern, matching):
    entry = entry_of(pattern, "", expect("O(p)"))
    paths = ["main", "main->solve", "solve", "app->main->solve", "main->solve->MPI_Send"]

    about = [path for path in [*paths, "remain->solve"] if entry.is_about(CallPath.parse(path))]

    assert about == matching


def test_an_exact_entry_is_about_one_call_path():
    entry = replace(entry_of("main->s*", "", expect("O(p)")), is_exact=True)

    assert entry.is_about(CallPath.parse("main->s*"))
    assert not entry.is_about(CallPath.parse("main->solve"))
    assert not entry.is_about(CallPath.parse("app->main->s*"))
