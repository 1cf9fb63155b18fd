package agents

import (
	"cmp"
	"crypto/sha256"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"qq/pkg/spelling"
)

//go:embed builtin/*.md
var builtin embed.FS

// Dir is a folder of definitions. If Within is set, Path is relative to Within, and the folder may be
// part of a checkout that a stranger wrote: a symbolic link that leads out of Within is an error, and
// a definition replaces one of another folder only if Trust trusts its file.
type Dir struct {
	Path   string
	Within string
	Trust  Trust // nil trusts no file
}

// Trust knows which files of a checkout its user trusts.
type Trust interface {
	// Sum returns the SHA-256 of the content that is trusted as the content of file, in
	// hexadecimal digits; "" if none is. file is relative to the checkout.
	Sum(file string) string
}

// Dirs returns the folders of definitions for the working directory workDir, highest
// priority first. configHome is the base folder of the user's configuration
// ($XDG_CONFIG_HOME); empty means none. trust knows which files of workDir are trusted; nil means
// none.
func Dirs(workDir, configHome string, trust Trust) []Dir {
	var dirs []Dir
	for _, own := range []string{".qq", ".claude", ".agents"} {
		dirs = append(dirs, Dir{Path: filepath.Join(own, "agents"), Within: workDir, Trust: trust})
	}
	if configHome != "" {
		dirs = append(dirs, Dir{Path: filepath.Join(configHome, "qq", "agents")})
	}
	return dirs
}

func (d Dir) String() string { return filepath.Join(d.Within, d.Path) }

// open opens a file in d for reading, or d itself if name is ".". It does not block on a named
// pipe.
func (d Dir) open(name string) (*os.File, error) {
	path := filepath.Join(d.Path, name)
	if d.Within == "" {
		return os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	}
	root, err := os.OpenRoot(d.Within)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return root.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
}

func (d Dir) read(name string) ([]byte, error) {
	f, err := d.open(name)
	if err != nil {
		return nil, cause(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, cause(err)
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("is not a regular file")
	}
	// One byte more than Parse accepts, so that it says what is wrong.
	return io.ReadAll(io.LimitReader(f, MaxSize+1))
}

// cause returns err without the operation and the path, for messages that contain the path already.
func cause(err error) error {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return pe.Err
	}
	return err
}

// maxFiles is how many definitions a folder of a checkout may have. It may have ten times as many files.
const maxFiles = 1000

// names returns the sorted file names of the definitions in d. A folder that does not exist has
// none.
func (d Dir) names() ([]string, error) {
	f, err := d.open(".")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, cause(err)
	}
	defer f.Close()
	most := -1
	if d.Within != "" {
		most = 10*maxFiles + 1
	}
	all, err := f.Readdirnames(most)
	if err != nil && !errors.Is(err, io.EOF) { // of an empty folder
		return nil, cause(err)
	}
	files := len(all)
	names := slices.DeleteFunc(all, func(n string) bool { return !isDefinition(n) })
	if d.Within != "" && (len(names) > maxFiles || files == most) {
		return nil, fmt.Errorf("has more than %d definitions of agents or %d files", maxFiles, 10*maxFiles)
	}
	slices.Sort(names)
	return names, nil
}

// isDefinition reports whether a file of that name is read as a definition.
func isDefinition(n string) bool {
	return strings.HasSuffix(n, ".md") && !strings.HasPrefix(n, ".") && !strings.EqualFold(n, "README.md")
}

// Create writes a new file into the folder d and returns its path. It creates the folder if
// necessary. If the file exists, it is not changed and the error wraps [fs.ErrExist].
func (d Dir) Create(name string, data []byte) (string, error) {
	path := filepath.Join(d.Within, d.Path, name)
	if err := d.create(name, data); err != nil {
		return "", fmt.Errorf("create %s: %w", path, cause(err))
	}
	return path, nil
}

func (d Dir) create(name string, data []byte) error {
	const flags = os.O_WRONLY | os.O_CREATE | os.O_EXCL
	path := filepath.Join(d.Path, name)
	if d.Within == "" {
		if err := os.MkdirAll(d.Path, 0o755); err != nil {
			return err
		}
		f, err := os.OpenFile(path, flags, 0o644)
		if err != nil {
			return err
		}
		return fill(f, data, os.Remove)
	}
	root, err := os.OpenRoot(d.Within)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := root.MkdirAll(d.Path, 0o755); err != nil {
		return err
	}
	f, err := root.OpenFile(path, flags, 0o644)
	if err != nil {
		return err
	}
	return fill(f, data, func(string) error { return root.Remove(path) })
}

