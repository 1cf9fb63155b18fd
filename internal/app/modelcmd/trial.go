package modelcmd

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"qq/internal/app/command"
	"qq/internal/app/figures"
	"qq/internal/app/output"
	"qq/internal/models"
	"qq/internal/models/tokens"
	"qq/pkg/llm"
	"qq/pkg/task"
	"qq/pkg/tool"
)

// trial is what a few short requests have shown of a model. It is the JSON output of qq models test.
type trial struct {
	Model  string  `json:"model"`
	Checks []check `json:"checks"`
	// FirstTokenMS and TokensPerSecond are of the streamed answer; missing if there was none.
	FirstTokenMS    int64   `json:"first_token_ms,omitempty"`
	TokensPerSecond float64 `json:"tokens_per_second,omitempty"`
}

// check is the result of one request.
type check struct {
	What string `json:"what"`
	OK   bool   `json:"ok"`
	Text string `json:"text"` // what came, or why it is not ok
	MS   int64  `json:"duration_ms"`
}

func (r commands) test(c *cli.Context) error {
	name, err := one(c)
	if err != nil {
		return err
	}
	limit := time.Duration(c.Int("timeout")) * time.Second
	if limit <= 0 {
		return command.Usagef("accepted is a number of seconds from 1 on", "--timeout is %d", c.Int("timeout"))
	}
	set, _, err := r.Configure(c)
	if err != nil {
		return err
	}
	at := r.reach(set)
	defer at.close()
	if name, err = at.whole(name); err != nil {
		return err
	}
	printer := checkPrinter{commands: r, shown: !c.Bool("json"), chosen: c.NArg() == 0 || name == models.Auto}
	t, failed := at.try(c.Context, name, limit, false, printer)
	if t.Model == "" { // it was not found
		return failed
	}
	if c.Bool("json") {
		if err := output.WriteJSON(r.Out, t); err != nil {
			return err
		}
		if failed != nil { // the document says it already
			command.Report(r.Err, failed)
			return command.Said(task.StatusOf(failed).ExitCode())
		}
	}
	return failed
}

// checkPrinter prints the checks as they come.
type checkPrinter struct {
	commands
	shown  bool
	chosen bool // the person did not name the model
}

// model says which model is tested, if the person did not name it.
func (p checkPrinter) model(name string) {
	if p.chosen {
		p.Note("the model of a run is %s", name)
	}
}

// begin shows on a terminal which check is at work.
func (p checkPrinter) begin(model, what string) {
	p.doing("testing " + model + ": " + what)
}

// done prints the result of a check.
func (p checkPrinter) done(c check) {
	p.doing("")
	if !p.shown {
		return
	}
	mark := map[bool]string{true: "ok", false: "no"}[c.OK]
	t := output.Table{{fmt.Sprintf("%-2s", mark), fmt.Sprintf("%-9s", c.What), figures.Spelled(c.Text)}}
	fmt.Fprintln(p.Out, strings.Join(t.Wrapped(p.Out.Width()), "\n"))
}

// The requests of a trial. Each is short, and each answer is too.
const (
	longestAnswer = 1024 // tokens; a model that thinks needs some
	cityTool      = "get_weather"
	citySchema    = `{"type":"object","properties":{"city":{"type":"string"}},"required":["city"],` +
		`"additionalProperties":false}`
)

func ask(text string) llm.Request {
	return llm.Request{MaxTokens: longestAnswer, Messages: []llm.Message{{Role: llm.User, Content: text}}}
}

// try tests the named model; a short test ends with the tool call. Each request may take so long. The error says that
// the model cannot give a plain answer.
func (r *reach) try(
	ctx context.Context, name string, limit time.Duration, short bool, p checkPrinter,
) (t trial, err error) {
	find, cancel := bounded(ctx, limit)
	m, err := r.Resolve(find, name)
	cancel()
	if err != nil {
		return t, err
	}
	if m.Kind == models.Extract {
		return t, command.Usagef("for example: qq models test ollama:qwen3:4b",
			"extract is built in: there is nothing to test")
	}
	key, err := r.KeyOf(ctx, m)
	if err != nil {
		return t, err
	}
	backend, done, err := m.Connect(key)
	if err != nil {
		return t, err
	}
	defer done()
	t.Model = m.String()
	p.model(t.Model)
	run := func(what string, f func(context.Context) (string, error)) error {
		p.begin(t.Model, what)
		ctx, cancel := bounded(ctx, limit)
		defer cancel()
		began := time.Now()
		text, err := f(ctx)
		c := check{What: what, OK: err == nil, Text: text, MS: time.Since(began).Milliseconds()}
		if err != nil {
			c.Text, _ = task.Explain(err)
		}
		t.Checks = append(t.Checks, c)
		p.done(c)
		return err
	}
	if err := run("answer", func(ctx context.Context) (string, error) { return answers(ctx, backend) }); err != nil {
		if e, ok := errors.AsType[*llm.Error](err); ok && e.Kind == llm.Quota { // there is no batch that could wait
			e.Hint = "look at your plan and balance there, or take another model"
		}
		return t, err
	}
	_ = run("tool call", func(ctx context.Context) (string, error) { return calls(ctx, m, backend) })
	if short {
		return t, context.Cause(ctx)
	}
	_ = run("schema", func(ctx context.Context) (string, error) { return obeysSchema(ctx, backend) })
	_ = run("stream", func(ctx context.Context) (string, error) { return t.streams(ctx, backend) })
	return t, context.Cause(ctx)
}

