"""The wheel: its names, its files, what it imports, and that it needs nothing but the run-time
libraries of the machine."""

import base64
import csv
import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import zipfile

import build_wheel
import graft_libraries
import portable_files
import wheel_file
from case import PackageCase

_BUILT = "client/python/millrace.whl"


class Wheel(PackageCase):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.files = zipfile.ZipFile(_BUILT)
        cls.addClassCleanup(cls.files.close)

    def _info(self, name):
        path = next(n for n in self.files.namelist() if n.endswith(f".dist-info/{name}"))
        return self.files.read(path).decode()

    def test_the_record_has_every_file(self):
        rows = {row[0]: row[1:] for row in csv.reader(io.StringIO(self._info("RECORD")))}
        self.assertEqual(set(rows), set(self.files.namelist()))
        for name, (digest, size) in rows.items():
            if name.endswith("/RECORD"):
                continue
            data = self.files.read(name)
            expected = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
            self.assertEqual((digest, size), (f"sha256={expected}", str(len(data))), name)

    def test_it_is_for_every_later_python_on_linux(self):
        self.assertIn("Tag: cp311-abi3-manylinux_2_35_x86_64\n", self._info("WHEEL"))
        self.assertIn("Requires-Python: >=3.11\n", self._info("METADATA"))
        self.assertRegex(os.path.basename(self.package.wheel),
                         r"^millrace-[\d.]+-cp311-abi3-manylinux_2_35_x86_64\.whl$")

    def test_it_is_small(self):
        self.assertLess(os.path.getsize(_BUILT), 30e6)

    def test_it_has_the_licence_of_each_library(self):
        licenses = [n for n in self.files.namelist() if "/licenses/" in n]
        for package in ("libgrpc29", "libprotobuf32", "libssl3", "zlib1g"):
            self.assertTrue(any(f"/debian/{package}/copyright" in n for n in licenses), package)
        for name in licenses:
            self.assertIn("License-File: " + name.split("/licenses/")[1], self._info("METADATA"))

    def test_it_needs_nothing_of_the_machine_but_the_run_time(self):
        folder = os.path.join(self.package.site, "millrace")
        extension = os.path.join(folder, "_millrace.abi3.so")
        output = subprocess.run(["ldd", extension], capture_output=True, text=True, check=True).stdout
        for line in output.splitlines():
            name, arrow, path = line.strip().partition(" => ")
            if arrow and not path.startswith(folder):
                self.assertRegex(name, graft_libraries.BASE)
        self.assertIn("libprotobuf", output)

    def test_the_import_brings_no_framework(self):
        result = self.package.run("print(*sorted({name.split('.')[0] for name in sys.modules}))")
        self.assertEqual(result.returncode, 0, result.stderr)
        modules = result.stdout.split()
        self.assertIn("millrace", modules)
        self.assertFalse({"torch", "numpy", "google", "grpc"} & set(modules))

    def test_its_version_is_that_of_the_release(self):
        result = self.package.run("import importlib.metadata as m\n"
                                  "print(millrace.__version__, m.version('millrace'))")
        self.assertRegex(result.stdout, r"^(\d+\.\d+\.\d+) \1\n$")

    def test_the_same_input_gives_the_same_bytes(self):
        # Of the files that the build has: the libraries themselves are grafted in graft_libraries_test.
        copies = []
        for number in range(2):
            path = os.path.join(self.work, f"copy{number}.zip")
            with open(path + ".license", "w", encoding="ascii") as file:
                file.write("free")
            wheel = wheel_file.Wheel(path, "millrace", "1", "py3-none-any")
            wheel.add("millrace/a.py", b"text")
            wheel.add("millrace/_libs/b.so", b"\x00" * 1000, executable=True)
            wheel.finish(["Summary: none"], "text", {"LICENSE": path + ".license"})
            with open(path, "rb") as file:
                copies.append(file.read())
        self.assertEqual(*copies)

    def test_a_library_that_is_too_new_is_refused(self):
        portable_files.check_levels("a.so", {"libc.so.6": {"GLIBC_2.35", "GLIBC_PRIVATE"}})
        with self.assertRaisesRegex(portable_files.PortableError, "a.so needs GLIBC_2.36"):
            portable_files.check_levels("a.so", {"libc.so.6": {"GLIBC_2.2.5", "GLIBC_2.36"}})

    def test_a_library_without_a_licence_is_refused(self):
        path = os.path.join(self.work, "libown.so")
        with self.assertRaisesRegex(portable_files.PortableError, "licence of .*libown.so"):
            portable_files.find_licenses([path])

    def test_an_extension_that_looks_elsewhere_is_refused(self):
        with self.assertRaisesRegex(portable_files.PortableError, "needs|looks for"):
            build_wheel.check_extension(os.path.join(
                self.package.site, "millrace", "_libs", "libmillrace.so.1"))

    def test_a_file_that_is_no_wheel_of_ours_is_named(self):
        path = os.path.join(self.work, "other.whl")
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("other/__init__.py", "")
        for argument in (path, f"{self.work}/missing"):
            result = subprocess.run([sys.executable, "-B", build_wheel.__file__, "name", argument],
                                    capture_output=True, text=True, check=False)
            self.assertEqual(result.returncode, 1)
            self.assertIn(argument, result.stderr)

    def test_a_library_of_another_interface_is_refused(self):
        # The module asks the library, before anything else.
        folder = os.path.join(self.work, "other")
        shutil.copytree(os.path.join(self.package.site, "millrace"),
                        os.path.join(folder, "millrace"))
        library = os.path.join(folder, "millrace", "_libs", "libmillrace.so.1")
        names = sorted(set(re.findall(r"\bmillrace_\w+", subprocess.run(
            ["nm", "-D", "--undefined-only", os.path.join(folder, "millrace", "_millrace.abi3.so")],
            capture_output=True, text=True, check=True).stdout)) - {"millrace_interface_version"})
        source = os.path.join(self.work, "other.c")
        with open(source, "w", encoding="ascii") as file:
            file.write("unsigned millrace_interface_version(void) { return 99; }\n")
            file.writelines(f"void {name}(void) {{}}\n" for name in names)
        subprocess.run(["cc", "-shared", "-fPIC", "-Wl,-soname,libmillrace.so.1", "-o", library,
                        source], check=True)
        result = subprocess.run(
            [self.package.python, "-c", "import millrace"],
            env=self.package.environment(numpy=False, PYTHONPATH=folder), capture_output=True,
            text=True, check=False)
        self.assertIn("ImportError: libmillrace.so has interface version 99", result.stderr)
