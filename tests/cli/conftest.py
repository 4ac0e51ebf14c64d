import io
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from insitu.cli import call
from tests.support.campaigns import modelled_campaign


@dataclass(frozen=True)
class Answer:
    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


Insitu = Callable[..., Answer]


@pytest.fixture
def insitu(monkeypatch: pytest.MonkeyPatch, tmp_path: os.PathLike[str]) -> Insitu:
    """The command in this process, in a directory of its own, as wide as a small terminal."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")

    def run(*arguments: str, given: bytes = b"") -> Answer:
        out, err = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.TextIOWrapper(io.BytesIO(), "utf-8")
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given)))
            patch.setattr(sys, "stdout", out)
            patch.setattr(sys, "stderr", err)
            code = call(arguments)
        texts = []
        for stream in (out, err):
            stream.flush()
            texts.append(stream.buffer.getvalue().decode())
        return Answer(code, *texts)

    return run


@pytest.fixture(scope="session")
def heat(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A campaign at p = 4 to 64 with its models; nobody changes it."""
    path = str(tmp_path_factory.mktemp("kept") / "heat.insitu")
    modelled_campaign(path, 2, (4, 8, 16, 32, 64)).close()
    return path
