package gitconfig

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"
)

// What is not doubtful has no key that git sees and harmless does not know.
func TestDoubtful(t *testing.T) {
	for text, want := range map[string]string{
		"":                                  "",
		"[core]\n\tbare = false\n":          "",
		"[core] bare=false ; x\n# y\\\n":    "",
		"[Remote \"a]b\"]\r\n\turl = x\r\n": "",
		"[core]\n\tpager = x":               "core.pager",
		"[core]pager=x":                     "core.pager",
		"[CORE]\nPAGER=x":                   "core.pager",
		"[core]\n\tbare = a\\\n\tpager = x": `"bare = a\\"`,
		"[core]\nbare=a\\\r\npager=x":       `"bare=a\\"`,
		"[core][alias]x=y":                  `"[alias]x=y"`,
		"[alias.x]":                         `"[alias.x]"`,
		"[core\n]":                          `"[core"`,
		"pager=x":                           ".pager",
		"\ufeff[core]":                      `"\ufeff[core]"`,
		"[core]\x00":                        "a NUL character",
		"[includeIf \"x\"]path=y":           "includeif.path",
		"[remote \"x\"]uploadpack=y":        "remote.uploadpack",
		"[core]\n\v pager=x":                `"\v pager=x"`,
		"[core]\rpager=x":                   `"\rpager=x"`,
		"[submodule \"x\"]update=!y":        "submodule.update",
	} {
		_, doubt := Parse([]byte(text))
		assert.Equal(t, want, doubt, "%q", text)
	}
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	dir := t.TempDir()
	pieces := rapid.SliceOfN(rapid.SampledFrom([]string{"[core]", "[remote \"a\"]", "[alias]", "[core", "]", "\"", "\\",
		"\n",
		"\r\n", " ", "\t", "\r", "bare", "url", "pager", "=", "x", "#", ";", "[", ".", "\v", "-"}), 0, 14)
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(pieces.Draw(t, "text"), "")
		_, doubt := Parse([]byte(text))
		if doubt != "" {
			return
		}
		cmd := exec.Command("git", "config", "-f", "-", "--list", "--name-only")
		cmd.Dir, cmd.Stdin = dir, strings.NewReader(text)
		out, err := cmd.Output()
		if err != nil {
			return // git does not read it either
		}
		for key := range bytes.Lines(out) {
			name := strings.TrimSpace(string(key))
			section, _, _ := strings.Cut(name, ".")
			assert.True(t, harmless(section, name[strings.LastIndex(name, ".")+1:]), "%q has %q", text, name)
		}
	})
}

// What is read is what git reads, where programs have written it.
func TestRead(t *testing.T) {
	for text, want := range map[string]string{
		"[core]\n\thooksPath = .githooks\n":                      ".githooks",
		"\ufeff[CORE] HooksPath=a b # c":                         "a b",
		"[core]\n[broken.x\nhooksPath = x\n":                     "none",
		"[core]\nwhat?\nhooksPath=\" a;\\t\\\"b\\\\ \" ; c":      " a;\t\"b\\ ",
		"[core]\nhooksPath=x\\\ny":                               "none",
		"[core]\nhooksPath = \"x":                                "x",
		"[alias]\nx = !y\n[core]\nhooksPath=x\r\n[a \"b\"]c=d\n": "x",
	} {
		got := "none"
		for _, s := range Read([]byte(text)) {
			if s.Section == "core" && s.Key == "hookspath" {
				got = s.Text()
			}
		}
		assert.Equal(t, want, got, "%q", text)
	}
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	file := filepath.Join(t.TempDir(), "config")
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.StringOf(rapid.RuneFrom([]rune("ab \t\n\\\"#;=[]é"))).Draw(t, "value")
		value = strings.TrimRight(value, `\`) // such a line may go on
		_ = os.Remove(file)
		out, err := exec.Command("git", "config", "-f", file, "core.hooksPath", value).CombinedOutput()
		assert.NoError(t, err, "%s", out)
		text, err := os.ReadFile(file)
		assert.NoError(t, err)
		settings := Read(text)
		if assert.Len(t, settings, 1, "%q", text) {
			assert.Equal(t, value, settings[0].Text(), "%q", text)
		}
	})
}
