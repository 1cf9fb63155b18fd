package app

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// shell runs a script in a real shell, in which qq is this program. The test is skipped if there is no such shell,
// unless QQ_SHELLS_REQUIRED is set; test/shells/tools.sh installs them.
func (w *world) shell(name, script string) string {
	w.t.Helper()
	path, err := exec.LookPath(name)
	if err != nil && os.Getenv("QQ_SHELLS_REQUIRED") == "" {
		w.t.Skip("no " + name)
	}
	require.NoError(w.t, err)
	self, err := os.Executable()
	require.NoError(w.t, err)
	bin := w.t.TempDir()
	require.NoError(w.t, os.Symlink(self, filepath.Join(bin, "qq")))
	args := []string{"-c", script}
	switch name {
	case "bash":
		args = append([]string{"--norc"}, args...)
	case "zsh":
		args = append([]string{"-f"}, args...)
	case "fish":
		args = append([]string{"--no-config"}, args...)
	}
	cmd := exec.CommandContext(w.t.Context(), path, args...)
	cmd.WaitDelay = 10 * time.Second
	cmd.Dir, cmd.Env = w.dir, append(w.env[:len(w.env):len(w.env)], "PATH="+bin+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	require.NoError(w.t, err, string(out))
	return string(out)
}

// newShellWorld makes a world with files to complete, and with what a checkout must not be able to do: programs in it
// whose names are those of qq and of what the scripts call, and a shell file that leaves a trace when it is read.
func newShellWorld(t *testing.T) *world {
	w := newWorld(t)
	w.file("notes.md", "# Notes\n")
	w.file("schemas/answer.json", "{}")
	w.file(".qq/agents/mine.md", "---\nname: mine\ndescription: \"is $(touch run) `touch run`: mine\"\n---\nBe mine.\n")
	w.file("qq", "#!/bin/sh\ntouch run\n")
	require.NoError(t, os.Chmod(filepath.Join(w.dir, "qq"), 0o700))
	t.Cleanup(func() {
		_, err := os.Stat(filepath.Join(w.dir, "run"))
		assert.ErrorIs(t, err, os.ErrNotExist, "nothing of the checkout was run")
	})
	return w
}

// typed are command lines with what Tab makes of them, in every shell.
var typed = map[string]string{
	"qq doc":                        "qq doctor",
	"qq agents show min":            "qq agents show mine",
	"qq -a min":                     "qq -a mine",
	"qq --agent=min":                "qq --agent=mine",
	"qq --approve de":               "qq --approve deny",
	"qq --approve=de":               "qq --approve=deny",
	"qq batch --output-format mark": "qq batch --output-format markdown",
	"qq batch note":                 "qq batch notes.md",
	"qq --message-f":                "qq --message-file",
	"qq runs tr":                    "qq runs tree",
	"qq --model oll":                "qq --model ollama:",
}

func TestBashCompletes(t *testing.T) {
	w := newShellWorld(t)
	var script strings.Builder
	// As readline does it: COMP_WORDS are the words at blanks, = and :.
	script.WriteString(`eval "$(qq completion bash)"
try() {
  local line=$1 parts; COMP_WORDS=(); COMPREPLY=()
  for word in $line; do
    while [[ $word == *=* ]]; do COMP_WORDS+=("${word%%=*}" =); word=${word#*=}; done
    COMP_WORDS+=("$word")
  done
  COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _qq 2>&1
  cur=${COMP_WORDS[COMP_CWORD]}; [[ $cur == = ]] && cur=
  printf '%s -> %s%s\n' "$line" "${line%"$cur"}" "${COMPREPLY[*]}"
}
`)
	for line := range typed {
		script.WriteString("try '" + line + "'\n")
	}
	out := w.shell("bash", script.String())
	for line, want := range typed {
		assert.Contains(t, out, line+" -> "+want+"\n")
	}
}

func TestZshCompletes(t *testing.T) {
	w := newShellWorld(t)
	var script strings.Builder
	// A shell of its own on a terminal: Tab, then a key that writes down the line.
	script.WriteString(`zmodload zsh/zpty; zpty -b z zsh -f -i
zpty -w z "PS1=; unsetopt beep; autoload -U compinit; compinit -D -u; source =(qq completion zsh)"
zpty -w z "show() { print -r -- \"<\${BUFFER% }>\" >> out; BUFFER= }; zle -N show; bindkey '^Xs' show"
zpty -w z "print ready >> out"
wait_for() { repeat 200 { [[ $(cat out 2>/dev/null | wc -l) -ge $1 ]] && return; sleep 0.05 } }
wait_for 1
n=1
`)
	for line := range typed {
		script.WriteString("zpty -w -n z '" + line + "'$'\\t\\x18s'; wait_for $((++n))\n")
	}
	script.WriteString("zpty -d z; cat out")
	out := w.shell("zsh", script.String())
	for _, want := range typed {
		assert.Contains(t, out, "<"+want+">\n")
	}
}

func TestFishCompletes(t *testing.T) {
	w := newShellWorld(t)
	var script strings.Builder
	script.WriteString("qq completion fish | source\n")
	for line := range typed {
		script.WriteString("echo '" + line + " ->' (complete -C '" + line + "' | string replace -r '\\t.*' '')\n")
	}
	out := w.shell("fish", script.String())
	for line, want := range typed {
		fields := strings.Fields(want)
		assert.Contains(t, out, line+" -> "+fields[len(fields)-1]+"\n")
	}
}
