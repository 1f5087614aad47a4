"""Reads what the dynamic loader reads of an ELF file: names, symbols, versions,
relocations and the hash table by which a symbol is found.

What it is not: an editor (tools/graft_libraries.py calls patchelf), nor a reader of
other machines' files: 64 bits, little endian.

    file = ElfFile("libgrpc.so.29")
    file.soname, file.needed
    for symbol in file.symbols: ...
"""

import collections
import struct

_PT_LOAD, _PT_DYNAMIC, _PT_INTERP = 1, 2, 3
_SHT_DYNSYM = 11
_NEEDED, _STRTAB, _SYMTAB, _RELA, _RELASZ, _SONAME = 1, 5, 6, 7, 8, 14
_RPATH, _JMPREL, _PLTRELSZ, _RUNPATH = 15, 23, 2, 29
_GNU_HASH, _VERSYM = 0x6FFFFEF5, 0x6FFFFFF0
_VERDEF, _VERDEFNUM, _VERNEED, _VERNEEDNUM = 0x6FFFFFFC, 0x6FFFFFFD, 0x6FFFFFFE, 0x6FFFFFFF
_SHN_UNDEF, _SHN_LORESERVE = 0, 0xFF00

# `version`: its name, or "" when the symbol has none. `undefined`: another file has
# it. `absolute`: of no section, such as the name of a version.
Symbol = collections.namedtuple(
    "Symbol", "name version undefined absolute binding type visibility value size")
# `symbol`: an index into ElfFile.symbols; 0 is none.
Relocation = collections.namedtuple("Relocation", "offset type symbol addend")

BINDINGS = {0: "LOCAL", 1: "GLOBAL", 2: "WEAK", 10: "UNIQUE"}


class ElfError(Exception):
    """The file is no ELF file, or one that this module does not read."""


