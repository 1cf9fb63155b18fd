package rules

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"qq/internal/approval/rules/gitconfig"
)

// networks are the ways to another repository that a rule allows: those over a network. git takes the variable
// GIT_ALLOW_PROTOCOL before all configuration.
const networks = "https:http:ssh:git"

// remotes are the settings of a repository that say where its commands send to and fetch from.
type remotes struct {
	dir      string // of the repository
	settings []gitconfig.Setting
}

// check returns an error unless a command with these arguments certainly talks to servers alone, and overwrites there
// only what args say. args are those after the subcommand. A repository in a folder could come with the checkout, and
// runs hooks of its own.
func (r remotes) check(args []string) error {
	for _, s := range r.settings {
		if why := r.doubt(s); why != "" {
			return fmt.Errorf("%s.%s.%s %s", s.Section, s.Name, s.Key, why)
		}
	}
	for _, old := range []string{"remotes", "branches"} { // addresses as git of 2005 keeps them
		folder := filepath.Join(r.dir, old)
		if entries, err := os.ReadDir(folder); len(entries) > 0 || err != nil && exists(folder) {
			return fmt.Errorf("%s may name other repositories", folder)
		}
	}
	first := slices.IndexFunc(args, func(a string) bool { return !strings.HasPrefix(a, "-") })
	for i, arg := range args {
		_, value, _ := strings.Cut(arg, "=")
		switch {
		case i == first && r.known(arg), i != first && !folder(arg) && !folder(value):
		default:
			return fmt.Errorf("%q is neither a remote of the repository nor an address of a server", arg)
		}
	}
	return nil
}

// doubt returns what is wrong with a setting, or "".
func (r remotes) doubt(s gitconfig.Setting) string {
	switch value := strings.Trim(s.Value, `"`); s.Section + "." + s.Key {
	case "remote.url", "remote.pushurl":
		if !overNetwork(value) {
			return fmt.Sprintf("is %q, which is no address of a server", value)
		}
	case "remote.mirror":
		return "may delete what others pushed"
	case "remote.push":
		if strings.ContainsAny(value[:min(len(value), 1)], "+:") {
			return "may overwrite what others pushed"
		}
	case "branch.remote", "branch.pushremote":
		if !r.known(value) {
			return fmt.Sprintf("is %q, which is no remote of the repository", value)
		}
	}
	return ""
}

// known reports whether a name is that of a remote with an address, or an address of a server.
func (r remotes) known(name string) bool {
	return overNetwork(name) || slices.ContainsFunc(r.settings, func(s gitconfig.Setting) bool {
		return s.Section == "remote" && s.Key == "url" && s.Name == name
	})
}

// folder reports whether a word might name a repository in a folder, or a program that git starts for an address.
func folder(word string) bool {
	return filepath.IsAbs(word) || strings.HasPrefix(word, ".") || strings.HasPrefix(word, "~") ||
		(strings.Contains(word, "://") || strings.Contains(word, "::")) && !overNetwork(word)
}

// overNetwork reports whether git certainly takes an address for one of a server: https://host/x or host:x.
func overNetwork(address string) bool {
	if strings.ContainsAny(address, "\"\\;# \t") || strings.Contains(address, "::") || strings.HasPrefix(address, "-") {
		return false
	}
	if scheme, host, ok := strings.Cut(address, "://"); ok {
		return slices.Contains(strings.Split(networks, ":"), scheme) && host != "" && !strings.HasPrefix(host, "-")
	}
	host, _, ok := strings.Cut(address, ":")
	return ok && host != "" && !strings.Contains(host, "/")
}
