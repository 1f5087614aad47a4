"""tools/chaos_run/lock_audit.c, with which tools/bench-python measures the time with the interpreter's lock: it
finds the calls of the installed module."""

import os
import struct

from case import Case


class LockAudit(Case):

    def test_the_time_without_the_lock_is_a_part_of_the_time(self):
        path = os.path.join(self.work, "unlocked")
        self.output_of("""
import mmap, time
with open(sys.argv[2], "r+b") as file:
    without = memoryview(mmap.mmap(file.fileno(), 8)).cast("q")
assert without[0] == 0
one = millrace.Loader(ENDPOINT, pipeline=SPEC, batch_size=50, tensor_type="dlpack")
opened = without[0]
it = iter(one.open())
assert without[0] > opened
for _ in range(40):
    before, begun = without[0], time.thread_time_ns()
    next(it)                                     # computes 600,000 floats without the lock
    own, unlocked = time.thread_time_ns() - begun, without[0] - before
    assert 0 < unlocked < own, (unlocked, own)
# A call that keeps the lock counts nothing, nor does another thread.
import threading
before = without[0]
one._native.position()
thread = threading.Thread(target=next, args=(it,))
thread.start()
while thread.is_alive():
    pass
assert without[0] == before and one.last_batch.step == 40
""", path, LD_AUDIT=os.path.abspath("tests/client/python/liblock_audit.so"), UNLOCKED_NANOSECONDS=path)
        with open(path, "rb") as file:
            self.assertGreater(struct.unpack("q", file.read())[0], 0)
