package config

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"github.com/joho/godotenv"
)

// Entry is a line NAME=value of a .env file.
type Entry struct{ Name, Value string }

// String returns the line. A value that a shell would not take as it is has quotes.
func (e Entry) String() string {
	if strings.Trim(strings.ToLower(e.Value), nameLetters+"./:@+") == "" {
		return e.Name + "=" + e.Value
	}
	return e.Name + "='" + e.Value + "'"
}

// UserFile returns the path of the .env file of the user; "" if there is no folder for it.
func UserFile(environ []string) string {
	base := XDG(environ, "XDG_CONFIG_HOME")
	if base == "" {
		return ""
	}
	return filepath.Join(base, "qq", fromDotEnv)
}

// WriteUser sets entries in the .env file at path and keeps all other lines. The file is replaced as a whole, and only
// its owner can read it. If it says all of that already, it stays as it is, and changed is false.
func WriteUser(path string, entries []Entry) (changed bool, err error) {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real // the link stays a link
	}
	before, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	after, err := edited(before, entries)
	if err != nil {
		return false, &Error{fmt.Sprintf("change %s: %v", path, err), "change it by hand, see qq setup --help"}
	}
	if bytes.Equal(before, after) {
		return false, nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return false, err
	}
	temp, err := os.CreateTemp(filepath.Dir(path), ".env-*") // with mode 0600
	if err != nil {
		return false, err
	}
	_, err = temp.Write(after)
	if err = cmp.Or(err, temp.Sync(), temp.Close()); err == nil {
		err = os.Rename(temp.Name(), path)
	}
	if err != nil {
		return false, errors.Join(err, os.Remove(temp.Name()))
	}
	return true, nil
}

// edited returns the text of a .env file with entries. An entry takes the place of the last line with its name, or is
// a new last line. The result is read again: a text in which that would change anything else, such as a value of
// several lines, is an error.
func edited(text []byte, entries []Entry) ([]byte, error) {
	want, err := godotenv.UnmarshalBytes(text)
	if err != nil {
		return nil, errors.New("it has a line that is not NAME=value")
	}
	lines := strings.SplitAfter(string(text), "\n")
	end := "\n"
	if strings.Contains(lines[0], "\r\n") {
		end = "\r\n"
	}
	if last := len(lines) - 1; lines[last] == "" {
		lines = lines[:last]
	} else {
		lines[last] += end
	}
	for _, e := range entries {
		if have, ok := want[e.Name]; ok && have == e.Value {
			continue
		}
		want[e.Name] = e.Value
		at := len(lines)
		for i, line := range lines {
			if nameOf(line) == e.Name {
				at = i
			}
		}
		if at == len(lines) {
			lines = append(lines, "")
		}
		lines[at] = e.String() + end
	}
	after := []byte(strings.Join(lines, ""))
	got, err := godotenv.UnmarshalBytes(after)
	if err != nil || !maps.Equal(got, want) {
		return nil, errors.New("a value in it has several lines or refers to another one")
	}
	return after, nil
}

// nameOf returns the name that a line of a .env file sets; "" if it sets none.
func nameOf(line string) string {
	name, _, ok := strings.Cut(line, "=")
	if !ok {
		return ""
	}
	return strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(name), "export "))
}
