"""The examples of the guide run, in order, as one program."""

import re

from conftest import ROOT

GUIDE = ROOT / "docs" / "how-to" / "python.md"


def test_examples_of_the_guide_run(monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    examples = re.findall(r"^```python\n(.*?)^```$", GUIDE.read_text(), re.MULTILINE | re.DOTALL)
    assert len(examples) >= 6
    names = {}
    for example in examples:
        exec(compile(example, str(GUIDE), "exec"), names)
    printed = capsys.readouterr().out
    # The misspelt service of the example of errors.
    assert "`dsf`" in printed and "`dfs`" in printed
