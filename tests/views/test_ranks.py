"""Pictures of ranks and of the domain they are in."""

import numpy as np

from insitu.modeling.classes.domain import Domain
from insitu.views.ranks import RankValues, draw_ranks
from tests.support.parameters import plain_and_full


@plain_and_full("sides", [(6,), (3, 2), (2, 3, 2), (2, 1, 3, 2)])
def test_domains_of_one_to_four_axes_are_drawn(tmp_path, sides):
    """One rank is outside the domain, one has no value, and values are of both signs."""
    size = int(np.prod(sides)) + 1
    at = np.full((size, len(sides)), -1)
    at[:-1] = np.stack(np.unravel_index(np.arange(size - 1), sides), axis=1)
    labels = np.arange(size) % 2
    labels[2] = -1
    values = np.linspace(-1, 5, size)
    values[2] = np.nan
    file = tmp_path / "ranks.svg"
    names = ("inner", "<corner>\x1b")

    draw_ranks(
        [
            RankValues("main->f", "time", "s", "p=9", values, labels, names, Domain(at, sides)),
            RankValues("main->g", "visits", "1", "p=9", abs(values), labels, names, None),
        ],
        title="a title",
        file=str(file),
    )

    text = file.read_text()
    assert " x ".join(map(str, sides)) in text
    assert "inner: " in text
    assert "\x1b" not in text
