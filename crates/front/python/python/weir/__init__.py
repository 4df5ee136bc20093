"""Weir: bandwidth policies of datacenter networks, and a packet-level simulator.

``Policy`` reads a policy and answers questions about it. Answers are plain objects, equal to the output of the command
line's ``--json``. ``Scenario`` runs in the simulator, and the tables of its ``Results`` are read by any library that
takes Arrow's PyCapsule interface, such as pyarrow, pandas and polars. ``sweep`` runs a scenario at every combination of
some values, on this machine or on a cluster.
"""

from ._errors import Diagnostic, InputError, PolicyError, ScenarioError
from ._sweep import Sweep, sweep
from ._weir import Policy, Progress, Results, Scenario, Table, __version__

__all__ = [
    "Diagnostic",
    "InputError",
    "Policy",
    "PolicyError",
    "Progress",
    "Results",
    "Scenario",
    "ScenarioError",
    "Sweep",
    "Table",
    "__version__",
    "sweep",
]
