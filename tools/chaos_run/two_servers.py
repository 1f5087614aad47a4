"""Images per second of two servers on hosts and cores of their own, against one of
them alone, in turns. Called by tools/bench-two-servers.
"""

import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile

import network as networks
from processes import Server

# (title, spec). All are bound by decoding. On two cores the client takes its share
# of them: the less, the longer an image is worked on and the smaller it is sent.
_NORMALIZE = ("transforms { normalize { mean: [0.485, 0.456, 0.406] "
              "stddev: [0.229, 0.224, 0.225] } }")


def _crop(size, mode):
    return (f"sources {{ dataset: 'photos' }} transforms {{ decode_image {{ {mode} }} }} "
            f"transforms {{ random_resized_crop {{ height: {size} width: {size} }} }} "
            f"transforms {{ horizontal_flip {{ p: 0.5 }} }} {_NORMALIZE}")


ROWS = [
    ("crop 224, flip (`imagenet_train`)", _crop(224, "")),
    ("crop 224 of fully decoded images, flip", _crop(224, "mode: EXACT")),
    ("crop 96 of fully decoded images, flip", _crop(96, "mode: EXACT")),
]


def measure(client, addresses, spec, seconds):
    # By time, which begins when a window of batches has come: with two servers the
    # second works on what is due later, and a count from the first batch on would
    # leave out what it has made by then.
    result = subprocess.run(
        [client, "bench", f"--endpoint={','.join(addresses)}", f"--pipeline={spec}",
         "--batch_size=64", f"--seconds={seconds}s", "--json", "--timeout=60s"],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise RuntimeError(f"millrace bench: {result.stderr.strip()}")
    return json.loads(result.stdout)["images_per_second"]


def main(arguments):
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    parser.add_argument("--photos", required=True)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=6)
    options = parser.parse_args(arguments)
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        print("two servers on a core each need two cores", file=sys.stderr)
        return 1
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    work = tempfile.mkdtemp(prefix="millrace-two-servers.")
    os.mkdir(os.path.join(work, "tmp"))
    program = lambda name: os.path.join(options.bin, name)
    try:
        uri = f"lmdb:{work}/photos.lmdb"
        subprocess.run([program("millrace-data"), "pack", "--format=imagefolder",
                        f"--input={options.photos}", f"--output={uri}"],
                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True)
        network = networks.Namespaces(2)
        servers = [Server(i, network, program("millrace-server"),
                          [f"--dataset=photos={uri}", "--threads=1"], work, pin=cores[i])
                   for i in range(2)]
        try:
            for server in servers:
                server.start()
            for server in servers:
                server.await_ready()
            _table(options, program("millrace"), servers, work, len(cores))
        finally:
            for server in servers:
                server.kill()
            network.close()
    except (RuntimeError, OSError, subprocess.CalledProcessError) as error:
        print(f"tools/bench-two-servers: {error}", file=sys.stderr)
        return 1
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return 0


def _table(options, client, servers, work, cores):
    print(f"{options.rounds} rounds of {options.seconds} s each, batches of 64, {cores} cores; each "
          "server has one, the client runs where there is room\n")
    print("| pipeline | one server | two servers | ratio (spread) |\n|---|---|---|---|",
          flush=True)
    for title, text in ROWS:
        spec = os.path.join(work, "spec.textproto")
        with open(spec, "w", encoding="utf-8") as file:
            file.write(text)
        # To fill the page cache, and to start the pipelines.
        measure(client, [s.address for s in servers], spec, 1)
        one, two, ratios = [], [], []
        for turn in range(options.rounds):
            # The two in turn: cores are not equally fast.
            alone = [measure(client, [s.address], spec, options.seconds) for s in
                     (servers if turn % 2 == 0 else servers[::-1])]
            both = measure(client, [s.address for s in servers], spec, options.seconds)
            one.append(statistics.mean(alone))
            two.append(both)
            ratios.append(both / one[-1])
        print(f"| {title} | {statistics.median(one):,.0f} | {statistics.median(two):,.0f} | "
              f"**{statistics.median(ratios):.2f}** ({min(ratios):.2f}–{max(ratios):.2f}) |",
              flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
