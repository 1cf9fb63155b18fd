package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"qq/internal/models/servers"
	"qq/pkg/money"
)

// Kind says what a setting accepts.
type Kind int

// Kinds of settings.
const (
	Seconds Kind = iota // 300, 0.5, 90s or 5m; 0 means no limit
	Count               // a whole number from Setting.Min on
	Name                // one word
	Model               // auto, extract, SERVER:NAME or an alias
	Host                // host, host:port or an http(s) URL
	Path                // a folder
	Choice              // one of Setting.Values
	List                // words between commas, or none
	Rules               // TOOL or TOOL(PATTERN) between commas, or none
	Folders             // folders between colons, or none
	Models              // names of models between commas, or none
	Amount              // an amount of money, such as 2.5
	Prices              // prices of models, or none
	Server              // what NAME of QQ_SERVER_NAME is: a kind of server, its URL, and options
)

// Reach says when a setting in the .env file of the working directory counts.
type Reach int

// Reaches of settings. Each setting has one.
const (
	// Trusted settings choose where text goes, what agents may do, or which records are kept: they count only if the
	// file is trusted.
	Trusted Reach = iota + 1
	// Lowers is for limits: if the file is not trusted, only a value that is lower than that of the user counts.
	Lowers
	// Harmless settings always count, but for a Path outside the working directory, which counts only if the file is
	// trusted.
	Harmless
	// Never is for what only qq itself sets.
	Never
)

// None is the value of a setting that means no value, or an empty list.
const None = "none"

// Setting describes one setting of qq: its name, its default, and which values it accepts.
type Setting struct {
	Name    string // of the environment variable
	Default string // as it would be written
	Doc     string // one line
	Kind    Kind
	Min     int      // the least value of a Count
	Max     int      // the greatest; 0 is a billion
	Values  []string // of a Choice
	Flag    string   // the flag that overrides it, without dashes; may be empty
	Example string   // what .env.example sets; if empty, its line is a comment
	// Checkout says what the setting counts for in the .env file of the working directory, which may come with a
	// checkout.
	Checkout Reach
	// Family says that the setting stands for many: each variable that begins as its name does, up to NAME, is one.
	Family bool
	// NoLimit says that 0 means no limit.
	NoLimit bool
	// Adds makes the value of a list the sum of all sources, instead of the value of the strongest source.
	Adds bool

	member string            // of a member of a family: its own name, such as lab
	field  func(*Config) any // where the value goes: such as *time.Duration or *int
}

