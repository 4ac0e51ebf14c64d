"""All screens of the terminal, narrow and wide, compared with reference files."""

import pytest

from tests.support.parameters import first_plain
from tests.views.screens import KEYS, SIZES, draw_screens, reference_file


@pytest.fixture(scope="module", params=first_plain(SIZES), ids=str)
def drawn(request, tmp_path_factory):
    directory = tmp_path_factory.mktemp("screens")
    return request.param, draw_screens(str(directory), request.param)


@pytest.mark.parametrize("name", KEYS)
def test_a_screen_equals_the_reference(drawn, name):
    """After an intended change, run python -m tests.views.screens and check `git diff`."""
    size, texts = drawn

    assert texts[name] == reference_file(name, size).read_text(encoding="utf-8")


def test_no_screen_prints_control_characters_of_names(drawn):
    _, texts = drawn

    text = "".join(texts.values())
    assert "\x1b" not in text and "\u202e" not in text
    assert "\\x1b[31mhalo" in text


def test_no_line_is_longer_than_the_screen(drawn):
    (width, height), texts = drawn

    for text in texts.values():
        lines = text.splitlines()
        assert max(map(len, lines)) <= width
        assert len(lines) < height
