#!/usr/bin/env bash
# tools.sh: prints the path of the GNU parallel that the tests compare qq batch with.
# If this machine has none, it unpacks that of Debian, once, without being root.
set -euo pipefail

. "$(dirname "${BASH_SOURCE[0]}")/../once.sh"
dir=${XDG_CACHE_HOME:-$HOME/.cache}/qq-test/parallel

# Another program of that name, from moreutils, has no --version.
program() {
  local p
  for p in "$(command -v parallel || true)" "$dir/usr/bin/parallel"; do
    if [ -x "$p" ] && "$p" --version </dev/null 2>/dev/null | grep -q '^GNU parallel '; then
      echo "$p"
      return
    fi
  done
  return 1
}

fill() {
  local tool
  for tool in perl apt-get dpkg-deb; do
    command -v "$tool" >/dev/null ||
      die "$tool is missing: install GNU parallel, or set QQ_PARALLEL to the path of one"
  done
  say "unpacking GNU parallel, once for this machine"
  (cd "$1" && { apt-get download parallel || { apt-get update -qq && apt-get download parallel; }; }) ||
    die "apt-get could not download it: as root, apt-get update && apt-get install parallel"
  dpkg-deb -x "$1"/parallel_*.deb "$1" || die "the package could not be unpacked"
}

once "GNU parallel"
