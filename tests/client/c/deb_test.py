"""The Debian package of the client for C and C++ (tools/package): what dpkg-deb says of it, and the C
program of docs/package.md built with CMake against the unpacked files, run against a server."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest

import build_deb
import dataset
import elf_file
import graft_libraries
import portable_files

_BUILT = "client/c/millrace.deb"
_TAR = "client/c/millrace.tar.gz"


def _root():
    return os.path.dirname(os.path.realpath("WORKSPACE"))


def _run(*words, **options):
    return subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          check=False, **options)


class Deb(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(dir="/tmp")
        cls.addClassCleanup(folder.cleanup)
        cls.work = folder.name
        cls.version = portable_files.read_version(os.path.join(_root(), "common/version.h"))
        cls.deb = os.path.join(cls.work, build_deb.name_of(_BUILT))
        shutil.copyfile(_BUILT, cls.deb)
        cls.root = os.path.join(cls.work, "root")
        cls.output_of("dpkg", "-x", cls.deb, cls.root)

    @classmethod
    def output_of(cls, *words, **options):
        result = _run(*words, **options)
        if result.returncode != 0:
            raise AssertionError(f"{words}: {result.stdout}{result.stderr}")
        return result.stdout

    def test_the_fields(self):
        self.assertEqual(os.path.basename(self.deb), f"libmillrace_{self.version}_amd64.deb")
        fields = dict(re.findall(r"^ ([\w-]+): (.*)$", self.output_of("dpkg-deb", "--info", self.deb),
                                 re.MULTILINE))
        self.assertEqual(
            {name: fields.get(name) for name in ("Package", "Version", "Architecture", "Depends")},
            {"Package": "libmillrace", "Version": self.version, "Architecture": "amd64",
             "Depends": "libc6 (>= 2.35), libgcc-s1 (>= 12), libstdc++6 (>= 12)"})
        self.assertGreater(int(fields["Installed-Size"]), 1000)

    def test_the_packages_that_it_depends_on_have_what_it_needs(self):
        # With what its libraries need.
        found = graft_libraries.find_libraries([os.path.join(self.root, "usr/lib/libmillrace.so.1")])
        others = {needed: path for needed, path in found.items() if not path.startswith(self.root)}
        packages = set()
        for needed, path in others.items():
            self.assertRegex(needed, graft_libraries.BASE)
            # A package may name the folder that is now a link to the other.
            said = "".join(_run("dpkg-query", "-S", candidate).stdout
                           for candidate in (path, path.removeprefix("/usr")))
            packages.add(said.split(":")[0])
        self.assertEqual(packages, {"libc6", "libgcc-s1", "libstdc++6"})

    def test_it_has_the_files_of_the_tar_below_usr_with_the_same_bytes(self):
        with tarfile.open(_TAR) as archive:
            expected = {}
            for entry in archive:
                name = entry.name.partition("/")[2]
                expected[name] = entry.linkname if entry.issym() else archive.extractfile(entry).read()
        found = {}
        for parent, _, names in os.walk(os.path.join(self.root, "usr")):
            for name in names:
                path = os.path.join(parent, name)
                found[os.path.relpath(path, os.path.join(self.root, "usr"))] = os.readlink(path) \
                    if os.path.islink(path) else portable_files.read_bytes(path)
        copyright_file = os.path.join(self.root, "usr/share/doc/libmillrace/copyright")
        self.assertIn("Apache License", portable_files.read_bytes(copyright_file).decode())
        del found["share/doc/libmillrace/copyright"]
        self.assertEqual(set(found), set(expected))
        for name, data in expected.items():
            self.assertTrue(found[name] == data, name)
        self.assertIn("lib/libmillrace.so.1", found)

    def test_its_files_are_root_s_and_their_sums_are_right(self):
        lines = self.output_of("dpkg-deb", "--contents", self.deb).splitlines()
        self.assertGreater(len(lines), 30)
        for line in lines:
            self.assertRegex(line, r"^(drwxr-xr-x|-rw-r--r--|-rwxr-xr-x|lrwxrwxrwx) root/root +\d+ "
                                   r"1970-01-01 ", line)
            self.assertRegex(line.split(" ./")[1], r"^(usr/.*)?$")
        control = os.path.join(self.work, "control")
        self.output_of("dpkg-deb", "-e", self.deb, control)
        self.output_of("md5sum", "--check", "--strict", os.path.join(control, "md5sums"), cwd=self.root)

    def test_the_same_tar_gives_the_same_bytes(self):
        copy = os.path.join(self.work, "copy.deb")
        self.output_of(sys.executable, "-B", build_deb.__file__, f"--output={copy}", _TAR)
        self.assertTrue(portable_files.read_bytes(copy) == portable_files.read_bytes(_BUILT))

    def test_what_is_no_package_of_ours_is_named(self):
        for argument in (_TAR, f"{self.work}/missing"):
            result = _run(sys.executable, "-B", build_deb.__file__, "name", argument)
            self.assertEqual(result.returncode, 1)
            self.assertIn(argument, result.stderr)
        result = _run(sys.executable, "-B", build_deb.__file__, f"--output={self.work}/none", _BUILT)
        self.assertEqual(result.returncode, 1)
        self.assertIn(_BUILT, result.stderr)

    def test_a_program_is_built_against_it_with_cmake_and_runs(self):
        folder = os.path.join(self.work, "build")
        environment = {name: os.environ[name] for name in ("PATH", "TMPDIR") if name in os.environ}
        for words in (("-S", "docs/example/c", "-B", folder, f"-DCMAKE_PREFIX_PATH={self.root}/usr"),
                      ("--build", folder)):
            self.output_of("cmake", *words, cwd=_root(), env=environment)
        program = os.path.join(folder, "read_batches")
        (library,) = [path for name, path in graft_libraries.find_libraries([program]).items()
                      if name == "libmillrace.so.1"]
        self.assertEqual(library, os.path.realpath(f"{self.root}/usr/lib/libmillrace.so.1"))
        self.assertEqual({name for name in elf_file.ElfFile(program).needed
                          if not graft_libraries.BASE.match(name)}, {"libmillrace.so.1"})
        uri = dataset.pack("server/data_tool/millrace-data", self.work)
        server = subprocess.Popen(
            ["server/millrace-server", f"--dataset=digits={uri}", "--listen=127.0.0.1:0"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            endpoint = server.stdout.readline().removeprefix("listening on ").strip()
            self.assertEqual(self.output_of(program, endpoint, "digits", "2000", env={}).count(
                "2000 samples\n"), 10)
        finally:
            server.kill()
            server.communicate()

    def test_the_path_of_a_folder_that_is_a_link_is_followed(self):
        # Debian's /lib is a link to /usr/lib, and CMake may look for packages below / first.
        os.symlink("usr/lib", os.path.join(self.root, "lib"))
        folder = os.path.join(self.work, "linked")
        os.mkdir(folder)
        with open(os.path.join(folder, "CMakeLists.txt"), "w", encoding="utf-8") as file:
            file.write("cmake_minimum_required(VERSION 3.18)\nproject(user LANGUAGES C)\n"
                       "find_package(Millrace REQUIRED)\n"
                       "get_target_property(place Millrace::client INTERFACE_INCLUDE_DIRECTORIES)\n"
                       "message(STATUS \"headers in ${place}\")\n")
        said = self.output_of("cmake", "-S", folder, "-B", os.path.join(folder, "build"),
                              f"-DMillrace_DIR={self.root}/lib/cmake/Millrace",
                              env={"PATH": os.environ["PATH"]})
        self.assertIn(f"headers in {os.path.realpath(self.root)}/usr/include", said)


if __name__ == "__main__":
    unittest.main()
