// Package keyring finds the keys of model servers: in the environment, in the .env file of the user, or by a command
// such as that of a password manager. It runs in the root only. A child gets the key of its own model with its task,
// and no other. The command of an agent gets none: a qq that it starts looks in its environment alone, in which the
// root leaves no key.
package keyring

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/term"

	"qq/internal/app/command"
	"qq/internal/config"
	"qq/internal/models/servers"
	"qq/pkg/llm"
	"qq/pkg/proc"
	"qq/pkg/task"
)

// Ring knows the keys of servers. Set its fields before the first use; then several goroutines may use it.
type Ring struct {
	Environ  command.Environment
	Settings config.Config
	Host     *proc.Host      // starts key commands
	Screen   *command.Screen // the terminal at which a key command may ask; nil if there is none
	Limit    time.Duration   // how long a key command may take; 0 means a minute

	mu    sync.Mutex
	known map[string]said // by the command
}

// said is what a key command printed, or why there is no key.
type said struct {
	key string
	err error
}

// commandTime is how long a key command may take. It may ask a person for a password.
const commandTime = time.Minute

// mostBytes is how long a key may be.
const mostBytes = 16 << 10

// Key implements models.Keys.
func (r *Ring) Key(ctx context.Context, s servers.Server) (string, error) {
	key, from := "", s.KeyName
	switch {
	case s.KeyCommand != "" && r.Settings.Depth > 0:
		return "", wrong(toAgents, "%s needs a key, and the command of an agent gets none", s.Name)
	case s.KeyCommand != "":
		var err error
		from = "key_cmd of " + s.Setting()
		if key, err = r.ask(ctx, s.KeyCommand); err != nil {
			return "", wrong("run the command by itself: the first line that it prints must be the key", "%s: %v", from,
				err)
		}
	case s.KeyName != "":
		if key = strings.TrimSpace(r.Settings.Secret(s.KeyName)); key == "" {
			hint := "set it in the environment or in your own .env, ~/.config/qq/.env; that of a project does not count"
			if r.Settings.Depth > 0 {
				hint = toAgents
			}
			return "", wrong(hint, "%s needs a key, and %s is not set", s.Name, s.KeyName)
		}
	}
	if len(key) > mostBytes || strings.ContainsFunc(key, func(c rune) bool { return c <= ' ' || c > '~' }) {
		hint := "look for spaces and line breaks in it"
		if s.KeyCommand != "" {
			hint += "; key_cmd takes the rest of the line: other options stand before it"
		}
		return "", wrong(hint, "the key in %s is too long, or has characters that no key has", from)
	}
	return key, nil
}

const toAgents = "the agent can delegate the task instead of starting qq"

// wrong returns the error for a key that a person has to mend.
func wrong(hint, format string, args ...any) error {
	return &llm.Error{Kind: llm.Misconfigured, Problem: llm.OneLine(fmt.Sprintf(format, args...)), Hint: hint}
}

// ask returns what a key command prints. It runs once, also if it fails: a person is not asked for each task.
func (r *Ring) ask(ctx context.Context, line string) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s, ok := r.known[line]; ok {
		return s.key, s.err
	}
	key, err := r.run(ctx, line)
	if ctx.Err() != nil {
		return "", context.Cause(ctx) // the run ends, or this task does
	}
	if r.known == nil {
		r.known = map[string]said{}
	}
	r.known[line] = said{key, err}
	return key, err
}

// run runs a command of the user in a shell, as the user typed it, and returns the first line that it prints. The
// command may ask at the terminal, which nobody else then writes to. It gets no other stdin: that may be the input of
// the run.
func (r *Ring) run(ctx context.Context, line string) (string, error) {
	if r.Screen != nil { // a question to the person may be open, and take its time
		release, err := r.Screen.Hold(ctx)
		if err != nil {
			return "", err
		}
		defer release()
	}
	limit := cmp.Or(r.Limit, commandTime)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("it has not ended within %v", limit))
	defer cancel()
	read, write, err := os.Pipe()
	if err != nil {
		return "", err
	}
	defer read.Close()
	c := proc.Command{
		Path: "/bin/sh", Args: []string{"sh", "-c", line}, Env: r.Environ, Grace: time.Second, Joins: true,
		Marker: "QQ_COMMAND_ID_KEY=" + task.NewID(), Stdout: write, Stderr: os.Stderr,
	}
	if term.IsTerminal(int(os.Stdin.Fd())) {
		c.Stdin = os.Stdin
	}
	p, err := r.Host.Start(c)
	write.Close()
	if err != nil {
		return "", err
	}
	stop := context.AfterFunc(ctx, func() {
		p.Stop()
		read.Close() // something that it started may hold the other end
	})
	defer stop()
	out, _ := io.ReadAll(io.LimitReader(read, mostBytes+1))
	_, _ = io.Copy(io.Discard, read) // a closed pipe would end the command; what is missing shows in its exit status
	exit := p.Wait()
	if exit.Signal == syscall.SIGINT || exit.Code == 128+int(syscall.SIGINT) {
		select { // Control-C reaches this process too, and ends the run
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
	switch {
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	case exit.Signal != 0:
		return "", fmt.Errorf("it was ended by %v", exit.Signal)
	case exit.Code != 0:
		return "", fmt.Errorf("it exited with %d", exit.Code)
	}
	key, _, _ := bytes.Cut(bytes.TrimSpace(out), []byte("\n"))
	if len(key) == 0 {
		return "", errors.New("it prints nothing")
	}
	return string(bytes.TrimSpace(key)), nil
}
