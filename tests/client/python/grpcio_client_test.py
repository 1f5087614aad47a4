"""docs/example/python/grpcio_client.py: the client over grpcio that docs/protocol.md describes, with
the code that the commands there generate. Its batches are compared with those of the package."""

import glob
import os
import re
import shutil
import subprocess

import installed
from case import Case

_PATH = os.pathsep.join(os.path.abspath(path) for path in (
    "docs/example/python", "external/grpcio_client_tools/site", "external/python_client_tools/site"))

# Common to the scripts. `code` is a folder with a generated millrace_v1.
_BEGIN = """
import os, signal, threading, time
sys.path.insert(0, sys.argv[2])
import numpy
import grpcio_client
from grpcio_client import CallError, Client
from google.protobuf import text_format
from grpc import StatusCode
from millrace_v1 import data_service_pb2 as pb, pipeline_pb2, rpc_status_pb2, types_pb2

SPEC += " batch_size: 50 last_batch: LAST_BATCH_PARTIAL "

def spec_of(text):
    return text_format.Parse(text, pipeline_pb2.PipelineSpec())

def client_of(*servers, text=SPEC, **options):
    return Client(servers or [ENDPOINT], spec_of(text), **options)

def of_the_package(epoch, step=0, text=SPEC, fields=None, rank=0, world_size=1):
    loader = millrace.Loader(ENDPOINT, pipeline=text, global_batch_size=50, shuffle=None,
                             drop_last=None, tensor_type="numpy", output="dict", rank=rank,
                             world_size=world_size, allow_uneven=True, fields=fields or
                             ["image", "label", "sample_index", "valid"])
    with loader:
        loader.seek(epoch, step)
        yield from loader

def compare(batches, expected):
    steps = 0
    for batch, other in zip(batches, expected, strict=True):
        assert list(batch) == list(other), (list(batch), list(other))
        for name, array in batch.items():
            assert array.dtype == other[name].dtype, (name, array.dtype, other[name].dtype)
            assert array.shape == other[name].shape, (name, array.shape, other[name].shape)
            assert array.tobytes() == other[name].tobytes(), name
        steps += 1
    return steps

def error_of(function):
    try:
        function()
    except (CallError, ValueError) as error:
        return error
    raise SystemExit("no error")
"""

# A server that passes calls on to the real one. fault(proxy, step, number of the request for the
# step, context) may do something else.
_PROXY = """
import concurrent.futures, threading, grpc

class Proxy(grpc.GenericRpcHandler):
    def __init__(self, fault=None, open_fault=None):
        self.fault, self.open_fault = fault, open_fault
        self.requests, self.opened, self.raw = {}, 0, []
        self.seen = {}   # {step: [(time, connection) of each request]}
        self.channel = grpc.insecure_channel(ENDPOINT)
        # Accepts pings as often as the real server.
        self.server = grpc.server(concurrent.futures.ThreadPoolExecutor(40), options=[
            ("grpc.http2.min_ping_interval_without_data_ms", 5000),
            ("grpc.http2.min_recv_ping_interval_without_data_ms", 5000)])
        self.server.add_generic_rpc_handlers((self,))
        self.address = f"127.0.0.1:{self.server.add_insecure_port('127.0.0.1:0')}"
        self.server.start()

    def service(self, details):
        if details.method.endswith("/Open"):
            return grpc.unary_unary_rpc_method_handler(self.open)
        return grpc.unary_stream_rpc_method_handler(self.get_batches)

    def open(self, request, context):
        self.opened += 1
        if self.open_fault:
            self.open_fault(self, self.opened, context)
        method = self.channel.unary_unary("/millrace.v1.DataService/Open")
        answer, call = method.with_call(request, metadata=digests(context))
        context.send_initial_metadata([m for m in call.initial_metadata()
                                       if m[0] == "millrace-digest"])
        return answer

    def get_batches(self, request, context):
        self.raw.append(request)
        step = pb.GetBatchesRequest.FromString(request).first_step
        times = self.requests[step] = self.requests.get(step, 0) + 1
        self.seen.setdefault(step, []).append((time.monotonic(), context.peer()))
        change = self.fault(self, step, times, context) if self.fault else None
        method = self.channel.unary_stream("/millrace.v1.DataService/GetBatches")
        for message in method(request, metadata=digests(context)):
            yield change(message) if change else message

def digests(context):
    return [m for m in context.invocation_metadata() if m[0] == "millrace-digest"]

def refuse(context, code, **detail):
    if detail:
        rpc = rpc_status_pb2.RpcStatus(code=code.value[0], message="refused by the test")
        rpc.details.add().Pack(types_pb2.ErrorDetail(stage="test", **detail))
        context.set_trailing_metadata((("grpc-status-details-bin", rpc.SerializeToString()),))
    context.abort(code, "refused by the test")

def flipped(message):
    return message[:-100] + bytes([message[-100] ^ 1]) + message[-99:]
"""


