"""The package for C and C++ (tools/package): its files, and the programs of docs/package.md built with
CMake against it and against the libtorch of the PyTorch wheel, run against a server.

Other wheels of PyTorch, too, when MILLRACE_OTHER_TORCH names their folders `torch`, separated by colons
(docs/package.md)."""

import glob
import io
import os
import re
import shlex
import subprocess
import sys
import tarfile
import tempfile
import unittest

import build_package
import dataset
import elf_file
import graft_libraries
import portable_files

_BUILT = "client/c/millrace.tar.gz"


def _root():
    return os.path.dirname(os.path.realpath("WORKSPACE"))


def _read(path):
    with open(os.path.join(_root(), path), encoding="utf-8") as file:
        return file.read()


def _run(*words, **options):
    return subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          check=False, **options)


def _torch_folder():
    """The folder `torch` of the wheel; Bazel's links lead to the whole of it."""
    (library,) = [file for pattern in ("_solib_*/*/libtorch_cpu.so",
                                       "../torch/torch/lib/libtorch_cpu.so")
                  for file in glob.glob(pattern)][:1]
    return os.path.dirname(os.path.dirname(os.path.realpath(library)))


def _has_the_former_abi(torch):
    """Whether C++ strings of this wheel are those before GCC 5."""
    library = elf_file.ElfFile(os.path.join(torch, "lib/libc10.so"))
    return not any("c10" in symbol.name and "__cxx11" in symbol.name for symbol in library.exports())


