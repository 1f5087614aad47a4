"""Prints what the tensorboard package reads in a folder of event files.

read_events.py SITE FOLDER: SITE is the folder that the package was installed
to. One JSON object: tag -> list of [step, value].
"""

import json
import sys


def main():
    sys.path.insert(0, sys.argv[1])
    from tensorboard.backend.event_processing import event_accumulator

    accumulator = event_accumulator.EventAccumulator(
        sys.argv[2], size_guidance={event_accumulator.SCALARS: 0,
                                    event_accumulator.TENSORS: 0})
    accumulator.Reload()
    tags = {}
    for tag in accumulator.Tags()["scalars"]:
        tags[tag] = [[event.step, event.value] for event in accumulator.Scalars(tag)]
    json.dump(tags, sys.stdout)


if __name__ == "__main__":
    main()
