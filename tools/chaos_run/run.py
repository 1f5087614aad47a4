"""Runs servers and clients, lets happen what the schedule says, and compares what
the clients received with an undisturbed run. Called by tools/chaos, and by
tests/tools/chaos_test.py for a short run.
"""

import argparse
import heapq
import itertools
import os
import shutil
import signal
import sys
import tempfile
import time

import dataset
import digests
import leftovers
import network as networks
import schedule
from processes import Client, Server
from work import Work

MIB = 1 << 20
BUDGET = 256 * MIB
# Code, connections and gRPC's buffers come on top of a server's budget, and on
# top of a client's slots (whose program keeps what it has freed).
BESIDE = 200 * MIB
CLIENT_BESIDE = 300 * MIB

BATCH = 256
WORLD = 2
WINDOW = 32
PACE = "3ms"
# How long the client waits whose servers are all gone for longer than that.
IMPATIENCE = "2s"
# After the last event all is mended; then every client must come on by so many
# bytes of its file.
RECOVERED = 100 * 30


class Run:

    def __init__(self, options, network, work):
        self._options = options
        self._network = network
        self._work = work
        self._most = options.servers + 2
        uri = dataset.pack(os.path.join(options.bin, "millrace-data"), work)
        spec = os.path.join(work, "spec.textproto")
        with open(spec, "w", encoding="utf-8") as file:
            file.write(dataset.SPEC)
        self._server_flags = [f"--dataset=digits={uri}", "--threads=2",
                              f"--memory_budget={BUDGET >> 20}MiB"]
        self._client_flags = [f"--pipeline={spec}", f"--batch_size={BATCH}", f"--world={WORLD}",
                              f"--window={WINDOW}", "--timeout=60s"]
        self._program = os.path.join(options.bin, "millrace-server")
        self._work_of_servers = Work(os.path.join(options.bin, "millrace"))
        self._servers = {}
        # One of them shares memory with the servers where it can.
        self._clients = [self._client(rank, "client", "60s", "auto" if rank == 1 else "off")
                         for rank in range(WORLD)]
        self._impatient = self._client(0, "impatient", IMPATIENCE, "off")
        self._named = set()
        self._queue = []
        self._count = itertools.count()
        self._started = 0.0
        self._stuttering = {}  # server -> until when
        self._removed = set()
        self.problems = []

    def _client(self, rank, name, next_timeout, same_host):
        return Client(rank, os.path.join(self._options.bin, "digest_client"),
                      [*self._client_flags, f"--endpoint={self._network.endpoint()}",
                       f"--pace={PACE}", f"--next_timeout={next_timeout}",
                       f"--step_timeout={self._options.step_timeout}",
                       f"--same_host={same_host}"], self._work, name)

    # --- time ------------------------------------------------------------------

    def _now(self):
        return time.monotonic() - self._started

    def _at(self, when, action):
        heapq.heappush(self._queue, (when, next(self._count), action))

    def _say(self, text):
        print(f"{self._now():7.1f} s  {text}", flush=True)

    # --- servers -----------------------------------------------------------------

    def _start_server(self, number):
        if number in self._removed:
            return
        server = self._servers.get(number)
        if server is None:
            server = Server(number, self._network, self._program,
                            [*self._server_flags, *self._network.server_flags(number, self._work)],
                            self._work)
            self._servers[number] = server
        if server.start():
            self._work_of_servers.expect(server, new_process=True)

    def _mended(self, number):
        """A server that kept running is as it was."""
        if number not in self._removed and self._servers[number].running():
            self._work_of_servers.expect(self._servers[number], new_process=False)

    def _present(self):
        return [s for s in sorted(self._named) if self._servers[s].running()]

    def _continue(self, number):
        self._servers[number].signal(signal.SIGCONT)
        self._mended(number)

    def _announce(self):
        self._network.announce(self._named)

    def _restart_when_ended(self, number, delay):
        server = self._servers[number]
        if server.running():
            self._at(self._now() + 0.05, lambda: self._restart_when_ended(number, delay))
        else:
            self._at(self._now() + delay, lambda: self._start_server(number))

    def _stutter(self, number):
        """Nine tenths of every 100 ms asleep."""
        server = self._servers[number]
        if self._now() >= self._stuttering[number]:
            self._continue(number)
            return
        server.signal(signal.SIGSTOP)
        self._at(self._now() + 0.09, lambda: server.signal(signal.SIGCONT))
        self._at(self._now() + 0.1, lambda: self._stutter(number))

    # --- events --------------------------------------------------------------------

    def _begin(self, event):
        if event.kind not in ("add", "client"):
            for number in self._present() if event.target < 0 else [event.target]:
                self._work_of_servers.excuse(number)
        begin = getattr(self, "_begin_" + event.kind)
        begin(event)

    def _begin_kill(self, event):
        self._say(f"server {event.target}: SIGKILL, back in {event.duration:.1f} s")
        self._servers[event.target].kill()
        self._at(event.end, lambda: self._start_server(event.target))

    def _begin_restart(self, event):
        self._say(f"server {event.target}: SIGTERM, started again {event.duration:.1f} s after "
                  "its end")
        self._servers[event.target].terminate()
        self._restart_when_ended(event.target, event.duration)

    def _begin_freeze(self, event):
        self._say(f"server {event.target}: SIGSTOP for {event.duration:.1f} s")
        self._servers[event.target].signal(signal.SIGSTOP)
        self._at(event.end, lambda: self._continue(event.target))

    def _begin_stutter(self, event):
        self._say(f"server {event.target}: slow for {event.duration:.1f} s (stopped nine tenths "
                  "of the time)")
        self._stuttering[event.target] = event.end
        self._stutter(event.target)

    def _begin_add(self, event):
        self._say(f"server {event.target}: added at {self._network.address(event.target)}")
        self._start_server(event.target)
        self._named.add(event.target)
        self._announce()

    def _begin_remove(self, event):
        self._say(f"server {event.target}: out of the name, SIGTERM 1 s later, never back")
        self._removed.add(event.target)
        self._named.discard(event.target)
        self._announce()
        self._at(event.at + 1, self._servers[event.target].terminate)

    def _begin_gone(self, event):
        present = self._present()
        self._say(f"all servers ({', '.join(map(str, present))}): "
                  f"{'SIGSTOP' if event.amount else 'SIGKILL'}, back in {event.duration:.1f} s")
        self._all_go(present, event.amount)
        self._at(event.end, lambda: self._all_come(present, event.amount))

    def _all_go(self, present, freeze):
        for number in present:
            self._work_of_servers.excuse(number)
            if freeze:
                self._servers[number].signal(signal.SIGSTOP)
            else:
                self._servers[number].kill()

    def _all_come(self, present, frozen):
        for number in present:
            if frozen:
                self._continue(number)
            else:
                self._start_server(number)

    def _begin_client(self, event):
        client = self._clients[event.target]
        client.kill()
        self._say(f"client {event.target}: SIGKILL, goes on at {digests.resume_at(client.output)} "
                  f"in {event.duration:.1f} s")
        self._at(event.end, client.start)

    def _mend_at(self, when, mend, servers):
        """Mends at that time what kept `servers` (None: those that are there then)
        from their work."""

        def do():
            mend()
            for number in self._present() if servers is None else servers:
                self._mended(number)

        self._at(when, do)

    def _begin_cut(self, event):
        self._say(f"server {event.target}: link cut for {event.duration:.1f} s")
        self._network.cut(event.target, True)
        self._mend_at(event.end, lambda: self._network.cut(event.target, False), [event.target])

    def _begin_island(self, event):
        self._say(f"clients: link cut for {event.duration:.1f} s")
        self._network.cut(-1, True)
        self._mend_at(event.end, lambda: self._network.cut(-1, False), None)

    def _shape(self, event, text, *discipline):
        self._say(f"server {event.target}: {text} for {event.duration:.1f} s")
        self._network.shape(event.target, *discipline)
        self._mend_at(event.end, lambda: self._network.shape(event.target), [event.target])

    def _begin_slow(self, event):
        self._shape(event, f"link of {event.amount} Mbit/s", "tbf", "rate",
                    f"{event.amount}mbit", "burst", "64kb", "latency", "200ms")

    def _begin_delay(self, event):
        self._shape(event, f"link with {event.amount} ms delay", "netem", "delay",
                    f"{event.amount}ms", "limit", "10000")

    def _begin_loss(self, event):
        self._shape(event, f"link that loses {event.amount} %", "netem", "loss",
                    f"{event.amount}%")

    # --- the run ---------------------------------------------------------------------

    def _watch(self, until):
        """Until `until` says so, or something failed."""
        while not self.problems and not until():
            while self._queue and self._queue[0][0] <= self._now():
                heapq.heappop(self._queue)[2]()
            for process in [*self._servers.values(), *self._clients, self._impatient]:
                process.sample()
                if process.failure():
                    self.problems.append(process.failure())
            self.problems.extend(self._work_of_servers.poll())
            wait = 0.05
            if self._queue:
                wait = min(wait, max(0.0, self._queue[0][0] - self._now()))
            time.sleep(wait)

    def disturb(self, kinds):
        options = self._options
        events = schedule.make(options.seed, options.seconds, options.servers, WORLD, kinds,
                               self._most)
        for number in range(options.servers):
            self._start_server(number)
            self._named.add(number)
        self._announce()
        for server in self._servers.values():
            server.await_ready()
        self._started = time.monotonic()
        for client in self._clients:
            client.start()
        for event in events:
            self._at(event.at, lambda e=event: self._begin(e))
        last = max([options.seconds, *(e.end for e in events)])
        self._watch(lambda: self._now() >= last)
        # Whatever an event had planned for later: a restart after a slow end.
        self._watch(lambda: not self._queue)
        self._outlast()
        self._say(f"{len(events)} events; all is mended, the clients go on, every server gets work")
        before = [c.bytes_written() for c in self._clients]
        give_up = self._now() + 45
        self._watch(lambda: self._now() > give_up or (not self._work_of_servers.owing() and all(
            c.bytes_written() >= b + RECOVERED for c, b in zip(self._clients, before))))
        for client, had in zip(self._clients, before):
            if client.bytes_written() < had + RECOVERED and not self.problems:
                self.problems.append(f"client {client.rank} does not come on after all is mended: "
                                     f"{client.last_line()}")
        for number in self._work_of_servers.owing():
            if not self.problems:
                self.problems.append(f"server {number} gets no work after all is mended")
        self._work_of_servers.close()
        for client in self._clients:
            if not client.wanted:
                continue
            code = client.stop()
            if code != 0 and not self.problems:
                self.problems.append(f"client {client.rank} ended with code {code} after SIGTERM: "
                                     f"{client.last_line()}")
        for number, server in sorted(self._servers.items()):
            code = server.stop()
            if code not in (0, None):
                self.problems.append(f"server {number} ended with code {code} after SIGTERM; see "
                                     f"{server.log}")

    def _outlast(self):
        """All servers are gone for longer than a client waits: it says so and ends.
        The others, which wait longer, go on afterwards."""
        if self.problems:
            return
        client = self._impatient
        client.start()
        self._watch(lambda: client.bytes_written() > 0)
        present = self._present()
        freeze = self._options.seed % 2
        self._say(f"all servers: {'SIGSTOP' if freeze else 'SIGKILL'} for longer than a client of "
                  f"{IMPATIENCE} waits")
        client.wanted = False
        self._all_go(present, freeze)
        give_up = self._now() + 30
        self._watch(lambda: self._now() > give_up or not client.running())
        code = client.wait(0)
        self._all_come(present, freeze)
        said = client.last_line()
        if not self.problems and (code != 1 or self._network.endpoint() not in said):
            self.problems.append(f"{client.name}: servers that are all gone until the deadline "
                                 f"should end it with code 1 and a sentence that names the "
                                 f"endpoint; it ended with code {code}: {said}")

    def check(self):
        """Against a run with one server that nothing happens to."""
        clients = {}
        batches = {}
        for client in [*self._clients, self._impatient]:
            try:
                clients[client.name] = digests.read(client.output)
            except (FileNotFoundError, ValueError) as error:
                self.problems.append(f"{client.name}: {error}")
                continue
            if len(clients[client.name]) >= len(batches.get(client.rank, [])):
                batches[client.rank] = clients[client.name]
        quiet = Server(self._most, networks.Loopback(self._most + 1), self._program,
                       self._server_flags, self._work)
        quiet.start()
        quiet.await_ready()
        for rank, got in batches.items():
            reference = Client(rank, os.path.join(self._options.bin, "digest_client"),
                               [*self._client_flags, f"--endpoint={quiet.address}",
                                f"--batches={max(1, len(got))}"], self._work, "reference")
            reference.start()
            if reference.wait(600) != 0:
                self.problems.append(f"the reference failed: {reference.last_line()}")
                continue
            expected = digests.read(reference.output)
            for client in [*self._clients, self._impatient]:
                wrong = client.rank == rank and digests.compare(clients.get(client.name, []),
                                                                expected)
                if wrong:
                    self.problems.append(f"{client.name}: {wrong}")
        quiet.stop()
        received = sum(map(len, clients.values()))
        if received == 0:
            self.problems.append("not one batch was received")
        payload = max((int(row[2].split()[1]) for rows in batches.values() for row in rows),
                      default=0)
        for server in self._servers.values():
            if server.max_memory > BUDGET + BESIDE:
                self.problems.append(f"server {server.number} had {server.max_memory >> 20} MiB, "
                                     f"its budget is {BUDGET >> 20} MiB")
        for client in self._clients:
            if client.max_memory > WINDOW * payload + CLIENT_BESIDE:
                self.problems.append(f"client {client.rank} had {client.max_memory >> 20} MiB, "
                                     f"its slots have {WINDOW * payload >> 20} MiB")
        left = os.listdir(os.path.join(self._work, "tmp"))
        if left:
            self.problems.append(f"files are left: {', '.join(sorted(left)[:10])}")
        return {"batches": received,
                "got_work": self._work_of_servers.times,
                "longest_without": self._work_of_servers.longest,
                "longest_wait": max(c.figure("longest_wait_seconds") for c in self._clients),
                "servers": max((s.max_memory for s in self._servers.values()), default=0) >> 20,
                "clients": max(c.max_memory for c in self._clients) >> 20}

    def close(self):
        self._work_of_servers.close()
        for process in [*self._servers.values(), *self._clients, self._impatient]:
            process.kill()
        self._network.close()


