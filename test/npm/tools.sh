#!/usr/bin/env bash
# tools.sh: installs the programs from npm that `make reach` talks to, with the Node.js that they need, if this machine
# does not have them yet, and prints the folder. Its bin has a link for each program, and must be first in PATH.
# Needs npm.
set -euo pipefail

. "$(dirname "${BASH_SOURCE[0]}")/../once.sh"
case $(uname -s)-$(uname -m) in
Linux-x86_64) cpu=x64 ;;
Linux-aarch64) cpu=arm64 ;;
*) die "the programs from npm are installed on Linux only" ;;
esac

# No package may run a script while it is installed. So the programs of this platform are taken from packages of their
# own: node from node-linux-*, those of Claude Code and opencode from what their packages name as optional.
node=22.23.3
packages=(
  "node@npm:node-linux-$cpu@$node"
  @modelcontextprotocol/conformance@0.1.16
  conformance-next@npm:@modelcontextprotocol/conformance@0.2.0-alpha.12 # for the version 2026-07-28 of the protocol
  acpx@0.19.1
  @anthropic-ai/claude-code@2.1.330
  @openai/codex@0.169.0
  @google/gemini-cli@0.61.0
  opencode-ai@1.18.33
  @qwen-code/qwen-code@0.24.4
)
# Other versions are another folder, and so is another way to install them.
sum=$(cat "${BASH_SOURCE[0]}" <(echo "${packages[@]}") | cksum)
dir=${XDG_CACHE_HOME:-$HOME/.cache}/qq-test/npm-${sum%% *}

program() {
  [ "$("$dir/bin/node" --version 2>/dev/null)" = "v$node" ] && echo "$dir"
}

fill() {
  command -v npm >/dev/null || die "npm is missing: install Node.js"
  say "installing ${#packages[@]} packages from npm, once for this machine"
  npm install --no-audit --no-fund --no-package-lock --ignore-scripts --loglevel=error \
    --fetch-retries=1 --fetch-retry-mintimeout=1000 --fetch-retry-maxtimeout=3000 --prefix "$1" "${packages[@]}" ||
    die "npm could not install them: can its registry be reached?"
  cd "$1"
  local modules=node_modules opencode=opencode-linux-$cpu
  if [ "$cpu" = x64 ] && ! grep -qw avx2 /proc/cpuinfo; then opencode=$opencode-baseline; fi
  mkdir bin
  ln -s ../$modules/.bin/{acpx,codex,conformance,gemini,qwen} ../$modules/node/bin/node \
    ../$modules/$opencode/bin/opencode "../$modules/@anthropic-ai/claude-code-linux-$cpu/claude" bin
  ln -s ../$modules/conformance-next/dist/index.js bin/conformance-next
  chmod +x $modules/conformance-next/dist/index.js
  # What nothing here runs, half a gigabyte.
  for unused in $modules/opencode-linux-* $modules/node/{include,share} \
    $modules/@anthropic-ai/claude-code-linux-*-musl $modules/@openai/codex-linux-*/vendor/*/codex-resources/voice; do
    [ "$unused" = "$modules/$opencode" ] || rm -rf "$unused"
  done
}

once "what was taken from npm"
