"""One process of tools/prove-one-process: imports packages in an order, starts the
traffic of each as soon as it is imported, and checks every result.

    worker.py --library=FILE --endpoint=HOST:PORT --seconds=N [--digest=HEX]
              [--leave_open] PACKAGE...

    --library     libmillrace.so.1
    PACKAGE       millrace, torch, tensorflow, pyarrow or grpc, in the order of the
                  imports; with a "!" at its end its libraries are loaded with
                  RTLD_GLOBAL, as some programs do
    --digest      what an epoch of batches must have
    --leave_open  ends the interpreter while a loader is open and its thread runs

The last line of a good run is "epochs N digest HEX", and the exit code 0.
"""

import argparse
import ctypes
import faulthandler
import os
import sys
import threading
import time
import traceback
import zlib

# 40 batches of 0.6 MB.
SPEC = """
sources { synthetic {
  samples: 2000 seed: 3
  fields { name: "image" dtype: DTYPE_UINT8 shape: [64, 64, 3] }
  fields { name: "label" dtype: DTYPE_INT64 num_classes: 10 } } }
seed: 1 batch_size: 50
"""
BATCHES = 40


def _expect(what, got, wanted):
    if got != wanted:
        raise AssertionError(f"{what}: {got!r} instead of {wanted!r}")


# Each imports its package and returns a function that works a little and checks the
# result. The function is called again and again, in a thread of its own.


class _BatchInfo(ctypes.Structure):
    """millrace_batch_info of client/c/millrace.h."""

    _fields_ = [("struct_size", ctypes.c_uint32), ("tensor_count", ctypes.c_uint32)] + [
        (name, ctypes.c_uint64) for name in ("epoch", "step", "rows", "local_valid", "global_valid",
                                             "first_position", "generation")] + [
        ("data", ctypes.c_void_p), ("bytes", ctypes.c_uint64), ("payload_xxh3", ctypes.c_uint64)]


_OK, _INVALID_ARGUMENT, _OUT_OF_RANGE = 0, 3, 11  # MILLRACE_STATUS_...


class Millrace:
    """Receives an epoch for each call: opens, reads, closes."""

    def __init__(self, library, endpoint, digest):
        self._library = ctypes.CDLL(library)  # RTLD_LOCAL, as Python loads extensions
        self._library.millrace_options_new.restype = ctypes.c_void_p
        self._library.millrace_error_message.restype = ctypes.c_char_p
        self._endpoint = endpoint
        self.digest = digest
        self.epochs = 0

    def _call(self, name, *arguments):
        """The status, and the sentence of an error."""
        error = ctypes.c_void_p()
        status = getattr(self._library, name)(*arguments, ctypes.byref(error))
        message = self._library.millrace_error_message(error).decode() if error else ""
        self._library.millrace_error_free(error)
        return status, message

    def _open(self, spec, epochs=1):
        """The loader, and the status and the sentence of opening it."""
        options = ctypes.c_void_p(self._library.millrace_options_new())
        loader = ctypes.c_void_p()
        for name, value in (("endpoint", self._endpoint), ("pipeline", spec), ("epochs", str(epochs))):
            _expect(name, self._call("millrace_options_set", options, name.encode(), value.encode()),
                    (_OK, ""))
        result = self._call("millrace_loader_open", options, ctypes.byref(loader))
        self._library.millrace_options_free(options)
        return loader, *result

    def _next(self, loader, digest):
        """The digest with the bytes of the next batch; None after the last one."""
        batch = ctypes.c_void_p()
        status, message = self._call("millrace_loader_next", loader, ctypes.c_int64(-1),
                                     ctypes.byref(batch))
        if status == _OUT_OF_RANGE:
            return None
        _expect("next", (status, message), (_OK, ""))
        info = _BatchInfo(struct_size=ctypes.sizeof(_BatchInfo))
        _expect("info", self._call("millrace_batch_get_info", batch, ctypes.byref(info)), (_OK, ""))
        digest = zlib.crc32((ctypes.c_char * info.bytes).from_address(info.data), digest)
        self._library.millrace_batch_free(batch)
        return digest

    def __call__(self):
        _, status, message = self._open("batch_size: 1 bogus: 2")
        _expect("status of a wrong spec", status, _INVALID_ARGUMENT)
        if "bogus" not in message:
            raise AssertionError(f"error of a wrong spec: {message}")
        loader, *result = self._open(SPEC)
        _expect("open", result, [_OK, ""])
        batches, digest = 0, 0
        while (following := self._next(loader, digest)) is not None:
            batches, digest = batches + 1, following
        self._library.millrace_loader_free(loader)
        _expect("batches", batches, BATCHES)
        _expect("digest", f"{digest:08x}", self.digest or f"{digest:08x}")
        self.digest = f"{digest:08x}"
        self.epochs += 1

    def read_without_end(self):
        """For a daemon thread: the interpreter ends while it reads."""
        loader = self._open(SPEC, epochs=0)[0]
        while True:
            self._next(loader, 0)


