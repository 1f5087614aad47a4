"""millrace.Loader(device="cuda") on a GPU, a step of gpu-check/run: bytes, lifetimes of memory over streams,
what the host waits for, refusals, and rates.

  python_device.py HOST:PORT DEVICE

DEVICE=cpu tries the script itself: it compares host memory with host memory. The first difference ends it
with exit code 1.
"""

import sys
import time

import millrace
import torch
from millrace import transforms as T

ENDPOINT, DEVICE = sys.argv[1:]
CUDA = DEVICE != "cpu"


def pipeline(*more, size=160):
    return millrace.Pipeline(
        [T.DecodeImage(), T.RandomResizedCrop(size), T.RandomHorizontalFlip(),
         T.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)), *more],
        sources="photographs", epoch_samples=1600, seed=1)


def loader(given, batch_size=64, **named):
    return millrace.Loader(ENDPOINT, pipeline=given, batch_size=batch_size, shuffle=True, drop_last=True, **named)


def check(holds, what):
    if not holds:
        sys.exit(f"FAILED: {what}")


def slow_work(times=1):
    """About 3 ms of an H100 each."""
    if CUDA:
        matrix = torch.ones(4096, 4096, device=DEVICE)
        for _ in range(times):
            matrix = torch.matmul(matrix, matrix)


def bytes_are_those_of_the_host():
    for what, given, named in [
            ("float32", pipeline(), {}), ("device_prefetch=1", pipeline(), {"device_prefetch": 1}),
            ("device_prefetch=8", pipeline(), {"device_prefetch": 8}),
            ("pin_memory=False", pipeline(), {"pin_memory": False}),
            ("as sent", pipeline(), {"apply_device_transform": False}),
            *[(dtype, pipeline(T.ToDtype(dtype)), {}) for dtype in ("float16", "bfloat16", "float64")]]:
        fields = ["image", "label", "valid", "sample_index"]
        steps = 0
        host = loader(given, fields=fields, apply_device_transform=named.get("apply_device_transform", True))
        for right, made in zip(host, loader(given, fields=fields, device=DEVICE, **named), strict=True):
            slow_work()
            for name, one, other in zip(fields, right, made, strict=True):
                check(other.device.type == torch.device(DEVICE).type, f"{what}: {name} is on {other.device}")
                check(one.dtype == other.dtype and one.stride() == other.stride(),
                      f"{what}, step {steps}: {name} is {other.dtype} with strides {other.stride()}")
                check(torch.equal(one, other.cpu()), f"{what}, step {steps}: {name} differs")
            steps += 1
        print(f"{what}: {steps} batches are those of the host, bit by bit")


def batches_live_until_queued_work_has_read_them():
    right = [images.clone() for images, _ in loader(pipeline())]
    kept = []
    for images, _ in loader(pipeline(), device=DEVICE):
        slow_work(3)
        kept.append(images.clone())     # queued behind the slow work
        del images                      # its memory may be used again, but not before that
    check(all(torch.equal(one, other.cpu()) for one, other in zip(right, kept, strict=True)),
          "a batch was overwritten before work that was queued on the stream of next() had read it")
    if CUDA:
        kept, side = [], torch.cuda.Stream()
        for images, _ in loader(pipeline(), device=DEVICE):
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                slow_work(3)
                kept.append(images.clone())
            images.record_stream(side)
            del images
        torch.cuda.synchronize()
        check(all(torch.equal(one, other.cpu()) for one, other in zip(right, kept, strict=True)),
              "a batch was overwritten before work on another stream had read it, in spite of record_stream()")
        kept = []
        with torch.cuda.stream(torch.cuda.Stream()):    # the loop itself on another stream
            for images, _ in loader(pipeline(), device=DEVICE):
                slow_work(3)
                kept.append(images.clone())
            torch.cuda.synchronize()
        check(all(torch.equal(one, other.cpu()) for one, other in zip(right, kept, strict=True)),
              "batches of a loop on another stream are wrong")
    print(f"{len(right)} batches lived as long as queued work needed them")


def the_host_does_not_wait_for_the_device():
    if not CUDA:
        return
    batches = iter(loader(pipeline(), device=DEVICE))
    for _ in range(8):
        next(batches)
    time.sleep(1)                       # the next ones are received
    torch.cuda.synchronize()
    slow_work(400)                      # about a second
    busy = torch.cuda.Event()
    busy.record()
    began = time.perf_counter()
    for number in range(4):
        next(batches)
        check(not busy.query(), f"next() number {number + 1} has waited for work that the program had queued")
    print(f"4 x next() took {time.perf_counter() - began:.4f} s while the GPU was busy")
    torch.cuda.synchronize()


def refusals_and_errors():
    if not CUDA:
        return
    try:
        loader(pipeline(), device="cuda:99").open()
        sys.exit("FAILED: cuda:99 was taken")
    except millrace.InvalidArgumentError as error:
        print(error)
    torch.cuda.empty_cache()
    whole = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction((torch.cuda.memory_reserved() + (64 << 20)) / whole)
    batches = iter(loader(pipeline(), batch_size=512, device=DEVICE))    # 157 MB
    try:
        next(batches)
        sys.exit("FAILED: a batch found memory that there is not")
    except torch.cuda.OutOfMemoryError as error:
        check("device_prefetch=" in "".join(error.__notes__), f"the error has no advice: {error}")
        print(error.__notes__[0])
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    images, _ = next(batches)
    check(torch.equal(images.cpu(), next(iter(loader(pipeline(), batch_size=512)))[0]),
          "the batch after an error differs")


def rates():
    """Images a second, and the share of the time in next(), of a loop whose steps take about 3 ms of an H100.
    The servers of the same machine keep up with less than that, so this is a look and no benchmark."""
    def measure(what, batches, move):
        seconds, waited, rows, began = 0.0, 0.0, 0, None
        iterator = iter(batches)
        while True:
            asked = time.perf_counter()
            batch = next(iterator, None)
            if batch is None:
                break
            waited += time.perf_counter() - asked
            images = move(batch[0])
            slow_work()
            images.float().mean()
            rows += len(images)
            if began is None:           # the first batch does not count
                began, waited, rows = time.perf_counter(), 0.0, 0
        if CUDA:
            torch.cuda.synchronize()
        seconds = time.perf_counter() - began
        print(f"{what}: {rows / seconds:,.0f} images/s, {100 * waited / seconds:.1f} % in next()")

    for _ in range(3):
        measure(".to(device)", loader(pipeline(size=224), pin_memory=False), lambda images: images.to(DEVICE))
        measure(".to(device, non_blocking=True)", loader(pipeline(size=224)),
                lambda images: images.to(DEVICE, non_blocking=True))
        measure("device=", loader(pipeline(size=224), device=DEVICE), lambda images: images)


print(f"torch {torch.__version__}, millrace {millrace.__version__}")
bytes_are_those_of_the_host()
batches_live_until_queued_work_has_read_them()
the_host_does_not_wait_for_the_device()
refusals_and_errors()
rates()
