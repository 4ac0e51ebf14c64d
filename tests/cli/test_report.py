"""`insitu report`: one file, or an error that helps."""

from pathlib import Path

from tests.cli.conftest import Insitu


def test_it_writes_a_page_or_markdown(insitu: Insitu, heat: str, tmp_path: Path):
    (tmp_path / "e.toml").write_text(
        '[[expect]]\ncallpath = "MPI_Allreduce"\nmetric = "time"\ngrowth = "O(1)"\n'
    )

    made = insitu("report", heat, "-o", "r.html", "--expect", "e.toml")
    text = insitu("report", heat, "-o", "r.md", "--at", "p=65536")

    assert (made.code, text.code) == (0, 0), made.err + text.err
    assert "What was expected" in (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "At p = 65536" in (tmp_path / "r.md").read_text(encoding="utf-8")
    assert insitu("report", heat, "-o", "r.docx").code == 2
    assert insitu("report", heat, "--at", "q=3", "-o", "r.md").code == 2
