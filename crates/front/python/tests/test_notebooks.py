"""The code of every notebook runs, and has the published result."""

import json

import matplotlib
from conftest import ROOT

NOTEBOOKS = ROOT / "docs" / "notebooks"


def execute(name):
    """Runs the cells of code in order, and returns their names."""
    notebook = json.loads((NOTEBOOKS / name).read_text())
    names = {}
    for number, cell in enumerate(notebook["cells"], 1):
        if cell["cell_type"] == "code":
            # Outputs would be those of another version.
            assert cell["outputs"] == [] and cell["execution_count"] is None
            exec(compile("".join(cell["source"]), f"{name}:cell {number}", "exec"), names)
    return names


def test_every_notebook_has_a_test():
    assert [path.name for path in sorted(NOTEBOOKS.iterdir())] == ["parley-fig14.ipynb"]


def test_parley_fig14(monkeypatch, tmp_path):
    monkeypatch.chdir(ROOT)
    matplotlib.use("Agg")
    names = execute("parley-fig14.ipynb")
    names["figure"].savefig(tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 0
    settled = names["settled"].to_dict("records")
    alone, both, last = settled
    # A hundredth of the levels of the published figure, in Mb/s.
    for row, service, wanted in [(alone, "a", 300), (both, "a", 300), (both, "b", 300), (last, "b", 600)]:
        assert abs(row[service] - wanted) < 0.05 * wanted, settled
    assert alone["b"] == 0
