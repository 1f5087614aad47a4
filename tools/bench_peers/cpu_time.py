"""Processor time of processes, from /proc."""

import os


def cpu_seconds(pid=None, living_children=True):
    """User and system seconds of a process (None: this one) and its children that have ended, and
    of those that live when asked for. A process that is gone took 0."""
    pid = pid or os.getpid()
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            numbers = file.read().rsplit(")", 1)[1].split()
        total = sum(map(int, numbers[11:15])) / os.sysconf("SC_CLK_TCK")
        if not living_children:
            return total
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children", encoding="ascii") as file:
                total += sum(cpu_seconds(int(child)) for child in file.read().split())
        return total
    except OSError:
        return 0.0
