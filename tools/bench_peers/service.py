"""Samples a second through a server and a client of ours, each a process.

    service.py SERVER CLIENT SPEC BATCHES THREADS NAME=URI...

Prints the JSON object of `millrace bench --json`. An LD_PRELOAD is the server's alone.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time


def main(argv):
    server, client, spec, batches, threads, *datasets = argv[1:]
    environment = dict(os.environ)
    with tempfile.TemporaryDirectory() as folder:
        port_file = os.path.join(folder, "port")
        log = open(os.path.join(folder, "log"), "w+", encoding="utf-8")
        process = subprocess.Popen(
            [server, "--listen=127.0.0.1:0", f"--port_file={port_file}", f"--threads={threads}",
             "--memory_budget=1GiB", *[f"--dataset={d}" for d in datasets]],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment)
        environment.pop("LD_PRELOAD", None)
        try:
            while not (os.path.exists(port_file) and os.path.getsize(port_file)):
                if process.poll() is not None:
                    log.seek(0)
                    sys.exit(f"the server ended: {log.read().strip().splitlines()[-1:]}")
                time.sleep(0.02)
            with open(port_file, encoding="ascii") as file:
                endpoint = f"127.0.0.1:{file.read().strip()}"
            return subprocess.run(
                [client, "bench", f"--endpoint={endpoint}", f"--pipeline={spec}",
                 "--batch_size=64", f"--batches={batches}", "--json"],
                stdin=subprocess.DEVNULL, env=environment, check=False).returncode
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv))