// bounded returns ctx with a limit of time.
func bounded(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, limit, &llm.Error{Kind: llm.Unreachable,
		Problem: fmt.Sprintf("no whole answer within %v", limit),
		Hint:    "a model that is not loaded yet, or that thinks for long, needs more time: --timeout 300"})
}

// answers asks for a plain answer.
func answers(ctx context.Context, b llm.Backend) (string, error) {
	began := time.Now()
	resp, err := b.Chat(ctx, ask("Reply with one short sentence: that you are ready."), nil)
	text := strings.TrimSpace(resp.Message.Content)
	switch {
	case err != nil:
		return "", err
	case text == "" && resp.Message.Thinking != "":
		return "", &llm.Error{Kind: llm.Server, Hint: "it may work with a longer limit, or without thinking",
			Problem: fmt.Sprintf("it only thought, for %d tokens, and answered nothing", longestAnswer)}
	case text == "":
		return "", &llm.Error{Kind: llm.Server, Problem: "the answer is empty", Hint: "try another model"}
	}
	return fmt.Sprintf("%q in %s", task.Shorten(text, 40), seconds(time.Since(began))), nil
}

// calls asks for a tool call.
func calls(ctx context.Context, m models.Model, b llm.Backend) (string, error) {
	if !m.Tools {
		return "", errors.New("the server says that the model cannot call tools")
	}
	r := ask("What is the weather in Paris? Call the tool " + cityTool + " to find out.")
	r.Tools = []tool.Spec{{Name: cityTool, Description: "Returns the weather in a city.",
		Parameters: json.RawMessage(citySchema)}}
	resp, err := b.Chat(ctx, r, nil)
	switch {
	case err != nil:
		return "", err
	case len(resp.Message.Calls) == 0:
		return "", errors.New("it answered in words and called no tool: agents may not be able to work with it")
	case resp.Message.Calls[0].Name != cityTool || !hasCity(resp.Message.Calls[0].Arguments):
		return "", errors.New("it called the tool in a wrong way")
	}
	return cityTool + string(resp.Message.Calls[0].Arguments), nil
}

// obeysSchema asks for an answer in JSON.
func obeysSchema(ctx context.Context, b llm.Backend) (string, error) {
	r := ask("Which city is the capital of France? Answer in JSON: an object with the key city.")
	r.Schema = json.RawMessage(citySchema)
	resp, err := b.Chat(ctx, r, nil)
	text := strings.TrimSpace(resp.Message.Content)
	switch {
	case err != nil:
		return "", err
	case !hasCity(json.RawMessage(text)):
		return "", errors.New("the answer is not JSON of the schema")
	}
	return text, nil
}

// hasCity reports whether data is what citySchema describes.
func hasCity(data json.RawMessage) bool {
	var object map[string]string
	return json.Unmarshal(data, &object) == nil && object["city"] != "" && len(object) == 1
}

// burst is how long an answer takes that the server sends at once, however many pieces it has.
const burst = 10 * time.Millisecond

// streams asks for a longer answer, and measures how fast it comes.
func (t *trial) streams(ctx context.Context, b llm.Backend) (string, error) {
	var first, last time.Time
	pieces, size := 0, 0
	began := time.Now()
	resp, err := b.Chat(ctx, ask("Count from 1 to 20. Write only the numbers."), func(c llm.Chunk) {
		if last = time.Now(); pieces == 0 {
			first = last
		}
		pieces++
		size += tokens.Estimate(c.Text + c.Thinking)
	})
	switch {
	case err != nil:
		return "", err
	case pieces == 0:
		return "", errors.New("the answer is empty")
	}
	before, during := first.Sub(began), last.Sub(first)
	t.FirstTokenMS = before.Milliseconds()
	text := "first token after " + seconds(before)
	switch count := cmp.Or(resp.Usage.OutputTokens, size); {
	case pieces == 1, during < burst && before > time.Second:
		return "", errors.New("it came at once, after " + seconds(before))
	case during < burst: // too short to measure
		return text + ", the rest at once", nil
	default:
		t.TokensPerSecond = float64(count-1) / during.Seconds()
		return text + fmt.Sprintf(", then %.1f tokens a second", t.TokensPerSecond), nil
	}
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }
