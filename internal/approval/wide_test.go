package approval

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"qq/internal/approval/rules"
	"qq/pkg/tool"
)

func TestWideFolders(t *testing.T) {
	write := tool.Intent{Effect: tool.Writes}
	for _, c := range []struct{ root, dir, home, want string }{
		{"/home/me", "", "/home/me", "your home directory"}, {"/home/me", "/home/me/x", "/home/me", ""},
		{"/home", "", "/home/me", "a folder above your home directory"},
		{"/home", "/home/me", "/home/me", "your home directory"}, {"/home", "/home/you", "/home/me", ""},
		{"/", "", "/home/me", "the root of the file system"}, {"/", "", "/", "the root of the file system"},
		{"/home/me2", "", "/home/me", ""}, {"/tmp", "", "/", ""}, {"/home/me", "", "", ""}, {"", "", "/home/me", ""},
	} {
		assert.Equal(t, c.want, Policy{Root: c.root, Home: c.home}.wide(write, c.dir), c)
		assert.Empty(t, Policy{Root: c.root, Home: c.home}.wide(tool.Intent{Effect: tool.Reads}, c.dir), c)
	}
}

// In a wide working directory, a person confirms the first change that is allowed in general.
func TestWideDirectory(t *testing.T) {
	allow := []rules.Rule{rules.Of("edit_file"), rules.Of("run_pty_cmd"), rules.Of("web_fetch")}
	p := Policy{Mode: Ask, Allow: allow, Root: "/home/me", Home: "/home/me"}
	edit := tool.Intent{Tool: "edit_file", Effect: tool.Writes, Risk: tool.Medium}
	for name, c := range map[string]struct {
		in   tool.Intent
		want Verdict
	}{
		"a change":   {edit, Asked},
		"a command":  {tool.Intent{Tool: "run_pty_cmd", Effect: tool.Executes, Risk: tool.High}, Asked},
		"a page":     {tool.Intent{Tool: "web_fetch", Effect: tool.Network, Risk: tool.Medium}, Allowed},
		"to read":    {tool.Intent{Tool: "read_file", Effect: tool.Reads, Risk: tool.Low}, Allowed},
		"delegation": {tool.Intent{Tool: "delegate_task", Effect: tool.Delegates, Risk: tool.Low}, Allowed},
	} {
		got, _ := p.Judge(c.in, "")
		assert.Equal(t, c.want, got, name)
	}
	auto := p
	auto.Mode = Auto
	got, _ := auto.Judge(edit, "")
	assert.Equal(t, Allowed, got, "the word of a person")

	nobody := NewQueue(QueueConfig{Policy: p})
	d := nobody.Ask(t.Context(), tool.Question{Intent: edit})
	assert.False(t, d.Allowed)
	assert.Contains(t, d.Reason, "the working directory is your home directory")
	assert.Contains(t, d.Reason, "--auto-approve")

	somebody := &person{says: []saying{{answer: Once}, {answer: Once}, {answer: Once}}}
	q := NewQueue(QueueConfig{Policy: p, Prompter: somebody})
	other := edit
	other.Tool = "write_file"
	for _, in := range []tool.Intent{edit, edit, {Tool: "run_pty_cmd", Effect: tool.Executes, Risk: tool.High}} {
		assert.True(t, q.Ask(t.Context(), tool.Question{Intent: in}).Allowed)
	}
	assert.Len(t, somebody.shown, 1, "once in a run")
	q.Ask(t.Context(), tool.Question{Intent: other})
	q.Ask(t.Context(), tool.Question{Intent: other})
	assert.Len(t, somebody.shown, 3, "what is not allowed in general is asked about as ever")
}
