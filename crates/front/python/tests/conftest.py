"""The repository, and its command line, with whose output answers are compared."""

import json
import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[4]
SCENARIOS = ROOT / "scenarios"


class Cli:
    """The program that ``tools/python.sh`` has built from the same sources."""

    def __init__(self, program):
        self.program = program

    def run(self, *arguments):
        command = [self.program, *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def json(self, *arguments):
        done = self.run(*arguments, "--json")
        assert done.stdout, done.stderr
        return json.loads(done.stdout)


@pytest.fixture(scope="session")
def cli():
    return Cli(os.environ["WEIR_CLI"])


@pytest.fixture
def scenarios():
    return SCENARIOS
