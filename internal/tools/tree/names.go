package tree

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// LooksSecret is the reason why a file that looks like secrets needs an approval of its own.
const LooksSecret = "looks like a file of secrets"

// Concern returns why changing a file needs an approval of its own, or "" for most files. The
// path has slashes.
func Concern(file string) string {
	if Secret(file) {
		return LooksSecret
	}
	return obeyed(file)
}

// obeyed returns why a file controls other programs (git, agents), or "".
func obeyed(file string) string {
	above := ""
	for part := range strings.SplitSeq(strings.ToLower(file), "/") {
		switch {
		case part == ".git":
			return "belongs to git"
		case part == "agents" && (above == ".qq" || above == ".claude" || above == ".agents"):
			return "is an agent definition"
		}
		above = part
	}
	return ""
}

// Secret reports whether a file looks like one that holds secrets, by its path with slashes.
func Secret(file string) bool {
	dir, base := path.Split(strings.ToLower(file))
	folders := strings.Split(dir, "/")
	if slices.Contains(folders, ".ssh") || slices.Contains(folders, ".gnupg") {
		return true
	}
	switch base {
	case ".env.example":
		return false
	case ".env", ".netrc", "_netrc", ".npmrc", ".pypirc", ".pgpass", ".git-credentials", ".htpasswd", ".dockercfg",
		"credentials.json", "id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", "id_ecdsa_sk", "id_ed25519_sk":
		return true
	case "credentials":
		return slices.Contains(folders, ".aws")
	case "config.json":
		return slices.Contains(folders, ".docker")
	case "config":
		return slices.Contains(folders, ".kube")
	}
	switch path.Ext(base) {
	case ".pem", ".key", ".p12", ".pfx", ".jks", ".keystore":
		return true
	}
	return strings.HasPrefix(base, ".env.")
}

// Reason removes the operation and the path from a file error: the caller's message names the
// path as the model wrote it.
func Reason(err error) error {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return pe.Err
	}
	return err
}

// Printable returns path, quoted if it contains control characters, so that it stays on one line.
func Printable(path string) string {
	if strings.ContainsFunc(path, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return fmt.Sprintf("%q", path)
	}
	return path
}

// Admits reports whether glob matches the path of a file, relative to the folder that is
// searched. A glob without a slash is matched against the file name alone.
func Admits(glob, below string) bool {
	if glob == "" {
		return true
	}
	if !strings.Contains(glob, "/") {
		below = path.Base(below)
	}
	return doublestar.MatchUnvalidated(glob, below)
}
