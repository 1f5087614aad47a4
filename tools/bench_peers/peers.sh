# shellcheck shell=bash
# Sourced after common.sh: what the scripts that measure Millrace beside other
# loaders fetch and make once. The caller sets $peers (a folder that stays) and
# $work (one that does not) and has a function unavailable NAME REASON.
#
#   torch_environment && python="$made"
#   make_photographs "$python"       # sets $photos

# environment NAME BASE REQUIREMENT...: a virtual environment in $peers/NAME with
# the packages, on top of the Python BASE (or none), each installed by itself so
# that one that fails does not cost the others; it is tried again the next time.
# Sets $made to its interpreter.
environment() {
  local name="$1" base="$2" requirement log="$work/pip.log"
  shift 2
  local folder="$peers/$name" wanted="$base $*" mark
  made="$folder/bin/python"
  if [[ ! -x "$made" || "$(cat "$folder/.packages" 2> /dev/null)" != "$wanted" ]]; then
    rm -rf "$folder"
    "${base:-python3}" -m venv "$folder" > "$log" 2>&1 ||
      { unavailable "$name" "python3 -m venv: $(tail -n 1 "$log")"; return 1; }
    if [[ -n "$base" ]]; then
      "$base" -c 'import sysconfig; print(sysconfig.get_path("purelib"))' \
        > "$("$made" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/base.pth"
    fi
    printf '%s' "$wanted" > "$folder/.packages"
  fi
  for requirement in "$@"; do
    mark="$folder/.has-${requirement//[^a-zA-Z0-9.=-]/_}"
    [[ ! -e "$mark" ]] || continue
    say "pip install $requirement"
    # shellcheck disable=SC2086  # several words are several packages
    if "$made" -m pip install --quiet --disable-pip-version-check $requirement > "$log" 2>&1; then
      touch "$mark"
    else
      say "  failed: $(grep -m 1 -iE 'error' "$log" || tail -n 1 "$log")"
    fi
  done
}

# torch_environment: the one with torch that all of them share; sets $made.
torch_environment() {
  environment torch "" "torch==2.11.0 torchvision==0.26.0 pillow" \
    "albumentations==2.0.8 opencv-python-headless" "nvidia-dali-cuda130" "pyarrow==26.0.1"
}

# fetch PACKAGE: the unpacked content of a Debian package in $peers/debian/PACKAGE.
# Nothing is installed.
fetch() {
  local package="$1" folder="$peers/debian/$1"
  [[ ! -d "$folder" ]] || return 0
  say "fetching $package"
  mkdir -p "$peers/debian" "$work/$package"
  (cd "$work/$package" && apt-get -qq download "$package" > log 2>&1 &&
    dpkg -x "$package"_*.deb content) || return 1
  mv "$work/$package/content" "$folder"
}

# Below $peers/debian.
fashion_mnist="dataset-fashion-mnist/usr/share/datasets/fashion-mnist"

# make_photographs PYTHON: 1,000 of ImageNet's size, in $photos. PYTHON has Pillow.
make_photographs() {
  local package sources=()
  photos="$peers/photographs"
  [[ ! -d "$photos" ]] || return 0
  for package in endless-sky-high-dpi lomiri-wallpapers-16.04 lomiri-wallpapers-20.04 \
    mate-backgrounds plasma-workspace-wallpapers ukui-wallpapers; do
    fetch "$package" || die "cannot fetch the Debian package $package: run apt-get update"
    sources+=("$peers/debian/$package")
  done
  [[ -n "$1" ]] || die "photographs are made with Pillow, which is not there; see above"
  "$1" "$ROOT/tools/bench_peers/photos.py" "$work/photographs" 1000 "${sources[@]}" || return 1
  mv "$work/photographs" "$photos"
}
