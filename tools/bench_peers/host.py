"""The machine that a comparison runs on, and programs that are run on it to their end.

    output, error = run(["millrace", "bench", ...], timeout=60)
    found = parse(output)
"""

import json
import os
import platform
import re
import signal
import subprocess
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def busy_share(seconds=0.5):
    """Of all cores, the share that is in use by whatever runs now."""
    def times():
        with open("/proc/stat", encoding="ascii") as file:
            numbers = list(map(int, file.readline().split()[1:]))
        return sum(numbers[:8]), numbers[3] + numbers[4]
    total, idle = times()
    time.sleep(seconds)
    total2, idle2 = times()
    return 1 - (idle2 - idle) / max(1, total2 - total)


def machine():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        text = file.read()
    model = re.search(r"model name\s*: (.*)", text)
    flags = set((re.search(r"flags\s*: (.*)", text) or [None, ""])[1].split())
    return {
        "cpu": model[1] if model else platform.machine(),
        "vectors": [f for f in ("sse4_2", "avx2", "bmi2", "avx512bw", "avx512_vnni") if f in flags],
        "cores": os.cpu_count(),
        "hypervisor": "hypervisor" in flags,
        "kernel": platform.release(),
        "memory_gib": round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30),
    }


def commit():
    result = subprocess.run(["git", "-C", ROOT, "describe", "--always", "--dirty"],
                            capture_output=True, text=True, check=False)
    return result.stdout.strip() or "unknown"


def run(words, timeout, environment=()):
    """(output, error sentence): the output of a program that ended well, or why it did not."""
    # Files, not pipes: a child that it leaves behind would hold a pipe open.
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        try:
            process = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=output, stderr=errors,
                start_new_session=True, env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3",
                                             "NO_ALBUMENTATIONS_UPDATE": "1", **dict(environment)})
        except OSError as error:
            return "", str(error)
        try:
            code = process.wait(timeout)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            try:  # and whatever it has started
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()
        if code is None:
            return "", f"took longer than {timeout:.0f} s"
        output.seek(0)
        errors.seek(0)
        if code == 0:
            return output.read(), ""
        lines = [line.strip() for line in errors if line.strip()]
        return "", (lines[-1] if lines else f"exit code {code}")[:300]


def parse(output):
    """The JSON object in the last line."""
    return json.loads(output.strip().splitlines()[-1])
