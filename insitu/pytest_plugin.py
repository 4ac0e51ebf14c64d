"""Expectations as tests: `pytest --insitu-campaign heat.insitu` and the fixture `insitu`.

    def test_solver_scales(insitu):
        insitu.expect("solve", "O(n log n)")
        insitu.limit("solve", "time at n=65536 < 2 s")
        insitu.rule("MPI_Allreduce <= MPI_Reduce + MPI_Bcast")
        insitu.classes("exchange", "one class only", metric="bytes_sent")

A violated expectation fails the test; one that the measurements do not settle skips it, with the
point that would settle it. Tests are skipped without a campaign.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import pytest

from insitu.errors import InsituError

if TYPE_CHECKING:  # loaded in every pytest run of every project: nothing heavy before it is used
    from insitu.expectations.entries import Subject
    from insitu.modeling.base import ModelSet
    from insitu.modeling.measurement import Experiment

OPTION = "--insitu-campaign"


@dataclass(frozen=True, slots=True)
class Campaign:
    """A measured campaign that tests ask; what it is asked ends the test unless it is so."""

    path: str
    experiment: "Experiment"
    models: "ModelSet"

    def expect(
        self,
        callpath: str,
        growth: str,
        *,
        metric: str = "time",
        deviation: str | None = None,
        search: str | None = None,
        of_class: str = "",
    ) -> None:
        """A call path grows like this: `insitu.expect("solve", "O(n log n)")`.

        Args:
            callpath: a function, or the end of a call path; * and ? match.
            growth: big-O; `<= O(n)` where less is welcome.
            metric: name of what was measured.
            deviation: how far off is approximate, as `sqrt(n)`.
            search: further terms that are looked for, as `n^(2/7), n^5`.
            of_class: only this behaviour class.
        """
        from insitu.expectations.limits import expect

        wanted = partial(expect, growth, deviation=deviation, search=search)
        self._judge(callpath, metric, wanted, of_class)

    def limit(self, callpath: str, text: str) -> None:
        """A value stays below a limit: `insitu.limit("main", "time at p=65536 < 2 s")`."""
        from insitu.expectations.ceilings import parse_ceiling

        self._judge(callpath, "", partial(parse_ceiling, text))

    def rule(self, text: str, *, metric: str = "time") -> None:
        """One function costs no more than others together."""
        from insitu.expectations.guidelines import parse_guideline

        self._judge("", metric, partial(parse_guideline, text))

    def classes(self, callpath: str, text: str, *, metric: str = "time") -> None:
        """Ranks behave alike: `one class only`, `corner within 10 % of inner`."""
        from insitu.expectations.uniformity import parse_class_rule

        self._judge(callpath, metric, partial(parse_class_rule, text))

    def _judge(
        self, callpath: str, metric: str, subject: "Callable[[], Subject]", of_class: str = ""
    ) -> None:
        from insitu.expectations.assess import Status, assess
        from insitu.expectations.entries import entry_of
        from insitu.formats.verdicts import describe

        try:
            entry = entry_of(callpath, metric, subject(), behaviour=of_class)
            results = assess([entry], self.experiment, self.models)
        except InsituError as error:
            pytest.fail(f"{self.path}: {error}", pytrace=False)
        violated = [describe(one) for one in results if one.status is Status.VIOLATED]
        if violated:
            pytest.fail("\n".join(violated), pytrace=False)
        doubtful = [describe(one) for one in results if one.status is Status.UNSETTLED]
        if doubtful:
            pytest.skip("undecided: " + "; ".join(doubtful))


def pytest_addoption(parser: pytest.Parser) -> None:
    """The option that names the campaign."""
    parser.getgroup("insitu").addoption(
        OPTION, metavar="DIR", help="The campaign that the fixture `insitu` asks."
    )


@pytest.fixture(scope="session")
def insitu(request: pytest.FixtureRequest) -> Campaign:
    """The campaign of --insitu-campaign, to be asked whether it grows as expected."""
    path = request.config.getoption(OPTION)
    if not path:
        pytest.skip(f"no campaign: name one with {OPTION} DIR")
    from insitu.campaign.load import load_experiment
    from insitu.campaign.store import open_store

    try:
        with open_store(str(path)) as store:
            return Campaign(str(path), load_experiment(store), store.models())
    except InsituError as error:
        pytest.fail(str(error), pytrace=False)
