# shellcheck shell=bash
# Sourced: runs a command with network, mount and process namespaces of its own.
# What happens in them ends with them.
#
#   find_namespaces || die "no network namespaces here: $namespaces_why"
#   run_to_its_end "${namespaces[@]}" COMMAND...

# ip and tc lie where not everybody's PATH leads.
PATH="$PATH:/usr/sbin:/sbin"

find_namespaces() {
  local probe='ip link add probe0 type veth peer name probe1 && ip link add probe type bridge'
  namespaces=(unshare --net --mount --pid --fork --kill-child=TERM --mount-proc --)
  [[ "$(id -u)" == 0 ]] || namespaces=(unshare --user --map-root-user "${namespaces[@]:1}")
  namespaces_why="$("${namespaces[@]}" sh -c "$probe" 2>&1)"
}

# Runs a command that tidies up after SIGTERM, and sends it one also when this
# script is interrupted or killed.
run_to_its_end() {
  local code=0 at_death=TERM running
  # unshare lets SIGTERM pass by while it waits; when it dies, its child gets one.
  [[ "$1" != unshare ]] || at_death=KILL
  setpriv --pdeathsig "$at_death" -- "$@" < /dev/null &
  running=$!
  trap '_end "$running" "$at_death"' INT TERM HUP
  # A signal ends the wait, not the command.
  wait "$running" || code=$?
  while kill -0 "$running" 2> /dev/null; do wait "$running" || code=$?; done
  trap - INT TERM HUP
  return "$code"
}

# _end PID AT_DEATH: SIGTERM to the process, or to the child of unshare.
_end() {
  local to="$1"
  [[ "$2" != KILL ]] || to="$(cat "/proc/$1/task/$1/children" 2> /dev/null)"
  # shellcheck disable=SC2086 # none, or one with a space behind it
  [[ -z "$to" ]] || kill -TERM $to 2> /dev/null || true
}
