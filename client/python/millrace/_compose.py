"""What the translations from torchvision and Albumentations know of a library: the classes of its
transforms, and why one is refused. Pure; imports neither library.

A compose is only looked at. A class is known by its module and name, so that a subclass, which may do
something else, is refused; a parameter that this release does not know is refused, too.
"""

from __future__ import annotations

import types
from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple

from millrace import transforms as T


class Refused(Exception):
    """Of one transform: `parameter` ("" for the whole transform), why, and what to do."""

    def __init__(self, parameter: str, reason: str, advice: str) -> None:
        super().__init__(reason)
        self.parameter, self.reason, self.advice = parameter, reason, advice


class Step(NamedTuple):
    """A transform of the other library, and where it is: "2", or "2.0" in a container."""

    position: str
    transform: Any

    @property
    def name(self) -> str:
        named = self.transform if isinstance(self.transform, (type, *_FUNCTIONS)) else \
            type(self.transform)
        return str(named.__name__)


class Library(NamedTuple):
    """What the way through a compose needs to know of a library.

    Attributes:
      module: its classes' modules begin with this.
      compose: what a Compose is called in errors.
      local: what `local=` may be.
      generator: of the random choices of local transforms.
      known: {class: (the parameters that it has, its handler)}.
      advice: {class: (why the servers do not have it, what to do)}.
    """

    name: Literal["torchvision", "albumentations"]
    module: str
    compose: str
    local: tuple[str, ...]
    generator: str
    known: Mapping[str, tuple[tuple[str, ...], Any]]
    advice: Mapping[str, tuple[str, str]]

    def owns(self, value: Any) -> bool:
        """Whether a value is an object of a class of the library."""
        return type(value).__module__.startswith(self.module)

    def handler(self, step: Step, key: str, present: Iterable[str], implied: Iterable[str] = ()) -> Any:
        """The handler of a transform.

        Args:
          key: its class.
          present: the parameters that it has here.
          implied: parameters that any class may have.
        """
        if key not in self.known:
            raise self._unknown(step, key)
        parameters, handler = self.known[key]
        for name in sorted(set(present) - {*parameters, *implied}):
            raise Refused(name, f"this release of Millrace does not know the parameter; it knows those of "
                          f"{self.compose}", "write the transform with millrace.transforms, or report it "
                          f"with the release of {self.name}")
        return handler

    def _unknown(self, step: Step, key: str) -> Refused:
        kind = type(step.transform)
        if isinstance(step.transform, type):
            return Refused("", f"{step.name} is a class and not an object", f"write {step.name}(...)")
        if isinstance(step.transform, _FUNCTIONS):
            return Refused("", *PYTHON)
        if isinstance(step.transform, T.Transform):
            return Refused("", "it is a transform of millrace.transforms", "write millrace.Pipeline([...]) "
                           f"with only these, or a Compose with only those of {self.compose}")
        if key in self.advice:
            return Refused("", *self.advice[key])
        for base in kind.__mro__[1:]:
            if not self.owns(step.transform) and base.__module__.startswith(self.module) \
                    and base.__name__ in self.known:
                return Refused("", f"a class that is derived from {base.__name__} may differ from it, and "
                               "the servers do not have it", f"use {base.__name__}, or write a "
                               "transform for the servers (docs/extending.md)")
        return Refused("", "the servers do not have this transform", "remove it, or write a transform for "
                       "the servers (docs/extending.md)")


_FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType)
PYTHON = ("a Python function cannot run on the servers", "write a transform for the servers "
          "(docs/extending.md), or change the batch in the loop")
