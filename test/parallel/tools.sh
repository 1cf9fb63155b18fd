#!/usr/bin/env bash
# tools.sh: prints the path of the GNU parallel that the tests compare qq batch with.
# If this machine has none, it unpacks that of Debian, once, without being root.
set -euo pipefail

say() { printf 'tools.sh: %s\n' "$*" >&2; }
die() { say "$@"; exit 1; }

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

install() {
  local tool
  for tool in perl apt-get dpkg-deb; do
    command -v "$tool" >/dev/null ||
      die "$tool is missing: install GNU parallel, or set QQ_PARALLEL to the path of one"
  done
  say "unpacking GNU parallel, once for this machine"
  partial=$dir.$$
  trap 'rm -rf "$partial"' EXIT
  mkdir -p "$partial"
  (cd "$partial" && { apt-get download parallel || { apt-get update -qq && apt-get download parallel; }; } >&2 9>&-) ||
    die "apt-get could not download it: as root, apt-get update && apt-get install parallel"
  dpkg-deb -x "$partial"/parallel_*.deb "$partial" || die "the package could not be unpacked"
  rm -rf "$dir"
  mv "$partial" "$dir" # the same file system: whoever looks sees all of it or nothing
}

if ! program; then
  mkdir -p "$(dirname "$dir")"
  exec 9>"$dir.lock"
  if command -v flock >/dev/null && ! flock -n 9; then
    say "another installation is under way, waiting for it"
    flock 9
  fi
  # Whoever held the lock may have done it.
  if ! program; then
    install
    program || die "GNU parallel was unpacked, but it does not run on this machine"
  fi
fi