def main(arguments):
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--servers", type=int, default=3)
    parser.add_argument("--step_timeout", default="2s")
    parser.add_argument("--netns", action="store_true")
    parser.add_argument("--keep", action="store_true")
    options = parser.parse_args(arguments)

    work = tempfile.mkdtemp(prefix="millrace-chaos.")
    os.mkdir(os.path.join(work, "tmp"))
    shared = leftovers.in_shared_memory()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    keep = options.keep
    try:
        hosts = options.servers + 2
        network = networks.Namespaces(hosts) if options.netns else networks.Loopback(hosts)
        kinds = set(schedule.KINDS) - schedule.NAMESPACES - schedule.NETEM | network.kinds
        missing = [k for k in schedule.KINDS if k not in kinds]
        print(f"seed {options.seed}, {options.servers} servers, {WORLD} clients, "
              f"{options.seconds:g} s, {network.name}", flush=True)
        if missing:
            print(f"not possible here: {', '.join(missing)}", flush=True)
        run = Run(options, network, work)
        try:
            run.disturb(kinds)
            figures = run.check()
        finally:
            run.close()
        left = leftovers.processes()
        if left:
            run.problems.append(f"processes are left: {', '.join(left)}")
        new = leftovers.in_shared_memory() - shared
        if any("millrace" in name for name in new):
            run.problems.append(f"/dev/shm has new files: {', '.join(sorted(new))}")
        ok = not run.problems
        for problem in run.problems:
            print(f"WRONG: {problem}", flush=True)
        print(f"{'OK' if ok else 'FAILED'}: {figures['batches']} batches compared; longest wait "
              f"{figures['longest_wait']:.1f} s; {figures['got_work']} times a server came or came "
              f"back and had sent batches within {figures['longest_without']:.1f} s; maximum memory: "
              f"server {figures['servers']} MiB, client {figures['clients']} MiB; "
              f"seed {options.seed}", flush=True)
        keep = keep or not ok
        if keep:
            print(f"logs: {work}", flush=True)
        return 0 if ok else 1
    except (RuntimeError, OSError) as error:
        keep = True
        print(f"FAILED: {error}; seed {options.seed}\nlogs: {work}", flush=True)
        return 1
    finally:
        if not keep:
            shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
