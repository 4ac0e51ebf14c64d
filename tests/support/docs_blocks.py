"""Runs the code blocks of a Markdown page in the order of the text; see docs/index.md."""

import ast
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

FENCE = re.compile(r"^```(\w+)(?: title=\"([^\"]+)\")?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
RUNNABLE = ("sh", "python", "toml")
BACKGROUND = "In a second terminal"
CLUSTER = "On a cluster"
IMPORT = "insitu import heat.insitu examples/heat.jsonl\n"
START_S = 60.0  # a command in the background must print something by then


@dataclass(frozen=True)
class Block:
    """A fenced code block: its language, its title ("" without one) and its text."""

    language: str
    title: str
    text: str


def code_blocks(page: Path) -> Iterator[Block]:
    """The shell, Python and TOML blocks of a page."""
    for language, title, text in FENCE.findall(page.read_text(encoding="utf-8")):
        if language in RUNNABLE:
            yield Block(language, title, text)


class Page:
    """A fresh directory in which the blocks of one page run.

    Given `imported`, the campaign that `IMPORT` makes, a block that begins with this command gets a
    copy of it instead.
    """

    def __init__(
        self, directory: Path, environment: Mapping[str, str], imported: Path | None = None
    ) -> None:
        self.directory = directory
        self.imported = imported
        self.environment = dict(environment)
        self.names: dict[str, object] = {}
        self.output = ""
        self.background: list[tuple[subprocess.Popen[bytes], Path]] = []

    def run(self, block: Block) -> None:
        """Run, save or check one block, as its title says."""
        if block.title == CLUSTER:
            assert block.language == "sh", "only shell blocks can need a cluster"
            self._shell("-n", block.text)
        elif block.title == BACKGROUND:
            self._start(block.text)
        elif block.title:
            self._save(block)
        elif block.language == "toml":
            tomllib.loads(block.text)
        elif block.language == "python":
            run_python(block.text, self.names)
        else:
            self.output += self._shell("-euo", "pipefail", "-c", self._shortened(block.text))

    def close(self) -> None:
        """Wait until the commands in the background have printed something, then interrupt them."""
        for process, log in self.background:
            deadline = time.monotonic() + START_S
            while process.poll() is None and not log.stat().st_size:
                assert time.monotonic() < deadline, f"{process.args} prints nothing"
                time.sleep(0.05)

            if process.poll() is None:
                os.killpg(process.pid, signal.SIGINT)
            code = process.wait(START_S)
            assert code in (0, 130, -signal.SIGINT), log.read_text(encoding="utf-8")

    def kill(self) -> None:
        """End what is left in the background after a failure."""
        for process, _ in self.background:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def _shell(self, *arguments: str) -> str:
        command = ["bash", *arguments]
        if arguments[0] == "-n":
            command = ["bash", "-n", "-c", arguments[1]]
        completed = subprocess.run(
            command,
            cwd=self.directory,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert completed.returncode == 0, completed.stdout + completed.stderr
        return completed.stdout

    def _shortened(self, text: str) -> str:
        if not self.imported or not text.startswith(IMPORT):
            return text
        shutil.copytree(self.imported, self.directory / self.imported.name)
        return text.removeprefix(IMPORT)

    def _start(self, text: str) -> None:
        log = self.directory / f"background-{len(self.background)}.log"
        with log.open("wb") as stream:
            process = subprocess.Popen(
                ["bash", "-c", f"exec {text}"],
                cwd=self.directory,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.background.append((process, log))

    def _save(self, block: Block) -> None:
        file = self.directory / block.title
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("a", encoding="utf-8") as stream:
            stream.write(block.text)
        if block.language == "toml":
            tomllib.loads(file.read_text(encoding="utf-8"))


def run_python(text: str, names: dict[str, object]) -> None:
    """Run a block; a comment behind an expression, `value  # 12`, is its expected value."""
    tree = ast.parse(text)
    lines = text.splitlines()
    for statement in tree.body:
        code = ast.Module([statement], type_ignores=[])
        _, _, expected = lines[(statement.end_lineno or 1) - 1].partition("  # ")
        if not isinstance(statement, ast.Expr) or not expected:
            exec(compile(code, "<docs>", "exec"), names)
            continue

        value = eval(compile(ast.Expression(statement.value), "<docs>", "eval"), names)
        if isinstance(value, str):
            assert value == expected.strip()
        else:
            wanted = np.array(ast.literal_eval(expected.strip()))
            assert value == pytest.approx(wanted, abs=0.01)


def page_environment(shims: Path, root: Path) -> dict[str, str]:
    """An environment in which `insitu` and `python` are those that run the tests."""
    shims.mkdir()
    for name, arguments in (("insitu", "-m insitu"), ("python", "")):
        shim = shims / name
        shim.write_text(f'#!/bin/sh\nexec {sys.executable} {arguments} "$@"\n', encoding="utf-8")
        shim.chmod(0o755)

    path = os.pathsep.join((str(shims), str(Path(sys.executable).parent), os.environ["PATH"]))
    return {**os.environ, "PATH": path, "PYTHONPATH": str(root)}