def _torch():
    import torch
    left = torch.arange(64 * 64, dtype=torch.float64).reshape(64, 64)
    wanted = (left @ left.T).sum().item()

    def work():
        _expect("torch", (left @ left.T).sum().item(), wanted)
        layer = torch.nn.Linear(64, 8).double()
        layer(left).square().mean().backward()
        _expect("gradient", tuple(layer.weight.grad.shape), (8, 64))

    return work


def _tensorflow():
    import tensorflow as tf
    example = tf.train.Example()
    example.features.feature["x"].int64_list.value.extend(range(100))
    rule = {"x": tf.io.FixedLenFeature([100], tf.int64)}

    def work():
        bytes_of = example.SerializeToString()
        parsed = tf.io.parse_single_example(bytes_of, rule)["x"]
        _expect("tf.io", int(tf.reduce_sum(parsed)), 4950)
        copy = tf.train.Example.FromString(bytes_of)
        _expect("tf.train.Example", len(copy.features.feature["x"].int64_list.value), 100)
        ones = tf.ones([64, 64])
        _expect("tf.matmul", float(tf.reduce_sum(ones @ ones)), 64.0**3)
        data = tf.data.Dataset.range(64).map(lambda i: i * i).batch(8)
        _expect("tf.data", sum(int(tf.reduce_sum(batch)) for batch in data), sum(i * i for i in range(64)))

    return work


def _pyarrow():
    import pyarrow
    import pyarrow.compute
    import pyarrow.dataset
    import pyarrow.flight  # has a gRPC and a protobuf of its own
    import pyarrow.parquet
    table = pyarrow.table({"x": list(range(1000)), "name": [f"row {i}" for i in range(1000)]})

    class Server(pyarrow.flight.FlightServerBase):

        def do_get(self, context, ticket):
            return pyarrow.flight.RecordBatchStream(table)

    server = Server("grpc://127.0.0.1:0")
    client = pyarrow.flight.connect(f"grpc://127.0.0.1:{server.port}")

    def work():
        sink = pyarrow.BufferOutputStream()
        pyarrow.parquet.write_table(table, sink, compression="zstd")
        back = pyarrow.parquet.read_table(pyarrow.BufferReader(sink.getvalue()))
        _expect("parquet", back.equals(table), True)
        _expect("compute", pyarrow.compute.sum(back["x"]).as_py(), 499500)
        got = client.do_get(pyarrow.flight.Ticket(b"all")).read_all()
        _expect("flight", got.equals(table), True)

    def stop():
        client.close()
        server.shutdown()

    work.stop = stop
    return work