class _Case(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(dir="/tmp")
        cls.addClassCleanup(folder.cleanup)
        cls.work = folder.name
        # Moved after it was unpacked, to a path with a space.
        with tarfile.open(_BUILT) as archive:
            archive.extractall(cls.work)
        os.mkdir(os.path.join(cls.work, "other place"))
        cls.name = build_package.name_of(_BUILT)
        cls.package = os.path.join(cls.work, "other place", cls.name)
        os.rename(os.path.join(cls.work, cls.name), cls.package)

    def cmake(self, *arguments):
        return _run("cmake", *arguments, cwd=_root(),
                    env={name: os.environ[name] for name in ("PATH", "TMPDIR") if name in os.environ})


class Files(_Case):

    def test_the_name_has_the_version_and_the_machine(self):
        version = portable_files.read_version(os.path.join(_root(), "common/version.h"))
        self.assertEqual(self.name, f"millrace-{version}-linux-x86_64")

    def test_everything_is_in_its_place(self):
        found = {os.path.relpath(os.path.join(parent, name), self.package)
                 for parent, _, names in os.walk(self.package) for name in names}
        licenses = {name for name in found if name.startswith("share/doc/millrace/licenses/")}
        libraries = {name for name in found if re.fullmatch(r"lib/lib[\w+-]+-\w{8}\.so[.\d]*", name)}
        self.assertEqual(found - licenses - libraries, {
            "include/millrace.h", "include/millrace.hpp", "include/millrace_dlpack.h",
            "include/millrace_torch.hpp", "lib/libmillrace.so", "lib/libmillrace.so.1",
            "lib/cmake/Millrace/MillraceConfig.cmake",
            "lib/cmake/Millrace/MillraceConfigVersion.cmake"})
        self.assertGreater(len(libraries), 20)
        self.assertEqual(os.readlink(os.path.join(self.package, "lib/libmillrace.so")),
                         "libmillrace.so.1")
        for package in ("LICENSE", "debian/libgrpc29/copyright", "debian/libprotobuf32/copyright",
                        "debian/libssl3/copyright", "debian/zlib1g/copyright"):
            self.assertIn(f"share/doc/millrace/licenses/{package}", licenses)
        for name in ("millrace.h", "millrace.hpp", "millrace_dlpack.h", "millrace_torch.hpp"):
            with open(os.path.join(self.package, "include", name), encoding="utf-8") as file:
                self.assertEqual(file.read(), _read("client/c/" + name))
        self.assertLess(os.path.getsize(_BUILT), 30e6)

    def test_the_files_belong_to_nobody_and_have_no_time(self):
        with tarfile.open(_BUILT) as archive:
            for entry in archive:
                self.assertEqual((entry.uid, entry.gid, entry.uname, entry.mtime), (0, 0, "", 0))
                self.assertEqual(entry.mode & 0o7022, 0 if entry.isfile() else 0o022, entry.name)

    def test_it_needs_nothing_of_the_machine_but_the_run_time(self):
        library = os.path.join(self.package, "lib/libmillrace.so.1")
        output = _run("ldd", library).stdout
        for line in output.splitlines():
            name, arrow, path = line.strip().partition(" => ")
            if arrow and not path.startswith(self.package):
                self.assertRegex(name, graft_libraries.BASE)
        self.assertIn("libprotobuf", output)
        names = {symbol.name for symbol in elf_file.ElfFile(library).exports()}
        self.assertIn("millrace_options_validate", names)
        self.assertEqual({name for name in names if not name.startswith("millrace_")}, set())

    def test_the_same_input_gives_the_same_bytes(self):
        # Of the files that the build has: the libraries are grafted in graft_libraries_test.
        copies = []
        for number in range(2):
            path = os.path.join(self.work, f"copy{number}.tar.gz")
            package = build_package.Package(path, "millrace-1")
            package.add("include/a.h", b"text")
            package.add("lib/b.so.1", b"\x00" * 1000, executable=True)
            package.link("lib/b.so", "b.so.1")
            package.finish()
            copies.append(portable_files.read_bytes(path))
        self.assertEqual(*copies)
        with tarfile.open(fileobj=io.BytesIO(copies[0])) as archive:
            self.assertEqual([(entry.name, entry.mode) for entry in archive],
                             [("millrace-1/include/a.h", 0o644), ("millrace-1/lib/b.so.1", 0o755),
                              ("millrace-1/lib/b.so", 0o777)])

    def test_what_is_no_package_of_ours_is_named(self):
        path = os.path.join(self.work, "other.tar.gz")
        package = build_package.Package(path, "other-1")
        package.add("a", b"")
        package.finish()
        for argument in (path, f"{self.work}/missing", __file__):
            result = _run(sys.executable, "-B", build_package.__file__, "name", argument)
            self.assertEqual(result.returncode, 1)
            self.assertIn(argument, result.stderr)


class Found(_Case):
    """find_package() in a project of its own."""

    def configure(self, line, *arguments):
        folder = tempfile.mkdtemp(dir=self.work)
        with open(os.path.join(folder, "CMakeLists.txt"), "w", encoding="utf-8") as file:
            file.write("cmake_minimum_required(VERSION 3.18)\nproject(user LANGUAGES C)\n" + line +
                       "\nget_target_property(place Millrace::client IMPORTED_LOCATION)\n"
                       "message(STATUS \"${Millrace_VERSION} at ${place}\")\n")
        return self.cmake("-S", folder, "-B", os.path.join(folder, "build"),
                          f"-DCMAKE_PREFIX_PATH={self.package}", *arguments)

    def test_it_is_found_where_it_lies(self):
        version = self.name.split("-")[1]
        for line in ("find_package(Millrace REQUIRED)", f"find_package(Millrace {version} REQUIRED)",
                     f"find_package(Millrace {version} EXACT REQUIRED)",
                     "find_package(Millrace 0.1 REQUIRED)",
                     "find_package(Millrace REQUIRED)\nfind_package(Millrace REQUIRED)"):
            result = self.configure(line)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertIn(f"{version} at {self.package}/lib/libmillrace.so.1", result.stdout)

    def test_another_version_is_refused(self):
        for asked in ("99.0", "1.0", "0.99", "0.0.1 EXACT"):
            result = self.configure(f"find_package(Millrace {asked} REQUIRED)")
            self.assertNotEqual(result.returncode, 0, asked)
            self.assertIn("version: " + self.name.split("-")[1], result.stderr)

    def test_another_machine_is_refused(self):
        result = self.configure("set(CMAKE_SYSTEM_PROCESSOR aarch64)\nfind_package(Millrace REQUIRED)")
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("this package of Millrace is for Linux on x86-64", result.stderr)


class Programs(_Case):
    """Built as docs/package.md says."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        uri = dataset.pack("server/data_tool/millrace-data", cls.work)
        cls.server = subprocess.Popen(
            ["server/millrace-server", f"--dataset=digits={uri}", "--listen=127.0.0.1:0"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        cls.addClassCleanup(cls._stop)
        cls.endpoint = cls.server.stdout.readline().removeprefix("listening on ").strip()

    @classmethod
    def _stop(cls):
        cls.server.terminate()
        cls.server.wait()
        cls.server.stdout.close()

    def build(self, torch=None):
        """Runs the commands of the document, with the folder `torch` of a wheel or without it; the
        folder of the programs."""
        document = _read("docs/package.md")
        configure = re.findall(r"^    (cmake -S .*)$", document, re.MULTILINE)
        (build,) = set(re.findall(r"^    (cmake --build .*)$", document, re.MULTILINE))
        (command,) = [line for line in configure if ("TORCH_FOLDER" in line) == (torch is not None)]
        command = re.sub(r"TORCH_FOLDER=\$\(.*\)$", f"TORCH_FOLDER={torch}", command)
        if torch is not None and _has_the_former_abi(torch):
            command += " " + re.findall(r"`(-DCMAKE_CXX_FLAGS=\S+)`", document)[0]
        folder = tempfile.mkdtemp(dir=self.work)
        for line in (command, build):
            words = [word.replace("FOLDER_OF_THE_PACKAGE", self.package)
                     for word in shlex.split(line)]
            words = [folder if word == "build" else word for word in words]
            result = self.cmake(*words[1:])
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        return folder

    def run_program(self, *words):
        # One thread: others would spin while a busy machine runs something else.
        return _run(*words, timeout=300, env={"OMP_NUM_THREADS": "1"})

    def test_the_document_shows_the_programs(self):
        blocks = re.findall(r"^```c\+\+\n(.*?)^```$", _read("docs/package.md"),
                            re.MULTILINE | re.DOTALL)
        self.assertEqual(blocks, [_read("docs/example/c/train_linear.cc")])

    def test_a_c_program_without_libtorch(self):
        folder = self.build()
        self.assertFalse(os.path.exists(os.path.join(folder, "train_linear")))
        program = os.path.join(folder, "read_batches")
        ran = self.run_program(program, self.endpoint, "digits", "2000")
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertEqual(ran.stdout.count("2000 samples\n"), 10)
        self.assertIn("  image uint8 [2000, 28, 28, 1]", ran.stdout)
        ran = self.run_program(program, self.endpoint, "letters", "2")
        self.assertEqual(ran.returncode, 1)
        self.assertIn("NOT_FOUND: ", ran.stderr)

    def train(self, torch):
        """(Epoch, step, loss) of each line that the program prints; and the program."""
        program = os.path.join(self.build(torch), "train_linear")
        ran = self.run_program(program, self.endpoint, "digits", "mnist")
        self.assertEqual(ran.returncode, 0, ran.stderr)
        return program, re.findall(r"^epoch (\d) step (\d+): loss ([\d.]+)$", ran.stdout,
                                   re.MULTILINE)

    def test_a_cxx_program_with_libtorch(self):
        program, steps = self.train(_torch_folder())
        self.assertEqual([(epoch, int(step)) for epoch, step, _ in steps],
                         [(epoch, step) for epoch in "01"
                          for step in range(dataset.SAMPLES // 64)])
        # Ten classes and no weights yet: log(10).
        self.assertAlmostEqual(float(steps[0][2]), 2.302585, delta=1e-4)
        for torch in filter(None, os.environ.get("MILLRACE_OTHER_TORCH", "").split(":")):
            with self.subTest(torch):
                others = self.train(torch)[1]
                self.assertEqual([line[:2] for line in others], [line[:2] for line in steps])
                for one, other in zip(steps, others):
                    self.assertAlmostEqual(float(one[2]), float(other[2]), delta=1e-4)
        ran = self.run_program(program, self.endpoint, "letters", "mnist")
        self.assertEqual(ran.returncode, 1)
        self.assertIn("NOT_FOUND: ", ran.stderr)


if __name__ == "__main__":
    unittest.main()
