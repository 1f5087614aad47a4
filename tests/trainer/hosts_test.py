"""A training on two machines, each a network namespace, with a data server on a third:
--nnodes=2, a slow network between the ranks that the doctor names, and a machine that is cut off
ends the other by its name.

Called without a test runner it is what runs inside of the namespaces:

    hosts_test.py WORK SERVER DATA_TOOL TRAINER MILLRACE
"""

import json
import os
import subprocess
import sys
import time
import unittest

_PROGRAMS = ("server/millrace-server", "server/data_tool/millrace-data", "trainer/millrace-train",
             "client/cli/millrace")
_MASTER = "10.77.0.2"


def _inside(work, server_program, data_tool, trainer, millrace):
    """A JSON object of what each run ended with and said."""
    sys.path.insert(0, "tools/chaos_run")
    # pylint: disable=import-outside-toplevel
    import dataset
    import network
    import processes
    os.mkdir(os.path.join(work, "tmp"))
    spec = os.path.join(work, "spec.textproto")
    with open(spec, "w", encoding="utf-8") as file:
        file.write(dataset.SPEC)
    uri = dataset.pack(data_tool, work)
    hosts = network.Namespaces(3)
    server = processes.Server(0, hosts, server_program, [f"--dataset=digits={uri}"], work)
    running = []

    def start(name, host, *flags):
        log = os.path.join(work, f"{name}-{host}.log")
        running.append((name, host, log, processes.start(
            [*hosts.prefix(host), trainer, "--endpoint=10.77.0.1:7001", f"--pipeline={spec}",
             "--batch_size=200", "--log_every=1", *flags], log, os.path.join(work, "tmp"))))

    def on_both(name, port, *flags):
        for host in (1, 2):
            start(name, host, "--nproc=1", "--nnodes=2", f"--node_rank={host - 1}",
                  f"--master_addr={_MASTER}", f"--master_port={port}", *flags)

    def ends():
        found = {}
        for name, host, log, process in running:
            code = process.wait(60)
            with open(log, encoding="utf-8") as file:
                found[f"{name}-{host}"] = (code, file.read())
        running.clear()
        return found

    def losses(name):
        with open(os.path.join(work, name), encoding="utf-8") as file:
            return [float(line.split()[2]) for line in file]

    try:
        server.start()
        server.await_ready()
        start("alone", 1, "--max_steps=8", f"--step_losses={work}/alone")
        found = ends()
        on_both("both", 29500, "--max_steps=8", f"--step_losses={work}/both")
        found.update(ends())
        found["losses"] = (losses("alone"), losses("both"))
        if "delay" in hosts.kinds:
            # What the ranks send arrives late; batches are asked for far enough ahead.
            for host in (1, 2):
                hosts.shape(host, "netem", "delay", "20ms")
            summary = os.path.join(work, "slow.json")
            on_both("slow", 29502, "--max_steps=60", f"--json={summary}")
            found.update(ends())
            for host in (1, 2):
                hosts.shape(host)
            found["doctor"] = subprocess.run(
                [millrace, "doctor", f"--run={summary}"], stdin=subprocess.DEVNULL,
                capture_output=True, text=True, check=False).stdout
        on_both("cut", 29501, "--epochs=100000", "--rank_timeout=5s", "--data_timeout=5s")
        while "step 5/" not in open(running[0][2], encoding="utf-8").read():
            if running[0][3].poll() is not None:
                break
            time.sleep(0.01)
        hosts.cut(2, True)
        found.update(ends())
    finally:
        for _, _, _, process in running:
            process.kill()
            process.wait()
        server.kill()
        hosts.close()
    return found


class Hosts(unittest.TestCase):

    def test_two_machines_train_together_and_miss_each_other(self):
        import own_network  # pylint: disable=import-outside-toplevel
        found = own_network.run(self, __file__, _PROGRAMS)
        for name in ("alone-1", "both-1", "both-2"):
            self.assertEqual(found[name][0], 0, found[name][1])
        self.assertIn("on 2 ranks", found["both-1"][1])
        alone, both = found["losses"]
        self.assertEqual(len(both), 8)
        for one, two in zip(alone, both):
            self.assertAlmostEqual(one, two, delta=1e-5)
        if "doctor" in found:
            self.assertEqual(found["slow-1"][0], 0, found["slow-1"][1])
            self.assertRegex(found["doctor"], "bottleneck: 2 ranks waited for each other")
            self.assertIn("--accumulate=4", found["doctor"])
        for host, missing in ((1, "rank 1 of 2"), (2, "rank 0 of 2")):
            code, said = found[f"cut-{host}"]
            self.assertEqual(code, 1, said)
            self.assertRegex(said, f"{missing} on host [^ ]+ is gone: no heartbeat for 5s")


if __name__ == "__main__":
    print(json.dumps(_inside(*sys.argv[1:])))
