package definition

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"qq/pkg/task"
)

// MaxFile is how many bytes a file with definitions may have.
const MaxFile = 1 << 20

const (
	maxServers = 100
	maxName    = 32
	maxText    = 32 << 10 // bytes of a word, a value or an address
	maxWords   = 1000     // arguments, variables or headers of a server
)

// File is what a file defines.
type File struct {
	Path     string // as it is shown to a person
	Servers  []Server
	Wrong    map[string]error // servers that cannot be used, by name: an error for who names them
	Warnings []string
	Distrust bool // nobody trusts the file yet: its servers do not count
}

// Parse parses {"mcpServers": {NAME: DEFINITION, …}}. path is only for messages. A server that is wrong does not harm
// the others.
func Parse(data []byte, path string) (File, error) {
	f := File{Path: path, Wrong: map[string]error{}}
	path = place(path)
	if len(data) > MaxFile {
		return f, task.Hinted("define fewer servers", "%s has more than %d bytes", path, MaxFile)
	}
	hint := `write {"mcpServers": {"NAME": {"command": "PROGRAM", "args": []}}}`
	if err := valid(data); err != nil {
		return f, task.Hinted(hint, "%s: %w", path, err)
	}
	top, err := members(data)
	if err != nil {
		return f, task.Hinted(hint, "%s %w", path, err)
	}
	found := false
	for _, m := range top {
		if m.name != "mcpServers" {
			f.Warnings = append(f.Warnings, path+": "+quote(m.name)+" does nothing here")
			continue
		}
		found = true
		servers, err := members(m.value)
		if err == nil && len(servers) > maxServers {
			err = fmt.Errorf("has more than %d servers", maxServers)
		}
		if err != nil {
			return f, task.Hinted(hint, `%s: "mcpServers" %w`, path, err)
		}
		for _, m := range servers {
			f.add(m)
		}
	}
	if !found {
		return f, task.Hinted(hint, `%s has no "mcpServers"`, path)
	}
	return f, nil
}

// add adds one server of the file.
func (f *File) add(m member) {
	s, warnings, err := server(m, f.Path)
	f.Warnings = append(f.Warnings, warnings...)
	if err != nil {
		f.Wrong[m.name] = err
		return
	}
	f.Servers = append(f.Servers, s)
}

// valid returns what is wrong with data as JSON, with the line.
func valid(data []byte) error {
	if !utf8.Valid(data) {
		return errors.New("is not UTF-8")
	}
	var v json.RawMessage
	err := json.Unmarshal(data, &v)
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		before := data[:min(int(syntax.Offset), len(data))]
		return fmt.Errorf("line %d is not JSON: %w", bytes.Count(before, []byte("\n"))+1, err)
	}
	return err
}

// member is a member of a JSON object.
type member struct {
	name  string
	value json.RawMessage
}

// members returns the members of an object in their order. A name that comes twice is an error: other programs would
// take one or the other.
func members(data json.RawMessage) ([]member, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil, errors.New("must be an object")
	}
	var all []member
	seen := map[string]bool{}
	for dec.More() {
		t, err := dec.Token()
		name, ok := t.(string)
		if err != nil || !ok {
			return nil, errors.New("is cut off")
		}
		m := member{name: name}
		if err := dec.Decode(&m.value); err != nil {
			return nil, err
		}
		if seen[name] {
			return nil, fmt.Errorf("has %s twice", quote(name))
		}
		seen[name] = true
		all = append(all, m)
	}
	if _, err := dec.Token(); err != nil {
		return nil, err
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, errors.New("has something after its end")
	}
	return all, nil
}

// server parses one definition.
func server(m member, from string) (Server, []string, error) {
	s := Server{Name: m.name, From: from}
	if !ValidName(m.name) {
		return s, nil, s.wrong("use letters, digits, - and _", "a name has at most %d plain characters", maxName)
	}
	keys, err := members(m.value)
	if err != nil {
		return s, nil, s.wrong(`write {"command": "PROGRAM"} or {"url": "https://…"}`, "it %w", err)
	}
	var warnings []string
	kind := ""
	for _, k := range keys {
		want, known := s.set(k, &kind)
		if !known {
			warnings = append(warnings, fmt.Sprintf("%s: %s of the MCP server %s does nothing here", place(from),
				quote(k.name), s.Name))
		} else if want != "" {
			return s, warnings, s.wrong("correct it there", "%s must be %s", quote(k.name), want)
		}
	}
	if err := s.kind(kind); err != nil {
		return s, warnings, err
	}
	switch {
	case s.URL != "" && (len(s.Args) > 0 || len(s.Env) > 0 || s.Dir != ""):
		return s, warnings, s.wrong("remove args, env and cwd", "it has a url: no program is started for it")
	case s.Command != "" && len(s.Headers) > 0:
		return s, warnings, s.wrong("remove headers", "it has a command: nothing is sent to an address")
	}
	return s, warnings, s.check()
}

