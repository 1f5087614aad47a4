"""The matrix of tools/prove-one-process: one process for each row, one line for each.

    run.py --python=FILE --server=FILE --plain=FILE --grafted=FILE
           [--seconds=N] [--quick] [--only=TEXT] [--may_survive]

    --plain     libmillrace.so.1 as it is linked, against the machine's libraries
    --grafted   its graft (tools/graft_libraries.py)
    --seconds   traffic of each order of imports (default 30)
    --quick     5 orders instead of 20
    --only      only the rows whose names contain the text
    --may_survive
                the plain library need not crash: some releases of TensorFlow keep
                their symbols to themselves

First come controls: the plain library must crash after TensorFlow, and its symbols
must be bound to other packages' libraries. Without them the other rows would prove
nothing. The last line is "N passed, N failed"; exit code 1 when one
failed. A row that fails is run again without Millrace: when the other packages fail
alone, the line says so.
"""

import argparse
import collections
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

_HERE = os.path.dirname(os.path.abspath(__file__))
_FOREIGN = ["torch", "tensorflow", "pyarrow", "grpc"]
# Upper bound of the time to import everything on two busy cores.
_SLACK_SECONDS = 180

# `packages` and `leave_open` are arguments of worker.py.
Row = collections.namedtuple("Row", "name packages leave_open", defaults=[False])


def orders(quick):
    """Millrace at every place among the others, and these in every rotation."""
    rotations = [_FOREIGN[i:] + _FOREIGN[:i] for i in range(len(_FOREIGN))]
    found = [rotation[:place] + ["millrace"] + rotation[place:]
             for rotation in rotations for place in range(len(_FOREIGN) + 1)]
    return found[::4] if quick else found


def rows(quick):
    """The rows after the controls, for the grafted library."""
    found = [Row(", ".join(order), order) for order in orders(quick)]
    for name in _FOREIGN:
        found.append(Row(f"{name} with RTLD_GLOBAL, millrace", [name + "!", "millrace"]))
        found.append(Row(f"millrace, {name} with RTLD_GLOBAL", ["millrace", name + "!"]))
    for place in (0, 2, 4):
        order = _FOREIGN[:place] + ["millrace"] + _FOREIGN[place:]
        found.append(Row(f"{', '.join(order)}; exit with an open loader", order, True))
    return found


class Matrix:

    def __init__(self, options, endpoint):
        self._options = options
        self._endpoint = endpoint
        self._digest = ""

    def run(self, library, packages, seconds, leave_open=False, environment=None):
        """(exit code or None for a hang, stdout, stderr) of one process."""
        command = [self._options.python, "-B", os.path.join(_HERE, "worker.py"),
                   f"--library={getattr(self._options, library)}", f"--endpoint={self._endpoint}",
                   f"--seconds={seconds}", f"--digest={self._digest}"]
        command += ["--leave_open"] if leave_open else []
        try:
            result = subprocess.run(command + packages, stdin=subprocess.DEVNULL, capture_output=True,
                                    text=True, errors="replace", check=False,
                                    timeout=seconds + _SLACK_SECONDS,
                                    env={**os.environ, **(environment or {})})
        except subprocess.TimeoutExpired as expired:
            return None, "", (expired.stderr or b"").decode(errors="replace")
        return result.returncode, result.stdout, result.stderr

    def learn_digest(self):
        """Of the plain library, alone in its process."""
        code, out, err = self.run("plain", ["millrace"], 1)
        found = re.search(r"^epochs \d+ digest (\w+)$", out, re.M)
        if code != 0 or not found:
            sys.exit(f"the plain library fails even alone: {verdict(code, out, err)}")
        self._digest = found[1]

    def foreign_bindings(self, library):
        """Symbols of ours that the loader bound to others' libraries and the reverse,
        as {library: count}; members of libstdc++'s templates apart, which everybody's
        libraries bind to the first copy in the process."""
        with tempfile.TemporaryDirectory() as folder:
            self.run(library, _FOREIGN + ["millrace"], 1, environment={
                "LD_DEBUG": "bindings", "LD_DEBUG_OUTPUT": os.path.join(folder, "log")})
            ours = os.path.dirname(self._options.grafted) + "/" if library == "grafted" else None
            return count_bindings(folder, ours)


# The libraries that the client needs, under Debian's names.
_DEBIAN = re.compile(r"^/(usr/)?lib/.*/(libgrpc|libgpr|libprotobuf|libabsl_|libupb|libre2|"
                     r"libaddress_sorting|libcares|libzstd)|libmillrace\.so\.1$")
