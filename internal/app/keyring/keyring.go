// Package keyring finds the keys of model servers: in the environment, in the .env file of the user, or by a command
// such as that of a password manager. It runs in the root only. A child gets the key of its own model with its task,
// and no other.
package keyring

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"qq/internal/app/command"
	"qq/internal/config"
	"qq/internal/models/servers"
	"qq/pkg/llm"
	"qq/pkg/proc"
)

// Ring knows the keys of servers. Set its fields before the first use; then several goroutines may use it.
type Ring struct {
	Environ  command.Environment
	Settings config.Config
	Host     *proc.Host // starts key commands

	mu    sync.Mutex
	known map[string]string // keys that commands printed, by the names of their servers
}

// commandTime is how long a key command may take. It may ask a person for a password.
const commandTime = time.Minute

// mostBytes is how long a key may be.
const mostBytes = 16 << 10

// Key implements models.Keys.
func (r *Ring) Key(ctx context.Context, s servers.Server) (string, error) {
	key, from := "", s.KeyName
	switch {
	case s.KeyCommand != "":
		var err error
		from = "key_cmd of " + s.Setting()
		if key, err = r.ask(ctx, s); err != nil {
			return "", wrong("run the command by itself; it must print the key", "%s: %v", from, err)
		}
	case s.KeyName != "":
		if key = strings.TrimSpace(r.Settings.Secret(s.KeyName)); key == "" {
			return "", wrong("set it in the environment or in your own .env", "%s needs a key, and %s is not set",
				s.Name, s.KeyName)
		}
	}
	if len(key) > mostBytes || strings.ContainsFunc(key, func(c rune) bool { return c <= ' ' || c > '~' }) {
		return "", wrong("look for spaces and line breaks in it", "the key in %s has characters that no key has", from)
	}
	return key, nil
}

// wrong returns the error for a key that a person has to mend.
func wrong(hint, format string, args ...any) error {
	return &llm.Error{Kind: llm.Misconfigured, Problem: llm.OneLine(fmt.Sprintf(format, args...)), Hint: hint}
}

// ask returns what the key command of s prints. It runs once.
func (r *Ring) ask(ctx context.Context, s servers.Server) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if key, ok := r.known[s.Name]; ok {
		return key, nil
	}
	key, err := r.run(ctx, s.KeyCommand)
	if err != nil {
		return "", err
	}
	if r.known == nil {
		r.known = map[string]string{}
	}
	r.known[s.Name] = key
	return key, nil
}

// run runs a command of the user in a shell, as the user typed it, and returns what it prints. The command may use
// the terminal.
func (r *Ring) run(ctx context.Context, line string) (string, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return "", err
	}
	defer read.Close()
	p, err := r.Host.Start(proc.Command{
		Path: "/bin/sh", Args: []string{"sh", "-c", line}, Env: r.Environ, Grace: time.Second,
		Stdin: os.Stdin, Stdout: write, Stderr: os.Stderr,
	})
	write.Close()
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, commandTime, fmt.Errorf("it has not ended within %v", commandTime))
	defer cancel()
	stop := context.AfterFunc(ctx, p.Stop)
	defer stop()
	out, _ := io.ReadAll(io.LimitReader(read, mostBytes+1)) // what is missing shows in the exit status
	exit := p.Wait()
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
		return "", fmt.Errorf("it prints nothing")
	}
	return strings.TrimSpace(string(key)), nil
}
