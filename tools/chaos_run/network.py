"""Where the servers are: several addresses of this machine's loopback, or hosts
of their own made of network namespaces.

A network gives each server an address, starts programs there and breaks and
mends links. `endpoint` is what clients are given.
"""

import os
import random
import signal
import socket
import subprocess
import tempfile
import time

PORT = 7001
NAME = "data.chaos"


def _quiet(*command):
    result = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                            check=False)
    if result.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {result.stderr.strip()}")


def _unused_ports(count):
    """Ports that the kernel gives to no outgoing connection: a client that tries the
    address of a server that is not there yet can be given that very port as its own."""
    with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as limits:
        first_outgoing = int(limits.read().split()[0])
    candidates = range(10000, first_outgoing) or range(1024, first_outgoing)
    ports = []
    for port in random.sample(candidates, len(candidates)):
        try:
            socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            continue
        ports.append(port)
        if len(ports) == count:
            return ports
    raise RuntimeError(f"fewer than {count} unused ports below {first_outgoing} on 127.0.0.1")


class Loopback:
    """All servers on 127.0.0.1, one port each. The endpoint lists all of them,
    also those that are started later; nothing can be cut or slowed."""

    name = "loopback"
    kinds = frozenset()

    def __init__(self, max_servers):
        self._addresses = [f"127.0.0.1:{port}" for port in _unused_ports(max_servers)]

    def address(self, server):
        return self._addresses[server]

    def endpoint(self):
        return ",".join(self._addresses)

    def prefix(self, server):
        """What stands before a command so that it runs on that server's host."""
        del server
        return []

    def server_flags(self, server, work):
        """That a server of this network needs."""
        del server, work
        return []

    def announce(self, servers):
        """The servers that the name stands for now."""

    def close(self):
        pass


class Namespaces:
    """Every server on a host of its own: a network namespace that is joined by a
    veth pair to a bridge in this one, where the clients are. The name of the
    endpoint stands in a hosts file that is changed as servers come and go.

    The caller has put this process into network, mount and process namespaces of
    its own (tools/chaos does): nothing of what is made here outlives it.
    """

    name = "namespaces"

    def __init__(self, max_servers):
        self._holders = []
        folder = tempfile.mkdtemp()
        _quiet("mount", "-t", "tmpfs", "chaos", folder)
        self._hosts = os.path.join(folder, "hosts")
        for path, text in ((self._hosts, "127.0.0.1 localhost\n"),
                           (os.path.join(folder, "host.conf"), "multi on\n"),
                           (os.path.join(folder, "nsswitch.conf"), "hosts: files\n")):
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            real = os.path.join("/etc", os.path.basename(path))
            if os.path.exists(real):
                _quiet("mount", "--bind", path, real)
        _quiet("ip", "link", "set", "lo", "up")
        _quiet("ip", "link", "add", "br0", "type", "bridge")
        _quiet("ip", "link", "add", "up0", "type", "veth", "peer", "name", "up1")
        _quiet("ip", "link", "set", "up1", "master", "br0")
        _quiet("ip", "addr", "add", "10.77.0.254/24", "dev", "up0")
        for link in ("br0", "up0", "up1"):
            _quiet("ip", "link", "set", link, "up")
        for server in range(max_servers):
            self._add_host(server)
        self.kinds = frozenset({"cut", "island"})
        if self._has("tbf", "rate", "10mbit", "burst", "64kb", "latency", "100ms"):
            self.kinds |= {"slow"}
        if self._has("netem", "delay", "1ms"):
            self.kinds |= {"delay", "loss"}

    def _add_host(self, server):
        # Keeps the namespace while its server is down.
        holder = subprocess.Popen(["unshare", "--net", "sleep", "infinity"],
                                  stdin=subprocess.DEVNULL)
        self._holders.append(holder)
        ours = os.readlink("/proc/self/ns/net")
        give_up = time.monotonic() + 10
        while os.readlink(f"/proc/{holder.pid}/ns/net") == ours:
            if time.monotonic() > give_up or holder.poll() is not None:
                raise RuntimeError("unshare --net makes no network namespace")
            time.sleep(0.01)
        _quiet("ip", "link", "add", f"s{server}", "type", "veth", "peer", "name", "eth0", "netns",
               str(holder.pid))
        _quiet("ip", "link", "set", f"s{server}", "master", "br0", "up")
        inside = self.prefix(server)
        _quiet(*inside, "ip", "link", "set", "lo", "up")
        _quiet(*inside, "ip", "addr", "add", f"10.77.0.{server + 1}/24", "dev", "eth0")
        _quiet(*inside, "ip", "link", "set", "eth0", "up")

    def _has(self, *discipline):
        try:
            _quiet("tc", "qdisc", "add", "dev", "br0", "root", *discipline)
        except (RuntimeError, FileNotFoundError):
            return False
        _quiet("tc", "qdisc", "del", "dev", "br0", "root")
        return True

    def address(self, server):
        return f"10.77.0.{server + 1}:{PORT}"

    def endpoint(self):
        return f"{NAME}:{PORT}"

    def prefix(self, server):
        return ["nsenter", "-t", str(self._holders[server].pid), "-n"]

    def server_flags(self, server, work):
        # To share memory: names without a path end at the namespace's border.
        return [f"--local_socket={os.path.join(work, f'socket-{server}')}"]

    def announce(self, servers):
        # In place: the file is mounted by its inode. One write, so that nobody
        # reads half of it.
        lines = [f"10.77.0.{server + 1} {NAME}" for server in sorted(servers)]
        text = "\n".join(["127.0.0.1 localhost", *lines, ""]).encode()
        with open(self._hosts, "r+b", buffering=0) as file:
            file.write(text)
            file.truncate(len(text))

    def cut(self, server, down):
        link = "up1" if server < 0 else f"s{server}"
        _quiet("ip", "link", "set", link, "down" if down else "up")

    def shape(self, server, *discipline):
        """What the server sends; nothing: as it was."""
        inside = self.prefix(server)
        if discipline:
            _quiet(*inside, "tc", "qdisc", "replace", "dev", "eth0", "root", *discipline)
        else:
            _quiet(*inside, "tc", "qdisc", "del", "dev", "eth0", "root")

    def close(self):
        for holder in self._holders:
            holder.send_signal(signal.SIGKILL)
            holder.wait()
        self._holders = []
