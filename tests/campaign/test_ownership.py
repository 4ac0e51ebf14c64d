"""What somebody else could have written is not executed."""

import os
import tempfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from insitu.campaign.layout import CAMPAIGN_FILE
from insitu.campaign.ownership import (
    check_own,
    check_readable,
    describe_foreign_writer,
    find_foreign_writer,
)
from insitu.cli.models import command as models
from insitu.errors import CampaignError
from insitu.launch.batch import JOBS
from insitu.workflows.campaign import plan_campaign
from insitu.workflows.jobs import batch_system_of, submit_jobs
from insitu.workflows.runner import RunnerOptions, make_runs

STRANGER = 54321
PLAN = """
[levels]
p = [1, 2]
[run]
command = "touch executed"
launcher = "{launcher}"
"""


@pytest.fixture
def campaign(tmp_path):
    path = tmp_path / "heat.insitu"
    path.mkdir(mode=0o700)
    (path / CAMPAIGN_FILE).write_text(PLAN.format(launcher="mpiexec"))
    (path / CAMPAIGN_FILE).chmod(0o600)
    return path


def test_own_files_are_trusted(campaign):
    assert describe_foreign_writer(str(campaign)) == ""
    check_own(str(campaign), str(campaign / CAMPAIGN_FILE), str(campaign / "absent"))


@pytest.mark.parametrize("name", ["", CAMPAIGN_FILE])
def test_a_campaign_that_others_can_write_is_not_executed(campaign, name, monkeypatch):
    monkeypatch.chdir(campaign.parent)
    path = campaign / name
    path.chmod(path.stat().st_mode | 0o002)

    with pytest.raises(CampaignError, match="can be written by everybody"):
        make_runs(plan_campaign(str(campaign)), RunnerOptions())

    assert not (campaign.parent / "executed").exists()
    assert str(path) in describe_foreign_writer(str(campaign))


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give files away")
def test_a_campaign_of_another_user_is_not_executed(campaign):
    os.chown(campaign / CAMPAIGN_FILE, STRANGER, STRANGER)

    with pytest.raises(CampaignError, match=f"belongs to the user with id {STRANGER}"):
        make_runs(plan_campaign(str(campaign)), RunnerOptions())


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give files away")
def test_a_group_with_other_members_can_write(campaign):
    file = campaign / CAMPAIGN_FILE
    file.chmod(0o660)
    assert find_foreign_writer(str(file)) == ""  # root's own group

    os.chown(file, 0, STRANGER)

    assert find_foreign_writer(str(file)) == f"can be written by the group with id {STRANGER}"


def test_a_job_script_that_others_can_write_is_not_submitted(campaign, monkeypatch):
    (campaign / CAMPAIGN_FILE).write_text(PLAN.format(launcher="sbatch"))
    (campaign / JOBS).mkdir(mode=0o700)
    script = campaign / JOBS / "p1.sh"
    script.write_text("#!/bin/bash\n")
    script.chmod(0o777)
    monkeypatch.setattr("insitu.launch.batch.Slurm.queued_jobs", lambda self: [])
    plan = plan_campaign(str(campaign))

    with pytest.raises(CampaignError, match="can be written by everybody"):
        submit_jobs(plan, batch_system_of(plan))


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize("private", ["", "campaign.db"])
def test_others_are_told_who_can_let_them_read(private):
    with tempfile.TemporaryDirectory() as folder:
        campaign = Path(folder) / "heat.insitu"
        campaign.mkdir()
        (campaign / "campaign.db").touch()
        for path in (Path(folder), campaign, campaign / "campaign.db"):
            path.chmod(0o755)
        (campaign / private).chmod(0o700)
        os.seteuid(STRANGER)
        try:
            with pytest.raises(CampaignError, match="only its owner, the user root, can read it"):
                check_readable(str(campaign))
            answer = CliRunner().invoke(models, [str(campaign)])
        finally:
            os.seteuid(0)
        assert f"chmod a+rx {campaign}; chmod a+r {campaign}/campaign.*" in str(answer.exception)

        check_readable(str(campaign))
        check_readable(str(campaign / "absent"))
