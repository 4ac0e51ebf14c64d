"""What stands on every screen of the terminal, narrow and wide, compared with what was kept."""

import pytest

from tests.views.screens import KEYS, SIZES, kept, screens


@pytest.fixture(scope="module", params=SIZES, ids=str)
def drawn(request, tmp_path_factory):
    directory = tmp_path_factory.mktemp("screens")
    return request.param, screens(str(directory), request.param)


@pytest.mark.parametrize("name", KEYS)
def test_a_screen_is_as_it_was_when_it_was_looked_at(drawn, name):
    """If it should be another one: python -m tests.views.screens, and look at `git diff`."""
    size, found = drawn

    assert found[name] == kept(name, size).read_text(encoding="utf-8")


def test_no_screen_lets_a_name_command_the_terminal(drawn):
    _, found = drawn

    text = "".join(found.values())
    assert "\x1b" not in text and "\u202e" not in text
    assert "\\x1b[31mhalo" in text


def test_no_line_is_longer_than_the_screen(drawn):
    (width, height), found = drawn

    for text in found.values():
        lines = text.splitlines()
        assert max(map(len, lines)) <= width
        assert len(lines) < height