// Settings returns the table of settings, from which defaults, parsing, `qq config`, `qq --help`, the README and
// .env.example are made. A default may refer to a setting above it.
func Settings() []Setting {
	return []Setting{
		{Name: "QQ_CHILD_TIMEOUT", Default: "300", Kind: Seconds, Flag: "timeout", Checkout: Lowers, NoLimit: true,
			Doc: "seconds that an agent may run; if not set, the timeout of its definition counts, and for a " +
				"child without one the default; --timeout also ends a prompt as a whole; 0 means no limit",
			field: func(c *Config) any { return &c.ChildTimeout }},
		{Name: "QQ_IDLE_TIMEOUT", Default: "300", Kind: Seconds, Flag: "idle-timeout", Checkout: Lowers, NoLimit: true,
			Doc: "seconds without any activity, such as a token or output of a command; if not set, the idle_timeout " +
				"of its definition counts; waiting for the model server, " +
				"an approval or its own children does not count; 0 means no limit",
			field: func(c *Config) any { return &c.IdleTimeout }},
		{Name: "QQ_RETRIES", Default: "2", Kind: Count, Max: 100, Flag: "retries", Checkout: Lowers,
			Doc:   "attempts after the first, when a failure may be temporary; at most 100",
			field: func(c *Config) any { return &c.Retries }},
		{Name: "QQ_FAULT_WAIT", Default: "60", Kind: Seconds, Checkout: Lowers, NoLimit: true,
			Doc: "seconds that a batch waits out a fault of the machine, such as a full disk or too many open files, " +
				"when nothing else is at work; 0 means no limit",
			field: func(c *Config) any { return &c.FaultWait }},
		{Name: "QQ_MAX_TOKENS", Default: "0", Kind: Count, Flag: "max-tokens", Checkout: Lowers, NoLimit: true,
			Doc: "tokens, input and output, for the whole tree; `extract` is not a language model and has no such " +
				"limit; 0 means no limit",
			field: func(c *Config) any { return &c.MaxTokens }},
		{Name: "QQ_MAX_COST", Default: "0", Kind: Amount, Flag: "max-cost", Checkout: Lowers, NoLimit: true,
			Doc: "what the whole tree may cost, in the currency of QQ_PRICES; each model that is used needs a price " +
				"then; 0 means no limit",
			field: func(c *Config) any { return &c.MaxCost }},
		{Name: "QQ_ON_QUOTA", Default: "auto", Kind: Choice, Flag: "on-quota", Checkout: Trusted,
			Values: []string{"auto", "wait", "stop", "fallback"},
			Doc: "what happens when a quota at a model server is used up: `wait` waits for its reset, `stop` starts " +
				"no more tasks that need the server, `fallback` leaves them to the models of --fallback, `auto` " +
				"waits if the server says that the reset is within an hour, and else stops",
			field: func(c *Config) any { return &c.OnQuota }},
		{Name: "QQ_SPAWN_RATE", Default: "0", Kind: Count, Checkout: Lowers, NoLimit: true,
			Doc:   "children that agents may start per minute; 0 means no limit",
			field: func(c *Config) any { return &c.SpawnRate }},
		{Name: "QQ_KEEP_RUNS", Default: "30", Kind: Count, Checkout: Trusted,
			Doc:   "days that a finished run stays in the ledger; 0 keeps it forever",
			field: func(c *Config) any { return &c.KeepRuns }},
		{Name: "QQ_MAX_PARALLEL", Default: "5", Kind: Count, Min: 1, Flag: "jobs", Checkout: Lowers,
			Doc: "children that run at the same time in the whole tree (one that waits for its own children does " +
				"not count)",
			field: func(c *Config) any { return &c.MaxParallel }},
		{Name: "QQ_PLAN", Default: "auto", Kind: Choice, Flag: "plan", Checkout: Trusted,
			Values: []string{"auto", "strict", "off"},
			Doc: "which tasks are held apart that may touch the same files, one of them writing: `auto` all, but for " +
				"those of a batch of which none has targets, `strict` all, `off` none",
			field: func(c *Config) any { return &c.Plan }},
		{Name: "QQ_MAX_DEPTH", Default: "3", Kind: Count, Checkout: Lowers,
			Doc: "depth at which starting a child fails; the root has depth 0, so by default children run at 1 " +
				"and 2; an agent at the last depth works alone, which is no error; " +
				"0 means no delegation",
			field: func(c *Config) any { return &c.MaxDepth }},
		{Name: "QQ_MAX_CHILDREN", Default: "200", Kind: Count, Checkout: Lowers,
			Doc:   "children that agents may start in one run (the tasks of `qq batch` do not count); 0 means none",
			field: func(c *Config) any { return &c.MaxChildren }},
		{Name: "QQ_MAX_OUTPUT", Default: "50000", Kind: Count, Checkout: Lowers,
			Doc: "characters of a child's output that its caller gets; with 0 it gets only the path of the " +
				"full output",
			field: func(c *Config) any { return &c.MaxOutput }},
		{Name: "QQ_SERVER_NAME", Default: None, Kind: Server, Checkout: Trusted, Family: true,
			Doc: "a model server NAME for `NAME:MODEL`, such as `openai http://10.0.0.7:8000/v1 key=LAB_KEY`: " +
				"`ollama`, `openai`, `anthropic` or `gemini`, its address, and `key=VARIABLE`, `context=TOKENS`, " +
				"`plain`, `vision` if its models see images, `no-tools` if they call none, or at the end " +
				"`key_cmd=COMMAND`; a built-in name is replaced"},
		{Name: "QQ_ALIAS_NAME", Default: None, Kind: Model, Checkout: Trusted, Family: true,
			Doc: "the model that `NAME` means, such as `ollama:qwen3:4b`"},
		{Name: "QQ_MODEL", Default: "auto", Kind: Model, Flag: "model", Checkout: Harmless,
			Doc: "`SERVER:NAME`, such as `ollama:qwen3` or `openai:gpt-5`, an alias, `extract`, or `auto`: Ollama " +
				"when it answers and has a model, else a server on this machine that QQ_SERVER_NAME names, else " +
				"`extract` for a single prompt",
			field: func(c *Config) any { return &c.Model }},
		{Name: "QQ_FALLBACK", Default: None, Kind: Models, Flag: "fallback", Checkout: Trusted,
			Doc: "models that are asked instead, in this order, if the server of a model cannot be reached, is busy " +
				"or has no quota left; never after a side effect",
			field: func(c *Config) any { return &c.Fallback }},
		{Name: "QQ_PRICES", Default: None, Kind: Prices, Checkout: Trusted,
			Doc: "what models cost, as `MODEL=IN/OUT/CACHED/WRITTEN` for a million tokens in a currency of your " +
				"choice, such as `openai:gpt-5=1.25/10/0.125 anthropic:*=3/15/0.3/3.75`; CACHED and WRITTEN are for " +
				"input that the server has in its cache or puts there, and as IN if left out; of several that fit a " +
				"model the longest counts",
			field: func(c *Config) any { return &c.Prices }},
		{Name: "OLLAMA_HOST", Default: "127.0.0.1:11434", Kind: Host, Checkout: Trusted,
			Doc:   "the Ollama server, as Ollama reads it",
			field: func(c *Config) any { return &c.OllamaHost }},
		{Name: "QQ_AGENT", Default: "default", Kind: Name, Flag: "agent", Checkout: Harmless,
			Doc:   "agent for a run",
			field: func(c *Config) any { return &c.Agent }},
		{Name: "QQ_AGENTS_MD", Default: "on", Kind: Choice, Checkout: Harmless, Values: []string{"on", "off"},
			Doc: "whether agents are told what `AGENTS.md` of their folder and the nearest above it in the " +
				"repository say, at most 2000 tokens; without `qq trust` only those that can change nothing",
			field: func(c *Config) any { return &c.AgentsMD }},
		{Name: "QQ_MARKDOWN", Default: "on", Kind: Choice, Checkout: Harmless, Values: []string{"on", "off"},
			Doc: "whether the answer to a prompt is shown with headings, lists, tables and code formatted on a " +
				"terminal with colours; elsewhere it is always as the model wrote it",
			field: func(c *Config) any { return &c.Markdown }},
		{Name: "QQ_APPROVE", Default: "ask", Kind: Choice, Flag: "approve", Checkout: Trusted,
			Values: []string{"ask", "auto", "deny"},
			Doc:    "what happens to a risky call: `ask` asks a person, `auto` allows it, `deny` refuses it",
			field:  func(c *Config) any { return &c.Approve }},
		{Name: "QQ_APPROVAL_TIMEOUT", Default: "300", Kind: Seconds, Checkout: Lowers, NoLimit: true,
			Doc: "seconds that a question about a risky call waits for an answer before the call is refused; " +
				"0 means no limit",
			field: func(c *Config) any { return &c.ApprovalTimeout }},
		{Name: "QQ_ALLOW", Default: None, Kind: Rules, Flag: "allow", Checkout: Trusted,
			Doc:   "calls that need no approval, such as `edit_file(src/*),run_pty_cmd(git log*)`",
			field: func(c *Config) any { return &c.Allow }},
		{Name: "QQ_DENY", Default: None, Kind: Rules, Flag: "deny", Adds: true, Checkout: Harmless,
			Doc:   "tools and calls that are refused, from all sources together; stronger than `QQ_ALLOW`",
			field: func(c *Config) any { return &c.Deny }},
		{Name: "QQ_WRITABLE", Default: None, Kind: Folders, Checkout: Trusted,
			Doc: "folders, besides the working directory, that shell commands may write to, such as " +
				"`~/.cache/go-build`; `.git` lets them commit, `.github` and such let them write there; " +
				"a socket such as `/run/docker.sock` lets them connect",
			field: func(c *Config) any { return &c.Writable }},
		{Name: "QQ_ISOLATE", Default: "off", Kind: Choice, Flag: "isolate", Checkout: Trusted,
			Values: []string{"off", "auto", "overlay", "worktree"},
			Doc: "whether each task that can write works in a copy of the folder, and is joined when it has ended: " +
				"`overlay` mounts one, `worktree` is one of git, `auto` takes what works here; without either such " +
				"a task is refused",
			field: func(c *Config) any { return &c.Isolate }},
		{Name: "QQ_COMMAND_MEMORY", Default: "8192", Kind: Count, Checkout: Lowers, NoLimit: true,
			Doc:   "megabytes of memory for a shell command and all that it starts; 0 means no limit",
			field: func(c *Config) any { return &c.CommandMemory }},
		{Name: "QQ_COMMAND_PROCESSES", Default: "2048", Kind: Count, Checkout: Lowers, NoLimit: true,
			Doc:   "processes, threads included, of a shell command and all that it starts; 0 means no limit",
			field: func(c *Config) any { return &c.CommandProcesses }},
		{Name: "QQ_COMMAND_FILE_SIZE", Default: "10240", Kind: Count, Checkout: Lowers, NoLimit: true,
			Doc:   "megabytes of the largest file that a shell command may write; 0 means no limit",
			field: func(c *Config) any { return &c.CommandFileSize }},
		{Name: "QQ_SEARCH", Default: None, Kind: Name, Checkout: Trusted,
			Doc: "where `web_search` searches: `searxng=URL`, `brave` or `tavily` " +
				"(with BRAVE_API_KEY or TAVILY_API_KEY); none: no such tool",
			field: func(c *Config) any { return &c.Search }},
		{Name: "QQ_WEB_ALLOW", Default: None, Kind: List, Checkout: Trusted,
			Doc: "hosts that `web_fetch` may reach although their address is private, such as " +
				"`wiki.local,localhost:8080`",
			field: func(c *Config) any { return &c.WebAllow }},
		{Name: "QQ_HOME", Default: "$XDG_STATE_HOME/qq", Kind: Path, Checkout: Trusted,
			Doc:   "sessions, the ledger of runs, outputs, logs (XDG_STATE_HOME is ~/.local/state unless set)",
			field: func(c *Config) any { return &c.Home }},
		{Name: "QQ_LOG_DIR", Default: "$QQ_HOME/logs", Kind: Path, Example: "logs", Checkout: Harmless,
			Doc:   "log files; from a checkout's .env that is not trusted, only a folder inside the checkout",
			field: func(c *Config) any { return &c.LogDir }},
		{Name: "QQ_RECURSION_DEPTH", Default: "0", Kind: Count, Checkout: Never,
			Doc:   "depth of this process in the tree of tasks; qq sets it for its children",
			field: func(c *Config) any { return &c.Depth }},
	}
}

