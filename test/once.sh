# once.sh: what the tools.sh have in common that install a program once for this machine. Such a script sets dir, the
# folder of the program, and defines two functions: program prints its path if it works; fill DIR makes that folder.

say() { printf 'tools.sh: %s\n' "$*" >&2; }
die() { say "$@"; exit 1; }

install() {
  partial=$dir.$$
  trap 'rm -rf "$partial"' EXIT
  mkdir -p "$partial"
  fill "$partial" >&2 9>&-
  rm -rf "$dir"
  mv "$partial" "$dir" # the same file system: whoever looks sees all of it or nothing
}

# once NAME prints the path of the program, and installs it before if that is needed.
once() {
  if program; then return; fi
  mkdir -p "$(dirname "$dir")"
  exec 9>"$dir.lock"
  if command -v flock >/dev/null && ! flock -n 9; then
    say "another installation is under way, waiting for it"
    flock 9
  fi
  # Whoever held the lock may have done it.
  if program; then return; fi
  install
  program || die "$1 was installed, but it does not run on this machine"
}
