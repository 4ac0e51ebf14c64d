"""`insitu plot`: pictures as a paper wants them."""

import re
from pathlib import Path

import pytest

from tests.cli.conftest import Insitu

pytest.importorskip("matplotlib", reason="matplotlib is not installed")
POINTS_PER_MM = 72 / 25.4


@pytest.mark.parametrize(("width", "mm"), [("single", 88), ("120mm", 120)])
def test_a_picture_is_as_wide_as_the_column_and_has_its_fonts_in_it(
    insitu: Insitu, heat: str, tmp_path: Path, width: str, mm: float
):
    words = ("--width", width, "--metric", "time", "--callpath", "residual")
    answer = insitu("plot", heat, "-o", "a.pdf", *words)

    assert answer.code == 0, answer.err
    content = (tmp_path / "a.pdf").read_bytes()
    (box,) = set(re.findall(rb"/MediaBox \[ ?0 0 ([0-9.]+) ", content))
    assert float(box) == pytest.approx(mm * POINTS_PER_MM, abs=0.1)
    assert b"/FontFile2" in content and b"/Type3" not in content  # TrueType, which is type 42


def test_several_call_paths_share_a_field(insitu: Insitu, heat: str, tmp_path: Path):
    patterns = ("--callpath", "MPI_Allreduce", "--callpath", "*MPI_Send*")

    answer = insitu("plot", heat, "-o", "a.svg", "--together", "--log", "xy", *patterns)

    assert answer.code == 0, answer.err
    text = (tmp_path / "a.svg").read_text(encoding="utf-8")
    assert len(re.findall(r'id="axes_\d+"', text)) == 1
    assert set(re.findall(r"<!-- (\w+-&gt;MPI_[^:]+): ", text)) == {
        "residual-&gt;MPI_Allreduce all",
        "exchange-&gt;MPI_Sendrecv all",
        "exchange-&gt;MPI_Sendrecv inner",
        "exchange-&gt;MPI_Sendrecv end",
    }


@pytest.mark.parametrize("width", ["wide", "3", "nan"])
def test_a_width_that_no_paper_has_is_refused(insitu: Insitu, heat: str, width: str):
    answer = insitu("plot", heat, "-o", "a.pdf", "--width", width)

    assert (answer.code, answer.out) == (2, "")
    assert "single, double, or 30 to 1000 mm" in answer.err
