package app

import (
	"qq/internal/approval"
	"qq/internal/approval/dialog"
)

// prompter opens the terminal to ask a person about risky calls. It returns nil if there is
// no terminal: risky calls are then refused, with the reason.
func (r *root) prompter() approval.Prompter {
	terminal, err := dialog.OpenTerminal(r.Err.Terminal(), r.Coloured(r.Err), r.Screen)
	if err != nil {
		return nil
	}
	terminal.Dumb = r.Env.Get("TERM") == "dumb"
	r.terminal = terminal
	return terminal
}