// accepts says in words which values s takes.
func (s Setting) accepts() string {
	switch s.Kind {
	case Seconds:
		return "seconds such as 300 or 0.5, or a duration such as 90s or 5m; 0 is no limit"
	case Count:
		return fmt.Sprintf("a whole number from %d to %d", s.Min, s.most())
	case Model:
		return "auto, extract, SERVER:NAME such as ollama:qwen3, or an alias"
	case Host:
		return "host, host:port, or a URL with http or https"
	case Path:
		return "the path of a folder"
	case Choice:
		return strings.Join(s.Values[:len(s.Values)-1], ", ") + " or " + s.Values[len(s.Values)-1]
	case List:
		return "words between commas, or " + None
	case Rules:
		return "TOOL or TOOL(PATTERN) between commas, or " + None
	case Folders:
		return "absolute paths of folders or sockets, or .git and such, between colons, or " + None
	case Models:
		return "names of models between commas, or " + None
	case Amount:
		return "an amount such as 2.5; 0 is no limit"
	case Prices:
		return "MODEL=IN/OUT/CACHED/WRITTEN between spaces, each for a million tokens and the last two optional, " +
			"such as openai:gpt-5=1.25/10/0.125, or " + None
	case Server:
		return "a kind of server, its address, and options, such as openai http://10.0.0.7:8000/v1 key=LAB_KEY"
	}
	return "one word"
}

