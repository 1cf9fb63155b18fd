// Package lodging makes the place in which another agent program works for an agent: a folder for its settings and
// state, with copies of the logins of the person, and its environment.
//
// The program gets no secret of qq's: neither keys of model servers, nor settings, nor what looks like a secret. It
// gets its own login, from copied files or from the variables that its dialect names. It can write to the copies only,
// so the settings of the person stay as they are; what the program keeps there is removed with the task.
//
// Not promised: that the program reads nothing else. The sandbox keeps it from writing, not from reading.
package lodging

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"qq/internal/config"
	"qq/internal/foreign"
	"qq/internal/foreign/wire"
	"qq/internal/tools/shell"
	"qq/pkg/agents"
	"qq/pkg/task"
)

// maxFile is the largest file that is copied, in bytes.
const maxFile = 4 << 20

// Make makes the place for the program of def in dir, which exists and goes with the task. environ is the environment
// of the root, with all logins, and base the part of it that commands of agents have.
func Make(dir string, def agents.Agent, environ, base []string) (at foreign.Place, err error) {
	if at.Path, err = def.Runs.Find(config.Getenv(environ, "PATH")); err != nil {
		problem, hint := task.Explain(err)
		return at, &task.Error{Status: task.Misused, Problem: problem, Hint: hint}
	}
	d, err := foreign.DialectOf(def.Runs)
	if err != nil {
		return at, err
	}
	c, err := d.Command(wire.Job{Program: def.Runs})
	if err != nil {
		return at, err
	}
	temp := filepath.Join(dir, "tmp")
	if err := os.MkdirAll(temp, 0o700); err != nil {
		return at, task.Machine("", "make a folder for %s: %w", def.Runs.Name, err)
	}
	at.Env = slices.DeleteFunc(shell.Environment(base, temp), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return slices.ContainsFunc(c.Drop, func(pattern string) bool { return matches(pattern, name) })
	})
	at.Logins = map[string]string{}
	for i, l := range c.Lodgings {
		if err := furnish(&at, l, filepath.Join(dir, "state"+strconv.Itoa(i)), environ); err != nil {
			return at, err
		}
	}
	for _, name := range c.Keep {
		if value := config.Getenv(environ, name); value != "" {
			at.Env = set(at.Env, name+"="+value)
		}
	}
	for _, entry := range c.Add {
		at.Env = set(at.Env, entry)
	}
	return at, nil
}

// furnish makes a folder of the program, with copies of files of the person's.
func furnish(at *foreign.Place, l wire.Lodging, dir string, environ []string) error {
	from := config.Getenv(environ, l.Variable)
	if from == "" {
		from = filepath.Join(config.Getenv(environ, "HOME"), l.Default)
	}
	for _, name := range l.Files {
		target := filepath.Join(dir, filepath.FromSlash(name))
		data, err := read(filepath.Join(from, filepath.FromSlash(name)))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = errors.Join(os.MkdirAll(filepath.Dir(target), 0o700), os.WriteFile(target, data, 0o600))
		}
		if err != nil {
			return task.Hinted("look at the file, or move it away", "copy the settings of a program: %w", err)
		}
		if strings.Contains(name, "cred") || strings.Contains(name, "auth") {
			at.Logins[target] = foreign.SumOf(data)
		}
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return task.Machine("", "make a folder for the state of a program: %w", err)
	}
	at.Env = set(at.Env, l.Variable+"="+dir)
	return nil
}

// read returns the content of a regular file, which may be reached by a link of the person's.
func read(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxFile {
		return nil, &fs.PathError{Op: "read", Path: path, Err: errors.New("it is no file, or too large")}
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxFile))
}

// matches reports whether a name is meant by a pattern, which may end in *.
func matches(pattern, name string) bool {
	if prefix, ok := strings.CutSuffix(pattern, "*"); ok {
		return strings.HasPrefix(name, prefix)
	}
	return pattern == name
}

// set returns env with an entry, in place of others of the same name.
func set(env []string, entry string) []string {
	name, _, _ := strings.Cut(entry, "=")
	return append(slices.DeleteFunc(env, func(e string) bool { return strings.HasPrefix(e, name+"=") }), entry)
}
