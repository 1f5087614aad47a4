"""The dict that Loader.state_dict() returns, and what load_state_dict() accepts. Pure."""

from __future__ import annotations

from typing import Any, Mapping, NamedTuple

from millrace import _values
from millrace._position import Position
from millrace._values import shown
from millrace.errors import ArgumentError, FailedPreconditionError, InvalidArgumentError

_VERSION = 1
_NAMES = ("epoch", "step", "steps_per_epoch", "global_batch_size", "plan_hash", "fingerprint")
_ADVICE = "load a dict that Loader.state_dict() has returned"


class Expected(NamedTuple):
    """The plan of the loader that has saved a state."""

    plan_hash: str
    fingerprint: str
    steps_per_epoch: int

    @classmethod
    def of(cls, facts: Mapping[str, Any]) -> Expected:
        """That of an open loader."""
        return cls(facts["plan_hash"], facts["fingerprint"], facts["steps_per_epoch"])

    def check(self, facts: Mapping[str, Any]) -> None:
        """Raises FailedPreconditionError when the plan of a loader is another one."""
        for name, why in (("fingerprint", "the data have another content, or the samples another order"),
                          ("plan_hash", "the pipeline or the seed differ"),
                          ("steps_per_epoch", "the pipeline or the seed differ")):
            value = getattr(self, name)
            if value not in ("", facts[name]):
                raise FailedPreconditionError(
                    f"the state has {name} {value}, and this loader {facts[name]}: {why}; make "
                    "the loader as it was when the state was saved")


def save(here: Position, facts: Mapping[str, Any]) -> dict[str, Any]:
    """The state at a position of a plan."""
    return {
        "version": _VERSION,
        "epoch": here.epoch,
        "step": here.step,
        "steps_per_epoch": facts["steps_per_epoch"],
        "global_batch_size": facts["batch_size"],
        "plan_hash": facts["plan_hash"],
        "fingerprint": facts["fingerprint"],
    }


def load(state: Any) -> tuple[Position, int, Expected] | None:
    """(position, global batch size, plan) of a state. None: the state is {}.

    Raises:
      InvalidArgumentError: no state.
    """
    if not isinstance(state, Mapping):
        raise ArgumentError(f"a value of type {type(state).__name__} is not a state: {_ADVICE}")
    if not state:
        return None
    if state.get("version") != _VERSION:
        raise InvalidArgumentError(
            f"the state has version {shown(state.get('version'))}, and this release reads version "
            f"{_VERSION}: {_ADVICE}")

    def number(name: str, maximum: int = 2**64 - 1) -> int:
        return _values.whole_number(f"state[{name!r}]", state[name], 0, maximum)

    for name in _NAMES:
        if name not in state:
            raise InvalidArgumentError(f"the state lacks {name!r}: {_ADVICE}")
    for name in state:
        if name not in ("version", *_NAMES):
            raise InvalidArgumentError(f"the state has {shown(name)}, which state_dict() does not return: {_ADVICE}")
    expected = Expected(_values.text("state['plan_hash']", state["plan_hash"]),
                        _values.text("state['fingerprint']", state["fingerprint"]),
                        number("steps_per_epoch"))
    position = Position(number("epoch", _values.MAX_EPOCH), number("step"))
    if position.step > expected.steps_per_epoch:
        raise InvalidArgumentError(
            f"state['step']={position.step}: an epoch of the state has {expected.steps_per_epoch} "
            f"steps; {_ADVICE}")
    return position, number("global_batch_size"), expected
