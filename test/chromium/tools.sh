#!/usr/bin/env bash
# tools.sh: installs Chromium, in which the page of qq serve is tested, from the packages of the system if this machine
# does not have it yet. Needs apt-get, and root or sudo. It prints the path of the program.
set -euo pipefail

say() { printf 'tools.sh: %s\n' "$*" >&2; }
die() { say "$@"; exit 1; }

# A package may be only a stub that leads to another way to install it.
found() {
  local path
  for name in chromium chromium-browser google-chrome; do
    if path=$(command -v "$name") && "$path" --version </dev/null >/dev/null 2>&1; then
      echo "$path"
      return
    fi
  done
  return 1
}

if found; then exit 0; fi
command -v apt-get >/dev/null || die "install chromium: this machine has no apt-get"
root=()
[ "$(id -u)" = 0 ] || root=(sudo)
say "installing chromium, once for this machine"
apt() { DEBIAN_FRONTEND=noninteractive "${root[@]}" apt-get -qq -o DPkg::Lock::Timeout=300 "$@" >&2; }
apt update || say "apt-get update failed: the lists of before are used"
apt install -y --no-install-recommends chromium fonts-dejavu-core ||
  die "Chromium could not be installed: apt-get install chromium failed, see above"
found || die "Chromium was installed, but it does not run on this machine"
