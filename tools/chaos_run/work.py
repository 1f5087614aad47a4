"""Whether servers get work: one that was added or has come back, and that nothing
happens to any more, must send batches soon."""

import json
import subprocess
import time

# Names are looked up every 30 s, and a server that was silent is asked again
# after 30 s; either is sooner as a rule.
BOUND = 40.0
_INTERVAL = 0.3


class _Owing:
    """A server that has not sent anything yet since something happened to it."""

    def __init__(self, address, since, sent):
        self.address = address
        self.since = since
        self.sent = sent  # None: as many as it says at first
        self.next_look = since
        self.look = None


class Work:

    def __init__(self, program):
        self._program = program
        self._owing = {}
        self.times = 0       # that a server got work
        self.longest = 0.0   # seconds until it did

    def expect(self, server, new_process):
        """Nothing happens to it any more: from now on it must get work."""
        self.excuse(server.number)
        self._owing[server.number] = _Owing(server.address, time.monotonic(),
                                            0 if new_process else None)

    def excuse(self, number):
        """Something happens to it: nothing is expected of it."""
        owing = self._owing.pop(number, None)
        if owing is not None and owing.look is not None:
            owing.look.kill()
            owing.look.communicate()

    def owing(self):
        return sorted(self._owing)

    def poll(self):
        """Looks at those of which something is expected, without waiting for them.
        Problems, as sentences."""
        problems = []
        for number, owing in list(self._owing.items()):
            now = time.monotonic()
            if owing.look is None and now >= owing.next_look:
                owing.next_look = now + _INTERVAL
                owing.look = subprocess.Popen(
                    [self._program, "status", "--json", f"--endpoint={owing.address}",
                     "--timeout=2s"],
                    stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                    text=True)
            elif owing.look is not None and owing.look.poll() is not None:
                sent = _batches_sent(owing.look.communicate()[0])
                owing.look = None
                if owing.sent is None:
                    owing.sent = sent
                elif sent is not None and sent > owing.sent:
                    self.times += 1
                    self.longest = max(self.longest, now - owing.since)
                    self.excuse(number)
                    continue
            if now - owing.since > BOUND:
                problems.append(f"server {number} has got no work for {now - owing.since:.0f} s "
                                "although it is up and can be reached")
                self.excuse(number)
        return problems

    def close(self):
        for number in self.owing():
            self.excuse(number)


def _batches_sent(text):
    """None when the server did not answer."""
    try:
        return json.loads(text)["servers"][0]["batches_sent"]
    except (ValueError, KeyError, IndexError):
        return None
