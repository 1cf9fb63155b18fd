package claude

import (
	"cmp"
	"context"
	"encoding/json"
	"net/url"
	"slices"
	"strings"

	"qq/internal/foreign/wire"
	"qq/pkg/tool"
)

// hookID names the hook of qq.
const hookID = "qq"

// request answers a request of the program.
func (c *conversation) request(l line) {
	var r struct {
		Subtype string          `json:"subtype"`
		Tool    string          `json:"tool_name"`
		Input   json.RawMessage `json:"input"`
		CallID  string          `json:"tool_use_id"`
	}
	if json.Unmarshal(l.Request, &r) != nil {
		c.reply(l.RequestID, nil, "the request cannot be read")
		return
	}
	switch r.Subtype {
	case "hook_callback":
		// Somebody is to be asked, whatever the settings of the program say.
		c.later(func() {
			c.reply(l.RequestID, map[string]any{"hookSpecificOutput": map[string]any{
				"hookEventName": "PreToolUse", "permissionDecision": "ask",
				"permissionDecisionReason": "qq decides",
			}}, "")
		})
	case "can_use_tool":
		ctx, cancel := context.WithCancel(c.ctx)
		c.asked.mu.Lock()
		c.asked.cancel[l.RequestID] = cancel
		c.asked.mu.Unlock()
		ok := c.later(func() {
			defer c.withdraw(l.RequestID)
			d := c.to.Ask(ctx, Question(r.Tool, r.CallID, r.Input))
			if ctx.Err() != nil {
				return // nobody waits for the answer
			}
			c.decide(l.RequestID, r.Input, d)
		})
		if !ok {
			c.withdraw(l.RequestID)
			c.decide(l.RequestID, r.Input, tool.Decision{Reason: "too many questions at once"})
		}
	default:
		c.later(func() { c.reply(l.RequestID, nil, "qq does not know this request") })
	}
}

// later runs do without keeping the stream from being read. It returns false if too much is under way.
func (c *conversation) later(do func()) bool {
	select {
	case c.slots <- struct{}{}:
	default:
		return false
	}
	c.open.Go(func() {
		defer func() { <-c.slots }()
		do()
	})
	return true
}

// withdraw ends a question that is open.
func (c *conversation) withdraw(id string) {
	c.asked.mu.Lock()
	defer c.asked.mu.Unlock()
	if cancel := c.asked.cancel[id]; cancel != nil {
		cancel()
		delete(c.asked.cancel, id)
	}
}

// decide tells the program whether it may make a call.
func (c *conversation) decide(id string, input json.RawMessage, d tool.Decision) {
	if d.Allowed {
		c.reply(id, map[string]any{"behavior": "allow", "updatedInput": input}, "")
		return
	}
	c.reply(id, map[string]any{"behavior": "deny", "message": cmp.Or(d.Reason, "it was not allowed")}, "")
}

// reply answers the request with that id, with an error unless that is empty.
func (c *conversation) reply(id string, with map[string]any, problem string) {
	r := map[string]any{"subtype": "success", "request_id": id, "response": with}
	if problem != "" {
		r = map[string]any{"subtype": "error", "request_id": id, "error": problem}
	}
	c.send(map[string]any{"type": "control_response", "response": r})
}

// harmless are tools that change nothing and read nothing but what the program itself has made. What a sub-agent of the
// program does, it asks for again.
var harmless = []string{
	"Task", "Agent", "TodoWrite", "TaskCreate", "TaskGet", "TaskList", "TaskUpdate", "TaskOutput", "TaskStop",
	"BashOutput", "KillShell", "KillBash", "Skill", "SlashCommand", "ToolSearch", "StructuredOutput", "ReportFindings",
	"SendMessage",
}

// Question returns what a call of that tool of Claude Code does.
func Question(name, callID string, input json.RawMessage) wire.Question {
	var in struct {
		File     string `json:"file_path"`
		Notebook string `json:"notebook_path"`
		Path     string `json:"path"`
		Pattern  string `json:"pattern"`
		Content  string `json:"content"`
		Source   string `json:"new_source"`
		Old      string `json:"old_string"`
		New      string `json:"new_string"`
		Edits    []struct {
			Old string `json:"old_string"`
			New string `json:"new_string"`
		} `json:"edits"`
		Command string `json:"command"`
		URL     string `json:"url"`
		Query   string `json:"query"`
	}
	bad := json.Unmarshal(input, &in) != nil // then the fields that it has say nothing
	q := wire.Question{CallID: callID, Tool: name, Effect: tool.Executes, Preview: string(input)}
	path := cmp.Or(in.File, in.Notebook, in.Path)
	if bad {
		return q
	}
	switch name {
	case "Read", "Glob", "Grep", "LS", "NotebookRead":
		q.Effect, q.Summary = tool.Reads, strings.TrimSpace(name+" "+path+" "+in.Pattern)
	case "Edit", "MultiEdit", "Write", "NotebookEdit":
		q.Effect, q.Preview = tool.Writes, in.Content+in.Source
		for _, e := range append(in.Edits, struct {
			Old string `json:"old_string"`
			New string `json:"new_string"`
		}{in.Old, in.New}) {
			q.Preview += marked("-", e.Old) + marked("+", e.New)
		}
	case "Bash":
		q.Command, q.Preview = in.Command, in.Command
	case "WebFetch":
		q.Effect, q.Preview = tool.Network, in.URL
		if u, err := url.Parse(in.URL); err == nil {
			q.Host = u.Host
		}
	case "WebSearch":
		q.Effect, q.Summary, q.Preview = tool.Network, "search the web: "+in.Query, in.Query
	default:
		if slices.Contains(harmless, name) {
			q.Effect = tool.Reads
		}
	}
	if path != "" && (q.Effect == tool.Reads || q.Effect == tool.Writes) {
		q.Paths = []string{path}
	}
	return q
}

// marked returns the lines of text, each behind a mark.
func marked(mark, text string) (out string) {
	if text == "" {
		return ""
	}
	var b strings.Builder
	for l := range strings.Lines(text) {
		b.WriteString(mark + l)
	}
	return strings.TrimSuffix(b.String(), "\n") + "\n"
}
