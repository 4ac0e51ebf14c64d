"""The log of attempted runs."""

from insitu.campaign.attempts import AttemptRecord, append_attempt, read_attempts
from insitu.campaign.layout import ATTEMPTS_LOG

FIRST = AttemptRecord({"p": 2.0, "n": 64.0}, began_at=1.5, seconds=2.5, code=124)
SECOND = AttemptRecord({"p": 4.0}, began_at=5.0, seconds=1.0, code=0)


def test_what_was_appended_is_read_and_malformed_lines_between_are_skipped(tmp_path):
    campaign = str(tmp_path / "heat.insitu")
    append_attempt(campaign, FIRST)
    folder = (tmp_path / "heat.insitu" / ATTEMPTS_LOG).parent
    assert folder.stat().st_mode & 0o777 == 0o700
    with (tmp_path / "heat.insitu" / ATTEMPTS_LOG).open("a") as log:
        log.write('{"params": {"p": 8}, "began_\n[]\n')
    append_attempt(campaign, SECOND)

    assert read_attempts(campaign) == [FIRST, SECOND]


def test_a_campaign_without_a_log_has_no_attempts(tmp_path):
    append_attempt(str(tmp_path / "other.insitu"), FIRST)

    assert read_attempts(str(tmp_path / "heat.insitu")) == []