def _blocks():
    """The indented blocks of the documentation's section."""
    with open("docs/protocol.md", encoding="utf-8") as file:
        section = file.read().split("\n## A client in Python\n")[1]
    blocks = re.findall(r"(?:^ {4}.*\n|^\n(?= {4}))+", section, re.MULTILINE)
    return [re.sub(r"^ {4}", "", block, flags=re.MULTILINE).strip("\n") for block in blocks]


class GrpcioClient(Case):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        prepare, pypi, debian, cls.command, cls.program = _blocks()
        cls.code = {}
        for name, generate in (("pypi", pypi), ("debian", debian)):
            folder = cls.code[name] = os.path.join(cls.work, name)
            os.makedirs(os.path.join(folder, "proto"))
            for path in glob.glob("proto/*.proto"):
                shutil.copy(path, os.path.join(folder, "proto"))
            cls._shell(f"set -e\n{prepare}\n{generate}", folder)

    @classmethod
    def _shell(cls, commands, folder, path=_PATH):
        environment = cls.package.environment(PYTHONPATH=path)
        environment["PATH"] = os.path.dirname(cls.package.python) + os.pathsep + environment["PATH"]
        result = subprocess.run(["bash", "-c", commands], cwd=folder, env=environment,
                                stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        if result.returncode != 0:
            raise AssertionError(f"{commands}\n{result.stdout}{result.stderr}")
        return result.stdout

    def _output_of(self, script, *arguments, proxy=False):
        return self.output_of(_BEGIN + (_PROXY if proxy else "") + script, self.code["pypi"],
                              *arguments, PYTHONPATH=_PATH)

    def _second_server(self):
        server = installed.Server(self.work)
        self.addCleanup(server.stop)
        return server

    def test_the_commands_of_the_documentation(self):
        spec = os.path.join(self.work, "spec.textproto")
        with open(spec, "w", encoding="utf-8") as file:
            file.write(installed.SPEC + "batch_size: 500 last_batch: LAST_BATCH_PARTIAL")
        command = self.command.replace("data-1:7001,data-2:7001", self.server.address)
        command = command.replace("SPEC.textproto", spec)
        command = command.replace("PYTHONPATH=.", f"PYTHONPATH=.:{_PATH}")
        command = command.replace("docs/example", os.path.abspath("docs/example"))
        self.assertNotIn("data-", command)
        for folder in self.code.values():
            self.assertEqual(os.listdir(os.path.join(folder, "proto")).count("types_pb2.py"), 0)
            lines = self._shell(command, folder).splitlines()
            self.assertEqual(len(lines), 5, lines)
            self.assertTrue(lines[4].startswith("0 4 image: float32 [30, 3, 64, 64], label: int64 [30]"),
                            lines[4])
        self.assertEqual(self._shell(command + " 3 4", self.code["pypi"])[:12], "3 4 image: f")

    def test_the_program_of_the_documentation(self):
        other = self._second_server()
        program = self.program.replace("data-1:7001", self.server.address)
        program = program.replace("data-2:7001", other.address)
        self.assertNotIn("data-", program)
        self._output_of(f"spec = spec_of(SPEC)\n{program}\n" + """
assert step == 40 and batch["image"].shape == (30, 3, 64, 64)
""")

    def test_wrong_arguments_print_the_usage(self):
        self._output_of("""
for arguments in ([], ["a:1"], ["a:1", "spec", "3"], ["a:1", "spec", "x", "0"], ["a:1", "spec", "0", "-1"],
                  ["a:1", "spec", "0", "0", "0"]):
    sys.argv = ["grpcio_client.py", *arguments]
    try:
        grpcio_client.main()
    except SystemExit as error:
        assert str(error).startswith("usage: grpcio_client.py HOST:PORT[,HOST:PORT...] SPEC"), error
    else:
        raise AssertionError(arguments)
""")

    def test_batches_are_those_of_the_package(self):
        self._output_of("""
assert "proto" not in sys.modules
assert compare(client_of().batches(1), of_the_package(1)) == 41
# It continues anywhere, with any number of batches ahead.
assert compare(client_of(window=1).batches(2, 37), of_the_package(2, 37)) == 4
assert compare(client_of(window=100).batches(0, 21), of_the_package(0, 21)) == 20
assert list(client_of().batches(0, 41)) == []
# An iteration that is left early ends its calls.
client = client_of()
batches = client.batches(0)
next(batches)
batches.close()
assert not client.calls and not any(server.calls for server in client.servers)
assert compare(client.batches(0, 40), of_the_package(0, 40)) == 1
""")

    def test_types_layouts_and_ranks(self):
        self._output_of("""
SOURCES, NORMALIZE = SPEC[:SPEC.index("transforms")], SPEC[SPEC.index("transforms { normalize"):]
COMMON = SOURCES + " batch_size: 50 last_batch: LAST_BATCH_PARTIAL "
FLIP = " transforms { horizontal_flip {} } "
for text, dtype, shape in (
        (COMMON + FLIP, "uint8", (64, 64, 3)),
        (COMMON + "transforms { to_dtype { dtype: DTYPE_FLOAT16 scale: true } }", "float16", (64, 64, 3)),
        (COMMON + "transforms { to_dtype { dtype: DTYPE_FLOAT16 } }", "float16", (64, 64, 3)),
        (COMMON + NORMALIZE[:NORMALIZE.index("batch_size")] + " outputs { field: 'image' layout: NCHW } "
         "outputs { field: 'label' dtype: DTYPE_INT32 }", "float32", (3, 64, 64)),
        (SPEC.replace("stddev", "placement: PLACEMENT_SERVER stddev"), "float32", (3, 64, 64)),
        (SPEC + "compression: COMPRESSION_ZSTD", "float32", (3, 64, 64))):
    client = client_of(text=text)
    batch = next(client.batches(0))
    assert batch["image"].dtype == dtype and batch["image"].shape == (50, *shape), (text, batch)
    assert compare(client.batches(0, 38), of_the_package(0, 38, text)) == 3
# Rank 0 has no row of the last, smaller batch.
for rank in (0, 49):
    client = client_of(rank=rank, world_size=50)
    assert compare(client.batches(0, 39), of_the_package(0, 39, rank=rank, world_size=50)) == 2
padded = SPEC.replace("PARTIAL", "PAD")
assert compare(client_of(text=padded).batches(0, 40), of_the_package(0, 40, padded)) == 1
text = COMMON + "transforms { to_dtype { dtype: DTYPE_BFLOAT16 scale: true } }"
assert "bfloat16" in str(error_of(lambda: client_of(text=text)))
""")

    def test_a_server_dies_and_another_one_starts_in_its_place(self):
        other = self._second_server()
        self._output_of("""
client = client_of(ENDPOINT, sys.argv[3])
for server in client.servers:
    server.connected.result(timeout=60)     # so that both get calls

def kill_it_in_a_call():
    while client.servers[1].calls == 0:
        time.sleep(0.001)
    time.sleep(0.2)     # the calls are sent
    os.kill(int(sys.argv[4]), signal.SIGKILL)

os.kill(int(sys.argv[4]), signal.SIGSTOP)
threading.Thread(target=kill_it_in_a_call).start()
kept = list(client.batches(0))
failures = [server.failures for server in client.servers]
assert failures[0] == 0 and failures[1] > 0, failures
assert compare(kept, of_the_package(0)) == 41
# A client that is made now finds the server that lives.
assert compare(client_of(sys.argv[3], ENDPOINT).batches(1, 30), of_the_package(1, 30)) == 11
""", other.address, str(other.pid))

    def test_a_server_that_comes_back_is_used_again(self):
        self._output_of("""
first, second = Proxy(), Proxy()
client = client_of(first.address, second.address, window=4)
port = int(second.address.rpartition(":")[2])
second.server.stop(None).wait()
expected = list(of_the_package(0, 31))
assert compare(client.batches(0, 31), expected) == 10
assert client.servers[1].failures > 0
again = Proxy.__new__(Proxy)
again.__dict__.update(vars(second), requests={})
again.server = grpc.server(concurrent.futures.ThreadPoolExecutor(40))
again.server.add_generic_rpc_handlers((again,))
assert again.server.add_insecure_port(second.address) == port
again.server.start()
end = time.monotonic() + 20
while not again.requests and time.monotonic() < end:
    assert compare(client.batches(0, 31), expected) == 10
assert again.requests, "the server is not used again"
""", proxy=True)

    def test_a_checkpoint_of_another_plan_is_refused(self):
        self._output_of("""
plan = client_of().plan
client = client_of(plan_hash=plan.plan_hash, fingerprint=plan.fingerprint)
assert compare(client.batches(1, 40), of_the_package(1, 40)) == 1
for options in (dict(plan_hash=bytes(16)), dict(fingerprint="0" * 32)):
    error = error_of(lambda: client_of(**options))
    assert error.code is StatusCode.FAILED_PRECONDITION and "checkpoint" in str(error), error
""")

    def test_errors_of_open(self):
        self._output_of("""
error = error_of(lambda: client_of(text='sources { dataset: "nothing" } batch_size: 8'))
assert error.code is StatusCode.NOT_FOUND and error.detail.stage, error
error = error_of(lambda: client_of(text=SPEC + "field_roles { field: 'no' }"))
assert error.code in (StatusCode.INVALID_ARGUMENT, StatusCode.NOT_FOUND), error
start = time.monotonic()
error = error_of(lambda: client_of("127.0.0.1:1", open_timeout=1.0))
assert error.code is StatusCode.UNAVAILABLE and 0.9 < time.monotonic() - start < 10, error

def busy(proxy, times, context):
    if times == 1:
        refuse(context, StatusCode.UNAVAILABLE)
    if times == 2:
        refuse(context, StatusCode.RESOURCE_EXHAUSTED, retry_delay_ms=10)
proxy = Proxy(open_fault=busy)
assert client_of(proxy.address).plan.steps_per_epoch == 41 and proxy.opened == 3
# Another kind of server.
proxy = Proxy(open_fault=lambda proxy, times, context: refuse(context, StatusCode.UNIMPLEMENTED))
error = error_of(lambda: client_of(proxy.address))
assert error.code is StatusCode.UNIMPLEMENTED and proxy.opened == 1, error
assert client_of(proxy.address, ENDPOINT).plan.steps_per_epoch == 41
""", proxy=True)

    def test_the_errors_of_the_table(self):
        self._output_of("""
EXPECTED = list(of_the_package(0, 31))

def run(*faults):
    # Each fault becomes a proxy of its own. All batches must come.
    proxies = [Proxy(fault) for fault in faults]
    client = client_of(*(proxy.address for proxy in proxies))
    assert compare(client.batches(0, 31), EXPECTED) == 10
    assert len(faults) > 1 or proxies[0].requests[35] == 2, proxies[0].requests
    return client, proxies

def once(code, **detail):
    def fault(proxy, step, times, context):
        if step == 35 and times == 1:
            refuse(context, code, **detail)
    return fault

_, (proxy,) = run(once(StatusCode.UNAVAILABLE, row=-1))
assert proxy.seen[35][0][1] == proxy.seen[35][1][1]
# From gRPC or a proxy: retried, over a new connection.
for code in (StatusCode.INTERNAL, StatusCode.UNKNOWN, StatusCode.INVALID_ARGUMENT,
             StatusCode.UNIMPLEMENTED, StatusCode.RESOURCE_EXHAUSTED):
    _, (proxy,) = run(once(code))
    assert proxy.seen[35][0][1] != proxy.seen[35][1][1], code
_, (proxy,) = run(once(StatusCode.RESOURCE_EXHAUSTED, retry_delay_ms=700))
assert proxy.seen[35][1][0] - proxy.seen[35][0][0] > 0.69
# Damage of the request, or of the batch, is repeated once for each step.
run(once(StatusCode.INVALID_ARGUMENT, request_damaged=True))
flip = lambda proxy, step, times, context: flipped if step == 35 and times == 1 else None
run(flip)
run(lambda proxy, step, times, context: (
    (lambda message: message[:9]) if step == 35 and times == 1 else None))
# A damaged sample: the other server may have a good copy.
lost = lambda proxy, step, times, context: (
    refuse(context, StatusCode.DATA_LOSS, sample=7) if step == 35 else None)
good = lambda proxy, step, times, context: None
_, proxies = run(lost, good)
assert proxies[1].requests[35] == 1
# A server that does not serve the plan is left out while another one does.
for code in (StatusCode.FAILED_PRECONDITION, StatusCode.NOT_FOUND, StatusCode.UNIMPLEMENTED):
    other = lambda proxy, step, times, context: refuse(context, code, row=-1)
    client, proxies = run(other, good)
    assert client.servers[0].left_out and sum(proxies[1].requests.values()) == 10

# What no retry helps against is the error of its step: the batches before it come.
def fails(*faults):
    proxies = [Proxy(fault) for fault in faults]
    batches = client_of(*(proxy.address for proxy in proxies)).batches(0, 31)
    assert [next(batches)["label"].shape for _ in range(4)] == [(50,)] * 4
    return error_of(lambda: next(batches)), sum(proxy.requests[35] for proxy in proxies)
def always(code, **detail):
    return lambda proxy, step, times, context: refuse(context, code, **detail) if step == 35 else None
error, requests = fails(lost)
assert error.code is StatusCode.DATA_LOSS and error.detail.sample == 7 and requests == 2, requests
error, requests = fails(lost, lost)
assert error.code is StatusCode.DATA_LOSS and requests == 2
error, requests = fails(lambda proxy, step, times, context: flipped if step == 35 else None)
assert error.code is StatusCode.DATA_LOSS and error.damaged and requests == 2, error
for code in (StatusCode.INVALID_ARGUMENT, StatusCode.OUT_OF_RANGE, StatusCode.FAILED_PRECONDITION):
    error, requests = fails(always(code, row=-1))
    assert error.code is code and "refused by the test" in str(error) and requests == 1, error
""", proxy=True)

    def test_a_silent_server(self):
        self._output_of("""
grpcio_client.STEP_TIMEOUT = 1.0
def silent(proxy, step, times, context):
    if step == 3 and times == 1:
        while context.is_active():
            time.sleep(0.01)
proxy = Proxy(silent)
assert compare(client_of(proxy.address).batches(0), of_the_package(0)) == 41
assert proxy.requests[3] == 2
""", proxy=True)

    def test_digests_are_optional(self):
        self._output_of("""
proxy = Proxy()
assert compare(client_of(proxy.address).batches(0, 39), of_the_package(0, 39)) == 2
assert all(request[-11:-8] == grpcio_client.with_digest(pb.OpenRequest())[:3]
           for request in proxy.raw)
assert all(pb.GetBatchesRequest.FromString(request).with_payload_digest for request in proxy.raw)
for name in [name for name in sys.modules if name == "grpcio_client" or "xxhash" in name]:
    del sys.modules[name]
sys.modules["xxhash"] = None
import grpcio_client
assert grpcio_client.xxh3 is None
proxy = Proxy()
client = grpcio_client.Client([proxy.address], spec_of(SPEC))
assert compare(client.batches(0, 39), of_the_package(0, 39)) == 2
for request in proxy.raw:
    message = pb.GetBatchesRequest.FromString(request)
    assert not message.HasField("request_xxh3") and not message.with_payload_digest
""", proxy=True)
