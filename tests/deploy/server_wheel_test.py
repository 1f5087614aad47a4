"""The wheel millrace-server: the programs as pip installs them, from packing to serving."""

import glob
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest
import zipfile

import dataset
import graft_libraries
import wheel_file

_BUILT = "deploy/python/millrace_server.whl"


def _run(*command):
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          check=False, env={"PATH": "/usr/bin:/bin"})


class ServerWheel(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(dir="/tmp")
        cls.addClassCleanup(folder.cleanup)
        cls.work = folder.name
        wheel = os.path.join(cls.work, wheel_file.name_of(_BUILT))
        shutil.copyfile(_BUILT, wheel)
        environment = os.path.join(cls.work, "environment")
        for command in ([sys.executable, "-m", "venv", "--without-pip", environment],
                        [sys.executable, "-m", "pip", "--python", f"{environment}/bin/python",
                         "install", "--quiet", "--disable-pip-version-check", "--no-index",
                         "--no-deps", wheel]):
            result = _run(*command)
            if result.returncode != 0:
                raise AssertionError(result.stdout + result.stderr)
        cls.bin = os.path.join(environment, "bin")
        cls.package = glob.glob(f"{environment}/lib/python3*/site-packages/millrace_server")[0]

    def test_pack_serve_and_audit(self):
        for kind in ("lmdb", "parquet"):
            with self.subTest(kind):
                folder = os.path.join(self.work, kind)
                os.mkdir(folder)
                dataset.write_digits(os.path.join(folder, "digits"))
                uri = f"{kind}:{folder}/digits.{kind}"
                result = _run(f"{self.bin}/millrace-data", "pack", "--format=idx", "--split=train",
                              f"--input={folder}/digits", f"--output={uri}")
                self.assertEqual(result.returncode, 0, result.stderr)
                server = subprocess.Popen(
                    [f"{self.bin}/millrace-server", f"--dataset=digits={uri}",
                     "--listen=127.0.0.1:0"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL, text=True, env={})
                try:
                    address = server.stdout.readline().removeprefix("listening on ").strip()
                    result = _run(f"{self.bin}/millrace", "audit", f"--endpoint={address}",
                                  "--dataset=digits", "--preset=mnist", "--batch_size=100",
                                  "--world=2")
                    self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
                    # The script has become the program: a signal ends it.
                    server.send_signal(signal.SIGTERM)
                    self.assertEqual(server.wait(30), 0)
                finally:
                    server.kill()
                    server.communicate()

    def test_arguments_and_exit_codes_are_the_program_s(self):
        result = _run(f"{self.bin}/millrace-server", "--no_such_flag")
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("no_such_flag", result.stderr)
        for name in ("millrace", "millrace-data", "millrace-server"):
            result = _run(f"{self.bin}/{name}", "--help")
            self.assertEqual((result.returncode, result.stderr), (0, ""))
            self.assertIn(f"usage: {name}", result.stdout)

    def test_the_module_names_the_programs(self):
        result = _run(f"{self.bin}/python", "-c", "import millrace_server as m\n"
                      "print(*map(m.program, m.PROGRAMS))\n"
                      "try: m.program('x')\nexcept ValueError as error: print(error)")
        self.assertEqual(result.stderr, "")
        programs, error = result.stdout.splitlines()
        self.assertTrue(all(os.access(program, os.X_OK) for program in programs.split()), programs)
        self.assertIn("millrace-server", error)

    def test_it_needs_nothing_of_the_machine_but_the_run_time(self):
        for name in ("millrace", "millrace-data", "millrace-server"):
            for line in _run("ldd", f"{self.package}/bin/{name}").stdout.splitlines():
                library, arrow, path = line.strip().partition(" => ")
                if arrow and not path.startswith(self.package):
                    self.assertRegex(library, graft_libraries.BASE)

    def test_metadata_and_licences(self):
        with zipfile.ZipFile(_BUILT) as archive:
            names = archive.namelist()
            info = next(name for name in names if name.endswith("/METADATA"))
            text = archive.read(info).decode()
        self.assertRegex(text, r"(?m)^Name: millrace-server$")
        for licence in ("LICENSE", "pyarrow/LICENSE.txt", "debian/liblmdb0/copyright",
                        "debian/libjpeg62-turbo/copyright"):
            self.assertIn(f"License-File: {licence}\n", text)
            self.assertTrue(any(name.endswith(f"/licenses/{licence}") for name in names), licence)
        self.assertLess(os.path.getsize(_BUILT), 60e6)
        self.assertTrue(re.search(r"millrace_server-[\d.]+-py3-none-manylinux_2_35_x86_64\.whl$",
                                  wheel_file.name_of(_BUILT)))
