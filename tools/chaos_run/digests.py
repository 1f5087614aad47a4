"""Reads what tests/integration/digest_client.cc has written and compares it."""

import re

_LINE = re.compile(r"(\d+) (\d+) (\d+) (\d+) ([0-9a-f]{16})")


def read(path):
    """[(epoch, step, what the batch was)]; ValueError names a line that is none."""
    rows = []
    with open(path, encoding="ascii") as file:
        for number, line in enumerate(file, 1):
            match = _LINE.fullmatch(line.rstrip("\n"))
            if match is None or not line.endswith("\n"):
                raise ValueError(f"{path}:{number}: {line!r}")
            rows.append((int(match[1]), int(match[2]), " ".join(match.group(3, 4, 5))))
    return rows


def resume_at(path):
    """Where a client that was killed goes on: EPOCH:STEP after its last line."""
    try:
        rows = read(path)
    except FileNotFoundError:
        rows = []
    # The loader takes the step after the last one of an epoch for the next epoch.
    return f"{rows[-1][0]}:{rows[-1][1] + 1}" if rows else "0:0"


def compare(got, reference):
    """"" when `got` is how `reference` begins, else what is wrong with it."""
    if len(got) > len(reference):
        return f"{len(got)} batches came, the reference has {len(reference)}"
    for at, (have, want) in enumerate(zip(got, reference)):
        if have == want:
            continue
        if have[:2] == want[:2]:
            return f"epoch {have[0]} step {have[1]} is {have[2]}, the reference has {want[2]}"
        seen = have[:2] in {row[:2] for row in got[:at]}
        return (f"batch {at} is epoch {have[0]} step {have[1]}"
                f"{' once more' if seen else ''}, due was epoch {want[0]} step {want[1]}")
    return ""
