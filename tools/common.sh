# Sourced by the scripts of this folder: where things are, how Bazel is called,
# how to stop with a sentence. Defines functions and variables, does nothing.
#
#   source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)"

# Services and containers may run without HOME; Bazel and pip need one.
if [[ -z "${HOME:-}" ]]; then
  HOME="$(getent passwd "$(id -u)" | cut -d: -f6)"
  export HOME
fi

# Everything that can be made again: Bazel's compiled objects, fetched data
# sets, packed data sets. Delete it whenever you like.
CACHE_DIR="${XDG_CACHE_HOME:-$HOME/.cache}/millrace"

say() { printf '%s\n' "$*"; }

die() {
  printf '%s: %s\n' "${0##*/}" "$*" >&2
  exit 1
}

# bazel COMMAND ARGS...: the project's Bazel, in the project's root. Compiled
# objects are shared by all clones of this user through a disk cache. Bazel
# 4.2 does not bound that cache: trim_disk_cache does.
run_bazel() {
  local command="$1"
  shift
  local options=(--color=no --curses=no)
  if [[ "$command" == build || "$command" == test ]]; then
    options+=(--disk_cache="$CACHE_DIR/bazel" --noshow_progress)
  fi
  # When the script that called this dies, its build is cancelled too.
  (cd "$ROOT" && exec setpriv --pdeathsig INT -- bazel "$command" "${options[@]}" "$@")
}

# The disk cache keeps at most this many MiB; the files that were not used for
# the longest time go first. 0 keeps everything.
TRIM_MIB="${MILLRACE_DISK_CACHE_MIB:-20000}"

trim_disk_cache() {
  [[ -d "$CACHE_DIR/bazel" && "$TRIM_MIB" -gt 0 ]] || return 0
  python3 "$ROOT/tools/trim_cache.py" "$CACHE_DIR/bazel" "$TRIM_MIB"
}

# free_gib FOLDER: whole GiB that are free on the file system of FOLDER.
free_gib() { df --output=avail -BG "$1" 2> /dev/null | tail -n 1 | tr -dc 0-9; }

# want_room GIB: sees to it that GIB are free for a build, where this user's
# disk cache can give them and keep KEPT_MIB of itself. Otherwise it deletes
# nothing, and says what is missing and what else may be deleted.
KEPT_MIB=8192
want_room() {
  local wanted="$1" free left folder
  mkdir -p "$CACHE_DIR/bazel"
  free="$(free_gib "$CACHE_DIR")"
  [[ -n "$free" && "$free" -lt "$wanted" ]] || return 0
  left=$(($(du -sm "$CACHE_DIR/bazel" | cut -f1) - (wanted - free) * 1024))
  if [[ "$left" -ge "$KEPT_MIB" ]]; then
    python3 "$ROOT/tools/trim_cache.py" "$CACHE_DIR/bazel" "$left"
    return 0
  fi
  say "warning: $free GiB are free on the file system of $CACHE_DIR, and the build may need $wanted GiB."
  for folder in "${XDG_CACHE_HOME:-$HOME/.cache}/bazel/_bazel_$(id -un)"/*/; do
    # Bazel writes there for which checkout the folder was made.
    [[ -f "$folder/DO_NOT_BUILD_HERE" && ! -d "$(cat "$folder/DO_NOT_BUILD_HERE")" ]] || continue
    say "  may be deleted, the build of a checkout that is gone: ${folder%/}"
  done
}

# Bazel leaves a server behind for the next build. Scripts that promise to leave
# nothing call note_bazel first and stop_bazel at their end: a server that ran
# before stays.
bazel_server_runs() { pgrep -f -- "^bazel\\(.* --workspace_directory=$ROOT( |\$)" > /dev/null 2>&1; }

BAZEL_RAN_BEFORE=true
note_bazel() { bazel_server_runs || BAZEL_RAN_BEFORE=false; }

stop_bazel() {
  "$BAZEL_RAN_BEFORE" && return 0
  ! bazel_server_runs || (cd "$ROOT" && bazel shutdown > /dev/null 2>&1) || true
}
