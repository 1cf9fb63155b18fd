package shell

import (
	"path/filepath"
	"slices"
	"strings"

	"qq/internal/box"
	"qq/internal/config"
)

// Environment returns the variables of environ that commands get: no secrets, and nothing that
// makes a program ask questions, start a pager, use colours or assume another terminal size.
//
// Of qq's own settings only the position in the tree of agents stays. The depth stops endless recursion if a
// command starts qq; the marks let the sweep find the processes of the command.
func Environment(environ []string, tempDir string) []string {
	env := slices.DeleteFunc(config.ChildEnv(environ), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return slices.Contains([]string{
			"PAGER", "GIT_PAGER", "GIT_EDITOR", "GIT_TERMINAL_PROMPT", "TERM", "NO_COLOR", // set below
			"COLORTERM", "FORCE_COLOR", "CLICOLOR_FORCE", // would contradict NO_COLOR
			"COLUMNS", "LINES", "PWD", "OLDPWD", // of another terminal, of another folder
		}, name) || slices.Contains(servers, name) || tempDir != "" && (name == "TMPDIR" || name == "XDG_CACHE_HOME")
	})
	for _, entry := range environ {
		if name, _, ok := strings.Cut(entry, "="); ok && place(name) {
			env = append(env, entry)
		}
	}
	if at := config.Getenv(environ, "TRACEPARENT"); at != "" { // the span of this agent
		env = append(env, "TRACEPARENT="+at)
	}
	env = append(env,
		"PAGER=cat", "GIT_PAGER=cat",
		"GIT_EDITOR=true", "GIT_TERMINAL_PROMPT=0", // a question that nobody answers
		// Escape sequences are taken out anyway. By this name programs know that
		// the cursor does not move, and print lines instead of drawing.
		"TERM=dumb", "NO_COLOR=1",
	)
	if tempDir != "" {
		// A sandbox may let commands write there and not into a home.
		env = append(env, "TMPDIR="+tempDir, "XDG_CACHE_HOME="+filepath.Join(tempDir, "cache"))
	}
	return env
}

// servers are variables that name a server of the terminal, the editor or the session around qq, or what such a server
// shows. It would do for a command what the sandbox forbids, such as type into the shell of the user.
var servers = []string{
	"TMUX", "TMUX_PANE", "TMUX_TMPDIR", "STY", "WINDOW", "SCREENDIR", "ZELLIJ", "ZELLIJ_SESSION_NAME", "ZELLIJ_PANE_ID",
	"ABDUCO_SESSION", "ABDUCO_SOCKET", "KITTY_LISTEN_ON", "KITTY_WINDOW_ID", "KITTY_PID",
	"WEZTERM_UNIX_SOCKET", "WEZTERM_PANE", "GNOME_TERMINAL_SERVICE", "GNOME_TERMINAL_SCREEN", "KONSOLE_DBUS_SERVICE",
	"KONSOLE_DBUS_SESSION", "KONSOLE_DBUS_WINDOW", "NVIM", "NVIM_LISTEN_ADDRESS", "VIM_SERVERNAME",
	"VSCODE_IPC_HOOK_CLI", "VSCODE_GIT_IPC_HANDLE", "DBUS_SESSION_BUS_ADDRESS", "DISPLAY", "WAYLAND_DISPLAY",
	"SSH_TTY",
}

// place reports whether the variable name tells where in the tree of agents a process is: its
// depth, or a mark of an execution or a command.
func place(name string) bool {
	return name == "QQ_RECURSION_DEPTH" || strings.HasPrefix(name, "QQ_EXECUTION_ID_") ||
		strings.HasPrefix(name, box.MarkPrefix)
}
