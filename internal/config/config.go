// Package config makes one [Config] of flags, the environment and .env files, and
// says where each setting came from.
//
// [Settings] is the table. For each row, [Load] takes the first source that has a
// value: flag, environment, .env in the working directory, .env in
// $XDG_CONFIG_HOME/qq, default. It parses this value and ignores the others. An
// empty variable counts as not set; an empty flag is an error.
//
// A .env file in the working directory is not trusted, because it comes with a
// checkout: its size is limited, only the settings of the table are read, guarded
// ones are ignored with a warning, and variables of the environment are not
// expanded. [ChildEnv] is what a child inherits.
//
// Not promised: that a folder exists, that a server answers, that there is a model.
// The package writes nothing, and reads nothing but the .env files.
package config

import (
	"cmp"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

const (
	maxCount   = 1_000_000_000
	maxSeconds = 1_000_000_000 // thirty years; more overflows a time.Duration one day

	fromDefault = "default"
	fromEnviron = "environment"
	fromDotEnv  = ".env"
)

// Input is what Load reads.
type Input struct {
	// Flags holds the flags that were given, by name without dashes. Flags that
	// belong to no setting are ignored.
	Flags   map[string]string
	Environ []string // NAME=value, as os.Environ returns it
	// Dir is the working directory, absolute. Relative paths start here; those in
	// the user's .env start in the folder of that file.
	Dir string
}

// Error is a mistake in a setting or a .env file that a person has to correct.
type Error struct {
	Problem string // what is wrong, one line
	Hint    string // what to do, one line
}

func (e *Error) Error() string { return e.Problem + "\nhint: " + e.Hint }

// layer is one source of values.
type layer struct {
	source string
	dir    string // relative paths of this source start here
	values map[string]string
}

// Load reads every setting. An error is an [*Error]; lesser problems are in
// Config.Warnings.
func Load(in Input) (Config, error) {
	var c Config
	l := loader{in: in, env: map[string]string{}, settings: Settings()}
	for _, entry := range in.Environ { // the last of several counts, as for os/exec
		name, value, _ := strings.Cut(entry, "=")
		l.env[name] = value
	}
	layers, err := l.layers()
	if err != nil {
		return Config{}, err
	}
	c.from = make(map[string]origin, len(l.settings))
	for _, s := range l.settings {
		if err := l.resolve(&c, s, layers); err != nil {
			return Config{}, err
		}
	}
	c.Warnings = l.warnings
	return c, nil
}

type loader struct {
	in       Input
	env      map[string]string
	settings []Setting
	warnings []string
}

func (l *loader) warn(format string, args ...any) {
	l.warnings = append(l.warnings, fmt.Sprintf(format, args...))
}

// layers returns the sources other than flags, the strongest first.
func (l *loader) layers() ([]layer, error) {
	// The environment of a child has QQ_ names that are no settings: qq set them.
	if depth := l.env["QQ_RECURSION_DEPTH"]; depth == "" || depth == "0" {
		l.unknown(l.env, fromEnviron)
	}
	layers := []layer{{fromEnviron, l.in.Dir, l.env}}
	if l.in.Dir != "" {
		values, err := l.dotEnv(filepath.Join(l.in.Dir, ".env"), fromDotEnv)
		if err != nil {
			return nil, err
		}
		l.guard(values)
		layers = append(layers, layer{fromDotEnv, l.in.Dir, values})
	}
	if base := XDG(l.in.Environ, "XDG_CONFIG_HOME"); base != "" {
		dir := filepath.Join(base, "qq")
		path := filepath.Join(dir, ".env")
		source := path
		if rel, err := filepath.Rel(l.env["HOME"], path); err == nil && filepath.IsLocal(rel) {
			source = filepath.Join("~", rel)
		}
		values, err := l.dotEnv(path, source)
		if err != nil {
			return nil, err
		}
		layers = append(layers, layer{source, dir, values})
	}
	return layers, nil
}

// XDG returns the base directory of that name, XDG_CONFIG_HOME or XDG_STATE_HOME, or
// "" if there is none. By the specification a relative path does not count.
func XDG(environ []string, name string) string {
	if dir := Getenv(environ, name); filepath.IsAbs(dir) {
		return dir
	}
	home := Getenv(environ, "HOME")
	if !filepath.IsAbs(home) {
		return ""
	}
	if name == "XDG_CONFIG_HOME" {
		return filepath.Join(home, ".config")
	}
	return filepath.Join(home, ".local", "state")
}

// guard removes from values, which come from the working directory's .env, what a checkout may not decide.
func (l *loader) guard(values map[string]string) {
	for _, s := range l.settings {
		value := values[s.Name]
		switch {
		case value == "":
		case s.Guarded:
			l.warn("%s in .env is ignored: a working directory may not set it; use the environment or a flag", s.Name)
			delete(values, s.Name)
		case s.Kind == Path && !inside(l.in.Dir, value):
			l.warn("%s=%q in .env is ignored: a working directory may only name a folder inside it", s.Name, value)
			delete(values, s.Name)
		}
	}
}

// inside reports whether path, relative to dir, stays in dir, even through symbolic
// links.
func inside(dir, path string) bool {
	if !filepath.IsLocal(path) || strings.HasPrefix(path, "~") {
		return false
	}
	dir = filepath.Clean(dir)
	root, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return false
	}
	// A folder that does not exist is created, so the nearest one that exists counts.
	for at := filepath.Join(dir, path); ; at = filepath.Dir(at) {
		if _, err := os.Lstat(at); err != nil {
			if os.IsNotExist(err) && len(at) > len(dir) {
				continue
			}
			return false
		}
		real, err := filepath.EvalSymlinks(at)
		if err != nil {
			return false
		}
		rel, err := filepath.Rel(root, real)
		return err == nil && filepath.IsLocal(rel)
	}
}

