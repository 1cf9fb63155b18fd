package delegate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"qq/pkg/task"
	"qq/pkg/tool"
)

const (
	// minID is how many characters of a child's id a model must give at least. Ids made at about the same time
	// begin alike, so mostly their end tells them apart.
	minID = 4
	// maxWait is the longest timeout of wait_children, in seconds: a day.
	maxWait = 24 * 3600
)

// childrenTools returns the tools that manage background children.
func (g delegation) childrenTools() tool.Set {
	return tool.Set{
		tool.Function{Do: tool.TextOnly(g.listChildren), About: tool.Spec{Name: "list_children", Effect: tool.Attends,
			Description: `List your children in the background: id, status, agent, task.`,
			Parameters:  json.RawMessage(noArguments)}},
		tool.Function{Do: tool.TextOnly(g.waitChildren), About: tool.Spec{Name: "wait_children", Effect: tool.Attends,
			Description: `Wait for children in the background, all or those of ids, for at most timeout seconds; ` +
				`answers a JSON array of results. Example: {"ids":["7f3c"],"timeout":60}`,
			Parameters: json.RawMessage(`{"type":"object","properties":{` +
				`"ids":{"type":"array","items":{"type":"string"}},"timeout":{"type":"number"}}}`)}},
		tool.Function{Do: tool.TextOnly(g.terminateChild),
			About: tool.Spec{Name: "terminate_child", Effect: tool.Attends,
				Description: `End a child in the background, with all that it started. Example: {"id":"7f3c"}`,
				Parameters: json.RawMessage(
					`{"type":"object","required":["id"],"properties":{"id":{"type":"string"}}}`)}},
		g.sendTool(),
	}
}

func (g delegation) sendTool() tool.Tool {
	return tool.Function{Do: tool.TextOnly(g.sendMessage), About: tool.Spec{Name: "send_message", Effect: tool.Attends,
		Description: `Send a text to a child in the background, by its id, or to "parent", who started you. ` +
			`It is read before the next model call. Example: {"to":"parent","text":"half done"}`,
		Parameters: json.RawMessage(`{"type":"object","required":["to","text"],"properties":{` +
			`"to":{"type":"string"},"text":{"type":"string"}}}`)}}
}

func (g delegation) listChildren(ctx context.Context, args json.RawMessage) (string, error) {
	if err := tool.Decode(args, tool.Fields{}); err != nil {
		return "", err
	}
	children, err := g.parent.Children(ctx)
	if err != nil {
		return "", err
	}
	if len(children) == 0 {
		return "[no children]", nil
	}
	lines := make([]string, len(children))
	for i, c := range children {
		lines[i] = fmt.Sprintf("%s %s %s: %s", c.ID, c.Status, c.Agent, c.Task)
	}
	return strings.Join(lines, "\n"), nil
}

func (g delegation) waitChildren(ctx context.Context, args json.RawMessage) (string, error) {
	var given, limit json.RawMessage
	if err := tool.Decode(args, tool.Fields{"ids": &given, "timeout": &limit}); err != nil {
		return "", err
	}
	atMost, err := seconds(limit)
	if err != nil {
		return "", err
	}
	names, err := list("ids", given)
	if err != nil {
		return "", err
	}
	children, err := g.parent.Children(ctx)
	if err != nil {
		return "", err
	}
	if len(children) == 0 && len(names) == 0 {
		return "[no children to wait for]", nil
	}
	var ids []string
	for _, n := range names {
		c, err := find(children, n)
		if err != nil {
			return "", err
		}
		if !slices.Contains(ids, c.ID) {
			ids = append(ids, c.ID)
		}
	}
	results, err := g.parent.Wait(ctx, ids, atMost)
	if err != nil {
		return "", collected(results, err)
	}
	text, err := encode(results)
	if err != nil {
		return "", err
	}
	return text + g.unfinished(ctx, children, ids, results), nil
}

// collected returns err with the results collected so far in its text, because a result can be collected only once.
func collected(results []task.Result, err error) error {
	if len(results) == 0 {
		return err
	}
	text, encodeErr := encode(results)
	if encodeErr != nil {
		return err
	}
	return fmt.Errorf("%w\n\nResults so far:\n%s", err, text)
}

