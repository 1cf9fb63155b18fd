package definition

import (
	"encoding/json"
	"slices"
	"strings"

	"qq/pkg/task"
)

// Agent is what an agent says about its servers.
type Agent struct {
	From     string          // the file or the name of the agent, for messages
	Servers  json.RawMessage // names, definitions by name, or a list of both; nil is none
	Distrust bool            // nobody trusts the file yet: definitions in it do not count, names do
}

// Resolve returns the servers of an agent in their order, and an error for each that cannot be had. A name is looked
// for in files in their order. A server that nobody trusts does not count: the next file may have another one of that
// name.
func Resolve(a Agent, files ...File) (servers []Server, problems []error, warnings []string) {
	r := resolver{agent: a, files: files, seen: map[string]bool{}}
	from := place(a.From)
	hint := "give names, or definitions by name"
	var items []json.RawMessage
	switch text := strings.TrimSpace(string(a.Servers)); {
	case text == "" || text == "null":
	case len(text) > MaxFile:
		r.fail(task.Hinted("define them in .mcp.json", "mcp_servers of %s has more than %d bytes", from, MaxFile))
	case valid(a.Servers) != nil:
		r.fail(task.Hinted(hint, "mcp_servers of %s %w", from, valid(a.Servers)))
	case json.Unmarshal(a.Servers, &items) == nil:
	default:
		items = []json.RawMessage{a.Servers}
	}
	for i, item := range items {
		if i == maxServers {
			r.fail(task.Hinted("name fewer", "mcp_servers of %s has more than %d servers", from, maxServers))
			break
		}
		var name string
		if json.Unmarshal(item, &name) == nil && string(item) != "null" {
			r.named(name)
			continue
		}
		all, err := members(item)
		if err != nil {
			r.fail(task.Hinted(hint, "mcp_servers of %s: an entry that is no name %w", from, err))
		}
		for _, m := range all[:min(len(all), maxServers)] {
			r.defined(m)
		}
		if len(all) > maxServers {
			r.fail(task.Hinted("define fewer", "mcp_servers of %s defines more than %d servers", from, maxServers))
		}
	}
	return r.servers, r.problems, r.warnings
}

// resolver collects the servers of one agent.
type resolver struct {
	agent    Agent
	files    []File
	seen     map[string]bool
	servers  []Server
	problems []error
	warnings []string
}

func (r *resolver) fail(err error) { r.problems = append(r.problems, err) }

// again reports whether name came before, which is an error.
func (r *resolver) again(name string) bool {
	if r.seen[name] {
		r.fail(task.Hinted("name it once", "mcp_servers of %s has %s twice", place(r.agent.From), quote(name)))
		return true
	}
	r.seen[name] = true
	return false
}

// defined adds a server that the agent defines itself.
func (r *resolver) defined(m member) {
	if r.again(m.name) {
		return
	}
	s, warnings, err := server(m, r.agent.From)
	r.warnings = append(r.warnings, warnings...)
	switch {
	case err != nil:
		r.fail(err)
	case r.agent.Distrust:
		r.fail(distrusted(s))
	default:
		r.servers = append(r.servers, s)
	}
}

// named adds the first server of that name that somebody trusts.
func (r *resolver) named(name string) {
	if r.again(name) {
		return
	}
	var why error
	var known []string
	for _, f := range r.files {
		i := slices.IndexFunc(f.Servers, func(s Server) bool { return s.Name == name })
		switch wrong := f.Wrong[name]; {
		case i >= 0 && !f.Distrust:
			r.servers = append(r.servers, f.Servers[i])
			return
		case wrong != nil && !f.Distrust:
			r.fail(wrong)
			return
		case i >= 0 && why == nil:
			why = distrusted(f.Servers[i])
		case wrong != nil && why == nil:
			why = wrong
		}
		for _, s := range f.Servers {
			known = append(known, s.Name)
		}
	}
	if why == nil {
		hint := "define it in .mcp.json, or in mcp.json of your settings"
		if slices.Sort(known); len(known) > 0 {
			hint += "; known here: " + task.Shorten(strings.Join(slices.Compact(known), ", "), 300)
		}
		why = task.Hinted(hint, "%s names the MCP server %s, which is not defined", place(r.agent.From), quote(name))
	}
	r.fail(why)
}

// distrusted returns why a server does not count yet.
func distrusted(s Server) error {
	return s.wrong("qq trust shows it, and asks", "nobody trusts that file yet")
}
