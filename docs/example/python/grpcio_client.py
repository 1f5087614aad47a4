# Reads batches of data servers with grpcio and NumPy, without the package
# `millrace`: a model for clients in other languages. docs/protocol.md has the
# rules, and the command that makes the package `millrace_v1`.
#
#   grpcio_client.py HOST:PORT[,HOST:PORT...] SPEC.textproto [EPOCH STEP]
#
# The servers share the work. When one of them fails, the others send its batches.

import collections
import concurrent.futures
import os
import random
import sys
import threading
import time

import grpc
import numpy as np
from google.protobuf import text_format
from google.protobuf.message import DecodeError
from grpc import StatusCode
from millrace_v1 import data_service_pb2 as pb
from millrace_v1 import pipeline_pb2, rpc_status_pb2, types_pb2

try:
    from xxhash import xxh3_64_intdigest as xxh3
except ImportError:  # optional: without it, nobody notices damage on the way
    xxh3 = None

OPEN_TIMEOUT = 5.0  # seconds for one answer to Open
STEP_TIMEOUT = 60.0  # seconds without a frame of a batch; longer than any batch takes
SERVICE = "/millrace.v1.DataService/"
METADATA = (("millrace-digest", "xxh3"),) if xxh3 else ()
CHANNEL_OPTIONS = (
    ("grpc.use_local_subchannel_pool", 1),  # a new channel is a new connection
    ("grpc.enable_http_proxy", 0),
    ("grpc.enable_retries", 0),  # Client._fetch retries
    ("grpc.max_receive_message_length", -1),
    ("grpc.min_reconnect_backoff_ms", 2000),  # also the time limit of an attempt to connect
    ("grpc.max_reconnect_backoff_ms", 2000),
    ("grpc.keepalive_time_ms", 10000),  # a connection without answers ends after 15 s
    ("grpc.keepalive_timeout_ms", 5000),
    ("grpc.http2.max_pings_without_data", 0),
)
DTYPES = {getattr(types_pb2, "DTYPE_" + name.upper()): np.dtype(name) for name in (
    "uint8", "bool", "int32", "int64", "float32", "float64", "float16", "int8", "int16", "uint16")}


class CallError(Exception):
    """detail: the server's ErrorDetail. None: the status is not from a data server."""

    def __init__(self, code, text, detail=None, damaged=False):
        super().__init__(f"{code.name}: {text}")
        self.code, self.detail, self.damaged = code, detail, damaged


def damage(text):
    return CallError(StatusCode.DATA_LOSS, text, damaged=True)


# Digests of messages ("Damage on the way"): the last field, number 15000, a fixed64.
def with_digest(request):
    content = request.SerializeToString()
    return content + b"\xc1\xa9\x07" + xxh3(content).to_bytes(8, "little") if xxh3 else content


def is_damaged(answer, request, declared=False):
    """declared: the server says that its answers have digests."""
    if not xxh3:
        return False
    right = xxh3(answer[:-11], xxh3(request)).to_bytes(8, "little") == answer[-8:]
    present = answer[-11:-8] == b"\xc1\xa9\x07"
    return right != present or (declared and not present)


def error_of(call, request):
    status = dict(call.trailing_metadata() or ()).get("grpc-status-details-bin", b"")
    if is_damaged(status, request):
        return damage("the request or its refusal was damaged on the way")
    detail = types_pb2.ErrorDetail()
    try:
        rpc = rpc_status_pb2.RpcStatus.FromString(status)
    except DecodeError:
        rpc = rpc_status_pb2.RpcStatus()
    if any(packed.Unpack(detail) for packed in rpc.details):
        code = next((code for code in StatusCode if code.value[0] == rpc.code), StatusCode.UNKNOWN)
        return CallError(code, rpc.message, detail, detail.request_damaged)
    # From gRPC or a proxy: it says nothing about the pipeline or the data.
    code = call.code()
    return CallError(code if code is StatusCode.UNIMPLEMENTED else StatusCode.UNAVAILABLE,
                     f"{code.name}, {call.details()}")


