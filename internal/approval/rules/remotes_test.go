package rules

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A repository in a folder runs its own hooks when something is pushed to it.
func TestRepositoryInAFolder(t *testing.T) {
	c := newCheckout(t)
	git(t, c.dir, "init", "-q", "--bare", "vendor/evil.git")
	c.write("vendor/evil.git/hooks/pre-receive", "#!/bin/sh\n"+c.trap+" </dev/null\n", 0o700)
	git(t, c.dir, "remote", "add", "origin", "https://x.invalid/y.git")
	for _, command := range []string{
		"git push ./vendor/evil.git HEAD:x", "git push vendor/evil.git HEAD:x", "git push vendor/evil HEAD:x",
		"git push --repo=./vendor/evil.git", "git push --repo ./vendor/evil.git",
		"git push -u ./vendor/evil.git HEAD:x",
		"git push file://" + c.dir + "/vendor/evil.git HEAD:x", "git push " + c.dir + "/vendor/evil.git HEAD:x",
		"git push 'ext::sh -c x' HEAD", "git push ext::x HEAD", "git push unknown://x HEAD", "git fetch .",
		"git pull vendor/evil.git", "git ls-remote vendor/evil.git", "git push ~x/y",
	} {
		_, err := Prepare(command, c.place())
		assert.ErrorContains(t, err, "", command)
	}
	_, err := Prepare("git push vendor/evil.git HEAD:x", c.place())
	assert.EqualError(t, err, `"vendor/evil.git" is neither a remote of the repository nor an address of a server`)
	for _, command := range []string{"git push", "git push origin", "git push -u origin HEAD:main",
		"git push https://x.invalid/z main", "git push me@x.invalid:z main", "git fetch origin",
		"git log vendor/evil.git"} {
		_, err := Prepare(command, c.place())
		assert.NoError(t, err, command)
	}

	// What the arguments do not tell is refused by git itself.
	call, err := Prepare("git push origin HEAD:x", c.place())
	require.NoError(t, err)
	for i, word := range call.Args {
		if word == "origin" {
			call.Args[i] = "./vendor/evil.git"
		}
	}
	out, err := (&exec.Cmd{Path: call.Path, Args: call.Args, Env: call.Env, Dir: c.dir}).CombinedOutput()
	assert.Error(t, err)
	assert.Contains(t, string(out), "transport 'file' not allowed")
	assert.NoFileExists(t, c.spoor)
	git(t, c.dir, "push", "-q", "./vendor/evil.git", "HEAD:x")
	assert.FileExists(t, c.spoor, "it is a trap")
}

// The configuration of a checkout does not send git elsewhere either.
func TestRemotesOfTheConfiguration(t *testing.T) {
	for setting, want := range map[string]string{
		"[remote \"origin\"]\nurl = ./evil.git":                 `remote.origin.url is "./evil.git", which is no address`,
		"[remote \"origin\"]\nurl = \"evil.git\"":               `remote.origin.url is "evil.git", which is no`,
		"[remote \"origin\"]\nurl = file:///x":                  "remote.origin.url is ",
		"[remote \"origin\"]\nurl = ext::sh":                    "remote.origin.url is ",
		"[remote \"origin\"]\nurl = https://x/y # z":            "remote.origin.url is ",
		"[remote \"origin\"]\nurl":                              "remote.origin.url is ",
		"[remote \"origin\"]\npushurl = ../evil":                "remote.origin.pushurl is ",
		"[remote \"o\"]\nurl=x:y\nmirror = true":                "remote.o.mirror may delete what others pushed",
		"[remote \"o\"]\nurl=x:y\npush = +a:b":                  "remote.o.push may overwrite what others pushed",
		"[branch \"main\"]\nremote = ./evil.git":                `branch.main.remote is "./evil.git", which is no remote`,
		"[branch \"main\"]\npushRemote = evil":                  "branch.main.pushremote is ",
		"[url \"./evil/\"]\ninsteadOf = https://x.org/":         "sets url.insteadof",
		"[url \"./evil/\"]\npushInsteadOf = https://x/":         "sets url.pushinsteadof",
		"[remote]\npushDefault = evil":                          "sets remote.pushdefault",
		"[remote \"o\"]\nurl = x:y\nvcs = evil":                 "sets remote.vcs",
		"[remotes]\norigin = evil":                              "sets remotes.origin",
		"[remote \"o\"]\nurl = git@x.org:y/z.git":               "",
		"[remote \"o\"]\nurl = ssh://x/y\npush = a:b":           "",
		"[remote \"o\"]\nurl = x:y\n[branch \"a\"]\nremote = o": "",
	} {
		c := newCheckout(t)
		c.write(".git/config", "[core]\n\tbare = false\n"+setting+"\n", 0o600)
		for _, command := range []string{"git push", "git fetch"} {
			_, err := Prepare(command, c.place())
			if want == "" {
				assert.NoError(t, err, setting)
			} else {
				assert.ErrorContains(t, err, want, setting)
			}
		}
	}
	c := newCheckout(t)
	git(t, c.dir, "config", "remote.origin.url", "../backup.git")
	_, err := Prepare("git log", c.place())
	assert.NoError(t, err, "it talks to no repository")
	git(t, c.dir, "config", "remote.origin.url", "https://x.invalid/y")
	c.write(".git/remotes/evil", "URL: ./vendor/evil.git\n", 0o600)
	_, err = Prepare("git push", c.place())
	assert.EqualError(t, err, filepath.Join(c.dir, ".git/remotes")+" may name other repositories")
}
