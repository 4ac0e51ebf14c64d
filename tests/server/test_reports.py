"""A flood of messages of one kind is limited, for an hour and not for ever."""

from insitu.server.reports import MAX_KINDS, MAX_PER_KIND, WINDOW_S, ReportLimiter


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


def test_a_kind_admits_its_messages_up_to_the_limit_and_counts_the_rest_once():
    limiter = ReportLimiter()
    texts = [f"message {number}" for number in range(MAX_PER_KIND)]

    assert [limiter.admit("refused", text, 5.0) for text in texts] == [[text] for text in texts]
    assert limiter.admit("refused", "one more", 5.0) == []
    assert limiter.admit("refused", texts[0], WINDOW_S) == []
    (line,) = limiter.admit("refused", "x", 5.0 + WINDOW_S)
    assert line == "1 more messages like this one were left out: x"
    assert limiter.admit("refused", "x", 6.0 + WINDOW_S) == []
    assert limiter.admit("refused", "y", 6.0 + WINDOW_S) == ["y"]


def test_kinds_beyond_the_limit_share_one_window():
    limiter = ReportLimiter()
    for number in range(MAX_KINDS):
        assert limiter.admit(f"kind {number}", "text", 0.0) == ["text"]

    assert limiter.admit("new", "text", 0.0) == ["text"]
    assert limiter.admit("newer", "text", 0.0) == []
    assert limiter.admit("newer", "other", 0.0) == ["other"]
    assert limiter.admit("kind 0", "other", 0.0) == ["other"]
