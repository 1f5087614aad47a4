"""Ready batches from a server process to one client over the loopback, nothing computed: Arrow Flight.

    wire.py flight --seconds=S [--record_batch_bytes=N]

Record batches of 64 x 224 x 224 x 3 bytes, a batch of images each, or of N bytes: smaller ones pass
faster, but a batch comes in pieces then. Prints one JSON object: gigabytes_per_second (10^9 bytes),
cpu_seconds_per_gigabyte of the client.
"""

import argparse
import json
import os
import subprocess
import sys
import time

import loaders

BATCH_BYTES = 64 * 224 * 224 * 3

FLIGHT_SERVER = """
import itertools, sys
import numpy, pyarrow, pyarrow.flight as flight
values = pyarrow.array(numpy.arange(int(sys.argv[1]), dtype=numpy.uint8))
batch = pyarrow.record_batch([values], names=["images"])
class Server(flight.FlightServerBase):
    def do_get(self, context, ticket):
        batches = itertools.repeat(batch)
        return flight.RecordBatchStream(
            pyarrow.RecordBatchReader.from_batches(batch.schema, batches))
server = Server("grpc://127.0.0.1:0")
print(server.port, flush=True)
server.serve()
"""


def flight_batches(port):
    import pyarrow.flight as flight
    reader = flight.connect(f"grpc://127.0.0.1:{port}").do_get(flight.Ticket(b"batches"))
    for chunk in reader:
        yield chunk.data.num_rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("name", choices=["flight"])
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--record_batch_bytes", type=int, default=BATCH_BYTES)
    options = parser.parse_args()
    server = subprocess.Popen([sys.executable, "-c", FLIGHT_SERVER, str(options.record_batch_bytes)],
                              stdout=subprocess.PIPE)
    try:
        port = int(server.stdout.readline())
        warm, received, start = 0, 0, None
        for size in flight_batches(port):
            now = time.perf_counter()
            if start is None:
                warm += size
                if warm >= 10 * BATCH_BYTES:
                    start, cpu = now, time.process_time()
            else:
                received += size
                if now - start >= options.seconds:
                    break
        gigabytes, seconds = received / 1e9, now - start
        print(json.dumps({"gigabytes_per_second": gigabytes / seconds, "seconds": seconds,
                          "cpu_seconds_per_gigabyte": (time.process_time() - cpu) / gigabytes,
                          "versions": loaders.versions(["pyarrow"])}), flush=True)
    finally:
        server.kill()
        server.wait()
    os._exit(0)


if __name__ == "__main__":
    main()
