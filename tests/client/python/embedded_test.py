"""Data of this machine in the place of an endpoint: one data server for the programs of a user, started
by the first and ended after the last, however they end."""

import contextlib
import glob
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

import dataset
import installed
from embedded_case import BEGIN, EmbeddedCase, shared_memory


class Embedded(EmbeddedCase):

    def _expected(self, uri=None, code="print(digest(loader(dataset='digits')))"):
        """The digest of an epoch from a server that runs."""
        server = subprocess.Popen([self.program, f"--dataset=digits={uri or self.uri}",
                                   "--listen=127.0.0.1:0"], stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                                  preexec_fn=installed.end_with_parent)
        try:
            address = server.stdout.readline().removeprefix("listening on ").strip()
            return self._output_of(code, uri=address)
        finally:
            server.kill()
            server.communicate()

    # ---- One server ------------------------------------------------------------------------

    def test_an_epoch_has_the_batches_of_any_server(self):
        expected = self._expected()
        self.assertEqual(self._output_of("print(digest(loader()))"), expected)
        # Without the name of a data set in the pipeline, and by another path of the same content.
        copy = os.path.join(self.work, "copy.lmdb")
        shutil.copy(self.uri.removeprefix("lmdb:"), copy)
        self.assertEqual(self._output_of("""
pipeline = SPEC.replace('sources { dataset: "digits" }', "")
print(digest(loader(pipeline=pipeline)))
""", uri=f"lmdb:{copy}"), expected)

    def test_loaders_and_processes_share_one_server(self):
        # Long enough for a Python to start on a busy machine.
        flags = {"MILLRACE_SERVER_FLAGS": "--lease_timeout=10s"}
        first = self._holder("one = loader().open(); other = loader(batch_size=100).open()", **flags)
        server = self.servers()
        self.assertEqual(len(server), 1)
        self._output_of("with loader() as one: len(one)\nassert len(servers()) == 1", **flags)
        self.assertEqual(self.servers(), server)
        first.communicate("\n")
        # A program that begins before the server ends finds it: a notebook's restart.
        self._output_of("with loader() as one: len(one)", **flags)
        self.assertEqual(self.servers(), server)

    def test_eight_processes_that_start_at_once_start_one_server(self):
        processes = [self._start("""
first = next(iter(loader()))
print(len(servers()), digest([first]), flush=True)
sys.stdin.readline()
""") for _ in range(8)]
        try:
            lines = [process.stdout.readline() for process in processes]
            self.assertEqual(len(self.servers()), 1)
        finally:
            errors = [process.communicate("\n")[1] for process in processes]
        self.assertEqual(len(set(lines)), 1, (lines, errors))
        self.assertTrue(lines[0].startswith("1 "), (lines, errors))
        starts = [path for path in os.listdir(self.run_dir) if path.endswith(".old")]
        self.assertEqual(starts, [])  # the log of a second server would have replaced the first

    def test_parquet_and_several_data_sets(self):
        uri = f"parquet:{self.work}/digits.parquet"
        subprocess.run([self.data_tool, "pack", "--format=idx", "--split=train",
                        f"--input={self.work}/digits", f"--output={uri}"], check=True,
                       stdin=subprocess.DEVNULL, capture_output=True)
        # It has PNG images.
        code = """
spec = "transforms { decode_image { color: GRAY } } transforms { center_crop { height: 28 width: 28 } }"
print(digest(loader(pipeline=spec, dataset="digits")))
"""
        self.assertEqual(self._output_of(code, uri=uri), self._expected(uri, code))
        self._output_of("""
spec = "transforms { decode_image { color: GRAY } } transforms { center_crop { height: 28 width: 28 } }"
a = loader(sys.argv[3], dataset="a", pipeline=spec)
b = loader(URI, dataset="b", batch_size=100)
assert len(a.dataset) == len(b.dataset) == 20011 and a.dataset.name == "a"
for one, other in zip(a, b):
    pass
assert len(servers()) == 1
""", uri)

    def test_tar_shards_with_options(self):
        folder = os.path.join(self.work, "shards")
        os.mkdir(folder)
        for shard in glob.glob("tests/testdata/webdataset/shard-*.tar"):
            shutil.copy(shard, folder)
        with open(os.path.join(folder, "names.txt"), "w", encoding="utf-8") as file:
            file.write("ant\nbee\ncat\ndog\n")
        code = """
spec = ("transforms { decode_image {} } transforms { resize { short_side: 16 } } "
        "transforms { center_crop { height: 16 width: 16 } } outputs { field: 'image' } outputs { field: 'label' }")
one = loader(pipeline=spec, batch_size=2, dataset="digits")
print(digest(one), [tensor["class_names"] for tensor in one.plan["tensors"] if tensor["class_names"]])
"""
        found = self._output_of(code, uri=f"tar:{folder}/shard-{{000..001}}.tar?classes={folder}/names.txt")
        self.assertIn("[['ant', 'bee', 'cat', 'dog']]", found)
        # A path and a file of names in the working directory of the program, which is not the server's.
        self.assertEqual(self._output_of(f"import os; os.chdir({folder!r})\n" + code,
                                         uri="tar:shard-*.tar?classes=names.txt"), found)

    def test_shared_memory_is_used(self):
        code = """
one = loader()
for epoch in range(2):
    print(digest(one))
assert one.stats()["by_server"][0]["shared_batches"] > 0, one.stats()
"""
        before = shared_memory()
        plain = self._output_of(code)
        self._await_servers(0)
        self.assertEqual(shared_memory(), before)
        # Without /dev/shm: nothing can be made there.
        hide = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--map-root-user"])]
        if subprocess.run([*hide, "mount", "-t", "tmpfs", "-o", "ro", "none", "/dev/shm"],
                          capture_output=True, check=False).returncode != 0:
            self.skipTest("cannot hide /dev/shm here")
        script = installed._BEGIN + BEGIN + code
        result = subprocess.run(
            [*hide, "sh", "-c", "mount -t tmpfs -o ro none /dev/shm && exec \"$@\"", "sh",
             self.package.python, "-c", script, self.uri, dataset.SPEC],
            env=self.package.environment(**self._environment()), stdin=subprocess.DEVNULL,
            capture_output=True, text=True, check=False, timeout=120)
        self.assertEqual((result.returncode, result.stdout), (0, plain), result.stderr)

    # ---- Its end ---------------------------------------------------------------------------

    def test_it_ends_after_its_holders_were_killed(self):
        first, second = self._holder(), self._holder()
        first.kill()
        first.wait()
        time.sleep(1.5)
        self.assertEqual(len(self.servers()), 1)  # the second holds it
        second.kill()
        second.wait()
        waited = self._await_servers(0)
        self.assertGreater(waited, 0.7)
        self.assertLess(waited, 5)
        self.assertEqual([name for name in os.listdir(self.run_dir) if name.endswith(".socket")], [])

    def test_it_ends_ten_seconds_after_its_holder_was_killed(self):
        holder = self._holder(MILLRACE_SERVER_FLAGS="")
        holder.kill()
        holder.wait()
        waited = self._await_servers(0)
        self.assertGreater(waited, 9)
        self.assertLess(waited, 14)

    def test_close_collection_and_the_interpreter_s_end_release_the_lease(self):
        for act in ("one.close()", "del one", "one = None; import gc; gc.collect()"):
            with self.subTest(act):
                holder = self._holder(f"one = loader().open()\n{act}")
                self._await_servers(0)
                holder.communicate("\n")
        self._output_of("one = loader().open(); it = iter(one); next(it)")
        self._await_servers(0)

    def _child_of(self, holder):
        """The process whose number the holder has written to its standard error."""
        child = int(holder.stderr.readline())
        self.addCleanup(os.kill, child, signal.SIGKILL)
        return child

    def _ends_although_a_child_lives(self, holder):
        child = self._child_of(holder)
        holder.kill()
        holder.wait()
        self._await_servers(0)
        os.kill(child, 0)  # it lives

    def test_a_forked_child_does_not_hold_the_lease(self):
        self._ends_although_a_child_lives(self._holder("""
one = loader().open()
done, tell = os.pipe()
child = os.fork()
if child == 0:
    refused(one.open, millrace.FailedPreconditionError, "fork")
    one.close()
    del one
    for number in range(3):
        os.close(number)
    os.write(tell, b".")
    time.sleep(600)
    os._exit(0)
os.read(done, 1)
print(child, file=sys.stderr, flush=True)
time.sleep(1.5)
assert len(servers()) == 1 and len(list(one)) == 41   # the child has not ended its parent's lease
"""))

    def test_a_child_that_cannot_open_a_loader_does_not_hold_a_lease(self):
        # gRPC does not work there.
        self._ends_although_a_child_lives(self._holder("""
one = loader().open()
child = os.fork()
if child == 0:
    for number in range(2):
        os.close(number)
    other = loader()
    refused(other.open, millrace.FailedPreconditionError, "fork")
    print(os.getpid(), file=sys.stderr, flush=True)
    time.sleep(600)
    os._exit(0)
"""))

    def test_programs_that_are_started_do_not_hold_the_lease(self):
        self._ends_although_a_child_lives(self._holder("""
import subprocess
one = loader().open()
child = subprocess.Popen(["sleep", "600"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                         stderr=subprocess.DEVNULL, close_fds=False)
print(child.pid, file=sys.stderr, flush=True)
"""))

    def test_many_loaders_leave_nothing(self):
        # As process_test.py: MILLRACE_LEAK_LOADERS.
        loaders = os.environ.get("MILLRACE_LEAK_LOADERS", "60")
        self._output_of(installed.FIGURES + """
def use(number):
    one = loader(batch_size=100)
    it = iter(one)
    next(it)
    if number % 2:
        one.close()
for number in range(20):
    use(number)
before = figures()
for number in range(int(sys.argv[3])):
    use(number)
await_no_more_than(before, loaders=int(sys.argv[3]))
assert len(servers()) == 1
with open(f"/proc/{servers()[0]}/status") as file:
    print([line for line in file if line.startswith(("RssAnon", "RssShmem", "Threads"))])
""", loaders, timeout=120 + int(loaders), MALLOC_ARENA_MAX="1")

    def _shared_memory_of(self, pids):
        """The numbers of the inodes of memory that these processes map or have open."""
        found = set()
        for pid in pids:
            with contextlib.suppress(OSError):
                with open(f"/proc/{pid}/maps", encoding="utf-8") as file:
                    found.update(line.split()[4] for line in file if "/memfd:millrace" in line)
            for path in glob.glob(f"/proc/{pid}/fd/*"):
                with contextlib.suppress(OSError):
                    if "/memfd:millrace" in os.readlink(path):
                        found.add(str(os.stat(path).st_ino))
        return found

    def test_a_loader_that_is_opened_again_and_again_keeps_one_lease(self):
        self._output_of("""
import gc
def leases():
    gc.collect()
    return sum(type(one).__name__ == "_Lease" for one in gc.get_objects())
one = loader(pipeline="no_such_preset")
for _ in range(20):
    refused(one.open, millrace.NotFoundError, "no_such_preset")
assert leases() == 1, leases()
""")

    def test_a_process_that_is_killed_leaves_no_shared_memory(self):
        before = shared_memory()
        holder = self._holder("""
one = loader().open()
while not sum(server["shared_batches"] for server in one.stats()["by_server"]):
    for batch in one:                     # the first batches come over the network
        pass
def forever():
    while True:
        for batch in one:
            pass
threading.Thread(target=forever, daemon=True).start()
""")
        server, = self.servers()
        inodes, began = set(), time.monotonic()
        while not inodes:
            self.assertLess(time.monotonic() - began, 60, "no shared memory is seen")
            inodes = self._shared_memory_of([server, holder.pid])
        holder.kill()                                 # in the middle of a batch
        holder.wait()
        inodes |= self._shared_memory_of([server])
        self._await_servers(0)
        everybody = [path.split("/")[2] for path in glob.glob("/proc/[0-9]*")]
        self.assertEqual(self._shared_memory_of(everybody) & inodes, set())
        self.assertEqual(shared_memory(), before)
        self.assertEqual([name for name in os.listdir(self.run_dir) if name.endswith(".socket")], [])

    # ---- Its failures ----------------------------------------------------------------------

    def test_a_server_that_is_killed_in_a_loop_is_replaced_without_a_trace_in_the_batches(self):
        expected = self._expected()
        self.assertEqual(self._output_of("""
def kill(number):
    if number in (3, 20):
        os.kill(servers()[0], signal.SIGKILL)
print(digest(loader(window=2), kill))
"""), expected)

    def test_a_server_that_dies_while_a_batch_is_awaited(self):
        expected = self._expected()
        self.assertEqual(self._output_of("""
def stop(number):
    if number == 7:
        server = servers()[0]
        os.kill(server, signal.SIGSTOP)
        threading.Timer(1, os.kill, (server, signal.SIGKILL)).start()
print(digest(loader(window=2), stop))
"""), expected)

    def test_a_server_that_ends_while_nobody_waits(self):
        self._output_of("""
one = loader()
it = iter(one)
first = digest([next(it)])
os.kill(servers()[0], signal.SIGKILL)
time.sleep(0.3)
assert one.replay(0, 0) is not None
assert one.explain(0, 0)
assert one.state_dict()["step"] == 1
assert len(list(it)) == 40
""")

    def test_a_server_that_dies_again_and_again_is_an_error_with_its_log(self):
        self._output_of("""
import millrace._embedded as embedded
one = loader(window=2)
it = iter(one)
next(it)
original = embedded.Data.open
def open_and_lose(self, loader):
    settings = original(self, loader)
    os.kill(servers()[0], signal.SIGKILL)
    return settings
embedded.Data.open = open_and_lose
os.kill(servers()[0], signal.SIGKILL)
refused(lambda: list(it), millrace.UnavailableError, "has ended while it", URI, ".log", "last lines")
embedded.Data.open = original
assert len(list(it)) > 30                 # the iterator continues
""")

    def test_a_server_that_hangs_is_an_error(self):
        self._holder()
        server = self.servers()[0]
        os.kill(server, signal.SIGSTOP)
        try:
            self._output_of("""
import millrace._embedded as embedded
embedded._SILENCE_SECONDS = 1.0
refused(loader().open, millrace.DeadlineExceededError, "has not answered for 1 s", ".socket", ".log")
""")
        finally:
            os.kill(server, signal.SIGCONT)

    def test_what_an_earlier_server_has_left_does_not_matter(self):
        self._output_of("""
import socket
from millrace import _server_process
files = _server_process.find()
abandoned = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
abandoned.bind(files.socket)
abandoned.close()
for path in (files.base + ".lock", files.log):
    with open(path, "w") as file:
        file.write("left")
assert len(loader()) == 41
with open(files.log + ".old") as file:
    assert file.read() == "left"
""")

    def test_servers_that_do_not_start(self):
        for program, flags, kind, parts in (
                ("/bin/false", "", "UnavailableError", ["exit code 1", ".log"]),
                (self.program, "--no_such_flag", "FailedPreconditionError",
                 ["no_such_flag", "exit code 2", "MILLRACE_SERVER_FLAGS", ".log"]),
                (self.program, "--memory_budget=1MiB", "FailedPreconditionError", ["memory_budget"]),
                (self.program, "'", "InvalidArgumentError", ["MILLRACE_SERVER_FLAGS"]),
                ("/no/such/program", "", "NotFoundError", ["MILLRACE_SERVER=/no/such/program"])):
            with self.subTest(program=program, flags=flags):
                self._output_of(f"refused(loader().open, millrace.{kind}, *{parts!r})",
                                MILLRACE_SERVER=program, MILLRACE_SERVER_FLAGS=flags)

    def test_the_program_is_found_or_the_error_says_how_to_install_it(self):
        self._output_of("""
# The wheel that is missing, in the folder that pip has installed the client from.
refused(loader().open, millrace.NotFoundError, "the program millrace-server, which is not installed",
        f"pip install {sys.argv[3]}/millrace_server-{millrace.__version__}-*.whl", "MILLRACE_SERVER",
        "HOST:PORT")
# A folder that is no word of a shell; and a package that pip has not installed from a file.
from importlib import metadata
class Noted:
    def read_text(self, name):
        assert name == "direct_url.json"
        return text
for text, wheel in (('{"url": "file:///a%20b/millrace-1-py3-none-any.whl"}', "'/a b'/millrace_server-"),
                    ('{"url": "https://example.org/millrace-1-py3-none-any.whl"}', "dist/millrace_server-"),
                    ('{"url": "file:///src/millrace"}', "dist/millrace_server-"),
                    ("no json", "dist/millrace_server-"), (None, "dist/millrace_server-")):
    metadata.distribution = lambda name: Noted()
    refused(loader().open, millrace.NotFoundError, f"pip install {wheel}")
""", self.work, MILLRACE_SERVER="", PATH="/nowhere")
        bin_dir = os.path.join(self.run_dir, "bin")
        os.mkdir(bin_dir)
        os.symlink(self.program, os.path.join(bin_dir, "millrace-server"))
        self._output_of("assert len(loader()) == 41", MILLRACE_SERVER="", PATH=bin_dir)
        self._await_servers(0)
        # The wheel millrace-server goes first.
        site = os.path.join(self.run_dir, "site")
        os.makedirs(f"{site}/millrace_server")
        with open(f"{site}/millrace_server/__init__.py", "w", encoding="ascii") as file:
            file.write(f"def program(name): return {self.program!r}\n")
        self._output_of("assert len(loader()) == 41", MILLRACE_SERVER="", PATH="/nowhere",
                        PYTHONPATH=site)

    def test_folders_that_others_can_enter_are_refused(self):
        os.chmod(self.run_dir, 0o755)
        self._output_of("""
refused(loader().open, millrace.PermissionDeniedError, os.environ["MILLRACE_RUN_DIR"],
        "only you can enter", "MILLRACE_RUN_DIR")
""")
        os.chmod(self.run_dir, 0o700)
        self._output_of("refused(loader().open, millrace.InvalidArgumentError, 'too long')",
                        MILLRACE_RUN_DIR=os.path.join(self.run_dir, "x" * 100))
        # Programs with other working directories would not share a server.
        self._output_of("""
error = refused(loader().open, millrace.InvalidArgumentError, "MILLRACE_RUN_DIR=run: expected the whole path")
assert os.path.abspath("run") in str(error) and not os.path.exists("run"), error
""", MILLRACE_RUN_DIR="run")

    # ---- The data --------------------------------------------------------------------------

    def test_data_that_cannot_be_read(self):
        self._output_of("""
work = sys.argv[3]
with open(work + "/text.lmdb", "w") as file:
    file.write("no data")
for uri, kind in ((f"lmdb:{work}/none.lmdb", millrace.NotFoundError),
                  (f"lmdb:{work}/text.lmdb", millrace.DataLossError),
                  (f"parquet:{work}/digits.lmdb", millrace.InvalidArgumentError)):
    refused(loader(uri).open, kind, "cannot read " + uri, ".log")
one = loader().open()                      # the server lives
assert len(servers()) == 1
if os.geteuid() != 0:
    os.chmod(work + "/text.lmdb", 0)
    refused(loader(f"lmdb:{work}/text.lmdb").open, millrace.PermissionDeniedError, "text.lmdb")
refused(lambda: loader("memory:x"), millrace.InvalidArgumentError, "pass the arrays in a dict")
refused(lambda: loader("lmdb:"), millrace.InvalidArgumentError, "write a path")
refused(lambda: loader([URI, URI]), millrace.InvalidArgumentError, "a loader for each dataset")
refused(loader(dataset="a/b").open, millrace.InvalidArgumentError, "`a/b`")
""", self.work)

    def test_a_relative_path_is_that_of_the_program(self):
        self._output_of("""
os.chdir(sys.argv[3])
one = loader("lmdb:digits.lmdb")
os.chdir("/")
assert len(one) == 41
os.environ["HOME"] = sys.argv[3]
assert len(loader("lmdb:~/digits.lmdb")) == 41
""", self.work)

    def _pack(self, path, seed):
        """Other digits, in the place of what is at the path."""
        folder = tempfile.mkdtemp(dir=self.run_dir)
        for name in os.listdir(f"{self.work}/digits"):
            with open(f"{self.work}/digits/{name}", "rb") as source, \
                    open(f"{folder}/{name}", "wb") as target:
                data = source.read()
                target.write(data[:-1000] + bytes([seed]) * 1000 if "images" in name else data)
        subprocess.run([self.data_tool, "pack", "--format=idx", "--split=train", "--overwrite",
                        f"--input={folder}", f"--output=lmdb:{path}"], check=True,
                       stdin=subprocess.DEVNULL, capture_output=True)

    def test_a_path_with_new_content(self):
        path = os.path.join(self.run_dir, "own.lmdb")
        self._pack(path, 1)
        holder = self._start("""
one = loader()
it = iter(one)
next(it)
print(one.plan["fingerprint"], flush=True)
sys.stdin.readline()
print(len(list(it)), flush=True)          # undisturbed
refused(loader(dataset="mine").open, millrace.AlreadyExistsError, "`mine`", "use another name")
""", uri=f"lmdb:{path}")
        try:
            old = holder.stdout.readline().strip()
            self._output_of("one = loader(dataset='mine').open()", uri=f"lmdb:{path}")
            other = self._holder("one = loader(dataset='mine').open()", uri=f"lmdb:{path}")
            self._pack(path, 2)
            new = self._output_of("print(loader().plan['fingerprint'])", uri=f"lmdb:{path}").strip()
            self.assertNotEqual(new, old)
            output, errors = holder.communicate("\n", timeout=60)
            self.assertEqual((holder.returncode, output), (0, "40\n"), errors)
            other.communicate("\n")
        finally:
            holder.kill()
            holder.communicate()

    def test_a_path_with_new_content_is_not_a_part_of_the_old_epoch(self):
        # Neither for a replay, nor for a server that takes the place of one that has ended.
        path = os.path.join(self.run_dir, "own.lmdb")
        self._pack(path, 1)
        process = self._start("""
import pickle
one = loader(window=2)
it = iter(one)
next(it)
assert one.replay(0, 0)
print("ready", flush=True)
sys.stdin.readline()
refused(lambda: one.replay(0, 0), millrace.FailedPreconditionError, "fingerprint")
os.kill(servers()[0], signal.SIGKILL)
time.sleep(0.5)
refused(lambda: list(it), millrace.FailedPreconditionError, "fingerprint")
pickle.dumps(one)                         # it is not open
""", uri=f"lmdb:{path}")
        try:
            line = process.stdout.readline()
            self._pack(path, 2)
            output, errors = process.communicate("\n", timeout=60)
            self.assertEqual((process.returncode, line), (0, "ready\n"), output + errors)
        finally:
            process.kill()
            process.communicate()

    def test_a_file_that_is_changed_while_it_is_read(self):
        path = os.path.join(self.run_dir, "own.lmdb")
        self._pack(path, 1)
        self._output_of("""
one = loader(window=2, next_timeout=3.0)
it = iter(one)
next(it)
path = URI.removeprefix("lmdb:")
with open(path, "r+b") as file:
    file.truncate(os.path.getsize(path) // 2)
def take():
    for batch in it:
        pass
error = refused(take, millrace.Error, path)
assert isinstance(error, (millrace.UnavailableError, millrace.DeadlineExceededError)), repr(error)
""", uri=f"lmdb:{path}")

    def test_checkpoints_do_not_depend_on_the_path(self):
        moved = os.path.join(self.run_dir, "moved.lmdb")
        shutil.copy(self.uri.removeprefix("lmdb:"), moved)
        self._output_of("""
import copy, json, pickle
one = loader()
assert pickle.loads(pickle.dumps(one)).open() and copy.copy(one).open()
whole = [digest([batch]) for batch in one]
one.set_epoch(0)
it = iter(one)
for _ in range(10):
    next(it)
other = loader("lmdb:" + sys.argv[3])
other.load_state_dict(json.loads(json.dumps(one.state_dict())))
assert [digest([batch]) for batch in other] == whole[10:]
""", moved)

    # ---- Who may use it --------------------------------------------------------------------

    def test_other_users_get_no_data(self):
        try:
            subprocess.run(["true"], user=65534, check=True)
        except (OSError, subprocess.SubprocessError):
            self.skipTest("needs root, to become another user")
        self._holder()
        log, = glob.glob(self.run_dir + "/*.log")
        with open(log, encoding="utf-8") as file:
            port = re.search(r"listens on 127\.0\.0\.1:(\d+)", file.read())[1]
        code = ("import socket\n"
                f"s = socket.create_connection(('127.0.0.1', {port}))\n"
                "s.settimeout(20)\n"
                "try: print(s.recv(100))\n"
                "except ConnectionResetError: print(b'')\n")
        for user, expected in ((os.geteuid(), False), (65534, True)):
            result = subprocess.run(["python3", "-c", code], user=user, cwd="/", capture_output=True,
                                    text=True, check=True, timeout=60)
            # gRPC greets whom it serves.
            self.assertEqual(result.stdout == "b''\n", expected, result.stdout)


if __name__ == "__main__":
    unittest.main()