// unfinished returns a note that names the children which were waited for and have no result yet, or "". Without
// ids, all children were waited for.
func (g delegation) unfinished(ctx context.Context, children []task.Child, ids []string, results []task.Result) string {
	if now, err := g.parent.Children(ctx); err == nil {
		children = now
	}
	var left []string
	for _, c := range children {
		wanted := len(ids) == 0 || slices.Contains(ids, c.ID)
		if wanted && !slices.ContainsFunc(results, func(r task.Result) bool { return r.ExecutionID == c.ID }) {
			left = append(left, name(c)+" "+string(c.Status))
		}
	}
	if len(left) == 0 {
		return ""
	}
	return "\n[not collected: " + strings.Join(left, ", ") + "]"
}

// seconds decodes the timeout of wait_children; 0 means no timeout.
func seconds(value json.RawMessage) (time.Duration, error) {
	if value == nil {
		return 0, nil
	}
	var text string
	if json.Unmarshal(value, &text) != nil {
		text = string(value)
	}
	n, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err != nil || math.IsNaN(n) || n < 0 || n > maxWait {
		return 0, fmt.Errorf("argument \"timeout\" must be a number of seconds, at most %d", maxWait)
	}
	return time.Duration(n * float64(time.Second)), nil
}

func (g delegation) terminateChild(ctx context.Context, args json.RawMessage) (string, error) {
	var id string
	if err := tool.Decode(args, tool.Fields{"id": &id}); err != nil {
		return "", err
	}
	if id == "" {
		return "", tool.Missing("id")
	}
	c, err := g.running(ctx, id)
	if err != nil {
		return "", err
	}
	if err := g.parent.Terminate(ctx, c.ID); err != nil {
		return "", err
	}
	return fmt.Sprintf("ended %s: wait_children has what it did", name(c)), nil
}

func (g delegation) sendMessage(ctx context.Context, args json.RawMessage) (string, error) {
	var to, text string
	if err := tool.Decode(args, tool.Fields{"to": &to, "text": &text}); err != nil {
		return "", err
	}
	switch {
	case to == "":
		return "", tool.Missing("to")
	case strings.TrimSpace(text) == "":
		return "", tool.Missing("text")
	case len(text) > task.MaxMessage:
		return "", fmt.Errorf("the text is %d bytes long, at most %d: write a file and send its path",
			len(text), task.MaxMessage)
	case !utf8.ValidString(text) || strings.ContainsRune(text, 0):
		return "", errors.New("the text contains a character that is no text")
	}
	if strings.EqualFold(strings.TrimSpace(to), task.Parent) {
		if err := g.parent.Send(ctx, task.Parent, text); err != nil {
			return "", err
		}
		return "sent to the agent that started you", nil
	}
	c, err := g.running(ctx, to)
	if err != nil {
		return "", err
	}
	if err := g.parent.Send(ctx, c.ID, text); err != nil {
		return "", err
	}
	return "sent to " + name(c), nil
}

// running returns the child that id names. It returns an error if there is none or if it has ended.
func (g delegation) running(ctx context.Context, id string) (task.Child, error) {
	children, err := g.parent.Children(ctx)
	if err != nil {
		return task.Child{}, err
	}
	c, err := find(children, id)
	if err == nil && c.Status.Final() {
		err = fmt.Errorf("%s has ended already (%s): collect it with wait_children", name(c), c.Status)
	}
	return c, err
}

// find returns the child with that id. A part of the id is enough: its beginning or its end, if
// only one child matches.
func find(children []task.Child, id string) (task.Child, error) {
	id = strings.TrimSpace(id)
	var meant, known []string
	var found task.Child
	for _, c := range children {
		if c.ID == id {
			return c, nil
		}
		known = append(known, name(c))
		part := strings.ToLower(id)
		whole := strings.ToLower(c.ID)
		if len(id) >= minID && (strings.HasPrefix(whole, part) || strings.HasSuffix(whole, part)) {
			meant, found = append(meant, name(c)), c
		}
	}
	switch {
	case len(meant) == 1:
		return found, nil
	case len(meant) > 1:
		return task.Child{}, fmt.Errorf("%s means several children: %s. Give the whole id",
			id, strings.Join(meant, ", "))
	case len(known) == 0:
		return task.Child{}, fmt.Errorf("there is no child %q: there are none in the background, or their results "+
			"were collected already", task.Shorten(id, 40))
	}
	return task.Child{}, fmt.Errorf("there is no child %q: there are %s",
		task.Shorten(id, 40), strings.Join(known, ", "))
}

func name(c task.Child) string { return c.ID + " (" + c.Agent + ")" }