// fill writes data to the new file f and closes it. On error it removes the file.
func fill(f *os.File, data []byte, remove func(name string) error) error {
	_, err := f.Write(data)
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, remove(f.Name()))
	}
	return nil
}

// file is one definition in a folder. Its functions read, sum and parse it on the first call and
// return the same result from then on: what is trusted is what is used.
type file struct {
	stem    string // its name without .md
	source  string
	content func() ([]byte, error)
	sum     func() string // SHA-256 of the content, in hexadecimal digits; "" if it cannot be read
	agent   func() (Agent, error)
	rel     string // its path in the checkout; "" if it is not part of one
	trust   Trust
	models  Models
}

// folder is a source of definitions: a [Dir] or the built-in ones.
type folder interface {
	read(name string) ([]byte, error)
}

// embedded is the folder of the built-in definitions.
type embedded struct{}

func (embedded) read(name string) ([]byte, error) { return builtin.ReadFile("builtin/" + name) }

func newFile(in folder, name, source string) *file {
	f := &file{stem: strings.TrimSuffix(name, ".md"), source: source}
	f.content = sync.OnceValues(func() ([]byte, error) { return in.read(name) })
	f.sum = sync.OnceValue(func() string {
		data, err := f.content()
		if err != nil {
			return ""
		}
		return fmt.Sprintf("%x", sha256.Sum256(data))
	})
	f.agent = sync.OnceValues(func() (Agent, error) {
		data, err := f.content()
		var a Agent
		if err == nil {
			a, err = Parse(f.stem, data)
		}
		if err != nil {
			return Agent{}, &fileError{source, err}
		}
		a.Source, a.Sum = source, f.sum()
		return a, nil
	})
	return f
}

// Read reads the definition in one file. The agent gets the name of the file if the definition
// contains no name.
func Read(path string) (Agent, error) {
	dir, name := filepath.Split(path)
	return newFile(Dir{Path: dir}, name, path).agent()
}

// named reports whether the file is named like the agent that is looked for. key is the folded
// name.
func (f *file) named(key string) bool { return fold(f.stem) == key }

// foreign reports whether the file is part of a checkout and not trusted. It reads the file only if
// some content is trusted.
func (f *file) foreign() bool {
	if f.rel == "" {
		return false
	}
	if f.trust == nil {
		return true
	}
	want := f.trust.Sum(f.rel)
	return want == "" || want != f.sum()
}

// use returns the agent of the file. A file that is not trusted cannot choose a model on another
// machine, nor by an alias.
func (f *file) use() (Agent, error) {
	a, err := f.agent()
	if err != nil || !f.foreign() {
		return a, err
	}
	if !a.Runs.IsZero() {
		return Agent{}, &fileError{f.source, fmt.Errorf("names a program to run (%s), and is not trusted\n"+
			"hint: look at the file, then run qq trust", a.Runs)}
	}
	a.Untrusted = true
	if f.models.Remote(a.Model) {
		a.Warnings = append(slices.Clone(a.Warnings), fmt.Sprintf(
			"model %q is on another machine, and the file is not trusted: the model of the run is used", a.Model))
		a.Model = ""
	}
	if len(a.Fallback) > 0 {
		a.Warnings = append(slices.Clone(a.Warnings), "fallback: the file is not trusted: that of the run is used")
	}
	return a, nil
}

// Registry finds the definitions of agents by name. Several goroutines may use it at once.
type Registry struct {
	Models Models // those that can be named; set it before the first look-up

	scan func() listing // reads the folders on the first call only
}

// listing holds all definitions, highest priority first, and the folders that could not be read.
type listing struct {
	files    []*file
	problems []Entry
}

// Load returns a registry of the agents in dirs, highest priority first, and of the built-in
// agents, which have the lowest. Files of a checkout that are not trusted go after the built-in
// ones. It reads nothing before the first look-up.
func Load(dirs []Dir) *Registry {
	r := &Registry{}
	r.scan = sync.OnceValue(func() listing { return scan(dirs, r.Models) })
	return r
}

