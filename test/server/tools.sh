#!/usr/bin/env bash
# tools.sh: builds the Ollama server that the integration tests talk to, if this
# machine does not have it yet, and prints its path. Needs Go, gcc and g++, and
# two packages of headers, which it installs where apt-get can.
set -euo pipefail

say() { printf 'tools.sh: %s\n' "$*" >&2; }
die() { say "$@"; exit 1; }
need() { command -v "$1" >/dev/null || die "$1 is missing: $2"; }

# Module archives leave out directories called "vendor", where llama.cpp keeps these headers.
headers_missing() { [ ! -e /usr/include/nlohmann/json.hpp ] || [ ! -e /usr/include/stb/stb_image.h ]; }

install_headers() {
  local packages=(nlohmann-json3-dev libstb-dev) root=()
  local what="the headers nlohmann/json.hpp and stb/stb_image.h are missing below /usr/include (Debian: ${packages[*]})"
  command -v apt-get >/dev/null || die "$what: install them by hand"
  if [ "$(id -u)" != 0 ]; then
    # -n: fail rather than ask for a password in the middle of a test run.
    command -v sudo >/dev/null && sudo -n true 2>/dev/null || die "$what: run as root: apt-get install ${packages[*]}"
    root=(sudo -n)
  fi
  say "installing ${packages[*]}"
  local apt=("${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq)
  # A stale or unreachable list is no reason to stop when the packages can be had all the same.
  "${apt[@]}" update >&2 || say "apt-get update did not work, trying to install without"
  "${apt[@]}" install -y --no-install-recommends "${packages[@]}" >&2 || die "$what: apt-get did not install them"
  ! headers_missing || die "$what: still so after apt-get install"
}

build() {
  need gcc "install a C compiler (Debian: apt-get install gcc)"
  need g++ "install a C++ compiler (Debian: apt-get install g++)"
  if headers_missing; then install_headers; fi
  say "building Ollama $version, once for this machine: 3 to 8 minutes with an empty build cache"
  # Not -I in CGO_CXXFLAGS: the flags are part of Go's cache key, and a clone at
  # another path would compile all of llama.cpp again. The lock is closed for the
  # build, so that no compiler left over from a killed build holds it.
  CGO_ENABLED=1 CGO_CFLAGS="$opt" CGO_CXXFLAGS="$opt" CPLUS_INCLUDE_PATH="$here/shim" GOFLAGS=-buildvcs=false \
    go build -trimpath -ldflags="-s -w -X=github.com/ollama/ollama/version.Version=${version#v}" \
    -o "$partial" github.com/ollama/ollama >&2 9>&-
  mv "$partial" "$bin" # the same file system: whoever looks sees all of it or nothing
}

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$here"
export GOWORK=off
need go "install Go 1.26 or newer, https://go.dev/dl"
need sha256sum "install coreutils"

version=$(GOFLAGS='' go list -m -f '{{.Version}}' github.com/ollama/ollama)
opt="-O2 -g0"
# cgo builds for the oldest x86-64; with AVX2 a long prompt is read 4 times as fast.
has_cpu_flag() { grep -qsw "$1" /proc/cpuinfo; }
if has_cpu_flag avx2 && has_cpu_flag f16c && has_cpu_flag fma; then
  opt="$opt -mavx2 -mfma -mf16c"
fi
key=$(printf '%s %s %s' "$version" "$opt" "$(go env GOVERSION)" | sha256sum | cut -c1-16)
bin=${XDG_CACHE_HOME:-$HOME/.cache}/qq-test/ollama-$version-$key

if [ ! -x "$bin" ]; then
  mkdir -p "$(dirname "$bin")"
  partial=$bin.$$
  trap 'rm -f "$partial"' EXIT
  exec 9>"$bin.lock"
  if command -v flock >/dev/null && ! flock -n 9; then
    say "another build is under way, waiting for it"
    flock 9
  fi
  # Whoever held the lock may have built it.
  if [ ! -x "$bin" ]; then build; fi
fi
echo "$bin"
