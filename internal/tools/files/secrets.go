package files

import (
	"context"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"qq/pkg/tool"
)

const looksLikeSecrets = "looks like a file of secrets"

// granted reports whether just this was allowed: to touch the file rel in spite
// of what it is.
func granted(ctx context.Context, rel string) bool {
	in, ok := tool.Granted(ctx)
	return ok && in.Special && slices.Contains(in.Paths, slash(rel))
}

// concern is [Concern] for the file rel.
func (w *Workspace) concern(rel string) string {
	if w.secret(rel) {
		return looksLikeSecrets
	}
	if len(w.dirs) > 0 {
		rel = filepath.Join(w.dirs[len(w.dirs)-1], rel)
	}
	return obeyed(slash(rel))
}

// Concern says what is special about a file, by its path with slashes, for
// somebody who decides whether it may be changed. It is empty for most files.
func Concern(file string) string {
	if Secret(file) {
		return looksLikeSecrets
	}
	return obeyed(file)
}

// obeyed says of a file, by its path with slashes, that other programs obey it,
// or returns "".
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

// secret reports whether the file rel looks like one that holds secrets. The
// folders above the root count as well: it may lie in such a folder.
func (w *Workspace) secret(rel string) bool {
	if len(w.dirs) > 0 {
		rel = filepath.Join(w.dirs[len(w.dirs)-1], rel)
	}
	return looksSecret(strings.ToLower(slash(rel)))
}

// Secret reports whether a file, by its path with slashes, looks like one that
// holds secrets.
func Secret(file string) bool { return looksSecret(strings.ToLower(file)) }

// looksSecret decides about a lower-case path with slashes.
func looksSecret(file string) bool {
	dir, base := path.Split(file)
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