def _grpc():
    import concurrent.futures

    import grpc
    from google.protobuf import descriptor_pb2, descriptor_pool, struct_pb2

    # A user's own copy of our files is in a pool of Python's protobuf.
    file = descriptor_pb2.FileDescriptorProto(name="proto/pipeline.proto", package="millrace.v1")
    file.message_type.add(name="PipelineSpec")
    descriptor_pool.Default().AddSerializedFile(file.SerializeToString())

    def echo(request, context):
        request["answered"] = True
        return request

    def count(request, context):
        for i in range(20):
            yield struct_pb2.Struct(fields={"i": struct_pb2.Value(number_value=i)})

    types = {"request_deserializer": struct_pb2.Struct.FromString,
             "response_serializer": struct_pb2.Struct.SerializeToString}
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(2))
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("proof.Echo", {
        "Echo": grpc.unary_unary_rpc_method_handler(echo, **types),
        "Count": grpc.unary_stream_rpc_method_handler(count, **types)})])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    channel = grpc.insecure_channel(f"127.0.0.1:{port}")
    types = {"request_serializer": struct_pb2.Struct.SerializeToString,
             "response_deserializer": struct_pb2.Struct.FromString}
    unary = channel.unary_unary("/proof.Echo/Echo", **types)
    stream = channel.unary_stream("/proof.Echo/Count", **types)

    def work():
        request = struct_pb2.Struct()
        request["text"] = "x" * 1000
        _expect("grpc", unary(request, timeout=20)["answered"], True)
        _expect("stream", [m["i"] for m in stream(request, timeout=20)], [float(i) for i in range(20)])
        own = grpc.insecure_channel(f"127.0.0.1:{port}", options=[("grpc.use_local_subchannel_pool", 1)])
        own.unary_unary("/proof.Echo/Echo", **types)(request, timeout=20)
        own.close()

    def stop():
        channel.close()
        server.stop(0).wait()

    work.stop = stop
    return work


PACKAGES = {"torch": _torch, "tensorflow": _tensorflow, "pyarrow": _pyarrow, "grpc": _grpc}


class Traffic:
    """A thread that calls `work` until the end; keeps its failure."""

    def __init__(self, name, work):
        self.name = name
        self.rounds = 0
        self.failure = ""
        self._work = work
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name)
        self._thread.start()

    def _run(self):
        try:
            while not self._stop.is_set():
                self._work()
                self.rounds += 1
        except BaseException:  # reported by end(), whatever it is
            self.failure = traceback.format_exc()

    def end(self):
        self._stop.set()
        self._thread.join()
        if not self.failure and self.rounds == 0:
            self.failure = f"{self.name} did nothing"


def main(argv):
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", required=True)
    parser.add_argument("--endpoint", required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--digest", default="")
    parser.add_argument("--leave_open", action="store_true")
    parser.add_argument("packages", nargs="+", metavar="PACKAGE")
    arguments = parser.parse_args(argv[1:])
    faulthandler.enable()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

    traffic, works, millrace = [], [], None
    for word in arguments.packages:
        name = word.rstrip("!")
        flags = sys.getdlopenflags()
        if word.endswith("!"):
            sys.setdlopenflags(flags | os.RTLD_GLOBAL)
        if name == "millrace":
            work = millrace = Millrace(arguments.library, arguments.endpoint, arguments.digest)
        else:
            work = PACKAGES[name]()
        sys.setdlopenflags(flags)
        works.append(work)
        traffic.append(Traffic(name, work))
    deadline = time.monotonic() + arguments.seconds
    while time.monotonic() < deadline and not any(t.failure for t in traffic):
        time.sleep(0.1)
    for thread in traffic:
        thread.end()
    for work in works:
        getattr(work, "stop", lambda: None)()
    for thread in traffic:
        if thread.failure:
            print(f"{thread.name}: {thread.failure}", file=sys.stderr)
    if any(t.failure for t in traffic):
        return 1
    print("rounds " + " ".join(f"{t.name} {t.rounds}" for t in traffic))
    if arguments.leave_open:
        threading.Thread(target=millrace.read_without_end, daemon=True).start()
        time.sleep(1)
    if millrace:
        print(f"epochs {millrace.epochs} digest {millrace.digest}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
