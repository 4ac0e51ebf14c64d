"""A flood of messages of one kind is limited, for an hour and not for ever."""

from insitu.server.reports import MAX_PER_KIND, WINDOW_S, ReportLimiter


def test_a_message_is_written_once_per_hour():
    limiter = ReportLimiter()

    lines = [limiter.admit("not-kept", "the disk is full", now) for now in (0.0, 1.0, WINDOW_S)]

    assert lines == [["the disk is full"], [], ["the disk is full"]]


def test_a_flood_of_one_kind_does_not_hide_another():
    limiter = ReportLimiter()
    for number in range(5_000):
        limiter.admit("refused", f"message {number}", 0.0)

    assert limiter.admit("not-kept", "the disk is full", 1.0) == ["the disk is full"]
    (line,) = limiter.admit("refused", "message x", WINDOW_S)
    assert f"{5_000 - MAX_PER_KIND} more" in line and "message x" in line
