package agents_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"qq/pkg/agents"
)

const reviewer = `---
name: reviewer
description: Reads a change and says what is wrong with it.
tools: [read_file, grep_file]
role: information-gathering
---
You review changes. Name each fault with its file and line.
`

func ExampleParse() {
	a, err := agents.Parse("reviewer", []byte(reviewer))
	if err != nil {
		panic(err)
	}
	fmt.Println(a.Name, a.Tools, a.Gathers())
	fmt.Println("may read:", a.Allows("read_file"))
	fmt.Println("may edit:", a.Allows("edit_file"))

	_, err = agents.Parse("broken", []byte("You review changes."))
	fmt.Println(err)
	// Output:
	// reviewer [read_file grep_file] true
	// may read: true
	// may edit: false
	// line 1: no front matter: begin the file with a line ---, then name and description, then another ---
}

// Folders that come first hide the definitions of later ones, and of the built-in
// agents. A look-up changes nothing.
func ExampleRegistry_Lookup() {
	work, err := os.MkdirTemp("", "work-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(work)
	dir := filepath.Join(work, ".qq", "agents")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		panic(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "reviewer.md"), []byte(reviewer), 0o600); err != nil {
		panic(err)
	}
	registry := agents.Load(agents.Dirs(work, "", nil))

	a, err := registry.Lookup("Reviewer")
	if err != nil {
		panic(err)
	}
	fmt.Println(a.Name, "from", filepath.Base(a.Source))
	a, err = registry.Lookup("summarizer")
	if err != nil {
		panic(err)
	}
	fmt.Println(a.Name, "from", a.Source)
	_, err = registry.Lookup("nobody")
	_, missing := errors.AsType[*agents.NotFoundError](err)
	fmt.Println("nobody is missing:", missing)
	// Output:
	// reviewer from reviewer.md
	// summarizer from built-in
	// nobody is missing: true
}