// most is the greatest value of a Count.
func (s Setting) most() int { return cmp.Or(s.Max, maxCount) }

// Config is the value of every setting. Only [Load] makes one.
type Config struct {
	ChildTimeout     time.Duration // 0 means no limit
	IdleTimeout      time.Duration // 0 means no limit
	FaultWait        time.Duration // 0 means no limit
	Retries          int
	MaxTokens        int          // 0 means no limit
	MaxCost          money.Amount // 0 means no limit
	OnQuota          string       // auto, wait, stop or fallback
	Plan             string       // auto, strict or off
	SpawnRate        int          // per minute; 0 means no limit
	KeepRuns         int          // days; 0 means forever
	MaxParallel      int
	MaxDepth         int
	MaxChildren      int
	MaxOutput        int
	Model            string
	Fallback         []string    // models that are asked instead
	Prices           money.Table // of models, see Config.Price
	OllamaHost       string
	Agent            string
	AgentsMD         string        // on or off
	Markdown         string        // on or off
	Approve          string        // ask, auto or deny
	ApprovalTimeout  time.Duration // 0 means no limit
	Allow, Deny      []string      // rules: a tool, or a tool and a pattern of its calls
	Writable         []string      // absolute
	Isolate          string
	CommandMemory    int    // megabytes; 0 means no limit
	CommandProcesses int    // 0 means no limit
	CommandFileSize  int    // megabytes; 0 means no limit
	Search           string // as written; empty means none
	WebAllow         []string
	Home             string // absolute
	LogDir           string // absolute
	Depth            int
	Servers          []servers.Server  // those of the user, see AllServers
	Aliases          map[string]string // the models that names mean

	// Warnings are for a person, one line each: settings that were ignored and why,
	// names that are no setting.
	Warnings []string

	// Mistakes are errors of which each is an [*Error]: see Input.Anyway.
	Mistakes []error

	// Claims are the settings in the .env file of the working directory that count only if it is trusted.
	Claims []CheckoutSetting

	from   map[string]origin
	loader *loader // the sources
}

