"""Serving a campaign: the aggregator, with the web page beside it if wanted."""

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass

from insitu.workflows.page import PageProcess


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """How to serve a campaign.

    Attributes:
        heartbeat_s: seconds between two messages of an agent.
        address: `tcp://HOST:PORT` for agents on other machines; default: this machine only.
        has_page: start the web page as a process of its own.
        port: of the page; 0 for any free port.
        token_file: file that keeps the secret of the page's address; default: a new secret.
        until_run: id of a run; end when this run is over.
        parent: process id; end when this is no longer the parent process.
    """

    heartbeat_s: float = 1.0
    address: str = ""
    has_page: bool = False
    port: int = 0
    token_file: str | None = None
    until_run: str = ""
    parent: int = 0


def serve_campaign(
    campaign: str,
    options: ServeOptions = ServeOptions(),
    report: Callable[[str], None] = lambda text: None,
) -> None:
    """Collect the runs of a campaign as they are measured and fit their models, until a signal.

    The campaign is created if it does not exist.

    Args:
        campaign: directory of the campaign.
        options: how to serve it.
        report: called with sentences for people.

    Raises:
        CampaignError: the campaign cannot be used, or it is served already.
        UsageError: the address makes no sense.
    """
    from insitu.server.loop import serve

    page = PageProcess(campaign, options.port, options.token_file, report=report)
    with page:
        asyncio.run(
            serve(
                campaign,
                heartbeat_s=options.heartbeat_s,
                report=report,
                on_ready=page.start if options.has_page else None,
                address=options.address,
                exit_with=options.until_run,
                parent=options.parent or os.getppid(),
            )
        )
