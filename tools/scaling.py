"""How many servers a training needs: the model of docs/scaling.md, in numbers.

    python3 tools/scaling.py [--gpus=8,64,1024] [--gpu_rate=R] [--core_rate=R] [...] [--json]

Prints a table with a column for each number of GPUs. Rates are samples (images) a
second. What to measure for each value, and how, is in docs/scaling.md; `--help`
lists them with what they are taken for by themselves.
"""

import argparse
import json
import math
import sys


def number(text, accepts, what):
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not accepts(value):
        raise argparse.ArgumentTypeError(f"'{text}' is not {what}")
    return value


def positive(text):
    return number(text, lambda v: 0 < v < math.inf, "a number above 0")


def whole(text):
    return int(number(text, lambda v: 1 <= v < 2**53 and v == int(v), "a whole number above 0"))


def share(text):
    return number(text, lambda v: 0 < v <= 1, "a share: above 0 and at most 1")


def gpu_counts(text):
    return [whole(part) for part in text.split(",")]


# (name, type, default, what it is)
PARAMETERS = [
    ("gpu_rate", positive, 1500, "images a second that one GPU trains on"),
    ("core_rate", positive, 900, "images a second that one core of a server decodes and sends"),
    ("image_bytes", positive, 150528, "of one image on the wire; 224 x 224 x 3 of uint8"),
    ("stored_bytes", positive, 110000, "of one image in the dataset"),
    ("client_cpu", positive, 0.36, "processor seconds of the client for 1 GB received"),
    ("busy", share, 0.8, "share of the servers' cores and links that is planned with"),
    ("server_cores", whole, 32, "cores of one server"),
    ("server_gbit", positive, 25, "link of one server, Gbit/s"),
    ("node_gpus", whole, 8, "GPUs of one training machine"),
    ("node_gbit", positive, 100, "link of one training machine, Gbit/s"),
    ("batch", whole, 256, "images a GPU takes in one step"),
    ("window", whole, 6, "batches that a GPU's client has asked for"),
    ("core_price", positive, 0.04, "price of one server core for an hour"),
    ("gpu_price", positive, 2.5, "price of one GPU for an hour, in the same money"),
]


def plan(gpus, p):
    """What `gpus` GPUs need. Every line here is a formula of docs/scaling.md."""
    rate = gpus * p.gpu_rate
    bytes_a_second = rate * p.image_bytes
    cores = rate / (p.core_rate * p.busy)
    by_cores = math.ceil(cores / p.server_cores)
    by_link = math.ceil(bytes_a_second / (p.server_gbit * 1e9 / 8 * p.busy))
    servers = max(by_cores, by_link)
    nodes = math.ceil(gpus / p.node_gpus)
    node_bytes = min(gpus, p.node_gpus) * p.gpu_rate * p.image_bytes
    in_flight = gpus * p.window * p.batch * p.image_bytes
    return {
        "gpus": gpus,
        "images_per_second": rate,
        "cores": cores,
        "cores_per_gpu": cores / gpus,
        "servers": servers,
        "limit": "links" if by_link > by_cores else "cores",
        "servers_if_one_dies": servers + 1,
        "server_link_share": bytes_a_second / servers / (p.server_gbit * 1e9 / 8),
        "storage_bytes_per_second": rate * p.stored_bytes,
        "node_bytes_per_second": node_bytes,
        "node_link_share": node_bytes / (p.node_gbit * 1e9 / 8),
        "client_cores_per_node": node_bytes / 1e9 * p.client_cpu,
        "in_flight_bytes_per_server": in_flight / servers,
        "client_bytes_per_gpu": p.window * p.batch * p.image_bytes,
        "streams_per_server": gpus,
        "training_nodes": nodes,
        "cost_share": servers * p.server_cores * p.core_price / (gpus * p.gpu_price),
    }


def size(value):
    for unit, factor in (("GB", 1e9), ("MB", 1e6)):
        if value >= factor:
            return f"{value / factor:,.3g} {unit}"
    return f"{value / 1e3:,.3g} kB"


# (what stands in the first column, how it is written)
ROWS = [
    ("images/s", lambda r: f"{r['images_per_second']:,.0f}"),
    ("server cores for each GPU", lambda r: f"{r['cores_per_gpu']:.2f}"),
    ("servers", lambda r: f"{r['servers']:,} (by their {r['limit']})"),
    ("of a server's link", lambda r: f"{100 * r['server_link_share']:.0f} %"),
    ("read from storage, all servers", lambda r: f"{size(r['storage_bytes_per_second'])}/s"),
    ("of a training machine's link", lambda r: f"{100 * r['node_link_share']:.0f} %"),
    ("client cores of a training machine", lambda r: f"{r['client_cores_per_node']:.2f}"),
    ("client memory for each GPU", lambda r: size(r["client_bytes_per_gpu"])),
    ("batches in a server's memory", lambda r: size(r["in_flight_bytes_per_server"])),
    ("streams of a server", lambda r: f"{r['streams_per_server']:,}"),
    ("price beside the GPUs'", lambda r: f"{100 * r['cost_share']:.1f} %"),
]


def table(results):
    lines = ["| GPUs | " + " | ".join(f"{r['gpus']:,}" for r in results) + " |",
             "|---" * (len(results) + 1) + "|"]
    for name, text in ROWS:
        lines.append(f"| {name} | " + " | ".join(text(r) for r in results) + " |")
    return "\n".join(lines)


def main(arguments):
    parser = argparse.ArgumentParser(prog="tools/scaling.py", allow_abbrev=False,
                                     description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--gpus", type=gpu_counts, default=[8, 64, 1024], metavar="N,...",
                        help="numbers of GPUs, a column each (8,64,1024)")
    for name, kind, default, text in PARAMETERS:
        parser.add_argument(f"--{name}", type=kind, default=default, metavar="N",
                            help=f"{text} ({default:g})")
    parser.add_argument("--json", action="store_true", help="the same for programs")
    options = parser.parse_args(arguments)
    results = [plan(gpus, options) for gpus in options.gpus]
    print(json.dumps(results, indent=2) if options.json else table(results))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
