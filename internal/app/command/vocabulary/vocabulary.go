// Package vocabulary knows the words that tell a prompt from a mistyped command.
package vocabulary

import (
	"slices"
	"strconv"
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

// ElsewhereWith returns a hint if words are a command of other programs and its argument: the id of a run, as in "show
// 4c8943ef", or a prompt in quotes, as in run "Summarize it". It returns "" for a prompt.
func ElsewhereWith(words []string) string {
	if len(words) != 2 {
		return ""
	}
	word, argument := strings.ToLower(words[0]), words[1]
	switch word {
	case "run", "exec", "start", "ask", "chat", "prompt":
		if strings.Contains(strings.TrimSpace(argument), " ") {
			return "did you mean qq " + strconv.Quote(argument) + "?"
		}
		return ""
	}
	if !isID(argument) {
		return ""
	}
	switch word {
	case "show", "log", "logs", "status", "view", "inspect", "history":
		return "did you mean qq runs show " + argument + "?"
	case "stop", "kill", "cancel":
		return "did you mean qq runs cancel " + argument + "?"
	case "tree":
		return "did you mean qq runs tree " + argument + "?"
	case "resume", "continue":
		return "qq -s ID PROMPT goes on with a session, qq batch --resume=ID with a batch"
	}
	return ""
}

// isID reports whether s looks like the id of a run: eight hexadecimal digits, or a whole id.
func isID(s string) bool {
	const digits = "0123456789"
	return (len(s) == 8 || len(s) == 36) && strings.ContainsAny(s, digits) && strings.Trim(s, digits+"abcdef-") == ""
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

// IsTerm reports whether the name of a command and the word after it are one term, which is no call of the command.
func IsTerm(name, word string) bool {
	switch name {
	case "config":
		return word == "file" || word == "files"
	case "man":
		return word == "page" || word == "pages"
	case "version":
		return slices.Contains([]string{"bump", "control", "number", "numbers", "string"}, word)
	}
	return false
}
