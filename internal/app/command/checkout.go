package command

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"qq/internal/config"
	"qq/internal/config/trust"
	"qq/pkg/agents"
	"qq/pkg/task"
)

// dotEnv is the file of settings in a checkout.
const dotEnv = ".env"

// sendsOn is the effect of a model on another machine.
const sendsOn = "sends text to another machine"

// Checkout is the working directory with what its files configure. A stranger may have written them: what chooses
// where text goes, raises a limit or replaces an agent is a [Claim], and counts only if a person trusts its file.
type Checkout struct {
	Dir      string
	Settings config.Config // with what counts
	Agents   *agents.Registry
	Trust    *trust.Folder
	Store    trust.Store // of the user; a checkout cannot choose another
	Broken   error       // why .env counts as empty, see OpenAnyway; nil if it does not
	Mistakes []error     // in the settings, see Examine

	own config.Config // without anything that needs trust
}

// Claim is a part of a file of a checkout that counts only if a person trusts the file.
type Claim struct {
	File       string // relative to the checkout
	Setting    string // that the claim decides; "" for an agent that replaces another one
	Text       string // what it says, on one line; each character is spelled out
	Effect     string // what it does, such as "raises 2"; may be empty
	State      trust.State
	Overridden bool // a flag or the environment says otherwise

	sum   string // SHA-256 of the file
	whole string // Text with all of a long value; "" if there is none
}

// nowhere is a folder that does not exist, instead of the home of qq if that is not known.
const nowhere = "/nonexistent"

// newCheckout returns the checkout in dir. cfg has its settings, without anything that needs trust.
func newCheckout(dir string, cfg config.Config, env Environment) (*Checkout, error) {
	user, err := cfg.Without("QQ_HOME")
	if err != nil {
		return nil, Usage(err)
	}
	o := &Checkout{Dir: dir, own: cfg, Store: trust.In(cmp.Or(user.Home, nowhere))}
	o.Trust = o.Store.Folder(dir)
	tried := cfg
	if len(cfg.Claims) > 0 { // they may name servers
		if tried, err = cfg.Trust(); err != nil {
			tried = cfg // what is wrong is said when somebody wants to trust it
		}
	}
	o.Agents = agents.Load(agents.Dirs(dir, env.ConfigHome(), o.Trust))
	o.Agents.Models.Servers, o.Agents.Models.Aliases = tried.Models()
	return o, o.Settle()
}

// Tried returns the settings as they would be if all files of the checkout were trusted.
func (o *Checkout) Tried() (config.Config, error) { return o.own.Trust() }

// Settle finds the settings that count after decisions. After an error they are those that need no trust.
func (o *Checkout) Settle() error {
	o.Settings = o.own
	cfg, err := o.own, error(nil)
	var without []string
	for _, c := range o.Lines() {
		// Package config does not know what makes these two need trust.
		remote := c.Setting == "QQ_AGENT" || c.Setting == "QQ_MODEL"
		switch {
		case remote && c.State != trust.Trusted:
			without = append(without, c.Setting)
		case c.File == dotEnv && c.State == trust.Trusted && err == nil:
			cfg, err = cfg.Trust()
		}
	}
	if len(without) > 0 && err == nil {
		cfg, err = cfg.Without(without...)
	}
	if err != nil {
		return Usage(err)
	}
	o.Settings = cfg
	return nil
}

