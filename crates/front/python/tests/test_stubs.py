"""The stubs describe the compiled module, and typed programs are checked with them."""

import subprocess
import sys

import weir

PROGRAM = """\
import weir

policy = weir.Policy.load("policy.yaml")
remarks: list[weir.Diagnostic] = policy.check()
shares = policy.allocate([("m1", "dfs", "tx", None), {"machine": "m1", "service": "vm"}])
scenario = weir.Scenario.load("scenario.yaml")
scenario.set("seed", 3)
rows: int = len(scenario.run(progress=lambda now: now.fraction < 0.5).flows)
"""


def mypy(tool, *arguments, cwd=None):
    command = [sys.executable, "-m", tool, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd)


def test_stubs_are_those_of_the_module(tmp_path):
    done = mypy("mypy.stubtest", "weir", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_typed_programs_are_checked(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    done = mypy("mypy", "--strict", program.name, cwd=tmp_path)
    assert done.returncode == 0, done.stdout
    program.write_text(PROGRAM.replace('"seed", 3', '"seed", None'))
    done = mypy("mypy", "--strict", program.name, cwd=tmp_path)
    assert "arg-type" in done.stdout


def test_every_public_name_is_documented():
    for name in set(weir.__all__) - {"__version__"}:
        assert getattr(weir, name).__doc__, name
