"""MkDocs hook: replaces `<!-- generated: NAME -->` by a table that insitu.cli.reference makes."""

import re
from typing import Any

from insitu.cli import reference

MARKER = re.compile(r"^<!-- generated: (\w+) -->$", re.MULTILINE)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Fill in the generated parts of a page.

    Raises:
        KeyError: a marker names no table, so that the build fails.
    """
    return MARKER.sub(lambda match: reference.TABLES[match[1]](), markdown)
