package config

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/joho/godotenv"

	"qq/pkg/spelling"
)

// maxDotEnv is the largest .env file that is read.
const maxDotEnv = 1 << 20

const eachLine = "each line is NAME=value, or a comment after #"

// dotEnv is a .env file.
type dotEnv struct {
	path   string
	label  string            // names it in messages
	info   fs.FileInfo       // nil if there is no such file
	values map[string]string // of settings
	sum    string            // SHA-256 of its content, and of the names of settings in it
}

// open reads the settings in f. If the file does not exist or cannot be opened, there are none.
func (l *loader) open(f *dotEnv) error {
	data, info, err := l.readDotEnv(f.path, f.label)
	if err != nil || len(data) == 0 {
		return err
	}
	all, err := parseDotEnv(data, f.label)
	if err != nil {
		return err
	}
	l.unknown(all, f.label)
	f.info, f.values = info, map[string]string{}
	// A name that becomes a setting in a later version changes the sum: nobody has seen what it then means.
	hash := sha256.New()
	for _, s := range l.settings {
		if v, ok := all[s.Name]; ok {
			f.values[s.Name] = v
			fmt.Fprintln(hash, s.Name)
		}
	}
	if len(f.values) > 0 {
		hash.Write(data)
		f.sum = hex.EncodeToString(hash.Sum(nil))
	}
	return nil
}

// readDotEnv returns the bytes of a .env file, or nil if there is no such file. A folder of that name, such as a
// Python environment, counts as no file.
func (l *loader) readDotEnv(path, label string) ([]byte, fs.FileInfo, error) {
	// Without O_NONBLOCK, opening a named pipe would wait for a writer.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil, nil, nil
	}
	if err != nil {
		l.warn("%s is ignored: %s", label, errors.Unwrap(err))
		return nil, nil, nil
	}
	defer f.Close()
	var data []byte
	info, err := f.Stat()
	if err == nil && info.Mode().IsRegular() {
		data, err = io.ReadAll(io.LimitReader(f, maxDotEnv+1))
	}
	switch {
	case err != nil:
		return nil, nil, &Error{fmt.Sprintf("read %s: %v", label, err), "mend or remove " + path}
	case !info.IsDir() && !info.Mode().IsRegular():
		return nil, nil, &Error{"read " + label + ": it is not a regular file", "remove " + path + " or make it a file"}
	case len(data) > maxDotEnv:
		return nil, nil, &Error{"read " + label + ": it is larger than 1 MiB", "keep only settings in " + path}
	}
	return data, info, nil
}

// parseDotEnv parses a whole .env file. It does not parse line by line, because a value may refer to one above it.
func parseDotEnv(data []byte, label string) (map[string]string, error) {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	data = bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n"))
	if !bytes.HasSuffix(data, []byte("\n")) {
		data = append(data, '\n') // otherwise a name without = at the end would be accepted
	}
	values, err := godotenv.UnmarshalBytes(data)
	if err != nil {
		return nil, broken(string(data), label, err)
	}
	if _, ok := values[""]; ok {
		return nil, &Error{"read " + label + ": a line has no name before its =", eachLine}
	}
	return values, nil
}

// broken converts an error of the .env parser to one that names the line. It shows nothing of the file, which may
// hold secrets.
func broken(data, label string, err error) error {
	problem, hint, rest := "a line that is not NAME=value", eachLine, ""
	if value, ok := strings.CutPrefix(err.Error(), "unterminated quoted value "); ok {
		problem, hint = "a quote that is not closed", "close the quote, or leave both out"
		// An opening quote without an end has no equal after it.
		if i := strings.LastIndex(data, value); i >= 0 {
			rest = data[i:]
		}
	} else if _, near, ok := strings.Cut(err.Error(), " in variable name near "); ok {
		if s, err := strconv.Unquote(near); err == nil && strings.HasSuffix(data, s) {
			rest = s
		}
	}
	where := label
	if rest != "" {
		where = fmt.Sprintf("%s line %d", label, 1+strings.Count(data[:len(data)-len(rest)], "\n"))
	}
	return &Error{fmt.Sprintf("read %s: %s", where, problem), hint}
}

// unknown warns of names that begin with QQ_ but are no setting.
func (l *loader) unknown(values map[string]string, source string) {
	var names, known []string
	for _, s := range l.settings {
		known = append(known, s.Name)
	}
	for name := range values {
		if strings.HasPrefix(name, "QQ_") && !slices.Contains(known, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		hint := "`qq config` lists them"
		if near := spelling.Nearest(name, known); near != "" {
			hint = "did you mean " + near + "?"
		}
		l.warn("%s (%s) is no setting: %s", quoted(name), source, hint)
	}
}
