"""`insitu report`: one file, or an error that helps."""

import errno
import os
import shutil
from pathlib import Path

import pytest

from tests.cli.conftest import Insitu


def test_it_writes_a_page_or_markdown(insitu: Insitu, heat: str, tmp_path: Path):
    (tmp_path / "e.toml").write_text(
        '[[expect]]\ncallpath = "MPI_Allreduce"\nmetric = "time"\ngrowth = "O(1)"\n'
    )

    made = insitu("report", heat, "-o", "r.html", "--expect", "e.toml")
    text = insitu("report", heat, "-o", "r.md", "--at", "p=65536")

    assert (made.code, text.code) == (0, 0), made.err + text.err
    assert "<h2>Expectations</h2>" in (tmp_path / "r.html").read_text(encoding="utf-8")
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "<td>p=256</td>" in page.partition("What to measure next")[2]
    assert "What dominates at p = 65536 is unclear" in (tmp_path / "r.md").read_text(
        encoding="utf-8"
    )
    verdict = "; measured: 4 to 64 ranks, 10 runs"
    assert verdict in " ".join((tmp_path / "r.md").read_text(encoding="utf-8").split())
    assert '<section class="diagnosis">' in page.partition("<h2>")[0]
    assert insitu("report", heat, "-o", "r.docx").code == 2
    assert insitu("report", heat, "--at", "q=3", "-o", "r.md").code == 2


def test_expectations_in_the_campaign_are_judged(insitu: Insitu, heat: str, tmp_path: Path):
    said = '[[expect]]\ncallpath = "MPI_Allreduce"\nlimit = "time at p=1024 < 1 ms"\n'
    shutil.copytree(heat, "own.insitu")
    (tmp_path / "own.insitu" / "expectations.toml").write_text(said)

    assert insitu("report", "own.insitu", "-o", "r.md").code == 0

    text = (tmp_path / "r.md").read_text(encoding="utf-8")
    assert "1 of 1 expectations is violated" in text


@pytest.mark.parametrize(
    "words",
    [
        ("report", "-o", "r.html"),
        ("export", "-o", "r.jsonl"),
        ("check", "e.toml", "-o", "r.md"),
    ],
)
def test_a_file_that_cannot_be_written_whole_stays_as_it_was(
    insitu, heat, tmp_path, monkeypatch, words
):
    def fail(source: str, target: str) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    file = tmp_path / words[-1]
    file.write_text("of yesterday", encoding="utf-8")
    (tmp_path / "e.toml").write_text(
        '[[expect]]\ncallpath = "MPI_Allreduce"\ngrowth = "O(log p)"\n', encoding="utf-8"
    )
    monkeypatch.setattr(os, "replace", fail)

    answer = insitu(words[0], heat, *words[1:])

    assert answer.code == 2
    assert "No space left on device" in answer.err
    assert file.read_text(encoding="utf-8") == "of yesterday"
    assert not (tmp_path / f"{words[-1]}.part").exists()


def test_an_export_may_go_to_a_device(insitu, heat):
    assert insitu("export", heat, "--to", "jsonl", "-o", "/dev/null").code == 0
