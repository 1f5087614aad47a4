"""Weights that the trainer saves are read by Python's torch, and those that Python saves begin a
training. A module with BatchNorm, so with buffers that are no floats."""

import os
import subprocess
import tempfile
import unittest

import dataset
import network
import processes
import wheel_python

_MODEL = "tests/testdata/trainer/models/small_cnn.pt"
_READ_SAFETENSORS = wheel_python.BEGIN + """
import json, torch

# As https://huggingface.co/docs/safetensors says: a number, a JSON header, the tensors' bytes.
def read_safetensors(path):
    data = open(path, "rb").read()
    begin = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:begin])
    metadata = header.pop("__metadata__")
    assert metadata["format"] == "pt" and len(metadata["millrace_data_xxh3"]) == 16, metadata
    dtypes = {"F32": torch.float32, "I64": torch.int64}
    tensors = {}
    for name, entry in header.items():
        first, end = entry["data_offsets"]
        tensors[name] = torch.frombuffer(bytearray(data[begin + first:begin + end]),
                                         dtype=dtypes[entry["dtype"]]).reshape(entry["shape"])
    return tensors

folder, script_module = sys.argv[1:]
"""
_READ = _READ_SAFETENSORS + """
state = torch.load(folder + "/w.pt", weights_only=True)
mapped = torch.load(folder + "/w.pt", weights_only=True, mmap=True)
other = read_safetensors(folder + "/w.safetensors")
module = torch.jit.load(script_module)
before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
assert list(state) == list(before), (list(state), list(before))
assert set(other) == set(state)
for name, tensor in state.items():
    assert torch.equal(mapped[name], tensor) and torch.equal(other[name], tensor), name
    assert tensor.dtype == before[name].dtype, name
    assert not torch.equal(tensor, before[name]), name + " was not trained"
assert state["features.1.num_batches_tracked"].item() == 3
module.load_state_dict(state)
assert module(torch.zeros(2, 1, 28, 28)).shape == (2, 10)
torch.save({name: tensor * 2 for name, tensor in state.items()}, folder + "/twice.pt")
"""
_READ_AGAIN = _READ_SAFETENSORS + """
twice = torch.load(folder + "/twice.pt", weights_only=True)
back = read_safetensors(folder + "/back.safetensors")
for name in dict(torch.jit.load(script_module).named_parameters()):
    assert torch.allclose(back[name], twice[name], rtol=0, atol=1e-20), name
assert back["features.1.num_batches_tracked"].item() == 2 * 3 + 1
"""


class PythonWeights(unittest.TestCase):

    def test_weights_go_to_python_and_come_back(self):
        with tempfile.TemporaryDirectory(dir="/tmp") as work:
            python, why = wheel_python.find(work)
            if python is None:
                self.skipTest(why)
            os.mkdir(os.path.join(work, "tmp"))
            uri = dataset.pack("server/data_tool/millrace-data", work)
            server = processes.Server(0, network.Loopback(1), "server/millrace-server",
                                      [f"--dataset=digits={uri}"], work)
            try:
                server.start()
                server.await_ready()
                for name in ("w.pt", "w.safetensors"):
                    self._train(work, server.address, name, "--max_steps=3")
                self._python(work, python, _READ)
                # One step that changes no weight.
                self._train(work, server.address, "back.safetensors", "--max_steps=1",
                            "--optimizer=sgd", "--lr=1e-30", f"--init_weights={work}/twice.pt")
                self._python(work, python, _READ_AGAIN)
            finally:
                server.kill()

    def _train(self, work, endpoint, name, *flags):
        spec = os.path.join(work, "spec.textproto")
        with open(spec, "w", encoding="utf-8") as file:
            file.write(dataset.SPEC)
        self._run(["trainer/millrace-train", f"--endpoint={endpoint}", f"--pipeline={spec}",
                   "--batch_size=50", f"--model=torchscript:{_MODEL}",
                   f"--save_weights={work}/{name}", *flags], os.environ)

    def _python(self, work, python, script):
        self._run([*python.command, script, work, os.path.realpath(_MODEL)],
                  {**os.environ, **python.environment})

    def _run(self, command, environment):
        result = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL,
                                capture_output=True, text=True, check=False)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)


if __name__ == "__main__":
    unittest.main()
