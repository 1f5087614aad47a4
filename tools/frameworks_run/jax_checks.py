"""What JAX makes of the tensors of a loader, by DLPack: one function, one row of
tools/python-frameworks.

    jax_checks.py --list
    jax_checks.py NAME HOST:PORT FOLDER

A function gets the endpoint, raises AssertionError, and returns what to say.
"""

import ctypes
import sys

import jax
import millrace
import numpy

_KINDS = ("uint8", "int8", "int16", "uint16", "int32", "int64", "float16", "bfloat16", "float32",
          "float64", "bool")


def _spec(fields, transforms=""):
    return "sources { synthetic { samples: 200 seed: 3 " + "".join(
        f'fields {{ name: "{name}" dtype: DTYPE_{kind.upper()} shape: {shape} }} '
        for name, kind, shape in fields) + "} } " + transforms


def _first(endpoint, spec, **named):
    return next(iter(millrace.Loader(endpoint, pipeline=spec, batch_size=40, tensor_type="dlpack",
                                     output="dict", **named)))


def _words(tensor):
    """Of 16 bits, row-major, as they lie in memory."""
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.argtypes, pointer.restype = [ctypes.py_object, ctypes.c_char_p], ctypes.c_void_p
    capsule = tensor.__dlpack__()
    data = ctypes.c_void_p.from_address(pointer(capsule, b"dltensor")).value
    return numpy.frombuffer(ctypes.string_at(data, tensor.nbytes), numpy.int16).reshape(tensor.shape)


def jax_element_types(endpoint):
    jax.config.update("jax_enable_x64", True)
    # Tensors of 40 x 5 x 60 elements view the batch; those of 40 x 3 have memory of their own.
    for shape in ([5, 60], [3]):
        batch = _first(endpoint, _spec([(kind, kind, shape) for kind in _KINDS]))
        for kind in _KINDS:
            tensor = batch[kind]
            array = jax.dlpack.from_dlpack(tensor)
            assert array.dtype == kind and array.shape == (40, *shape), (kind, array.dtype, array.shape)
            found = numpy.asarray(array)
            if kind == "bfloat16":  # Python's buffers have no such type
                expected, found = _words(tensor), found.view(numpy.int16)
            else:
                expected = numpy.asarray(tensor)
            assert numpy.array_equal(found, expected, equal_nan=kind.startswith("float")), kind
    jax.config.update("jax_enable_x64", False)
    narrow = [jax.dlpack.from_dlpack(batch[kind]).dtype.name for kind in ("int64", "float64")]
    assert narrow == ["int32", "float32"], narrow
    return (f"{len(_KINDS)} element types have the values that were sent; without jax_enable_x64, int64 "
            "is int32 and float64 is float32")


_IMAGES = _spec([("image", "uint8", [20, 30, 3]), ("label", "int64", [])])
_NORMALIZED = _IMAGES + ("transforms { normalize { mean: [0.485, 0.456, 0.406] "
                         "stddev: [0.229, 0.224, 0.225] } }")


def jax_images(endpoint):
    # Normalised images are [rows, C, H, W] in memory of [rows, H, W, C].
    shapes = []
    for spec, shape in ((_IMAGES, (40, 20, 30, 3)), (_NORMALIZED, (40, 3, 20, 30))):
        tensor = _first(endpoint, spec)["image"]
        array = jax.dlpack.from_dlpack(tensor)
        assert array.shape == shape, array.shape
        assert (numpy.asarray(array) == numpy.asarray(tensor)).all()
        # Computed by XLA, which takes the order in memory from the array.
        total = jax.jit(lambda x: x.astype("float32").sum(axis=(0, 2)))(array)
        expected = numpy.asarray(tensor).astype("float64").sum(axis=(0, 2))
        assert numpy.allclose(total, expected, rtol=1e-3, atol=1e-2), abs(total - expected).max()
        shapes.append(f"{array.dtype} {list(shape)}")
    return " and ".join(shapes) + " have the values of NumPy's arrays"


def jax_arrays_outlive_the_loader(endpoint):
    with millrace.Loader(endpoint, pipeline=_NORMALIZED, batch_size=40, tensor_type="dlpack") as loader:
        kept = [jax.dlpack.from_dlpack(images) for _ in range(4) for images, _ in loader]
    del loader
    expected = list(millrace.Loader(endpoint, pipeline=_NORMALIZED, batch_size=40, tensor_type="numpy"))
    for number, array in enumerate(kept):
        assert (numpy.asarray(array) == expected[number % 5][0]).all(), number
    return f"{len(kept)} batches that were kept are those that were sent"


def jax_training(endpoint):
    def loss_of(weights, images, labels):
        scores = images.reshape(len(images), -1) @ weights
        return -jax.nn.log_softmax(scores)[jax.numpy.arange(len(labels)), labels].mean()

    @jax.jit
    def step(weights, images, labels):
        loss, gradient = jax.value_and_grad(loss_of)(weights, images, labels)
        return weights - 1e-3 * gradient, loss

    spec = _spec([("image", "uint8", [20, 30, 3]), ("label", "int64", [])], "seed: 1 transforms { "
                 "normalize { mean: [0.485, 0.456, 0.406] stddev: [0.229, 0.224, 0.225] } }")
    spec = spec.replace('"label" dtype: DTYPE_INT64 shape: []', '"label" dtype: DTYPE_INT64 num_classes: 10')
    weights, losses = jax.numpy.zeros((20 * 30 * 3, 10)), []
    loader = millrace.Loader(endpoint, pipeline=spec, batch_size=40, tensor_type="dlpack", shuffle=True)
    for _ in range(8):
        for images, labels in loader:
            weights, loss = step(weights, jax.dlpack.from_dlpack(images), jax.dlpack.from_dlpack(labels))
            losses.append(float(loss))
    assert losses[-1] < 0.9 * losses[0], losses
    return f"a jitted step brings the loss from {losses[0]:.2f} to {losses[-1]:.2f}"


_CHECKS = [jax_element_types, jax_images, jax_arrays_outlive_the_loader, jax_training]


def main(argv):
    checks = {check.__name__: check for check in _CHECKS}
    if argv[1:] == ["--list"]:
        print(*checks)
        return
    name, endpoint, _ = argv[1:]
    millrace.set_log_level("error")
    print(checks[name](endpoint))


if __name__ == "__main__":
    main(sys.argv)
