"""Weir: bandwidth policies of datacenter networks, and a packet-level simulator.

``Policy`` reads a policy and answers questions about it. Answers are plain objects, equal to the output of the command
line's ``--json``.
"""

from ._errors import Diagnostic, InputError, PolicyError
from ._weir import Policy, __version__

__all__ = ["Diagnostic", "InputError", "Policy", "PolicyError", "__version__"]
