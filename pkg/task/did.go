package task

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Limits of a [Did]: how many tools it counts, how many commands it lists, and how long their texts are.
const (
	maxDidTools    = 100
	maxDidName     = 64
	maxDidCommands = 20
	maxDidLine     = 200
	maxDidOutput   = 1000
	maxDidCalls    = 1_000_000_000
	maxDidBytes    = 128 << 10 // of its JSON; one within the other limits is shorter
)

// Did is what an agent did: the calls of its tools that were run, and the commands among them. What it handed on is
// not part of it; each of those tasks has a result of its own. See [Result.ChangedFiles] for the files.
type Did struct {
	Calls    map[string]int `json:"calls,omitempty"`    // how often each tool ran, by its name
	Commands []Command      `json:"commands,omitempty"` // the first ones, in their order
	// MoreCommands is how many commands are not listed.
	MoreCommands int `json:"more_commands,omitempty"`
	// Model is how long the answers of the model took; zero means not known.
	Model ModelTime `json:"model,omitzero"`
}

// ModelTime is how long answers of a model took.
type ModelTime struct {
	Answers  int   `json:"answers"`
	FirstMS  int64 `json:"first_ms"`            // from each request to the first piece of its answer, together
	TookMS   int64 `json:"took_ms"`             // to the end of each answer, together
	WaitedMS int64 `json:"waited_ms,omitempty"` // before that, for a slot at its server
}

// First is the mean time to the first piece of an answer; 0 if there is no answer.
func (m ModelTime) First() time.Duration {
	return time.Duration(m.FirstMS) * time.Millisecond / time.Duration(max(m.Answers, 1))
}

// Add returns the sum of m and other.
func (m ModelTime) Add(other ModelTime) ModelTime {
	return ModelTime{m.Answers + other.Answers, m.FirstMS + other.FirstMS, m.TookMS + other.TookMS,
		m.WaitedMS + other.WaitedMS}
}

// bounded returns m with each number between 0 and a plausible one.
func (m ModelTime) bounded() ModelTime {
	const longest = 1000 * 24 * 3600 * 1000 // ms
	m.Answers = min(max(m.Answers, 0), maxDidCalls)
	m.TookMS = min(max(m.TookMS, 0), longest)
	m.FirstMS = min(max(m.FirstMS, 0), m.TookMS)
	m.WaitedMS = min(max(m.WaitedMS, 0), longest)
	return m
}

// Command is a command that was run.
type Command struct {
	Line     string `json:"command"` // on one line, shortened
	ExitCode int    `json:"exit_code"`
	// Check says that it was the check of the task, which the agent did not run itself.
	Check bool `json:"check,omitempty"`
	// Output is the end of what a check that failed has printed, in lines.
	Output string `json:"output,omitempty"`
}

// UnmarshalJSON implements [json.Unmarshaler]. A child sends it, so JSON that is too long is not decoded.
func (d *Did) UnmarshalJSON(data []byte) error {
	if len(data) > maxDidBytes {
		return fmt.Errorf("did has %d bytes, at most %d", len(data), maxDidBytes)
	}
	type plain Did
	return json.Unmarshal(data, (*plain)(d))
}

// Call counts a call of that tool.
func (d *Did) Call(tool string) {
	if d.Calls == nil {
		d.Calls = map[string]int{}
	}
	if _, known := d.Calls[tool]; known || len(d.Calls) < maxDidTools {
		d.Calls[tool]++
	}
}

// Asked adds an answer of the model, whose first piece came after first and whose end after took, when its request had
// waited for a slot.
func (d *Did) Asked(first, took, waited time.Duration) {
	if took > 0 {
		d.Model = d.Model.Add(ModelTime{1, first.Milliseconds(), took.Milliseconds(), waited.Milliseconds()})
	}
}

// Run adds a command.
func (d *Did) Run(c Command) {
	if len(d.Commands) == maxDidCommands {
		d.MoreCommands++
		return
	}
	c.Line = Shorten(c.Line, maxDidLine)
	if r := []rune(c.Output); len(r) > maxDidOutput {
		c.Output = "..." + string(r[len(r)-maxDidOutput+3:])
	}
	for i := range d.Commands { // the last one tells what is still wrong
		if c.Check {
			d.Commands[i].Output = ""
		}
	}
	d.Commands = append(d.Commands, c)
}

// OrNil returns d, or nil if it says nothing.
func (d *Did) OrNil() *Did {
	if d == nil || len(d.Calls)+len(d.Commands)+d.Model.Answers == 0 {
		return nil
	}
	return d
}

// Bounded returns a copy of d within its limits, whoever made d. nil stays nil.
func (d *Did) Bounded() *Did {
	if d == nil {
		return nil
	}
	count := func(n int) int { return min(max(n, 0), maxDidCalls) }
	b := &Did{MoreCommands: count(d.MoreCommands), Model: d.Model.bounded()}
	for _, name := range slices.Sorted(maps.Keys(d.Calls)) {
		if n := count(d.Calls[name]); n > 0 && len(name) <= maxDidName && len(b.Calls) < maxDidTools {
			b.Call(name)
			b.Calls[name] = n
		}
	}
	for _, c := range d.Commands {
		b.Run(c)
	}
	return b.OrNil()
}

// Add returns the sum of d, what an earlier attempt did, and of what a later one did. Each may be nil.
func (d *Did) Add(later *Did) *Did {
	sum := Did{}
	for _, part := range []*Did{d, later} {
		if part == nil {
			continue
		}
		for name, n := range part.Calls {
			sum.Call(name)
			if _, counted := sum.Calls[name]; counted {
				sum.Calls[name] += n - 1
			}
		}
		for _, c := range part.Commands {
			sum.Run(c)
		}
		sum.MoreCommands += part.MoreCommands
		sum.Model = sum.Model.Add(part.Model)
	}
	return sum.Bounded()
}