func scan(dirs []Dir, models Models) (l listing) {
	for _, d := range dirs {
		names, err := d.names()
		if err != nil {
			l.problems = append(l.problems, Entry{Agent: Agent{Source: d.String()},
				Err: fmt.Errorf("read agent folder %s: %w", d, err)})
		}
		for _, n := range names {
			f := newFile(d, n, filepath.Join(d.String(), n))
			if d.Within != "" {
				f.rel, f.trust, f.models = filepath.Join(d.Path, n), d.Trust, models
			}
			l.files = append(l.files, f)
		}
	}
	entries, _ := builtin.ReadDir("builtin") // an embedded folder is always there
	for _, e := range entries {
		l.files = append(l.files, newFile(embedded{}, e.Name(), BuiltIn))
	}
	return l
}

// rank returns the files in two groups: those that the user trusts, and the others.
func (l listing) rank() (groups [2][]*file) {
	for _, f := range l.files {
		i := 0
		if f.foreign() {
			i = 1
		}
		groups[i] = append(groups[i], f)
	}
	return groups
}

// find returns the first of files that defines the agent of that folded name; nil if none does. A
// broken file of that name counts as its definition.
func find(files []*file, key string) *file {
	for _, f := range files {
		if !f.named(key) {
			continue
		}
		if a, err := f.agent(); err != nil || fold(a.Name) == key {
			return f
		}
	}
	for _, f := range files {
		if f.source == BuiltIn {
			continue // named like its agent
		}
		if a, err := f.agent(); err == nil && fold(a.Name) == key {
			return f
		}
	}
	return nil
}

// Lookup returns the definition of the agent with that name. If there is none, the error is a
// [*NotFoundError]. If the file with that name is broken, that is an error too, even if a later
// folder has a valid definition.
func (r *Registry) Lookup(name string) (Agent, error) {
	if !validName(name) {
		return Agent{}, r.notFound(name)
	}
	l := r.scan()
	for _, files := range l.rank() {
		if f := find(files, fold(name)); f != nil {
			a, err := f.use()
			if err != nil {
				return Agent{}, err
			}
			return l.remark(a), nil
		}
	}
	return Agent{}, r.notFound(name)
}

// remark returns a with one more warning for each folder that could not be read, because such a
// folder may contain another definition of a.
func (l listing) remark(a Agent) Agent {
	a.Warnings = slices.Clone(a.Warnings)
	for _, p := range l.problems {
		a.Warnings = append(a.Warnings, p.Err.Error())
	}
	return a
}

func (r *Registry) notFound(name string) error {
	e := &NotFoundError{Name: name}
	for _, entry := range r.List() {
		if entry.Err == nil {
			e.Known = append(e.Known, entry.Agent.Name)
		}
	}
	return e
}

// CheckoutAgent is a definition in a checkout that needs trust.
type CheckoutAgent struct {
	Agent  Agent
	File   string // relative to the checkout
	Sum    string // SHA-256 of its content, in hexadecimal digits
	Hides  string // the source of the definition that it replaces; "" if it replaces none
	Chosen bool   // it replaces none, and is the agent that was asked about
}

// Claims returns the definitions of a checkout, trusted or not, that replace one of the user or a
// built-in one if they are trusted, those with a model on another machine, with a fallback or that another program
// runs, and those of the agent that is named chosen.
func (r *Registry) Claims(chosen string) (claims []CheckoutAgent) {
	var own, theirs []*file
	for _, f := range r.scan().files {
		if f.rel == "" {
			own = append(own, f)
		} else {
			theirs = append(theirs, f)
		}
	}
	for _, f := range theirs {
		a, err := f.agent()
		if err != nil {
			continue
		}
		key := fold(a.Name)
		switch hidden := find(own, key); {
		case hidden == nil && (key == fold(chosen) || f.models.Remote(a.Model) || len(a.Fallback) > 0 ||
			!a.Runs.IsZero()):
			claims = append(claims, CheckoutAgent{a, f.rel, f.sum(), "", key == fold(chosen)})
		case hidden != nil && find(append([]*file{f}, own...), key) == f:
			claims = append(claims, CheckoutAgent{a, f.rel, f.sum(), hidden.source, false})
		}
	}
	return claims
}

// fileError is the error of reading the definition in a file.
type fileError struct {
	source string
	err    error
}

// Error implements error.
func (e *fileError) Error() string { return "read agent file " + Located(e.source, e.err.Error()) }

