"""The finding about functions that were throttled."""

from insitu.collectors.elision import MAX_NAME_LENGTH, MAX_NAMES, describe_throttled
from insitu.collectors.table_header import EMPTY_HEADER
from insitu.wire import codec
from insitu.wire.messages import MAX_NAME_BYTES, Bye


def test_long_template_names_leave_a_finding_that_fits_into_a_message():
    names = [f"std::vector<{'a' * MAX_NAME_BYTES}>::{i}" for i in range(MAX_NAMES)]
    throttled = {(name, "", 0): 1000 - i for i, name in enumerate(names)}

    text = describe_throttled([EMPTY_HEADER._replace(throttled=12, budget=0.02)], throttled)

    assert len(text) < MAX_NAMES * (MAX_NAME_LENGTH + 40) + 300
    assert "std::vector<aaa" in text and "… (1000 visits)" in text and "4 more" in text


def test_functions_without_a_name_of_their_own_are_counted():
    text = describe_throttled([EMPTY_HEADER._replace(throttled=16, budget=0.02)], {})

    assert "from then on: 16 functions, mostly inside libraries;" in text


def test_a_long_finding_does_not_cost_the_run():
    bye = Bye(1, (), 2, "{}", (("throttled", "x" * 10_000, ""),))

    assert codec.decode(codec.encode(bye)) == bye