// resolve parses the value of s from the first source that has one, and stores it in c. If s.Adds is set, it adds
// the values of the other sources.
func (l *loader) resolve(c *Config, s Setting, layers []layer) error {
	value, source, dir := "", fromDefault, ""
	flag, given := l.in.Flags[s.Flag]
	if s.Flag != "" && given {
		value, source, dir = flag, "flag --"+s.Flag, l.in.Dir
	}
	for _, from := range layers {
		v := from.values[s.Name]
		switch {
		case v == "":
		case source == fromDefault:
			value, source, dir = v, from.source, from.dir
		case s.Adds && strings.TrimSpace(v) != None:
			if strings.TrimSpace(value) == None {
				value, source = v, from.source
			} else {
				value += "," + v
			}
		}
	}
	if source == fromDefault {
		var err error
		if value, err = l.byDefault(c, s); err != nil {
			return err
		}
	}
	value, err := s.parse(c, l.clean(s, value, dir))
	if err != nil {
		return bad(s, value, source, err.Error())
	}
	if source == fromDotEnv && s.Kind == Host && !loopback(value) {
		l.warn("%s comes from .env of this folder: prompts go to %q", s.Name, value)
	}
	c.from[s.Name] = origin{value, source}
	return nil
}

func bad(s Setting, value, source, why string) error {
	name := s.Name
	if source != fromDefault {
		name += " (" + source + ")"
	}
	return &Error{
		Problem: fmt.Sprintf("%s is %s: %s", name, quoted(value), why),
		Hint:    "accepted is " + s.accepts(),
	}
}

// quoted is a value for a message, on one line and not too long.
func quoted(s string) string {
	if r := []rune(s); len(r) > 80 {
		s = string(r[:77]) + "..."
	}
	return strconv.Quote(s)
}

// byDefault returns the default of s. In a path it replaces variables such as $QQ_HOME; one without a value is an
// error.
func (l *loader) byDefault(c *Config, s Setting) (string, error) {
	if s.Kind != Path {
		return s.Default, nil
	}
	missing := ""
	value := os.Expand(s.Default, func(name string) string {
		v := cmp.Or(c.from[name].value, XDG(l.in.Environ, name))
		if v == "" {
			missing = name
		}
		return v
	})
	if missing != "" {
		return "", &Error{
			Problem: fmt.Sprintf("%s has no default: neither %s nor HOME is set to an absolute path", s.Name, missing),
			Hint:    "set HOME, or set " + s.Name + " to a folder that you may write to",
		}
	}
	return value, nil
}

// clean trims a value and makes a path absolute. A relative path starts at dir.
func (l *loader) clean(s Setting, value, dir string) string {
	value = strings.TrimSpace(value)
	switch s.Kind {
	case Host:
		value = strings.Trim(value, `"'`) // as Ollama does
	case Folders:
		folders := filepath.SplitList(value)
		for i, f := range folders {
			folders[i] = l.expandHome(strings.TrimSpace(f))
		}
		value = strings.Join(folders, string(filepath.ListSeparator))
	case Path:
		value = l.expandHome(value)
		if value != "" && !filepath.IsAbs(value) {
			value = filepath.Join(dir, value)
		}
	}
	return value
}

