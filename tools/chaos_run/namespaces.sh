# Sourced: runs a command with network, mount and process namespaces of its own.
# What happens in them ends with them.
#
#   find_namespaces || die "no network namespaces here: $namespaces_why"
#   "${namespaces[@]}" COMMAND...

find_namespaces() {
  local probe='ip link add probe0 type veth peer name probe1 && ip link add probe type bridge'
  namespaces=(unshare --net --mount --pid --fork --kill-child --mount-proc --)
  [[ "$(id -u)" == 0 ]] || namespaces=(unshare --user --map-root-user "${namespaces[@]:1}")
  namespaces_why="$("${namespaces[@]}" sh -c "$probe" 2>&1)"
}
