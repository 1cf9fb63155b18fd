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
	all    map[string]string // those of other names too
	sum    string            // SHA-256 of its content, and of the names of settings in it
}

// open reads the settings in f. If the file does not exist or cannot be opened, there are none.
func (l *loader) open(f *dotEnv) error {
	data, info, err := l.readDotEnv(f.path, f.label)
	if err != nil || len(data) == 0 {
		return err
	}
	all, err := l.parseDotEnv(data, f.label)
	if err != nil {
		return err
	}
	l.unknown(all, f.label)
	f.info, f.values = info, map[string]string{}
	// A name that becomes a setting in a later version changes the sum: nobody has seen what it then means.
	hash := sha256.New()
	for _, s := range l.settings {
		for _, name := range s.names(all) {
			f.values[name] = all[name]
			fmt.Fprintln(hash, name)
		}
	}
	f.all = all
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
// Lines that the parser cannot read and that are no settings of qq, such as A-B=1, belong to other programs: each is
// left out with a warning.
func (l *loader) parseDotEnv(data []byte, label string) (map[string]string, error) {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	data = bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n"))
	if !bytes.HasSuffix(data, []byte("\n")) {
		data = append(data, '\n') // otherwise a name without = at the end would be accepted
	}
	values, err := godotenv.UnmarshalBytes(data)
	for skipped := 0; err != nil; skipped++ {
		mistake := locate(string(data), err)
		if skipped == maxSkipped || !l.foreign(data, mistake) {
			return nil, mistake.error(label)
		}
		l.warn("%s line %d is left out: it is not NAME=value", label, mistake.line)
		copy(data[mistake.at:], bytes.Repeat([]byte("#"), len(lineAt(data, mistake.at))))
		values, err = godotenv.UnmarshalBytes(data)
	}
	l.colons(data, values, label)
	if _, ok := values[""]; ok {
		return nil, &Error{"read " + label + ": a line has no name before its =", eachLine}
	}
	return values, nil
}

// colons warns of lines such as "foo: bar" that are no settings of qq: the parser takes them for NAME=value.
func (l *loader) colons(data []byte, values map[string]string, label string) {
	number, told := 0, 0
	for line := range bytes.Lines(data) {
		number++
		name, _, ok := strings.Cut(string(line), ":")
		name = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(name), "export "))
		_, parsed := values[name] // what is not may be a line of a longer value
		if ok && parsed && told < maxSkipped && !strings.Contains(name, "QQ_") &&
			!slices.ContainsFunc(l.settings, func(s Setting) bool { return s.Name == name }) {
			l.warn("%s line %d is left out: it is not NAME=value", label, number)
			told++
		}
	}
}

// maxSkipped is how many lines of a .env file may be left out. A file with more is none.
const maxSkipped = 20

// misread is a place in a .env file that the parser cannot read.
type misread struct {
	what, hint string
	at, line   int  // offset and number of the line; 0 if they are not known
	quote      bool // a quote is not closed: what is below may be part of a value
}

// locate finds the place of an error of the .env parser.
func locate(data string, err error) misread {
	m := misread{what: "a line that is not NAME=value", hint: eachLine}
	rest := ""
	if value, ok := strings.CutPrefix(err.Error(), "unterminated quoted value "); ok {
		m.what, m.hint, m.quote = "a quote that is not closed", "close the quote, or leave both out", true
		// An opening quote without an end has no equal after it.
		if i := strings.LastIndex(data, value); i >= 0 {
			rest = data[i:]
		}
	} else if _, near, ok := strings.Cut(err.Error(), " in variable name near "); ok {
		if s, err := strconv.Unquote(near); err == nil && strings.HasSuffix(data, s) {
			rest = s
		}
	}
	if rest != "" {
		m.at = len(data) - len(rest)
		m.line = 1 + strings.Count(data[:m.at], "\n")
	}
	return m
}

// error returns the error for a person. It shows nothing of the file, which may hold secrets.
func (m misread) error(label string) error {
	if m.line > 0 {
		label = fmt.Sprintf("%s line %d", label, m.line)
	}
	return &Error{fmt.Sprintf("read %s: %s", label, m.what), m.hint}
}

// foreign reports whether what cannot be read is one whole line of another program: it names no setting of qq, and
// no quote in it may go on below.
func (l *loader) foreign(data []byte, m misread) bool {
	if m.line == 0 || m.quote {
		return false
	}
	line := strings.ToUpper(string(lineAt(data, 1+bytes.LastIndexByte(data[:m.at], '\n'))))
	ours := func(s Setting) bool { return strings.Contains(line, s.Name) }
	if strings.Contains(line, "QQ_") || slices.ContainsFunc(l.settings, ours) {
		return false
	}
	return strings.Count(line, `"`)%2 == 0 && (strings.Count(line, "'")%2 == 0 || !strings.ContainsAny(line, "=:"))
}

// lineAt returns data from at to the end of the line.
func lineAt(data []byte, at int) []byte {
	line, _, _ := bytes.Cut(data[at:], []byte("\n"))
	return line
}

// unknown warns of names that begin with QQ_, or have such a word as in "set QQ_MODEL=x", but are no setting.
func (l *loader) unknown(values map[string]string, source string) {
	var names, known []string
	for _, s := range l.settings {
		known = append(known, s.Name)
	}
	for name, value := range values {
		ours := strings.HasPrefix(name, "QQ_") || strings.Contains(name, " QQ_")
		family := slices.ContainsFunc(l.settings, func(s Setting) bool { return s.has(name) })
		if ours && value != "" && !slices.Contains(known, name) && !family && !internal(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for i, name := range names {
		if i == maxUnknown {
			l.warn("%d more names of %s that begin with QQ_ are no settings", len(names)-i, source)
			return
		}
		hint := "`qq config` lists them"
		if near := spelling.Nearest(name[strings.LastIndex(name, " ")+1:], known); near != "" {
			hint = "did you mean " + near + "?"
		}
		l.warn("%s (%s) is no setting: %s", quoted(name), source, hint)
	}
}

// maxUnknown is how many unknown names of one source are warned of, each by itself.
const maxUnknown = 10

// internal reports whether the variable of that name is set by qq itself, for its children and their commands.
func internal(name string) bool {
	switch name {
	case "QQ_CONTROL", "QQ_KEEPER", "QQ_SANDBOX":
		return true
	}
	begins := func(with string) bool { return strings.HasPrefix(name, with) }
	return slices.ContainsFunc([]string{"QQ_EXECUTION_ID_", "QQ_COMMAND_ID_", "QQ_AST_GREP_"}, begins)
}
