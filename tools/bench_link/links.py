"""What gRPC makes of a link with delay: ready batches from a server in one network namespace to a
client in another, beside one plain TCP stream over the same link, in turns. Called by
tools/bench-link, in namespaces of its own.

    links.py --wire_bench=FILE --delay_line=FILE [--delays_ms=0,1,10,50] [--rounds=3] [--seconds=3]
             [--tcp_buffer_mib=N] [--rate_mbit=N]

Half of a delay lies on each of the two ways. The delay is netem's, or where the kernel has none
that of tests/bench/delay_line.cc. Prints a table in Markdown.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys

SERVER, CLIENT = "10.77.0.2", "10.77.0.1"
CLIENTS = ("tcp", "loader")
IN_SERVER = ("ip", "netns", "exec", "server")


def run(*words):
    result = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                            check=False)
    if result.returncode != 0:
        raise RuntimeError(f"{' '.join(words)}: {(result.stderr or result.stdout).strip()}")
    return result.stdout


def run_quiet(*words):
    subprocess.run(words, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)


class Link:
    """This namespace and the namespace `server`, joined by one link whose delay changes."""

    def __init__(self, options):
        self._options = options
        self._line = None
        # Names of namespaces are files: those made here stay in the mounts of this process.
        os.makedirs("/run/netns", exist_ok=True)
        run("mount", "-t", "tmpfs", "tmpfs", "/run/netns")
        run("ip", "netns", "add", "server")
        self._veth("probe")
        self.netem = subprocess.run(
            ["tc", "qdisc", "add", "dev", "probe", "root", "netem", "delay", "1ms"],
            stderr=subprocess.DEVNULL, check=False).returncode == 0
        run("ip", "link", "del", "probe")
        for words in ((), IN_SERVER):
            run(*words, "ip", "link", "set", "lo", "up")
            if options.tcp_buffer_mib:
                for kind, middle in (("rmem", 131072), ("wmem", 65536)):
                    run(*words, "sysctl", "-q", "-w",
                        f"net.ipv4.tcp_{kind}=4096 {middle} {options.tcp_buffer_mib << 20}")

    @staticmethod
    def _veth(name):
        run("ip", "link", "add", name, "type", "veth", "peer", "name", name, "netns", "server")

    def remake(self, delay_ms):
        """A new link, because what runs over the old one may have filled its queues."""
        self.close()
        run_quiet("ip", "link", "del", "link0")
        if self.netem or not (delay_ms or self._options.rate_mbit):
            self._veth("link0")
        else:
            if self._options.rate_mbit:
                raise RuntimeError("--rate_mbit needs a kernel with netem")
            self._line = subprocess.Popen(
                [self._options.delay_line, "--namespace=/run/netns/server", "--here=link0",
                 "--there=link0", f"--round_trip_ms={delay_ms}"],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
            if self._line.stdout.readline() != "ready\n":
                raise RuntimeError("delay_line did not start; its own line says why")
        for words, address in (((), CLIENT), (IN_SERVER, SERVER)):
            run(*words, "ip", "address", "add", address + "/24", "dev", "link0")
            # Room for everything that waits: the link loses nothing.
            run(*words, "ip", "link", "set", "link0", "txqueuelen", "20000", "up")
            if self.netem and (delay_ms or self._options.rate_mbit):
                run(*words, "tc", "qdisc", "add", "dev", "link0", "root", "netem", "limit",
                    "1000000", *(["delay", f"{delay_ms / 2}ms"] if delay_ms else []),
                    *(["rate", f"{self._options.rate_mbit}mbit"] if self._options.rate_mbit
                      else []))

    def close(self):
        if self._line is not None:
            self._line.kill()
            self._line.wait()
            self._line = None

    @staticmethod
    def buffers():
        return {kind: int(run("sysctl", "-n", f"net.ipv4.tcp_{kind}").split()[2])
                for kind in ("rmem", "wmem")}


class Server:
    """wire_bench --serve in the other namespace; a new one for each delay, because its address
    goes with the link."""

    def __init__(self, options):
        self._process = subprocess.Popen(
            [*IN_SERVER, options.wire_bench, f"--serve={SERVER}",
             f"--batch_bytes={options.batch_bytes}"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        words = self._process.stdout.readline().split()
        if len(words) != 4:
            raise RuntimeError("the server of wire_bench did not start")
        self.ports = {"loader": words[1], "tcp": words[3]}

    def close(self):
        self._process.kill()
        self._process.wait()


def measure(options, client, port):
    output = run(options.wire_bench, f"--client={client}", f"--connect={SERVER}:{port}",
                 f"--seconds={options.seconds}", f"--warmup={options.warmup}", "--rounds=1",
                 f"--batch_bytes={options.batch_bytes}", "--json")
    return json.loads(output.strip().splitlines()[-1])


def middle(values, digits):
    return (f"{statistics.median(values):.{digits}f} "
            f"({min(values):.{digits}f}-{max(values):.{digits}f})")


def row(options, link, delay):
    link.remake(delay)
    server = Server(options)
    try:
        found = {client: [] for client in CLIENTS}
        for number in range(options.rounds):
            for client in CLIENTS if number % 2 == 0 else CLIENTS[::-1]:
                found[client].append(measure(options, client, server.ports[client]))
    finally:
        server.close()
    rate = {client: [f["gigabytes_per_second"] * 1000 for f in found[client]]
            for client in CLIENTS}
    shares = [100 * ours / raw for ours, raw in zip(rate["loader"], rate["tcp"])]
    cpu = [f["cpu_seconds_per_gigabyte"] for f in found["loader"]]
    return (f"| {delay:g} ms | {middle(rate['tcp'], 0)} | {middle(rate['loader'], 0)} | "
            f"{middle(shares, 0)} % | {statistics.median(cpu):.2f} |")


def main(arguments):
    parser = argparse.ArgumentParser()
    parser.add_argument("--wire_bench", required=True)
    parser.add_argument("--delay_line", required=True)
    parser.add_argument("--delays_ms", default="0,1,10,50",
                        type=lambda text: [float(word) for word in text.split(",")])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--warmup", type=float, default=3)
    parser.add_argument("--tcp_buffer_mib", type=int, default=0)
    parser.add_argument("--rate_mbit", type=int, default=0)
    parser.add_argument("--batch_bytes", type=int, default=64 * 224 * 224 * 3)
    options = parser.parse_args(arguments)
    link = None
    try:
        link = Link(options)
        buffers = link.buffers()
        print(f"{options.rounds} rounds of {options.seconds:g} s after {options.warmup:g} s of "
              f"warming up; delay by {'netem' if link.netem else 'delay_line'}; largest TCP "
              f"buffers: {buffers['rmem'] / 2**20:.0f} MiB to receive, "
              f"{buffers['wmem'] / 2**20:.0f} MiB to send"
              f"{f'; {options.rate_mbit} Mbit/s each way' if options.rate_mbit else ''}; median "
              "(lowest-highest)\n\n"
              "| round trip | one TCP stream, MB/s | Millrace, MB/s | share | client CPU-s/GB |\n"
              "|---|---|---|---|---|", flush=True)
        for delay in options.delays_ms:
            print(row(options, link, delay), flush=True)
    except (RuntimeError, OSError) as error:
        print(f"tools/bench-link: {error}", file=sys.stderr)
        return 1
    finally:
        if link is not None:
            link.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
