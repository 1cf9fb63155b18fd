package files

import (
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// secret reports whether the file rel looks like one that holds secrets. The
// name of the root counts as well: it may itself be such a folder.
func (w *workspace) secret(rel string) bool {
	if len(w.dirs) > 0 {
		rel = filepath.Join(filepath.Base(w.dirs[len(w.dirs)-1]), rel)
	}
	return looksSecret(strings.ToLower(slash(rel)))
}

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
