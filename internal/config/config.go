// Package config makes one [Config] of flags, the environment and .env files, and
// says where each setting came from.
//
// [Settings] is the table. For each row, [Load] takes the first source that has a
// value: flag, environment, .env in the working directory, .env in
// $XDG_CONFIG_HOME/qq, default. It parses this value and ignores the others. An
// empty variable counts as not set; an empty flag is an error.
//
// A .env file in the working directory may come with a checkout that a stranger
// wrote: its size is limited, only the settings of the table are read, variables
// of the environment are not expanded, and what [Setting.Checkout] says limits
// what counts. The rest is listed in [Config.Claims], and counts in what
// [Config.Trust] returns. [ChildEnv] is what a child inherits.
//
// Not promised: that a folder exists, that a server answers, that there is a model.
// The package reads nothing but the .env files, and only [WriteUser] writes.
package config

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"qq/internal/models/servers"
	"qq/pkg/money"
	"qq/pkg/spelling"
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
	// NoCheckout leaves out the .env file of the working directory.
	NoCheckout bool
	// Anyway makes each mistake one of Config.Mistakes instead of an error: what is wrong counts as not given.
	Anyway bool
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
// Config.Warnings. The .env file of the working directory is not trusted.
func Load(in Input) (Config, error) {
	l := loader{in: in, env: map[string]string{}, settings: Settings()}
	for _, entry := range in.Environ { // the last of several counts, as for os/exec
		name, value, _ := strings.Cut(entry, "=")
		l.env[name] = value
	}
	if err := l.read(); err != nil {
		return Config{}, err
	}
	return l.config()
}

// CheckoutSetting is a setting in the .env file of the working directory that counts only if that file is trusted.
type CheckoutSetting struct {
	Name, Value string // as in the file
	Raises      string // of a limit: the value that counts otherwise
	Overridden  bool   // a flag or the environment has another value, which counts
}

// Trust returns the settings as they are if the .env file of the working directory is trusted. It reads no file.
func (c Config) Trust() (Config, error) {
	l := *c.loader
	l.trusted = true
	return l.config()
}

// Without returns the settings as they are if the .env file of the working directory has no value for the named
// ones. It reads no file.
func (c Config) Without(names ...string) (Config, error) {
	l := *c.loader
	l.without = names
	return l.config()
}

// DotEnvSum returns the SHA-256 of the .env file of the working directory, in hexadecimal digits. It is "" if the
// file is a link that leads out of the working directory, or has no settings.
func (c Config) DotEnvSum() string {
	if c.loader.sum == "" || !inside(c.loader.in.Dir, fromDotEnv) {
		return ""
	}
	return c.loader.sum
}

// InDotEnv returns the value of the named setting in the .env file of the working directory; "" if it has none.
func (c Config) InDotEnv(name string) string {
	for _, from := range c.loader.layers {
		if from.source == fromDotEnv {
			return strings.TrimSpace(from.values[name])
		}
	}
	return ""
}

type loader struct {
	in       Input
	env      map[string]string
	settings []Setting
	layers   []layer           // the sources other than flags, the strongest first
	user     map[string]string // all that the .env file of the user says
	sum      string            // of the .env file of the working directory
	trusted  bool              // that file is
	without  []string          // settings that it does not set
	warnings []string
	mistakes []error // see Input.Anyway
}

func (l *loader) warn(format string, args ...any) {
	l.warnings = append(l.warnings, fmt.Sprintf(format, args...))
}

// config makes the settings of the sources.
func (l loader) config() (Config, error) {
	sources := l
	c := Config{loader: &sources, from: make(map[string]origin, len(l.settings))}
	l.warnings, l.mistakes = slices.Clone(l.warnings), slices.Clone(l.mistakes)
	for _, s := range l.settings {
		if err := l.resolve(&c, s); err != nil {
			return Config{}, err
		}
	}
	c.Warnings, c.Mistakes = l.warnings, l.mistakes
	return c, nil
}