def check_header(header, plan, position):
    """The batch is the one that was requested, and its tensors are within the payload."""
    if (header.epoch, header.step, header.rank, header.world_size) != position:
        raise damage(f"a batch of another position than {position}")
    if header.payload_bytes > plan.max_payload_bytes or len(header.tensors) != len(plan.tensors):
        raise damage("a batch that does not fit the plan")
    for sent, spec in zip(header.tensors, plan.tensors):
        size = header.rows * DTYPES[spec.dtype].itemsize
        for dimension in spec.sample_shape:
            size *= dimension
        if ((sent.name, sent.dtype, sent.sample_shape, sent.bytes) !=
                (spec.name, spec.dtype, spec.sample_shape, size) or sent.offset % 64 != 0 or
                sent.offset + sent.bytes > header.payload_bytes):
            raise damage(f"a tensor {sent.name} that does not fit the plan")


def transformed(array, transform):
    """(x * scale - mean[c]) / stddev[c], each operation rounded to float32; or a cast."""
    dtype = DTYPES[transform.dtype]
    if transform.scale == 0:
        return (array.astype(np.float32) if dtype == np.float16 else array).astype(dtype)
    result = array.astype(np.float32) * np.float32(transform.scale)
    if transform.mean:
        channels = (-1,) + (1,) * (array.ndim - 2 if transform.channels_first else 0)
        result -= np.array(transform.mean, np.float32).reshape(channels)
        result /= np.array(transform.stddev, np.float32).reshape(channels)
    return result.astype(dtype)


def arrays_of(header, payload, plan):
    """{name: array [rows, ...]}, as the plan shows them to a training program."""
    arrays = {}
    for sent, spec in zip(header.tensors, plan.tensors):
        array = payload[sent.offset:sent.offset + sent.bytes].view(DTYPES[spec.dtype])
        array = array.reshape(header.rows, *spec.sample_shape)
        if spec.HasField("device_transform"):
            array = transformed(array, spec.device_transform)
        if array.ndim == 4 and (spec.view == spec.VIEW_CHANNELS_FIRST or (
                spec.view == spec.VIEW_DEFAULT and spec.device_transform.mean)):
            array = array.transpose(0, 3, 1, 2)
        arrays[spec.name] = array
    return arrays


class Server:
    def __init__(self, address):
        self.address = address
        self.calls = 0  # in progress
        self.left_out = False  # it does not serve the plan
        self.failures = 0  # in a row
        self.failed_at = self.not_before = 0.0  # no call before the latter
        self.connect()

    def connect(self):
        self.channel = grpc.insecure_channel(self.address, CHANNEL_OPTIONS)
        self.connected = grpc.channel_ready_future(self.channel)

    def failed(self, requested, reconnect):
        if requested < self.failed_at:
            return  # before the last failure: nothing new
        self.failed_at = time.monotonic()
        delay = min(2.0, 0.05 * 2**min(self.failures, 10))  # 50 ms, doubled up to 2 s
        self.not_before = self.failed_at + delay / 2 * (1 + random.random())
        self.failures += 1
        if reconnect:
            self.connected.cancel()
            self.connect()


