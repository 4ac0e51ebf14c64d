"""The command line of `insitu run`: what it refuses, and why."""

import json

import pytest

from insitu.errors import UsageError
from insitu.run.options import MAX_PACKAGES, MAX_PATTERNS, parse


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("-n",), "-n requires a value; see insitu run --help"),
        (("-n", "two", "a"), "-n: 'two' is not a number of ranks, as in -n 4"),
        (("--beat", "0", "a"), "--beat: '0' is not between 0.05 and 3600 seconds"),
        (("--beat=soon", "a"), "--beat: 'soon' is not between 0.05 and 3600 seconds"),
        (("--param", "p=4", "a"), "--param: p is the number of ranks, which insitu counts itself"),
        (("--param", "n=4", "--param", "n=5", "a"), "--param: n is given twice"),
        (("--agent", "yes", "a"), "--agent: 'yes' is not one of on, off, spool"),
        (("--heap", "yes", "a"), "--heap: 'yes' is not one of on, off, mmap"),
        (("--gpu", "yes", "a"), "--gpu: 'yes' is neither on nor off"),
        (("--files", "yes", "a"), "--files: 'yes' is neither on nor off"),
        (("--sample", "201", "a"), "--sample: '201' is neither off nor between 1 and 200"),
        (("--budget", "2", "a"), "--budget: '2' is not a share of time, as in 2%"),
        (("--depth", "0", "a"), "--depth: '0' is not between 1 and 1000"),
        (("--recursion", "flat", "a"), "--recursion: 'flat' is neither fold nor keep"),
        (
            ("--iterations", "-1", "a"),
            "--iterations: '-1' is not a number of iterations, as in --iterations 5",
        ),
        (
            ("--package", "a-b", "a"),
            "--package: 'a-b' is not the name of a package, as in --package gpaw",
        ),
        (("--only", "", "a"), f"--only: expected at most {MAX_PATTERNS} patterns of one line each"),
        (
            ("--fast", "a"),
            "unknown option --fast; options of the program go after its name; for the options of"
            " insitu, see insitu run --help",
        ),
        (("--quiet",), "no command to run; see insitu run --help"),
    ],
)
def test_a_value_without_a_meaning_is_named_with_its_option(words, message):
    with pytest.raises(UsageError) as refusal:
        parse(list(words))

    assert str(refusal.value) == message


def test_more_packages_than_ranks_can_look_for_are_refused():
    words = [word for i in range(MAX_PACKAGES + 1) for word in ("--package", f"a{i}")]

    with pytest.raises(UsageError, match=f"at most {MAX_PACKAGES} packages"):
        parse([*words, "app.py"])


def test_what_follows_two_dashes_is_the_program():
    assert parse(["-n", "2", "--", "-strange", "--quiet"]).command == ["-strange", "--quiet"]


def test_functions_that_depend_on_a_parameter_are_timed_alone(tmp_path):
    paths = [{"callpath": "app.py->main->sweep", "nests": [["n"]]}]
    dependencies = {
        "parameters": ["n"],
        "callpaths": [*paths, {"callpath": "app.py->main->fixed", "nests": []}],
    }
    (tmp_path / "deps.json").write_text(json.dumps(dependencies))

    only = parse(["--only", str(tmp_path / "deps.json"), "app.py"]).steering.only

    assert "sweep" in " ".join(only)
    assert "fixed" not in " ".join(only)


def test_a_program_whose_functions_depend_on_nothing_is_not_timed_by_dependencies(tmp_path):
    dependencies = {"parameters": ["n"], "callpaths": [{"callpath": "main->fixed", "nests": []}]}
    (tmp_path / "deps.json").write_text(json.dumps(dependencies))

    with pytest.raises(UsageError, match="no function in it depends on a parameter"):
        parse(["--only", str(tmp_path / "deps.json"), "app.py"])
