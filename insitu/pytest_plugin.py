"""Expectations as tests: `pytest --insitu-campaign heat.insitu` and the fixture `insitu`.

    def test_solver_scales(insitu):
        insitu.expect("solve", "O(n log n)")
        insitu.limit("solve", "time at n=65536 < 2 s")
        insitu.rule("MPI_Allreduce <= MPI_Reduce + MPI_Bcast")
        insitu.classes("exchange", "one class only", metric="bytes_sent")

A violated expectation fails the test. If the measurements do not decide, the test is skipped, and
the reason names the point to measure next. Without a campaign, all these tests are skipped.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import pytest

from insitu.errors import InsituError

# Every pytest run of every project loads this plug-in: import nothing heavy before it is used.
if TYPE_CHECKING:
    from insitu.expectations.entries import Subject
    from insitu.modeling.base import ModelSet
    from insitu.modeling.measurement import Experiment

OPTION = "--insitu-campaign"


@dataclass(frozen=True, slots=True)
class CampaignFixture:
    """A measured campaign whose methods end a test unless an expectation is met."""

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
        """Expect that a call path grows like this: `insitu.expect("solve", "O(n log n)")`.

        Args:
            callpath: a function, or the end of a call path; * and ? match.
            growth: in big-O notation; `<= O(n)` accepts less.
            metric: name of the metric.
            deviation: a divergence up to this, such as `sqrt(n)`, counts as approximately met.
            search: further terms that the model may have, such as `n^(2/7), n^5`.
            of_class: only this behaviour class.
        """
        from insitu.expectations.limits import expect

        wanted = partial(expect, growth, deviation=deviation, search=search)
        self._judge(callpath, metric, wanted, of_class)

    def limit(self, callpath: str, text: str) -> None:
        """Expect a value below a limit: `insitu.limit("main", "time at p=65536 < 2 s")`."""
        from insitu.expectations.ceilings import parse_ceiling

        self._judge(callpath, "", partial(parse_ceiling, text))

    def rule(self, text: str, *, metric: str = "time") -> None:
        """Expect that a function costs no more than others: `insitu.rule("a <= b + c")`."""
        from insitu.expectations.guidelines import parse_guideline

        self._judge("", metric, partial(parse_guideline, text))

    def classes(self, callpath: str, text: str, *, metric: str = "time") -> None:
        """Expect that ranks behave alike: `one class only`, `corner within 10 % of inner`."""
        from insitu.expectations.uniformity import parse_class_rule

        self._judge(callpath, metric, partial(parse_class_rule, text))

    def _judge(
        self, callpath: str, metric: str, subject: "Callable[[], Subject]", of_class: str = ""
    ) -> None:
        from insitu.expectations.assess import assess
        from insitu.expectations.entries import entry_of
        from insitu.expectations.result import Status
        from insitu.formats.verdicts import UNDECIDED, describe

        try:
            entry = entry_of(callpath, metric, subject(), behaviour=of_class)
            results = assess([entry], self.experiment, self.models)
        except InsituError as error:
            raise pytest.fail.Exception(f"{self.path}: {error}", pytrace=False) from None
        violated = [describe(result) for result in results if result.status is Status.VIOLATED]
        if violated:
            pytest.fail("\n".join(violated), pytrace=False)

        undecided = [describe(result) for result in results if result.status in UNDECIDED]
        if undecided:
            pytest.skip("undecided: " + "; ".join(undecided))


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that names the campaign."""
    parser.getgroup("insitu").addoption(
        OPTION, metavar="DIR", help="The campaign of the fixture `insitu`."
    )


@pytest.fixture(scope="session")
def insitu(request: pytest.FixtureRequest) -> CampaignFixture:
    """The campaign of --insitu-campaign, with methods that check expectations."""
    path = request.config.getoption(OPTION)
    if not path:
        pytest.skip(f"no campaign; name one with {OPTION} DIR")
    from insitu.campaign.load import load_experiment
    from insitu.campaign.store import open_store

    try:
        with open_store(str(path)) as store:
            return CampaignFixture(str(path), load_experiment(store), store.models())
    except InsituError as error:
        raise pytest.fail.Exception(str(error), pytrace=False) from None
