package tree

import (
	"slices"
	"strings"
)

// Programs read instructions from these names wherever they find them: git, editors, shells, CI and other agents run
// what is in there. Commands of agents do not write them, see [Obeyed]. This is the only list of them. The folders
// .qq, .claude and .agents also have definitions of agents.
var (
	obeyedNames = []string{
		".git", ".qq", ".claude", ".agents", ".env", ".envrc", ".vscode", ".husky", ".github", ".mcp.json",
	}
	// obeyedBases are further names of files that need an approval of their own.
	obeyedBases = []string{
		".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".profile", ".zshrc", ".zshenv",
		".zprofile", ".zlogin", ".zlogout", ".kshrc", ".cshrc", ".tcshrc", ".login", ".inputrc", "config.fish",
		".xprofile", ".xinitrc", ".xsession", ".xsessionrc", ".gitconfig", ".gitattributes", ".gitmodules",
	}
	// exemplaryEnds mark files that only show how a .env is written.
	exemplaryEnds = []string{".example", ".sample", ".template", ".dist"}
	// editedEnds mark files that an editor keeps while somebody writes another one.
	editedEnds = []string{"~", ".swp", ".swo", ".swn", ".swx"}
)

// ofGit is the reason for the files of a repository, also for those that may hold secrets.
const ofGit = "belongs to git"

// ObeyedNames returns the names that commands may not make, for which [Obeyed] is true.
func ObeyedNames() []string { return slices.Clone(obeyedNames) }

// RepositoryFolders returns the names of the folders in a repository of git that say what git runs and where it looks.
func RepositoryFolders() []string { return []string{"hooks", "info", "modules", "worktrees"} }

// Obeyed reports whether programs obey a file or folder of that name, without a path, and what is below it.
func Obeyed(name string) bool {
	name = strings.ToLower(name)
	ends := func(end string) bool { return strings.HasSuffix(name, end) }
	return slices.Contains(obeyedNames, name) || environment(name) &&
		!slices.ContainsFunc(exemplaryEnds, ends) && !slices.ContainsFunc(editedEnds, ends)
}

// environment reports whether name, in lower case, is that of a .env or .envrc or a variant of these, such as
// .env.local and .env_x. Others are longer words, such as .envoy.
func environment(name string) bool {
	rest, ok := strings.CutPrefix(name, ".env")
	rest = strings.TrimPrefix(rest, "rc")
	return ok && (rest == "" || rest[0] < 'a' || rest[0] > 'z')
}

// obeyed returns why a file controls other programs, or "". The path has slashes.
func obeyed(file string) (why string) {
	above := ""
	for part := range strings.SplitSeq(strings.ToLower(file), "/") {
		switch {
		case part == ".git":
			return ofGit
		case part == "agents" && (above == ".qq" || above == ".claude" || above == ".agents"):
			return "is an agent definition"
		case above == "systemd" && (part == "user" || part == "system"):
			why = "is a unit of systemd"
		case part == "autostart":
			why = "is started at login"
		case Obeyed(part):
			why = "is obeyed by other programs"
		}
		above = part
	}
	if why == "" && slices.Contains(obeyedBases, above) {
		why = "is obeyed by other programs"
	}
	return why
}
