#!/usr/bin/env bash
# tools.sh: installs the ast-grep that the tests of the structural search talk to,
# if this machine does not have it yet, and prints its path. Needs npm.
set -euo pipefail

say() { printf 'tools.sh: %s\n' "$*" >&2; }
die() { say "$@"; exit 1; }

version=0.51.1
dir=${XDG_CACHE_HOME:-$HOME/.cache}/qq-test/ast-grep-$version

# npm keeps the program of a platform in a package of its own. That of the package
# itself is a script where install scripts may not run.
program() {
  local p
  for p in "$dir"/node_modules/@ast-grep/cli-*/ast-grep; do
    if [ -x "$p" ] && [ "$("$p" --version 2>/dev/null)" = "ast-grep $version" ]; then
      echo "$p"
      return
    fi
  done
  return 1
}

install() {
  command -v npm >/dev/null || die "npm is missing: install Node.js, or set QQ_AST_GREP to an ast-grep $version"
  say "installing ast-grep $version, once for this machine"
  partial=$dir.$$
  trap 'rm -rf "$partial"' EXIT
  mkdir -p "$partial"
  npm install --no-audit --no-fund --ignore-scripts --prefix "$partial" "@ast-grep/cli@$version" >&2 9>&- || die "npm could not install it"
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
    program || die "npm installed ast-grep $version, but it does not run on this machine"
  fi
fi
