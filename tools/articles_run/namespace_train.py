"""Experiment 5 with the server on a host of its own. Called by exp5_photographs.py, in network, mount
and process namespaces that end with it.

    namespace_train.py CONTEXT.json SEED
"""

import json
import os
import sys

sys.path += [os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), name)
             for name in ("bench_peers", "chaos_run")]

import exp5_photographs  # noqa: E402 (the path comes first)
import network  # noqa: E402
from context import Context  # noqa: E402


def main(argv):
    with open(argv[1], encoding="utf-8") as file:
        context = Context(**json.load(file))
    hosts = network.Namespaces(1)
    try:
        address, _, port = hosts.address(0).rpartition(":")
        run = exp5_photographs.train(context, int(argv[2]), prefix=hosts.prefix(0), host=address,
                                     port=port)
    finally:
        hosts.close()
    print(json.dumps(run))


if __name__ == "__main__":
    main(sys.argv)