class ElfFile:

    def __init__(self, path):
        self.path = str(path)
        with open(path, "rb") as file:
            self._bytes = file.read()
        if self._bytes[:6] != b"\x7fELF\x02\x01":
            raise ElfError(f"{path} is no ELF file of 64 bits, little endian")
        try:
            self._read()
        except (struct.error, IndexError, ValueError) as error:
            raise ElfError(f"{path} is damaged: {error}") from error

    def _read(self):
        self._segments = self._table(32, 54, "<IIQQQQQQ")
        self.is_program = any(segment[0] == _PT_INTERP for segment in self._segments)
        self._dynamic = collections.defaultdict(list)
        for kind, _, offset, _, _, size, _, _ in self._segments:
            if kind != _PT_DYNAMIC:
                continue
            for tag, value in struct.iter_unpack("<QQ", self._bytes[offset:offset + size]):
                if tag == 0:
                    break
                self._dynamic[tag].append(value)
        if not self._dynamic:
            raise ElfError(f"{self.path} is linked statically: it has no dynamic section")
        self._strings = self._at(self._dynamic[_STRTAB][0])
        self.needed = [self._string(at) for at in self._dynamic[_NEEDED]]
        self.soname = "".join(self._string(at) for at in self._dynamic[_SONAME])
        self.search_path = "".join(
            self._string(at) for at in self._dynamic[_RPATH] + self._dynamic[_RUNPATH])
        # Of this file: {index: name}; of others: {index: name} and {file: names}.
        self._defined_versions = self._version_definitions()
        self.needed_versions = collections.defaultdict(set)
        self._needed_version_names = self._version_needs()
        self.symbols = self._symbol_table()
        self.relocations = self._relocation_table()
        self._hash = self._hash_table()

    def _table(self, offset_at, entry_at, form):
        start, = struct.unpack_from("<Q", self._bytes, offset_at)
        size, count = struct.unpack_from("<HH", self._bytes, entry_at)
        return [struct.unpack_from(form, self._bytes, start + size * i) for i in range(count)]

    def _at(self, address):
        """Offset in the file of an address in memory."""
        for kind, _, offset, start, _, size, _, _ in self._segments:
            if kind == _PT_LOAD and start <= address < start + size:
                return offset + address - start
        raise ElfError(f"{self.path} is damaged: no segment holds address {address:#x}")

    def _string(self, at):
        start = self._strings + at
        return self._bytes[start:self._bytes.index(0, start)].decode()

    def _version_definitions(self):
        names, at = {}, self._at(self._dynamic[_VERDEF][0]) if self._dynamic[_VERDEF] else 0
        for _ in range(sum(self._dynamic[_VERDEFNUM])):
            _, _, index, _, _, aux, step = struct.unpack_from("<HHHHIII", self._bytes, at)
            names[index] = self._string(struct.unpack_from("<I", self._bytes, at + aux)[0])
            at += step
        return names

    def _version_needs(self):
        names, at = {}, self._at(self._dynamic[_VERNEED][0]) if self._dynamic[_VERNEED] else 0
        for _ in range(sum(self._dynamic[_VERNEEDNUM])):
            _, count, file, aux, step = struct.unpack_from("<HHIII", self._bytes, at)
            entry = at + aux
            for _ in range(count):
                _, _, index, name, next_entry = struct.unpack_from("<IHHII", self._bytes, entry)
                names[index] = self._string(name)
                self.needed_versions[self._string(file)].add(names[index])
                entry += next_entry
            at += step
        return names

    def _symbol_table(self):
        # The dynamic section does not say how many there are.
        sections = self._table(40, 58, "<IIQQQQIIQQ")
        sizes = [s[5] for s in sections
                 if s[1] == _SHT_DYNSYM and s[3] == self._dynamic[_SYMTAB][0]]
        if len(sizes) != 1:
            raise ElfError(f"{self.path} has no section of its dynamic symbols")
        start = self._at(self._dynamic[_SYMTAB][0])
        versions = self._at(self._dynamic[_VERSYM][0]) if self._dynamic[_VERSYM] else None
        symbols = []
        for i in range(sizes[0] // 24):
            name, info, other, section, value, size = struct.unpack_from(
                "<IBBHQQ", self._bytes, start + 24 * i)
            version = ""
            if versions is not None:
                index = struct.unpack_from("<H", self._bytes, versions + 2 * i)[0] & 0x7FFF
                if index > 1:  # 0 is local, 1 has no version
                    version = self._defined_versions.get(index) or self._needed_version_names[index]
            symbols.append(Symbol(
                self._string(name), version, section == _SHN_UNDEF, section >= _SHN_LORESERVE,
                info >> 4, info & 15, other & 3, value, size))
        return symbols

    def _relocation_table(self):
        found = []
        for table, size in ((_RELA, _RELASZ), (_JMPREL, _PLTRELSZ)):
            if self._dynamic[table]:
                start = self._at(self._dynamic[table][0])
                for offset, info, addend in struct.iter_unpack(
                        "<QQq", self._bytes[start:start + self._dynamic[size][0]]):
                    found.append(Relocation(offset, info & 0xFFFFFFFF, info >> 32, addend))
        return found

    def _hash_table(self):
        if not self._dynamic[_GNU_HASH]:
            raise ElfError(f"{self.path} has no DT_GNU_HASH: link it with --hash-style=gnu")
        at = self._at(self._dynamic[_GNU_HASH][0])
        buckets, first, words, shift = struct.unpack_from("<IIII", self._bytes, at)
        chains = at + 16 + 8 * words + 4 * buckets
        return (first, shift, chains, struct.unpack_from(f"<{words}Q", self._bytes, at + 16),
                struct.unpack_from(f"<{buckets}I", self._bytes, at + 16 + 8 * words))

    def lookup(self, name):
        """Indices of the symbols of a name, found as the loader finds them: by the
        filter, the buckets and the chains of DT_GNU_HASH. [] when there is none."""
        first, shift, chains, bloom, buckets = self._hash
        value = 5381
        for byte in name.encode():
            value = (value * 33 + byte) & 0xFFFFFFFF
        word = bloom[(value // 64) % len(bloom)]
        if not (word >> (value % 64) & 1 and word >> ((value >> shift) % 64) & 1):
            return []
        found, index = [], buckets[value % len(buckets)]
        while index >= first > 0:
            entry, = struct.unpack_from("<I", self._bytes, chains + 4 * (index - first))
            if entry | 1 == value | 1 and self.symbols[index].name == name:
                found.append(index)
            if entry & 1:
                break
            index += 1
        return found

    def exports(self):
        """The symbols that other files may bind to."""
        return [s for s in self.symbols
                if not s.undefined and not s.absolute and s.binding and s.visibility in (0, 3)]
