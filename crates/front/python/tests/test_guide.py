"""The examples of the guides run, in order, as one program each."""

import re
import shutil

from conftest import ROOT

GUIDES = ROOT / "docs" / "how-to"


def run(guide):
    """Runs the examples of a guide, and returns their number."""
    examples = re.findall(r"^```python\n(.*?)^```$", (GUIDES / guide).read_text(), re.MULTILINE | re.DOTALL)
    names = {}
    for example in examples:
        exec(compile(example, guide, "exec"), names)
    return len(examples)


def test_examples_of_the_guide_run(monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    assert run("python.md") >= 6
    printed = capsys.readouterr().out
    # The misspelt service of the example of errors.
    assert "`dsf`" in printed and "`dfs`" in printed


def test_examples_of_sweeps_run(monkeypatch, capsys, tmp_path):
    shutil.copytree(ROOT / "scenarios", tmp_path / "scenarios")
    monkeypatch.chdir(tmp_path)
    assert run("sweeps.md") == 2
    printed = capsys.readouterr().out
    assert "6 of 6 points; {}" in printed and "dctcp" in printed and "cubic" in printed
