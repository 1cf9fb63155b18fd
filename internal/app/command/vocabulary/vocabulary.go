// Package vocabulary knows the words that tell a prompt from a mistyped command.
package vocabulary

import (
	"slices"
	"strings"
)

// Elsewhere returns what to do here instead of the command of that name, which other programs for models and agents
// have; "" if they have none.
func Elsewhere(word string) string {
	switch word {
	case "ls", "list":
		return "qq runs, qq sessions and qq agents list things"
	case "ps", "top", "status", "jobs", "stats":
		return "qq runs --live lists what is at work"
	case "log", "logs", "history", "show":
		return "qq runs and qq sessions show what was done"
	case "stop", "kill", "cancel":
		return "qq runs cancel ID ends a run"
	case "run", "exec", "start", "ask":
		return `qq "Summarize README.md" runs a prompt`
	case "chat", "repl", "tui", "interactive", "console":
		return "qq has no console: qq -c PROMPT goes on with a conversation"
	case "resume", "continue":
		return "qq -c PROMPT goes on with a conversation, qq batch --resume with a batch"
	case "serve", "server", "daemon", "mcp", "mcp-server", "acp":
		return "qq is no server, and knows no MCP"
	case "login", "logout", "auth", "signin", "signout", "whoami", "keys":
		return "qq needs no account; qq setup finds the keys of model servers"
	case "init", "onboard", "configure":
		return "qq setup finds a model and writes it into your settings"
	case "install", "uninstall":
		return "make install installs qq; qq setup finds a model"
	case "update", "upgrade", "self-update":
		return "qq does not update itself: make install installs it"
	case "pull", "push", "download":
		return "qq models pull MODEL lets Ollama download a model"
	case "settings", "env", "set", "get":
		return "qq config shows the settings"
	case "plan":
		return "qq --dry-run PROMPT says what would run"
	case "plugin", "plugins", "extension", "extensions", "hooks", "tools", "skills", "templates", "aliases", "cp", "rm":
		return "qq has no such command: qq --help lists those that it has"
	}
	return ""
}

// Verbs are subcommands of other programs.
var Verbs = []string{"add", "create", "delete", "describe", "drop", "edit", "export", "import", "inspect", "info",
	"purge", "remove", "rename", "reset", "view", "wait", "watch"}

// plain are words of sentences. Nothing that qq knows is called so.
var plain = strings.Fields("is are was were am be been the an my our your their his her this that these those it its " +
	"me us we you they of in on at to for from by with without about into up down out over and or not but if when " +
	"while why how what which who does do did has have had can could should would will must keeps seems looks")

// IsPlain reports whether word is one of sentences.
func IsPlain(word string) bool { return slices.Contains(plain, strings.ToLower(word)) }

// Said are words that a person says to a command, not about it.
var Said = strings.Fields("please help fix repair check test validate verify apply open path save load diff print " +
	"all full short long json yaml verbose quiet global local default defaults")