class Client:
    """Batches of one rank. One iteration at a time. Holds at most `window` batches ahead.

    plan_hash, fingerprint: of the checkpoint's plan, as `client.plan` has them; a server with
    another plan or other data is refused."""

    def __init__(self, servers, spec, rank=0, world_size=1, window=16, plan_hash=b"",
                 fingerprint="", open_timeout=30.0):
        self.rank, self.world_size, self.window = rank, world_size, window
        self.client_id = os.urandom(16)
        self.lock = threading.Lock()  # guards the servers and `calls`
        self.servers = [Server(address) for address in servers]
        self.calls = {}  # {step: [its GetBatches, time of the last frame]}
        self.stop = threading.Event()
        self.plan, self.deadline = None, time.monotonic() + open_timeout
        request = pb.OpenRequest(protocol_version=1, spec=spec, world_size=world_size,
                                 client_id=self.client_id)
        plan = self._retry(request, lambda channel, request: self._open(
            channel, request, plan_hash, fingerprint))
        self.plan, self.deadline = plan, float("inf")
        for tensor in plan.tensors:
            if -1 in tensor.sample_shape or not {
                    tensor.dtype, tensor.device_transform.dtype or tensor.dtype} <= DTYPES.keys():
                raise ValueError(f"tensor {tensor.name} is ragged, or bfloat16, which NumPy does "
                                 "not have: choose other outputs")
        plan.resolved_spec.ClearField("compression")  # no part of the plan hash

    def _open(self, channel, request, plan_hash, fingerprint):
        answer, call = channel.unary_unary(SERVICE + "Open").with_call(
            request, timeout=OPEN_TIMEOUT, metadata=METADATA)
        if is_damaged(answer, request, "millrace-digest" in dict(call.initial_metadata())):
            raise damage("the answer was damaged on the way")
        plan = pb.OpenResponse.FromString(answer)
        if (plan_hash or plan.plan_hash, fingerprint or plan.fingerprint) != (
                plan.plan_hash, plan.fingerprint):
            raise CallError(StatusCode.FAILED_PRECONDITION, "the server has another plan, or other "
                            "data, than the checkpoint", types_pb2.ErrorDetail())
        return plan

    def batches(self, epoch, step=0):
        """Yields the batches of an epoch from `step` on, in order: {name: array}. After a CallError,
        which is that of the next step, batches() can begin again there or behind it."""
        self.stop = threading.Event()
        for server in self.servers:
            server.left_out = False
        pool = concurrent.futures.ThreadPoolExecutor(self.window)
        try:
            ahead = collections.deque()
            for step in range(step, self.plan.steps_per_epoch):
                ahead.append((step, pool.submit(self._fetch, epoch, step)))
                if len(ahead) == self.window:
                    yield self._wait_for(*ahead.popleft())
            while ahead:
                yield self._wait_for(*ahead.popleft())
        finally:
            self.stop.set()
            with self.lock:
                calls = list(self.calls.values())
            for call, _ in calls:
                call.cancel()
            pool.shutdown(cancel_futures=True)

    def _wait_for(self, step, future):
        while True:
            try:
                return future.result(timeout=1)
            except concurrent.futures.TimeoutError:
                with self.lock:
                    call, heard = self.calls.get(step, (None, float("inf")))
                if time.monotonic() - heard > STEP_TIMEOUT:
                    call.cancel()  # _retry requests the step again

    def _fetch(self, epoch, step):
        """One step for each call, so that an error is that of the step. A call can also ask for many
        steps (docs/protocol.md, "Errors")."""
        plan = self.plan
        request = pb.GetBatchesRequest(
            protocol_version=1, resolved_spec=plan.resolved_spec, plan_hash=plan.plan_hash,
            expected_fingerprint=plan.fingerprint, decoder_digest=plan.decoder_digest, epoch=epoch,
            first_step=step, step_count=1, rank=self.rank, world_size=self.world_size,
            with_payload_digest=xxh3 is not None, client_id=self.client_id)
        position = (epoch, step, self.rank, self.world_size)
        return self._retry(request, lambda channel, request: self._receive(
            channel, request, position))

    def _receive(self, channel, request, position):
        call = channel.unary_stream(SERVICE + "GetBatches")(request, metadata=METADATA)
        progress = [call, time.monotonic()]
        with self.lock:
            self.calls[position[1]] = progress
        if self.stop.is_set():
            call.cancel()
        try:
            header, filled = None, 0
            for message in call:
                progress[1] = time.monotonic()
                frame = pb.Frame.FromString(message)
                data = frame.data
                if header is None:
                    header = frame.header
                    check_header(header, self.plan, position)
                    payload = np.empty(header.payload_bytes, np.uint8)
                end = filled + len(data)
                if (frame.step, frame.offset) != (header.step, filled) or end > len(payload):
                    raise damage("a frame that does not continue its batch")
                memoryview(payload)[filled:end] = data
                filled = end
        finally:
            with self.lock:
                del self.calls[position[1]]
            call.cancel()
        if header is None or filled < len(payload):
            raise damage("a batch without its end")
        if xxh3 and xxh3(payload) != header.payload_xxh3:
            raise damage("a batch with another digest than its header says")
        return arrays_of(header, payload, self.plan)

    def _retry(self, request, function):
        """function(channel, request) with one server after the other, until it succeeds or fails for
        good: the table in docs/protocol.md, "Errors"."""
        request, damaged_by = with_digest(request), None
        while True:
            with self.lock:
                now = time.monotonic()
                server = min(
                    (server for server in self.servers if not server.left_out),
                    key=lambda server: (max(0.0, server.not_before - now), server is damaged_by,
                                        not server.connected.done(), server.calls))
                server.calls += 1
            try:
                if self.stop.wait(max(0.0, server.not_before - now)):
                    raise CallError(StatusCode.CANCELLED, "the iteration has ended")
                requested = time.monotonic()
                result = function(server.channel, request)
                if requested >= server.failed_at:  # a batch that was on its way says nothing new
                    server.failures = 0
                return result
            except grpc.RpcError as failure:
                error = error_of(failure, request)
            except DecodeError:
                error = damage("an answer that cannot be parsed")
            except CallError as failure:
                error = failure
            finally:
                with self.lock:
                    server.calls -= 1
            error.args = (f"server {server.address}: {error}",)
            with self.lock:
                others = any(other is not server and not other.left_out for other in self.servers)
                if time.monotonic() > self.deadline:
                    raise error
                if error.damaged or error.code is StatusCode.DATA_LOSS:
                    if damaged_by:
                        raise error
                    damaged_by = server  # once more, from another server where there is one
                    if error.detail is None:
                        server.failed(requested, reconnect=True)
                elif error.code is StatusCode.UNAVAILABLE or (
                        # From a proxy: the only server has opened the plan.
                        error.code is StatusCode.UNIMPLEMENTED and error.detail is None and
                        self.plan and not others):
                    server.failed(requested, reconnect=error.detail is None)
                elif error.code is StatusCode.RESOURCE_EXHAUSTED and error.detail.retry_delay_ms:
                    server.not_before = time.monotonic() + (
                        error.detail.retry_delay_ms / 1000 * (1 + random.random() / 4))
                elif others and error.code in (StatusCode.FAILED_PRECONDITION, StatusCode.NOT_FOUND,
                                               StatusCode.UNIMPLEMENTED):
                    server.left_out = True
                    print(f"left out: {error}", file=sys.stderr)
                else:
                    raise error


def main():
    if len(sys.argv) not in (3, 5) or not all(number.isdecimal() for number in sys.argv[3:]):
        sys.exit("usage: grpcio_client.py HOST:PORT[,HOST:PORT...] SPEC.textproto [EPOCH STEP]")
    servers, spec_file, *position = sys.argv[1:]
    epoch, step = (int(number) for number in position or (0, 0))
    with open(spec_file, encoding="utf-8") as file:
        spec = text_format.Parse(file.read(), pipeline_pb2.PipelineSpec())
    client = Client(servers.split(","), spec)
    for step, batch in enumerate(client.batches(epoch, step), step):
        print(epoch, step, ", ".join(f"{name}: {array.dtype} {list(array.shape)}"
                                     for name, array in batch.items()))


if __name__ == "__main__":
    main()