// expandHome replaces a ~/ at the beginning of path by the home directory, if HOME is set.
func (l *loader) expandHome(path string) string {
	if rest, ok := strings.CutPrefix(path, "~/"); ok && l.env["HOME"] != "" {
		return filepath.Join(l.env["HOME"], rest)
	}
	return path
}

// parse checks value and stores it in c, in the type of its field. It returns the value as `qq config` shows it.
func (s Setting) parse(c *Config, value string) (string, error) {
	if value == "" {
		return value, fmt.Errorf("it is empty")
	}
	if !utf8.ValidString(value) || strings.ContainsFunc(value, unicode.IsControl) {
		return value, fmt.Errorf("it contains a control character or is not UTF-8")
	}
	switch field := s.field(c).(type) {
	case *time.Duration:
		d, err := seconds(value)
		if err != nil {
			return value, err
		}
		*field = d
	case *int:
		n, err := strconv.Atoi(value)
		if err != nil {
			return value, fmt.Errorf("it is no whole number")
		}
		if n < s.Min || n > s.most() {
			return value, fmt.Errorf("it is out of range")
		}
		*field = n
	case *string:
		if err := s.word(value); err != nil {
			return value, err
		}
		if *field = value; value == None && s.Default == None {
			*field = ""
		}
	case *[]string:
		words, err := s.words(value)
		if err != nil {
			return value, err
		}
		*field = words
	}
	return value, nil
}

// words parses a list. The value "none" is an empty list.
func (s Setting) words(value string) ([]string, error) {
	if value == None {
		return nil, nil
	}
	separator := ","
	if s.Kind == Folders {
		separator = string(filepath.ListSeparator)
	}
	var words []string
	for word := range strings.SplitSeq(value, separator) {
		word = strings.TrimSpace(word)
		switch {
		case word == "":
			continue
		case s.Kind == Folders && !filepath.IsAbs(word):
			return nil, fmt.Errorf("%s is no absolute path", quoted(word))
		case s.Kind == List && strings.ContainsFunc(word, unicode.IsSpace):
			return nil, fmt.Errorf("%s contains a space", quoted(word))
		}
		words = append(words, word)
	}
	return words, nil
}

// seconds parses a number of seconds (300, 0.5) or a duration (90s, 5m).
func seconds(value string) (time.Duration, error) {
	if strings.Trim(value, "-0123456789.") == "" {
		value += "s"
	}
	d, err := time.ParseDuration(value)
	switch {
	case err != nil:
		return 0, fmt.Errorf("it is no number of seconds")
	case d < 0 || d > maxSeconds*time.Second:
		return 0, fmt.Errorf("it is out of range")
	}
	return d, nil
}

// word checks the value of a setting that is one text.
func (s Setting) word(value string) error {
	if s.Kind != Path && strings.ContainsFunc(value, unicode.IsSpace) {
		return fmt.Errorf("it contains a space")
	}
	switch s.Kind {
	case Choice:
		if !slices.Contains(s.Values, value) {
			return fmt.Errorf("it is not accepted")
		}
	case Model:
		name, ok := strings.CutPrefix(value, "ollama:")
		if value == "auto" || value == "extract" || ok && name != "" {
			return nil
		}
		if ok {
			return fmt.Errorf("it names no model")
		}
		return fmt.Errorf("it is no model that qq knows (a model of Ollama is written %q)", "ollama:"+value)
	case Host:
		_, err := hostname(value)
		return err
	}
	return nil
}

// hostname returns the host in a value of OLLAMA_HOST, without the port; it may be "". A port that is no number is
// an error here; Ollama takes its default port instead.
func hostname(value string) (string, error) {
	scheme, rest, ok := strings.Cut(value, "://")
	if !ok {
		scheme, rest = "http", value
	}
	if scheme != "http" && scheme != "https" {
		return "", fmt.Errorf("%q is no scheme of a model server", scheme)
	}
	rest, _, _ = strings.Cut(rest, "/")
	host, port, err := net.SplitHostPort(rest)
	if err != nil {
		return strings.Trim(rest, "[]"), nil
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		return "", fmt.Errorf("%q is no port", port)
	}
	return host, nil
}

func loopback(value string) bool {
	host, err := hostname(value)
	if err != nil {
		return true
	}
	ip := net.ParseIP(host)
	return host == "" || host == "localhost" || ip != nil && (ip.IsLoopback() || ip.IsUnspecified())
}
