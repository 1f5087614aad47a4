"""How much memory this process can still fill before the system ends processes for it."""

from __future__ import annotations

import os

_GROUPS = "/sys/fs/cgroup"


def estimate() -> int | None:
    """Bytes: of the machine, or of a control group (version 2) with a limit. None: the system does not
    say."""
    found = [bytes_ for bytes_ in [_of_machine(), *_of_groups()] if bytes_ is not None]
    return max(0, min(found)) if found else None


def _of_machine() -> int | None:
    values = _numbers("/proc/meminfo", ":")
    available = values.get("MemAvailable")
    return None if available is None else (available + values.get("SwapFree", 0)) * 1024


def _of_groups() -> list[int]:
    """For the group of this process, and those that contain it."""
    group = ""
    for line in _text("/proc/self/cgroup").splitlines():
        if line.startswith("0::"):
            group = line[3:].strip("/")
    found = []
    while True:
        folder = os.path.join(_GROUPS, group)
        limit, used = (_text(f"{folder}/memory.{name}").strip() for name in ("max", "current"))
        if limit.isdigit() and used.isdigit():
            stat = _numbers(f"{folder}/memory.stat", " ")
            # Of files: pages that the system takes back. Memory that is shared counts as files, too.
            cache = max(0, stat.get("file", 0) - stat.get("shmem", 0))
            found.append(int(limit) - int(used) + cache)
        if not group:
            return found
        group = os.path.dirname(group)


def _numbers(path: str, separator: str) -> dict[str, int]:
    """{name: the number that follows it} of each line."""
    found = {}
    for line in _text(path).splitlines():
        name, _, rest = line.partition(separator)
        number = rest.split()[:1]
        if number and number[0].isdigit():
            found[name] = int(number[0])
    return found


def _text(path: str) -> str:
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
