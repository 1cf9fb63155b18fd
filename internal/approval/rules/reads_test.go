package rules

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// link makes the link name in the folder of the checkout.
func (c checkout) link(to, name string) {
	c.t.Helper()
	require.NoError(c.t, os.Symlink(to, filepath.Join(c.dir, name)))
}

// What a rule allows reads what its words say, and no secrets behind them.
func TestReads(t *testing.T) {
	c := newCheckout(t)
	c.write("../id_rsa", "key\n", 0o600)
	c.write("src/a.go", "package a\n", 0o600)
	c.write("conf/.env", "key\n", 0o600)
	c.link("../id_rsa", "notes")
	c.link("..", "up")
	c.link("conf/.env", "settings")
	c.link("src", "code")
	c.write("links/a", "", 0o600)
	c.link("../..", "links/up")
	c.link("nowhere", "dangling")
	c.link("loop", "loop")
	at := c.place()
	for command, want := range map[string]string{
		"cat notes":           "notes leads out of the working directory",
		"cat a.txt notes":     "notes leads out",
		"cat -n -- notes":     "notes leads out",
		"head -n 5 up/id_rsa": "up/id_rsa leads out",
		"ls up":               "up leads out",
		"dd if=notes":         "if=notes leads out of the working directory", "curl -d @notes x": "@notes leads out",
		"npm run x --file=notes":          "--file=notes leads out",
		"wc " + c.dir + "/notes":          c.dir + "/notes leads out",
		"cat settings":                    "settings leads to a file that looks like secrets",
		"cat dangling":                    "dangling is a link that cannot be followed",
		"cat loop":                        "loop is a link that cannot be followed",
		"grep -r key":                     "it would read conf/.env, which looks like secrets",
		"grep -rn key .":                  "it would read conf/.env",
		"grep -n -r key conf":             "it would read conf/.env",
		"grep --recursive key":            "it would read conf/.env",
		"grep -rnA 3 a.txt":               "it would read conf/.env",
		"grep -r -e a.txt":                "it would read conf/.env",
		"grep -r --max-count 3 a.txt":     "it would read conf/.env",
		"grep -d recurse key conf":        "it would read conf/.env",
		"grep -R package src links":       "links/up would be followed",
		"egrep -r key":                    "it would read ",
		"find . -exec cat '{}' +":         "it would read .git/config",
		"find conf -execdir cat '{}' +":   "it would read conf/.env",
		"find conf -name a.txt -ok x":     "it would read conf/.env",
		"find -name src -exec cat '{}' +": "it would read .git/config",
		"find links -exec cat '{}' +":     "links/up would be followed",
		"tar cf x.tar conf":               "it would read conf/.env",
		"cp -r conf src":                  "it would read conf/.env",
		"git grep --untracked key":        "it would read conf/.env",
	} {
		_, err := Prepare(command, at)
		assert.ErrorContains(t, err, want, command)
	}
	for _, command := range []string{"cat a.txt", "cat code/a.go", "grep key notes.txt", "grep -rn package src",
		"grep -rn -A 3 package src code", "grep -r -e package src", "find . -name '*.go'",
		"find src -exec cat '{}' +", "ls -R",
		"cat .env.example", "cat conf/.env", "tar cf x.tar src", "cp a.txt src", "cat ../x",
		"echo " + strings.Repeat("x", 300), "cat a.txt/b"} {
		_, err := Prepare(command, at)
		assert.NoError(t, err, command)
	}
	call, err := Prepare("grep -rn package src", at)
	require.NoError(t, err)
	assert.Equal(t, []string{"grep", "--exclude-dir=.git", "-rn", "package", "src"}, call.Args)

	sub := at
	sub.Dir = filepath.Join(c.dir, "src")
	c.link("../a.txt", "src/above")
	_, err = Prepare("cat above", sub)
	assert.NoError(t, err, "it is in the folder of the agent")
	sub.Root = sub.Dir
	_, err = Prepare("cat above", sub)
	assert.ErrorContains(t, err, "above leads out of the working directory")

	l := lookout{reader: reader{recursive: true}, root: c.dir, entries: maxEntries}
	assert.ErrorContains(t, l.look(filepath.Join(c.dir, "src"), "src"), "more than 20000 files are below src")
}

func TestReadsOfRipgrep(t *testing.T) {
	c := newCheckout(t)
	c.write("bin/rg", "#!/bin/sh\n", 0o700)
	c.write("conf/.env", "key\n", 0o600)
	l := func(words ...string) error { return c.place().looks(words) }
	assert.NoError(t, l("rg", "key"), "it leaves out what begins with a dot")
	assert.ErrorContains(t, l("rg", "-u", "key"), "it would read .git/config")
	assert.ErrorContains(t, l("rg", "--hidden", "key", "conf"), "it would read conf/.env")
	c.write("src/server.key", "key\n", 0o600)
	assert.ErrorContains(t, l("rg", "key"), "it would read src/server.key")
	assert.NoError(t, l("rg", "-n", "key", "conf"))
	c.link("../..", "src/up")
	assert.ErrorContains(t, l("rg", "-L", "key", "src"), "it would")
}