// Lines returns the claims of the settings in .env.
func (o *Checkout) Lines() (lines []Claim) {
	add := func(name, value, effect string, overridden bool) {
		sum := o.own.DotEnvSum()
		lines = append(lines, Claim{
			File: dotEnv, Setting: name, Text: name + "=" + bounded(value), Effect: effect,
			State: o.Trust.State(dotEnv, sum), Overridden: overridden,
			sum: sum, whole: name + "=" + Quoted(value),
		})
	}
	for _, c := range o.own.Claims {
		effect := ""
		switch {
		case c.Raises != "":
			effect = "raises " + c.Raises
		case strings.HasPrefix(c.Name, "QQ_SERVER_") && strings.Contains(c.Value, "key_cmd="):
			effect = "runs a command, and " + sendsOn
		case strings.HasPrefix(c.Name, "QQ_SERVER_"), strings.HasPrefix(c.Name, "QQ_ALIAS_") && o.remote(c.Value):
			effect = sendsOn
		}
		add(c.Name, c.Value, effect, c.Overridden)
	}
	if m := o.own.InDotEnv("QQ_MODEL"); o.remote(m) {
		add("QQ_MODEL", m, sendsOn, o.own.Source("QQ_MODEL") != dotEnv)
	}
	chosen := o.own.InDotEnv("QQ_AGENT")
	if chosen == "" {
		return lines
	}
	for _, a := range o.Agents.Claims(chosen) {
		if a.Chosen {
			c := o.claim(a, "is chosen by QQ_AGENT in .env")
			c.Setting, c.Overridden = "QQ_AGENT", o.own.Source("QQ_AGENT") != dotEnv
			lines = append(lines, c)
		}
	}
	return lines
}

// remote reports whether the model of that name is on another machine, as far as names tell.
func (o *Checkout) remote(model string) bool { return o.Agents.Models.Remote(model) }

// claim returns the claim of the definition of an agent.
func (o *Checkout) claim(a agents.CheckoutAgent, effect string) Claim {
	return Claim{
		File: a.File, Text: describe(a.Agent), Effect: effect, State: o.Trust.State(a.File, a.Sum), sum: a.Sum,
	}
}

// describe returns what an agent may do, where its text goes, and how its prompt begins. Each part is bounded.
func describe(a agents.Agent) string {
	tools, asks := a.Runs.Tools(), "any agent"
	if a.Tools != nil {
		tools = Quoted(task.Shorten(cmp.Or(strings.Join(a.Toolset(), ", "), "none"), 4*maxPart))
	}
	switch {
	case !a.Delegates():
		asks = "none"
	case a.Agents != nil:
		asks = brief(cmp.Or(strings.Join(a.Agents, ", "), "none"))
	}
	model := "that of the run"
	if a.Model != "" {
		model = strconv.QuoteToASCII(task.Shorten(a.Model, maxPart))
	}
	if len(a.Fallback) > 0 {
		model += "; fallback: " + brief(strings.Join(a.Fallback, ", "))
	}
	prompt, kind := a.Prompt, "prompt"
	if a.PromptTemplate != "" { // it is used instead
		prompt, kind = a.PromptTemplate, "template of a prompt"
	}
	return fmt.Sprintf("agent %s with the tools: %s; model: %s; may ask: %s; %s of %d bytes: %s", brief(a.Name), tools,
		model, asks, kind, len(prompt), strconv.QuoteToASCII(task.Shorten(prompt, maxPart)))
}

// maxPart bounds a part of a claim, in characters.
const maxPart = 200

// bounded returns s, spelled out. If it is long, that is its beginning and its end.
func bounded(s string) string {
	r := []rune(s)
	if len(r) <= 2*maxPart {
		return Quoted(s)
	}
	return fmt.Sprintf("%s (%d characters are left out here) %s", Quoted(string(r[:maxPart])), len(r)-2*maxPart,
		Quoted(string(r[len(r)-maxPart:])))
}

// brief returns the beginning of s, spelled out.
func brief(s string) string { return Quoted(task.Shorten(s, maxPart)) }

// Claims returns all claims of the checkout.
func (o *Checkout) Claims() []Claim {
	claims := o.Lines()
	for _, c := range o.Agents.Claims("") {
		effect := "replaces " + Quoted(c.Hides)
		switch c.Hides {
		case agents.BuiltIn:
			effect = "replaces a built-in agent"
		case "":
			effect = "names models that are asked instead"
			if o.remote(c.Agent.Model) || slices.ContainsFunc(c.Agent.Fallback, o.remote) {
				effect = sendsOn
			}
		}
		claims = append(claims, o.claim(c, effect))
	}
	return claims
}