// wrong returns err, or nil if it is kept as a mistake.
func (l *loader) wrong(err error) error {
	if err == nil || !l.in.Anyway {
		return err
	}
	same := func(e error) bool { return e.Error() == err.Error() }
	if !slices.ContainsFunc(l.mistakes, same) {
		l.mistakes = append(l.mistakes, err)
	}
	return nil
}

// read reads the sources other than flags.
func (l *loader) read() error {
	// The environment of a child has QQ_ names that are no settings: qq set them.
	if depth := l.env["QQ_RECURSION_DEPTH"]; depth == "" || depth == "0" {
		l.unknown(l.env, fromEnviron)
	}
	l.layers = []layer{{fromEnviron, l.in.Dir, l.env}}
	user := dotEnv{label: "the .env of the user"}
	if base := XDG(l.in.Environ, "XDG_CONFIG_HOME"); base != "" {
		dir := filepath.Join(base, "qq")
		user.path = filepath.Join(dir, fromDotEnv)
		user.label = user.path
		if rel, err := filepath.Rel(l.env["HOME"], user.path); err == nil && filepath.IsLocal(rel) {
			user.label = filepath.Join("~", rel)
		}
		if err := l.wrong(l.open(&user)); err != nil {
			return err
		}
	}
	if l.in.Dir != "" && !l.in.NoCheckout {
		here := dotEnv{path: filepath.Join(l.in.Dir, fromDotEnv), label: fromDotEnv}
		if err := l.wrong(l.open(&here)); err != nil {
			return err
		}
		if here.info == nil || user.info == nil || !os.SameFile(here.info, user.info) {
			l.layers = append(l.layers, layer{fromDotEnv, l.in.Dir, here.values})
			l.sum = here.sum
		}
	}
	if user.path != "" {
		l.layers = append(l.layers, layer{user.label, filepath.Dir(user.path), user.values})
	}
	l.user = user.all
	l.members()
	return nil
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

// given is the value of a setting in one source.
type given struct{ value, source, dir string }

// given returns the values of s, the strongest first. The last one is the default.
func (l *loader) given(s Setting) []given {
	var all []given
	if s.Family { // its members have the values
		return []given{{s.Default, fromDefault, ""}}
	}
	if flag, ok := l.in.Flags[s.Flag]; ok && s.Flag != "" {
		all = append(all, given{flag, "flag --" + s.Flag, l.in.Dir})
	}
	for _, from := range l.layers {
		ignored := from.source == fromDotEnv && slices.Contains(l.without, s.Name)
		if v := from.values[s.Name]; v != "" && !ignored {
			all = append(all, given{v, from.source, from.dir})
		}
	}
	return append(all, given{s.Default, fromDefault, ""})
}

// resolve parses the value of s from the first source that has one, and stores it in c.
func (l *loader) resolve(c *Config, s Setting) error {
	all := l.given(s)
	if i := slices.IndexFunc(all, func(g given) bool { return g.source == fromDotEnv }); i >= 0 {
		counts, err := l.counts(c, s, all[i], all[i+1], i > 0)
		if err = l.wrong(err); err != nil {
			return err
		}
		if !counts {
			all = slices.Delete(all, i, i+1)
		}
	}
	for ; ; all = all[1:] {
		err := l.take(c, s, all)
		last := len(all) == 1
		// QQ_LOG_DIR has no default for the same reason as QQ_HOME, which is above it.
		if err == nil || l.in.Anyway && last && s.Name == "QQ_LOG_DIR" && c.Home == "" {
			return nil
		}
		if err = l.wrong(err); err != nil || last {
			return err
		}
	}
}

// take parses the first of all, the values of s, and stores it in c. If s.Adds is set, it adds the others.
func (l *loader) take(c *Config, s Setting, all []given) error {
	value, source, dir := all[0].value, all[0].source, all[0].dir
	for _, more := range all[1:] {
		switch {
		case !s.Adds, more.source == fromDefault, strings.TrimSpace(more.value) == None:
		case strings.TrimSpace(value) == None:
			value, source = more.value, more.source
		default:
			if _, err := splitRules(value); err != nil { // it would swallow the other
				return bad(s, value, source, err)
			}
			value += "," + more.value
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
		return bad(s, value, source, err)
	}
	c.from[s.Name] = origin{value, source}
	return nil
}

// counts reports whether v, the value of s in the .env file of the working directory, counts. If that depends on
// trust, it adds a claim to c. otherwise is the next weaker value. overridden says that there is a stronger one.
func (l *loader) counts(c *Config, s Setting, v, otherwise given, overridden bool) (bool, error) {
	claim := CheckoutSetting{Name: s.Name, Value: v.value, Overridden: overridden}
	if s.Kind == Server {
		claim.Value = servers.Shown(v.value)
	}
	switch s.Checkout {
	case Harmless:
		if s.Kind == Model && !l.trusted && l.defines(strings.TrimSpace(v.value)) {
			return c.model(strings.TrimSpace(v.value)) == nil, nil // else it is for package command to claim it
		}
		if s.Kind != Path || inside(l.in.Dir, l.expandHome(strings.TrimSpace(v.value))) {
			return true, nil
		}
	case Trusted:
		if l.means(c, s, v) == l.means(c, s, otherwise) {
			return false, nil // the other one counts, and says the same
		}
	case Lowers:
		most, err := l.amount(s, otherwise)
		if err != nil {
			return false, err
		}
		wanted, err := l.amount(s, v)
		switch {
		case err != nil && overridden:
			return false, nil // nobody looks at it
		case err != nil:
			return false, err
		case wanted <= most:
			return true, nil
		}
		claim.Raises = otherwise.value
	default:
		l.warn("%s in .env is ignored: only qq itself sets it", s.Name)
		return false, nil
	}
	c.Claims = append(c.Claims, claim)
	return l.trusted, nil
}

// means returns the value of s in one source as it would count: a path is absolute.
func (l *loader) means(c *Config, s Setting, g given) string {
	value := g.value
	if g.source == fromDefault {
		value, _ = l.byDefault(c, s) // "" is no value
	}
	return l.clean(s, value, g.dir)
}

// amount returns the value of a limit as a number that can be compared.
func (l *loader) amount(s Setting, g given) (int64, error) {
	var c Config
	if value, err := s.parse(&c, l.clean(s, g.value, g.dir)); err != nil {
		return 0, bad(s, value, g.source, err)
	}
	var n int64
	switch field := s.field(&c).(type) {
	case *time.Duration:
		n = int64(*field)
	case *int:
		n = int64(*field)
	case *money.Amount:
		n = int64(*field)
	}
	if n == 0 && s.NoLimit {
		return math.MaxInt64, nil
	}
	return n, nil
}

func bad(s Setting, value, source string, err error) error {
	name := s.Name
	if source != fromDefault {
		name += " (" + source + ")"
	}
	if s.Kind != Server { // that may have a key in it
		name += " is " + quoted(s.shown(value))
	}
	e := &Error{name + ": " + err.Error(), "accepted is " + s.accepts()}
	near := spelling.Nearest(value, s.Values)
	if m, ok := errors.AsType[*servers.Mistake](err); ok {
		e.Hint = cmp.Or(m.Hint, e.Hint)
		near = spelling.Nearest(m.Word, m.Known)
		if rest, ok := strings.CutPrefix(value, m.Word+":"); ok && near != "" {
			near += ":" + rest
		}
		if near == "" && m.More != "" && s.Kind == Model {
			e.Hint += "; " + m.More
		}
	}
	e.Hint = spelling.DidYouMean(near) + e.Hint
	return e
}

// shown is value without a user name and a password in an address.
func (s Setting) shown(value string) string {
	at := strings.LastIndex(value, "@")
	if s.Kind != Host || at < 0 {
		return value
	}
	scheme := ""
	for _, known := range []string{"http://", "https://"} {
		if strings.HasPrefix(value, known) {
			scheme = known
		}
	}
	return scheme + "…" + value[at:]
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
			if strings.HasPrefix(folders[i], ".") && filepath.IsLocal(folders[i]) { // .git of the working directory
				folders[i] = filepath.Join(l.in.Dir, folders[i])
			}
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
	if s.field == nil {
		return s.enter(c, value)
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
	case *money.Amount:
		amount, err := money.Parse(value)
		if err != nil {
			return value, err
		}
		*field = amount
	case *money.Table:
		table, err := c.prices(value)
		if err != nil {
			return value, err
		}
		*field = table
	case *string:
		if err := s.word(c, value); err != nil {
			return value, err
		}
		if *field = value; value == None && s.Default == None {
			*field = ""
		}
	case *[]string:
		words, err := s.words(value)
		for _, word := range words {
			if s.Kind == Models && err == nil {
				err = c.model(word)
			}
		}
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
	items := strings.Split(value, ",")
	switch s.Kind {
	case Folders:
		items = filepath.SplitList(value)
	case Rules:
		var err error
		if items, err = splitRules(value); err != nil {
			return nil, err
		}
	}
	var words []string
	for _, word := range items {
		word = strings.TrimSpace(word)
		name := word
		if s.Kind == Rules {
			name, _, _ = strings.Cut(word, "(")
		}
		switch {
		case word == "":
			continue
		case s.Kind == Folders && !filepath.IsAbs(word):
			return nil, fmt.Errorf("%s is no absolute path", quoted(word))
		case s.Kind != Folders && strings.ContainsFunc(name, unicode.IsSpace):
			return nil, fmt.Errorf("%s contains a space", quoted(word))
		}
		words = append(words, word)
	}
	return words, nil
}

// splitRules splits a list of rules at its commas, except those in parentheses. In parentheses it
// knows the quotes of a shell: run_pty_cmd(echo 'a) b', c) is one rule.
func splitRules(value string) (items []string, err error) {
	depth, from := 0, 0
	var quote rune
	for i, r := range value {
		switch {
		case quote != 0:
			if r == quote {
				quote = 0
			}
		case depth > 0 && (r == '\'' || r == '"'):
			quote = r
		case r == '(':
			depth++
		case r == ')':
			depth--
		case r == ',' && depth <= 0:
			items, from = append(items, value[from:i]), i+1
		}
	}
	if depth > 0 || quote != 0 {
		return nil, fmt.Errorf("a parenthesis or a quote is not closed")
	}
	return append(items, value[from:]), nil
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
func (s Setting) word(c *Config, value string) error {
	if s.Kind != Path && strings.ContainsFunc(value, unicode.IsSpace) {
		return fmt.Errorf("it contains a space")
	}
	switch s.Kind {
	case Choice:
		if !slices.Contains(s.Values, value) {
			return fmt.Errorf("it is not accepted")
		}
	case Model:
		return c.model(value)
	case Host:
		_, err := hostname(value)
		return err
	}
	return nil
}

// hostname returns the host in a value of OLLAMA_HOST, without the port; it may be "". A port that is no number is
// an error here; Ollama takes its default port instead.
func hostname(value string) (string, error) {
	if strings.Contains(value, "@") { // likely behind a password, which is not shown
		return "", fmt.Errorf("it carries a user name or a password")
	}
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
		// Colons and brackets without a port are an IPv6 address or nothing.
		host = strings.Trim(rest, "[]")
		if _, err := netip.ParseAddr(host); err != nil && strings.ContainsAny(rest, ":[]") {
			return "", fmt.Errorf("%q is no host", rest)
		}
		return host, nil
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		return "", fmt.Errorf("%q is no port", port)
	}
	return host, nil
}