// set stores the value of one key. want is what the value must be, if it is something else.
func (s *Server) set(k member, kind *string) (want string, known bool) {
	switch k.name {
	case "type":
		return text(k.value, kind), true
	case "command":
		return text(k.value, &s.Command), true
	case "cwd":
		return text(k.value, &s.Dir), true
	case "url":
		return text(k.value, &s.URL), true
	case "args":
		return list(k.value, &s.Args), true
	case "env":
		return table(k.value, &s.Env), true
	case "headers":
		return table(k.value, &s.Headers), true
	}
	return "", false
}

// kind checks the type of a server, which may be left out.
func (s Server) kind(kind string) error {
	switch {
	case kind == "sse":
		return s.wrong(`use its address of streamable HTTP, with "type": "http"`,
			"the transport sse is an old one that qq does not speak")
	case !slices.Contains([]string{"", "stdio", "http", "streamable-http", "streamableHttp"}, kind):
		return s.wrong("use stdio or http", "qq does not speak its type %s", quote(kind))
	case s.Command != "" && s.URL != "":
		return s.wrong("leave one out", "it has a command and a url")
	case s.Command == "" && s.URL == "":
		return s.wrong(`write {"command": "PROGRAM"} or {"url": "https://…"}`, "it has no command and no url")
	case kind == "stdio" && s.URL != "", kind != "" && kind != "stdio" && s.URL == "":
		return s.wrong("correct the type, or leave it out", "its type %s is not that of the rest", kind)
	}
	return nil
}

// check checks what a definition says, as it is written or with its variables replaced.
func (s Server) check() error {
	for _, text := range slices.Concat([]string{s.Command, s.Dir, s.URL}, s.Args,
		slices.Collect(maps.Values(s.Env)), slices.Collect(maps.Values(s.Headers))) {
		switch {
		case len(text) > maxText:
			return s.wrong("put it into a file that the server reads", "it has a text of more than %d bytes", maxText)
		case strings.ContainsRune(text, 0):
			return s.wrong("remove it", "it has a zero byte")
		}
	}
	if max(len(s.Args), len(s.Env), len(s.Headers)) > maxWords {
		return s.wrong("start it by a script", "it has more than %d arguments, variables or headers", maxWords)
	}
	for name := range s.Env {
		if !variable(name) {
			return s.wrong("use letters, digits and _", "%s is no name of a variable", quote(name))
		}
	}
	for name, value := range s.Headers {
		if !header(name) || strings.ContainsFunc(value, unicode.IsControl) {
			return s.wrong("correct it there", "the header %s cannot be sent", quote(name))
		}
	}
	if s.URL == "" || strings.Contains(s.URL, "${") {
		return nil // its variables are not known yet
	}
	switch u, err := url.Parse(s.URL); {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.Fragment != "":
		return s.wrong("write http://HOST:PORT/PATH or https://…", "its url is none")
	case u.User != nil:
		return s.wrong(`use "headers", for example {"Authorization": "Bearer ${TOKEN}"}`,
			"its url has a user or a password in it")
	}
	return nil
}

// wrong returns what is wrong with s.
func (s Server) wrong(hint, format string, args ...any) error {
	args = append([]any{quote(s.Name), place(s.From)}, args...)
	return task.Hinted(hint, "MCP server %s of %s: "+format, args...)
}

// ValidName reports whether name can be that of a server: its tools begin with it.
func ValidName(name string) bool {
	plain := func(r rune) bool { return r == '-' || alphanumeric(r) }
	return name != "" && len(name) <= maxName && !strings.ContainsFunc(name, func(r rune) bool { return !plain(r) })
}

// alphanumeric reports whether r is an ASCII letter, a digit or an underscore.
func alphanumeric(r rune) bool {
	return r == '_' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
}

// variable reports whether name can be that of a variable.
func variable(name string) bool {
	return name != "" && len(name) <= 256 && (name[0] < '0' || name[0] > '9') &&
		!strings.ContainsFunc(name, func(r rune) bool { return !alphanumeric(r) })
}

// header reports whether a person may choose the header of that name. The protocol itself needs the others.
func header(name string) bool {
	own := []string{"host", "accept", "content-type", "content-length", "transfer-encoding", "connection",
		"mcp-session-id", "mcp-protocol-version", "last-event-id"}
	plain := func(r rune) bool { return alphanumeric(r) || strings.ContainsRune("!#$%&'*+-.^`|~", r) }
	return name != "" && len(name) <= 256 && !slices.Contains(own, strings.ToLower(name)) &&
		!strings.ContainsFunc(name, func(r rune) bool { return !plain(r) })
}

// quote returns a name from a file for a message, whatever it has in it.
func quote(name string) string { return fmt.Sprintf("%+q", task.Shorten(name, 2*maxName)) }

// place returns the name of a file or agent for a message.
func place(from string) string {
	if strings.ContainsFunc(from, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return quote(from)
	}
	return from
}