// origin is where the value of a setting came from.
type origin struct{ value, source string }

// Source returns where the value of the named setting came from: "flag --timeout",
// "environment", ".env", the path of the user's .env, or "default".
func (c Config) Source(name string) string { return c.from[name].source }

// OnlyLowers reports whether the value of the named setting comes from a .env file that is not trusted, and is a
// limit: it may lower what the definition of an agent says, but not raise it.
func (c Config) OnlyLowers(name string) bool {
	limit := func(s Setting) bool { return s.Name == name && s.Checkout == Lowers }
	return c.Foreign(name) && slices.ContainsFunc(c.loader.settings, limit)
}

// Foreign reports whether the value of the named setting comes from a .env file that is not trusted.
func (c Config) Foreign(name string) bool { return c.Source(name) == fromDotEnv && !c.loader.trusted }

// AllServers returns the model servers that can be named, with their addresses. Those of the user come first.
func (c Config) AllServers() []servers.Server {
	all := slices.Clone(c.Servers)
	for i := range all {
		all[i].Own = true
	}
	for _, s := range servers.BuiltIn() {
		if s.Name == servers.Ollama {
			s.URL = c.OllamaHost
		}
		if !slices.ContainsFunc(c.Servers, func(own servers.Server) bool { return own.Name == s.Name }) {
			all = append(all, s)
		}
	}
	return all
}

// Settings returns the settings of which c has the values, those of families included.
func (c Config) Settings() []Setting {
	if c.loader == nil {
		return Settings()
	}
	return c.loader.settings
}

// Value returns the value of the named setting as text. Paths are absolute.
func (c Config) Value(name string) string { return c.from[name].value }

// Environ lists the settings that are not defaults, as NAME=value. A child that gets
// them together with [ChildEnv] has the same settings, and so has a qq that is
// started inside it. Whoever starts the child adds the depth.
func (c Config) Environ() []string {
	var env []string
	for _, s := range c.Settings() {
		if o := c.from[s.Name]; o.source != fromDefault && s.Name != "QQ_RECURSION_DEPTH" {
			env = append(env, s.Name+"="+o.value)
		}
	}
	return env
}
