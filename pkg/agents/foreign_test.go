package agents

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// foreign is a file as another agent program writes it: a description in one
// line with colons, quotes and \n, and keys and tools that are not ours.
const foreign = `---
name: code-reviewer
description: Use this agent when code was written. Examples: <example>Context: The user wrote a function. user: "Is this right?" assistant: "Let me use the code-reviewer agent" # now <commentary>It's done.</commentary></example>\n\nMore.
tools: Read, Grep, Glob, Bash, TodoWrite
model: sonnet
color: pink
---

You are a senior reviewer.

---

Be kind.
`

// Files for .claude/agents as people have them.
const (
	testRunner = `---
name: test-runner
description: "Use this agent when tests have to be run: it runs them, says what failed and why. Examples:\n\n<example>\nContext: The user changed a parser.\nuser: \"I have changed the parser, is it alright?\"\nassistant: \"I'll use the Task tool to start the test-runner agent.\"\n<commentary>\nCode was changed, so the tests have to run.\n</commentary>\n</example>"
tools: Bash, Read, Grep, Glob, BashOutput, KillShell, TodoWrite
model: haiku
color: green
permissionMode: acceptEdits
---

You run tests. Use the Bash tool.
`
	architect = `---
name: backend-architect
description: Expert in APIs. MUST BE USED proactively when: (1) a service is designed, (2) a schema changes - "think first".
tools: Read, Write, Edit, MultiEdit, NotebookEdit, WebFetch, WebSearch, Task, mcp__context7__resolve-library-id, mcp__context7__get-library-docs
model: inherit
---

# Backend architect

**Role**: you design services.
`
	reader = `---
name: docs-reader
description: >-
  Reads documents
  and answers: quickly.
tools:
  - Read
  - Grep
  - TodoWrite
disallowedTools: Write, Edit
model: claude-haiku-4-5
skills: pdf, docx
---
Read.
`
)

func TestForeignFilesLoadUnchanged(t *testing.T) {
	const folder = "work/.claude/agents/"
	work, _ := tree(t, map[string]string{folder + "code-reviewer.md": foreign, folder + "test-runner.md": testRunner,
		folder + "backend-architect.md": architect, folder + "docs-reader.md": reader})
	r := Load(Dirs(work, "", nil))
	for _, test := range []struct {
		name, description string
		tools             []string
		role              string
		warnings          []string
		prompt            string
	}{
		{"code-reviewer", `user: "Is this right?" assistant: "Let me use the code-reviewer agent" # now <commentary>It's done.`,
			[]string{"read_file", "grep_file", "list_files", "run_pty_cmd"}, Modifying,
			[]string{`line 4: unknown tool "TodoWrite" is left out`, `line 6: unknown key "color"`,
				`line 5: model "sonnet" is not known here: the model of the run is used`},
			"You are a senior reviewer.\n\n---\n\nBe kind."},
		{"test-runner", "says what failed and why. Examples:\n\n<example>\nContext: The user changed a " +
			"parser.\nuser: \"I have changed the parser, is it alright?\"",
			[]string{"run_pty_cmd", "read_file", "grep_file", "list_files"}, Modifying,
			[]string{`line 4: unknown tool "BashOutput" is left out`, `line 4: unknown tool "KillShell" is left out`,
				`line 4: unknown tool "TodoWrite" is left out`,
				`line 6: unknown key "color"`, `line 7: unknown key "permissionMode"`,
				`line 5: model "haiku" is not known here: the model of the run is used`},
			"You run tests. Use the Bash tool."},
		{"backend-architect", `when: (1) a service is designed, (2) a schema changes - "think first".`,
			[]string{"read_file", "write_file", "edit_file", "web_fetch", "web_search", "delegate_task",
				"mcp__context7__resolve-library-id", "mcp__context7__get-library-docs"},
			Modifying, []string{`line 4: unknown tool "NotebookEdit" is left out`},
			"# Backend architect\n\n**Role**: you design services."},
		{"docs-reader", "Reads documents and answers: quickly.", []string{"read_file", "grep_file"}, Gathering,
			[]string{`line 12: unknown key "skills"`, `line 7: unknown tool "TodoWrite" is left out`,
				`line 11: model "claude-haiku-4-5"`}, "Read."},
	} {
		t.Run(test.name, func(t *testing.T) {
			a, err := r.Lookup(test.name)
			require.NoError(t, err)
			assert.Equal(t, filepath.Join(work, ".claude/agents", test.name+".md"), a.Source)
			assert.Contains(t, a.Description, test.description)
			assert.Equal(t, test.tools, a.Tools)
			assert.Empty(t, a.Model)
			assert.Equal(t, test.role, a.Role)
			assert.Equal(t, test.prompt, a.Prompt)
			require.Len(t, a.Warnings, len(test.warnings))
			for _, want := range test.warnings {
				assert.Contains(t, strings.Join(a.Warnings, "\n"), want)
			}
		})
	}
}