# Python's own modules use the machine's OpenSSL and zlib, as the plain library does.
_RUNTIME = re.compile(r"/(libc|libm|libdl|librt|libpthread|libresolv|libstdc\+\+|libgcc_s|ld-linux-x86-64|"
                      r"libssl|libcrypto|libz)\.so")
_BINDING = re.compile(r"binding file (\S+) \[\d+\] to (\S+) \[\d+\]: \w+ symbol [`'](\S+?)'")


def count_bindings(folder, ours):
    """`ours`: the folder of the grafted libraries; None: the plain ones."""
    def is_ours(path):
        return path.startswith(ours) if ours else bool(_DEBIAN.search(path))

    count = collections.Counter()
    for name in os.listdir(folder):
        with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as log:
            for line in log:
                found = _BINDING.search(line)
                if not found:
                    continue
                user, definer, symbol = found.groups()
                if is_ours(user) == is_ours(definer) or _RUNTIME.search(definer) or _RUNTIME.search(user):
                    continue
                if is_ours(definer) and symbol.startswith("millrace_"):
                    continue
                if re.match(r"_ZN?K?(St|Ss|Sa)", symbol) or "NSt7__cxx11" in symbol[:14]:
                    count["libstdc++'s templates"] += 1
                else:
                    count[os.path.basename(definer if is_ours(user) else user)] += 1
    return count


def verdict(code, out, err):
    """One line: why a process did not pass."""
    if code is None:
        return "hangs"
    if code < 0:
        return f"ended by {signal.Signals(-code).name}"
    lines = [line for line in err.splitlines() if line.strip()]
    return f"exit code {code}: {lines[-1] if lines else out.strip()}"


def main(argv):
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("python", "server", "plain", "grafted"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--seconds", type=int, default=30)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--may_survive", action="store_true")
    options = parser.parse_args(argv[1:])
    options.grafted = os.path.realpath(options.grafted)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))

    log = tempfile.TemporaryFile("w+")
    server = subprocess.Popen([options.server, "--synthetic_only", "--listen=127.0.0.1:0"],
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True)
    try:
        line = server.stdout.readline()
        found = re.match(r"listening on (\S+)", line)
        if not found:
            server.wait()
            log.seek(0)
            sys.exit(f"{options.server} does not start: {line}{log.read()[-2000:]}")
        return prove(Matrix(options, found[1]), options)
    finally:
        server.terminate()
        server.wait()


def prove(matrix, options):
    passed = failed = 0

    def report(good, name, text, began):
        nonlocal passed, failed
        passed, failed = passed + good, failed + (not good)
        print(f"{'passed' if good else 'FAILED'}  {name} ({time.monotonic() - began:.0f} s): {text}", flush=True)

    matrix.learn_digest()
    wanted = lambda name: options.only in name  # noqa: E731

    name = "control: tensorflow, plain millrace"
    if wanted(name):
        began = time.monotonic()
        alone = matrix.run("plain", ["tensorflow"], 1)
        code, out, err = matrix.run("plain", ["tensorflow", "millrace"], 5)
        if alone[0] != 0:
            report(False, name, f"tensorflow fails even alone: {verdict(*alone)}", began)
        elif code is not None and code < 0:
            report(True, name, f"crashes, as it must: {verdict(code, out, err)}", began)
        else:
            text = "does not crash: " + ("works" if code == 0 else verdict(code, out, err))
            if options.may_survive:
                print(f"note    {name}: {text}", flush=True)
            else:
                report(False, name, f"{text}. These packages prove nothing", began)
    for library in ("plain", "grafted"):
        name = f"symbols bound across the border, {library} millrace"
        if wanted(name):
            began = time.monotonic()
            count = matrix.foreign_bindings(library)
            strange = sum(n for where, n in count.items() if where != "libstdc++'s templates")
            text = ", ".join(f"{n} {where}" for where, n in count.most_common()) or "none"
            report((strange > 0) == (library == "plain"), name, text, began)
    for row in rows(options.quick):
        if not wanted(row.name):
            continue
        began = time.monotonic()
        code, out, err = matrix.run("grafted", row.packages, options.seconds, row.leave_open)
        text = "; ".join(out.splitlines()[-2:])
        if code != 0:
            text = verdict(code, out, err)
            others = [p for p in row.packages if p != "millrace"]
            alone = matrix.run("grafted", others, min(options.seconds, 5))
            if alone[0] != 0:
                text += f"; so do the others without millrace: {verdict(*alone)}"
            else:
                print(err[-6000:], file=sys.stderr)
        report(code == 0, row.name, text, began)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