// Unwrap returns the error without the file.
func (e *fileError) Unwrap() error { return e.err }

// NotFoundError says that no agent has the name Name. Known are the names of all valid agents.
type NotFoundError struct {
	Name  string
	Known []string
}

// Error says which agents there are. The second line is a hint, if one of them was probably meant.
func (e *NotFoundError) Error() string {
	text := fmt.Sprintf("Agent not found in registry: %s (known: %s)", e.Name, strings.Join(e.Known, ", "))
	if near := spelling.Nearest(e.Name, e.Known); near != "" {
		text += "\nhint: did you mean " + near + "?"
	}
	return text
}

// Entry is one agent, or one problem, in the list of a registry.
type Entry struct {
	// Agent is the definition. If Err is set, it has only a name and a source. For a folder that
	// could not be read, it has only a source.
	Agent Agent
	// Hides are the sources of further definitions of the same name, which this one replaces.
	Hides []string
	// Ignored are the sources of definitions of the same name in files of a checkout that are not
	// trusted, and would replace this one if they were.
	Ignored []string
	// Err is nil for a valid definition. Otherwise it says why the definition is not valid, or why
	// the folder could not be read.
	Err error
}

// List returns all agents that Lookup finds and all invalid definitions, sorted by name.
func (r *Registry) List() []Entry {
	l := r.scan()
	entries := slices.Clone(l.problems)
	at := map[string]int{}
	own := 0 // entries of files that are trusted
	replaces := map[string]bool{}
	for _, c := range r.Claims("") {
		replaces[c.Agent.Source] = true
	}
	for group, files := range l.rank() {
		for _, e := range ordered(files, false) {
			i, taken := at[fold(e.Agent.Name)]
			switch {
			case taken && group == 0, taken && e.Err == nil && (i >= own || !replaces[e.Agent.Source]):
				entries[i].Hides = append(entries[i].Hides, e.Agent.Source)
			case taken && e.Err == nil:
				entries[i].Ignored = append(entries[i].Ignored, e.Agent.Source)
			default: // also a broken file of a checkout, which is to be seen
				if !taken {
					at[fold(e.Agent.Name)] = len(entries)
				}
				entries = append(entries, e)
			}
		}
		if group == 0 {
			own = len(entries)
		}
	}
	byName := func(a, b Entry) int { return strings.Compare(fold(a.Agent.Name), fold(b.Agent.Name)) }
	slices.SortStableFunc(entries, byName)
	return entries
}

// Glance returns the agents that Lookup finds: those of the user and the built-in ones, then trusted ones
// of a checkout, then the others, each sorted by name. It does not parse the built-in ones, of which it
// returns name, description and source alone.
func (r *Registry) Glance() []Agent {
	var found []Agent
	taken, rank := map[string]bool{}, map[string]int{}
	for i, files := range r.scan().rank() {
		for _, f := range files {
			if f.rel != "" {
				rank[f.source] = 1 + i
			}
		}
		for _, e := range ordered(files, true) {
			key := fold(e.Agent.Name)
			if !taken[key] && e.Err == nil {
				found = append(found, e.Agent)
			}
			taken[key] = true
		}
	}
	slices.SortFunc(found, func(a, b Agent) int {
		return cmp.Or(rank[a.Source]-rank[b.Source], strings.Compare(fold(a.Name), fold(b.Name)))
	})
	return found
}

// glance returns name, description and source of a built-in definition, in which each has a line.
func (f *file) glance() (Agent, error) {
	data, err := f.content()
	_, rest, _ := strings.Cut(string(data), "\ndescription: ")
	description, _, _ := strings.Cut(rest, "\n")
	return Agent{Name: f.stem, Description: description, Source: f.source}, err
}

// ordered returns the definitions in files in the order in which find looks for them: first those
// whose file is named like the agent. With brief, the built-in ones are not parsed.
func ordered(files []*file, brief bool) []Entry {
	var claims, rest []Entry
	for _, f := range files {
		read := f.use
		if brief && f.source == BuiltIn {
			read = f.glance
		}
		switch a, err := read(); {
		case err != nil:
			claims = append(claims, Entry{Agent: Agent{Name: f.stem, Source: f.source}, Err: err})
		case f.named(fold(a.Name)):
			claims = append(claims, Entry{Agent: a})
		default:
			rest = append(rest, Entry{Agent: a})
		}
	}
	return append(claims, rest...)
}
