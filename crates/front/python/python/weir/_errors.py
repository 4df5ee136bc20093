"""Exceptions with file, line, cause and hint as values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, Iterable, List, Mapping, Optional


@dataclass(frozen=True)
class Diagnostic:
    """A mistake in a document, or a remark on it.

    ``severity`` is ``"error"`` or ``"note"``. A mistake outside of documents has no position. ``fix`` is the text that
    the hint suggests, with the position and the length of the text that it replaces.
    """

    severity: str
    file: Optional[str]
    line: Optional[int]
    column: Optional[int]
    cause: str
    hint: str
    fix: Optional[Mapping[str, Any]] = None

    @classmethod
    def _from_json(cls, value: Mapping[str, Any]) -> Diagnostic:
        return cls(**value)

    def to_json(self) -> Dict[str, Any]:
        """The object of the command line's ``--json``."""
        value = {name: getattr(self, name) for name in ("severity", "file", "line", "column", "cause", "hint")}
        if self.fix is not None:
            value["fix"] = dict(self.fix)
        return value

    def __str__(self) -> str:
        place = ":".join(str(part) for part in (self.file, self.line, self.column) if part is not None)
        text = f"{place}: {self.cause}" if place else self.cause
        return f"{text}\nhint: {self.hint}" if self.hint else text


class InputError(ValueError):
    """A refused input. ``diagnostics`` has each mistake with its position, cause and hint."""

    diagnostics: List[Diagnostic]

    def __init__(self, message: str, diagnostics: Iterable[Mapping[str, Any]] = ()) -> None:
        super().__init__(message)
        self.diagnostics = [Diagnostic._from_json(one) for one in diagnostics]

    def to_json(self) -> List[Dict[str, Any]]:
        """The mistakes as the command line's ``--json`` has them."""
        return [one.to_json() for one in self.diagnostics]


class PolicyError(InputError):
    """A refused policy, or a question about a policy that has no answer."""


class ScenarioError(InputError):
    """A refused scenario, or a scenario that the simulator cannot run."""
