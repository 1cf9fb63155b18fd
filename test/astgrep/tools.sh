#!/usr/bin/env bash
# tools.sh: installs the ast-grep that the tests of the structural search talk to,
# if this machine does not have it yet, and prints its path. Needs npm.
set -euo pipefail

. "$(dirname "${BASH_SOURCE[0]}")/../once.sh"
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

fill() {
  command -v npm >/dev/null || die "npm is missing: install Node.js, or set QQ_AST_GREP to an ast-grep $version"
  say "installing ast-grep $version, once for this machine"
  npm install --no-audit --no-fund --ignore-scripts --prefix "$1" "@ast-grep/cli@$version" || die "npm could not install it"
}

once "ast-grep $version"
