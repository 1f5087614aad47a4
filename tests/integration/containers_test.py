"""Server and client in two containers of one machine, each with network and mounts
of its own: they share memory when both see the server's socket at its path, and
batches come over the network where the client does not see it.

Called without a test runner it is what runs inside of the namespaces:

    containers_test.py WORK SERVER DATA_TOOL CLIENT
"""

import json
import os
import sys
import unittest

_PROGRAMS = ("server/millrace-server", "server/data_tool/millrace-data",
             "tests/integration/digest_client")
_BATCHES = 100
# Of a container that does not mount the folder $0.
_HIDE = 'mount -t tmpfs none "$0" && exec "$@"'


def _inside(work, server_program, data_tool, client_program):
    """A JSON object of what each client's program ended with, said and received."""
    sys.path.insert(0, "tools/chaos_run")
    # pylint: disable=import-outside-toplevel
    import dataset
    import network
    import processes
    os.mkdir(os.path.join(work, "tmp"))
    shared = os.path.join(work, "shared")
    os.mkdir(shared)
    spec = os.path.join(work, "spec.textproto")
    with open(spec, "w", encoding="utf-8") as file:
        file.write(dataset.SPEC)
    uri = dataset.pack(data_tool, work)
    hosts = network.Namespaces(2)
    found = {}
    server = processes.Server(0, hosts, server_program,
                              [f"--dataset=digits={uri}", "--memory_budget=256MiB",
                               f"--local_socket={shared}/server.sock"], work)
    try:
        server.start()
        server.await_ready()
        for name, same_host, hides in (("network", "off", False), ("shared", "require", False),
                                       ("hidden", "auto", True), ("refused", "require", True)):
            container = [*hosts.prefix(1), "unshare", "--mount"]
            if hides:
                container += ["sh", "-c", _HIDE, shared]
            client = processes.Client(
                0, client_program,
                [f"--endpoint={server.address}", f"--pipeline={spec}", "--batch_size=200",
                 f"--batches={_BATCHES}", f"--same_host={same_host}", "--next_timeout=2s"],
                work, name, container)
            client.start()
            code = client.wait(60)
            texts = []
            for path in (client.log, client.output):
                with open(path, encoding="utf-8") as file:
                    texts.append(file.read())
            found[name] = (code, *texts)
        found["server"] = (server.stop(), "", "")
    finally:
        server.kill()
        hosts.close()
    return found


class Containers(unittest.TestCase):

    def test_memory_is_shared_where_both_see_the_socket(self):
        import own_network  # pylint: disable=import-outside-toplevel
        found = own_network.run(self, __file__, _PROGRAMS)
        said = {name: text for name, (_, text, _) in found.items()}
        batches = {name: text for name, (_, _, text) in found.items()}
        codes = {name: code for name, (code, _, _) in found.items()}
        self.assertEqual(codes, {"network": 0, "shared": 0, "hidden": 0, "refused": 1, "server": 0},
                         said)
        self.assertEqual(batches["network"].count("\n"), _BATCHES)
        self.assertEqual(batches["shared"], batches["network"])
        self.assertEqual(batches["hidden"], batches["network"])
        self.assertEqual(batches["refused"], "")
        self.assertNotIn("memory", said["network"])
        self.assertEqual(said["shared"].count("batches come in shared memory"), 1, said["shared"])
        self.assertEqual(said["hidden"].count("no shared memory with server"), 1, said["hidden"])
        self.assertIn("its batches come over the network", said["hidden"])
        self.assertIn("requires shared memory", said["refused"])


if __name__ == "__main__":
    print(json.dumps(_inside(*sys.argv[1:])))
