"""What happens when: a list of events that follows from a seed alone.

Nothing is measured or started here, so the same seed, length and kinds always
give the same list; tools/chaos prints the seed of a run that went wrong.
"""

import dataclasses
import random

# Longest silence of all servers; the clients' deadline lies far above it.
LONGEST_OUTAGE = 6.0

# Kind: (weight, shortest and longest duration in seconds).
KINDS = {
    "kill": (5, 0.2, 2.5),      # SIGKILL, back after the duration
    "restart": (3, 0.0, 1.0),   # SIGTERM, back after it has ended and the duration
    "freeze": (4, 0.5, 4.0),    # SIGSTOP, SIGCONT after the duration
    "stutter": (3, 1.0, 4.0),   # stopped for nine tenths of every 100 ms
    "add": (2, 0.0, 0.0),       # one more server
    "remove": (2, 0.0, 0.0),    # one server less
    "gone": (1, 1.0, LONGEST_OUTAGE),   # all servers at once: killed or frozen
    "client": (2, 0.1, 1.0),    # SIGKILL to a client; goes on where it was
    # With namespaces only:
    "cut": (4, 0.5, 5.0),       # the link of one server is down
    "island": (1, 0.5, LONGEST_OUTAGE),  # the clients' own link is down
    "slow": (3, 1.0, 5.0),      # the link of one server carries little
    # Where the kernel has netem:
    "delay": (2, 1.0, 5.0),
    "loss": (2, 1.0, 5.0),
}
ONE_SERVER = {"kill", "restart", "freeze", "stutter", "remove", "cut", "slow", "delay", "loss"}
ALL_SERVERS = {"gone", "island"}
NAMESPACES = {"cut", "island", "slow"}
NETEM = {"delay", "loss"}


@dataclasses.dataclass
class Event:
    at: float        # seconds from the start
    kind: str
    target: int      # server, or rank of a client; -1: all servers
    duration: float  # until it is over
    amount: int = 0  # slow: Mbit/s; delay: ms; loss: percent; gone: 0 killed, 1 frozen

    @property
    def end(self):
        return self.at + self.duration


def make(seed, seconds, servers, clients, kinds, max_servers):
    """Events of a run of `seconds`, in the order of their time.

    `servers` 0 .. servers - 1 run at the start; `add` takes the next number up to
    `max_servers` and never one that was removed. Events of one server do not
    overlap; with all servers at once nothing else does.
    """
    rng = random.Random(f"millrace chaos {seed}")
    kinds = [k for k in KINDS if k in kinds]
    weights = [KINDS[k][0] for k in kinds]
    present = list(range(servers))
    added = servers
    free_at = {}      # server -> when its last event is over
    client_free = {}  # rank -> the same
    events = []
    # Short runs have as many events a second as long ones have.
    now = 0.5
    while now < seconds:
        kind = rng.choices(kinds, weights)[0]
        _, shortest, longest = KINDS[kind]
        # All draws are made whether they are used or not: what one event needs
        # does not shift the next.
        duration = rng.uniform(shortest, longest)
        gap = rng.uniform(0.15, 1.2)
        pick = rng.random()
        amount = rng.randrange(1 << 16)
        free = [s for s in present if free_at.get(s, 0) <= now]
        event = None
        if kind in ALL_SERVERS:
            if len(free) == len(present):
                event = Event(now, kind, -1, duration, amount % 2)
                gap += duration
        elif kind == "add":
            if added < max_servers:
                event = Event(now, kind, added, 0.0)
                present.append(added)
                # Time to start, and to be found.
                free_at[added] = now + 1.0
                added += 1
        elif kind == "remove":
            if len(present) > 2 and free:
                event = Event(now, kind, free[int(pick * len(free))], 0.0)
                present.remove(event.target)
        elif kind == "client":
            rank = int(pick * clients)
            if client_free.get(rank, 0) <= now:
                event = Event(now, kind, rank, duration)
                client_free[rank] = event.end + 1.0
        elif free:
            event = Event(now, kind, free[int(pick * len(free))], duration)
            if kind == "slow":
                event.amount = 5 + amount % 60
            elif kind == "delay":
                event.amount = 5 + amount % 100
            elif kind == "loss":
                event.amount = (5, 30, 100)[amount % 3]
        if event is not None:
            events.append(event)
            for server in present if event.target < 0 else [event.target]:
                if kind != "client":
                    free_at[server] = max(free_at.get(server, 0), event.end + 0.3)
        now += gap
    return events
