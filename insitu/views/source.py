"""What a view reads: the newest board of a campaign, its models and its progress."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from insitu.analysis.board import Board
from insitu.analysis.diagnosis.diagnose import Diagnosis
from insitu.analysis.progress import Agenda
from insitu.entities import CallPath, RunKey
from insitu.modeling.base import ModelSet
from insitu.modeling.measurement import FloatArray, RunTable

MAX_RUNS_OF_VALUES = 100  # more points at one scale cannot be read anyway

Site = tuple[str, int]  # file and line where a function is defined


class BoardSource(Protocol):
    """Where boards come from. One thread uses a source."""

    @property
    def is_live(self) -> bool:
        """Whether an aggregator published a board recently."""

    def newest(self, wait_s: float) -> Board | None:
        """Wait up to `wait_s` for a new board; None if there is none.

        Raises:
            CampaignError: the campaign can no longer be read.
            WireError: the aggregator published something that this version cannot read.
        """

    def models(self) -> ModelSet | None:
        """The stored models; None if they have not changed since the last call.

        Raises:
            CampaignError: the campaign can no longer be read.
        """

    def agenda(self) -> Agenda | None:
        """Progress of the runs that campaign.toml plans; None if it plans none.

        Raises:
            CampaignError, UsageError: campaign.toml is unreadable or invalid.
        """

    def diagnosis(self) -> Diagnosis | None:
        """What will limit the program on more ranks; None without a complete run.

        Reads all values of all complete runs. Any thread may call it.

        Raises:
            CampaignError: the campaign can no longer be read.
        """

    def target(self) -> Mapping[str, float]:
        """Values of parameters that campaign.toml names as the target; see `default_target`.

        Raises:
            CampaignError: campaign.toml is unreadable or invalid.
        """

    def run_table(self, run_id: str) -> RunTable | None:
        """The values of a stored run, also of an incomplete one; None if there is no such run.

        Any thread may call it.

        Raises:
            CampaignError: the campaign can no longer be read.
        """

    def values_of(self, callpath: CallPath, metric: str) -> Sequence[tuple[RunKey, FloatArray]]:
        """The values (p,) of a call path in complete runs, the newest MAX_RUNS_OF_VALUES of them.

        Any thread may call it.

        Raises:
            CampaignError: the campaign can no longer be read.
        """

    def sites(self) -> Mapping[CallPath, Site]:
        """Where functions are defined, as far as this is known. Any thread may call it.

        Raises:
            CampaignError: the campaign can no longer be read.
        """

    def activity(self) -> str:
        """The run that `insitu campaign run` makes now, as `p=4,n=64`; "" if it makes none."""

    def close(self) -> None:
        """Release the socket and the files."""