// Claim returns the claim of a file that is neither settings nor an agent. sum is the SHA-256 of its content.
func (o *Checkout) Claim(file, sum, text, effect string) Claim {
	state := o.Trust.State(file, sum)
	return Claim{File: file, Text: bounded(text), Effect: effect, State: state, sum: sum, whole: Quoted(text)}
}

// Unreadable returns why the decisions about the checkout cannot be read; nil if they can. Without them nothing is
// trusted.
func (o *Checkout) Unreadable() error {
	if err := o.Trust.Err(); err != nil {
		return Advised(err, "look at that file; qq trust --remove forgets what it says")
	}
	return nil
}

// TrustedAgents returns the files that replace agents of the user.
func (o *Checkout) TrustedAgents() trust.Sums {
	sums := trust.Sums{}
	for _, c := range o.Claims() {
		if c.File != dotEnv && c.State == trust.Trusted {
			sums[c.File] = c.sum
		}
	}
	return sums
}

// Ignored returns those of claims that do not count because nobody trusts their file.
func Ignored(claims []Claim) []Claim {
	return slices.DeleteFunc(claims, func(c Claim) bool { return c.Overridden || c.State == trust.Trusted })
}

// Outside reports whether the file is a link that leads out of the checkout. It cannot be trusted.
func (c Claim) Outside() bool { return c.sum == "" }

// Decide stores whether the files of claims are trusted. A link that leads out of the checkout is an error; the other
// files are decided about all the same. After another error they are, or are not, in this process. The caller calls
// Settle.
func (o *Checkout) Decide(claims []Claim, trusted bool) error {
	files := map[string]string{}
	var outside error
	for _, c := range claims {
		if c.Outside() {
			outside = Usagef("replace the link by the file", "%s cannot be trusted: it is a link that leads out of %s",
				c.File, o.Dir)
			continue
		}
		files[c.File] = c.sum
	}
	if len(files) == 0 {
		return outside
	}
	return cmp.Or(o.Trust.Decide(files, trusted), outside)
}

// Sends reports whether the claim is about an address, or a model on another machine.
func (c Claim) Sends() bool {
	return strings.HasSuffix(c.Effect, sendsOn) ||
		slices.Contains([]string{"OLLAMA_HOST", "QQ_SEARCH", "QQ_WEB_ALLOW"}, c.Setting)
}

// Line returns what the claim says, for a person who decides about it. Of a long value it has the beginning and the
// end.
func (c Claim) Line() string { return c.line(c.Text) }

// WholeLine returns Line with all of a long value.
func (c Claim) WholeLine() string { return c.line(cmp.Or(c.whole, c.Text)) }

func (c Claim) line(text string) string {
	line := Quoted(c.File) + ": " + text
	if c.Effect != "" {
		line += " (" + c.Effect + ")"
	}
	if c.State == trust.Changed {
		line += " (changed since you trusted it)"
	}
	return line
}

// String returns a warning: what is ignored, and why.
func (c Claim) String() string {
	what := Quoted(c.File)
	switch {
	case c.File == dotEnv:
		what = c.Setting + " in .env"
	case c.Effect == sendsOn:
		what = "the model of " + what
	}
	why := "this folder is not trusted"
	switch {
	case c.Outside():
		why = c.File + " is a link that leads out of this folder"
	case c.State == trust.Changed:
		why = Quoted(c.File) + " has changed since you trusted it"
	case c.State == trust.Refused:
		why = "you did not trust it"
	}
	if c.Effect != "" {
		why = "it " + c.Effect + ", and " + why
	}
	return fmt.Sprintf("%s is ignored: %s; see qq trust", what, why)
}

// Quoted returns s so that a person sees each character of it: as it is if it has only plain characters, else
// quoted.
func Quoted(s string) string {
	strange := func(r rune) bool { return r < ' ' || r > '~' || r == '"' || r == '\\' }
	if s == "" || strings.ContainsFunc(s, strange) || s != strings.TrimSpace(s) {
		return strconv.QuoteToASCII(s)
	}
	return s
}
