#!/usr/bin/env bash
# tools.sh: installs the shells whose completions are tested, if this machine does
# not have them yet. Needs apt-get, and root or sudo.
set -euo pipefail

say() { printf 'tools.sh: %s\n' "$*" >&2; }

missing=()
for shell in bash zsh fish; do
  command -v "$shell" >/dev/null || missing+=("$shell")
done
[ ${#missing[@]} -gt 0 ] || exit 0
if ! command -v apt-get >/dev/null; then
  say "install ${missing[*]}: this machine has no apt-get"
  exit 1
fi
root=()
[ "$(id -u)" = 0 ] || root=(sudo)
say "installing ${missing[*]}, once for this machine"
"${root[@]}" apt-get update -qq >&2
DEBIAN_FRONTEND=noninteractive "${root[@]}" apt-get install -qq -y --no-install-recommends "${missing[@]}" >&2
