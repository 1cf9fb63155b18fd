#!/usr/bin/env bash
# tools.sh: installs Chromium, in which the page of qq serve is tested, from the packages of the system if this machine
# does not have it yet. Needs apt-get, and root or sudo. It prints the path of the program.
set -euo pipefail

say() { printf 'tools.sh: %s\n' "$*" >&2; }

found() {
  for name in chromium chromium-browser google-chrome; do
    if command -v "$name"; then return; fi
  done
  return 1
}

if found; then exit 0; fi
if ! command -v apt-get >/dev/null; then
  say "install chromium: this machine has no apt-get"
  exit 1
fi
root=()
[ "$(id -u)" = 0 ] || root=(sudo)
say "installing chromium, once for this machine"
"${root[@]}" apt-get update -qq >&2
DEBIAN_FRONTEND=noninteractive "${root[@]}" apt-get install -qq -y --no-install-recommends chromium fonts-dejavu-core >&2
found
