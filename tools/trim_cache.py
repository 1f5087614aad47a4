"""Keeps a folder of files below a size: removes those unused for the longest.

    trim_cache.py FOLDER MEBIBYTES

Made for Bazel's disk cache, which Bazel 4 never shortens. A file that
disappears while this runs is no error: another clone may trim as well.
"""

import os
import sys


def trim(folder, limit_bytes):
    """Removes the oldest files; returns (bytes left, files removed)."""
    files = []
    for parent, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(parent, name)
            try:
                stat = os.lstat(path)
            except FileNotFoundError:
                continue
            # Bazel touches the modification time at each hit.
            files.append((max(stat.st_mtime, stat.st_atime), stat.st_size, path))
    total = sum(size for _, size, _ in files)
    removed = 0
    for _, size, path in sorted(files):
        if total <= limit_bytes:
            break
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass
        total -= size
        removed += 1
    return total, removed


def main(argv):
    if len(argv) != 3 or not argv[2].isdigit():
        print("usage: trim_cache.py FOLDER MEBIBYTES", file=sys.stderr)
        return 2
    left, removed = trim(argv[1], int(argv[2]) << 20)
    if removed:
        print(f"removed {removed} files from {argv[1]}; {left >> 20} MiB left")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
